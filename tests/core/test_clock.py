from datetime import UTC, datetime

import pytest

from gatepost.core.clock import DatabaseClock, Period, SystemClock, end_of_period, iso, start_of_period, to_microseconds


def test_the_clock_never_stands_still_nor_runs_backwards() -> None:
    clock = SystemClock()
    moments = [clock.now() for _ in range(1000)]

    assert moments == sorted(set(moments))


def test_a_moment_is_written_with_milliseconds() -> None:
    assert iso(1_800_000_000_123_456) == "2027-01-15T08:00:00.123Z"
    assert iso(1_800_000_000_123_456, "Europe/Berlin") == "2027-01-15T09:00:00.123+01:00"
    assert iso(None) is None


def test_seconds_become_microseconds() -> None:
    assert to_microseconds(0.25) == 250_000


class Machine:
    """A machine's two clocks, in nanoseconds."""

    def __init__(self) -> None:
        self.wall, self.steady = 1_800_000_000 * 10**9, 5 * 10**9

    def run(self, by_s: float) -> None:
        self.wall += int(by_s * 10**9)
        self.steady += int(by_s * 10**9)


def test_stranger_20_a_step_of_the_wall_clock_makes_nothing_older() -> None:
    machine = Machine()
    clock = SystemClock(lambda: machine.wall, lambda: machine.steady)
    machine.run(600)
    made = clock.now()
    machine.run(300)
    machine.wall += 3600 * 10**9

    assert clock.now() - made >= to_microseconds(3900)  # the wall clock says so, and people see it
    assert clock.ago(to_microseconds(1800)) < made <= clock.ago(to_microseconds(290))
    machine.run(600)
    assert clock.ago(to_microseconds(1800)) < made <= clock.ago(to_microseconds(890))
    assert clock.ago(to_microseconds(10)) == pytest.approx(clock.now() - to_microseconds(10), abs=100)


def test_stranger_20_a_clock_that_is_set_back_holds_up_nothing() -> None:
    machine = Machine()
    clock = SystemClock(lambda: machine.wall, lambda: machine.steady)
    before = clock.now()
    machine.wall -= 3600 * 10**9
    machine.run(5)

    assert clock.now() - before == to_microseconds(5)


def test_a_suspend_of_the_machine_is_no_step() -> None:
    machine = Machine()
    clock = SystemClock(lambda: machine.wall, lambda: machine.steady)
    made = clock.now()
    machine.run(7200)

    assert made < clock.ago(to_microseconds(3600))


def test_the_monotonic_clock_never_runs_backwards() -> None:
    clock = SystemClock()
    moments = [clock.monotonic() for _ in range(1000)]
    assert moments == sorted(moments)


class Database:
    """A database's clock beside a machine's, in microseconds."""

    def __init__(self) -> None:
        self.machine, self.now = Machine(), 1_900_000_000 * 10**6
        self.clock = DatabaseClock(lambda: self.machine.steady)
        self.read()

    def read(self) -> None:
        self.clock.set_reading(self.machine.steady // 1000, self.now)

    def run(self, by_s: float) -> None:
        self.machine.run(by_s)
        self.now += int(by_s * 10**6)


@pytest.mark.parametrize("off_s", [0, 600, -600])
def test_the_databases_time_counts_whatever_the_wall_clock_says(off_s: int) -> None:
    database = Database()
    database.machine.wall += off_s * 10**9

    database.run(10)
    assert database.clock.now() == database.now
    database.machine.wall += off_s * 10**9  # set while it runs
    database.run(10)
    assert database.clock.now() == database.now


def test_a_databases_clock_that_is_set_back_slows_ours_until_both_agree() -> None:
    database = Database()
    database.run(10)
    before = database.clock.now()
    database.now -= 60 * 10**6
    database.read()

    moments = []
    for _ in range(14):
        database.run(10)
        moments.append(database.clock.now())
    assert moments == sorted(set(moments))
    assert moments[0] == before + 5 * 10**6  # half as fast
    assert moments[-1] == database.now


def test_a_databases_clock_that_is_set_forward_makes_nothing_older() -> None:
    database = Database()
    made = database.clock.now()
    database.run(30)
    database.now += 3600 * 10**6
    database.read()
    database.run(20)

    assert database.clock.now() == database.now
    assert database.clock.ago(60 * 10**6) < made < database.clock.ago(40 * 10**6)


def at(text: str) -> int:
    return int(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp() * 1_000_000)


@pytest.mark.parametrize(
    ("moment", "period", "start", "end"),
    [
        ("2026-11-15T12:30:01", Period.DAY, "2026-11-15", "2026-11-16"),
        ("2026-11-15T00:00:00", Period.DAY, "2026-11-15", "2026-11-16"),
        ("2026-11-15T23:59:59.999999", Period.DAY, "2026-11-15", "2026-11-16"),
        ("2026-12-31T23:59:59.999999", Period.DAY, "2026-12-31", "2027-01-01"),
        ("2026-11-15T12:30:01", Period.MONTH, "2026-11-01", "2026-12-01"),
        ("2026-12-31T23:59:59.999999", Period.MONTH, "2026-12-01", "2027-01-01"),
        ("2027-01-01T00:00:00", Period.MONTH, "2027-01-01", "2027-02-01"),
        ("2028-02-29T08:00:00", Period.MONTH, "2028-02-01", "2028-03-01"),
        ("2027-01-31T08:00:00", Period.MONTH, "2027-01-01", "2027-02-01"),
    ],
)
def test_a_period_begins_and_ends_at_midnight_utc(moment: str, period: Period, start: str, end: str) -> None:
    assert (start_of_period(period, at(moment)), end_of_period(period, at(moment))) == (at(start), at(end))
