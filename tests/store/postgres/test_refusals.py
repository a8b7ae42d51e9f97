"""What the server refuses for a reason of its own is waited for, or fails as a store that cannot be used: a loop of the
gateway that goes on after `Unavailable` goes on after all of it."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from psycopg import errors

from gatepost.core.errors import StoreAway, Unavailable
from gatepost.store.port import FAILS_SOON, Db
from gatepost.store.postgres.connection import open_connection
from gatepost.store.postgres.postgres_db import PostgresDb
from gatepost.store.postgres.postgres_store import PostgresStore
from gatepost.store.postgres.refusals import translate_error
from gatepost_testing.empty_database import EmptyDatabase
from gatepost_testing.waiting import PATIENCE_S

ADD = "INSERT INTO trusted_setups (project, digest, trusted_by, trusted_at) VALUES ('one', '', '', 0)"
READ_ONLY = (
    b"DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET default_transaction_read_only = on', current_database());"
    b" END $$"
)
WRITABLE = b"SET default_transaction_read_only = off;" + READ_ONLY.replace(b"= on", b"= off")


@contextmanager
def read_only(url: str) -> Iterator[None]:
    """For connections that are made meanwhile, as a standby is for all."""
    with open_connection(url) as operator:
        PostgresDb(operator.pgconn).command(READ_ONLY)
        try:
            yield
        finally:
            PostgresDb(operator.pgconn).command(WRITABLE)


@contextmanager
def locked(url: str, table: str) -> Iterator[None]:
    with open_connection(url) as operator:
        lock = f"SET idle_in_transaction_session_timeout = 0; BEGIN; LOCK TABLE {table}"
        PostgresDb(operator.pgconn).command(lock.encode())
        yield


def add(db: Db) -> None:
    db.run(ADD)


def count(db: Db) -> int:
    row = db.row("SELECT COUNT(*) FROM trusted_setups")
    assert row is not None
    return int(row[0])


async def test_a_write_waits_for_a_database_that_is_read_only(shared: PostgresStore, database: EmptyDatabase) -> None:
    with read_only(database.url):
        FAILS_SOON.set(True)
        with pytest.raises(StoreAway, match="read-only"):
            await shared.write(add)
        FAILS_SOON.set(False)
        writing = asyncio.create_task(shared.write(add))
        await asyncio.sleep(0)
    async with asyncio.timeout(PATIENCE_S):
        await writing
    assert await shared.read(count) == 1


@pytest.mark.slow
async def test_a_read_waits_for_a_table_that_is_somebody_elses(shared: PostgresStore, database: EmptyDatabase) -> None:
    await shared.write(add)
    with locked(database.url, "trusted_setups"):
        FAILS_SOON.set(True)
        with pytest.raises(StoreAway, match="lock timeout"):
            await shared.read(count)
        FAILS_SOON.set(False)
        reading = asyncio.create_task(shared.read(count))
        await asyncio.sleep(0)
    async with asyncio.timeout(PATIENCE_S):
        assert await reading == 1


@pytest.mark.parametrize("way", ["read", "write"])
async def test_a_table_that_is_not_there_is_a_store_that_cannot_be_used(shared: PostgresStore, way: str) -> None:
    with pytest.raises(Unavailable, match='the database refuses: relation "nowhere" does not exist'):
        await getattr(shared, way)(lambda db: db.rows("SELECT * FROM nowhere"))


@pytest.mark.parametrize(
    "error", [errors.OutOfMemory, errors.IoError, errors.DataCorrupted, errors.InsufficientPrivilege, errors.DiskFull]
)
def test_trouble_of_the_server_is_no_fault_of_ours(error: type[Exception]) -> None:
    assert isinstance(translate_error(error("no")), Unavailable)


@pytest.mark.parametrize(
    "error", [errors.UniqueViolation, errors.SyntaxError, errors.NumericValueOutOfRange, errors.InFailedSqlTransaction]
)
def test_a_fault_of_ours_stays_one(error: type[Exception]) -> None:
    given = error("no")
    assert translate_error(given) is given
