"""`gatepost budget`: how much may be spent on models."""

from typing import Any

import click

from gatepost.cli import output
from gatepost.cli.operation_command import CommandRun, from_operation
from gatepost.serve.control.arguments.spending import SetBudgetArgs, ShowBudgetsArgs


@click.group()
def command() -> None:
    """How much may be spent on models: set, show. Works with the gateway up or down.

    A group's budget holds for all groups below it, too. Days and months begin at midnight UTC. Before each model call
    the most that it can cost is set aside, so that calls which come together cannot pass a budget together.
    """


@command.command("set")
@from_operation(SetBudgetArgs)
def set_budget(run: CommandRun, told: dict[str, Any]) -> None:
    if told["daily"] is None and told["monthly"] is None:
        output.print_line(f"{_name(told)}: no limit")
    else:
        show_budgets(run, [told])


def show_budgets(run: CommandRun, found: list[dict[str, Any]]) -> None:
    output.print_table(
        ("budget", "per", "limit", "spent", "set aside", "left", "until (UTC)"),
        [
            (_name(each), per, *(_usd(now[key]) for key in _AMOUNTS), now["ends_at"][:10])
            for each in found
            for per, now in (("day", each["daily"]), ("month", each["monthly"]))
            if now is not None
        ],
        empty="no budgets: nothing limits what is spent; `gatepost budget set --instance --daily 5` would",
    )


command.command("show")(from_operation(ShowBudgetsArgs)(show_budgets))


_AMOUNTS = ("limit_usd", "spent_usd", "reserved_usd", "left_usd")


def _usd(amount: float) -> str:
    from gatepost.access.budgets import parse_usd, render_usd

    return render_usd(parse_usd(amount, "amount"))


def _name(told: dict[str, Any]) -> str:
    return str(told["name"]) or "the gateway"
