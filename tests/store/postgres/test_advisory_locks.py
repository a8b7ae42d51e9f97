"""Locks of a transaction: taken in one order, so that nobody waits in a circle."""

from itertools import pairwise

import pytest

from gatepost.store.port import LockKind
from gatepost.store.postgres.advisory_locks import (
    TAKE,
    TRY,
    TransactionLocks,
    make_gateway_number,
    make_name,
    make_number,
)

ROOM, OTHER = make_name(LockKind.ROOM, ("fake", "1")), make_name(LockKind.ROOM, ("fake", "2"))
MONEY = make_name(LockKind.MONEY, ("acme",))


@pytest.fixture
def locks() -> TransactionLocks:
    return TransactionLocks()


def test_names_sort_by_the_order_of_their_kinds_and_then_by_their_keys() -> None:
    names = [make_name(kind, ("z",) if at % 2 else ("a",)) for at, kind in enumerate(LockKind)]
    assert all(one < other for one, other in pairwise(names))
    assert ROOM < OTHER < MONEY


def test_the_parts_of_a_key_do_not_run_together() -> None:
    kind = LockKind.ROOM
    assert make_name(kind, ("ab", "c")) != make_name(kind, ("a", "bc"))
    assert make_name(kind, ("a", "")) != make_name(kind, ("a",))


def test_a_lock_in_its_order_is_waited_for_and_one_out_of_it_only_tried(locks: TransactionLocks) -> None:
    assert locks.find_way(OTHER) == TAKE
    locks.add(OTHER)
    assert locks.find_way(MONEY) == TAKE
    locks.add(MONEY)
    assert locks.find_way(ROOM) == TRY


def test_a_lock_that_is_held_is_not_taken_again(locks: TransactionLocks) -> None:
    locks.add(ROOM)
    assert locks.find_way(ROOM) == ""
    locks.add(MONEY)
    assert locks.find_way(ROOM) == ""


def test_one_that_is_shared_is_only_tried_alone_and_then_held(locks: TransactionLocks) -> None:
    """Two that share it would wait for each other."""
    locks.add_shared(ROOM)
    assert locks.find_way(ROOM) == TRY
    locks.add(ROOM)
    assert locks.find_way(ROOM) == ""


def test_one_that_is_held_alone_is_not_shared_by_asking_again(locks: TransactionLocks) -> None:
    locks.add(ROOM)
    locks.add_shared(ROOM)
    assert locks.find_way(ROOM) == ""


def test_a_shared_lock_counts_for_the_order(locks: TransactionLocks) -> None:
    locks.add_shared(MONEY)
    assert locks.find_way(ROOM) == TRY


def test_nothing_is_held_in_the_next_transaction(locks: TransactionLocks) -> None:
    locks.add(MONEY)
    locks.add_shared(OTHER)
    locks.clear()
    assert locks.find_way(ROOM) == TAKE
    locks.add(ROOM)
    assert locks.find_way(OTHER) == TAKE  # not shared any more


def test_a_conflict_names_all_that_the_unit_has_asked_for(locks: TransactionLocks) -> None:
    """It is run again with all of them taken first."""
    locks.add(MONEY)
    locks.add_shared(OTHER)
    assert locks.make_conflict(ROOM).wanted == {ROOM, OTHER, MONEY}


def test_numbers_are_those_of_every_gateway_and_fit_the_server() -> None:
    """Gateways of two versions share a database while they are upgraded: a number must never change."""
    assert make_number(ROOM) == make_number(make_name(LockKind.ROOM, ("fake", "1")))
    assert [make_number(make_name(LockKind.ROOM, ("fake", "1"))), make_gateway_number("a")] == NUMBERS
    names = [make_name(LockKind.ROOM, ("fake", str(number))) for number in range(1000)]
    numbers = {make_number(each) for each in names} | {make_gateway_number("fake")}
    assert len(numbers) == 1001 and all(-(2**63) <= each < 2**63 for each in numbers)
    assert make_number(make_name(LockKind.ROOM, ("\ud800",)))  # half a character, as a platform may send


NUMBERS = [-4619565302668994087, -6897033025049074278]
