"""`gatepost budget`: how much may be spent on models."""

from datetime import UTC

import click

from gatepost.cli import output
from gatepost.cli.operation_command import CommandRun, from_operation
from gatepost.serve.control.arguments.spending import BudgetAmounts, BudgetView, SetBudgetArgs, ShowBudgetsArgs


@click.group()
def command() -> None:
    """How much may be spent on models: set, show. Works with the gateway up or down.

    A group's budget holds for all groups below it, too. Days and months begin at midnight UTC. Before each model call
    the most that it can cost is set aside, so that calls which come together cannot pass a budget together.
    """


@command.command("set")
@from_operation(SetBudgetArgs)
def set_budget(run: CommandRun, budget: BudgetView) -> None:
    if budget.daily is None and budget.monthly is None:
        output.print_line(f"{_name(budget)}: no limit")
    else:
        show_budgets(run, [budget])


def show_budgets(run: CommandRun, found: list[BudgetView]) -> None:
    output.print_table(
        ("budget", "per", "limit", "spent", "set aside", "left", "until (UTC)"),
        [
            (_name(each), per, *_list_cells(amounts))
            for each in found
            for per, amounts in (("day", each.daily), ("month", each.monthly))
            if amounts is not None
        ],
        empty="no budgets: nothing limits what is spent; `gatepost budget set --instance --daily 5` would",
    )


command.command("show")(from_operation(ShowBudgetsArgs)(show_budgets))


def _list_cells(amounts: BudgetAmounts) -> tuple[str, ...]:
    shown = (amounts.limit_usd, amounts.spent_usd, amounts.reserved_usd, amounts.left_usd)
    return (*map(_usd, shown), output.format_time(amounts.ends_at, UTC)[:10])


def _usd(amount: float) -> str:
    from gatepost.access.budgets import parse_usd, render_usd

    return render_usd(parse_usd(amount, "amount"))


def _name(budget: BudgetView) -> str:
    return budget.name or "the gateway"
