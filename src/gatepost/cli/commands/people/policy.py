"""`gatepost policy`: why a group may call a tool, or not; and whether a table of such cases holds."""

import json
from pathlib import Path
from typing import Any

import click

from gatepost.access.policy import PolicyStep
from gatepost.cli import output
from gatepost.cli.operation_command import with_arguments
from gatepost.cli.operation_runner import home_of
from gatepost.core.errors import Invalid
from gatepost.core.home import Home
from gatepost.serve.control.answers import to_json
from gatepost.serve.control.arguments.access import CallExplanation, ExplainCallArgs

COLUMNS = ("folder", "tool", "args", "expect")


@click.group()
def command() -> None:
    """Why a group's agent may call a tool, or not."""


@command.command()
@with_arguments(ExplainCallArgs)
def explain(home: Home, args: dict[str, Any], as_json: bool) -> None:
    found = _explain(home, ExplainCallArgs(**args))
    if as_json:
        output.print_json(to_json(found))
        return
    output.print_records(PolicyStep, found.steps)
    asks = ", once a person agrees" if found.allowed and any(step.says == "hold" for step in found.steps[-1:]) else ""
    output.print_line(f"\n{found.folder} {'may' if found.allowed else 'may not'} call {found.tool}{asks}")
    for note in found.notes:
        output.print_line(f"Not covered: {note}")


def _explain(home: Home, args: ExplainCallArgs) -> CallExplanation:
    from gatepost.cli.policy import policy_of
    from gatepost.serve.control.operations.access import explain_call, load_tools

    return explain_call(load_tools(home), policy_of(home, args.folder), args)


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
        asked = ExplainCallArgs(folder=case["folder"], tool=case["tool"], arguments=case.get("args") or {})
        told = _explain(home, asked)
        found = "allow" if told.allowed else "deny"
        if found != case["expect"]:
            wrong += 1
            deciding = next((f"{s.source}: {s.text}" for s in reversed(told.steps) if s.says == found), "tier: ")
            output.print_line(
                f"{file.name}:{number}: {case['folder']} {case['tool']}: {found}, not {case['expect']} ({deciding})"
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
