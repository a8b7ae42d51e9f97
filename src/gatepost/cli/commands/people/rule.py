"""`gatepost rule`: standing instructions that an agent gets in every turn."""

import click

from gatepost.cli import output
from gatepost.cli.operation_command import CommandRun, from_operation
from gatepost.serve.control.arguments.access import (
    AddPinnedRuleArgs,
    ListPinnedRulesArgs,
    RemovePinnedRuleArgs,
)
from gatepost.store.sessions.pinned_rules import PinnedRule


@click.group()
def command() -> None:
    """Pinned rules: words that an agent has in every conversation, also after a compaction.

    They are told to the agent and enforce nothing; `gatepost grant` says what it may do.
    """


@command.command()
@from_operation(AddPinnedRuleArgs)
def add(run: CommandRun, made: PinnedRule) -> None:
    output.print_line(f"rule {made.id} is pinned for {made.folder}{_where(made)}, from its next turn on")


@command.command("list")
@from_operation(ListPinnedRulesArgs)
def list_rules(run: CommandRun, found: list[PinnedRule]) -> None:
    empty = "nothing is pinned; `gatepost rule add FOLDER TEXT` pins a rule"
    output.print_records(PinnedRule, found, empty=empty, gives=("rule",))


@command.command()
@from_operation(RemovePinnedRuleArgs)
def rm(run: CommandRun, gone: PinnedRule) -> None:
    output.print_line(f"rule {gone.id} of {gone.folder}{_where(gone)} is removed")


def _where(rule: PinnedRule) -> str:
    return f" in {rule.address}" if rule.address else ""
