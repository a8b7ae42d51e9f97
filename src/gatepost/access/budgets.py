"""How much of an answer a budget still buys, and what is said when it ends."""

from datetime import UTC, datetime

from gatepost.core.clock import SECOND, Period
from gatepost.core.money import PER, render_usd
from gatepost.store.money.budgets import STOP, BudgetNotice, BudgetScopeKind, BudgetStatus
from gatepost.store.money.reservations import BudgetDenial


def count_affordable_tokens(asked: int | None, most: int, left: int | None, input_micro: int, output_price: int) -> int:
    """Return how many tokens an answer may have; 0 if none can be paid. This is the least of three numbers: the tokens
    asked for, the tokens allowed, and those that the rest of the budget buys after the prompt is paid. `output_price`
    is for a million tokens; `left` None is no limit."""
    wanted = most if asked is None else min(asked, most)
    if left is None:
        return max(wanted, 0)
    rest = left - input_micro
    if rest < 0:
        return 0
    return max(min(wanted, rest * PER // output_price), 0) if output_price else max(wanted, 0)


def render_denial(denied: BudgetDenial) -> str:
    """For the agent: why its call was refused, and what it can do."""
    status = denied.status
    amounts = f"{render_usd(status.spent)} of {render_usd(status.limit)} spent"
    if denied.busy:
        return (
            f"{_render_name(status)} has no room for this call while others are running ({amounts},"
            f" {render_usd(status.reserved)}"
            " set aside for them); try again when they have ended, or ask for less"
        )
    return (
        f"{_render_name(status)} has no room for this call: {amounts}, and it may cost {render_usd(denied.asked)}."
        f" It starts anew on {_render_time(status.ends_at)}; an operator can raise it with `gatepost budget set`"
    )


def render_notice(note: BudgetNotice) -> str:
    """For the room."""
    status = note.status
    name, amount = _render_name(status), f"{render_usd(status.spent)} of {render_usd(status.limit)}"
    if note.percent != STOP:
        return f"{name} is nearly spent: {amount}."
    end = (
        f"It starts anew on {_render_time(status.ends_at)}; whoever runs this gateway can raise it."
        " Send again then what has no answer."
    )
    if status.spent >= status.limit:
        return f"{name} is spent: {amount}. {end}"
    return f"{name} is too small for what the agent needs next: {amount} are spent. {end}"


def make_notice_key(note: BudgetNotice, instance: str, address: str) -> str:
    """A room hears of a budget once in a period, whoever noticed; of one that was changed, anew."""
    scope, end = note.status.scope, note.status.ends_at
    return f"notice/budget/{scope.kind}:{scope.name}/{note.percent}/{note.status.limit}/{end}/{instance}/{address}"


def _render_name(status: BudgetStatus) -> str:
    period = "Today's" if status.period is Period.DAY else "This month's"
    whose = "this gateway" if status.scope.kind is BudgetScopeKind.INSTANCE else status.scope.name
    return f"{period} budget of {whose}"


def _render_time(at: int) -> str:
    return f"{datetime.fromtimestamp(at // SECOND, UTC):%Y-%m-%d at %H:%M} UTC"
