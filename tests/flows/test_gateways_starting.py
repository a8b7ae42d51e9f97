"""A gateway whose start takes long is alive to the others meanwhile."""

import asyncio
from pathlib import Path

from gatepost.store.postgres.connection import open_connection
from gatepost.store.postgres.postgres_db import PostgresDb
from gatepost_testing.empty_database import EmptyDatabase
from gatepost_testing.gateway import running_gateway
from gatepost_testing.waiting import until


async def test_a_gateway_renews_its_lease_while_it_still_starts(quick_path: Path, emptied: EmptyDatabase) -> None:
    with open_connection(emptied.url) as holding, open_connection(emptied.url) as looking:
        db = PostgresDb(looking.pgconn)
        lock = (
            b"SET idle_in_transaction_session_timeout = 0; BEGIN; LOCK TABLE groups"  # which a start reads and writes
        )
        PostgresDb(holding.pgconn).command(lock)
        up, down = asyncio.Event(), asyncio.Event()

        async def live() -> None:
            async with running_gateway(quick_path / "home", store__url=emptied.url, store__unsafe=True):
                up.set()
                await down.wait()

        living = asyncio.create_task(live())
        await until(lambda: len(list_leases(db)) == 1, "it to register")
        first = list_leases(db)
        await until(lambda: list_leases(db) > first, "its lease to be renewed")
        assert not up.is_set()
        PostgresDb(holding.pgconn).command(b"ROLLBACK")
        await until(up.is_set, "it to be up")
        down.set()
        await living


def list_leases(db: PostgresDb) -> list[int]:
    return [int(row[0]) for row in db.rows("SELECT until FROM gateways")]
