"""Passwords: how dear their hashes are, how many at once, what is no password, and how fast they may be tried."""

import asyncio
import threading
from itertools import count

import pytest
from argon2 import extract_parameters
from argon2.low_level import Type

from gatepost.core.errors import Invalid, Unavailable
from gatepost.serve import passwords
from gatepost.serve.passwords import (
    AT_ONCE,
    LONGEST_S,
    MEMORY_KIB,
    MOST_WAITING,
    NOBODYS,
    PLACES,
    ROUNDS,
    TRIES,
    PasswordHashing,
    PasswordLimits,
    check_new,
    normalize,
)

LONG_ENOUGH = "correct horse battery staple"


@pytest.fixture
def hashing() -> PasswordHashing:
    return PasswordHashing()


@pytest.mark.slow
async def test_a_password_is_known_by_its_hash_and_no_other_is(hashing: PasswordHashing) -> None:
    hashed = await hashing.hash(LONG_ENOUGH)
    assert LONG_ENOUGH not in hashed
    assert await hashing.verify(hashed, LONG_ENOUGH)
    assert not await hashing.verify(hashed, LONG_ENOUGH + " ")
    assert not await hashing.verify("no hash at all", LONG_ENOUGH)


@pytest.mark.slow
async def test_an_unknown_name_costs_what_a_wrong_password_costs(hashing: PasswordHashing) -> None:
    ours, nobodys = extract_parameters(await hashing.hash(LONG_ENOUGH)), extract_parameters(NOBODYS)
    assert ours == nobodys
    assert (ours.type, ours.memory_cost, ours.time_cost, ours.parallelism) == (Type.ID, MEMORY_KIB, ROUNDS, 1)
    assert not await hashing.verify(None, LONG_ENOUGH)


async def test_few_are_hashed_at_once_few_wait_and_the_rest_is_told_so(hashing: PasswordHashing) -> None:
    held, begun = threading.Event(), []

    def work() -> None:
        begun.append(1)
        held.wait()

    waiting = [asyncio.ensure_future(hashing._run(work)) for _ in range(AT_ONCE + MOST_WAITING)]
    await asyncio.sleep(0)
    with pytest.raises(Unavailable, match="try again"):
        await hashing.verify(None, LONG_ENOUGH)
    assert len(begun) <= AT_ONCE
    held.set()
    await asyncio.gather(*waiting)
    assert not await hashing.verify(None, LONG_ENOUGH)


def test_a_password_typed_on_another_keyboard_is_the_same() -> None:
    assert normalize("pa\u0308sswo\u0308rter sind gut") == normalize("p\u00e4ssw\u00f6rter sind gut")
    assert normalize("\ud800") and len(normalize("x" * 1_000_000)) == 1024


@pytest.mark.parametrize("given", ["", "short", "elevenchars", "aaaaaaaaaaaaaaaaaaaa", "x" * 1025, "annann annann"])
def test_what_is_no_password_is_refused_in_words(given: str) -> None:
    with pytest.raises(Invalid, match="it "):
        check_new(given, "ann")


@pytest.mark.parametrize("given", [LONG_ENOUGH, "elevenchars1", "Анна и Пётр 1"])
def test_a_password_may_be_anything_long_enough(given: str) -> None:
    check_new(given, "ann")


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
    monkeypatch.setattr(passwords, "LONGEST_S", 0.0)
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
