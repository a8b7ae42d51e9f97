"""A unit that looked at a row which another changes before it writes: on a server it must not undo what the other did.

Each time another connection has changed the row and not committed yet, so the unit reads the old state and then waits
for the row.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import TypeVar

import psycopg
import pytest

from gatepost.messages.outbound import Op
from gatepost.store.messages import inbox, outbox
from gatepost.store.messages.outbox import EffectOrigin, NewEffect, OutboxEffect
from gatepost.store.people import users
from gatepost.store.port import Db
from gatepost.store.postgres.connection import open_connection
from gatepost.store.postgres.postgres_store import PostgresStore
from gatepost.store.sessions import groups, sessions, turn_claims
from gatepost.store.sessions.sessions import SessionMode
from gatepost.store.sessions.turn_claims import TurnClaim
from gatepost_testing.arrivals import add_arrival
from gatepost_testing.empty_database import EmptyDatabase
from gatepost_testing.waiting import until

T = TypeVar("T")

NOON = 1_800_000_000_000_000
LEASE = 30_000_000
ROOM = ("fake", "fake:room/1")


@pytest.fixture
async def server(emptied: EmptyDatabase) -> AsyncIterator[PostgresStore]:
    opened = PostgresStore(emptied.url)
    yield opened
    opened.close()


async def write_behind(server: PostgresStore, sql: str, unit: Callable[[Db], T]) -> T:
    """Begin the unit behind a change that is not committed; commit that once the unit waits. What the unit answers."""
    url = server.url
    with open_connection(url) as other, open_connection(url) as watching:
        other.execute("BEGIN")
        other.execute(sql.encode())
        task = asyncio.create_task(server.write(unit))
        await until(lambda: _is_anybody_waiting(watching), "the unit to wait for the row")
        other.execute("COMMIT")
        return await task


def _is_anybody_waiting(watching: psycopg.Connection) -> bool:
    found = watching.execute(
        "SELECT COUNT(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
    ).fetchone()
    return found is not None and found[0] > 0


def add_effect(db: Db, number: int) -> int:
    new = NewEffect(
        key=f"k{number}",
        op=Op.SEND,
        origin=EffectOrigin.RESULT,
        instance=ROOM[0],
        address=ROOM[1],
        text="hi",
        payload={"text": "hi"},
    )
    return outbox.add(db, new, NOON).id


async def test_what_was_withdrawn_meanwhile_is_not_sent(server: PostgresStore) -> None:
    first, second = [await server.write(add_effect, number) for number in range(2)]

    def claim(db: Db) -> OutboxEffect | None:
        return outbox.claim_head(db, *ROOM, "d", NOON, LEASE)

    claimed = await write_behind(server, f"UPDATE outbox SET state = 'cancelled' WHERE id = {first}", claim)
    assert claimed is not None and claimed.id == second
    rows = await server.read(lambda db: db.rows("SELECT state FROM outbox ORDER BY id"))
    assert rows == [("cancelled",), ("sending",)]


def add_message(db: Db, name: str) -> tuple[str, int]:
    if groups.get(db, "acme") is None:
        groups.add(db, "acme", "Acme", "", NOON)
    session = sessions.find_or_add(db, SessionMode.SHARED, "acme", *ROOM, "", NOON)
    message_id = add_arrival(db, NOON, instance=ROOM[0], address=ROOM[1], platform_id=name, text=name)
    return session.id, inbox.enqueue(db, message_id, session.id, "acme", "member", NOON)


async def test_a_message_that_was_cancelled_meanwhile_is_not_answered(server: PostgresStore) -> None:
    session_id, first = await server.write(add_message, "one")
    _, second = await server.write(add_message, "two")

    def claim(db: Db) -> TurnClaim | None:
        return turn_claims.claim(db, session_id, "scripted", "d", NOON, LEASE, 20)

    cancel = f"UPDATE inbox SET state = 'cancelled', next_at = NULL WHERE id = {first}"
    claimed = await write_behind(server, cancel, claim)
    assert claimed is not None and claimed.rows == (second,)
    assert await server.read(lambda db: db.rows("SELECT state FROM inbox ORDER BY id")) == [
        ("cancelled",),
        ("working",),
    ]


async def test_of_two_that_saw_a_key_free_the_second_looks_again(server: PostgresStore) -> None:
    def find_or_add(db: Db) -> str:
        if users.get(db, "fake:user/1") is not None:
            return "found"
        db.run("INSERT INTO users (id, name, created_at) VALUES ('fake:user/1', 'Ada', 1)")
        return "added"

    add = "INSERT INTO users (id, name, created_at) VALUES ('fake:user/1', 'Bob', 1)"
    assert await write_behind(server, add, find_or_add) == "found"


async def test_a_unit_that_adds_a_key_twice_by_itself_fails(server: PostgresStore) -> None:
    def add_twice(db: Db) -> None:
        for _ in range(2):
            db.run("INSERT INTO users (id, name, created_at) VALUES ('fake:user/1', 'Ada', 1)")

    with pytest.raises(psycopg.errors.UniqueViolation):
        await server.write(add_twice)
