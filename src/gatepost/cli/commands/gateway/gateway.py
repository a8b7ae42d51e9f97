"""`gatepost gateway`: the gateways that share a store."""

import click

from gatepost.cli import output
from gatepost.cli.operation_command import CommandRun, from_operation
from gatepost.serve.control.arguments.gateways import (
    DrainGatewayArgs,
    ForgetGatewayArgs,
    GatewayDetails,
    GatewayView,
    ListGatewaysArgs,
    ShowGatewayArgs,
)
from gatepost.store.engine.place import find_place
from gatepost.store.gateways.gateways import GatewayState

ALONE = "this store is a file of one machine, so it has one gateway; docs/scale.md tells how several share one"
NONE_YET = "no gateway has joined this store yet; `gatepost up` starts one"


@click.group()
def command() -> None:
    """The gateways that share a store. Works with the gateway up or down.

    \b
        gatepost gateway list
        gatepost gateway show b         # its duties by name: what it alone does for all
        gatepost gateway drain b        # before its machine goes down
        gatepost gateway forget b       # it will not come back
    """


@command.command("list")
@from_operation(ListGatewaysArgs)
def list_gateways(run: CommandRun, found: list[GatewayView]) -> None:
    own = {"state": render_state, "duties": lambda each: len(each.duties)}  # `show` names them
    output.print_records(GatewayView, found, own, empty=NONE_YET if find_place(run.home).url else ALONE)


def render_state(gateway: GatewayView) -> str:
    """In one word. One that is dead has not been taken over from yet."""
    return gateway.state if gateway.alive or gateway.state is GatewayState.GONE else "dead"


@command.command()
@from_operation(ShowGatewayArgs)
def show(run: CommandRun, found: GatewayDetails) -> None:
    own = {
        "state": render_state,
        "duties": lambda each: ", ".join(each.duties) or "none",
        "running_sessions": lambda each: ", ".join(each.running_sessions) or "none",
    }
    output.print_details(GatewayDetails, found, own, width=10)


@command.command()
@from_operation(DrainGatewayArgs)
def drain(run: CommandRun, found: GatewayView) -> None:
    output.print_line(f"{found.name} drains: it begins nothing new, and ends within half a minute")


@command.command()
@from_operation(ForgetGatewayArgs)
def forget(run: CommandRun, gone: GatewayView) -> None:
    output.print_line(f"{gone.name} is forgotten")
