"""When a gateway renews its lease and looks at those of others."""

import pytest

from gatepost.store.postgres.gateway_lease import BEAT_S, LEASE_S, LEAST_S, LeaseTimes, choose_pause


class Holder:
    """A gateway that renews its lease by a clock which the test moves."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.times = LeaseTimes(lambda: self.now)
        self.times.renewed(self.now)

    def renew_for(self, seconds: float) -> None:
        end = self.now + seconds
        while self.now < end:
            self.now = min(end, self.now + BEAT_S)
            self.times.renewed(self.now)

    def may_judge(self, overdue_s: float) -> bool:
        return self.times.find_judging(overdue_s) <= 0


@pytest.mark.parametrize(
    ("waits", "pause"),
    [
        ([], BEAT_S),
        ([4.0], BEAT_S),
        ([1.0], 1 + LEAST_S),
        ([1.0, 0.5], 0.5 + LEAST_S),
        ([0.0], LEAST_S),
        ([float("inf")], BEAT_S),
    ],
)
def test_the_next_beat_comes_when_another_may_be_judged(waits: list[float], pause: float) -> None:
    assert choose_pause(waits) == pytest.approx(pause)


def test_who_was_in_contact_for_a_whole_lease_judges_everybody() -> None:
    holder = Holder()
    holder.renew_for(LEASE_S)
    assert holder.may_judge(0.01) and holder.may_judge(1000.0)


def test_who_has_just_come_judges_nobody_whose_lease_was_over_before() -> None:
    holder = Holder()
    holder.renew_for(LEASE_S - 0.1)
    assert not holder.may_judge(LEASE_S)
    assert holder.times.find_judging(LEASE_S) == pytest.approx(0.1)


def test_who_has_just_come_judges_one_that_let_two_beats_pass_meanwhile() -> None:
    holder = Holder()
    holder.renew_for(4.0)
    assert holder.may_judge(0.5)  # its lease went on for 3.5 seconds
    assert not holder.may_judge(1.5)  # … for 2.5


def test_nobody_is_judged_right_after_a_renewal_that_failed() -> None:
    """The database was away for all: a lease that ended meanwhile, or ends soon, says nothing."""
    holder = Holder()
    holder.renew_for(100.0)
    holder.times.broken()
    assert not holder.may_judge(0.5)
    holder.renew_for(3.0)
    assert not holder.may_judge(0.5) and not holder.may_judge(10.0)
    holder.renew_for(LEASE_S)
    assert holder.may_judge(10.0)
