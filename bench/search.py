"""Finding messages among a million short ones: through the tool and the gate, for a group that may read a part of the
rooms, beside the bare question to SQLite's index. The words are as unequal as those of people: some are in a fifth of
all messages, most in a handful."""

import asyncio
import itertools
import random
import statistics
import time
from pathlib import Path

import apsw

from gatepost.core.clock import SystemClock
from gatepost.store import search
from gatepost.store.engine.full_text import separate_characters
from gatepost.store.engine.migrate import migrate
from gatepost.store.engine.sqlite_db import SqliteDb, connect
from gatepost.store.engine.sqlite_store import SqliteStore
from gatepost.store.port import Db
from gatepost.store.sessions import groups, sessions
from gatepost_testing.gate_agent import GateAgent

MESSAGES, ROOMS, WORDS = 1_000_000, 2000, 20_000
QUERIES = (
    "common",
    "w3",
    "w40",
    "w900",
    "w7000",
    "w15000",
    '"w1 w2"',
    "w3 AND w700",
    "w5 OR w9",
    "common NOT w0",
    "NEAR(w1 w30, 4)",
    "w190*",
    "会議",
    "w6 AND 会",
)
RIGHTS = (("acme", 20), ("beta", 200), ("gamma", 1780))  # worlds, and how many rooms each has


async def find_ms(folder: Path, count: int = MESSAGES) -> tuple[float, float]:
    """(a call of the tool, the bare question), medians over the queries and the worlds, milliseconds."""
    path = folder / "gatepost.db"
    await asyncio.get_running_loop().run_in_executor(None, build, path, count)
    store = SqliteStore(path)
    try:
        agents = [await GateAgent.create(folder / world, store, world) for world, _ in RIGHTS]
        taken = [await _call(agent, query) for _ in range(3) for agent in agents for query in QUERIES]
        bare = [await store.read(_bare, query) for _ in range(3) for query in QUERIES]
    finally:
        store.close()
    return statistics.median(taken), statistics.median(bare)


async def _call(agent: GateAgent, query: str) -> float:
    start = time.perf_counter()
    answer = await agent.call("find_messages", query=query)
    if answer.failed or answer.code:
        raise RuntimeError(answer.text)
    return (time.perf_counter() - start) * 1000


def _bare(db: Db, query: str) -> float:
    start = time.perf_counter()
    sql = "SELECT rowid FROM search WHERE search MATCH ? ORDER BY rowid DESC LIMIT 20"
    db.rows(sql, (f"text : ({separate_characters(query)})",))
    return (time.perf_counter() - start) * 1000


def build(path: Path, count: int) -> None:
    """A store with that many messages, each of one room."""
    migrate(path, SystemClock())
    connection = connect(path)
    db = SqliteDb(connection)
    connection.execute("PRAGMA synchronous=OFF")
    connection.execute("BEGIN")
    add_worlds(db)
    chance = random.Random(1)
    weights = list(itertools.accumulate(1 / (number + 1) for number in range(WORDS)))
    for first in range(0, count, 10_000):
        _fill(connection, chance, weights, range(first, min(first + 10_000, count)))
        connection.execute("COMMIT")
        connection.execute("BEGIN")
    connection.execute("COMMIT")
    connection.close()


def add_worlds(db: Db) -> None:
    """Those of `RIGHTS`, with a session in each of their rooms."""
    rooms = iter(range(ROOMS))
    for world, share in RIGHTS:
        groups.add(db, world, world, "scripted", 1)
        for room in itertools.islice(rooms, share):
            sessions.find_or_add(db, sessions.SessionMode.PER_THREAD, world, "fake", f"fake:place/{room}", "", 1)


def _fill(connection: apsw.Connection, chance: random.Random, weights: list[float], numbers: range) -> None:
    words = iter(chance.choices(range(WORDS), cum_weights=weights, k=len(numbers) * 8))
    rows = []
    for number in numbers:
        text = " ".join(f"w{word}" for word in itertools.islice(words, 8))
        text += " common" if chance.random() < 0.2 else " 明日の会議" if chance.random() < 0.05 else ""
        room = chance.randrange(ROOMS)
        rows.append((number + 1, f"fake:place/{room}", str(number), f"fake:user/{room % 500}", text, number, number))
    connection.executemany(
        "INSERT INTO messages (id, instance, address, direction, platform_id, kind, sender, text, at, accepted_at)"
        " VALUES (?, 'fake', ?, 'in', ?, 'chat', ?, ?, ?, ?)",
        rows,
    )
    connection.executemany(
        "INSERT INTO inbox (message_id, state, created_at, updated_at) VALUES (?, 'silent', 1, 1)",
        [row[:1] for row in rows],
    )
    while search.index(SqliteDb(connection), len(rows)):
        pass
