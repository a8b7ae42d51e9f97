"""Costs: what was spent, by day, group, model and person, against what may be."""

from collections.abc import Callable, Iterator, Sequence

from msgspec import Struct

from gatepost.core.money import parse_usd, render_about_usd
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
from gatepost.serve.web.dashboard.tables import TableField, made, make_columns, make_moment, make_table
from gatepost.serve.web.dashboard.view import (
    Action,
    Bar,
    BarChart,
    Block,
    EmptyState,
    Filter,
    Moment,
    Money,
    Note,
    PageView,
    Share,
    Tone,
)
from gatepost.store.money.budgets import BudgetScopeKind

DAYS = (("1", "today"), ("7", "7 days"), ("30", "30 days"), ("90", "90 days"))
BY = (("group", "group"), ("model", "model"), ("user", "person"), ("day", "day"))
MICRO = 1_000_000
WHOLE = "the whole gateway"
ARGUMENTS = {BudgetScopeKind.GROUP: "folder", BudgetScopeKind.USER: "user", BudgetScopeKind.INSTANCE: "instance"}
# By the fields of a budget: for what it holds, and when it begins anew, where that is no time.
SPANS = {
    "daily": ("a day", ""),
    "monthly": ("a month", ""),
    "turn": ("an answer", "with each answer"),
    "task": ("a run of a task", "with each run"),
    "session": ("a conversation", "with a new conversation"),
}
LIMIT = Action(label="Set a limit", operation="budget.set", asks=True, tone=Tone.GOOD)
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
    limit = round(daily.limit_usd * MICRO) if daily else 0
    return BarChart(title="By day", bars=bars, limit=limit, limit_shown=render_about_usd(limit))


def make_spending(report: SpendingReport) -> Block:
    others = [name for name in SPENT_BY if name != report.by]
    fields = [each for each in SPENT if each.name not in others]
    return make_table(report.rows, fields, EmptyState(text="Nothing was spent in this time."), title="Spent")


def make_budgets(budgets: list[BudgetView]) -> Block:
    return make_limits(budgets, lambda each: each.name or WHOLE, NO_BUDGET, title="Limits", writable=budgets)


class Limit(Struct, frozen=True, kw_only=True):
    """One amount of a budget. `amounts`: None for one that holds for each time anew."""

    whose: str
    span: str
    micro: int
    amounts: BudgetAmounts | None
    again: str
    actions: tuple[Action, ...]


def make_limits(
    budgets: Sequence[BudgetView],
    name: Callable[[BudgetView], str],
    empty: EmptyState,
    *,
    title: str,
    writable: Sequence[BudgetView],
) -> Block:
    """One row for each amount, with the buttons that change it and take it away. `name`: whose it is."""
    limits = [each for budget in budgets for each in list_limits(budget, name(budget), writes=budget in writable)]
    return make_table(limits, LIMIT_FIELDS, empty, actions=lambda each: each.actions, title=title)


def list_limits(budget: BudgetView, whose: str, *, writes: bool) -> Iterator[Limit]:
    owner = {ARGUMENTS[budget.kind]: budget.name or "on"}
    found = {field: getattr(budget, field) for field in SPANS}
    for field, given in found.items():
        if given is None:
            continue
        span, again = SPANS[field]
        start = {field: _write_amount(given)}  # of the others, what was added goes on
        change = Action(label="Change", operation="budget.set", args=owner, start=start, asks=True)
        none = {**owner, field: "none"}
        remove = Action(label="Remove", operation="budget.set", args=none, asks=True, tone=Tone.BAD)
        amounts = given if isinstance(given, BudgetAmounts) else None
        micro = parse_usd(_write_amount(given), field)
        actions = (change, remove) if writes else ()
        yield Limit(whose=whose, span=span, micro=micro, amounts=amounts, again=again, actions=actions)


def _write_amount(given: BudgetAmounts | float) -> str:
    """As somebody writes it: what was added for the running day or month is no part of the limit."""
    usd = given.limit_usd - given.raised_usd if isinstance(given, BudgetAmounts) else given
    return f"{usd:.6f}".rstrip("0").rstrip(".")


def _show_spent(limit: Limit) -> Share | Money:
    if limit.amounts is None:
        return Money(limit.micro)
    most = round(limit.amounts.limit_usd * MICRO)
    used = round((limit.amounts.spent_usd + limit.amounts.reserved_usd) * MICRO)
    added = (
        f". ${limit.amounts.raised_usd:.2f} of it are added until it ends or is set anew"
        if limit.amounts.raised_usd
        else ""
    )
    aside = f". ${limit.amounts.reserved_usd:.2f} are set aside" if limit.amounts.reserved_usd else ""
    spent = render_about_usd(round(limit.amounts.spent_usd * MICRO))
    return Share(used, most, f"{spent} spent of {render_about_usd(most)}{added}{aside}")


def _show_again(limit: Limit) -> Moment | str:
    return make_moment(limit.amounts.ends_at) if limit.amounts is not None else limit.again


LIMIT_FIELDS = (
    made("whose", "Whose", lambda limit: limit.whose),
    made("span", "For", lambda limit: limit.span),
    made("spent", "Spent of it", _show_spent),
    made("again", "Begins anew", _show_again),
)
