"""`gatepost egress`: which hosts agents may reach, and what they tried."""

import click

from gatepost.cli import output
from gatepost.cli.operation_command import CommandRun, from_operation
from gatepost.cli.operation_runner import zone_of
from gatepost.serve.control.arguments.secrets import (
    AllowHostArgs,
    DenyHostArgs,
    EgressLogArgs,
    ListEgressRulesArgs,
    RemoveEgressRuleArgs,
)
from gatepost.store.rights.egress import EgressAttempt, EgressRule


@click.group()
def command() -> None:
    """Which hosts agents may reach, and what they tried. Works with the gateway up or down.

    Nothing is allowed unless a rule says so. Rules of a group hold for the groups below it, too, and a denial wins over
    every allowance. An allowed host is a way out for data: whatever an agent can read, it can send there.
    """


def print_rule(run: CommandRun, made: EgressRule) -> None:
    which = made.host + (f":{made.port}" if made.port else "")
    ports = "" if made.port else " on ports 80 and 443" if made.allow else " on every port"
    whom = f"{made.folder} and below" if made.folder else "every group"
    output.print_line(f"rule {made.id}: {which} is {'allowed' if made.allow else 'denied'}{ports} for {whom}")
    if made.allow and not made.port and (made.host == "localhost" or made.host.endswith(".localhost")):
        output.print_line(
            f"it is this machine, which is reached on named ports alone: gatepost egress allow {made.host}:PORT"
        )


command.command("allow")(from_operation(AllowHostArgs)(print_rule))
command.command("deny")(from_operation(DenyHostArgs)(print_rule))


@command.command()
@from_operation(RemoveEgressRuleArgs)
def rm(run: CommandRun, gone: EgressRule) -> None:
    output.print_line(f"rule {gone.id} for {gone.host} is removed")


@command.command("list")
@from_operation(ListEgressRulesArgs)
def list_rules(run: CommandRun, found: list[EgressRule]) -> None:
    output.print_records(EgressRule, found, empty="there are no rules: no host is allowed")


@command.command("log")
@from_operation(EgressLogArgs)
def show_log(run: CommandRun, found: list[EgressAttempt]) -> None:
    output.print_records(EgressAttempt, found, empty="nothing was tried yet", zone=zone_of(run.home))
