"""Notices about a budget that ends."""

from datetime import UTC, datetime

from gatepost.core.clock import SECOND, Period
from gatepost.core.money import render_usd
from gatepost.store.money.budgets import STOP, BudgetNotice, BudgetScopeKind, BudgetStatus, Cap, CapSpan
from gatepost.store.money.reservations import BudgetDenial

NO_ROOM = "has no room for this call"  # in the reason of a turn that failed for it
_NAMES = {
    CapSpan.TURN: "The limit of one answer",
    CapSpan.TASK: "The limit of one run of this task",
    CapSpan.SESSION: "The limit of this conversation",
}


def render_denial(denied: BudgetDenial) -> str:
    """For the agent: why its call was refused, and what it can do."""
    status = denied.status
    amounts = f"{render_usd(status.spent)} of {render_usd(status.limit)} spent"
    if denied.busy:
        return (
            f"{render_name(status)} {NO_ROOM} while others are running ({amounts},"
            f" {render_usd(status.reserved)}"
            " set aside for them); try again when they have ended, or ask for less"
        )
    way_out = (
        f"It starts anew on {_render_time(status.ends_at)}; an operator can raise it with `gatepost budget set`"
        if status.cap is None
        else _render_way_out(status.cap)
    )
    asked = render_usd(denied.asked)
    return f"{render_name(status)} {NO_ROOM}: {amounts}, and it may cost {asked}. {way_out}"


def is_denial(reason: str) -> bool:
    """Return True if a turn failed because a call of it had no room."""
    return NO_ROOM in reason


def _render_way_out(cap: Cap) -> str:
    if cap.task:
        command = f"gatepost task set {cap.task} --max-cost USD"
    else:
        command = f"gatepost budget set {cap.folder or '--instance'} --{cap.span} USD"
    anew = {
        CapSpan.TURN: "The next turn has a limit of its own",
        CapSpan.TASK: "The next run has a limit of its own",
        CapSpan.SESSION: "A person can start a new conversation with /new",
    }
    return f"{anew[cap.span]}; an operator can raise it with `{command}`"


def render_notice(note: BudgetNotice) -> str:
    """For the room."""
    status = note.status
    name, amount = render_name(status), render_amounts(status)
    if status.cap is not None:
        return _render_cap_notice(status, status.cap)
    if note.percent != STOP:
        return f"{name} is nearly spent: {amount}."
    end = (
        f"It starts anew on {_render_time(status.ends_at)}; whoever runs this gateway can raise it."
        " Send again then what has no answer."
    )
    if status.spent >= status.limit:
        return f"{name} is spent: {amount}. {end}"
    return f"{name} is too small for what the agent needs next: {amount} are spent. {end}"


def _render_cap_notice(status: BudgetStatus, cap: Cap) -> str:
    """The limit that was reached, and the one thing that helps."""
    most = render_usd(status.limit)
    if not status.spent and not status.reserved and cap.span is not CapSpan.SESSION:
        return f"The first step of this answer may pass its limit of {most}. Whoever runs this gateway can raise it."
    if cap.span is CapSpan.TURN:
        return f"This answer reached its limit of {most}. Write again to go on: the next one has a limit of its own."
    if cap.span is CapSpan.TASK:
        return f"This run of a task reached its limit of {most}. Whoever runs this gateway can raise it."
    return f"This conversation reached its limit of {most}. /new starts a new one."


def render_parked(status: BudgetStatus) -> str:
    """For the room of a message that waits."""
    waits = "Your message waits: whoever may decide it is asked for more."
    if status.cap is not None:
        return f"{_render_cap_notice(status, status.cap)} {waits}"
    name, amounts = render_name(status), render_amounts(status)
    why, goes_on = f"{name} is spent: {amounts}.", "it goes on"
    if not status.is_spent:
        needed, goes_on = render_usd(status.needed), "it is tried again"
        why = f"{name} is too small for the next step: {amounts} are spent, and it may cost {needed}."
    return f"{why} {waits} If nobody answers, {goes_on} when the budget starts anew, on {_render_time(status.ends_at)}."


def render_refused(name: str, *, of_session: bool = False) -> str:
    """For the room of messages that waited in vain."""
    way_out = "/new starts a new conversation." if of_session else "Send it again when there is money."
    return f"{name} was not raised, so what you wrote is not answered. {way_out}"


def render_amounts(status: BudgetStatus) -> str:
    return f"{render_usd(status.spent)} of {render_usd(status.limit)}"


def make_notice_key(note: BudgetNotice, instance: str, address: str) -> str:
    """A room hears of a budget once in a period, whoever noticed; of one that was changed, anew."""
    scope, end = note.status.scope, note.status.ends_at if note.status.cap is None else note.status.starts_at
    return f"notice/budget/{scope.kind}:{scope.name}/{note.percent}/{note.status.limit}/{end}/{instance}/{address}"


def render_name(status: BudgetStatus, folder: str = "") -> str:
    """`folder`: the group of a conversation, for whoever does not see which it is."""
    if status.cap is not None:
        return f"The limit of a conversation of {folder}" if folder else _NAMES[status.cap.span]
    period = "Today's" if status.period is Period.DAY else "This month's"
    whose = "this gateway" if status.scope.kind is BudgetScopeKind.INSTANCE else status.scope.name
    return f"{period} budget of {whose}"


def _render_time(at: int) -> str:
    return f"{datetime.fromtimestamp(at // SECOND, UTC):%Y-%m-%d at %H:%M} UTC"
