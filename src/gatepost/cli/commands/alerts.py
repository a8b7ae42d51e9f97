"""`gatepost alert`: what is not well, and who was told."""

from collections.abc import Mapping

import click

from gatepost.cli import output
from gatepost.cli.operation_command import CommandRun, from_operation
from gatepost.serve.control.arguments.alerts import (
    AlertState,
    AlertTest,
    AlertView,
    ListAlertsArgs,
    MuteAlertArgs,
    SendTestAlertArgs,
)

NOBODY = "nobody can be reached: an owner writes to the gateway once on a channel, or set alerts.last_room"
OWN: Mapping[str, output.Show] = {"told": lambda alert: alert.told or ("" if alert.over_at else "nobody yet")}


@click.group()
def alert_command() -> None:
    """List what is not well and who was told, mute it, send a test."""


@alert_command.command("list")
@from_operation(ListAlertsArgs)
def list_alerts(run: CommandRun, found: list[AlertView]) -> None:
    output.print_records(AlertView, found, OWN, empty="everything is well: no alert is open")
    for each in found:
        if each.cure and not each.over_at:
            output.print_line(f"{each.id}: {each.text}")
            output.print_line("  ", output.colored(f"→ {each.cure}", "dim"))
            if each.command:
                output.print_line(f"    {each.command}")


@alert_command.command()
@from_operation(MuteAlertArgs)
def mute(run: CommandRun, alert: AlertView) -> None:
    said = "is muted" if alert.state is AlertState.MUTED else "is told of again"
    output.print_line(f"{alert.id} {said}: {alert.text}")


@alert_command.command()
@from_operation(SendTestAlertArgs)
def test(run: CommandRun, sent: AlertTest) -> int:
    output.print_line(f"a message goes to you on {sent.channel}" if sent.channel else NOBODY, error=not sent.channel)
    return 0 if sent.channel else 1
