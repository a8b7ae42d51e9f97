"""Questions that agents ask people by a tool: a card in the room of the turn. The call stays open for a while. An
answer that comes later, or while nobody waits for it any more, is told to the agent as a message, once."""

import asyncio
import hashlib
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import msgspec

from gatepost.core.clock import SECOND, Clock, to_microseconds
from gatepost.core.errors import Invalid, Refused
from gatepost.core.event_bus import EventBus
from gatepost.core.settings import Config, setting
from gatepost.flow.delivery.outgoing_messages import ChannelInstances
from gatepost.flow.requests.ask_approver import AskedRequest, ask, read_rules
from gatepost.flow.requests.choices import render_decision
from gatepost.flow.requests.decide import notify_agent
from gatepost.flow.requests.held_calls import check_limits
from gatepost.flow.requests.questions import list_answers
from gatepost.store.port import Db, Store
from gatepost.store.rights import requests
from gatepost.store.rights.requests import NewRequest, Request, RequestAsker, RequestKind, RequestState
from gatepost.store.sessions import agents, errands, sessions, timeline, turns
from gatepost.store.sessions.sessions import SessionMode
from gatepost.store.sessions.timeline import TimelineKind
from gatepost.tools.call import ReachableRoom, ToolCall

WAIT_S = setting(
    "questions.wait_s",
    50.0,
    help="How long a call of ask_user_question stays open for the answer; later it is told as a message.",
)
PROGRESS_S = 5.0  # between two words of progress to the client
AT_ONCE = 500  # answers that one look finds
MOST_REMEMBERED = 10_000  # calls that ended without an answer
WAITS = "waiting for somebody's answer"
NOBODY = (
    "another agent gave you this work, and no person is in this conversation. End your turn with the question: that"
    " agent can answer it in a further errand"
)

_encode = msgspec.json.Encoder(order="sorted").encode


class AgentQuestions:
    def __init__(
        self, store: Store, clock: Clock, config: Config, events: EventBus, channels: ChannelInstances
    ) -> None:
        self._store, self._clock, self._config, self._events, self._channels = store, clock, config, events, channels
        self._open = Counter[str]()  # requests for whose answer a call waits
        self._told_pending: set[str] = set()  # whose call has ended without an answer
        self._woken: set[asyncio.Event] = set()
        events.on_requests(self._ring)

    def _ring(self) -> None:
        for event in self._woken:
            event.set()

    def _receive_change(self, instance: str, address: str) -> None:
        """A turn may be over whose end an answer waits for."""
        self._events.requests()

    async def ask(self, call: ToolCall, asked: Mapping[str, Any], expire_s: float | None) -> Request:
        """The request as it stands when it is answered, or when the call has waited long enough."""
        new = make_request(call, await _find_room(call), asked, expire_s)

        def add(db: Db) -> AskedRequest:
            if requests.find_same(db, new) is None:
                check_limits(db, new, call.now)
            found = ask(db, self._channels, read_rules(self._config), new, call.now)
            if found.request.state is not RequestState.PENDING:
                _record_notified(db, found.request.id, call.now)
            elif found.added and new.instance == agents.INSTANCE:
                entry = {"requestId": found.request.id, "name": new.tool, "status": found.request.state}
                timeline.add(db, new.session_id or "", new.turn_id, TimelineKind.PERMISSION, entry, call.now)
            return found

        found = await call.write(add)
        for room in found.rooms:
            self._events.room(*room)
        self._events.requests()
        self._events.change(new.instance, new.address)
        if found.request.state is not RequestState.PENDING:
            return found.request
        return await self._wait(call, found.request)

    async def _wait(self, call: ToolCall, request: Request) -> Request:
        start, longest = self._clock.monotonic(), to_microseconds(self._config[WAIT_S])
        woken = asyncio.Event()
        self._woken.add(woken)
        self._open[request.id] += 1
        try:
            while True:
                woken.clear()
                found = await self._store.read(requests.get, request.id)
                if found is None:
                    return request
                if found.state is not RequestState.PENDING:
                    await self._store.write(_record_notified, found.id, self._clock.now(), lane=call.caller.lane)
                    return found
                waited = self._clock.monotonic() - start
                if waited >= longest:
                    self._remember_pending(found.id)
                    return found
                call.progress(waited / SECOND, None, WAITS)
                with suppress(TimeoutError):
                    async with asyncio.timeout(min((longest - waited) / SECOND, PROGRESS_S)):
                        await woken.wait()
        finally:
            self._woken.discard(woken)
            self._open[request.id] -= 1
            if self._open[request.id] <= 0:
                del self._open[request.id]
            self._events.requests()  # an answer that came meanwhile is told by a message

    def _remember_pending(self, request_id: str) -> None:
        """Those that are forgotten here are told when their turns are over."""
        if len(self._told_pending) >= MOST_REMEMBERED:
            self._told_pending.clear()
        self._told_pending.add(request_id)

    async def notify_answered(self) -> None:
        """Tell agents what was answered while no call of theirs waited for it. One whose call was cut off asks again
        when its turn goes on, and has the answer then; if it does not, it is told when the turn is over."""
        most, deferred = AT_ONCE + len(self._open), set[tuple[str, str]]()
        for request in await self._store.read(requests.list_unnotified, (RequestKind.QUESTION,), most):
            if request.id in self._open:
                self._ring()
                continue
            if request.id not in self._told_pending and await self._is_turn_open(request):
                deferred.add((request.instance, request.address))
                continue
            notified = await self._store.write(_notify, request, self._clock.now(), lane=request.session_id or "")
            self._told_pending.discard(request.id)
            if notified and request.session_id is not None:
                self._events.session(request.session_id)
        self._events.set_rooms(self._receive_change, deferred)

    async def _is_turn_open(self, request: Request) -> bool:
        turn = await self._store.read(turns.get, request.turn_id) if request.turn_id else None
        return turn is not None and turn.ended_at is None


def _record_notified(db: Db, request_id: str, now: int) -> None:
    requests.settle(db, request_id, now)
    requests.record_notified(db, request_id, now)


def _notify(db: Db, request: Request, now: int) -> bool:
    requests.settle(db, request.id, now)
    outcome: dict[str, Any] = {"answers": list_answers(request)}
    if request.state is not RequestState.ALLOWED or request.reason:
        outcome["why"] = render_decision(request, request.answered_by)
    return notify_agent(db, request, outcome, now)


async def _find_room(call: ToolCall) -> ReachableRoom:
    """Return the room of the turn, or the session's own between two turns."""
    turn, session_id = call.turn, call.caller.session_id
    if session_id is None:
        raise Refused(call.caller.folder, call.tool, why="nobody can be asked here")
    if turn is not None and turn.instance == errands.INSTANCE:
        raise Refused(call.caller.folder, call.tool, why=NOBODY)
    if turn is not None:
        return ReachableRoom(turn.instance, turn.address, turn.thread)
    session = await call.read(sessions.get, session_id)
    if session is None or session.mode == SessionMode.AGENT_SHARED or not session.address:
        raise Invalid("ask_user_question", "no turn is running that would tell the room; ask within a turn")
    return ReachableRoom(session.instance, session.address, session.thread)


def make_request(call: ToolCall, room: ReachableRoom, asked: Mapping[str, Any], expire_s: float | None) -> NewRequest:
    """Asked again in the same turn, it is the same request: its name is what it asks."""
    digest = hashlib.sha256(_encode([call.tool, asked])).hexdigest()
    return NewRequest(
        kind=RequestKind.QUESTION,
        asker=RequestAsker.AGENT,
        name=f"question/{digest}",
        folder=call.caller.folder,
        session_id=call.caller.session_id,
        turn_id=call.turn.id if call.turn else "",
        tool=call.tool,
        input=dict(asked),
        digest=digest,
        instance=room.instance,
        address=room.address,
        thread=room.thread,
        rights=call.turn.rights if call.turn else "",
        expires_at=call.now + to_microseconds(expire_s) if expire_s is not None else None,
    )
