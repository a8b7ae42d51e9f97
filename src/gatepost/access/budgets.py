"""Notices about a budget that ends."""

from datetime import UTC, datetime

from gatepost.core.clock import SECOND, Period
from gatepost.core.money import render_usd
from gatepost.store.money.budgets import STOP, BudgetNotice, BudgetScopeKind, BudgetStatus
from gatepost.store.money.reservations import BudgetDenial


def render_denial(denied: BudgetDenial) -> str:
    """For the agent: why its call was refused, and what it can do."""
    status = denied.status
    amounts = f"{render_usd(status.spent)} of {render_usd(status.limit)} spent"
    if denied.busy:
        return (
            f"{render_name(status)} has no room for this call while others are running ({amounts},"
            f" {render_usd(status.reserved)}"
            " set aside for them); try again when they have ended, or ask for less"
        )
    return (
        f"{render_name(status)} has no room for this call: {amounts}, and it may cost {render_usd(denied.asked)}."
        f" It starts anew on {_render_time(status.ends_at)}; an operator can raise it with `gatepost budget set`"
    )


def render_notice(note: BudgetNotice) -> str:
    """For the room."""
    status = note.status
    name, amount = render_name(status), render_amounts(status)
    if note.percent != STOP:
        return f"{name} is nearly spent: {amount}."
    end = (
        f"It starts anew on {_render_time(status.ends_at)}; whoever runs this gateway can raise it."
        " Send again then what has no answer."
    )
    if status.spent >= status.limit:
        return f"{name} is spent: {amount}. {end}"
    return f"{name} is too small for what the agent needs next: {amount} are spent. {end}"


def render_parked(status: BudgetStatus) -> str:
    """For the room of a message that waits."""
    return (
        f"{render_name(status)} is spent: {render_amounts(status)}. Your message waits: whoever may decide it is asked"
        f" for more. If nobody answers, it goes on when the budget starts anew, on {_render_time(status.ends_at)}."
    )


def render_refused(name: str) -> str:
    """For the room of messages that waited in vain."""
    return f"{name} was not raised, so what you wrote is not answered. Send it again when there is money."


def render_amounts(status: BudgetStatus) -> str:
    return f"{render_usd(status.spent)} of {render_usd(status.limit)}"


def make_notice_key(note: BudgetNotice, instance: str, address: str) -> str:
    """A room hears of a budget once in a period, whoever noticed; of one that was changed, anew."""
    scope, end = note.status.scope, note.status.ends_at
    return f"notice/budget/{scope.kind}:{scope.name}/{note.percent}/{note.status.limit}/{end}/{instance}/{address}"


def render_name(status: BudgetStatus) -> str:
    period = "Today's" if status.period is Period.DAY else "This month's"
    whose = "this gateway" if status.scope.kind is BudgetScopeKind.INSTANCE else status.scope.name
    return f"{period} budget of {whose}"


def _render_time(at: int) -> str:
    return f"{datetime.fromtimestamp(at // SECOND, UTC):%Y-%m-%d at %H:%M} UTC"
