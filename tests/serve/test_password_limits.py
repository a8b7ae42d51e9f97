"""How fast passwords may be tried, and by whom."""

from itertools import count

import pytest

from gatepost.serve import password_limits
from gatepost.serve.password_limits import LONGEST_S, PLACES, TRIES, PasswordLimits

MANY = 1000
MOST = TRIES.burst + LONGEST_S * TRIES.per_second  # tries at once


class Time:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def time() -> Time:
    return Time()


@pytest.fixture
def limits(time: Time) -> PasswordLimits:
    return PasswordLimits(time)


def count_admitted(limits: PasswordLimits, peers: list[str], name: str, known: str = "") -> int:
    return sum(limits.admit(peer, name, known) is not None for peer in peers)


def test_a_few_mistakes_cost_no_time(limits: PasswordLimits) -> None:
    assert [limits.admit("10.0.0.1", "ann", "") for _ in range(TRIES.burst)] == [0.0] * TRIES.burst


def test_one_address_tries_few_whatever_names_it_uses(limits: PasswordLimits) -> None:
    admitted = sum(limits.admit("10.0.0.1", f"name-{number}", "") is not None for number in range(MANY))
    assert admitted <= MOST


def test_the_holder_of_a_network_is_one_address(limits: PasswordLimits) -> None:
    peers = [f"2001:db8::{number:x}" for number in range(MANY)]
    assert sum(limits.admit(peer, f"n{peer}", "") is not None for peer in peers) <= MOST


def test_many_addresses_try_few_of_one_person_and_she_is_not_slowed_where_she_is_known(limits: PasswordLimits) -> None:
    peers = [f"10.{number >> 8}.{number & 255}.1" for number in range(MANY)]
    assert count_admitted(limits, peers, "web:user/ann") <= MOST
    assert limits.admit("10.0.0.1", "web:user/ann", "") is None
    assert limits.admit("10.0.0.1", "web:user/ann", "her-cookie") == 0


def test_who_stole_a_known_browser_guesses_no_faster(limits: PasswordLimits) -> None:
    peers = [f"10.0.{number >> 8}.{number & 255}" for number in range(MANY)]
    assert count_admitted(limits, peers, "web:user/ann", "stolen") <= MOST


def test_a_refused_try_is_no_debt_and_time_heals(limits: PasswordLimits, time: Time) -> None:
    for _ in range(MANY):
        limits.admit("10.0.0.1", "ann", "")
    time.now += TRIES.burst / TRIES.per_second + LONGEST_S
    assert limits.admit("10.0.0.1", "ann", "") == 0


def test_a_try_that_is_refused_for_its_address_does_not_use_up_the_name(limits: PasswordLimits) -> None:
    for _ in range(MANY):
        limits.admit("10.0.0.1", "somebody", "")
    for _ in range(MANY):
        assert limits.admit("10.0.0.1", "ann", "") is None
    assert limits.admit("10.0.0.2", "ann", "") == 0


def test_where_no_try_may_wait_those_beyond_the_burst_are_refused(
    limits: PasswordLimits, time: Time, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(password_limits, "LONGEST_S", 0.0)
    admitted = [limits.admit("10.0.0.1", "ann", "") for _ in range(TRIES.burst + 2)]
    assert admitted == [0.0] * TRIES.burst + [None, None]
    time.now += 1 / TRIES.per_second
    assert [limits.admit("10.0.0.1", "ann", "") for _ in range(2)] == [0.0, None]


def test_a_right_password_does_not_count(limits: PasswordLimits) -> None:
    for _ in range(MANY):
        assert limits.admit("10.0.0.1", "ann", "") == 0
        limits.forgive("10.0.0.1", "ann", "")


@pytest.mark.slow
def test_nobody_fills_the_memory_or_pushes_a_person_out_of_it(limits: PasswordLimits) -> None:
    for _ in range(MANY):
        limits.admit("10.0.0.1", "ann", "")
    numbers = count()
    for _ in range(4 * PLACES):
        limits.admit(f"10.{next(numbers)}", f"x{next(numbers)}", "")
    assert len(limits._buckets) <= PLACES
    assert limits.admit("10.0.0.2", "ann", "") is None
