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


@command.command()
@click.argument("request")
@click.pass_obj
def allow(home: str | None, request: str) -> None:
    """Allow it."""
    operate(home_of(home), "permit.answer", {"id": request, "allow": True})
    show.say(f"{request} is allowed")


@command.command()
@click.argument("request")
@click.option("--message", default="", help="Why; the agent reads it.")
@click.option("--stop", is_flag=True, help="And end its turn.")
@click.pass_obj
def deny(home: str | None, request: str, message: str, stop: bool) -> None:
    """Deny it; the agent goes on without."""
    operate(home_of(home), "permit.answer", {"id": request, "allow": False, "message": message, "interrupt": stop})
    show.say(f"{request} is denied")
