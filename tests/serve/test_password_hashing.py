"""Hashes of passwords: how dear, how many at once, and what is no password."""

import asyncio
import threading

import pytest
from argon2 import extract_parameters
from argon2.low_level import Type

from gatepost.core.errors import Invalid, Unavailable
from gatepost.serve.password_hashing import (
    AT_ONCE,
    MEMORY_KIB,
    MOST_WAITING,
    NOBODYS,
    ROUNDS,
    PasswordHashing,
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
