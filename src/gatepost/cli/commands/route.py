"""`gatepost route`: which group gets a message."""

from typing import Any

import click

from gatepost.cli import output
from gatepost.cli.operation_command import CommandRun, from_operation
from gatepost.serve.control.arguments.routes import AddRouteArgs, ListRoutesArgs, RemoveRouteArgs, RouteTestArgs

_DECIDED_BY = {
    "engagement": "engagement",
    "choice": "sender's own choice",
    "child": "name before the text",
    "reply": "message that it replies to",
}


@click.group()
def command() -> None:
    """Which group gets a message: ordered rows of match → target. Works with the gateway up or down.

    The first match by (seq, id) wins; a route with --also delivers and lets the next ones match, too. The default
    route has seq 1000.
    """


@command.command()
@from_operation(AddRouteArgs)
def add(run: CommandRun, made: dict[str, Any]) -> None:
    output.print_line(f"route {made['id']} (seq {made['seq']}): {_match(made)} → {made['target']}")


@command.command("list")
@from_operation(ListRoutesArgs)
def list_routes(run: CommandRun, found: list[dict[str, Any]]) -> None:
    output.print_table(
        ("id", "seq", "match", "target", "session", "also", "ttl"),
        [
            (each["id"], each["seq"], _match(each), each["target"], each["mode"], each["also"], _ttl(each))
            for each in found
        ],
        empty="there are no routes: every message is refused",
    )
    for each in found:
        if each["fault"]:
            text = f"route {each['id']} matches nothing: {each['fault']}; remove it and add it anew"
            output.print_line(output.colored(text, "warn"))


@command.command()
@from_operation(RemoveRouteArgs)
def rm(run: CommandRun, gone: dict[str, Any]) -> None:
    output.print_line(f"route {gone['id']} ({_match(gone)} → {gone['target']}) is removed")


@command.command()
@from_operation(RouteTestArgs, exit_code=lambda answer: 0 if answer["groups"] or answer["dropped"] else 1)
def test(run: CommandRun, answer: dict[str, Any]) -> None:
    for each in answer["groups"]:
        how = " (observes)" if each["observe"] else f" (topic {each['topic']})" if each["topic"] else ""
        output.print_line(
            output.colored(f"→ {each['folder']}", "ok"), f"{how}, by route {each['route']}, session {each['session']}"
        )
    if answer["dropped"] or not answer["groups"]:
        output.print_line(output.colored(f"→ nobody: {answer['why']}", "warn"))
    if answer["decided_by"] != "route":
        output.print_line(f"decided by the {_DECIDED_BY[answer['decided_by']]}, before the routes below")
    for each in answer["engaged"]:
        until = f"until {each['until']}" if each["until"] else "without end"
        by = f" by route {each['route']}" if each["route"] else " by itself"
        output.print_line(f"{each['folder']} is in this conversation {until},{by}")
    output.print_line()
    output.print_table(
        ("", "id", "seq", "match", "target", "why"),
        [
            ("✓" if each["held"] else "·", each["id"], each["seq"], _match(each), each["target"], each["why"])
            for each in answer["routes"]
        ],
        empty="there are no routes",
    )


def _ttl(route: dict[str, Any]) -> str:
    from gatepost.flow.intake.engagement import render_ttl

    return render_ttl(route["ttl_s"]) or "default"


def _match(route: dict[str, Any]) -> str:
    return route["match"] or "(everything)"
