"""`gatepost grant`, `policy` and `rule`: the rights of groups, people and roles; why a group may call a tool; and
standing instructions that an agent gets in every turn."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import click

from gatepost.access import grants
from gatepost.access.subjects import MEANINGS, ROOM_PARAM, Subject, find_subject
from gatepost.cli import output
from gatepost.cli.operation_command import CommandRun, call_operation, from_operation, with_arguments
from gatepost.cli.operation_runner import home_of
from gatepost.core.errors import Invalid, did_you_mean
from gatepost.core.home import Home
from gatepost.serve.control.answers import to_json
from gatepost.serve.control.arguments.access import (
    AclListItem,
    AddAclRowArgs,
    AddGrantRuleArgs,
    AddRoleMemberArgs,
    AllGrants,
    ChoosePermissionArgs,
    GroupPermission,
    ListGrantsArgs,
    NewGrantRule,
    NewRoleMember,
    PermissionPreview,
    PreviewPermissionArgs,
    RemoveAclRowArgs,
    RemoveGrantRuleArgs,
    RemoveRoleMemberArgs,
    RoleMember,
)
from gatepost.serve.control.declaration import list_declarations
from gatepost.store.rights.acl import OPERATOR, AclRow, GrantRow

if TYPE_CHECKING:
    from gatepost.cli.policy import PolicyReader
    from gatepost.tools.contract import Tool

import json
from pathlib import Path

from gatepost.access.policy import PolicyStep
from gatepost.gate.aliases import ALIASES
from gatepost.gate.call_explanation import BY_TOOL, find_hold
from gatepost.serve.control.arguments.access import (
    AddPinnedRuleArgs,
    CallExplanation,
    ExplainCallArgs,
    ListPinnedRulesArgs,
    NewPinnedRule,
    RemovePinnedRuleArgs,
)
from gatepost.store.sessions.pinned_rules import PinnedRule

CLAIMS = ("folder", "tier", "provider", "platform", "room", "topic", "user")
_SAYS = {"allow": "by", "hold": "once a person agrees by", "deny": "not by"}
CASE_COLUMNS = ("folder", "tool", "args", "expect")


@click.group()
def grant_command() -> None:
    """The rights of groups, people and roles. Works with the gateway up or down, and holds at once.

    \b
        gatepost grant add acme/eng 'schedule_task'            one more tool for this group
        gatepost grant add acme '!speak(jid=discord:*)'        nothing may be said there
        gatepost grant add acme 'hold speak(jid=telegram:*)'   a person must agree first
        gatepost grant add acme 'hold post'                    a person must agree to each call
        gatepost grant add acme 'hold[2] reset_session'        two people must
        gatepost grant allow role:ops mcp:reset_session --scope 'acme/**' --grant-option
        gatepost grant member telegram:user/9 role:ops

    A rule is [!|hold |hold[2] ]tool[(param=glob, !param, param)]; of a group's rules the last that matches wins. In
    place of a tool it may name a subject (speak, hand_out, publish, instruct, change_rights, spend, schedule, erase),
    which is every tool that does it. A denial or a hold above binds everybody below. Rows (allow, deny) are a set in
    which deny wins. `gatepost policy explain` tells the whole.
    """


_ANYWAY = click.option("--anyway", is_flag=True, help="Also if no such tool, parameter or group is known (yet).")


def _check_rule(home: Home, args: dict[str, Any], anyway: bool) -> dict[str, Any]:
    """A misspelt rule matches nothing, and a denial that matches nothing protects nobody."""
    text = args["rule"]
    rule = grants.parse(text)
    if anyway or grants.find_syntax_error(text):
        return args  # said by the one who writes it down
    known = _list_params(home, rule.action)
    for param in rule.params:
        if known and param.name not in known:
            raise Invalid(
                "rule", f"{rule.action} has no parameter {param.name!r}{_render_suggestion(param.name, known)}"
            )
    return args


def _list_params(home: Home, action: str) -> set[str]:
    """Return the parameters that a rule about a tool or a subject may name; none if they are not known."""
    if find_subject(action) is not None:
        return {ROOM_PARAM}
    tool = _check_tool(home, action)
    return {*tool.listed["inputSchema"]["properties"], *tool.former_names, ROOM_PARAM} if tool is not None else set()


@grant_command.command("add")
@from_operation(AddGrantRuleArgs, prepare=_check_rule)
@_ANYWAY
def add_grant_rule(run: CommandRun, made: NewGrantRule, anyway: bool) -> None:
    output.print_line(f"{made.folder}: {made.rule}{'' if made.new else ' holds already'}")
    for gap in made.not_covered:
        output.print_line(f"Not covered: {gap}")


@grant_command.command("choose")
@from_operation(ChoosePermissionArgs)
def choose_permission(run: CommandRun, chosen: GroupPermission) -> None:
    output.print_line(f"{chosen.folder}: {chosen.subject} {chosen.permission}")
    output.print_line(f"Rules: {', '.join(chosen.rules)}" if chosen.rules else "No rule is about it: its tier decides.")


@grant_command.command("preview")
@from_operation(PreviewPermissionArgs)
def preview_permission(run: CommandRun, found: PermissionPreview) -> None:
    output.print_line(found.text)
    output.print_line(f"Rules: {found.exact}")


def _open_policies(home: Home) -> "PolicyReader":
    from gatepost.cli.policy import PolicyReader

    return PolicyReader(home)


def _check_tool(home: Home, name: str) -> "Tool | None":
    """None for a pattern, which may mean what is not there yet."""
    if "*" in name:
        return None
    if name in ALIASES:
        raise Invalid("tool", f"{name!r} is an older name; rules speak of {ALIASES[name].tool!r}")
    tools = _open_policies(home).tools
    if name not in tools:
        raise Invalid("tool", f"there is no tool {name!r}{_render_suggestion(name, [*tools, *Subject])}")
    return tools[name]


def _render_suggestion(name: str, known: Iterable[str]) -> str:
    return did_you_mean(name, known) + " (--anyway writes it down all the same)"


def _check_row(home: Home, given: dict[str, Any], anyway: bool) -> dict[str, Any]:
    if anyway:
        return given
    principal, action = given["principal"], given["action"]
    known = _list_params(home, action.removeprefix("mcp:")) if action.startswith("mcp:") else set()
    rights = {"op:*", *(f"op:{each.info.right}" for each in list_declarations())} if action.startswith("op:") else ()
    if rights and action not in rights:
        raise Invalid("action", f"no operation needs {action!r}{_render_suggestion(action, rights)}")
    for param in grants.parse_params(given["predicate"]) or ():
        if param.name not in CLAIMS:
            raise Invalid("--when", f"nothing is called {param.name!r}{_render_suggestion(param.name, CLAIMS)}")
    for param in grants.parse_params(given["params"]) or ():
        if known and param.name not in known:
            raise Invalid(
                "--params", f"{action} has no parameter {param.name!r}{_render_suggestion(param.name, known)}"
            )
    space, colon, rest = principal.partition(":")
    if not colon and principal != "**":
        raise Invalid("principal", f"{principal!r}; write folder:acme/eng, role:ops or telegram:user/9")
    if rest == "*" and space not in ("folder", "role"):
        raise Invalid("principal", f"{principal!r} means no address with a slash in it; write {space}:** (or --anyway)")
    if space == "folder" and "*" not in rest:
        folders = _open_policies(home).list_folders()
        if rest not in folders:
            raise Invalid("principal", f"there is no group {rest!r}{_render_suggestion(rest, folders)}")
    return given


def print_acl_row(run: CommandRun, made: AclRow, anyway: bool) -> None:
    output.print_line(f"row {made.id}: {made.effect} {made.principal} {made.action} on {made.scope}")


grant_command.command("allow")(from_operation(AddAclRowArgs, prepare=_check_row, deny=False)(_ANYWAY(print_acl_row)))
grant_command.command("deny", help="Deny ACTION to PRINCIPAL, whatever else allows it.")(
    from_operation(AddAclRowArgs, prepare=_check_row, deny=True, grant_option=False, by=OPERATOR)(print_acl_row)
)


@grant_command.command("rm")
@click.argument("what")
@click.argument("rule", required=False)
@click.pass_obj
def remove_grant_rule(home: str | None, what: str, rule: str | None) -> None:
    """Remove a rule (FOLDER RULE) or a row (its number)."""
    if rule is not None:
        removal = call_operation(home_of(home), RemoveGrantRuleArgs, {"folder": what, "rule": rule})
        output.print_line(f"{removal.folder}: {removal.rule} is removed")
        return
    if not what.isdecimal():
        raise click.UsageError("say FOLDER RULE for a rule, or the number of a row (`gatepost grant list`)")
    gone = call_operation(home_of(home), RemoveAclRowArgs, {"id": int(what)})
    output.print_line(f"row {what} is removed: {gone.effect} {gone.principal} {gone.action} on {gone.scope}")


@grant_command.command("member")
@with_arguments(AddRoleMemberArgs)
@click.option("--rm", "remove", is_flag=True, help="End the membership.")
def add_role_member(home: Home, args: dict[str, Any], as_json: bool, remove: bool) -> None:
    done: RoleMember = (
        call_operation(home, RemoveRoleMemberArgs, args) if remove else call_operation(home, AddRoleMemberArgs, args)
    )
    if as_json:
        output.print_json(to_json(done))
        return
    before = " already" if isinstance(done, NewRoleMember) and not done.new else ""
    output.print_line(f"{done.child} is {'no longer ' if remove else ''}a member of {done.role}{before}")


@grant_command.command("list")
@from_operation(ListGrantsArgs)
def list_grants(run: CommandRun, found: AllGrants) -> None:
    output.print_records(GrantRow, found.rules, empty="there are no rules: the tiers decide")
    if found.rows:
        own: dict[str, output.Show] = {
            "effect": lambda row: row.effect + (" (grant option)" if row.grant_option else ""),
            "action": lambda row: row.action + (f"({row.params})" if row.params else ""),
            "granted_by": lambda row: row.granted_by + ("" if row.counts else " (void)"),
        }
        output.print_line("")
        output.print_records(AclListItem, found.rows, own, without=("params", "grant_option", "counts"))
    if not all(each.counts for each in found.rows):
        output.print_line("(void): who gave it cannot give it, so it does not count")
    if found.members:
        output.print_line("")
        output.print_records(RoleMember, found.members)


@click.group()
def policy_command() -> None:
    """Why a group's agent may call a tool, or not."""


@policy_command.command("explain")
@with_arguments(ExplainCallArgs)
def explain_call(home: Home, args: dict[str, Any], as_json: bool) -> None:
    found = _open_policies(home).explain(ExplainCallArgs(**args))
    if as_json:
        output.print_json(to_json(found))
        return
    output.print_records(PolicyStep, found.steps)
    output.print_line(f"\n{render_verdict(found)}")
    for note in found.notes:
        output.print_line(f"Not covered: {note}")


def render_verdict(found: CallExplanation) -> str:
    subject = find_subject(found.tool)
    what = f"call {found.tool}" if subject is None else MEANINGS[subject]
    if not found.allowed:
        return f"{found.folder} may not {what}"
    if subject is None:
        return f"{found.folder} may {what}{', once a person agrees' if _find_hold(found) else ''}"
    tools = {says: [each.text for each in found.steps if (each.source, each.says) == (BY_TOOL, says)] for says in _SAYS}
    named = [f"{_SAYS[says]} {', '.join(names)}" for says, names in tools.items() if names]
    return f"{found.folder} may {what}: {'; '.join(named)}"


def _find_hold(found: CallExplanation) -> str:
    return find_hold(found.steps) if found.allowed else ""


@policy_command.command("test")
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.pass_obj
def test_policy(given_home: str | None, file: Path) -> int:
    """Check a table of cases. FILE has one JSON object a line: folder, tool, args (optional), expect (allow, hold or
    deny).

    \b
        {"folder": "acme/eng", "tool": "send", "args": {"chatJid": "telegram:group/1"}, "expect": "allow"}

    An allowed call that waits for a person is one that is allowed, too; it is named with what holds it.
    """
    policies, wrong, cases = _open_policies(home_of(given_home)), 0, 0
    for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), 1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        cases += 1
        case = _parse_case(file, number, line)
        asked = ExplainCallArgs(folder=case["folder"], tool=case["tool"], arguments=case.get("args") or {})
        told = policies.explain(asked)
        hold, which = _find_hold(told), f"{file.name}:{number}: {case['folder']} {case['tool']}"
        found = "hold" if hold else "allow" if told.allowed else "deny"
        if found == case["expect"]:
            continue
        if (found, case["expect"]) == ("hold", "allow"):
            output.print_line(f"{which}: allow, once a person agrees ({hold})")
            continue
        wrong += 1
        deciding = next((f"{s.source}: {s.text}" for s in reversed(told.steps) if s.says == found), "tier: ")
        output.print_line(f"{which}: {found}, not {case['expect']} ({deciding})")
    output.print_line(f"{cases - wrong} of {cases} cases hold")
    return 1 if wrong or not cases else 0


def _parse_case(file: Path, number: int, line: str) -> dict[str, Any]:
    try:
        case = json.loads(line)
    except ValueError as error:
        raise Invalid("FILE", f"{file.name}, line {number} is no JSON: {error}") from None
    if (
        not isinstance(case, dict)
        or not set(case) <= set(CASE_COLUMNS)
        or not {"folder", "tool", "expect"} <= set(case)
    ):
        raise Invalid("FILE", f"{file.name}, line {number} needs folder, tool and expect, and may have args")
    if case["expect"] not in ("allow", "hold", "deny"):
        raise Invalid("FILE", f"{file.name}, line {number}: expect is allow, hold or deny")
    return case


@click.group()
def rule_command() -> None:
    """Pinned rules: words that an agent has in every conversation, also after a compaction.

    They are told to the agent and enforce nothing; `gatepost grant` says what it may do.
    """


@rule_command.command("add")
@from_operation(AddPinnedRuleArgs)
def add_rule(run: CommandRun, made: NewPinnedRule) -> None:
    if not made.new:
        output.print_line(f"rule {made.id} says so to {made.folder}{_render_rule_place(made)} already")
        return
    output.print_line(f"rule {made.id} is pinned for {made.folder}{_render_rule_place(made)}, from its next turn on")


@rule_command.command("list")
@from_operation(ListPinnedRulesArgs)
def list_rules(run: CommandRun, found: list[PinnedRule]) -> None:
    empty = "nothing is pinned; `gatepost rule add FOLDER TEXT` pins a rule"
    output.print_records(PinnedRule, found, empty=empty, gives=("rule",))


@rule_command.command("rm")
@from_operation(RemovePinnedRuleArgs)
def remove_rule(run: CommandRun, gone: PinnedRule) -> None:
    output.print_line(f"rule {gone.id} of {gone.folder}{_render_rule_place(gone)} is removed")


def _render_rule_place(rule: PinnedRule) -> str:
    return f" in {rule.address}" if rule.address else ""
