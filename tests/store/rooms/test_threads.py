"""Names and marks of threads, on both engines."""

from tests.store.conftest import NOON, Desk

from gatepost.store.people import person_removal, users
from gatepost.store.people.person_scope import PersonScope
from gatepost.store.port import Db
from gatepost.store.rooms import threads
from gatepost.store.rooms.threads import NamedThread, ThreadMark

ANN, BEN, ROOM = "fake:user/ann", "fake:user/ben", ("web", "web:home")


def fill(db: Db) -> None:
    for person in (ANN, BEN):
        users.add(db, person, "", NOON)
        threads.set_mark(db, person, (*ROOM, "one"), ThreadMark.PINNED, NOON)
        threads.set_name(db, NamedThread(*ROOM, person, f"by {person}", person, NOON))


def test_a_name_and_a_mark_are_replaced_and_taken_away(desk: Desk) -> None:
    fill(desk.db)
    threads.set_name(desk.db, NamedThread(*ROOM, ANN, "new", BEN, NOON))
    assert threads.list_names(desk.db, *ROOM) == {ANN: "new", BEN: f"by {BEN}"}
    threads.set_name(desk.db, NamedThread(*ROOM, ANN, "", BEN, NOON))
    assert threads.list_names(desk.db, *ROOM) == {BEN: f"by {BEN}"}
    threads.set_mark(desk.db, ANN, (*ROOM, "one"), ThreadMark.ARCHIVED, NOON)
    assert threads.list_marks(desk.db, ANN, *ROOM) == {"one": ThreadMark.ARCHIVED}
    threads.set_mark(desk.db, ANN, (*ROOM, "one"), None, NOON)
    assert threads.list_marks(desk.db, ANN, *ROOM) == {}
    assert threads.list_marks(desk.db, BEN, *ROOM) == {"one": ThreadMark.PINNED}


def test_what_somebody_named_and_marked_goes_with_them(desk: Desk) -> None:
    fill(desk.db)
    person_removal.remove(desk.db, PersonScope((ANN,), ()))
    assert threads.list_names(desk.db, *ROOM) == {BEN: f"by {BEN}"}
    assert threads.list_marks(desk.db, ANN, *ROOM) == {}
    assert threads.list_marks(desk.db, BEN, *ROOM) == {"one": ThreadMark.PINNED}
