"""Costs: what was spent, by day, group, model and person, against what may be."""

from gatepost.core.money import render_about_usd
from gatepost.serve.control.arguments.spending import (
    SPENT_BY,
    BudgetAmounts,
    BudgetView,
    ShowBudgetsArgs,
    ShowCostArgs,
    SpendingReport,
    SpendingRow,
)
from gatepost.serve.web.dashboard.contract import PageRequest, Section, page
from gatepost.serve.web.dashboard.tables import TableField, made, make_columns, make_table
from gatepost.serve.web.dashboard.view import (
    Action,
    Bar,
    BarChart,
    Block,
    EmptyState,
    Filter,
    Money,
    Note,
    PageView,
    Tone,
)
from gatepost.store.money.budgets import BudgetScopeKind

DAYS = (("1", "today"), ("7", "7 days"), ("30", "30 days"), ("90", "90 days"))
BY = (("group", "group"), ("model", "model"), ("user", "person"), ("day", "day"))
LIMIT = Action(label="Set a budget", operation="budget.set", asks=True, tone=Tone.GOOD)
SPENT = make_columns(
    SpendingRow,
    {
        "micro": TableField("usd", "Spent", lambda row: Money(row.micro), right=True),
        "estimated_micro": TableField(
            "estimated", "Of it estimated", lambda row: Money(row.estimated_micro), right=True
        ),
    },
)
NO_BUDGET = EmptyState(text="Nothing has a limit yet. An agent may spend what its keys allow.", action=LIMIT)


@page("/costs", "Costs", Section.COSTS, "cost.show", "budget.show", order=10)
async def show_costs(request: PageRequest) -> PageView:
    days = request.query.get("days", "30")
    by = request.query.get("by", "group")
    given = int(days) if days.isdecimal() and len(days) < 5 else 30
    daily = await request.ask(ShowCostArgs(by="day", days=given))
    chosen = daily if by == "day" else await request.ask(ShowCostArgs, by=by, days=given)
    budgets = await request.ask(ShowBudgetsArgs())
    blocks: list[Block] = [Note(text=render_total(daily)), make_chart(daily, budgets), make_spending(chosen)]
    return PageView(
        blocks=[*blocks, make_budgets(budgets)],
        actions=(LIMIT,),
        filters=(
            Filter(name="by", label="By", choices=BY, chosen=by),
            Filter(name="days", label="Of", choices=DAYS, chosen=days),
        ),
    )


def render_total(report: SpendingReport) -> str:
    reserved = f", and up to ${report.reserved_usd:.2f} by calls under way" if report.reserved_usd else ""
    return f"{render_about_usd(report.total_micro)} were spent{reserved}."


def make_chart(report: SpendingReport, budgets: list[BudgetView]) -> BarChart:
    """Days, with the daily limit of the whole gateway across."""
    bars = [Bar(row.key[5:], row.micro, render_about_usd(row.micro)) for row in report.rows]
    daily = next((each.daily for each in budgets if each.kind is BudgetScopeKind.INSTANCE and each.daily), None)
    limit = round(daily.limit_usd * 1_000_000) if daily else 0
    return BarChart(title="By day", bars=bars, limit=limit, limit_shown=render_about_usd(limit))


def make_spending(report: SpendingReport) -> Block:
    others = [name for name in SPENT_BY if name != report.by]
    fields = [each for each in SPENT if each.name not in others]
    return make_table(report.rows, fields, EmptyState(text="Nothing was spent in this time."), title="Spent")


def make_budgets(budgets: list[BudgetView]) -> Block:
    fields = (
        made("scope", "Of", lambda each: each.name or "the whole gateway"),
        TableField("daily", "Today", lambda each: _show_amounts(each.daily), right=True),
        TableField("monthly", "This month", lambda each: _show_amounts(each.monthly), right=True),
        made("caps", "At once", _show_caps),
    )
    return make_table(budgets, fields, NO_BUDGET, title="Budgets")


def _show_amounts(amounts: BudgetAmounts | None) -> str | None:
    if amounts is None:
        return None
    reserved = f", ${amounts.reserved_usd:.2f} set aside" if amounts.reserved_usd else ""
    added = f" (${amounts.raised_usd:.2f} of it added for now alone)" if amounts.raised_usd else ""
    return f"${amounts.spent_usd:.2f} of ${amounts.limit_usd:.2f}{added}{reserved}, ${amounts.left_usd:.2f} left"


def _show_caps(budget: BudgetView) -> str | None:
    """Return the limits of one answer, run and conversation in words; None if there are none."""
    caps = (("an answer", budget.turn), ("a task's run", budget.task), ("a conversation", budget.session))
    return ", ".join(f"${most:.2f} {name}" for name, most in caps if most is not None) or None
