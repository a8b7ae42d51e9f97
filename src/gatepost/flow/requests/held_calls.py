"""Held calls: a tool call that waits for a person becomes a request. Allowed, it runs once, with the arguments that
were seen, and the agent is told what came of it."""

import asyncio
import hashlib
from typing import Any, Protocol

import msgspec

from gatepost.core import log
from gatepost.core.clock import HOUR, Clock
from gatepost.core.errors import Refused, Unavailable
from gatepost.core.event_bus import EventBus
from gatepost.core.records import replace
from gatepost.core.settings import Config
from gatepost.flow.delivery.outgoing_messages import ChannelInstances
from gatepost.flow.requests.asking import (
    MOST_AN_HOUR,
    MOST_WAITING,
    MOST_WAITING_IN_GROUP,
    AskedRequest,
    ask,
    read_rules,
)
from gatepost.flow.requests.deciding import notify_agent
from gatepost.store import group_places, requests, sessions, turns, waiting_requests
from gatepost.store.port import Db, LockKind, Store
from gatepost.store.requests import NewRequest, Request, RequestKind, RequestState
from gatepost.store.sessions import Session
from gatepost.store.turns import Turn
from gatepost.tools.call import Caller, HeldCall, ToolCall

INTERRUPTED = (
    "It was let through and begun, and the gateway stopped before its result was known. Look before you repeat it."
)
LONGEST_RESULT = 20_000  # characters of a result that an agent is told
AT_ONCE = 100  # allowed calls that one look finds
MOST_LOOKED_THROUGH = 2000  # those of a gateway that is away wait
AGAIN_S = 1.0  # until the next try, when the store cannot be written

_encode = msgspec.json.Encoder(order="sorted").encode
_log = log.get("requests")


class CallAnswer(Protocol):
    @property
    def text(self) -> str: ...

    @property
    def failed(self) -> bool: ...

    @property
    def code(self) -> int: ...


class CallGate(Protocol):
    """The one gate, for a call that a person allowed."""

    async def call(self, caller: Caller, name: str, raw: bytes, call_id: str, *, approved: Request) -> CallAnswer: ...


class HeldCalls:
    def __init__(
        self,
        store: Store,
        clock: Clock,
        config: Config,
        bells: EventBus,
        reach: ChannelInstances,
        gateway: str = "",
    ) -> None:
        """`gateway`: this one, if groups lie on one of several gateways each; '': all lie here."""
        self._gateway = gateway
        self._store, self._clock, self._config, self._bells, self._reach = store, clock, config, bells, reach
        self._running = set[str]()  # sessions of which a call runs

    async def hold(self, call: ToolCall, held: HeldCall) -> str:
        rules = read_rules(self._config)
        new = replace(make_request(call, held), quorum=self.find_quorum(held))

        def add(db: Db) -> AskedRequest:
            if requests.find_same(db, new) is None:
                check_limits(db, new, call)
            return ask(db, self._reach, rules, new, call.now)

        asked = await call.write(add)
        for room in asked.rooms:
            self._bells.room(*room)
        self._bells.requests()
        return asked.request.id

    def find_quorum(self, held: HeldCall) -> int:
        return choose_quorum(held, read_rules(self._config).quorum)

    async def start_allowed(self, gate: CallGate, tasks: asyncio.TaskGroup, *, placed: bool = False) -> None:
        """Run what was allowed and has not run: of one session one after another, so that a call that takes long holds
        up its own session alone. The bell of requests is rung when one is done. `placed`: those of groups whose files
        are on this gateway, which may be needed; else those of groups that lie nowhere in particular."""
        busy = set(self._running)  # what ends while we read would be found as it was before
        place = (self._gateway if placed else "") if self._gateway else None
        for request in await self._store.read(_list_allowed, place):
            key = request.session_id or request.id
            if key not in busy and key not in self._running:
                self._running.add(key)
                tasks.create_task(self._run_and_ring(gate, request, key))

    async def _run_and_ring(self, gate: CallGate, request: Request, key: str) -> None:
        try:
            await self._run(gate, request)
        except Unavailable:
            await asyncio.sleep(AGAIN_S)
        finally:
            self._running.discard(key)
        self._bells.requests()

    async def _run(self, gate: CallGate, request: Request) -> None:
        if request.state is not RequestState.ALLOWED:  # told with the decision; its session was gone
            await self._notify(request, {})
            return
        if request.settled_at is not None:
            await self._notify(request, {"error": INTERRUPTED})
            return
        session = await self._store.read(sessions.get, request.session_id or "")
        if session is None or session.closed_at is not None:
            await self._notify(request, {})
            return
        turn = await self._store.read(turns.get, request.turn_id) if request.turn_id else None
        answer = await gate.call(
            make_caller(session, turn), request.tool, get_arguments(request), request.id, approved=request
        )
        outcome: dict[str, Any] = {"error" if answer.failed or answer.code else "result": answer.text[:LONGEST_RESULT]}
        if request.answer:
            outcome["changedTo"] = request.answer  # by whoever allowed it: the agent did not ask for this
        await self._notify(request, outcome)

    async def _notify(self, request: Request, outcome: dict[str, Any]) -> None:
        def settle(db: Db) -> bool:
            requests.settle(db, request.id, self._clock.now())
            return notify_agent(db, request, outcome, self._clock.now())

        try:
            told = await self._store.write(settle, lane=request.session_id or "")
        except Unavailable as error:
            _log.warning("a decision could not be told yet", request=request.id, why=str(error))
            raise
        if told and request.session_id is not None:
            self._bells.session(request.session_id)


def _list_allowed(db: Db, place: str | None) -> list[Request]:
    """Of groups that lie on this gateway. Empty: on none in particular. None: wherever they do."""
    if place is None:
        return requests.list_unnotified(db, (RequestKind.CALL,), AT_ONCE)
    runners = group_places.list_runners(db)
    found = requests.list_unnotified(db, (RequestKind.CALL,), MOST_LOOKED_THROUGH)
    return [each for each in found if runners.get(group_places.get_world(each.folder), "") == place][:AT_ONCE]


def check_limits(db: Db, new: NewRequest, call: ToolCall) -> None:
    """People have to read each of them: an agent does not flood their rooms."""
    db.alone(LockKind.QUOTA, "requests", new.folder)
    session_id, why = new.session_id or "", ""
    if waiting_requests.count_waiting(db, session_id) >= MOST_WAITING:
        why = f"{MOST_WAITING} requests of this conversation wait for a decision already"
    elif waiting_requests.count_waiting_in_group(db, new.folder) >= MOST_WAITING_IN_GROUP:
        why = f"{MOST_WAITING_IN_GROUP} requests of this group wait for a decision already"
    elif requests.count_asked_since(db, session_id, call.now - HOUR) >= MOST_AN_HOUR:
        why = f"this conversation has asked people {MOST_AN_HOUR} times in an hour; wait, or do without it"
    if why:
        raise Refused(call.caller.folder, call.tool, why=why)


def choose_quorum(held: HeldCall, usual: int) -> int:
    """How many must agree: the strictest rule counts. `usual`: for a rule that says nothing of it."""
    return max((quorum or usual for quorum in held.quorums), default=usual)


def make_request(call: ToolCall, held: HeldCall) -> NewRequest:
    caller, turn = call.caller, call.turn
    arguments = dict(held.arguments)
    return NewRequest(
        kind=RequestKind.CALL,
        name=call.key,
        folder=caller.folder,
        session_id=caller.session_id,
        turn_id=turn.id if turn else "",
        tool=call.tool,
        input=msgspec.to_builtins(arguments),
        editable=True,
        digest=hashlib.sha256(_encode([call.tool, arguments])).hexdigest(),
        about=held.about,
        why=held.why,
        preview=held.preview,
        rule=held.rule,
        rooms=dict(held.rooms),
        instance=turn.instance if turn else "",
        address=turn.address if turn else "",
        thread=turn.thread if turn else "",
        rights=turn.rights if turn else "",
    )


def make_caller(session: Session, turn: Turn | None) -> Caller:
    """As whoever asked, in the turn that asked: grants are judged for the same people."""
    return Caller(folder=session.folder, session_id=session.id, provider=session.provider, running=lambda: turn)


def get_arguments(request: Request) -> bytes:
    """Those that were seen, or those that a person put in their place."""
    return msgspec.json.encode(request.answer or request.input)
