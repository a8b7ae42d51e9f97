"""Rooms that somebody was let in to: what is recorded of them, and the names by which groups send there."""

import pytest

from gatepost.flow.intake.room_records import (
    MOST_ALIKE,
    SeenRoom,
    add_destination,
    make_room_name,
    record_let_in,
)
from gatepost.messages import address as addresses
from gatepost.store.messages import destinations
from gatepost.store.port import Db
from gatepost.store.rooms import direct_rooms, rooms
from gatepost.store.rooms.rooms import RoomPolicy
from gatepost.store.sessions import groups
from gatepost.store.sessions.sessions import SessionMode
from gatepost_testing.clock import NOON
from gatepost_testing.counting import CountingDb

EVE = "fake:user/eve"
STRICT, PUBLIC = RoomPolicy.STRICT, RoomPolicy.PUBLIC


@pytest.fixture(autouse=True)
def acme(db: Db) -> None:
    groups.add(db, "acme", "Acme", "", NOON)
    groups.add(db, "beta", "Beta", "", NOON)


def seen(number: int, name: str = "", *, direct: bool = False) -> SeenRoom:
    return SeenRoom("fake", f"fake:room/{number}", name, direct)


def add(
    db: Db, room: SeenRoom, thread: str = "", mode: SessionMode = SessionMode.PER_THREAD, folder: str = "acme"
) -> None:
    add_destination(db, folder, mode, room, thread, NOON)


def list_names(db: Db, folder: str = "acme") -> dict[str, str]:
    return {each.name: each.address for each in destinations.list_for_group(db, folder)}


def test_a_room_keeps_the_policy_that_it_has(db: Db) -> None:
    record_let_in(db, seen(1, "Lobby"), STRICT, EVE, NOON)
    record_let_in(db, seen(1, "Other"), PUBLIC, EVE, NOON + 1)
    room = rooms.get(db, "fake", "fake:room/1")
    assert room is not None and (room.policy, room.name) == (STRICT, "Lobby")


def test_only_a_direct_room_is_where_its_sender_is_reached_alone(db: Db) -> None:
    record_let_in(db, seen(1), STRICT, EVE, NOON)
    assert direct_rooms.find_address(db, EVE, "fake") is None
    record_let_in(db, seen(2, direct=True), STRICT, EVE, NOON)
    assert direct_rooms.find_address(db, EVE, "fake") == "fake:room/2"
    record_let_in(db, seen(3, direct=True), STRICT, EVE, NOON + 1)
    assert direct_rooms.find_address(db, EVE, "fake") == "fake:room/3"


def test_a_direct_room_that_is_known_is_not_written_again(db: Db) -> None:
    record_let_in(db, seen(2, direct=True), STRICT, EVE, NOON)
    record_let_in(db, seen(2, direct=True), STRICT, EVE, NOON + 1)
    assert [each.seen_at for each in direct_rooms.list_for_identity(db, EVE)] == [NOON]


@pytest.mark.parametrize(
    ("given", "address", "name"),
    [
        ("The Lobby!", "fake:room/1", "the-lobby"),
        ("", "fake:room/Side-Door", "side-door"),
        ("\u4e2d\u6587", "fake:room/7", "7"),
        ("***", "fake:room/\u4e2d", "fake"),
        ("x" * 60, "fake:room/1", "x" * 40),
        ("a" * 39 + " b", "fake:room/1", "a" * 39),  # not cut to a hyphen at the end
    ],
)
def test_the_name_of_a_room_is_readable_and_short(given: str, address: str, name: str) -> None:
    assert make_room_name(given, addresses.parse(address)) == name


def test_a_name_that_is_taken_gets_a_number_and_no_room_loses_its_own(db: Db) -> None:
    for number in range(1, 4):
        add(db, seen(number, "Lobby"))
    assert list_names(db) == {"lobby": "fake:room/1", "lobby-2": "fake:room/2", "lobby-3": "fake:room/3"}
    add(db, seen(1, "Lobby"), folder="beta")
    assert list_names(db, "beta") == {"lobby": "fake:room/1"}


def test_a_room_has_one_name_however_often_somebody_writes_there(db: Db) -> None:
    add(db, seen(1, "Lobby"))
    add(db, seen(1, "Renamed"))
    assert list_names(db) == {"lobby": "fake:room/1"}


def test_among_many_rooms_of_one_name_few_are_looked_at(db: Db) -> None:
    for number in range(1, 40):
        add(db, seen(number, "Lobby"))
    assert len(list_names(db)) == 39
    counting = CountingDb(db)
    add(counting, seen(99, "Lobby"))
    assert len(list_names(db)) == 40
    assert counting.statements <= MOST_ALIKE + 5


def test_only_a_session_that_spans_rooms_answers_in_the_last_thread(db: Db) -> None:
    add(db, seen(1), "t1")
    add(db, seen(1), "t2")
    assert [each.thread for each in destinations.list_for_group(db, "acme")] == [""]
    for thread in ("t1", "t2"):
        add(db, seen(2), thread, SessionMode.AGENT_SHARED, "beta")
        assert [each.thread for each in destinations.list_for_group(db, "beta")] == [thread]
