"""Lanes of units that wait for the writer, and of reads.

Order is kept within a lane of the writer, and lanes take turns, one unit each.

Units that nobody waits for are patient: alone they wait a moment, so that the next commit takes them along. A lane is
whatever must not hold up others: a session's id, or a room. Units without a lane share one. `put` is for any
thread; everything else is the writer thread's own, so nothing here is locked. Answers go to the loops that wait.
"""

import asyncio
import queue
import time
from collections import OrderedDict, deque
from collections.abc import Callable
from typing import Any, TypeVar
from weakref import WeakValueDictionary

from msgspec import Struct

from gatepost.core import log

T = TypeVar("T")

LINGER_S = 0.005  # for which a unit that nobody waits for lets the writer rest

_log = log.get("store")


class WriteUnit(Struct, eq=False):
    """A function to be run in a transaction, and who waits for its answer."""

    fn: Callable[..., Any]
    args: tuple[Any, ...]
    durable: bool
    lane: str
    loop: asyncio.AbstractEventLoop
    future: asyncio.Future[Any]
    patient: bool = False  # nobody waits for it, so it can wait for others and be committed with them
    answer: Any = None
    error: BaseException | None = None

    @property
    def name(self) -> str:
        """The name of the function, or of what it wraps."""
        fn: Any = self.fn
        while (inner := getattr(fn, "__wrapped__", None) or getattr(fn, "func", None)) is not None:
            fn = inner
        return f"{getattr(fn, '__module__', '')}.{getattr(fn, '__qualname__', repr(fn))}"


class WriteQueue:
    def __init__(self) -> None:
        self._arrived: queue.SimpleQueue[WriteUnit | None] = queue.SimpleQueue()
        self._waiting: OrderedDict[str, deque[WriteUnit]] = OrderedDict()  # the first lane is next
        self._pressing = 0  # units among them that are not patient
        self.closed = False  # nothing arrives any more
        self.put: Callable[[WriteUnit], None] = self._arrived.put

    def close(self) -> None:
        self._arrived.put(None)

    def pop(self, most: int) -> list[WriteUnit]:
        """Return the next units, in fair order; wait until there is one. Empty: closed, and nothing is left."""
        if not self._waiting and not self.closed:
            self._enqueue(self._arrived.get())
        while not self._arrived.empty():  # nobody else takes from it
            self._enqueue(self._arrived.get())
        if not self._pressing and not self.closed:
            self._wait_for_others()
        taken: list[WriteUnit] = []
        waiting = self._waiting
        while waiting and len(taken) < most:
            lane, units = waiting.popitem(last=False)
            unit = units.popleft()
            taken.append(unit)
            self._pressing -= not unit.patient
            if units:
                waiting[lane] = units
        return taken

    def _wait_for_others(self) -> None:
        """Wait a moment: the next unit that is not patient takes the others along, and saves them a commit."""
        until = time.monotonic() + LINGER_S
        while not self._pressing and not self.closed and (left := until - time.monotonic()) > 0:
            try:
                self._enqueue(self._arrived.get(timeout=left))
            except queue.Empty:
                return
            while not self._arrived.empty():
                self._enqueue(self._arrived.get())

    def put_back(self, units: list[WriteUnit]) -> None:
        """Put back what was taken last and not run: it is next, in the same order."""
        for unit in reversed(units):
            self._waiting.setdefault(unit.lane, deque()).appendleft(unit)
            self._pressing += not unit.patient
            self._waiting.move_to_end(unit.lane, last=False)

    def rest(self) -> list[WriteUnit]:
        """Return all that waits, for whoever gives up on the writer's thread."""
        found = [unit for units in self._waiting.values() for unit in units]
        while True:
            try:
                unit = self._arrived.get_nowait()
            except queue.Empty:
                return found
            if unit is not None:
                found.append(unit)

    def _enqueue(self, unit: WriteUnit | None) -> None:
        if unit is None:
            self.closed = True
            return
        units = self._waiting.get(unit.lane)
        if units is None:
            units = self._waiting[unit.lane] = deque()
        units.append(unit)
        self._pressing += not unit.patient


def log_lost_error(future: asyncio.Future[object]) -> None:
    if not future.cancelled() and (error := future.exception()) is not None:
        _log.error("what nobody waited for could not be written", error=repr(error))


def send_answers(group: list[WriteUnit]) -> None:
    """Settle all futures of a loop with one wake-up."""
    loops = {unit.loop for unit in group}
    for loop in loops:
        own = group if len(loops) == 1 else [unit for unit in group if unit.loop is loop]
        try:
            loop.call_soon_threadsafe(_set_futures, own)
        except RuntimeError:  # the loop is gone: nobody waits any more
            continue


def _set_futures(units: list[WriteUnit]) -> None:
    for unit in units:
        if unit.future.done():  # nobody waits, or was told that we are stopping
            continue
        if unit.error is not None:
            unit.future.set_exception(unit.error)
        else:
            unit.future.set_result(unit.answer)


class ReadLanes:
    """Reads of one lane run one after the other: who asks for much at once delays only themselves."""

    def __init__(self) -> None:
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    async def run(self, lane: str, start: Callable[[], "asyncio.Future[T]"]) -> T:
        """Start a read when its lane is free, and wait for it. Without a lane it starts at once."""
        if not lane:
            return await start()
        lock = self._locks.setdefault(lane, asyncio.Lock())
        await lock.acquire()
        try:
            found = start()
        except BaseException:
            lock.release()
            raise
        # The place belongs to the read: who is cancelled does not get another while it goes on.
        found.add_done_callback(lambda _: lock.release())
        return await asyncio.shield(found)
