"""Prints the pages that come from code: `make docs`. With --check says which of them are not as they would be printed.

Everything is loaded from the package alone: no home's plug-ins, no home's values.
"""

import importlib
import json
import pkgutil
import re
import sys
import tempfile
from pathlib import Path
from typing import Any, get_args, get_origin

import click
import yaml

import agent_tables
import channel_tables
import shared_files
from gatepost import declarations
from gatepost.access.subjects import MEANINGS, Subject
from gatepost.access.tiers import Tier
from gatepost.channels.slack.render import render_slash_commands
from gatepost.cli.commands.settings import render_markdown
from gatepost.cli.program import gatepost as program
from gatepost.core.clock import SystemClock
from gatepost.flow.intake.slash_commands import CommandAction, CommandRight, list_native_commands, list_specs
from gatepost.sandboxes.enforcement import HostCapabilities, list_limits
from gatepost.serve.agents import mcp_servers
from gatepost.serve.agents.management import NAME, make_management_tools
from gatepost.serve.agents.mcp_servers import MANAGEMENT_PATH
from gatepost.serve.agents.service import AgentService
from gatepost.serve.control.contract import OPERATIONS
from gatepost.serve.control.declaration import OperationArgs, list_inputs
from gatepost.serve.control.openapi import make_openapi
from gatepost.serve.metric_table import render_table
from gatepost.store.engine.migrate import list_definitions, list_migrations, migrate, render_schema
from gatepost.store.migrations import RELEASES
from gatepost.store.postgres.dialect import render_postgres_schema
from gatepost.tools.contract import TOOLS, Tool, ToolScope
from gatepost_testing import platform_rules as rules_package
from gatepost_testing.platform_rules.rule import PlatformRule

ROOT = Path(__file__).resolve().parent.parent
DOCS, SHARED = ROOT / "docs", ROOT / "ops" / "share"


def schemas() -> dict[str, str]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "gatepost.db")
        migrate(path, SystemClock())
        return {
            "schema.sql": render_schema(path),
            "schema.postgres.sql": render_postgres_schema(list_definitions(path)),
        }


TOOLS_HEAD = """# Tools

Printed from the declarations by `make docs`; do not edit. An agent reaches the world through these alone, and through
the tools of [connectors](connectors.md), which no page can know. *Down to tier* names the deepest place in the tree
that has a tool by default; `gatepost tools F` shows what the group F has. The text is what the model reads.

## What a turn starts with

A new conversation lists a dozen tools, the *core*: {core}. Everything else that the group may call is found by
`find_tools`. What was found joins the list of the conversation: the client is told by
`notifications/tools/list_changed`, and it is there after a restart. A client that does not follow changes uses
`call_tool`.

- What is listed and what may be called are two things: any tool that the group has is called by its name at any time.
- A call by `call_tool` is the call itself. Rules, holds, approvals, budgets and the audit are those of the tool that it
  names. A rule that names `call_tool` holds as well.
- A new conversation (`/new`, `reset_session`) starts with the core again. A list has at most 40 tools besides the core.
- `gatepost group set FOLDER options.tool_groups=all` restores the whole list for a group, the setting
  `tools.groups = ["all"]` for all ([permissions](permissions.md#cutting-the-list)). `gatepost tools` and
  `/mcp/groups/<folder>` list everything.
- `gatepost prompt show FOLDER` tells what a turn costs before a word is said, by part.

## Names of parameters

The room of a call is `chatJid`. It may always be left out, except where a message goes to another room by nature
(`forward`): then it is the room of the turn. `chat_jid`, `targetJid`, `target_jid`, `jid` and `room` mean the same, and
rules may go on using the name that a tool had before (`targetJid` of `schedule_task` and `forward`, `chat_jid` of the
tools for history).

## What every call may be answered

The first is an error of the protocol, with the code -32602. The others are results with `isError`, which clients show
to the model.

| answer | when | in the audit |
|---|---|---|
| `Unknown tool: NAME` | there is none, or this group does not have it: which, is not told | `unknown` or `refused` |
| `Invalid arguments for NAME: …` | one is missing, unknown or does not fit; it and the others are named | `invalid` |
| `FIELD: …` | an argument fits and cannot be meant | `invalid` |
| `F may not NAME on TARGET: …` | a check, or a rule for these arguments, says no | `refused` |
| `unsupported: NAME on PLATFORM` | the channel cannot; a hint names a call that works | `failed` |
| `… is unavailable: …`, `no … named …` | somebody is away, or something is not there | `failed` |
| `NAME: internal error; …` | the tool broke; the operator's log has it | `broken` |

The checks of a tool come in this order: it is seen, it is granted for these arguments, what it names is within reach, a
person has agreed, the budget is not spent."""


def tools() -> str:
    known = [TOOLS[name] for name in TOOLS]
    core = ", ".join(f"`{tool.name}`" for tool in known if tool.core)
    out = TOOLS_HEAD.replace("{core}", core).splitlines()
    out += ["", *_list_subjects(known)]
    for group in sorted({tool.group for tool in known}):
        out += ["", f"## {group}"]
        for tool in known:
            if tool.group == group:
                out += ["", *_tool(tool)]
    return "\n".join(out) + "\n"


SUBJECTS_HEAD = """## What tools do outside

Rules may name a subject in place of a tool ([permissions](permissions.md#subjects)). A tool that is not named here only
reads, or changes its own session alone. A connector's tool has the effects that the operator declares, else all.

| subject | tools that |
|---|---|"""


def _list_subjects(known: list[Tool]) -> list[str]:
    rows = []
    for subject in Subject:
        named = ", ".join(f"`{tool.name}`" for tool in known if subject in tool.effects.subjects)
        rows.append(f"| `{subject}` | {MEANINGS[subject]}: {named} |")
    return [*SUBJECTS_HEAD.splitlines(), *rows]


MCP_HEAD = """# The tools of the servers for agents

Printed from the declarations by `make docs`; do not edit. [Agents as a service](agents.md) tells how to reach the two
servers and how it all belongs together. What a call may be answered stands in [Tools](tools.md), as do the tools of a
group, which are served at `/mcp/groups/<folder>`. The text is what the model reads."""


def mcp() -> str:
    managed = make_management_tools(
        AgentService.__new__(AgentService)
    )  # they are described here, and nobody calls them
    servers = {
        f"`{MANAGEMENT_PATH}`: {NAME}": [managed[name] for name in managed],
        f"`{mcp_servers.SELF_PATH}`: {mcp_servers.SELF_NAME}": [TOOLS[name] for name in mcp_servers.SELF_TOOLS],
    }
    out = MCP_HEAD.splitlines()
    for title, tools in servers.items():
        out += ["", f"## {title}"]
        for tool in tools:
            out += ["", *_tool(tool, tiers=False)]
    return "\n".join(out) + "\n"


def _tool(tool: Tool, *, tiers: bool = True) -> list[str]:
    hints = tool.listed["annotations"]
    words = [f"Down to tier {int(tool.tier)} ({Tier(tool.tier).name.lower()})"] if tiers else []
    words += ["core"] if tool.core and tiers else []
    words += [text for hint, text in HINTS.items() if hints.get(hint)]
    words += [", ".join(f"`{each}`" for each in sorted(tool.effects.subjects))] if tool.effects.subjects else []
    line = " · ".join(words)
    told = [f"{line[0].upper()}{line[1:]}.", ""] if line else []
    out = [f"### {tool.name}", "", *told, *tool.description.splitlines()]
    if checks := _checks(tool):
        out += ["", "Checks:", "", *(f"- {check}" for check in checks)]
    properties: dict[str, Any] = tool.listed["inputSchema"]["properties"]
    if properties:
        required = tool.listed["inputSchema"].get("required", [])
        named = tool.listed["inputSchema"].get("$defs", {})
        out += ["", "| parameter | type | meaning |", "|---|---|---|"]
        out += [_parameter(name, _resolve(facts, named), name in required) for name, facts in properties.items()]
    return out


HINTS = {"readOnlyHint": "only reads", "destructiveHint": "may destroy", "idempotentHint": "twice is once"}


def _checks(tool: Tool) -> list[str]:
    """Return what the gate looks at before the tool runs, besides tier, rules and rows."""
    found = []
    if tool.scope is ToolScope.ROOM:
        rooms = (tool.scoped_by, *tool.also_scoped_by)
        found += [f"`{name}` is a room that the group reaches; left out: the room of the turn" for name in rooms]
    elif tool.about is not None:
        found.append(f"the groups that it is about are within the caller's reach: {tool.within}")
    elif tool.scope is ToolScope.GROUP:
        found.append(f"`{tool.scoped_by}` is a group within the caller's reach: {tool.within}")
    if tool.not_root:
        found.append("root does not have it: there is nobody to do it with")
    if tool.held:
        found.append("a person must agree to each call")
    if tool.spends:
        found.append("costs money: refused when the budget is spent")
    return found


def _resolve(facts: dict[str, Any], named: dict[str, Any]) -> dict[str, Any]:
    """With what a reference stands for."""
    return {**named.get(str(facts.get("$ref")).rpartition("/")[2], {}), **facts}


def _parameter(name: str, facts: dict[str, Any], required: bool) -> str:
    told = [each for each in (facts, *facts.get("anyOf", ())) if each.get("type") != "null"]
    kinds = " or ".join(str(each["type"]) for each in told if "type" in each) or "object"
    kind = next((", ".join(map(str, each["enum"])) for each in told if "enum" in each), kinds)
    bounds = [
        f"{word} {each[key]}"
        for each in told
        for key, word in (("minimum", "from"), ("maximum", "to"), ("minLength", "at least"), ("maxLength", "at most"))
        if key in each
    ]
    default = facts.get("default")
    if default not in (None, "", [], {}):
        bounds.append(f"default {str(default).lower() if isinstance(default, bool) else default}")
    meaning = str(facts.get("description", "")).replace("|", "\\|").replace("\n", " ")
    return f"| `{name}`{'' if required else ' (optional)'} | {', '.join((kind, *bounds))} | {meaning} |"


def commands() -> str:
    out = ["# Commands", "", "Printed from the command line's own help by `make docs`; do not edit.", "", "```"]
    context = click.Context(program, info_name="gatepost", terminal_width=100, **program.context_settings)
    out += [program.get_help(context), "```"]
    for name in program.list_commands(context):
        command = program.get_command(context, name)
        assert command is not None
        out += _command(command, click.Context(command, parent=context, info_name=name))
    return "\n".join(out) + "\n"


def _command(command: click.Command, context: click.Context) -> list[str]:
    out = ["", f"## {context.command_path}", "", "```", command.get_help(context), "```"]
    if isinstance(command, click.Group):
        for name, inner in sorted((name, inner) for name, inner in command.commands.items() if not inner.hidden):
            out += _command(inner, click.Context(inner, parent=context, info_name=name))
    return out


CHAT_COMMANDS_HEAD = """# Commands in chats

Printed from the declarations by `make docs`; do not edit. A message that begins with one of these is judged by the
gateway, each message by itself, also while an agent works. `/help` in a chat lists what its reader may give there.

- `/stop@name` and a mention before the command are understood. A command for another bot's name is not ours.
- Where a platform takes slashes for itself, a backslash is as good: `\\stop`. So is `@bot stop`, on a channel that
  knows what the bot is called.
- `/stop` reaches what runs in the room, also where only a mention or certain words wake the agent. In a thread where
  nothing runs it ends what runs elsewhere in the room for its sender. It waits for no file and no earlier message.
- Telegram, Discord and Slack show these in a menu of their own. Where a name has no hyphen, `_` stands for it.
- A forwarded message is never a command.
- Somebody who may not give a command is told so. A word that is nearly one of these, such as `/sotp`, is answered
  with the name that it is near to, and starts nothing. Any other `/word`, and the name of a skill of the agent, goes to
  the agent as it was typed.

| command | who may give it | what it does |
|---|---|---|"""
WHO = {
    CommandRight.EVERYBODY: "everybody who may speak there",
    CommandRight.MEMBER: "members, admins, owners",
    CommandRight.ADMIN: "admins of the group, owners",
}
ACTS = {CommandAction.PASS: " (the agent's own command)", CommandAction.DROP: ""}


def chat_commands() -> str:
    out = CHAT_COMMANDS_HEAD.splitlines()
    for spec in list_specs():
        usage = f"{spec.head} {spec.usage}".rstrip()
        out.append(f"| `{usage}` | {WHO[spec.right]} | {spec.help}{ACTS.get(spec.act, '')} |")
    return "\n".join(out) + "\n"


OPERATIONS_HEAD = """# Operation reference

Printed from the declarations by `make docs`; do not edit. An operation changes or reads the gateway. Its command, the
control API and the [OpenAPI document](openapi.json) come from one declaration.

- **API:** `POST /v1/ops/<name>` on the control socket, with the arguments as a JSON object. The answer is
  `{"ok": true, "result": …}` or `{"ok": false, "error": {"kind", "text"}}`. `GET /openapi.json` describes all of it.
- **Right:** the operator may run every operation. Any other person needs a row of the access list that allows
  `op:<right>` ([Who may do what](permissions.md#operations)). The scope of the row is the argument marked *scope*, else
  the root.
- **Without a gateway:** the command runs the operation itself while no gateway runs."""
# Operations that a command runs by itself, and those that none runs yet.
OTHER_COMMANDS = {
    "acl.rm": "gatepost grant rm",
    "agent.follow": "gatepost agent attach",
    "agent.models": "gatepost agent models",
    "agent.providers": "gatepost agent models",
    "backup.create": "gatepost backup create",
    "backup.list": "gatepost backup list",
    "backup.prune": "gatepost backup prune",
    "backup.verify": "gatepost backup verify",
    "connect.cancel": "gatepost connect",
    "connect.check": "gatepost connect",
    "connect.install": "gatepost connect",
    "connect.list": "gatepost connect",
    "connect.keep": "gatepost connect",
    "connect.local": "gatepost connect local",
    "connect.probe": "gatepost connect local",
    "connect.try": "gatepost connect",
    "doctor.run": "gatepost doctor",
    "doctor.security": "gatepost doctor --security",
    "grant.rm": "gatepost grant rm",
    "home.close": "gatepost doctor --fix",
    "logs.tail": "gatepost logs",
    "models.check": "gatepost doctor",
    "panic.off": "gatepost panic",
    "role.rm": "gatepost grant member",
    "sandbox.walls": "gatepost status",
    "secret.bindings": "gatepost secret list",
    "session.list": "gatepost stop",
    "session.stop": "gatepost stop",
    "session.stop_all": "gatepost stop",
    "settings.in_use": "gatepost settings",
    "settings.list": "gatepost settings",
    "skill.agree": "gatepost skill add",
    "skill.read_draft": "gatepost skill add",
}
WITHOUT_COMMAND = {
    "connector.check": "`gatepost doctor` tries every connector",
    "connector.list": "the settings have them; `gatepost doctor` tells how they are",
    "login.set_password": "a password is set on the page, by the person whose it is, soon after they have signed in",
    "login.show": "`gatepost login list` shows the browsers; the page says whether one has a password",
    "memory.file": "`gatepost memory sync` shows it before it asks",
    "permit.show": "`gatepost permit ls --json` has all of each request",
    "policy.tools": "`gatepost tools` lists what a group may call",
    "session.close": "the next message of a conversation is enough for the command line",
    "session.send": "`gatepost chat` speaks in the terminal's own room",
    "skill.card": "`gatepost skill add` shows it before it asks",
    "user.view": "it is about the web page, and begins in a browser",
}


def find_commands() -> dict[str, list[str]]:
    """The commands of each operation."""
    found: dict[str, list[str]] = {name: [path] for name, path in OTHER_COMMANDS.items()}
    context = click.Context(program, info_name="gatepost")
    waiting = [(f"gatepost {name}", program.get_command(context, name)) for name in program.list_commands(context)]
    while waiting:
        path, command = waiting.pop(0)
        declared = getattr(command.callback, "operation", None) if command else None
        if declared is not None:
            found.setdefault(declared.info.name, []).append(path)
        if isinstance(command, click.Group):
            waiting += [(f"{path} {name}", each) for name, each in command.commands.items() if not each.hidden]
    return found


def operations() -> str:
    out, commands = OPERATIONS_HEAD.splitlines(), find_commands()
    schemas: dict[str, Any] = make_openapi(OPERATIONS)["components"]["schemas"]
    subject = ""
    for name, each in OPERATIONS.items():
        if subject != (subject := name.partition(".")[0]):
            out += ["", f"## {subject}"]
        offline = "works without a gateway" if each.info.offline else "needs a running gateway"
        shown = ", ".join(f"`{path}`" for path in commands.get(name, ())) or "no command"
        out += [
            "",
            f"### {name}",
            "",
            _escape(each.summary),
            "",
            f"Right `op:{each.info.right}` · {offline} · {shown}.",
        ]
        if each.args.get_scope is not OperationArgs.get_scope:
            out += ["", str(each.args.get_scope.__doc__)]
        fields = list_inputs(each.args)
        given = schemas[each.args.__name__]["properties"] if fields else {}
        if fields:
            out += ["", "| argument | type | meaning |", "|---|---|---|"]
        for field in fields:
            marks = [mark for mark in ("scope", "secret") if getattr(field.spec, mark)]
            shown = [f"For example: {', '.join(f'`{each}`' for each in field.examples)}."] if field.examples else []
            meaning = " ".join([_escape(field.description), *shown, *(f"*{mark}*" for mark in marks)])
            facts = {**_find_facts(given, field.name, schemas), "description": meaning}
            out.append(_parameter(field.name, facts, field.required))
        out += ["", f"Answer: {_answer(each.result, schemas)}."]
    return "\n".join(out) + "\n"


def _find_facts(given: dict[str, Any], name: str, schemas: dict[str, Any]) -> dict[str, Any]:
    """The schema of an argument, or of a setting of a change: `values.name`."""
    first, _, rest = name.partition(".")
    found = _resolve(given[first], schemas)
    return _find_facts(found["properties"], rest, schemas) if rest else found


def _escape(text: str) -> str:
    return text.replace("<", "&lt;").replace("*", "\\*")


def _answer(kind: Any, schemas: dict[str, Any]) -> str:
    many = get_origin(kind) is list
    name = (get_args(kind)[0] if many else kind).__name__
    shown = ", ".join(f"`{field}`" for field in schemas.get(name, {}).get("properties", {})) or "an object"
    return f"a list of {shown}" if many else shown


EXAMPLE = re.compile(r"(<!-- (examples/\w+\.py) -->\n```python\n).*?(```\n)", re.DOTALL)


def extend() -> dict[str, str]:
    """The pages that show an example, with the example as it is."""

    def fill(found: re.Match[str]) -> str:
        return found[1] + (DOCS / "extend" / found[2]).read_text(encoding="utf-8") + found[3]

    texts = {path: path.read_text(encoding="utf-8") for path in sorted((DOCS / "extend").glob("*.md"))}
    return {f"extend/{path.name}": EXAMPLE.sub(fill, text) for path, text in texts.items() if EXAMPLE.search(text)}


LIMITS = re.compile(r"(<!-- limits: .*? -->\n).*?(<!-- end of limits -->\n)", re.DOTALL)
WAYS = {
    "root, cgroups": HostCapabilities(
        root=True, memory_cgroup=True, cpu_cgroup=True, own_uids=True, refuses_descriptors=True
    ),
    "root, none": HostCapabilities(root=True, own_uids=True, refuses_descriptors=True),
    "user, cgroups": HostCapabilities(root=False, memory_cgroup=True, cpu_cgroup=True, refuses_descriptors=True),
    "user, none": HostCapabilities(root=False, refuses_descriptors=True),
}


def security() -> str:
    """The page on security with its table of limits: a column for each kind of sandbox and way of running it."""
    columns = {f"bubblewrap: {way}": list_limits("bubblewrap", machine) for way, machine in WAYS.items()}
    columns |= {"podman, docker": list_limits("podman", WAYS["root, cgroups"])}
    columns |= {"process": list_limits("process", WAYS["root, cgroups"])}
    out = [f"| limit | {' | '.join(columns)} |", f"|---{'|---' * len(columns)}|"]
    for row in zip(*columns.values(), strict=True):
        assert len({fact.limit for fact in row}) == 1
        out.append(f"| {row[0].limit} | {' | '.join(fact.hold for fact in row)} |")
    text = (DOCS / "security.md").read_text(encoding="utf-8")
    return LIMITS.sub(lambda found: found[1] + "\n" + "\n".join(out) + "\n\n" + found[2], text)


RELEASED = re.compile(r"(<!-- releases: .*? -->\n).*?(<!-- end of releases -->\n)", re.DOTALL)


def operations_page() -> str:
    """The page on operations with its table of versions, and to which of them each can go back."""
    numbers = {version: int(step[:4]) for version, step in RELEASES.items()}
    numbers |= {"this one": list_migrations()[-1].number}
    out = ["| version | schema | oldest version that opens its store |", "|---|---|---|"]
    for version, number in numbers.items():
        oldest = next(each for each, other in numbers.items() if other == number)
        out.append(f"| {version} | {number} | {oldest} |")
    text = (DOCS / "operations.md").read_text(encoding="utf-8")
    return RELEASED.sub(lambda found: found[1] + "\n" + "\n".join(out) + "\n\n" + found[2], text)


MEASURED = re.compile(r"(<!-- metrics: .*? -->\n).*?(<!-- end of metrics -->\n)", re.DOTALL)
RULES = re.compile(r"(<!-- rules: .*? -->\n).*?(<!-- end of rules -->\n)", re.DOTALL)


def monitoring() -> str:
    """The page on monitoring with its tables of metrics and of alerts."""
    text = (DOCS / "monitoring.md").read_text(encoding="utf-8")
    text = MEASURED.sub(lambda found: f"{found[1]}\n{render_table()}\n{found[2]}", text)
    rules = yaml.safe_load((DOCS.parent / "ops" / "prometheus" / "gatepost.rules.yml").read_text(encoding="utf-8"))
    out = ["| alert | severity | tells | after |", "|---|---|---|---|"]
    for each in (rule for group in rules["groups"] for rule in group["rules"] if "alert" in rule):
        told = re.sub(r"{{ (?:\$labels\.)?\$?(\w+).*? }}", r"*\1*", each["annotations"]["summary"])
        out.append(f"| `{each['alert']}` | {each['labels']['severity']} | {told} | {each.get('for', 'at once')} |")
    table = "\n".join(out)
    return RULES.sub(lambda found: f"{found[1]}\n{table}\n\n{found[2]}", text)


SLASH_COMMANDS = re.compile(r"(  slash_commands:\n)(?:    - .*\n)*")


def slack() -> str:
    """The page of Slack, whose manifest lists the commands of chats."""
    text = (DOCS / "channels" / "slack.md").read_text(encoding="utf-8")
    return SLASH_COMMANDS.sub(lambda found: found[1] + render_slash_commands(list_native_commands()), text)


RULES_HEAD = """# Rules of the platforms

Printed from `gatepost_testing/platform_rules` by `make docs`; do not edit. Each line is something that a platform
refuses. The emulator of the platform refuses it by this name, in the platform's own words, and
`tests/testing/platform_rules/test_rule.py` makes each of these wrong calls. *Compared* is the day on which somebody
held the rule against its source. A rule without one is as libraries and earlier emulators have it. *Adapter* is where
our code keeps the rule; empty where it never makes such a call.
"""


def platform_rules() -> str:
    names = sorted(each.name for each in pkgutil.iter_modules(rules_package.__path__) if each.name != "rule")
    known: dict[str, tuple[PlatformRule, ...]] = {
        name: importlib.import_module(f"{rules_package.__name__}.{name}").RULES for name in names
    }
    out = [RULES_HEAD, "| platform | rules, all enforced | compared | kept by the adapter |", "|---|---|---|---|"]
    for kind, rules in known.items():
        compared, kept = sum(bool(each.read_on) for each in rules), sum(bool(each.adapter) for each in rules)
        out.append(f"| [{kind}](#{kind}) | {len(rules)} | {compared} | {kept} |")
    for kind, rules in known.items():
        out += ["", f"## {kind}", "", "| rule | refused with | source | compared | adapter |", "|---|---|---|---|---|"]
        for each in rules:
            refusal = _cell(f"{each.status} {each.refusal}" if each.status else each.refusal)
            adapter = f"`{_cell(each.adapter)}`" if each.adapter else ""
            out.append(f"| {_cell(each.name)} | {refusal} | {_cell(each.source)} | {each.read_on} | {adapter} |")
    return "\n".join(out) + "\n"


def _cell(text: str) -> str:
    return " ".join(text.replace("|", "\\|").replace("<", "&lt;").split())


def pages() -> dict[Path, str]:
    declarations.load_package()
    printed = {
        "settings.md": render_markdown(),
        "tools.md": tools(),
        "mcp.md": mcp(),
        "commands.md": commands(),
        "chat-commands.md": chat_commands(),
        "operations-reference.md": operations(),
        "openapi.json": json.dumps(make_openapi(OPERATIONS), indent=1, ensure_ascii=False) + "\n",
        **schemas(),
        "security.md": security(),
        "operations.md": operations_page(),
        "monitoring.md": monitoring(),
        "channels/slack.md": slack(),
        "platform-rules.md": platform_rules(),
        "channels.md": channel_tables.fill_page((DOCS / "channels.md").read_text(encoding="utf-8")),
        "providers.md": agent_tables.fill_page((DOCS / "providers.md").read_text(encoding="utf-8")),
    }
    texts = {DOCS / name: text for name, text in (printed | extend()).items()}
    return texts | {SHARED / name: text for name, text in shared_files.list_files().items()}


def main() -> int:
    check = "--check" in sys.argv[1:]
    stale = []
    for path, text in pages().items():
        if path.is_file() and path.read_text(encoding="utf-8") == text:
            continue
        stale.append(path.relative_to(ROOT))
        if not check:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
    for name in stale:
        print(f"{name} {'is not as printed; `make docs` prints it anew' if check else 'printed'}")
    return 1 if check and stale else 0


if __name__ == "__main__":
    sys.exit(main())
