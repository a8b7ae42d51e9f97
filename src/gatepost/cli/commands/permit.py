"""`gatepost permit`: what agents ask before they act."""

import json

import click

from gatepost.cli import show
from gatepost.cli.operate import home_of, operate


@click.group()
def command() -> None:
    """What agents ask before they act, and your answers. Needs a running gateway."""


@command.command("ls")
@click.option("--json", "as_json", is_flag=True, help="A list of objects: agent, request.")
@click.pass_obj
def list_requests(home: str | None, as_json: bool) -> None:
    """List what waits for an answer, the oldest first."""
    found = operate(home_of(home), "permit.list", {})
    if as_json:
        show.as_json(found)
        return
    rows = [
        (
            each["request"]["id"],
            each["agent"]["title"] or each["agent"]["agentId"],
            each["request"]["name"],
            json.dumps(each["request"]["input"], ensure_ascii=False),
        )
        for each in found
    ]
    show.table(("request", "agent", "wants to use", "with"), rows, empty="nobody asks for anything")


_REQUEST = click.argument("request")
_JSON = click.option("--json", "as_json", is_flag=True, help="Print it as JSON.")


@command.command()
@_REQUEST
@_JSON
@click.pass_obj
def allow(home: str | None, request: str, as_json: bool) -> None:
    """Allow it. REQUEST is an id, the beginning of one, or the agent, if it asks one thing only."""
    told = operate(home_of(home), "permit.answer", {"id": request, "allow": True})
    show.as_json(told) if as_json else show.say(f"{told['id']} is allowed")


@command.command()
@_REQUEST
@click.option("--message", default="", help="Why; the agent reads it.")
@click.option("--stop", is_flag=True, help="And end its turn.")
@_JSON
@click.pass_obj
def deny(home: str | None, request: str, message: str, stop: bool, as_json: bool) -> None:
    """Deny it; the agent goes on without. REQUEST is an id, the beginning of one, or the agent that asks."""
    args = {"id": request, "allow": False, "message": message, "interrupt": stop}
    told = operate(home_of(home), "permit.answer", args)
    show.as_json(told) if as_json else show.say(f"{told['id']} is denied")
