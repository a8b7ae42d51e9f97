"""Held calls: a tool call that waits for a person becomes a request. Allowed, it runs once, with the arguments and the
files that were seen, and the agent is told what came of it.

The host's copies of such files lie below `media/held/`. They go when no open request names them any more.
"""

import asyncio
import hashlib
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

import msgspec

from gatepost.core import log
from gatepost.core.clock import HOUR, SECOND, Clock
from gatepost.core.errors import Refused, Unavailable
from gatepost.core.event_bus import EventBus
from gatepost.core.records import replace
from gatepost.core.settings import Config
from gatepost.flow.delivery.outgoing_messages import ChannelInstances
from gatepost.flow.requests.ask_approver import (
    MOST_AN_HOUR,
    MOST_WAITING,
    MOST_WAITING_IN_GROUP,
    AskedRequest,
    ask,
    read_rules,
)
from gatepost.flow.requests.card_delivery import show_failure
from gatepost.flow.requests.decide import notify_agent
from gatepost.messages.card import escape_markdown
from gatepost.messages.visible_text import shorten_visibly, show_hidden, show_hidden_in_lines
from gatepost.store.gateways import group_places
from gatepost.store.messages import sent_files
from gatepost.store.port import Db, LockKind, Store
from gatepost.store.rights import requests, switches, waiting_requests
from gatepost.store.rights.requests import HELD, BoundReads, NewRequest, Request, RequestKind, RequestState
from gatepost.store.sessions import sessions, turns
from gatepost.store.sessions.sessions import Session
from gatepost.store.sessions.turns import Turn
from gatepost.tools.call import Caller, HeldCall, ToolCall

INTERRUPTED = (
    "It was let through and begun, and the gateway stopped before its result was known. Look before you repeat it."
)
# What whoever allowed a call reads of it, if it did not come to its end.
FAILED = "It failed: the tool reported an error."
CUT_OFF = "The gateway stopped while it ran: it may have been done, or not."
TOO_LATE = "It was not done: the conversation that asked for it is over."
YOUNG_S = 600.0  # a copy is made before its request
MOST_LINES, LONGEST_LINE, LONGEST_NAME = 10, 120, 500  # of a file, of each, and of a name, on a card
LONGEST_RESULT = 20_000  # characters of a result that an agent is told
AT_ONCE = 100  # allowed calls that one look finds
MOST_LOOKED_THROUGH = 2000  # those of a gateway that is away, or of a group that rests, wait
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

    @property
    def outcome(self) -> str: ...


class CallGate(Protocol):
    """The one gate, for a call that a person allowed."""

    async def call(self, caller: Caller, name: str, raw: bytes, call_id: str, *, approved: Request) -> CallAnswer: ...


class HeldCalls:
    def __init__(
        self,
        store: Store,
        clock: Clock,
        config: Config,
        events: EventBus,
        channels: ChannelInstances,
        gateway: str = "",
        media: Path | None = None,
    ) -> None:
        """`gateway`: this one, if groups lie on one of several gateways each; '': all lie here."""
        self._gateway, self._media = gateway, media
        self._store, self._clock, self._config, self._events, self._channels = store, clock, config, events, channels
        self._running = set[str]()  # sessions of which a call runs

    async def hold(self, call: ToolCall, held: HeldCall) -> str:
        rules = read_rules(self._config)
        new = replace(make_request(call, held), quorum=self.find_quorum(held))

        def add(db: Db) -> AskedRequest:
            if requests.find_same(db, new) is None:
                check_limits(db, new, call.now)
            return ask(db, self._channels, rules, new, call.now)

        try:
            asked = await call.write(add)
        except Refused:
            await self._discard(call, new.bound)
            raise
        if not asked.added:  # it waits with the copies of the first time
            await asyncio.to_thread(remove_copies, new.bound)
        for room in asked.rooms:
            self._events.room(*room)
        self._events.requests()
        return asked.request.id

    async def _discard(self, call: ToolCall, bound: BoundReads) -> None:
        """Nobody is asked: what was copied for it goes, and counts no more."""
        if bound.files:
            call.deps.store.post(sent_files.remove, call.key, lane=call.caller.lane)
            await asyncio.to_thread(remove_copies, bound)

    async def remove_unused_copies(self) -> None:
        """Those of requests that ended, however they did. A younger one may be of a call that is held just now."""
        if self._media is None:
            return
        before = self._clock.now() / SECOND - YOUNG_S
        if old := await asyncio.to_thread(_list_copies, self._media / HELD, before):
            used = {Path(each).parent for each in await self._store.read(requests.list_bound_files)}
            await asyncio.to_thread(_remove_folders, [each for each in old if each not in used])

    def find_quorum(self, held: HeldCall) -> int:
        return choose_quorum(held.quorums, read_rules(self._config).quorum)

    async def start_allowed(self, gate: CallGate, tasks: asyncio.TaskGroup, *, placed: bool = False) -> None:
        """Run what was allowed and has not run: of one session one after another, so that a call that takes long holds
        up its own session alone. The bell of requests is rung when one is done. `placed`: those of groups whose files
        are on this gateway, which may be needed; else those of groups that lie nowhere in particular."""
        await self.remove_unused_copies()
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
        self._events.requests()

    async def _run(self, gate: CallGate, request: Request) -> None:
        if request.state is not RequestState.ALLOWED:  # told with the decision; its session was gone
            await self._notify(request, {})
            return
        if request.settled_at is not None:
            await self._notify(request, {"error": INTERRUPTED}, CUT_OFF)
            return
        session = await self._store.read(sessions.get, request.session_id or "")
        if session is None or session.closed_at is not None:
            await self._notify(request, {}, TOO_LATE)
            return
        turn = await self._store.read(turns.get, request.turn_id) if request.turn_id else None
        answer = await gate.call(
            make_caller(session, turn), request.tool, get_arguments(request), request.id, approved=request
        )
        failed = bool(answer.failed or answer.code)
        outcome: dict[str, Any] = {"error" if failed else "result": answer.text[:LONGEST_RESULT]}
        if request.answer:
            outcome["changedTo"] = request.answer  # by whoever allowed it: the agent did not ask for this
        await self._notify(request, outcome, (answer.outcome or FAILED) if failed else "")

    async def _notify(self, request: Request, outcome: dict[str, Any], failure: str = "") -> None:
        """Tell the agent, and, if it failed, whoever allowed it. `failure`: for them."""

        def settle(db: Db) -> tuple[bool, tuple[tuple[str, str], ...]]:
            now = self._clock.now()
            requests.settle(db, request.id, now)
            found = requests.get(db, request.id)  # who allowed it may have been forgotten while it ran
            if found is None or found.notified_at is not None:
                return False, ()
            rooms: tuple[tuple[str, str], ...] = ()
            if failure:
                requests.record_failure(db, request.id, failure)
                rooms = show_failure(db, self._channels, found, failure, now)
            return notify_agent(db, found, outcome, now), rooms

        try:
            notified, rooms = await self._store.write(settle, lane=request.session_id or "")
        except Unavailable as error:
            _log.warning("a decision could not be told yet", request=request.id, why=str(error))
            raise
        for room in rooms:
            self._events.room(*room)
        await asyncio.to_thread(remove_copies, request.reads)
        if notified and request.session_id is not None:
            self._events.session(request.session_id)


def remove_copies(bound: BoundReads) -> None:
    """The host's own copies of what a call would give away."""
    _remove_folders(list({Path(each.path).parent for each in bound.files}))


def _list_copies(folder: Path, before: float) -> list[Path]:
    if not folder.is_dir():
        return []
    return [each for each in folder.iterdir() if each.stat(follow_symlinks=False).st_mtime < before]


def _remove_folders(folders: Sequence[Path]) -> None:
    for each in folders:
        if each.parent.name == HELD:
            shutil.rmtree(each, ignore_errors=True)


def _list_allowed(db: Db, place: str | None) -> list[Request]:
    """Return allowed calls of groups placed on the gateway `place`. '' means groups without a place, None means all
    groups. While everything is stopped, or a group rests, its calls wait."""
    found = requests.list_unnotified(db, (RequestKind.CALL,), MOST_LOOKED_THROUGH)
    if place is not None:
        runners = group_places.list_runners(db)
        found = [each for each in found if runners.get(group_places.get_world(each.folder), "") == place]
    stopped = {folder for folder in {each.folder for each in found} if switches.find_stop(db, folder) is not None}
    return [each for each in found if each.folder not in stopped or not _runs(each)][:AT_ONCE]


def _runs(request: Request) -> bool:
    """Return True for one that would be called now. Of the others its agent is told what became of them."""
    return request.state is RequestState.ALLOWED and request.settled_at is None


def check_limits(db: Db, new: NewRequest, now: int) -> None:
    """People have to read each of them: an agent does not flood their rooms."""
    db.lock(LockKind.QUOTA, "requests", new.folder)
    session_id, why = new.session_id or "", ""
    if waiting_requests.count_waiting(db, session_id) >= MOST_WAITING:
        why = f"{MOST_WAITING} requests of this conversation wait for a decision already"
    elif waiting_requests.count_waiting_in_group(db, new.folder) >= MOST_WAITING_IN_GROUP:
        why = f"{MOST_WAITING_IN_GROUP} requests of this group wait for a decision already"
    elif requests.count_asked_since(db, session_id, now - HOUR) >= MOST_AN_HOUR:
        why = f"this conversation has asked people {MOST_AN_HOUR} times in an hour; wait, or do without it"
    if why:
        raise Refused(new.folder, new.tool, why=why)


def choose_quorum(quorums: Sequence[int], usual: int) -> int:
    """How many must agree: the strictest rule counts. `usual`: for a rule that says nothing of it."""
    return max((quorum or usual for quorum in quorums), default=usual)


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
        digest=hashlib.sha256(_encode([call.tool, arguments, *_list_digests(held.bound)])).hexdigest(),
        about=held.about,
        cut=any(each.cut for each in held.bound.facts),
        why=held.why,
        preview="\n\n".join(filter(None, [held.preview, render_bound(held.bound)])),
        bound=held.bound,
        rule=held.rule,
        rooms=dict(held.rooms),
        instance=turn.instance if turn else "",
        address=turn.address if turn else "",
        thread=turn.thread if turn else "",
        rights=turn.rights if turn else "",
    )


def _list_digests(bound: BoundReads) -> list[str]:
    """Return the digests that make the same arguments another request."""
    return [*(each.sha256 for each in bound.files), *(each.digest for each in bound.facts)]


def render_bound(bound: BoundReads) -> str:
    """Render what a call reads besides its arguments, as markdown for the card."""
    parts = []
    for file in bound.files:
        head = f"File {_render_name(file.name)}: {file.size:,} bytes, sha256 {file.sha256}"
        lines = [show_hidden(line[:LONGEST_LINE]) for line in file.excerpt.splitlines()[:MOST_LINES]]
        parts.append(_render_lines(head, lines) if lines else head)
    parts += [_render_fact(f"{each.kind.capitalize()} {_render_name(each.name)}:", each.shown) for each in bound.facts]
    return "\n\n".join(parts)


def _render_fact(head: str, shown: str) -> str:
    """All of it. A long text is broken into lines, so that a card in parts tears none of its signs."""
    if len(shown) <= LONGEST_LINE and "\n" not in shown:
        return f"{head} {escape_markdown(show_hidden(shown))}"
    whole = show_hidden_in_lines(shown).split("\n")
    return _render_lines(
        head, [line[at : at + LONGEST_LINE] for line in whole for at in range(0, len(line), LONGEST_LINE)]
    )


def _render_lines(head: str, lines: Sequence[str]) -> str:
    return "\n".join([head, "", "```", *(f"· {line}" for line in lines), "```"])


def _render_name(text: str) -> str:
    return escape_markdown(shorten_visibly(text, LONGEST_NAME))


def make_caller(session: Session, turn: Turn | None) -> Caller:
    """As whoever asked, in the turn that asked: grants are judged for the same people."""
    return Caller(folder=session.folder, session_id=session.id, provider=session.provider, running=lambda: turn)


def get_arguments(request: Request) -> bytes:
    """Those that were seen, or those that a person put in their place."""
    return msgspec.json.encode(request.answer or request.input)
