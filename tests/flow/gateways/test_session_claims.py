"""Which gateway runs a session."""

from gatepost.flow.gateways.session_claims import StoredClaims
from gatepost.store import groups, sessions
from gatepost.store.port import Db, Store
from gatepost.store.sessions import Session
from gatepost.testing.clock import NOON, FixedClock


def add_session(db: Db, folder: str) -> Session:
    groups.add(db, folder, folder, "", NOON)
    return sessions.find_or_add(db, sessions.SessionMode.SHARED, folder, "fake", f"fake:{folder}", "", NOON)


def make_claims(store: Store, name: str, *, local: bool) -> StoredClaims:
    return StoredClaims(store, FixedClock(), name, local=local)


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
