"""A failover to a standby that lacks the last moments, and to one that has them all. Both are real servers."""

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager

import pytest
from tests.store.conftest import LEASE, NOON, ROOM, make_desk

from gatepost.core.clock import SystemClock
from gatepost.core.errors import Unavailable
from gatepost.serve.health.gateway_checks import judge_failovers
from gatepost.store.gateways import database_lives
from gatepost.store.gateways.database_lives import FAILOVER
from gatepost.store.gateways.gateways import GatewayIdentity
from gatepost.store.messages import outbox
from gatepost.store.messages.outbox import EffectState
from gatepost.store.port import Db
from gatepost.store.postgres.gateway_lease import GatewayLease
from gatepost.store.postgres.migrate import migrate_postgres
from gatepost.store.postgres.postgres_store import PostgresStore
from gatepost.store.sessions import turns
from gatepost_testing.servers.postgres import PACKAGE, PostgresServer, find_programs
from gatepost_testing.waiting import block_until

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(find_programs() is None, reason=f"PostgreSQL is missing: apt-get install {PACKAGE}"),
]


class Servers:
    def __init__(self, primary: PostgresServer, standby: PostgresServer) -> None:
        self.primary, self.standby = primary, standby
        self.url = f"postgresql://postgres@/one?host={primary.folder},{standby.folder}&target_session_attrs=read-write"

    def wait_for_standby(self) -> None:
        position = self.primary.execute("SELECT pg_current_wal_flush_lsn()").strip()
        seen = f"SELECT pg_last_wal_replay_lsn() >= '{position}'"
        block_until(lambda: self.standby.execute(seen).strip() == "t", "the standby to have it all")

    def cut(self) -> None:
        """The standby learns nothing more, and nobody waits for it."""
        self.wait_for_standby()
        self.standby.execute("ALTER SYSTEM SET primary_conninfo = ''")
        self.standby.execute("SELECT pg_reload_conf()")
        none = "SELECT COUNT(*) FROM pg_stat_wal_receiver"
        block_until(lambda: self.standby.execute(none).strip() == "0", "the standby to be alone")

    def fail_over(self) -> None:
        self.primary.stop("immediate")
        self.standby.execute("SELECT pg_promote()")


@contextmanager
def running_servers() -> Iterator[Servers]:
    with PostgresServer() as primary:
        migrate_postgres(primary.add_database("one"), SystemClock())
        standby = PostgresServer()
        standby.start_standby(primary)
        try:
            yield Servers(primary, standby)
        finally:
            standby.__exit__(None, None, None)
            primary.stop = lambda mode="fast": None  # type: ignore[method-assign]


@asynccontextmanager
async def joined(url: str, name: str) -> AsyncIterator[tuple[GatewayLease, PostgresStore]]:
    lease = GatewayLease(url, GatewayIdentity(name=name, home=name, host="host", version="1", schema_number=50))
    lease.begin()
    store = PostgresStore(url, gateway=name, fence=lease.render_opening, may_write=lease.may_write)
    try:
        yield lease, store
    finally:
        store.close()


def say_three(db: Db) -> None:
    """One is sent, one is on its way, one waits."""
    desk = make_desk(db)
    for key in ("sent", "sending", "pending"):
        desk.say(key, key)
    first = outbox.claim_head(db, *ROOM, "a", NOON, LEASE)
    assert first is not None
    outbox.record_outcome(db, first.id, EffectState.SENT, "", NOON, "p-1")
    outbox.claim_head(db, *ROOM, "a", NOON, LEASE)


def send_second(db: Db) -> None:
    found = outbox.find_by_key(db, "sending")
    assert found is not None
    outbox.record_outcome(db, found.id, EffectState.SENT, "", NOON, "p-2")


def read_states(db: Db) -> list[str]:
    return [row[0] for row in db.rows("SELECT state FROM outbox ORDER BY id")]


def read_lives(db: Db) -> list[int]:
    return [each.held for each in database_lives.list_all(db)]


def renew(lease: GatewayLease) -> None:
    """The first finds its connection broken."""
    for _ in range(2):
        lease.beat()


async def test_what_was_open_is_held_after_a_failover_that_forgot_something() -> None:
    with running_servers() as servers:
        async with joined(servers.url, "a") as (lease, store), joined(servers.url, "b") as (other, theirs):
            await store.write(say_three)
            lease.beat()
            servers.cut()
            await store.write(send_second)  # which nobody will know of
            lease.beat()
            servers.fail_over()

            with pytest.raises(Unavailable, match="failed over; what was open is held first"):
                store.stop_waiting()
                await store.write(send_second)
            renew(lease)
            assert await store.read(read_states) == ["sent", "uncertain", "uncertain"]
            await store.write(lambda db: None)
            renew(other)  # it comes second, and holds nothing
            await theirs.write(lambda db: make_desk(db).say("new", "new"))
            other.beat()
            assert await theirs.read(read_states) == ["sent", "uncertain", "uncertain", "pending"]
            assert await theirs.read(read_lives) == [-1, 2]
            found = await theirs.read(outbox.find_by_key, "sending")
            assert found is not None and found.reason == FAILOVER
            [told] = judge_failovers(await theirs.read(database_lives.list_all))
            assert "may have forgotten the last moments; 2 messages held" in told.text


def answer_first(db: Db) -> None:
    """A turn says its answer, which is sent, and ends; the next message is worked on and answered, too."""
    desk = make_desk(db)
    turn = turns.find_open(db, desk.session.id)
    assert turn is not None
    said = desk.say("answer", "echo: first", turn=turn)
    outbox.record_outcome(db, said.id, EffectState.SENT, "", NOON, "p-1")
    assert desk.finish(turn)
    claim = desk.claim()
    assert claim is not None and turns.begin(db, claim.turn.id, claim.turn.epoch, claim.rows, NOON)
    desk.say("next", "echo: second", turn=claim.turn)
    assert desk.finish(claim.turn)


def begin_first(db: Db) -> None:
    """A turn says a part of its answer, and another message waits behind it."""
    desk = make_desk(db)
    turn = desk.begun("first")
    desk.say("part", "I look", turn=turn)
    desk.hear("second")


async def test_a_turn_whose_end_was_forgotten_is_held_and_not_run_again() -> None:
    with running_servers() as servers:
        async with joined(servers.url, "a") as (lease, store):
            await store.write(begin_first)
            lease.beat()
            servers.cut()
            await store.write(answer_first)  # which nobody will know of
            lease.beat()
            servers.fail_over()
            renew(lease)
            assert await store.read(turns.list_open) == []
            assert await store.read(lambda db: make_desk(db).states()) == ["held", "held"]
            assert await store.write(lambda db: make_desk(db).claim()) is None
            assert await store.read(read_states) == ["uncertain"]
            assert await store.read(read_lives) == [-1, 3]


async def test_a_synchronous_standby_forgot_nothing_so_nothing_is_held() -> None:
    with running_servers() as servers:
        servers.primary.execute("ALTER SYSTEM SET synchronous_standby_names = '*'")
        servers.primary.execute("SELECT pg_reload_conf()")
        async with joined(servers.url, "a") as (lease, store):
            await store.write(say_three)
            lease.beat()
            servers.wait_for_standby()
            servers.fail_over()
            renew(lease)
            assert await store.read(read_states) == ["sent", "sending", "pending"]
            assert await store.read(read_lives) == [-1, -1]
            assert list(judge_failovers(await store.read(database_lives.list_all))) == []


def test_a_role_without_rights_of_its_own_is_told_where_the_server_is() -> None:
    with PostgresServer() as server:
        url = server.add_database("one").replace("postgres@", "guest@")
        server.execute("CREATE ROLE guest LOGIN")
        server.execute("ALTER DATABASE one OWNER TO guest")
        migrate_postgres(url, SystemClock())
        lease = GatewayLease(url, GatewayIdentity(name="a", home="a", host="host", version="1", schema_number=50))
        lease.begin()
        lease.beat()
        assert lease.in_contact and server.execute("SELECT COUNT(*) FROM database_lives", "one").strip() == "1"
