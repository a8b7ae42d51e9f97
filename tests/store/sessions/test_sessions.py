"""Sessions: one per key among the live ones, whatever a platform calls its rooms."""

import asyncio

from hypothesis import given
from hypothesis import strategies as st

from gatepost.store.engine.sqlite_store import SqliteStore
from gatepost.store.port import Db
from gatepost.store.sessions import groups, sessions
from gatepost.store.sessions.sessions import MODES, SessionMode, key_of


def test_the_mode_decides_what_shares_a_session(db: Db) -> None:
    groups.add(db, "acme", "Acme", "", 1)

    def distinct(mode: str) -> int:
        places = [("a", "a:1", ""), ("a", "a:1", "t"), ("a", "a:2", ""), ("b", "a:1", "")]
        return len({sessions.find_or_add(db, mode, "acme", *place, 1).id for place in places})

    assert {mode: distinct(mode) for mode in MODES} == {"per-thread": 4, "shared": 3, "agent-shared": 1}


async def test_many_at_once_find_one_session(store: SqliteStore) -> None:
    await store.write(groups.add, "acme", "Acme", "", 1)
    resolving = (
        store.write(sessions.find_or_add, "shared", "acme", "fake", "fake:1", str(number), number)
        for number in range(50)
    )
    assert len({session.id for session in await asyncio.gather(*resolving)}) == 1


def test_a_closed_session_is_followed_by_a_new_one(db: Db) -> None:
    groups.add(db, "acme", "Acme", "", 1)
    first = sessions.find_or_add(db, SessionMode.SHARED, "acme", "fake", "fake:1", "", 1)
    assert sessions.close(db, first.id, 2) and not sessions.close(db, first.id, 3)
    second = sessions.find_or_add(db, SessionMode.SHARED, "acme", "fake", "fake:1", "", 4)
    assert second.id != first.id and [each.id for each in sessions.list_open(db)] == [second.id]


words = st.text(st.sampled_from("ab|%7C"), max_size=5)
places = st.tuples(st.sampled_from(MODES), words, words, words, words)


@given(places, places)
def test_no_room_can_be_named_so_that_it_shares_anothers_session(one: tuple[str, ...], two: tuple[str, ...]) -> None:
    def meant(mode: str, folder: str, instance: str, address: str, thread: str) -> tuple[str, ...]:
        return {"agent-shared": (folder,), "shared": (folder, instance, address)}.get(
            mode, (folder, instance, address, thread)
        )

    assert (key_of(*one) == key_of(*two)) == (meant(*one) == meant(*two))


def test_nanoclaw_38_a_provider_is_fed_its_own_conversation_alone(db: Db) -> None:
    groups.add(db, "acme", "Acme", "", 1)
    session = sessions.find_or_add(db, SessionMode.SHARED, "acme", "fake", "fake:1", "", 1)
    sessions.set_conversation(db, session.id, "claude", "c-1", 1)
    sessions.set_conversation(db, session.id, "claude", "c-2", 2)
    assert sessions.get_conversation(db, session.id, "claude") == "c-2"
    assert sessions.get_conversation(db, session.id, "codex") == ""
    sessions.set_conversation(db, session.id, "claude", "", 3)
    assert sessions.get_conversation(db, session.id, "claude") == ""
