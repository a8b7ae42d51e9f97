"""Recall: what a turn is told at once from the memory of an agent that remembers 10,000 things, on both engines."""

import asyncio
import itertools
import random
import statistics
import tempfile
import time
from pathlib import Path

from gatepost.core.clock import SystemClock
from gatepost.store.engine.migrate import migrate
from gatepost.store.engine.sqlite_store import SqliteStore
from gatepost.store.memory import memories, recall
from gatepost.store.memory.memories import Audience, Memory, MemoryScope, MemoryTrust
from gatepost.store.port import Db, Store
from gatepost.store.postgres.migrate import migrate_postgres
from gatepost.store.postgres.postgres_store import PostgresStore
from gatepost.store.sessions import groups
from gatepost_testing.servers.postgres import PostgresServer, find_programs
from measure import Figure, at_most

ENTRIES, WORDS, LENGTH = 10_000, 5_000, 14
QUESTIONS, GOAL_MS = 100, 15


async def figures() -> list[Figure]:
    taken = await recall_ms()
    return [at_most(f"recall_{name}_ms", found, "ms", GOAL_MS, GOAL_MS) for name, found in taken.items()]


async def recall_ms() -> dict[str, float]:
    """The 95th percentile for each engine, over short and long messages."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "gatepost.db"
        await asyncio.to_thread(migrate, path, SystemClock())
        found = {"sqlite": await _fill_and_measure(SqliteStore(path))}
    if find_programs() is not None:
        with PostgresServer(fsync="on", shared_buffers="256MB") as server:
            url = server.add_database("recall")
            await asyncio.to_thread(migrate_postgres, url, SystemClock())
            found["postgres"] = await _fill_and_measure(PostgresStore(url), "ANALYZE")  # as autovacuum does soon
    return found


async def _fill_and_measure(store: SqliteStore | PostgresStore, then: str = "") -> float:
    try:
        await _fill(store)
        if then:
            await store.write(lambda db: db.run(then))
        return await _measure(store)
    finally:
        store.close()


async def _fill(store: Store) -> None:
    words = random.Random(1)

    def add(db: Db, numbers: range) -> None:
        for number in numbers:
            text = _write(words, LENGTH)
            given = {"scope": MemoryScope.AGENT, "trust": MemoryTrust.MEMBER, "created_at": number}
            memories.add(db, Memory(folder="acme", text=text, **given))  # type: ignore[arg-type]

    await store.write(groups.add, "acme", "acme", "scripted", 1)
    for first in range(0, ENTRIES, 500):
        await store.write(add, range(first, first + 500))


def _write(words: random.Random, count: int) -> str:
    """Words as unequal as those of people, and three that are in every text."""
    drawn = (f"{min(WORDS, int(words.paretovariate(0.7))):04d}"[::-1] for _ in range(count))
    return " ".join(("the", "and", "is", *(f"w{each}" for each in drawn)))


async def _measure(store: Store) -> float:
    words, taken = random.Random(2), []
    for _, length in zip(range(QUESTIONS), itertools.cycle((3, 8, 30)), strict=False):
        asked = _write(words, length)
        start = time.perf_counter()
        await store.read(recall.list_relevant, Audience("acme"), asked, 10**9, 6, 1200)
        taken.append((time.perf_counter() - start) * 1000)
    return statistics.quantiles(taken, n=20)[-1]


if __name__ == "__main__":
    from measure import table

    print(table(asyncio.run(figures())))
