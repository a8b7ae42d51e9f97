"""`gatepost budget` and `cost`: how much may be spent on models, and what was."""

from datetime import UTC

import click

from gatepost.cli import output
from gatepost.cli.operation_command import CommandRun, from_operation
from gatepost.core.money import parse_usd, render_usd
from gatepost.serve.control.arguments.spending import (
    SPENT_BY,
    BudgetAmounts,
    BudgetView,
    SetBudgetArgs,
    ShowBudgetsArgs,
    ShowCostArgs,
    SpendingReport,
    SpendingRow,
)


@click.group()
def budget_command() -> None:
    """How much may be spent on models: set, show. Works with the gateway up or down.

    A group's budget holds for all groups below it, too. Days and months begin at midnight UTC. Before each model call
    the most that it can cost is set aside, so that calls which come together cannot pass a budget together.
    """


@budget_command.command("set")
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


budget_command.command("show")(from_operation(ShowBudgetsArgs)(show_budgets))


def _list_cells(amounts: BudgetAmounts) -> tuple[str, ...]:
    shown = (amounts.limit_usd, amounts.spent_usd, amounts.reserved_usd, amounts.left_usd)
    return (*map(_usd, shown), output.format_time(amounts.ends_at, UTC)[:10])


def _usd(amount: float) -> str:
    return render_usd(parse_usd(amount, "amount"))


def _name(budget: BudgetView) -> str:
    return budget.name or "the gateway"


@click.command()
@from_operation(ShowCostArgs)
def cost_command(run: CommandRun, report: SpendingReport) -> None:
    others = [name for name in SPENT_BY if name != report.by]
    output.print_records(SpendingRow, report.rows, empty="nothing was spent", without=others)
    if report.rows:
        since = f" since {report.since[:10]} (UTC)" if report.since else ""
        output.print_line(f"total {render_usd(report.total_micro)}{since}")
    if report.reserved_usd:
        output.print_line(f"up to {report.reserved_usd:.6f} USD more are set aside for calls that run")
