"""What a unit has to itself, among four writers of a server. Each of these fails if `Db.lock` does nothing."""

import asyncio
import threading
from typing import TYPE_CHECKING

import pytest

from gatepost.core.clock import Period
from gatepost.store.money import budgets, reservations
from gatepost.store.money.budgets import BudgetScope, BudgetScopeKind
from gatepost.store.money.reservations import BudgetReservation
from gatepost.store.port import Db, LockKind
from gatepost.store.rights import audit
from gatepost.store.rights.audit import AuditRecord
from gatepost.store.sessions import groups, sessions, timeline
from gatepost.store.sessions.sessions import SessionMode
from gatepost.store.sessions.timeline import TimelineKind
from gatepost_testing.arrivals import add_arrival
from gatepost_testing.waiting import PATIENCE_S

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from gatepost.store.postgres.postgres_store import PostgresStore
    from gatepost_testing.empty_database import EmptyDatabase

NOON = 1_800_000_000_000_000
USD = 1_000_000
CALLERS, CALLS = 4, 50
ROOM = ("fake", "fake:room/1")


@pytest.fixture
async def server(emptied: "EmptyDatabase") -> "AsyncIterator[PostgresStore]":
    from gatepost.store.postgres.postgres_store import PostgresStore

    opened = PostgresStore(emptied.url, lanes=CALLERS)
    yield opened
    opened.close()


def add_session(db: Db) -> str:
    groups.add(db, "acme", "Acme", "", NOON)
    return sessions.find_or_add(db, SessionMode.SHARED, "acme", *ROOM, "", NOON).id


async def test_calls_of_four_writers_never_pass_a_budget_together(server: "PostgresStore") -> None:
    await server.write(budgets.put, BudgetScope(BudgetScopeKind.GROUP, "acme"), Period.DAY, USD, "owner", NOON)

    async def call(caller: int) -> list[object]:
        asked = ("acme", "fake:user/1", "s", "t", "model", 30_000, NOON)
        return [
            await server.write(reservations.reserve, *asked, durable=False, lane=f"caller {caller}")
            for _ in range(CALLS)
        ]

    answers = [each for some in await asyncio.gather(*map(call, range(CALLERS))) for each in some]

    assert sum(isinstance(each, BudgetReservation) for each in answers) == 33
    assert await server.read(reservations.sum_reserved) == 33 * 30_000
    stops = [note.percent for each in answers for note in getattr(each, "notes", ())]
    assert len(stops) == len(set(stops))  # each note is given once


async def test_the_audit_chain_of_four_writers_holds(server: "PostgresStore") -> None:
    async def write(caller: int) -> None:
        for number in range(CALLS):
            record = AuditRecord(NOON + number, f"caller {caller}", "send", "allowed", {})
            await server.write(audit.append, record, durable=False, lane=f"caller {caller}")

    await asyncio.gather(*map(write, range(CALLERS)))

    assert await server.read(audit.verify) == (CALLERS * CALLS, None)


async def test_the_timeline_of_four_writers_has_no_gap_and_no_double(server: "PostgresStore") -> None:
    session_id = await server.write(add_session)

    async def write(caller: int) -> list[int]:
        given = (session_id, "", TimelineKind.STATUS, {"caller": caller}, NOON)
        return [await server.write(timeline.add, *given, durable=False, lane=f"caller {caller}") for _ in range(CALLS)]

    numbers = await asyncio.gather(*map(write, range(CALLERS)))

    assert sorted(each for some in numbers for each in some) == list(range(1, CALLERS * CALLS + 1))


async def read_among_writers(server: "PostgresStore") -> tuple[list[int], list[int]]:
    """Return what a reader by cursor has seen, and what was there to see."""
    done = asyncio.Event()
    seen: list[int] = []

    def accept(db: Db, name: str) -> int:
        made = add_arrival(db, NOON, instance=ROOM[0], address=ROOM[1], platform_id=name, text=name)
        db.rows("SELECT pg_sleep(0.002)" if made % 3 else "SELECT 1")  # ids are drawn in another order than committed
        return made

    async def write(caller: int) -> list[int]:
        lane = f"caller {caller}"
        return [await server.write(accept, f"{caller}/{n}", durable=False, lane=lane) for n in range(CALLS // 2)]

    async def follow() -> None:
        while not done.is_set() or await look():
            await look()

    async def look() -> bool:
        found = await server.read(list_after, seen[-1] if seen else 0)
        seen.extend(found)
        return bool(found)

    def list_after(db: Db, after: int) -> list[int]:
        return [row[0] for row in db.rows("SELECT id FROM messages WHERE id > ? ORDER BY id", (after,))]

    following = asyncio.create_task(follow())
    made = await asyncio.gather(*map(write, range(CALLERS)))
    done.set()
    await following

    return seen, sorted(each for some in made for each in some)


async def test_a_reader_by_cursor_misses_no_message_of_a_room(server: "PostgresStore") -> None:
    seen, made = await read_among_writers(server)

    assert seen == made


async def test_without_the_rooms_lock_the_reader_misses_some(
    server: "PostgresStore", monkeypatch: pytest.MonkeyPatch
) -> None:
    from gatepost.store.postgres.postgres_db import PostgresDb

    lock = PostgresDb.lock

    def lock_all_but_rooms(db: PostgresDb, kind: LockKind, *key: str) -> None:
        if kind is not LockKind.ROOM:
            lock(db, kind, *key)

    monkeypatch.setattr(PostgresDb, "lock", lock_all_but_rooms)

    seen, made = await read_among_writers(server)

    assert len(made) == CALLERS * CALLS // 2 and set(made) - set(seen)


async def test_units_that_need_two_things_in_opposite_orders_both_end(server: "PostgresStore") -> None:
    def both(db: Db, first: str, second: str) -> str:
        db.lock(LockKind.ROOM, first)
        db.lock(LockKind.ROOM, second)
        return first

    wanted = [("a", "b"), ("b", "a")] * CALLS
    answers = await asyncio.gather(*(server.write(both, *each, durable=False) for each in wanted))

    assert answers == [first for first, _ in wanted]


async def reserve_beside_another(server: "PostgresStore") -> int:
    """Both are the same group's and the same person's; the first is not committed while the second is. How often the
    first was run: the server ends a transaction that stands still for long."""
    asked = ("acme", "fake:user/1", "s", "t", "model", 30_000, NOON)
    entered, may_end, runs = threading.Event(), threading.Event(), list[int]()

    def hold(db: Db) -> None:
        reservations.reserve(db, *asked)
        runs.append(1)
        entered.set()
        assert may_end.wait(PATIENCE_S)

    holding = asyncio.ensure_future(server.write(hold))
    await asyncio.to_thread(entered.wait, PATIENCE_S)
    await server.write(reservations.reserve, *asked)
    may_end.set()
    await holding
    return len(runs)


async def test_calls_without_a_budget_wait_for_nobody(server: "PostgresStore") -> None:
    assert await reserve_beside_another(server) == 1


async def test_calls_with_a_budget_of_another_group_wait_for_nobody(server: "PostgresStore") -> None:
    await server.write(budgets.put, BudgetScope(BudgetScopeKind.GROUP, "other"), Period.DAY, USD, "owner", NOON)
    assert await reserve_beside_another(server) == 1


async def test_a_budget_that_is_set_meanwhile_counts_what_is_under_way(server: "PostgresStore") -> None:
    entered, may_end = threading.Event(), threading.Event()

    def hold(db: Db) -> None:
        reservations.reserve(db, "acme", "fake:user/1", "s", "t", "model", 30_000, NOON)
        entered.set()
        assert may_end.wait(PATIENCE_S)

    holding = asyncio.ensure_future(server.write(hold))
    await asyncio.to_thread(entered.wait, PATIENCE_S)
    scope = BudgetScope(BudgetScopeKind.GROUP, "acme")
    setting = asyncio.ensure_future(server.write(budgets.put, scope, Period.DAY, USD, "owner", NOON))
    waiting = "SELECT COUNT(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"
    async with asyncio.timeout(PATIENCE_S):
        while await server.read(lambda db: db.row(waiting)) != (1,):
            pass
    may_end.set()
    await asyncio.gather(holding, setting)
    assert [each.reserved for each in await server.read(budgets.list_all, NOON)] == [30_000]
