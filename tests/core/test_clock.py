import pytest

from gatepost.core.clock import SystemClock, iso, to_microseconds


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
