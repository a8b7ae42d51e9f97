"""Finding messages on PostgreSQL beside SQLite, with the same messages and queries: in the rooms of a group, and in all
rooms. `python bench/pg_search.py 200000`."""

import asyncio
import itertools
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import search as sqlite_search
from gatepost.core.clock import SystemClock
from gatepost.store import groups, search, sessions
from gatepost.store.full_text import IndexedText
from gatepost.store.port import Db, Store
from gatepost.store.postgres.connection import open_connection
from gatepost.store.postgres.migrate import migrate_postgres
from gatepost.store.postgres.postgres_db import PostgresDb
from gatepost.store.postgres.postgres_store import PostgresStore
from gatepost.store.search import SearchQuery, Subtree
from gatepost.store.sqlite_store import SqliteStore
from gatepost.testing.postgres import PostgresServer

PORTION = 2000
FEW, ALL = Subtree("acme"), Subtree("root", everything=True)  # `acme` has 20 rooms


async def find_ms(folder: Path, count: int) -> dict[str, float]:
    """Medians over the queries, milliseconds: 20 rooms and all rooms on each engine; and a message's words, written."""
    loop = asyncio.get_running_loop()
    await loop.run_in_executor(None, sqlite_search.build, folder / "gatepost.db", count)
    with PostgresServer(fsync="on", shared_buffers="256MB") as server:
        url = server.add_database("bench")
        await loop.run_in_executor(None, build, url, count)
        stores: dict[str, Store] = {"sqlite": SqliteStore(folder / "gatepost.db"), "postgres": PostgresStore(url)}
        found: dict[str, float] = {}
        for name, store in stores.items():
            found[f"{name}_20_rooms"] = await _measure(store, FEW)
            found[f"{name}_all_rooms"] = await _measure(store, ALL)
            store.close()  # type: ignore[attr-defined]
        return found


async def _measure(store: Store, part: Subtree) -> float:
    taken = []
    for _, query in itertools.product(range(3), sqlite_search.QUERIES):
        start = time.perf_counter()
        await store.read(search.find, SearchQuery(query=query, part=part))
        taken.append((time.perf_counter() - start) * 1000)
        if "-v" in sys.argv:
            print(part.folder, query, round(taken[-1], 1))
    return statistics.median(taken)


def build(url: str, count: int) -> None:
    """The messages of `search.build`. The index is made at the end, which takes a tenth of the time."""
    migrate_postgres(url, SystemClock())
    with open_connection(url) as connection:
        db = PostgresDb(connection.pgconn, of_writer=True)
        db.command(b"SET synchronous_commit = off; DROP INDEX search_words")
        rooms = iter(range(sqlite_search.ROOMS))
        for world, share in sqlite_search.RIGHTS:
            groups.add(db, world, world, "scripted", 1)
            for room in itertools.islice(rooms, share):
                sessions.find_or_add(db, sessions.SessionMode.PER_THREAD, world, "fake", f"fake:place/{room}", "", 1)
        made = iter_messages(count)
        while portion := list(itertools.islice(made, PORTION)):
            db.command(b"BEGIN")
            for each in portion:
                _append(db, each)
            db.flush()
            db.command(b"COMMIT")
        db.command(b"CREATE INDEX search_words ON search USING GIN (words) WITH (fastupdate = off)")
        db.command(b"VACUUM ANALYZE")


def iter_messages(count: int) -> Iterator[IndexedText]:
    chance = random.Random(1)
    weights = list(itertools.accumulate(1 / (number + 1) for number in range(sqlite_search.WORDS)))
    for number in range(count):
        words = chance.choices(range(sqlite_search.WORDS), cum_weights=weights, k=8)
        text = " ".join(f"w{word}" for word in words)
        text += " common" if chance.random() < 0.2 else " 明日の会議" if chance.random() < 0.05 else ""
        room = chance.randrange(sqlite_search.ROOMS)
        yield IndexedText(number + 1, "fake", f"fake:place/{room}", f"fake:user/{room % 500}", text)


def _append(db: Db, text: IndexedText) -> None:
    number = text.message_id
    db.append(
        "INSERT INTO messages"
        " (id, instance, address, direction, platform_id, kind, sender, text, at, accepted_at) VALUES",
        (number, "fake", text.address, "in", str(number), "chat", text.sender, text.text, number, number),
    )
    db.append(
        "INSERT INTO inbox (message_id, state, created_at, updated_at) VALUES",
        (number, "silent", 1, 1),
    )
    search.add(db, [text])


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as made:
        for name, figure in asyncio.run(find_ms(Path(made), int(sys.argv[1]))).items():
            print(f"{name:24} {figure:8.1f} ms")
