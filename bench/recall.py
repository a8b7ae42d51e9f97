"""Recall: what a turn is told at once from the memory of an agent that remembers 10,000 things, and what the tool finds
there if entries have vectors, on both engines."""

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
from gatepost.store.memory import memories, memory_vectors, recall
from gatepost.store.memory.memories import Audience, Memory, MemoryScope, MemoryTrust
from gatepost.store.memory.memory_vectors import Meaning, make_meaning
from gatepost.store.port import Db, Store
from gatepost.store.postgres.migrate import migrate_postgres
from gatepost.store.postgres.postgres_store import PostgresStore
from gatepost.store.sessions import groups
from gatepost_testing.servers.postgres import PostgresServer, find_programs
from measure import Figure, at_most

ENTRIES, WORDS, LENGTH = 10_000, 5_000, 14
QUESTIONS, GOAL_MS = 100, 15
MODEL, DIMENSIONS = "bench", 256


async def figures() -> list[Figure]:
    taken = await recall_ms()
    return [at_most(f"recall_{name}_ms", found, "ms", GOAL_MS, GOAL_MS) for name, found in taken.items()]


async def recall_ms() -> dict[str, float]:
    """The 95th percentile for each engine, over short and long messages."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "gatepost.db"
        await asyncio.to_thread(migrate, path, SystemClock())
        words, vectors = await _fill_and_measure(SqliteStore(path))
        found = {"sqlite": words, "sqlite_vectors": vectors}
    if find_programs() is not None:
        with PostgresServer(fsync="on", shared_buffers="256MB") as server:
            url = server.add_database("recall")
            await asyncio.to_thread(migrate_postgres, url, SystemClock())
            store = PostgresStore(url)
            found["postgres"], found["postgres_vectors"] = await _fill_and_measure(
                store, "ANALYZE"
            )  # as autovacuum does
    return found


async def _fill_and_measure(store: SqliteStore | PostgresStore, then: str = "") -> tuple[float, float]:
    try:
        await _fill(store)
        if then:
            await store.write(lambda db: db.run(then))
        return await _measure(store), await _measure_vectors(store)
    finally:
        store.close()


async def _fill(store: Store) -> None:
    words = random.Random(1)

    def add(db: Db, numbers: range) -> None:
        for number in numbers:
            text = _write(words, LENGTH)
            given = {"scope": MemoryScope.AGENT, "trust": MemoryTrust.MEMBER, "created_at": number}
            made = memories.add(db, Memory(folder="acme", text=text, **given))  # type: ignore[arg-type]
            memory_vectors.put(db, [(made.id, _draw_meaning(words))])

    await store.write(groups.add, "acme", "acme", "scripted", 1)
    for first in range(0, ENTRIES, 500):
        await store.write(add, range(first, first + 500))


def _draw_meaning(words: random.Random) -> Meaning:
    return make_meaning(MODEL, [words.gauss(0, 1) for _ in range(DIMENSIONS)])


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


async def _measure_vectors(store: Store) -> float:
    words, taken = random.Random(3), []
    for _, length in zip(range(QUESTIONS), itertools.cycle((3, 8, 30)), strict=False):
        asked, meaning = _write(words, length), _draw_meaning(words)

        def read(db: Db, asked: str = asked, meaning: Meaning = meaning) -> object:
            return recall.find(db, Audience("acme"), asked, 10**9, 8, meaning=meaning)

        start = time.perf_counter()
        await store.read(read)
        taken.append((time.perf_counter() - start) * 1000)
    return statistics.quantiles(taken, n=20)[-1]


if __name__ == "__main__":
    from measure import table

    print(table(asyncio.run(figures())))
