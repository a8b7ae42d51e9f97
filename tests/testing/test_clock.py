from gatepost.core.clock import SECOND
from gatepost_testing.clock import NOON, FixedClock


def test_it_stands_still_until_it_is_moved() -> None:
    clock = FixedClock()

    assert clock.now() == clock.now() == NOON
    assert clock.advance(1.5) == clock.now() == NOON + SECOND * 3 // 2
    clock.set(7)
    assert clock.now() == 7


def test_its_wall_clock_can_be_set_without_time_passing() -> None:
    clock = FixedClock()
    clock.step(3600)

    assert (clock.now(), clock.monotonic()) == (NOON + 3600 * SECOND, 0)
    assert clock.ago(SECOND) == NOON - SECOND
    clock.advance(5)
    assert clock.monotonic() == 5 * SECOND
