"""The audit of tool calls. A call that writes has its audit row in its own transaction; reads and denials are written
behind, at most 10 ms later. Equal verdicts on the same tool in one session have rows of their own at first. Further
ones of the minute become one row with their number, written when the minute is over. A crash loses that number, and
nothing else.
"""

import asyncio
import hashlib
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

import msgspec

from gatepost.core import log
from gatepost.core.clock import MINUTE, SECOND, Clock, iso
from gatepost.core.errors import Unavailable
from gatepost.core.repeat_counter import RepeatCounter, RepeatSummary
from gatepost.store.port import Db, Store
from gatepost.store.rights import audit
from gatepost.tools.call import Caller
from gatepost.tools.contract import Tool

BATCH_S = 0.01  # how long an audit row of a read may wait for others
AGAIN_S = 1.0  # until the next try, when the store cannot be written
AUDIT_LANE, AT_ONCE = "audit", 100  # of the writer, and how many rows of it one unit writes
WINDOW = MINUTE
FIRST_REFUSED = 10  # calls of one session, tool and verdict in a window that have a row each
FIRST_ALLOWED = 200  # the same for calls that only read
MOST_WAITING = 2000  # audit rows; who makes more than can be written behind waits for them
LONGEST_ARGUMENT = 200  # characters of an argument that the audit keeps as it is

UNKNOWN, ANY_TOOL = "unknown", "*"  # the verdict on a call of a tool that there is not, and the action of its row

_encode = msgspec.json.Encoder().encode
_log = log.get("gate")


class AuditedCall(msgspec.Struct):
    """A call to be recorded, one object for its whole life. The writer's thread works out the fields that are
    stored."""

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
        """Return what goes with its effect, whatever becomes of the call meanwhile."""
        return self.record("allowed", "")

    def record(self, verdict: str | None = None, error: str | None = None) -> audit.AuditRecord:
        verdict, error = verdict or self.verdict, self.error if error is None else error
        details: dict[str, Any] = {"turn": self.turn_id, "session": self.caller.session_id, "call": self.call_id}
        if self.tool is not None and self.arguments is not None:
            details |= _render_arguments(self.tool, self.arguments)
        if error:
            details["error"] = error[:LONGEST_ARGUMENT]
        action = self.action
        if verdict == UNKNOWN:  # what somebody calls a tool that there is not may be anybody's words: it can be erased
            action, details["tool"] = ANY_TOOL, self.action
        return audit.AuditRecord(self.at, f"agent:{self.caller.folder}", action, verdict, details)


class _RepeatKey(msgspec.Struct, frozen=True):
    """The parts by which calls are the same to the audit. A tool that there is not has no name: the caller chose it."""

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


class CallAudit:
    """Outcomes of calls, on their way to the audit log."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store, self._clock = store, clock
        self._waiting: list[AuditedCall] = []
        self._repeats = RepeatCounter[_RepeatKey](WINDOW)
        self._sums: list[audit.AuditRecord] = []  # of windows that are over
        self._wanted = asyncio.Event()

    @property
    def is_full(self) -> bool:
        """Return True if more waits than can be written behind: who makes still more waits for it."""
        return len(self._waiting) >= MOST_WAITING

    def add(self, note: AuditedCall, verdict: str, error: str = "") -> None:
        note.verdict, note.error = verdict, error
        action = ANY_TOOL if verdict == UNKNOWN else note.action
        kind = _RepeatKey(note.caller.folder, note.caller.session_id, action, verdict)
        counted = self._repeats.add(kind, note.at, FIRST_ALLOWED if verdict == "allowed" else FIRST_REFUSED)
        if not counted:
            self._waiting.append(note)
        if counted == 1 or (not counted and len(self._waiting) == 1):
            self._wanted.set()

    async def flush(self, *, last: bool = False) -> None:
        now = self._clock.now()
        self._sums += [each.key.record(each, now) for each in self._repeats.pop_closed(None if last else now)]
        notes, self._waiting = self._waiting, []
        sums, self._sums = self._sums, []
        self._wanted.clear()
        if not notes and not sums:
            return
        lanes: dict[str, list[AuditedCall | audit.AuditRecord]] = {AUDIT_LANE: []}
        for note in notes:  # a call that was cancelled is judged behind what it had under way
            lanes.setdefault(AUDIT_LANE if note.unless is None else note.caller.lane, []).append(note)
        lanes[AUDIT_LANE] += sums
        units = [(lane, some[at : at + AT_ONCE]) for lane, some in lanes.items() for at in range(0, len(some), AT_ONCE)]
        for count, (lane, some) in enumerate(units, 1):
            try:
                await self._store.write(_append, some, durable=False, lane=lane)
            except (Unavailable, asyncio.CancelledError) as error:
                left = [
                    *(some if isinstance(error, Unavailable) else ()),
                    *(each for _, rest in units[count:] for each in rest),
                ]
                self._waiting = [*(each for each in left if isinstance(each, AuditedCall)), *self._waiting]
                self._sums = [*(each for each in left if isinstance(each, audit.AuditRecord)), *self._sums]
                self._wanted.set()
                raise

    async def run(self) -> None:
        """Write behind what was noted, until cancelled; then what is left."""
        try:
            while True:
                await self._something_to_write()
                await asyncio.sleep(BATCH_S)
                try:
                    await self.flush()
                except Unavailable as error:
                    _log.error("the audit cannot be written", why=str(error), waiting=len(self._waiting))
                    await asyncio.sleep(AGAIN_S)
        finally:
            with suppress(Unavailable):
                await self.flush(last=True)

    async def _something_to_write(self) -> None:
        """A note, or the end of a window in which calls were counted."""
        due = self._repeats.due_at()
        within = None if due is None else max(due - self._clock.now(), 0) / SECOND
        with suppress(TimeoutError):
            async with asyncio.timeout(within):
                await self._wanted.wait()


def _append(db: Db, some: list[AuditedCall | audit.AuditRecord]) -> None:
    """Notes, and the numbers of what was only counted."""
    records = (each if isinstance(each, audit.AuditRecord) else _record(db, each) for each in some)
    audit.append(db, *(each for each in records if each is not None))


def _record(db: Db, note: AuditedCall) -> audit.AuditRecord | None:
    return note.record() if note.unless is None or not note.unless(db) else None


def _render_arguments(tool: Tool, arguments: Mapping[str, Any]) -> dict[str, Any]:
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
