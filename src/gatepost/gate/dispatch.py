"""The one gate. For every call, in this order: visible → granted for its scope → structural → held? → budget → run →
audit.

Unknown and forbidden tools look alike to the caller; the audit knows the difference. A call that writes has its audit
row in its own transaction; reads and denials are written behind, at most 10 ms later. Of the same verdict on the same
tool in one session, the first of a minute have rows of their own; the rest is one row with their number, written when
the minute is over (a crash loses that number, and nothing else).
"""

import asyncio
import hashlib
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

import msgspec
from msgspec import Struct

from gatepost.access.policy import AccessRequest, GroupPolicy
from gatepost.access.tiers import covers
from gatepost.access.tree_scope import may_act_on
from gatepost.core import log
from gatepost.core.bounds import LARGEST_ANSWER, weight
from gatepost.core.clock import MINUTE, SECOND, iso
from gatepost.core.errors import GatepostError, Invalid, Refused, Unavailable
from gatepost.core.records import replace
from gatepost.core.registry import Registry
from gatepost.core.repeat_counter import RepeatCounter, RepeatSummary
from gatepost.gate.aliases import ALIASES
from gatepost.gate.call_explanation import list_named_groups, render_params, render_usual_params
from gatepost.gate.held_call import make_held_call
from gatepost.gate.json_depth import DEEPEST, check_depth
from gatepost.gate.policies import Policies, visible_tools
from gatepost.jsonrpc.errors import INVALID_PARAMS
from gatepost.store import audit, budgets, costs, destinations, inbox, origins, requests, sessions, turns
from gatepost.store.destinations import DestinationKind
from gatepost.store.port import Db, quick
from gatepost.store.requests import Request
from gatepost.store.sessions import SessionMode
from gatepost.store.turns import Turn
from gatepost.tools.contract import (
    Caller,
    ForwardedResult,
    HeldCall,
    Progress,
    ReachableRoom,
    Tool,
    ToolCall,
    ToolDeps,
    ToolScope,
)

__all__ = ["INVALID_PARAMS", "Dispatch", "ToolAnswer", "ToolDeps"]

BATCH_S = 0.01  # how long an audit row of a read may wait for others
AGAIN_S = 1.0  # until the next try, when the store cannot be written
AUDIT_LANE, AT_ONCE = "audit", 100  # of the writer, and how many rows of it one unit writes
WINDOW = MINUTE
FIRST_REFUSED = 10  # calls of one session, tool and verdict in a window that have a row each
FIRST_ALLOWED = 200  # the same for calls that only read
MOST_WAITING = 2000  # audit rows; who makes more than can be written behind waits for them
LONGEST_ARGUMENT = 200  # characters of an argument that the audit keeps as it is
LONGEST_ERROR = 8000  # characters of what a caller is told of an error
LARGEST_PASSED = 2 * 1024 * 1024  # bytes of another server's answer with its images; its text is bounded as any
LARGEST_MANAGED = 10 * 1024 * 1024  # of an answer to who manages agents and is none itself: whole timelines are read
OFF_LOOP = 64 * 1024  # bytes of another server's answer; more is encoded in a thread

NO_ROUTE = "it has no route to this group or those below it"
PENDING = "{} waits for a person's decision (request {}). Go on without it: what becomes of it is told to you later."

_encode = msgspec.json.Encoder().encode
_read_object = msgspec.json.Decoder(dict[str, Any]).decode
_log = log.get("gate")


def ignore_progress(done: float, total: float | None, text: str) -> None:
    """Nobody asked for progress."""


class ToolAnswer(msgspec.Struct, frozen=True):
    """What a call came to. `code`: it is no call at all, a JSON-RPC error with this number."""

    text: str
    structured: bytes | None = None  # JSON
    failed: bool = False
    code: int = 0
    content: bytes | None = None  # JSON: the content blocks, where they are more than the text


class _VisibleTools(Struct, frozen=True):
    """What a group sees, and the policy that it was made by."""

    tools: dict[str, Tool]
    listed: bytes  # the JSON array of tools/list
    policy: GroupPolicy


class _AuditEntry(msgspec.Struct):
    """A call to be written down: one for its whole life. What of it is kept is worked out in the writer's thread."""

    at: int
    caller: Caller
    action: str
    call_id: str
    turn_id: str | None = None
    tool: Tool | None = None
    arguments: Mapping[str, Any] | None = None
    verdict: str = "allowed"
    error: str = ""
    unless: Callable[[Db], bool] | None = None  # what makes it untrue, seen where it is written

    def allowed(self) -> audit.AuditRecord:
        """What goes with its effect, whatever becomes of the call meanwhile."""
        return self.record("allowed", "")

    def record(self, verdict: str | None = None, error: str | None = None) -> audit.AuditRecord:
        verdict, error = verdict or self.verdict, self.error if error is None else error
        details: dict[str, Any] = {"turn": self.turn_id, "session": self.caller.session_id, "call": self.call_id}
        if self.tool is not None and self.arguments is not None:
            details |= _render_audit_arguments(self.tool, self.arguments)
        if error:
            details["error"] = error[:LONGEST_ARGUMENT]
        return audit.AuditRecord(self.at, f"agent:{self.caller.folder}", self.action, verdict, details)


class _RepeatKey(msgspec.Struct, frozen=True):
    """What makes calls the same to the audit. A tool that there is not has no name: the caller chose it."""

    folder: str
    session_id: str | None
    action: str
    verdict: str

    def record(self, repeated: RepeatSummary["_RepeatKey"], now: int) -> audit.AuditRecord:
        details = {
            "repeated": repeated.count,
            "session": self.session_id,
            "since": iso(repeated.since),
            "until": iso(repeated.until),
        }
        return audit.AuditRecord(now, f"agent:{self.folder}", self.action, self.verdict, details)


class Dispatch:
    """Ring `bells.tools` when what groups may call has changed."""

    def __init__(
        self, tools: Registry[Tool], around: ToolDeps, policies: Callable[[str], GroupPolicy] | None = None
    ) -> None:
        self._tools, self._around = tools, around
        self._policies = policies or Policies(around.store, around.bells, around.config)
        self._visible: dict[str, _VisibleTools] = {}  # by folder
        self._plain: dict[int, _VisibleTools] = {}  # by tier: of groups that nothing is said about
        self._waiting: list[_AuditEntry] = []
        self._repeats = RepeatCounter[_RepeatKey](WINDOW)
        self._sums: list[audit.AuditRecord] = []  # of windows that are over
        self._wanted = asyncio.Event()
        around.bells.on_tools(self._forget)
        around.bells.on_group(self._forget)

    def visible_to(self, caller: Caller) -> tuple[Tool, ...]:
        return tuple(self._seen_by(caller).tools.values())

    def listed_for(self, caller: Caller) -> bytes:
        """The tools of `tools/list`, as JSON. Made once for all callers that see the same."""
        return self._seen_by(caller).listed

    def is_quick(self, caller: Caller, name: str) -> bool:
        """Whether a call would hardly ever wait. What the caller does not see is refused at once."""
        tool = self._seen_by(caller).tools.get(name)
        return tool is None or tool.quick

    def only_reads(self, caller: Caller, name: str) -> bool:
        """Whether a call has no effect and may be begun later than it came."""
        tool = self._seen_by(caller).tools.get(name)
        return tool is not None and tool.read_only and not tool.quick

    async def call(
        self,
        caller: Caller,
        name: str,
        raw: bytes,
        call_id: str,
        progress: Progress = ignore_progress,
        approved: Request | None = None,
    ) -> ToolAnswer:
        """Let one call through, or not. Never raises but when it is cancelled. `approved`: a person has allowed this
        call; everything but the hold is judged anew."""
        asked = name
        if len(self._waiting) >= MOST_WAITING:
            try:
                await self._flush()
            except Unavailable as error:  # what cannot be written down does not happen
                return ToolAnswer(str(error), failed=True)
        now = self._around.clock.now()
        seen = self._seen_by(caller)
        tool = seen.tools.get(name)
        alias = ALIASES.get(name)
        if alias is not None and (tool is None or alias.tool == name):
            name, raw = _resolve_alias(name, raw)
            tool = seen.tools.get(name)
        if tool is None:
            named, known = name[:LONGEST_ARGUMENT], name in self._tools
            self._note(_AuditEntry(now, caller, named, call_id), "refused" if known else "unknown")
            return ToolAnswer(f"Unknown tool: {asked[:LONGEST_ARGUMENT]}", code=INVALID_PARAMS)
        try:
            arguments = tool.read(raw)
            if raw.count(b"[") + raw.count(b"{") > DEEPEST:  # less cannot nest deeper
                check_depth(arguments)
        except (ValueError, RecursionError) as error:  # msgspec's own errors are ValueErrors, as is bad UTF-8
            self._note(_AuditEntry(now, caller, name, call_id), "invalid", str(error))
            return ToolAnswer(_short(f"Invalid arguments for {name}: {error}"), code=INVALID_PARAMS)
        if caller.before_call is not None and not tool.read_only:
            await caller.before_call(asked, call_id)  # one order for what an agent says and what it does
        turn = caller.running() if caller.running is not None else await self._turn_of(caller)
        note = _AuditEntry(now, caller, name, call_id, turn.id if turn else None, tool, arguments)
        keys = caller.keys if caller.keys is not None and not tool.read_only else None
        identity = keys.identify(turn, name, arguments) if keys is not None and turn is not None else None
        call = ToolCall(
            around=self._around,
            tool=name,
            caller=caller,
            turn=turn,
            key=identity.key if identity else f"{turn.id if turn else caller.session_id or caller.folder}/{call_id}",
            approved=approved,
            identity=identity,
            now=now,
            record=note.allowed,
            progress=progress,
        )
        if keys is None or identity is None:
            return await self._run(tool, call, arguments, seen.policy, note)
        answer = None
        try:
            answer = await self._run(tool, call, arguments, seen.policy, note)
            return answer
        finally:
            (keys.failed if answer is None or answer.failed else keys.answered)(identity)

    async def _turn_of(self, caller: Caller) -> Turn | None:
        if caller.session_id is None:
            return None
        return await self._around.store.read(turns.find_open, caller.session_id)

    async def run(self) -> None:
        """Write behind what was noted, until cancelled; then what is left."""
        try:
            while True:
                await self._something_to_write()
                await asyncio.sleep(BATCH_S)
                try:
                    await self._flush()
                except Unavailable as error:
                    _log.error("the audit cannot be written", why=str(error), waiting=len(self._waiting))
                    await asyncio.sleep(AGAIN_S)
        finally:
            with suppress(Unavailable):
                await self._flush(last=True)

    async def _something_to_write(self) -> None:
        """A note, or the end of a window in which calls were counted."""
        due = self._repeats.due_at()
        within = None if due is None else max(due - self._around.clock.now(), 0) / SECOND
        with suppress(TimeoutError):
            async with asyncio.timeout(within):
                await self._wanted.wait()

    async def _run(
        self, tool: Tool, call: ToolCall, arguments: dict[str, Any], policy: GroupPolicy, note: _AuditEntry
    ) -> ToolAnswer:
        try:
            if tool.scope is not None or tool.held or tool.spends or policy.has_rules_for(tool.name):
                held = await self._admit(tool, call, arguments, policy)
                if held is not None and call.approved is None and not await self._is_allowed(call, held):
                    return await self._hold(call, held, note)
                if held is not None and call.approved is not None:
                    self._check_edited(call, held, call.approved)
            answer = await _answer(tool, call, await tool.run(call, **arguments))
        except GatepostError as error:
            self._note(note, _verdict(error), str(error))
            return ToolAnswer(_short(str(error)), failed=True)
        except Exception as error:  # noqa: BLE001  the dispatching loop: one broken tool must not end a connection
            _log.exception("a tool broke", tool=tool.name, folder=call.caller.folder)
            self._note(note, "broken", type(error).__name__)
            return ToolAnswer(f"{tool.name}: internal error; the operator's log has it", failed=True)
        except asyncio.CancelledError as error:
            if isinstance(error.__cause__, GatepostError):
                self._note(note, _verdict(error.__cause__), str(error.__cause__))
            elif not call.recorded:  # as far as we heard: its transaction may be under way
                note.unless = call.is_committed
                self._note(note, "cancelled")
            raise
        if answer.failed:
            self._note(note, "failed", answer.text)
        elif not call.recorded:
            self._note(note, "allowed")
        return answer

    async def _admit(
        self, tool: Tool, call: ToolCall, arguments: Mapping[str, Any], policy: GroupPolicy
    ) -> HeldCall | None:
        """Granted for this scope, and within reach: raise Refused otherwise, in the same words whatever is there. What
        is to be asked of a person, None if the call may run."""
        caller, params = call.caller, render_params(tool, arguments)
        targets = list_named_groups(tool, arguments) or (caller.folder,)  # none named: it is about the group itself
        if tool.scope is ToolScope.ROOM and tool.scoped_by is not None:
            call.to = await self._place(call, tool, arguments.get(tool.scoped_by))
            params["jid"] = params[tool.scoped_by] = call.to.address
            targets = (call.to.folder or caller.folder,)
            for name in tool.also_scoped_by:
                call.also[name] = await self._also(call, tool, arguments.get(name))
                params[name] = call.also[name].address
        for target in list_named_groups(tool, arguments):
            if not may_act_on(tool.within, caller.folder, target):
                raise Refused(caller.folder, tool.name, target, f"it must be {tool.within} of {caller.folder}")
        if policy.has_rules_for(tool.name):
            asks = self._asks(tool, call, params)
            call.allows = lambda folder: all(policy.decide(replace(ask, scope=folder)) for ask in asks)
            if not all(map(call.allows, targets)):
                raise Refused(caller.folder, tool.name, params.get("jid", ""), "a rule of this gateway forbids it")
        if tool.spends and await call.read(_is_budget_spent, caller.folder, caller.session_id, call.turn, call.now):
            raise Refused(caller.folder, tool.name, why="the budget is spent")
        if not tool.held and not policy.holds:
            return None
        usual = render_usual_params(tool, caller.folder) if policy.has_rules_for(tool.name) else {}
        ask = AccessRequest(tool.name, tool.tier, caller.folder, params, usual=usual)
        holds = policy.list_holds(ask)
        if not holds and (not tool.held or policy.allows_expressly(ask)):
            return None
        return make_held_call(tool, call, arguments, targets, holds, policy, ask)

    async def _is_allowed(self, call: ToolCall, held: HeldCall) -> bool:
        """Whether somebody has allowed such calls for the rest of this session."""
        session_id = call.caller.session_id
        return session_id is not None and await call.read(requests.find_lasting, session_id, held.about) is not None

    async def _hold(self, call: ToolCall, held: HeldCall, note: _AuditEntry) -> ToolAnswer:
        """The agent is told at once that its call waits. What becomes of it comes later, as a message."""
        caller, holder = call.caller, self._around.holder
        if holder is None or caller.session_id is None:
            raise Refused(caller.folder, call.tool, why="it needs a person's approval, and nobody can be asked here")
        call.record = lambda: note.record("held", "")
        request_id = await holder.hold(call, held)
        told = {"status": "pending", "request": request_id, "why": held.why}
        return ToolAnswer(PENDING.format(call.tool, request_id), structured=_encode(told))

    def _check_edited(self, call: ToolCall, held: HeldCall, approved: Request) -> None:
        """A person put other arguments in place of those that were asked for: a rule that asks more people about those
        is not evaded by it."""
        wanted = self._around.holder.find_quorum(held) if self._around.holder is not None else 1
        if approved.answer and wanted > approved.quorum:
            why = f"{wanted} people must agree to what it was changed into"
            raise Refused(call.caller.folder, call.tool, why=why)

    def _asks(self, tool: Tool, call: ToolCall, params: Mapping[str, str]) -> list[AccessRequest]:
        """The call as it stands, and once more for everybody behind it and where they asked: all must be granted. So
        what a person or a room is denied stays denied in a message that an agent passes on, and after the turn's end.
        """
        caller, turn, look = call.caller, call.turn, self._around.store.read_now
        claims = {"folder": caller.folder, "tier": str(int(caller.tier)), "provider": caller.provider}
        asks = [self._ask(tool, call, params, claims)]
        if turn is not None:
            chain = look(origins.get_for_turn, turn.id)
        elif caller.session_id is not None:
            chain = look(origins.get_for_session, caller.session_id)
        else:
            return asks
        for each in chain.origins:
            known = {**claims, **self._where(each.instance, each.address, each.thread, each.person)}
            also = (each.address, each.person) if each.person else (each.address,)
            asks.append(AccessRequest(tool.name, tool.tier, caller.folder, params, known, also))
        return asks

    def _ask(self, tool: Tool, call: ToolCall, params: Mapping[str, str], claims: Mapping[str, str]) -> AccessRequest:
        """Who calls is told by what the gateway knows, never by what the call says."""
        turn, look = call.turn, self._around.store.read_now
        if turn is None:
            return AccessRequest(tool.name, tool.tier, call.caller.folder, params, claims)
        asker = look(costs.find_asker, turn.id)
        known = {**claims, **self._where(turn.instance, turn.address, turn.thread, asker)}
        people = look(inbox.list_senders, turn.id)
        return AccessRequest(tool.name, tool.tier, call.caller.folder, params, known, (turn.address, *people))

    def _where(self, instance: str, address: str, thread: str, user: str) -> dict[str, str]:
        return {"platform": self._around.reach.platform(instance), "room": address, "topic": thread, "user": user}

    async def _place(self, call: ToolCall, tool: Tool, given: str | None) -> ReachableRoom:
        """The room that is meant, if this group may reach it."""
        turn, caller, approved = call.turn, call.caller, call.approved
        if approved is not None and approved.instance and given == approved.address:  # by the bot that was asked there
            if not await call.read(_reaches, caller.folder, approved.instance, given):
                raise Refused(caller.folder, tool.name, given, NO_ROUTE)
            return ReachableRoom(approved.instance, given, approved.thread)
        if turn is not None and (not given or given == turn.address):
            return ReachableRoom(turn.instance, turn.address, turn.thread)
        if not given:
            session = await call.read(sessions.get, caller.session_id) if caller.session_id else None
            if session is None or session.mode == SessionMode.AGENT_SHARED or not session.address:
                raise Invalid(tool.scoped_by or "chatJid", "no turn is running that would tell the room; name one")
            return ReachableRoom(session.instance, session.address, session.thread)
        place = await call.read(_find_room, caller.folder, given)
        if place is None:
            raise Refused(caller.folder, tool.name, given, NO_ROUTE)
        return place

    async def _also(self, call: ToolCall, tool: Tool, given: str | None) -> ReachableRoom:
        """A further room, under the same rule. Nothing tells which: the one that the call is about."""
        return call.place if not given and call.turn is None else await self._place(call, tool, given)

    def _seen_by(self, caller: Caller) -> _VisibleTools:
        found = self._visible.get(caller.folder)
        if found is None:
            policy = self._policies(caller.folder)
            found = self._plain.get(caller.tier) if policy.plain else None
            found = self._visible[caller.folder] = found or self._see(policy)
            if policy.plain:
                self._plain[caller.tier] = found
        return found

    def _see(self, policy: GroupPolicy) -> _VisibleTools:
        shown = {tool.name: tool for tool in visible_tools(self._tools, policy)}
        return _VisibleTools(shown, _encode([render_listed_tool(tool, policy) for tool in shown.values()]), policy)

    def _forget(self, folder: str | None) -> None:
        self._visible.clear()
        self._plain.clear()

    def _note(self, note: _AuditEntry, verdict: str, error: str = "") -> None:
        note.verdict, note.error = verdict, error
        action = "*" if verdict == "unknown" else note.action
        kind = _RepeatKey(note.caller.folder, note.caller.session_id, action, verdict)
        counted = self._repeats.add(kind, note.at, FIRST_ALLOWED if verdict == "allowed" else FIRST_REFUSED)
        if not counted:
            self._waiting.append(note)
        if counted == 1 or (not counted and len(self._waiting) == 1):
            self._wanted.set()

    async def _flush(self, *, last: bool = False) -> None:
        now = self._around.clock.now()
        self._sums += [each.key.record(each, now) for each in self._repeats.pop_closed(None if last else now)]
        notes, self._waiting = self._waiting, []
        sums, self._sums = self._sums, []
        self._wanted.clear()
        if not notes and not sums:
            return
        lanes: dict[str, list[_AuditEntry | audit.AuditRecord]] = {AUDIT_LANE: []}
        for note in notes:  # a call that was cancelled is judged behind what it had under way
            lanes.setdefault(AUDIT_LANE if note.unless is None else note.caller.lane, []).append(note)
        lanes[AUDIT_LANE] += sums
        units = [(lane, some[at : at + AT_ONCE]) for lane, some in lanes.items() for at in range(0, len(some), AT_ONCE)]
        for count, (lane, some) in enumerate(units, 1):
            try:
                await self._around.store.write(_append, some, durable=False, lane=lane)
            except (Unavailable, asyncio.CancelledError) as error:
                left = [
                    *(some if isinstance(error, Unavailable) else ()),
                    *(each for _, rest in units[count:] for each in rest),
                ]
                self._waiting = [*(each for each in left if isinstance(each, _AuditEntry)), *self._waiting]
                self._sums = [*(each for each in left if isinstance(each, audit.AuditRecord)), *self._sums]
                self._wanted.set()
                raise


def _append(db: Db, some: list[_AuditEntry | audit.AuditRecord]) -> None:
    """Notes, and the numbers of what was only counted."""
    records = (each if isinstance(each, audit.AuditRecord) else _record(db, each) for each in some)
    audit.append(db, *(each for each in records if each is not None))


def _record(db: Db, note: _AuditEntry) -> audit.AuditRecord | None:
    return note.record() if note.unless is None or not note.unless(db) else None


def render_listed_tool(tool: Tool, policy: GroupPolicy) -> dict[str, Any]:
    """As in tools/list."""
    spoken = policy.list_rules_for(tool.name)
    if not spoken:
        return tool.listed
    lines = "\n".join(spoken)
    return {**tool.listed, "description": f"{tool.description}\n\nRules of this gateway for it:\n{lines}"}


def _resolve_alias(name: str, raw: bytes) -> tuple[str, bytes]:
    """The tool and the arguments that an older name stands for. What cannot be read is judged as it came."""
    alias = ALIASES[name]
    try:
        return alias.tool, _encode(alias.translate(_read_object(raw)))
    except (ValueError, RecursionError):
        return alias.tool, raw


@quick
def _find_room(db: Db, folder: str, given: str) -> ReachableRoom | None:
    """A destination of this group, by name or address, or a room where it or a group below it has a live session."""
    for each in destinations.list_for_group(db, folder):
        if each.kind == DestinationKind.ROOM and given in (each.name, each.address):
            return ReachableRoom(each.instance, each.address, each.thread)
    for session in sessions.list_in_room(db, given):
        if covers(folder, session.folder):
            return ReachableRoom(session.instance, session.address, folder=session.folder)
    return None


@quick
def _reaches(db: Db, folder: str, instance: str, address: str) -> bool:
    """The same for a room of one channel instance."""
    known = destinations.find_by_room(db, folder, instance, address)
    return known is not None or any(
        each.instance == instance and covers(folder, each.folder) for each in sessions.list_in_room(db, address)
    )


@quick
def _is_budget_spent(db: Db, folder: str, session_id: str | None, turn: Turn | None, now: int) -> bool:
    payer = costs.find_payer(db, turn.id) if turn else costs.find_last_payer(db, session_id or "")
    return any(each.spent >= each.limit for each in budgets.list_applicable(db, folder, payer, now))


def _render_audit_arguments(tool: Tool, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments as the audit keeps them: a hash of all, and each one unless people's words are in it."""
    kept: dict[str, Any] = {}
    for name, value in arguments.items():
        if value is None:
            continue
        text = value if isinstance(value, str) else _encode(value).decode()
        if name in tool.bodies or len(text) > LONGEST_ARGUMENT:
            kept[name] = {"sha256": hashlib.sha256(text.encode()).hexdigest(), "length": len(text)}
        else:
            kept[name] = value
    return {"args_hash": hashlib.sha256(_encode(arguments)).hexdigest(), "args": kept}


async def _answer(tool: Tool, call: ToolCall, result: object) -> ToolAnswer:
    """As it goes to the caller, if it is not too large. What is large beyond doubt is not even encoded."""
    most = LARGEST_ANSWER if call.caller.session_id is not None else LARGEST_MANAGED
    if isinstance(result, ForwardedResult):
        size = weight(result, LARGEST_PASSED)
        if size > LARGEST_PASSED or weight(result.text, most) > most or weight(result.structured, most) > most:
            return _too_large(tool, LARGEST_PASSED if size > LARGEST_PASSED else most)
        answer = await call.in_thread(_passed, result) if size > OFF_LOOP else _passed(result)
        return answer if len(answer.content or b"") <= LARGEST_PASSED else _too_large(tool, LARGEST_PASSED)
    if not tool.structured:
        text = str(result)
        return ToolAnswer(text) if len(text) <= most and len(text.encode()) <= most else _too_large(tool, most)
    if weight(result, most) > most:
        return _too_large(tool, most)
    structured = _encode(result)
    return ToolAnswer(structured.decode(), structured) if len(structured) <= most else _too_large(tool, most)


def _passed(result: ForwardedResult) -> ToolAnswer:
    structured = None if result.structured is None else _encode(result.structured)
    return ToolAnswer(result.text, structured, result.failed, content=_encode(result.content))


def _too_large(tool: Tool, most: int) -> ToolAnswer:
    done = "" if tool.read_only else " The call itself was made."
    why = f"{tool.name}: the answer has more than {most} bytes, which is the most that one may have.{done}"
    return ToolAnswer(f"{why} Ask for less: a lower limit, a shorter time, one thing at a time.", failed=True)


def _short(text: str) -> str:
    return text if len(text) <= LONGEST_ERROR else f"{text[:LONGEST_ERROR]} […]"


def _verdict(error: GatepostError) -> str:
    if isinstance(error, Invalid):
        return "invalid"
    return "refused" if isinstance(error, Refused) else "failed"
