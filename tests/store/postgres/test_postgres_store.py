"""Units on a real server: order, conflicts, connections that break at every point."""

import asyncio
import threading

import pytest

from gatepost.core.errors import Invalid, Unavailable
from gatepost.store.gateways.gateways import GatewayIdentity
from gatepost.store.port import Db
from gatepost.store.postgres.connection import open_connection
from gatepost.store.postgres.gateway_lease import GatewayLease
from gatepost.store.postgres.postgres_store import PostgresStore
from gatepost_testing.empty_database import EmptyDatabase
from gatepost_testing.waiting import PATIENCE_S


def identity(name: str) -> GatewayIdentity:
    return GatewayIdentity(name=name, home=f"home of {name}", host="host", version="1", schema_number=48)


def note(db: Db, name: str) -> None:
    db.run("INSERT INTO trusted_setups (project, digest, trusted_by, trusted_at) VALUES (?, '', '', 0)", (name,))


def notes(db: Db) -> list[str]:
    return [row[0] for row in db.rows("SELECT project FROM trusted_setups ORDER BY project")]


async def test_units_of_a_lane_keep_their_order(shared: PostgresStore) -> None:
    seen: list[int] = []
    await asyncio.gather(*(shared.write(lambda db, n=n: seen.append(n), lane="one") for n in range(200)))
    assert seen == list(range(200))


async def test_a_unit_that_fails_leaves_nothing_behind(shared: PostgresStore) -> None:
    def fail(db: Db) -> None:
        note(db, "half")
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        await shared.write(fail)
    assert await shared.read(notes) == []


@pytest.mark.slow
async def test_two_units_that_wait_for_each_other_both_succeed(shared: PostgresStore) -> None:
    await shared.write(note, "a")
    await shared.write(note, "b")
    both, tries = threading.Barrier(2), list[str]()

    def touch(db: Db, first: str, second: str) -> None:
        tries.append(first)
        db.run("UPDATE trusted_setups SET trusted_at = trusted_at + 1 WHERE project = ?", (first,))
        if len(tries) <= 2:
            both.wait(PATIENCE_S)
        db.run("UPDATE trusted_setups SET trusted_at = trusted_at + 1 WHERE project = ?", (second,))

    await asyncio.gather(shared.write(touch, "a", "b", lane="1"), shared.write(touch, "b", "a", lane="2"))
    assert await shared.read(lambda db: db.rows("SELECT trusted_at FROM trusted_setups")) == [(2,), (2,)]
    assert len(tries) > 2  # one of them was run again


async def test_a_unit_whose_connection_breaks_before_its_commit_is_run_again(
    shared: PostgresStore, database: EmptyDatabase
) -> None:
    runs: list[int] = []

    def broken_once(db: Db) -> str:
        note(db, "one")
        runs.append(1)
        if len(runs) == 1:
            end_own_connection(db, database)
        return "done"

    assert await shared.write(broken_once) == "done"
    assert (await shared.read(notes), len(runs)) == (["one"], 2)


def end_own_connection(db: Db, database: EmptyDatabase) -> None:
    row = db.row("SELECT pg_backend_pid()")
    assert row is not None
    with open_connection(database.url) as other:
        other.execute("SELECT pg_terminate_backend(%s)", (row[0],))


@pytest.mark.parametrize("committed", [True, False])
async def test_after_a_commit_without_an_answer_the_server_is_asked(
    shared: PostgresStore, monkeypatch: pytest.MonkeyPatch, committed: bool
) -> None:
    from psycopg import errors

    from gatepost.store.postgres import postgres_db

    real, lost = postgres_db.PostgresDb.commit, list[bool]()

    def commit(self: postgres_db.PostgresDb) -> None:
        if lost:
            real(self)
            return
        lost.append(True)
        if committed:
            real(self)
        self.connection.finish()
        raise errors.ConnectionFailure("gone")

    runs: list[int] = []

    def once(db: Db) -> None:
        runs.append(1)
        note(db, "one")

    monkeypatch.setattr(postgres_db.PostgresDb, "commit", commit)
    await shared.write(once)
    assert (await shared.read(notes), len(runs)) == (["one"], 1 if committed else 2)


@pytest.mark.slow
async def test_a_read_sees_one_state(shared: PostgresStore) -> None:
    await shared.write(note, "a")
    begun, go_on = threading.Event(), threading.Event()

    def twice(db: Db) -> tuple[list[str], list[str]]:
        first = notes(db)
        begun.set()
        go_on.wait(PATIENCE_S)
        return first, notes(db)

    reading = asyncio.create_task(shared.read(twice))
    await asyncio.to_thread(begun.wait, PATIENCE_S)
    await shared.write(note, "b")
    go_on.set()
    assert await reading == (["a"], ["a"])


async def test_a_read_beyond_its_time_is_ended(shared: PostgresStore) -> None:
    with pytest.raises(Unavailable, match="ask for less at once"):
        await shared.read(lambda db: db.rows("SELECT pg_sleep(60)"), within=0.05)
    assert await shared.read(notes) == []


async def test_a_read_cannot_write(shared: PostgresStore) -> None:
    from psycopg import errors

    with pytest.raises(errors.ReadOnlySqlTransaction):
        await shared.read(note, "a")


async def test_a_gateway_that_was_taken_over_from_writes_nothing_more(database: EmptyDatabase) -> None:
    database.reset()
    mine, other = GatewayLease(database.url, identity("a")), GatewayLease(database.url, identity("b"))
    mine.begin()
    other.begin()
    store, theirs = (
        PostgresStore(database.url, gateway=each.name, fence=each.render_opening) for each in (mine, other)
    )
    try:
        await store.write(note, "before")
        await theirs.write(lambda db: db.run("UPDATE gateways SET until = 0 WHERE name = 'a'"))
        other.end_connections("a")
        assert await theirs.write(other.end_life, "a", 1)
        assert not await theirs.write(other.end_life, "a", 1)
        with pytest.raises(Unavailable, match="another gateway has taken over"):
            await store.write(note, "late")
        mine.beat()  # its connection was ended, too
        mine.beat()
        assert mine.is_over and not mine.in_contact and store.refused_writes == 1
        mine.begin()
        await store.write(note, "again")
        assert await theirs.read(notes) == ["again", "before"]
    finally:
        store.close()
        theirs.close()


async def test_what_begins_during_a_takeover_is_refused_and_what_was_under_way_is_waited_for(
    database: EmptyDatabase,
) -> None:
    database.reset()
    mine, other = GatewayLease(database.url, identity("a")), GatewayLease(database.url, identity("b"))
    mine.begin()
    other.begin()
    store, theirs = (
        PostgresStore(database.url, gateway=each.name, fence=each.render_opening) for each in (mine, other)
    )
    writes, may_end, taken, may_commit = (threading.Event() for _ in range(4))

    def write_slowly(db: Db) -> None:
        note(db, "under way")
        writes.set()
        assert may_end.wait(PATIENCE_S)

    def take_over(db: Db) -> bool:
        done = other.end_life(db, "a", 1)
        taken.set()
        assert may_commit.wait(PATIENCE_S)
        return done

    def is_waiting(db: Db) -> bool:
        return db.row("SELECT COUNT(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted") == (1,)

    async def until_somebody_waits() -> None:
        async with asyncio.timeout(PATIENCE_S):
            while not await theirs.read(is_waiting):
                pass

    try:
        under_way = asyncio.ensure_future(store.write(write_slowly))
        await asyncio.to_thread(writes.wait, PATIENCE_S)
        await theirs.write(lambda db: db.run("UPDATE gateways SET until = 0 WHERE name = 'a'"))
        takeover = asyncio.ensure_future(theirs.write(take_over))
        await until_somebody_waits()
        assert not taken.is_set()
        may_end.set()
        await under_way
        await asyncio.to_thread(taken.wait, PATIENCE_S)
        late = asyncio.ensure_future(store.write(note, "late"))
        await until_somebody_waits()
        may_commit.set()
        assert await takeover
        with pytest.raises(Unavailable, match="another gateway has taken over"):
            await late
        assert await theirs.read(notes) == ["under way"]
    finally:
        for each in (may_end, may_commit):
            each.set()
        store.close()
        theirs.close()


async def test_writes_of_several_lanes_make_no_multixacts(database: EmptyDatabase) -> None:
    database.reset()
    lease = GatewayLease(database.url, identity("a"))
    lease.begin()
    store = PostgresStore(database.url, gateway="a", fence=lease.render_opening)

    def count(db: Db) -> int:
        row = db.row("SELECT mxid_age('1')")
        return int(row[0]) if row else 0

    try:
        before = await store.read(count)
        await asyncio.gather(*(store.write(note, str(number)) for number in range(200)))
        assert await store.read(count) == before
    finally:
        store.close()


async def test_a_gateway_whose_lease_was_renewed_meanwhile_is_not_taken_over(database: EmptyDatabase) -> None:
    database.reset()
    mine, other = GatewayLease(database.url, identity("a")), GatewayLease(database.url, identity("b"))
    mine.begin()
    other.begin()
    store = PostgresStore(database.url, gateway="b", fence=other.render_opening)
    try:
        assert not await store.write(other.end_life, "a", mine.epoch)
    finally:
        store.close()


INSERT = "INSERT INTO trusted_setups (project, digest, trusted_by, trusted_at) VALUES"


async def test_more_than_a_socket_holds_travels_together(shared: PostgresStore) -> None:
    large = "x" * 300_000

    def append(db: Db) -> None:
        for number in range(30):
            db.append(INSERT, (str(number), "", large, 0))

    async with asyncio.timeout(PATIENCE_S):
        await shared.write(append, durable=False)
        assert len(await shared.read(notes)) == 30


async def test_what_waits_for_an_answer_is_done_in_its_turn(shared: PostgresStore) -> None:
    def write(db: Db) -> list[tuple[object, ...]]:
        db.execute_later(f"{INSERT} (?, '', '', 0)", ("a",))
        asked = db.query_later("SELECT COUNT(*) FROM trusted_setups")
        db.execute_later(f"{INSERT} (?, '', '', 0)", ("b",))
        return [*asked(), *db.rows("SELECT COUNT(*) FROM trusted_setups")]

    assert await shared.write(write) == [(1,), (2,)]


async def test_a_failure_of_what_travels_with_the_commit_undoes_all(shared: PostgresStore) -> None:
    def write(db: Db) -> None:
        note(db, "first")
        db.append(INSERT, ("second", "", "", 0))
        db.append(INSERT, ("first", "", "", 0))

    with pytest.raises(Exception, match="duplicate key"):
        await shared.write(write)
    assert await shared.read(notes) == []
    await shared.write(note, "after")
    assert await shared.read(notes) == ["after"]


async def test_what_the_server_can_never_keep_is_refused_for_good(shared: PostgresStore) -> None:
    """A caller who waits for the store would try it for ever."""
    wide = "".join(chr(0x20000 + place * 7919 % 40_000) for place in range(3000))
    with pytest.raises(Invalid, match="larger than the database can keep"):
        await shared.write(note, wide)
    await shared.write(note, "a")
    assert await shared.read(notes) == ["a"]
