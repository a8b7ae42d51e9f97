"""A counter of repeats: the first few of the same thing in a window of time are reported one by one, the rest are
counted.

It is for everything that a sandbox or a stranger can make the host write at will. Rows and log lines then grow with the
number of windows, not with the number of attempts. Pure: `now` is given. Counts are in memory: a crash loses those of
open windows.
"""

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from itertools import takewhile
from typing import Generic, TypeVar

from msgspec import Struct

K = TypeVar("K", bound=Hashable)
MOST_OPEN = 10_000  # windows; when there are more, all are closed at once


class RepeatSummary(Struct, Generic[K], frozen=True):
    """A window that is over: so many were counted and not told."""

    key: K
    count: int
    since: int
    until: int  # the last of them


@dataclass(slots=True)
class _Window:
    began: int
    last: int
    seen: int = 0
    counted: int = 0


class RepeatCounter(Generic[K]):
    def __init__(self, window: int) -> None:
        self._window = window
        self._open: dict[K, _Window] = {}  # in the order in which they began, and so in which they end
        self._counting: set[K] = set()
        self._over: list[RepeatSummary[K]] = []

    def add(self, key: K, now: int, first: int) -> int:
        """0: it is one of the `first` of its window, to be told. Else which one of those that are only counted."""
        found = self._open.get(key)
        if found is None or now - found.began >= self._window:
            self._end(key)
            if len(self._open) >= MOST_OPEN:
                for each in list(self._open):
                    self._end(each)
            found = self._open[key] = _Window(now, now)
        found.seen, found.last = found.seen + 1, now
        if found.seen > first:
            found.counted += 1
            self._counting.add(key)
        return found.counted

    def is_full(self, key: K, now: int, first: int) -> bool:
        """Return True if another one would only be counted."""
        found = self._open.get(key)
        return found is not None and now - found.began < self._window and found.seen >= first

    def pop_closed(self, now: int | None = None) -> list[RepeatSummary[K]]:
        """Every window that is over by now (None: all) and in which anything was counted. Handed out once."""
        for key in list(takewhile(lambda key: self._is_over(key, now), self._open)):
            self._end(key)
        over, self._over = self._over, []
        return over

    def discard(self, is_gone: Callable[[K], bool]) -> None:
        """Forget what was counted of some."""
        for key in [each for each in self._open if is_gone(each)]:
            del self._open[key]
            self._counting.discard(key)
        self._over = [each for each in self._over if not is_gone(each.key)]

    def due_at(self) -> int | None:
        """When the first window ends in which something was counted; None: there is none."""
        ends = (self._open[key].began + self._window for key in self._counting)
        return 0 if self._over else min(ends, default=None)

    def _is_over(self, key: K, now: int | None) -> bool:
        return now is None or now - self._open[key].began >= self._window

    def _end(self, key: K) -> None:
        found = self._open.pop(key, None)
        self._counting.discard(key)
        if found is not None and found.counted:
            self._over.append(RepeatSummary(key, found.counted, found.began, found.last))
