"""`gatepost permit`: what agents ask before they act."""

import click

from gatepost.cli import output
from gatepost.cli.operation_runner import home_of, run_operation
from gatepost.cli.timeline_renderer import LONGEST_TOLD, list_consequences, summarize_request
from gatepost.core.errors import Invalid

_WANTS = {"plan": "a plan approved", "question": "an answer"}


@click.group()
def command() -> None:
    """What agents ask before they act, and your answers. Needs a running gateway."""


@command.command("ls")
@click.option("--json", "as_json", is_flag=True, help="A list of objects: agent, request.")
@click.pass_obj
def list_requests(home: str | None, as_json: bool) -> None:
    """List what waits for an answer, the oldest first."""
    found = run_operation(home_of(home), "permit.list", {})
    if as_json:
        output.print_json(found)
        return
    rows = [
        (
            each["request"]["id"],
            each["agent"]["title"] or each["agent"]["agentId"],
            _WANTS.get(each["request"]["kind"]) or f"to use {each['request']['name']}",
            summarize_request(each["request"]),
        )
        for each in found
    ]
    output.print_table(("request", "agent", "wants", "what it says"), rows, empty="nobody asks for anything")
    for each in found:
        if more := list_consequences(each["request"], LONGEST_TOLD):
            output.print_line("\n".join([f"\n{each['request']['id']}:", *(f"  {line}" for line in more)]))


_REQUEST = click.argument("request")
_JSON = click.option("--json", "as_json", is_flag=True, help="Print it as JSON.")


@command.command()
@_REQUEST
@click.option("--answer", "answers", multiple=True, metavar="TEXT", help="To a question; again for each that it has.")
@_JSON
@click.pass_obj
def allow(home: str | None, request: str, answers: tuple[str, ...], as_json: bool) -> None:
    """Allow it, or answer it if it is a question. REQUEST is an id, the beginning of one, or the agent, if it asks one
    thing only."""
    told = run_operation(home_of(home), "permit.answer", {"id": request, "allow": True, "answers": list(answers)})
    if as_json:
        output.print_json(told)
        return
    output.print_line(f"{told['id']} is {'answered' if answers else 'allowed'}")
    for line in list_consequences({"input": {}, **told}):
        output.print_line(line.replace("Allowed, it", "It", 1) if not line.startswith(" ") else line)


@command.command()
@_REQUEST
@click.argument("reason", required=False)
@click.option("--message", default="", help="REASON, said as an option.")
@click.option("--stop", is_flag=True, help="And end its turn.")
@_JSON
@click.pass_obj
def deny(home: str | None, request: str, reason: str | None, message: str, stop: bool, as_json: bool) -> None:
    """Deny it, and say why if you like; the agent goes on without. REQUEST is an id, the beginning of one, or the agent
    that asks."""
    if reason and message:
        raise Invalid("--message", "the reason is there already; say it once")
    args = {"id": request, "allow": False, "message": reason or message, "interrupt": stop}
    told = run_operation(home_of(home), "permit.answer", args)
    output.print_json(told) if as_json else output.print_line(f"{told['id']} is denied")
