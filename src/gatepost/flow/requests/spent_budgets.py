"""Requests about budgets that are spent, or too small for the next step of an agent. The messages that they stop are
held, and one card for a budget and period offers more. They go on once it is agreed to, or once the budget has room by
something else."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct

from gatepost.access import budgets as judged
from gatepost.core.clock import DAY, Period
from gatepost.core.money import MICRO, render_usd
from gatepost.core.records import replace
from gatepost.flow.delivery.outgoing_messages import ChannelInstances, OutgoingMessage, add_outgoing_message
from gatepost.flow.requests.ask_approver import AskedRequest, AskingRules, CheaperModel, ask
from gatepost.flow.requests.choices import CHEAPER, MODEL, NEXT_STEP
from gatepost.flow.requests.held_messages import HeldMessages, ReleasedMessages, release_or_refuse, sum_files
from gatepost.messages.inbound import MessageKind, is_person
from gatepost.store.messages import inbox, outbox
from gatepost.store.messages.inbox import InboxMode, InboxState
from gatepost.store.messages.messages import NewMessage
from gatepost.store.messages.outbox import EffectOrigin
from gatepost.store.money import budgets, costs
from gatepost.store.money.budgets import BudgetScope, BudgetScopeKind, BudgetStatus, CapSpan
from gatepost.store.port import Db, LockKind
from gatepost.store.rights import audit, requests
from gatepost.store.rights.requests import NewRequest, Request, RequestKind, RequestState
from gatepost.store.sessions import sessions
from gatepost.store.sessions.turns import Turn

MOST_HELD = 50  # messages that wait for one budget
MOST_OF_SENDER = 10  # of these, by what one sender said: nobody takes all places from the others …
MOST_OF_GUESTS = 25  # … nor do people whom nobody knows, however many names they have
MOST_HELD_BYTES = 20 * 1024 * 1024  # of files that came with these
OLDEST = DAY  # of a message that waits once more: a budget that stays too small does not try it each day for ever
CENT = MICRO // 100
LEAST_MORE, MOST_MORE = 25 * CENT, 2 * MICRO  # that one answer leaves to spend; with less no call fits, perhaps
ROOM_BY_NOW = "the budget has room again"
SPENT = "budget_spent"  # why a message is refused
OWN = "-"  # in a digest: the provider is the group's
GOES_ON = "This conversation goes on with {}, which costs less. `/model default` takes that back."
WAITS_FOR_MONEY = "agent that has messages waiting"  # in the input of a request


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


class OfferedMoney(Struct, frozen=True):
    """All that a request asks, and so its digest. Amounts are millionths of a USD. `needed`: by the next step, of a
    budget that is too small for it."""

    more: int
    needed: int = 0
    less: int = 0  # instead of `more`, if it goes on with the cheaper model …
    model: str = ""  # … which is this one; '' if none is offered …
    provider: str = ""  # … to the group's conversations that have this provider of their own; '' if the group's

    def __str__(self) -> str:
        return f"{self.more} {self.needed} {self.less} {self.provider or OWN} {self.model}".rstrip()


def read_offer(request: Request) -> OfferedMoney:
    more, needed, less, provider, model = [*request.digest.split(" ", 4), "0", "0", OWN, ""][:5]
    return OfferedMoney(int(more), int(needed), int(less), model, "" if provider == OWN else provider)


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
    session_id: str = "",
) -> AskedRequest | None:
    """Hold a message until there is money. None: nobody is asked, and it is refused."""
    if not may_hold(db, new.kind, make_spent(status)):
        return None
    waiting = WaitingMessage(new.instance, new.address, new.thread, new.sender, json.loads(new.content), session_id)
    asked = _ask_for_more(db, channels, rules, waiting, folder, rights, status, now)
    if asked is not None:
        inbox.hold(db, message_id, folder, rights, asked.request.id, asked.request.expires_at or now, now)
    return asked


class WaitingMessage(Struct, frozen=True):
    """A message that a budget stops, as far as a request is about it."""

    instance: str
    address: str
    thread: str
    sender: str
    content: dict[str, Any]
    session_id: str = ""  # '': its conversation has not begun


class HeldTurn(Struct, frozen=True):
    """The messages of a turn that wait, by their ids, and what they wait for."""

    status: BudgetStatus
    asked: AskedRequest
    messages: tuple[int, ...]


def hold_failed(
    db: Db, channels: ChannelInstances, rules: AskingRules, turn: Turn, failed: Sequence[int], payer: str, now: int
) -> HeldTurn | None:
    """Hold the messages of a turn whose first step a budget was too small for. None: they stay failed."""
    status = find_short(db, turn, payer, now)
    entries = [pair for pair in inbox.list_for_turn(db, turn.id) if pair[1].id in failed]
    if status is None or not entries or any(entry.mode is not InboxMode.TRIGGER for entry, _ in entries):
        return None
    if not all(is_person(message.sender) for _, message in entries):  # another agent does not wait
        return None
    if any(message.accepted_at <= now - OLDEST for _, message in entries):
        return None
    if not all(may_hold(db, message.kind, make_spent(status)) for _, message in entries):
        return None
    asked, held = list[AskedRequest](), list[int]()
    for entry, each in entries:
        waiting = WaitingMessage(each.instance, each.address, each.thread, each.sender, each.content, turn.session_id)
        found = _ask_for_more(db, channels, rules, waiting, turn.folder, entry.rights, status, now)
        if found is None:
            break
        asked.append(found)
        if inbox.hold_failed(db, entry.id, found.request.id, found.request.expires_at or now, now):
            held.append(each.id)
    return HeldTurn(status, asked[0], tuple(held)) if held else None


def find_short(db: Db, turn: Turn, payer: str, now: int) -> BudgetStatus | None:
    """Return the budget that refused the first step of a turn, though it is not spent. None: there is none that more
    money would help with, or the turn has come further."""
    if outbox.has_done_any(db, turn.id) or costs.list_for_turn(db, turn.id, turn.started_at):
        return None
    found = budgets.list_for_call(db, turn.folder, payer, turn.session_id, turn.id, now)
    refusing = [each for each in found if each.refuses and each.needed > each.unspent]
    if any(each.cap is not None or not each.limit for each in refusing):  # a cap ends with the answer; 0 is a no
        return None
    return max(refusing, key=lambda each: each.ends_at, default=None)


def _ask_for_more(
    db: Db,
    channels: ChannelInstances,
    rules: AskingRules,
    waiting: WaitingMessage,
    folder: str,
    rights: str,
    status: BudgetStatus,
    now: int,
) -> AskedRequest | None:
    """Ask, or find what was asked before. None: no more messages may wait for it."""
    spent, needed = make_spent(status), 0 if status.is_spent else status.needed
    last = requests.find_last(db, RequestKind.BUDGET, spent.folder, spent.name)
    if last is not None and last.state is RequestState.PENDING:
        return AskedRequest(last, added=False) if has_room(db, waiting, rights, last) else None
    session = sessions.get(db, waiting.session_id) if waiting.session_id else None
    cheaper = rules.find_cheaper(db, folder, session) if rules.find_cheaper is not None else None
    offer = OfferedMoney(decide_more(status), needed)
    if cheaper is not None:
        own = session.provider if session is not None else ""
        offer = replace(offer, less=decide_less(status, offer, cheaper), model=cheaper.model, provider=own)
    about = {
        "budget": judged.render_name(status, folder),
        "spent": judged.render_amounts(status),
        NEXT_STEP: render_usd(needed) if needed else "",
        WAITS_FOR_MONEY: folder,
        "more": render_usd(offer.more),
        CHEAPER: offer.model,
        "with that model": _render_less(offer, folder, cheaper) if cheaper is not None else "",
    }
    request = NewRequest(
        kind=RequestKind.BUDGET,
        name=spent.name,
        folder=spent.folder,
        input={name: value for name, value in about.items() if value},
        digest=str(offer),
        instance=waiting.instance,
        address=waiting.address,
        thread=waiting.thread,
        rights=rights,
        expires_at=status.ends_at,
    )
    return ask(db, channels, replace(rules, quorum=1), request, now)


def decide_more(status: BudgetStatus) -> int:
    """Return what is offered, in whole cents: what was spent over the limit, and as much again as there was. A budget
    that is too small is offered enough for the next step."""
    usual = max(min(status.limit, MOST_MORE), LEAST_MORE)
    more = max(status.spent - status.limit, 0) + usual
    if not status.is_spent:
        more = max(more, status.needed + LEAST_MORE - status.unspent)
    return -(-more // CENT) * CENT


def decide_less(status: BudgetStatus, offer: OfferedMoney, cheaper: CheaperModel) -> int:
    """Return what a cheaper model takes of what is offered, by its price, in whole cents. Something must be left, or
    nothing could go on."""
    less = max(offer.more * cheaper.percent // 100, LEAST_MORE + status.spent - status.limit)
    return min(-(-less // CENT) * CENT, offer.more)


def _render_less(offer: OfferedMoney, folder: str, cheaper: CheaperModel) -> str:
    return (
        f"{render_usd(offer.less)} more; what waits for {folder} goes on with it, in the place of {cheaper.replaces}."
        " Each conversation keeps it until somebody writes /model default there"
    )


def find_fault(request: Request, given: Mapping[str, Any]) -> str:
    """Return why an answer about a budget cannot be taken; '' if it can."""
    named = given.get(MODEL) if request.kind is RequestKind.BUDGET else None
    offered = read_offer(request).model if named is not None else ""
    if named == offered or named is None:
        return ""
    way_out = f"{offered} is offered" if offered else "it offers money alone"
    return f"Nothing was decided: {request.id} offers no model {str(named)[:80]!r}; {way_out}."


def may_hold(db: Db, kind: MessageKind, spent: SpentBudget) -> bool:
    """Return True if people are asked about a budget, or can be. Somebody who said no is not asked again in its
    period; a hook and another agent do not wait."""
    if kind is not MessageKind.CHAT:
        return False
    db.lock(LockKind.QUOTA, "requests", spent.folder)
    last = requests.find_last(db, RequestKind.BUDGET, spent.folder, spent.name)
    return last is None or last.state not in (RequestState.DENIED, RequestState.EXPIRED)


def has_room(db: Db, new: WaitingMessage, rights: str, waiting: Request) -> bool:
    """Return True if one more message may wait for a request."""
    held = inbox.list_waiting_for(db, waiting.id)
    files = sum_files(new.content)
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
    spent, needed = read_spent(request), read_offer(request).needed
    if spent.scope.kind is BudgetScopeKind.SESSION:
        cap = budgets.find_session_cap(db, spent.scope.name)
        found = [cap] if cap is not None else []
    else:
        found = budgets.list_all(db, now)
    return any(each.is_spent or each.unspent < needed for each in found if make_spent(each) == spent)


def follow(db: Db, channels: ChannelInstances, request: Request, now: int) -> ReleasedMessages:
    """Do what was decided about a budget."""
    requests.settle(db, request.id, now)
    requests.record_notified(db, request.id, now)
    held = inbox.list_waiting_for(db, request.id)
    if request.state is RequestState.ALLOWED:
        spent, offer = read_spent(request), read_offer(request)
        with_model = bool(offer.model) and request.answer.get(MODEL) == offer.model
        more = offer.less if with_model else offer.more
        budgets.raise_limit(db, spent.scope, spent.period, spent.starts_at, more)
        released = ReleasedMessages(wake=release_or_refuse(db, channels, held, now))
        return _set_model(db, channels, request, offer, released, now) if with_model else released
    return _refuse(db, channels, request, held, now)


def release(db: Db, channels: ChannelInstances, request: Request, now: int) -> tuple[Request, ReleasedMessages]:
    """The budget has room by something else: it was raised or taken away, or a new period has begun. The request as
    it stands now."""
    held = inbox.list_waiting_for(db, request.id)
    (ended,) = requests.withdraw(db, request.id, ROOM_BY_NOW, now)
    return ended, ReleasedMessages(wake=release_or_refuse(db, channels, held, now))


def _set_model(
    db: Db, channels: ChannelInstances, request: Request, offer: OfferedMoney, released: ReleasedMessages, now: int
) -> ReleasedMessages:
    """Go on with the cheaper model, in the conversations of the group that the card names. Each room is
    told how that is taken back."""
    folder, rooms, renew = request.input.get(WAITS_FOR_MONEY), list[tuple[str, str]](), list[str]()
    for session_id in released.wake:
        session = sessions.get(db, session_id)
        if session is None or session.folder != folder or session.provider != offer.provider:
            continue
        sessions.set_model(db, session_id, offer.model)
        details = {"session": session_id, "folder": session.folder, "value": offer.model, "request": request.id}
        audit.append(db, audit.AuditRecord(now, request.answered_by, "session.model", "done", details))
        renew.append(session_id)
        notice = OutgoingMessage(
            key=f"notice/model/{request.id}/{session_id}",
            origin=EffectOrigin.NOTICE,
            instance=session.instance,
            address=session.address,
            thread=session.thread,
            text=GOES_ON.format(offer.model),
            session_id=session_id,
        )
        add_outgoing_message(db, channels, notice, now)
        rooms.append((session.instance, session.address))
    return replace(released, rooms=(*released.rooms, *rooms), renew=tuple(renew))


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
