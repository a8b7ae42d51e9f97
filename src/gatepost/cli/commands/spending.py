"""`gatepost budget`, `cost` and `price`: how much may be spent on models, what was, and what they cost."""

from collections.abc import Iterator
from datetime import UTC

import click

from gatepost.cli import output
from gatepost.cli.operation_command import CommandRun, from_operation
from gatepost.core.money import parse_usd, render_usd
from gatepost.serve.control.arguments.spending import (
    SPENT_BY,
    BudgetAmounts,
    BudgetView,
    ListedPrice,
    ListPricesArgs,
    SetBudgetArgs,
    SetPriceArgs,
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
    if list(_list_rows(budget)):
        show_budgets(run, [budget])
    else:
        output.print_line(f"{_name(budget)}: no limit")
    if budget.ended_usd:
        output.print_line(f"{_name(budget)}: {_usd(budget.ended_usd)} that was added before has ended")


def show_budgets(run: CommandRun, found: list[BudgetView]) -> None:
    folder = run.args.get("folder")
    none = "no budgets: nothing limits what is spent; `gatepost budget set --instance --daily 5` would"
    output.print_table(
        ("budget", "per", "limit", "spent", "set aside", "left", "until (UTC)"),
        [row for each in found for row in _list_rows(each)],
        empty=f"{folder} has no budget of its own; `gatepost budget show` lists those above it" if folder else none,
    )
    for line in (each for budget in found for each in _list_raises(budget)):
        output.print_line(line)


def _list_rows(budget: BudgetView) -> Iterator[tuple[str, ...]]:
    for per, amounts in (("day", budget.daily), ("month", budget.monthly)):
        if amounts is not None:
            yield (_name(budget), per, *_list_cells(amounts))
    for per, most in (("answer", budget.turn), ("task run", budget.task), ("conversation", budget.session)):
        if most is not None:
            yield (_name(budget), per, _usd(most), "", "", "", "")


def _list_raises(budget: BudgetView) -> Iterator[str]:
    for per, amounts in (("day", budget.daily), ("month", budget.monthly)):
        if amounts is not None and amounts.raised_usd:
            until = output.format_time(amounts.ends_at, UTC)[:10]
            added = f"{_usd(amounts.raised_usd)} of that was added for this {per} alone"
            yield f"{_name(budget)}: {added}, until {until} or until it is set anew"


budget_command.command("show")(from_operation(ShowBudgetsArgs)(show_budgets))


def _list_cells(amounts: BudgetAmounts) -> tuple[str, ...]:
    shown = (amounts.limit_usd, amounts.spent_usd, amounts.reserved_usd, amounts.left_usd)
    return (*map(_usd, shown), output.format_time(amounts.ends_at, UTC)[:10])


def _usd(amount: float) -> str:
    return render_usd(parse_usd(amount, "amount"))


def _name(budget: BudgetView) -> str:
    return budget.name or "the gateway"


@click.group()
def price_command() -> None:
    """The prices by which models are booked: list, set. Works with the gateway up or down.

    Prices are in USD for a million tokens. A model without a price is not called, because nobody could say what it
    spends.
    """


@price_command.command("list")
@from_operation(ListPricesArgs)
def list_prices(run: CommandRun, found: list[ListedPrice]) -> None:
    output.print_records(ListedPrice, found, empty=f"no model has a price that is called {run.args['model']}")


@price_command.command("set")
@from_operation(SetPriceArgs)
def set_price(run: CommandRun, price: ListedPrice) -> None:
    amounts = f"{render_usd(price.input)} for input and {render_usd(price.output)} for output"
    output.print_line(f"{price.model}: {amounts}, of a million tokens; it is in {price.source}")


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
