"""Requests about models without a price. The call is refused at once, and one card asks the gateway's owners what the
model costs. The messages of the turn wait for that. The price is written where `gatepost price set` writes it.

A sandbox says which model it asks: people are asked only about the one that the conversation or its group was given.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from msgspec import Struct

from gatepost.core import log, settings
from gatepost.core.clock import Clock
from gatepost.core.errors import Invalid, SetupError
from gatepost.core.event_bus import EventBus
from gatepost.core.home import Home
from gatepost.core.records import replace
from gatepost.core.settings import Config
from gatepost.egress import prices
from gatepost.egress.audio import ENDPOINT_SETTINGS
from gatepost.egress.contract import Spender
from gatepost.egress.prices import FILE
from gatepost.flow.delivery.outgoing_messages import ChannelInstances, OutgoingMessage, add_outgoing_message
from gatepost.flow.requests.ask_approver import AskedRequest, AskingRules, ask, can_reach_approver
from gatepost.flow.requests.card_delivery import show_failure
from gatepost.flow.requests.choices import PRICE
from gatepost.flow.requests.held_messages import HeldMessages, ReleasedMessages, release_admitted
from gatepost.flow.requests.spent_budgets import WaitingMessage, has_room
from gatepost.flow.requests.unknown_senders import was_refused
from gatepost.messages.inbound import MessageKind, is_person
from gatepost.store.messages import inbox, outbox
from gatepost.store.messages.inbox import InboxMode, InboxState
from gatepost.store.messages.outbox import EffectOrigin
from gatepost.store.money import costs
from gatepost.store.port import Db, LockKind, Store
from gatepost.store.rights import requests, waiting_requests
from gatepost.store.rights.requests import NewRequest, Request, RequestKind, RequestState
from gatepost.store.sessions import replays, turns
from gatepost.store.sessions.turns import Turn

MOST_WAITING = 5  # models, at once
NOBODYS = ""  # the folder: a price is the gateway's, so its owners decide
UNPRICED = "no_price"  # why a message is refused
ASKED = "a person was asked what it costs ({})"
HAS_PRICE = "the model has a price by now"
WAITS = (
    "The model {} has no price yet, so it is not asked. Your message waits: whoever runs this gateway is asked for it."
)
REFUSED = "The model {} was given no price, so what you wrote is not answered. Another model may do: /model shows them."
_log = log.get("requests")

FindModel = Callable[[Db, str], str]  # that the conversation of this id was given; '' if none


def ask_about_model(
    db: Db, channels: ChannelInstances, rules: AskingRules, spender: Spender, model: str, given: str, now: int
) -> AskedRequest | None:
    """One request for a model, whoever asks it. None: nobody is asked; nobody waits for a replay. `given`: the model
    of the conversation."""
    turn = turns.get(db, spender.turn_id) if spender.turn_id else None
    if (
        turn is None
        or turn.instance == replays.INSTANCE
        or not model
        or model != given
        or len(model) > prices.LONGEST_NAME
    ):
        return None
    db.lock(LockKind.QUOTA, "requests", NOBODYS)
    last = requests.find_last(db, RequestKind.PRICE, NOBODYS, model)
    if last is not None and last.state is RequestState.PENDING:
        return AskedRequest(last, added=False)
    crowded = waiting_requests.count_pending_of_kind(db, RequestKind.PRICE) >= MOST_WAITING
    reached = can_reach_approver(db, channels, NOBODYS, turn.id, turn.instance, turn.address)
    if was_refused(last, now) or crowded or not reached:
        return None
    request = NewRequest(
        kind=RequestKind.PRICE,
        name=model,
        folder=NOBODYS,
        input={"model": model, "agent that has messages waiting": turn.folder},
        digest=model,
        why="Say what a million tokens cost in USD, input/output, such as 0.5/1.5. The price holds for this name"
        " everywhere, from then on",
        instance=turn.instance,
        address=turn.address,
        thread=turn.thread,
        rights=turn.rights,
    )
    return ask(db, channels, replace(rules, quorum=1), request, now)


def hold_failed(
    db: Db, channels: ChannelInstances, turn: Turn, failed: Sequence[int], model: str, now: int
) -> tuple[int, ...]:
    """Hold the messages of a turn that failed before it had spent anything, while people are asked what its model
    costs. Return their ids, and tell the room once."""
    asked = requests.find_last(db, RequestKind.PRICE, NOBODYS, model) if model else None
    if asked is None or asked.state is not RequestState.PENDING:
        return ()
    if outbox.has_done_any(db, turn.id) or costs.list_for_turn(db, turn.id, turn.started_at):
        return ()
    held: list[int] = []
    for entry, each in inbox.list_for_turn(db, turn.id):
        waiting = WaitingMessage(each.instance, each.address, each.thread, each.sender, each.content)
        said = each.kind is MessageKind.CHAT and is_person(each.sender)  # another agent does not wait
        stopped = said and entry.mode is InboxMode.TRIGGER and each.id in failed
        if stopped and has_room(db, waiting, entry.rights, asked):
            inbox.hold_failed(db, entry.id, asked.id, asked.expires_at or now, now)
            held.append(each.id)
    if held:
        key = f"notice/price/{asked.id}/{turn.instance}/{turn.address}"
        if outbox.find_by_key(db, key) is None:
            _add_notice(db, channels, key, turn, WAITS.format(model), now)
    return tuple(held)


def find_fault(request: Request, state: RequestState, given: Mapping[str, Any]) -> str:
    """Return why an answer about a price cannot be taken; '' if it can."""
    if request.kind is not RequestKind.PRICE or state is not RequestState.ALLOWED:
        return ""
    try:
        prices.parse_price(str(given.get(PRICE, "")))
    except Invalid as error:
        return f"Nothing was decided. {error}: /approve {request.id} 0.5/1.5"
    return ""


def follow(db: Db, channels: ChannelInstances, request: Request, now: int) -> ReleasedMessages:
    """Do what was decided. A price is written into a file first (`PriceWriter`), and what waits goes on behind that."""
    if request.state is RequestState.ALLOWED:
        return ReleasedMessages()
    return _refuse(db, channels, request, now)


def release(db: Db, channels: ChannelInstances, request: Request, now: int) -> ReleasedMessages:
    """Have what waits go on: the model has a price. By the rights and routes of now."""
    requests.settle(db, request.id, now)
    requests.record_notified(db, request.id, now)
    woken, left = release_admitted(db, channels, inbox.list_waiting_for(db, request.id), now)
    for entry, _ in left:
        inbox.set_state(db, entry.id, InboxState.REFUSED, "no_route", None, now)
    return ReleasedMessages(wake=woken)


def _refuse(db: Db, channels: ChannelInstances, request: Request, now: int) -> ReleasedMessages:
    """Each room is told once."""
    requests.settle(db, request.id, now)
    requests.record_notified(db, request.id, now)
    held: HeldMessages = inbox.list_waiting_for(db, request.id)
    rooms: dict[tuple[str, str], None] = {}
    for entry, message in held:
        inbox.set_state(db, entry.id, InboxState.REFUSED, UNPRICED, None, now)
        place = message.instance, message.address
        if place not in rooms:
            rooms[place] = None
            key = f"notice/price/{request.id}/refused/{message.instance}/{message.address}"
            turn = _Place(message.instance, message.address, message.thread)
            _add_notice(db, channels, key, turn, REFUSED.format(request.name), now)
    return ReleasedMessages(rooms=tuple(rooms))


class _Place(Struct, frozen=True):
    instance: str
    address: str
    thread: str


def _add_notice(db: Db, channels: ChannelInstances, key: str, place: Turn | _Place, text: str, now: int) -> None:
    notice = OutgoingMessage(
        key=key,
        origin=EffectOrigin.NOTICE,
        instance=place.instance,
        address=place.address,
        thread=place.thread,
        text=text,
    )
    add_outgoing_message(db, channels, notice, now)


class ModelPricing:
    """Asks people on behalf of the way out."""

    def __init__(
        self,
        store: Store,
        clock: Clock,
        events: EventBus,
        channels: ChannelInstances,
        rules: AskingRules,
        find_model: FindModel,
    ) -> None:
        self._store, self._clock, self._events, self._channels = store, clock, events, channels
        self._rules, self._find_model = rules, find_model

    async def ask(self, spender: Spender, model: str) -> str:
        """Return what the agent is told; '' if nobody is asked."""

        def ask_if_given(db: Db) -> AskedRequest | None:
            given = self._find_model(db, spender.session_id)
            return ask_about_model(db, self._channels, self._rules, spender, model, given, self._clock.now())

        asked = await self._store.write(ask_if_given, lane=spender.session_id)
        if asked is None:
            return ""
        if asked.added:
            self._events.requests()
            for room in asked.rooms:
                self._events.room(*room)
        return ASKED.format(asked.request.id)


class PriceWriter:
    """Writes prices that people gave on cards. Each is settled behind that: one that was cut off is written again."""

    def __init__(
        self,
        store: Store,
        clock: Clock,
        events: EventBus,
        channels: ChannelInstances,
        home: Home,
        move_models: Callable[[Config], None],
    ) -> None:
        self._store, self._clock, self._events, self._channels = store, clock, events, channels
        self._home, self._move_models = home, move_models

    async def write_given(self) -> None:
        for request in await self._store.read(waiting_requests.list_unsettled, RequestKind.PRICE):
            try:
                await asyncio.to_thread(self._write, request)
                failure = ""
            except (SetupError, Invalid, OSError) as error:
                failure = f"The price could not be written: {error}"
                _log.warning("a price of a card cannot be written", model=request.name, error=str(error))
            released = await self._store.write(_settle, self._channels, request, failure, self._clock.now())
            for room in released.rooms:
                self._events.room(*room)
            for session_id in released.wake:
                self._events.session(session_id)

    def _write(self, request: Request) -> None:
        prices.put_own_price(self._home, request.name, prices.parse_price(str(request.answer.get(PRICE, ""))))
        self._move_models(settings.load_declared(self._home.path, *ENDPOINT_SETTINGS, FILE))


def _settle(db: Db, channels: ChannelInstances, request: Request, failure: str, now: int) -> ReleasedMessages:
    if not failure:
        return release(db, channels, request, now)
    requests.record_failure(db, request.id, failure)
    shown = show_failure(db, channels, request, failure, now)
    refused = _refuse(db, channels, request, now)
    return replace(refused, rooms=(*refused.rooms, *shown))
