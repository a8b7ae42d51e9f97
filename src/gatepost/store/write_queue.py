"""Units that wait for the writer, in lanes: order is kept within a lane, and lanes take turns, one unit each.

Units that nobody waits for are patient: alone they wait a moment, so that the next commit takes them along. A lane is
whatever must not hold up others: a session's id, or a room. Units without a lane share one. `put` is for any
thread; everything else is the writer thread's own, so nothing here is locked.
"""

import asyncio
import queue
import time
from collections import OrderedDict, deque
from collections.abc import Callable
from typing import Any

LINGER_S = 0.005  # for which a unit that nobody waits for lets the writer rest


class WriteUnit:
    """A function to be run in a transaction, and who waits for its answer."""

    __slots__ = ("answer", "args", "durable", "error", "fn", "future", "lane", "loop", "patient")

    def __init__(
        self,
        fn: Callable[..., Any],
        args: tuple[Any, ...],
        durable: bool,
        lane: str,
        loop: asyncio.AbstractEventLoop,
        future: asyncio.Future[Any],
        *,
        patient: bool = False,
    ) -> None:
        """`patient`: nobody waits for it, so it can wait for others and be committed with them."""
        self.fn, self.args, self.durable, self.lane, self.loop, self.future = fn, args, durable, lane, loop, future
        self.patient = patient
        self.answer: Any = None
        self.error: BaseException | None = None

    @property
    def name(self) -> str:
        """The function's, or of what it wraps."""
        fn: Any = self.fn
        while (inner := getattr(fn, "__wrapped__", None)) is not None:
            fn = inner
        return f"{getattr(fn, '__module__', '')}.{getattr(fn, '__qualname__', repr(fn))}"


class WriteQueue:
    def __init__(self) -> None:
        self._arrived: queue.SimpleQueue[WriteUnit | None] = queue.SimpleQueue()
        self._waiting: OrderedDict[str, deque[WriteUnit]] = OrderedDict()  # the first lane is next
        self._pressing = 0  # units among them that are not patient
        self.closed = False  # nothing arrives any more

    def put(self, unit: WriteUnit) -> None:
        self._arrived.put(unit)

    def close(self) -> None:
        self._arrived.put(None)

    def pop(self, most: int) -> list[WriteUnit]:
        """The next units, in fair order; waits until there is one. Empty: closed, and nothing is left."""
        if not self._waiting and not self.closed:
            self._enqueue(self._arrived.get())
        self._enqueue_arrived()
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
        """Only patient units are here: the next one that is not takes them along, and saves them a commit."""
        until = time.monotonic() + LINGER_S
        while not self._pressing and not self.closed and (left := until - time.monotonic()) > 0:
            try:
                self._enqueue(self._arrived.get(timeout=left))
            except queue.Empty:
                return
            self._enqueue_arrived()

    def _enqueue_arrived(self) -> None:
        while True:
            try:
                self._enqueue(self._arrived.get_nowait())
            except queue.Empty:
                return

    def put_back(self, units: list[WriteUnit]) -> None:
        """Put back units that were taken and not run. They are next, in the same order."""
        for unit in reversed(units):
            self._waiting.setdefault(unit.lane, deque()).appendleft(unit)
            self._pressing += not unit.patient
            self._waiting.move_to_end(unit.lane, last=False)

    def rest(self) -> list[WriteUnit]:
        """All that waits, for whoever gives up on the writer's thread."""
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
