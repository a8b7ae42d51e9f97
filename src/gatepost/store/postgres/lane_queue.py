"""Units that wait for one of several workers: those of one lane one after the other, in their order; lanes take turns.

A unit without a lane is a lane of its own. `put` is for any thread, the rest is for the workers.
"""

import threading
from collections import OrderedDict, deque
from itertools import count

from gatepost.store.engine.write_queue import WriteUnit


class LaneQueue:
    def __init__(self) -> None:
        self._ready = threading.Condition()
        self._waiting: OrderedDict[str, deque[WriteUnit]] = OrderedDict()  # lanes with nothing under way
        self._working: dict[str, deque[WriteUnit]] = {}  # lanes with a unit under way, and what waits behind it
        self._numbers = count()
        self._closed = False

    def put(self, unit: WriteUnit) -> None:
        lane = unit.lane or f"\0{next(self._numbers)}"
        with self._ready:
            behind = self._working.get(lane)
            if behind is not None:
                behind.append(unit)
                return
            self._waiting.setdefault(lane, deque()).append(unit)
            self._ready.notify()

    def pop(self) -> tuple[str, WriteUnit] | None:
        """The next unit and its lane, which is held until `release`; waits for one. None: closed, nothing is left."""
        with self._ready:
            while not self._waiting:
                if self._closed and not self._working:
                    return None
                self._ready.wait()
            lane, units = self._waiting.popitem(last=False)
            unit = units.popleft()
            self._working[lane] = units
            return lane, unit

    def release(self, lane: str) -> None:
        with self._ready:
            units = self._working.pop(lane)
            if units:
                self._waiting[lane] = units
                self._ready.notify()
            elif self._closed:
                self._ready.notify_all()

    def close(self) -> None:
        with self._ready:
            self._closed = True
            self._ready.notify_all()

    def rest(self) -> list[WriteUnit]:
        """All that waits, for whoever gives up on the workers."""
        with self._ready:
            found = [unit for units in (*self._working.values(), *self._waiting.values()) for unit in units]
            for units in (*self._working.values(), *self._waiting.values()):
                units.clear()
            self._waiting.clear()
            return found
