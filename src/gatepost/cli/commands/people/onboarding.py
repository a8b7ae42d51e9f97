"""`gatepost onboarding`: people who may get a group of their own, and those who wait for it."""

import click

from gatepost.cli import output
from gatepost.cli.operation_command import CommandRun, from_operation
from gatepost.serve.control.arguments.users import (
    AllowNewcomerArgs,
    CloseEntranceArgs,
    DenyNewcomerArgs,
    ListNewcomersArgs,
    OnboardingOverview,
    OpenEntranceArgs,
)
from gatepost.store.people.newcomers import Entrance, Newcomer, render_limit


@click.group()
def command() -> None:
    """Strangers who get a group of their own: open, close, list, allow, deny. Works with the gateway up or down; groups
    are made while it is up."""


def _render_entrance(entrance: Entrance) -> str:
    where = f"{entrance.senders} on {entrance.instance}"
    return f"entrance {entrance.id}: {where} → {entrance.folder}/…, {render_limit(entrance.per_day)}"


def print_entrance(run: CommandRun, entrance: Entrance) -> None:
    output.print_line(_render_entrance(entrance))


def print_closed(run: CommandRun, entrance: Entrance) -> None:
    output.print_line(f"entrance {entrance.id} is closed")


def print_newcomer(run: CommandRun, newcomer: Newcomer) -> None:
    output.print_line(f"{newcomer.id} ({newcomer.sender}) is {newcomer.state}")


command.command("open")(from_operation(OpenEntranceArgs)(print_entrance))
command.command("close")(from_operation(CloseEntranceArgs)(print_closed))
command.command("allow")(from_operation(AllowNewcomerArgs)(print_newcomer))
command.command("deny")(from_operation(DenyNewcomerArgs)(print_newcomer))


@command.command("list")
@from_operation(ListNewcomersArgs)
def list_newcomers(run: CommandRun, found: OnboardingOverview) -> None:
    for entrance in found.entrances:
        opened = f"opened by {entrance.created_by} at {output.format_time(entrance.created_at)}"
        output.print_line(f"{_render_entrance(entrance)}; {opened}")
    if found.entrances:
        output.print_line()
    own: dict[str, output.Show] = {"folder": lambda each: each.folder or f"{each.parent}/…"}
    output.print_records(
        Newcomer, found.newcomers, own, empty="nobody has come yet", without=("address", "admitted_at")
    )
