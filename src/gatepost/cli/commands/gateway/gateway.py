"""`gatepost gateway`: the gateways that share a store."""

import click

from gatepost.cli import output
from gatepost.cli.operation_command import CommandRun, from_operation
from gatepost.core.clock import iso
from gatepost.serve.control.arguments.gateway.gateways import (
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
    output.print_table(
        ("gateway", "state", "host", "web", "sessions", "duties", "version"),
        [
            (
                each.name,
                render_state(each),
                each.host,
                each.listen,
                f"{each.sessions} of {each.capacity}",
                len(each.duties),  # by name they would be wider than a terminal; `show` names them
                each.version,
            )
            for each in found
        ],
        empty=NONE_YET if find_place(run.home).url else ALONE,
    )


def render_state(gateway: GatewayView) -> str:
    """In one word. One that is dead has not been taken over from yet."""
    return gateway.state if gateway.alive or gateway.state is GatewayState.GONE else "dead"


@command.command()
@from_operation(ShowGatewayArgs)
def show(run: CommandRun, found: GatewayDetails) -> None:
    output.print_line(f"{found.name}  {render_state(found)}, life {found.epoch} since {iso(found.started_at)}")
    for label, value in (
        ("host", found.host),
        ("web", found.listen or "none"),
        ("version", f"{found.version}, schema {found.schema_number}"),
        ("sandboxes", f"at most {found.capacity} awake"),
        ("duties", ", ".join(found.duties) or "none"),
        ("sessions", ", ".join(found.running_sessions) or "none"),
    ):
        output.print_line(f"  {label:<10} {value}")


@command.command()
@from_operation(DrainGatewayArgs)
def drain(run: CommandRun, found: GatewayView) -> None:
    output.print_line(f"{found.name} drains: it begins nothing new, and ends within half a minute")


@command.command()
@from_operation(ForgetGatewayArgs)
def forget(run: CommandRun, gone: GatewayView) -> None:
    output.print_line(f"{gone.name} is forgotten")
