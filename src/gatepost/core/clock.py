"""Time, as integer microseconds UTC. Code that needs `now` is given a clock, so that a test can hold it still.

Money is counted in periods: calendar days and months, UTC. A period is named by the moment it starts.
"""

import time
from collections import deque
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, tzinfo
from enum import StrEnum
from functools import partial
from typing import Protocol
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

SECOND = 1_000_000
MINUTE = 60 * SECOND
HOUR = 60 * MINUTE
DAY = 24 * HOUR
LONGEST_GAP = 2 * SECOND  # between two ticks of listening; what is beyond it was a pause of ours

_boot_ns: Callable[[], int] = (  # counts a suspend of the machine, where the system can tell
    partial(time.clock_gettime_ns, time.CLOCK_BOOTTIME) if hasattr(time, "CLOCK_BOOTTIME") else time.monotonic_ns
)


class Clock(Protocol):
    def now(self) -> int:
        """Return microseconds since the epoch, UTC. For records: a step of the wall clock shows in it."""
        ...

    def monotonic(self) -> int:
        """Return microseconds since some moment. For waits and timeouts: no step of the wall clock shows in it."""
        ...

    def ago(self, age: int) -> int:
        """Return the moment before which records are older than `age`. Steps of the wall clock that this process has
        seen are not counted: a record of a minute ago does not become an hour older because somebody set the clock."""
        ...


class WallSteps:
    """Forward steps of a wall clock, each as (moment before, moment after)."""

    MOST = 64  # older ones are beyond any age that is asked for

    def __init__(self) -> None:
        self._steps: deque[tuple[int, int]] = deque(maxlen=self.MOST)

    def add(self, before: int, after: int) -> None:
        self._steps.append((before, after))

    def subtract(self, now: int, age: int) -> int:
        """Return the moment that lies `age` before `now`."""
        for before, after in reversed(self._steps):
            if now - age >= after:
                break
            age, now = age - (now - after), before
        return now - age


class SystemClock:
    """The machine's clock. Within one process it never runs backwards and never stands still: what is due in a minute
    is due in a minute, also when somebody sets the wall clock back. Set forward, it follows."""

    def __init__(self, wall: Callable[[], int] = time.time_ns, steady: Callable[[], int] | None = None) -> None:
        """Both in nanoseconds. `steady` counts a suspend of the machine, so that waking up is no step."""
        self._wall, self._steady = wall, steady or _boot_ns
        self._offset = self._wall() - self._steady()
        self._last = 0
        self._steps = WallSteps()

    def now(self) -> int:
        ticks = self._steady()
        behind = self._wall() - ticks - self._offset
        if behind > 1_000_000_000:
            before = (ticks + self._offset) // 1000
            self._offset += behind
            self._steps.add(before, (ticks + self._offset) // 1000)
        self._last = max(self._last + 1, (ticks + self._offset) // 1000)
        return self._last

    def monotonic(self) -> int:
        return time.monotonic_ns() // 1000

    def ago(self, age: int) -> int:
        return self._steps.subtract(self.now(), age)


class ListeningTime:
    """Microseconds during which this gateway listened, by the monotonic clock. The watcher ticks; a gap between two
    ticks counts as `LONGEST_GAP` at most."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._until_tick, self._tick_at = 0, clock.monotonic()

    def now(self) -> int:
        return self._until_tick + min(max(self._clock.monotonic() - self._tick_at, 0), LONGEST_GAP)

    def tick(self) -> int:
        """The watcher runs: what came before this is listened for. The moment."""
        self._until_tick, self._tick_at = self.now(), self._clock.monotonic()
        return self._until_tick


class DatabaseClock:
    """The time of a database that several machines share. Between two readings it runs with this machine's steady
    clock, so it does not matter what the wall clock says here. It never runs backwards: where the database's clock is
    set back, it runs at half its speed until both agree."""

    def __init__(self, steady: Callable[[], int] | None = None) -> None:
        """`steady` in nanoseconds. Before the first reading it is the time of this machine."""
        self._steady = steady or _boot_ns
        self._ticks = self._steady() // 1000
        self._offset: int | None = None
        self._last = 0
        self._steps = WallSteps()

    def get_ticks(self) -> int:
        """Return microseconds of the steady clock: by them a reading is dated."""
        return self._steady() // 1000

    def set_reading(self, ticks: int, at: int) -> None:
        """Note that it was `at` in the database when the steady clock stood at `ticks`. From any thread."""
        before, self._offset = self._offset, at - ticks
        if before is not None and self._offset - before > SECOND:
            self._steps.add(ticks + before, at)

    def now(self) -> int:
        ticks = self.get_ticks()
        offset = self._offset if self._offset is not None else time.time_ns() // 1000 - ticks
        slowest = self._last + max(1, (ticks - self._ticks) // 2)
        self._ticks, self._last = ticks, max(ticks + offset, slowest)
        return self._last

    def monotonic(self) -> int:
        return time.monotonic_ns() // 1000

    def ago(self, age: int) -> int:
        return self._steps.subtract(self.now(), age)


def to_microseconds(value: float) -> int:
    """Return a setting in seconds as microseconds."""
    return int(value * SECOND)


def iso(at: int | None, zone: str = "UTC") -> str | None:
    """Return a moment as RFC 3339 with milliseconds, for JSON output and logs. In UTC, if this machine does not know
    the zone."""
    if at is None:
        return None
    moment = datetime.fromtimestamp(at / SECOND, find_zone(zone) or UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def find_zone(name: str) -> tzinfo | None:
    """Return a zone; None if this machine does not know it. A zone may be gone with another version of the data."""
    try:
        return UTC if name == "UTC" else ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return None


def find_moment(at: int | None, now: int) -> int:
    """Return when something happened elsewhere, by the clock there: never in the future, and now if it does not say. A
    clock of whole seconds leaves open when within one: the last possible moment counts, so that what was known before
    stands before it."""
    if at is None:
        return now
    return min(at if at % SECOND else at + SECOND - 1, now)


class Period(StrEnum):
    DAY = "day"
    MONTH = "month"


def start_of_period(period: Period, at: int) -> int:
    """When the period that holds this moment started."""
    day = at - at % DAY
    if period is Period.DAY:
        return day
    return _moment(datetime.fromtimestamp(day // SECOND, UTC).replace(day=1))


def end_of_period(period: Period, at: int) -> int:
    """When the next one starts."""
    start = start_of_period(period, at)
    if period is Period.DAY:
        return start + DAY
    later = datetime.fromtimestamp(start // SECOND, UTC) + timedelta(days=31)
    return _moment(later.replace(day=1))


def _moment(midnight: datetime) -> int:
    return int(midnight.timestamp()) * SECOND
