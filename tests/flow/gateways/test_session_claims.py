"""Which gateway runs a session."""

from gatepost.flow.gateways.session_claims import StoredClaims
from gatepost.store.gateways import group_places
from gatepost.store.port import Db, Store
from gatepost.store.sessions import groups, sessions
from gatepost.store.sessions.sessions import Session
from gatepost_testing.clock import NOON, FixedClock


def add_session(db: Db, folder: str) -> Session:
    groups.add(db, folder, folder, "", NOON)
    return sessions.find_or_add(db, sessions.SessionMode.SHARED, folder, "fake", f"fake:{folder}", "", NOON)


def make_claims(store: Store, name: str, *, local: bool, files: bool = True) -> StoredClaims:
    return StoredClaims(store, FixedClock(), name, (lambda folder: files) if local else None)


async def test_with_shared_folders_whoever_is_free_runs_a_session(store: Store) -> None:
    session = await store.write(add_session, "acme")
    a, b = (make_claims(store, name, local=False) for name in "ab")
    assert await a.claim(session) and not await b.claim(session)
    await a.release(session.id)
    assert await b.claim(session)
    assert await b.list_here([(session.id, "acme", NOON)]) == [(session.id, "acme", NOON)]


async def test_with_folders_of_its_own_the_first_gateway_of_a_group_stays_the_only_one(store: Store) -> None:
    session, below = await store.write(add_session, "acme"), await store.write(add_session, "acme/sales")
    other = await store.write(add_session, "other")
    a, b = (make_claims(store, name, local=True) for name in "ab")
    assert not await b.is_elsewhere(session)
    assert await a.claim(session)
    await a.release(session.id)
    assert not await b.claim(session) and not await b.claim(below)
    assert [await b.is_elsewhere(each) for each in (session, below, other)] == [True, True, False]
    assert await b.claim(other) and await a.claim(below)
    due = [(each.id, each.folder, NOON) for each in (session, below, other)]
    assert await a.list_here(due) == due[:2]
    assert await b.list_here(due) == due[2:]


async def test_a_gateway_without_its_files_leaves_a_group_to_the_one_that_has_them(store: Store) -> None:
    session = await store.write(add_session, "acme/sales")
    due = [(session.id, session.folder, NOON)]
    a, b = make_claims(store, "a", local=True), make_claims(store, "b", local=True, files=False)
    assert not await b.claim(session) and await b.is_elsewhere(session) and await b.list_here(due) == []
    assert await store.read(group_places.list_all) == {}
    assert not await a.is_elsewhere(session) and await a.list_here(due) == due and await a.claim(session)
    assert await store.read(group_places.list_all) == {"acme": "a"}
