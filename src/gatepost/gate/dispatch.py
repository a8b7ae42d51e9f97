"""The one gate. For every call, in this order: visible → granted for its scope → structural → held? → run → audit.

Unknown and forbidden tools look alike to the caller; the audit knows the difference. A call that writes has its audit
row in its own transaction; reads and denials are written behind, at most 10 ms later.
"""

import asyncio
import hashlib
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

import msgspec

from gatepost.access import grants
from gatepost.access.grants import Rule
from gatepost.access.tiers import covers
from gatepost.core import log
from gatepost.core.errors import GatepostError, Invalid, Refused, Unavailable
from gatepost.core.registry import Registry
from gatepost.store import audit, destinations, sessions, turns
from gatepost.store.port import Db
from gatepost.store.turns import Turn
from gatepost.tools.contract import Around, Call, Caller, Place, Progress, Scope, Tool

__all__ = ["INVALID_PARAMS", "Around", "Dispatch", "ToolAnswer"]

INVALID_PARAMS = -32602
BATCH_S = 0.01  # how long an audit row of a read may wait for others
AGAIN_S = 1.0  # until the next try, when the store cannot be written
MOST_WAITING = 2000  # audit rows; who makes more than can be written behind waits for them
LONGEST_ARGUMENT = 200  # characters of an argument that the audit keeps as it is

_encode = msgspec.json.Encoder().encode
_log = log.get("gate")


class ToolAnswer(msgspec.Struct, frozen=True):
    """What a call came to. `code`: it is no call at all, a JSON-RPC error with this number."""

    text: str
    structured: bytes | None = None  # JSON
    failed: bool = False
    code: int = 0


@dataclass(frozen=True, slots=True)
class _Visible:
    """What callers of one tier with the same rules see."""

    tools: dict[str, Tool]
    listed: bytes  # the JSON array of tools/list
    rules: tuple[Rule, ...]


class _Note(msgspec.Struct, frozen=True):
    """A call to be written down. What of it is kept is worked out in the writer's thread."""

    at: int
    caller: Caller
    action: str
    verdict: str
    call_id: str
    turn_id: str | None = None
    tool: Tool | None = None
    arguments: Mapping[str, Any] | None = None
    error: str = ""

    def record(self) -> audit.Record:
        details: dict[str, Any] = {"turn": self.turn_id, "session": self.caller.session_id, "call": self.call_id}
        if self.tool is not None and self.arguments is not None:
            details |= _kept(self.tool, self.arguments)
        if self.error:
            details["error"] = self.error[:LONGEST_ARGUMENT]
        return audit.Record(self.at, f"agent:{self.caller.folder}", self.action, self.verdict, details)


def _no_rules(folder: str) -> tuple[Rule, ...]:
    return ()


class Dispatch:
    """`rules` tells a group's own; ring `bells.tools` when they change."""

    def __init__(
        self,
        tools: Registry[Tool],
        around: Around,
        rules: Callable[[str], tuple[Rule, ...]] = _no_rules,
    ) -> None:
        self._tools, self._around, self._rules = tools, around, rules
        self._visible: dict[str, _Visible] = {}  # by folder
        self._shared: dict[tuple[int, tuple[Rule, ...]], _Visible] = {}
        self._waiting: list[_Note] = []
        self._wanted = asyncio.Event()
        around.bells.on_tools(self._forget)

    def visible_to(self, caller: Caller) -> tuple[Tool, ...]:
        return tuple(self._seen_by(caller).tools.values())

    def listed_for(self, caller: Caller) -> bytes:
        """The tools of `tools/list`, as JSON. Made once for all callers that see the same."""
        return self._seen_by(caller).listed

    def is_quick(self, caller: Caller, name: str) -> bool:
        """Whether a call would hardly ever wait. What the caller does not see is refused at once."""
        tool = self._seen_by(caller).tools.get(name)
        return tool is None or tool.quick

    async def call(
        self, caller: Caller, name: str, raw: bytes, call_id: str, progress: Progress = lambda done, total, text: None
    ) -> ToolAnswer:
        """Let one call through, or not. Never raises but when it is cancelled."""
        if len(self._waiting) >= MOST_WAITING:
            try:
                await self._flush()
            except Unavailable as error:  # what cannot be written down does not happen
                return ToolAnswer(str(error), failed=True)
        now = self._around.clock.now()
        seen = self._seen_by(caller)
        tool = seen.tools.get(name)
        if tool is None:
            named, known = name[:LONGEST_ARGUMENT], name in self._tools
            self._note(_Note(now, caller, named, "refused" if known else "unknown", call_id))
            return ToolAnswer(f"Unknown tool: {named}", code=INVALID_PARAMS)
        try:
            arguments = msgspec.structs.asdict(tool.read(raw))
        except (ValueError, RecursionError) as error:  # msgspec's own errors are ValueErrors, as is bad UTF-8
            self._note(_Note(now, caller, name, "invalid", call_id, error=str(error)))
            return ToolAnswer(f"Invalid arguments for {name}: {error}", code=INVALID_PARAMS)
        turn = await self._turn_of(caller)
        note = partial(
            _Note, now, caller, name, call_id=call_id, turn_id=turn.id if turn else None, tool=tool, arguments=arguments
        )
        call = Call(
            around=self._around,
            tool=name,
            caller=caller,
            turn=turn,
            key=f"{turn.id if turn else caller.session_id or caller.folder}/{call_id}",
            now=now,
            record=lambda: note("allowed").record(),
            progress=progress,
        )
        return await self._run(tool, call, arguments, seen.rules, note)

    async def _turn_of(self, caller: Caller) -> Turn | None:
        if caller.running is not None:
            return caller.running()
        if caller.session_id is None:
            return None
        return await self._around.store.read(turns.open_of, caller.session_id)

    async def run(self) -> None:
        """Write behind what was noted, until cancelled; then what is left."""
        try:
            while True:
                await self._wanted.wait()
                await asyncio.sleep(BATCH_S)
                try:
                    await self._flush()
                except Unavailable as error:
                    _log.error("the audit cannot be written", why=str(error), waiting=len(self._waiting))
                    await asyncio.sleep(AGAIN_S)
        finally:
            with suppress(Unavailable):
                await self._flush()

    async def _run(
        self, tool: Tool, call: Call, arguments: dict[str, Any], rules: tuple[Rule, ...], note: Callable[..., _Note]
    ) -> ToolAnswer:
        try:
            if rules or tool.held or tool.scope is not None:
                await self._admit(tool, call, arguments, rules)
            answer = _answer(tool, await tool.run(call, **arguments))
        except GatepostError as error:
            self._note(note(_verdict(error), error=str(error)))
            return ToolAnswer(str(error), failed=True)
        except Exception as error:  # noqa: BLE001  the dispatching loop: one broken tool must not end a connection
            _log.exception("a tool broke", tool=tool.name, folder=call.caller.folder)
            self._note(note("broken", error=type(error).__name__))
            return ToolAnswer(f"{tool.name}: internal error; the operator's log has it", failed=True)
        except asyncio.CancelledError:
            if not call.recorded:
                self._note(note("cancelled"))
            raise
        if not call.recorded:
            self._note(note("allowed"))
        return answer

    async def _admit(self, tool: Tool, call: Call, arguments: Mapping[str, Any], rules: tuple[Rule, ...]) -> None:
        """Granted for this scope, and within reach: raise Refused otherwise, in the same words whatever is there."""
        caller, params = call.caller, _params(arguments)
        if tool.scope is Scope.ROOM and tool.scoped_by is not None:
            call.to = await self._place(call, tool, arguments.get(tool.scoped_by))
            params["jid"] = params[tool.scoped_by] = call.to.address
        elif tool.scope is Scope.GROUP and tool.scoped_by is not None:
            target = arguments.get(tool.scoped_by) or caller.folder
            if not covers(caller.folder, target):
                raise Refused(caller.folder, tool.name, target, "it is not in this group's part of the tree")
        if not grants.granted(tool.name, tool.tier, caller.tier, params, rules):
            raise Refused(caller.folder, tool.name, params.get("jid", ""), "a rule of this gateway forbids it")
        if tool.held:
            raise Refused(caller.folder, tool.name, why="it needs a person's approval, and nobody can be asked yet")

    async def _place(self, call: Call, tool: Tool, given: str | None) -> Place:
        """The room that is meant, if this group may reach it."""
        turn, caller = call.turn, call.caller
        if turn is not None and (not given or given == turn.address):
            return Place(turn.instance, turn.address, turn.thread)
        if not given:
            session = await call.read(sessions.get, caller.session_id) if caller.session_id else None
            if session is None or session.mode == "agent-shared" or not session.address:
                raise Invalid(tool.scoped_by or "chatJid", "no turn is running that would tell the room; name one")
            return Place(session.instance, session.address, session.thread)
        place = await call.read(_reachable, caller.folder, given)
        if place is None:
            raise Refused(caller.folder, tool.name, given, "it is no room of this group")
        return place

    def _seen_by(self, caller: Caller) -> _Visible:
        found = self._visible.get(caller.folder)
        if found is None:
            rules, tier = self._rules(caller.folder), caller.tier
            found = self._shared.get((tier, rules))
            if found is None:
                shown = {
                    name: tool for name, tool in self._tools.items() if grants.visible(name, tool.tier, tier, rules)
                }
                listed = _encode([_listed(tool, rules) for tool in shown.values()])
                found = self._shared[(tier, rules)] = _Visible(shown, listed, rules)
            self._visible[caller.folder] = found
        return found

    def _forget(self, folder: str | None) -> None:
        self._visible.clear()
        self._shared.clear()

    def _note(self, note: _Note) -> None:
        self._waiting.append(note)
        self._wanted.set()

    async def _flush(self) -> None:
        notes, self._waiting = self._waiting, []
        self._wanted.clear()
        if not notes:
            return
        try:
            await self._around.store.write(_append, notes, durable=False)
        except Unavailable:
            self._waiting = notes + self._waiting
            self._wanted.set()
            raise


def _append(db: Db, notes: list[_Note]) -> None:
    audit.append(db, *(note.record() for note in notes))


def _listed(tool: Tool, rules: tuple[Rule, ...]) -> dict[str, Any]:
    spoken = grants.matching(rules, tool.name)
    if not spoken:
        return tool.listed
    lines = "\n".join(rule.text for rule in spoken)
    return {
        **tool.listed,
        "description": f"{tool.description}\n\nRules of this gateway (the last that fits wins):\n{lines}",
    }


def _reachable(db: Db, folder: str, given: str) -> Place | None:
    """A destination of this group, by name or address, or a room where it has a live session."""
    for each in destinations.of(db, folder):
        if each.kind == "room" and given in (each.name, each.address):
            return Place(each.instance, each.address, each.thread)
    for session in sessions.live(db, folder):
        if session.address == given:
            return Place(session.instance, session.address)
    return None


def _params(arguments: Mapping[str, Any]) -> dict[str, str]:
    """What rules may speak of: plain values that were given."""
    return {name: str(value) for name, value in arguments.items() if isinstance(value, str | int | float)}


def _kept(tool: Tool, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments as the audit keeps them: a hash of all, and each one unless people's words are in it."""
    kept: dict[str, Any] = {}
    for name, value in arguments.items():
        if value is None:
            continue
        if name in tool.bodies or (isinstance(value, str) and len(value) > LONGEST_ARGUMENT):
            text = str(value)
            kept[name] = {"sha256": hashlib.sha256(text.encode()).hexdigest(), "length": len(text)}
        else:
            kept[name] = value
    return {"args_hash": hashlib.sha256(_encode(arguments)).hexdigest(), "args": kept}


def _answer(tool: Tool, result: object) -> ToolAnswer:
    if not tool.structured:
        return ToolAnswer(str(result))
    structured = _encode(result)
    return ToolAnswer(structured.decode(), structured)


def _verdict(error: GatepostError) -> str:
    if isinstance(error, Invalid):
        return "invalid"
    return "refused" if isinstance(error, Refused) else "failed"
