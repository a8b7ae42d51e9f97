"""Requests about budgets that are spent. The messages that they stop are held, and one card for a budget and period
offers more. They go on once it is agreed to, or once the budget has room by something else."""

import json

from msgspec import Struct

from gatepost.access import budgets as judged
from gatepost.core.clock import Period
from gatepost.core.money import MICRO, render_usd
from gatepost.core.records import replace
from gatepost.flow.delivery.outgoing_messages import ChannelInstances, OutgoingMessage, add_outgoing_message
from gatepost.flow.requests.ask_approver import AskedRequest, AskingRules, ask
from gatepost.flow.requests.held_messages import HeldMessages, ReleasedMessages, release_or_refuse, sum_files
from gatepost.messages.inbound import MessageKind
from gatepost.store.messages import inbox
from gatepost.store.messages.inbox import InboxState
from gatepost.store.messages.messages import NewMessage
from gatepost.store.messages.outbox import EffectOrigin
from gatepost.store.money import budgets
from gatepost.store.money.budgets import BudgetScope, BudgetScopeKind, BudgetStatus, CapSpan
from gatepost.store.port import Db, LockKind
from gatepost.store.rights import requests
from gatepost.store.rights.requests import NewRequest, Request, RequestKind, RequestState

MOST_HELD = 50  # messages that wait for one budget
MOST_OF_SENDER = 10  # of these, by what one sender said: nobody takes all places from the others …
MOST_OF_GUESTS = 25  # … nor do people whom nobody knows, however many names they have
MOST_HELD_BYTES = 20 * 1024 * 1024  # of files that came with these
CENT = MICRO // 100
LEAST_MORE, MOST_MORE = 25 * CENT, 2 * MICRO  # that one answer leaves to spend; with less no call fits, perhaps
ROOM_BY_NOW = "the budget has room again"
SPENT = "budget_spent"  # why a message is refused


class SpentBudget(Struct, frozen=True):
    """The budget of a request, in its period. `folder`: the group whose admins may raise it; '' for one that is
    nobody's but the gateway's."""

    scope: BudgetScope
    period: Period | CapSpan
    starts_at: int
    folder: str = ""

    @property
    def name(self) -> str:
        return f"{self.period} {self.starts_at} {self.scope.kind} {self.scope.name}"


def make_spent(status: BudgetStatus) -> SpentBudget:
    own = status.scope.name if status.scope.kind is BudgetScopeKind.GROUP else ""
    folder = own if status.cap is None else status.cap.folder
    return SpentBudget(status.scope, status.period, status.starts_at, folder)


def read_spent(request: Request) -> SpentBudget:
    period, starts_at, kind, name = request.name.split(" ", 3)
    per = CapSpan.SESSION if period == CapSpan.SESSION else Period(period)
    return SpentBudget(BudgetScope(BudgetScopeKind(kind), name), per, int(starts_at), request.folder)


def read_more(request: Request) -> int:
    """Return what a yes adds, in millionths of a USD. It is all that a request asks, and so its digest."""
    return int(request.digest)


def hold(
    db: Db,
    channels: ChannelInstances,
    rules: AskingRules,
    message_id: int,
    new: NewMessage,
    folder: str,
    rights: str,
    status: BudgetStatus,
    now: int,
) -> AskedRequest | None:
    """Hold a message until there is money. None: nobody is asked, and it is refused."""
    spent = make_spent(status)
    if not may_hold(db, new.kind, spent):
        return None
    last = requests.find_last(db, RequestKind.BUDGET, spent.folder, spent.name)
    if last is not None and last.state is RequestState.PENDING and not _fits(db, new, rights, last):
        return None
    more = decide_more(status)
    request = NewRequest(
        kind=RequestKind.BUDGET,
        name=spent.name,
        folder=spent.folder,
        input={
            "budget": judged.render_name(status, folder),
            "spent": judged.render_amounts(status),
            "agent that has messages waiting": folder,
            "more": render_usd(more),
        },
        digest=str(more),
        instance=new.instance,
        address=new.address,
        thread=new.thread,
        rights=rights,
        expires_at=status.ends_at,
    )
    asked = ask(db, channels, replace(rules, quorum=1), request, now)
    inbox.hold(db, message_id, folder, rights, asked.request.id, asked.request.expires_at or now, now)
    return asked


def decide_more(status: BudgetStatus) -> int:
    """Return what is offered, in whole cents: what was spent over the limit, and as much again as there was."""
    more = status.spent - status.limit + max(min(status.limit, MOST_MORE), LEAST_MORE)
    return -(-more // CENT) * CENT


def may_hold(db: Db, kind: MessageKind, spent: SpentBudget) -> bool:
    """Return True if people are asked about a budget, or can be. Somebody who said no is not asked again in its
    period; a hook and another agent do not wait."""
    if kind is not MessageKind.CHAT:
        return False
    db.lock(LockKind.QUOTA, "requests", spent.folder)
    last = requests.find_last(db, RequestKind.BUDGET, spent.folder, spent.name)
    return last is None or last.state not in (RequestState.DENIED, RequestState.EXPIRED)


def _fits(db: Db, new: NewMessage, rights: str, waiting: Request) -> bool:
    held = inbox.list_waiting_for(db, waiting.id)
    files = sum_files(json.loads(new.content))
    own = sum(message.sender == new.sender for _, message in held)
    guests = sum(entry.rights == "guest" for entry, _ in held)
    return (
        len(held) < MOST_HELD
        and own < MOST_OF_SENDER
        and (rights != "guest" or guests < MOST_OF_GUESTS)
        and (not files or files + sum(sum_files(message.content) for _, message in held) <= MOST_HELD_BYTES)
    )


def is_spent(db: Db, request: Request, now: int) -> bool:
    """Return True if its budget is still the one that stopped the messages, and still has no room."""
    spent = read_spent(request)
    if spent.scope.kind is BudgetScopeKind.SESSION:
        cap = budgets.find_session_cap(db, spent.scope.name)
        found = [cap] if cap is not None else []
    else:
        found = budgets.list_all(db, now)
    return any(each.is_spent for each in found if make_spent(each) == spent)


def follow(db: Db, channels: ChannelInstances, request: Request, now: int) -> ReleasedMessages:
    """Do what was decided about a budget."""
    requests.settle(db, request.id, now)
    requests.record_notified(db, request.id, now)
    held = inbox.list_waiting_for(db, request.id)
    if request.state is RequestState.ALLOWED:
        spent = read_spent(request)
        budgets.raise_limit(db, spent.scope, spent.period, spent.starts_at, read_more(request))
        return ReleasedMessages(wake=release_or_refuse(db, channels, held, now))
    return _refuse(db, channels, request, held, now)


def release(db: Db, channels: ChannelInstances, request: Request, now: int) -> tuple[Request, ReleasedMessages]:
    """The budget has room by something else: it was raised or taken away, or a new period has begun. The request as
    it stands now."""
    held = inbox.list_waiting_for(db, request.id)
    (ended,) = requests.withdraw(db, request.id, ROOM_BY_NOW, now)
    return ended, ReleasedMessages(wake=release_or_refuse(db, channels, held, now))


def _refuse(db: Db, channels: ChannelInstances, request: Request, held: HeldMessages, now: int) -> ReleasedMessages:
    """Each room is told once."""
    of_session = read_spent(request).scope.kind is BudgetScopeKind.SESSION
    said = judged.render_refused(str(request.input.get("budget", "The budget")), of_session=of_session)
    rooms: dict[tuple[str, str], None] = {}
    for entry, message in held:
        inbox.set_state(db, entry.id, InboxState.REFUSED, SPENT, None, now)
        if (message.instance, message.address) not in rooms:
            rooms[message.instance, message.address] = None
            key = f"notice/budget/{request.id}/{message.instance}/{message.address}"
            notice = OutgoingMessage(
                key=key,
                origin=EffectOrigin.NOTICE,
                instance=message.instance,
                address=message.address,
                thread=message.thread,
                text=said,
            )
            add_outgoing_message(db, channels, notice, now)
    return ReleasedMessages(rooms=tuple(rooms))
