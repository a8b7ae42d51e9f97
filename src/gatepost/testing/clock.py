"""A clock that stands still until it is told to move."""

from gatepost.core.clock import seconds

NOON = 1_800_000_000_000_000  # a moment in 2027, microseconds UTC


class FixedClock:
    def __init__(self, now: int = NOON) -> None:
        self._now = now

    def now(self) -> int:
        return self._now

    def advance(self, by_s: float) -> int:
        """Move on by so many seconds; the new moment."""
        self._now += seconds(by_s)
        return self._now

    def set(self, now: int) -> None:
        self._now = now
