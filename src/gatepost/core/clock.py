"""Time, as integer microseconds UTC. Whoever needs `now` is given a clock, so that a test can hold it still."""

import time
from datetime import UTC, datetime
from typing import Protocol
from zoneinfo import ZoneInfo

SECOND = 1_000_000
MINUTE = 60 * SECOND
HOUR = 60 * MINUTE
DAY = 24 * HOUR


class Clock(Protocol):
    def now(self) -> int:
        """Microseconds since the epoch, UTC."""
        ...


class SystemClock:
    """The machine's clock. Within one process it never runs backwards and never stands still: what is due in a minute
    is due in a minute, also when somebody sets the wall clock back. Set forward, it follows."""

    def __init__(self) -> None:
        self._offset = time.time_ns() - time.monotonic_ns()
        self._last = 0

    def now(self) -> int:
        ticks = time.monotonic_ns()
        behind = time.time_ns() - ticks - self._offset
        if behind > 1_000_000_000:
            self._offset += behind
        self._last = max(self._last + 1, (ticks + self._offset) // 1000)
        return self._last


def seconds(value: float) -> int:
    """A setting in seconds as microseconds."""
    return int(value * SECOND)


def iso(at: int | None, zone: str = "UTC") -> str | None:
    """RFC 3339 with milliseconds, for JSON output and logs."""
    if at is None:
        return None
    moment = datetime.fromtimestamp(at / SECOND, UTC if zone == "UTC" else ZoneInfo(zone))
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
