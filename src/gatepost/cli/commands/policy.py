"""`gatepost policy`: why a group may call a tool, or not; and whether a table of such cases holds."""

import json
from pathlib import Path
from typing import Any

import click

from gatepost.cli import output
from gatepost.cli.operation_runner import home_of
from gatepost.core.errors import Invalid, NotFound
from gatepost.core.home import Home

COLUMNS = ("folder", "tool", "args", "expect")


@click.group()
def command() -> None:
    """Why a group's agent may call a tool, or not."""


@command.command()
@click.argument("folder")
@click.argument("tool")
@click.option("--args", "arguments", default="{}", metavar="JSON", help="The call's arguments, for rules about them.")
@click.option("--json", "as_json", is_flag=True, help="An object: folder, tool, allowed, steps.")
@click.pass_obj
def explain(given_home: str | None, folder: str, tool: str, arguments: str, as_json: bool) -> None:
    """Print everything that has a say about FOLDER calling TOOL, in its order, and the verdict."""
    told = _explain_call(home_of(given_home), folder, tool, _parse_arguments(arguments))
    if as_json:
        output.print_json(told)
        return
    output.print_table(
        ("who speaks", "what it is", "says"), [(s["source"], s["text"], s["says"]) for s in told["steps"]]
    )
    output.print_line(f"\n{folder} {'may' if told['allowed'] else 'may not'} call {told['tool']}")


@command.command()
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.pass_obj
def test(given_home: str | None, file: Path) -> int:
    """Check a table of cases. FILE has one JSON object a line: folder, tool, args (optional), expect (allow or deny).

    \b
    {"folder": "acme/eng", "tool": "send", "args": {"chatJid": "telegram:group/1"}, "expect": "allow"}
    """
    home, wrong, cases = home_of(given_home), 0, 0
    for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), 1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        cases += 1
        case = _parse_case(file, number, line)
        told = _explain_call(home, case["folder"], case["tool"], case.get("args") or {})
        found = "allow" if told["allowed"] else "deny"
        if found != case["expect"]:
            wrong += 1
            deciding = next((s for s in reversed(told["steps"]) if s["says"] == found), {"source": "tier", "text": ""})
            why = f"{deciding['source']}: {deciding['text']}"
            output.print_line(
                f"{file.name}:{number}: {case['folder']} {case['tool']}: {found}, not {case['expect']} ({why})"
            )
    output.print_line(f"{cases - wrong} of {cases} cases hold")
    return 1 if wrong or not cases else 0


def _parse_case(file: Path, number: int, line: str) -> dict[str, Any]:
    try:
        case = json.loads(line)
    except ValueError as error:
        raise Invalid("FILE", f"{file.name}, line {number} is no JSON: {error}") from None
    if not isinstance(case, dict) or not set(case) <= set(COLUMNS) or not {"folder", "tool", "expect"} <= set(case):
        raise Invalid("FILE", f"{file.name}, line {number} needs folder, tool and expect, and may have args")
    if case["expect"] not in ("allow", "deny"):
        raise Invalid("FILE", f"{file.name}, line {number}: expect is allow or deny")
    return case


def _parse_arguments(text: str) -> dict[str, Any]:
    try:
        read = json.loads(text)
    except ValueError as error:
        raise Invalid("--args", f"is no JSON: {error}") from None
    if not isinstance(read, dict):
        raise Invalid("--args", 'is no object; write it like {"chatJid": "telegram:group/1"}')
    return read


def _explain_call(home: Home, folder: str, name: str, arguments: dict[str, Any]) -> dict[str, Any]:
    """As the gate decides it, for a call outside of any turn."""
    from gatepost.cli.policy import policy_of, tools_of
    from gatepost.gate.aliases import ALIASES
    from gatepost.gate.call_explanation import explain as judged

    tools, policy = tools_of(home), policy_of(home, folder)
    if name in ALIASES and name not in tools:
        arguments, name = ALIASES[name].translate(arguments), ALIASES[name].tool
    tool = tools.get(name)
    if tool is None:
        raise NotFound("tool", name, f"there are: {', '.join(tools)}")
    allowed, steps = judged(tool, policy, arguments)
    return {
        "folder": folder,
        "tool": name,
        "allowed": allowed,
        "steps": [{"source": step.source, "text": step.text, "says": step.says} for step in steps],
    }
