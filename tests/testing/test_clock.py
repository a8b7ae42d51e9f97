from gatepost.core.clock import SECOND
from gatepost.testing.clock import NOON, FixedClock


def test_it_stands_still_until_it_is_moved() -> None:
    clock = FixedClock()

    assert clock.now() == clock.now() == NOON
    assert clock.advance(1.5) == clock.now() == NOON + SECOND * 3 // 2
    clock.set(7)
    assert clock.now() == 7
