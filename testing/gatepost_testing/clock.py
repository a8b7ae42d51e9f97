"""A clock that stands still until it is told to move."""

from gatepost.core.clock import WallSteps, to_microseconds

NOON = 1_800_000_000_000_000  # a moment in 2027, microseconds UTC


class FixedClock:
    def __init__(self, now: int = NOON) -> None:
        self._now, self._monotonic = now, 0
        self._steps = WallSteps()

    def now(self) -> int:
        return self._now

    def monotonic(self) -> int:
        return self._monotonic

    def ago(self, age: int) -> int:
        return self._steps.subtract(self._now, age)

    def advance(self, by_s: float) -> int:
        """Time passes: move on by so many seconds; the new moment."""
        self._now += to_microseconds(by_s)
        self._monotonic += to_microseconds(by_s)
        return self._now

    def step(self, by_s: float) -> int:
        """Somebody sets the wall clock forward: no time passes; the new moment."""
        before, self._now = self._now, self._now + to_microseconds(by_s)
        self._steps.add(before, self._now)
        return self._now

    def set(self, now: int) -> None:
        self._now = now
