"""The database handle: the beginning of a transaction, in one statement."""

import asyncio
import threading

import pytest

from gatepost.core.errors import Unavailable
from gatepost.store.engine import rule_cache
from gatepost.store.engine.rule_cache import RuleCache
from gatepost.store.port import Db, LockKind, Row
from gatepost.store.postgres.postgres_db import render_opening
from gatepost.store.postgres.postgres_store import PostgresStore
from gatepost_testing.empty_database import EmptyDatabase
from gatepost_testing.waiting import PATIENCE_S

NOBODY = "SELECT pg_current_xact_id()::text FROM gateways WHERE name = 'nobody' AND epoch = 1"
HELD = "SELECT COUNT(*) FROM pg_locks WHERE locktype = 'advisory' AND granted"
WAITING = "SELECT COUNT(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"


async def test_the_rules_state_is_as_if_it_was_asked_for_alone(shared: PostgresStore) -> None:
    def ask(db: Db) -> tuple[list[Row], list[Row], list[Row]]:
        asked = db.query_later(rule_cache.STATES)
        db.lock(LockKind.ROOM, "fake", "fake:1")
        return asked(), db.query_later(rule_cache.STATES)(), db.rows(rule_cache.STATES)

    first, second, alone = await shared.write(ask)
    assert first == second == alone
    assert len(alone) == 1


async def test_without_a_state_nothing_is_kept(shared: PostgresStore) -> None:
    def write(db: Db) -> list[Row]:
        db.run("DELETE FROM rule_state")
        return []

    def read(db: Db) -> list[int]:
        rules, counted = RuleCache(), list[int]()
        for _ in range(2):
            rules.renew(db)
            rules.read(db, lambda _: counted.append(1))
        return counted

    await shared.write(write)
    assert await shared.write(read) == [1, 1]


async def test_only_one_unit_has_a_key_from_its_first_statement_on(shared: PostgresStore) -> None:
    entered, may_end = threading.Event(), threading.Event()

    def hold(db: Db) -> int:
        db.lock(LockKind.ROOM, "fake", "fake:1")
        found = db.row(HELD)
        entered.set()
        may_end.wait(PATIENCE_S)
        return int(found[0]) if found else 0

    def follow(db: Db) -> None:
        db.lock(LockKind.ROOM, "fake", "fake:1")
        db.row("SELECT 1")

    first = asyncio.ensure_future(shared.write(hold))
    await asyncio.to_thread(entered.wait, PATIENCE_S)
    second = asyncio.ensure_future(shared.write(follow))
    async with asyncio.timeout(PATIENCE_S):
        while await shared.read(lambda db: db.row(WAITING)) != (1,):
            pass
        assert not second.done()
        may_end.set()
        assert await first == 1
        await second


async def test_whose_life_is_over_takes_no_lock(database: EmptyDatabase) -> None:
    database.reset()
    store = PostgresStore(database.url, fence=lambda: NOBODY)
    try:
        with pytest.raises(Unavailable, match="taken over"):
            await store.write(lambda db: db.lock(LockKind.ROOM, "fake", "fake:1"))
        assert await store.read(lambda db: db.row(HELD)) == (0,)
    finally:
        store.close()


def test_a_fence_alone_is_asked_as_it_is() -> None:
    assert render_opening(NOBODY, False, False) == NOBODY
