"""Finding messages on PostgreSQL beside SQLite, with the same messages and queries: in the rooms of a group, and in all
rooms. `python bench/pg_search.py 200000` measures among fewer."""

import asyncio
import itertools
import statistics
import struct
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import apsw
import psycopg

import search as sqlite_search
from gatepost.core.clock import SystemClock
from gatepost.store import search
from gatepost.store.engine.full_text import IndexedText
from gatepost.store.engine.sqlite_db import connect
from gatepost.store.engine.sqlite_store import SqliteStore
from gatepost.store.port import Store
from gatepost.store.postgres.connection import open_connection
from gatepost.store.postgres.full_text import make_vector
from gatepost.store.postgres.migrate import migrate_postgres
from gatepost.store.postgres.postgres_db import PostgresDb
from gatepost.store.postgres.postgres_store import PostgresStore
from gatepost.store.search import SearchQuery, Subtree
from gatepost_testing.servers.postgres import PACKAGE, PostgresServer, find_programs
from measure import Figure, at_most

FEW, ALL = Subtree("acme"), Subtree("root", everything=True)  # `acme` has 20 rooms
MESSAGES = "messages (id, instance, address, direction, platform_id, kind, sender, text, at, accepted_at)"
HEAD, FIELDS, NUMBER, SIZE = (
    b"PGCOPY\n\xff\r\n\0" + bytes(8),
    struct.Struct("!h"),
    struct.Struct("!iq"),
    struct.Struct("!i"),
)
END = struct.pack("!h", -1)  # of a binary copy


async def figures(path: Path) -> list[Figure]:
    """`path`: of a store that `search.build` has filled."""
    if find_programs() is None:
        print(f"pg_find_… is skipped: PostgreSQL is not installed: apt-get install {PACKAGE}")
        return []
    found = await find_ms(path)
    file, server = found["sqlite_20_rooms"], found["postgres_20_rooms"]
    return [
        at_most("pg_find_20_rooms_x", server / file, "×", 1, 2),
        at_most("pg_find_all_rooms_ms", found["postgres_all_rooms"], "ms", found["sqlite_all_rooms"], 30),
    ]


async def find_ms(path: Path) -> dict[str, float]:
    """Medians over the queries, milliseconds: 20 rooms and all rooms on each engine."""
    with PostgresServer(fsync="on", shared_buffers="256MB") as server:
        url = server.add_database("bench")
        await asyncio.to_thread(build, url, path)
        stores: dict[str, Store] = {"sqlite": SqliteStore(path), "postgres": PostgresStore(url)}
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


def build(url: str, path: Path) -> None:
    """The messages of a store in a file, copied. The index is made at the end: both take a tenth of the time that
    statements take."""
    migrate_postgres(url, SystemClock())
    with open_connection(url) as connection:
        db = PostgresDb(connection.pgconn, of_writer=True)
        db.command(
            b"SET session_replication_role = replica; SET maintenance_work_mem = '256MB'; DROP INDEX search_words"
        )
        sqlite_search.add_worlds(db)
        _copy_messages(connection, connect(path, readonly=True))
        _copy_words(connection, connect(path, readonly=True))
        db.command(
            b"INSERT INTO inbox (message_id, state, created_at, updated_at) SELECT id, 'silent', 1, 1 FROM messages"
        )
        db.command(b"CREATE INDEX search_words ON search USING GIN (words) WITH (fastupdate = off)")
        db.command(b"VACUUM ANALYZE")


def _copy_messages(connection: psycopg.Connection, source: apsw.Connection) -> None:
    columns = MESSAGES.partition("(")[2].rstrip(")")
    with connection.cursor().copy(f"COPY {MESSAGES} FROM STDIN".encode()) as copy:
        for row in source.execute(f"SELECT {columns} FROM messages ORDER BY id"):
            copy.write_row(row)


def _copy_words(connection: psycopg.Connection, source: apsw.Connection) -> None:
    with connection.cursor().copy(b"COPY search (message_id, words) FROM STDIN (FORMAT binary)") as copy:
        copy.write(HEAD)
        for row in _render_words(source):
            copy.write(row)
        copy.write(END)


def _render_words(source: apsw.Connection) -> Iterator[bytes]:
    for row in source.execute("SELECT id, instance, address, sender, text FROM messages ORDER BY id"):
        words = make_vector(IndexedText(*row))
        yield b"".join((FIELDS.pack(2), NUMBER.pack(8, row[0]), SIZE.pack(len(words)), words))


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as made:
        filled = Path(made) / "gatepost.db"
        sqlite_search.build(filled, int(sys.argv[1]))
        for name, figure in asyncio.run(find_ms(filled)).items():
            print(f"{name:24} {figure:8.1f} ms")
