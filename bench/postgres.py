"""PostgreSQL beside SQLite in the same run, fsync on in both: a reply, a write, what comes in, words between gateways,
and what a gateway asks while nobody does anything. Without a server there are no figures, and a line says so."""

import asyncio
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import AsyncExitStack
from pathlib import Path

import psycopg
import uvloop

from gatepost.app import Gateway
from gatepost.messages.inbound import Inbound
from gatepost.store.engine.full_text import IndexedText
from gatepost.store.port import Db, Store
from gatepost.store.postgres import postgres_db
from gatepost.store.postgres.connection import open_connection
from gatepost.store.postgres.full_text import make_vector
from gatepost.store.postgres.notices import Notice, NoticeExchange
from gatepost.store.postgres.postgres_db import PostgresDb
from gatepost.store.rooms import rooms
from gatepost.store.rooms.rooms import RoomPolicy
from gatepost_testing.gateway import running_gateway
from gatepost_testing.servers.postgres import PACKAGE, PostgresServer, find_programs
from growth import reply
from instant import Instant
from measure import Figure, at_least, at_most

ROOM, LANES, CALLERS, ROOMS = "fake:room/1", 4, 64, 40
DAEMON = {"sessions__look_s": 2.0}  # as a daemon looks; tests look more often


async def figures(replies: int = 200, count: int = 3000) -> list[Figure]:
    if find_programs() is None:
        print(f"pg_… is skipped: PostgreSQL is not installed: apt-get install {PACKAGE}")
        return []
    with PostgresServer(fsync="on", shared_buffers="128MB", shared_preload_libraries="pg_stat_statements") as server:
        small, large, statements = await measure_replies(server, replies)
        written, bare_written = await measure_writes(server, replies)
        file, shared, bare = await measure_ingest(server, count)
        alone, both, deadlocks = await measure_two(server, count)
        word, datagram = await measure_words(server.url("postgres"), replies)
        idle = await measure_idle(server)
        asked, asked_by_four = [await measure_idle_statements(server, gateways) for gateways in (1, 4)]
    return [
        at_most("pg_warm_reply_x", large / small, "×", 1, 2),
        at_most("pg_warm_statements", statements, "", 3, 30),
        at_most("pg_write_x", written / bare_written, "×", 1, 3),
        at_least("pg_ingest_x", shared / file, "×", 1, 0.15),
        at_least("pg_ingest_bare_x", shared / bare, "×", 1, 0.6),
        at_least("pg_two_gateways_x", both / alone, "×", 1, 0.8),
        at_most("pg_deadlocks", deadlocks, "", 1, 0),
        at_most("pg_wake_x", word / datagram, "×", 1, 10),
        at_most("pg_idle_per_s", idle, "/s", 1, 3),
        at_most("pg_idle_of_four_x", asked_by_four / asked, "×", 1, 1.3),
    ]


async def open_rooms(gateway: Gateway, count: int) -> None:
    def make(db: Db) -> None:
        for number in range(count):
            address = f"fake:room/{number}"
            rooms.add(db, "fake", address, address, False, RoomPolicy.PUBLIC, gateway.clock.now())

    await gateway.store.write(make)


class Trips:
    """Counts what is sent to the server and waited for."""

    def __init__(self) -> None:
        self.count = 0
        self._kept = PostgresDb._execute, PostgresDb.command, postgres_db.execute_together

    def __enter__(self) -> "Trips":
        execute, command, together = self._kept

        def count_execute(db: PostgresDb, *given: object) -> object:
            self.count += not db._waiting  # else it travels with those
            return execute(db, *given)  # type: ignore[arg-type]

        def count_command(db: PostgresDb, sql: bytes) -> object:
            self.count += 1
            return command(db, sql)

        def count_together(*given: object) -> object:
            self.count += 1
            return together(*given)  # type: ignore[arg-type]

        PostgresDb._execute, PostgresDb.command = count_execute, count_command  # type: ignore[method-assign,assignment]
        postgres_db.execute_together = count_together  # type: ignore[assignment]
        return self

    def __exit__(self, *_: object) -> None:
        PostgresDb._execute, PostgresDb.command = self._kept[:2]  # type: ignore[method-assign]
        postgres_db.execute_together = self._kept[2]


async def measure_replies(server: PostgresServer, replies: int) -> tuple[float, float, float]:
    """Medians of SQLite's warm replies and of PostgreSQL's, in turn, and what one of these waits for the server."""
    with tempfile.TemporaryDirectory() as folder:
        channels = [Instant(), Instant()]
        url, taken = server.add_database("replies"), ([], [])  # type: tuple[list[float], list[float]]
        async with (
            running_gateway(Path(folder) / "s", {"fake": (channels[0].kind, channels[0])}, **DAEMON) as small,
            running_gateway(
                Path(folder) / "p", {"fake": (channels[1].kind, channels[1])}, store__url=url, **DAEMON
            ) as large,
        ):
            for each in (small, large):
                await open_rooms(each, 2)
            both = list(enumerate((small, large)))
            for number in range(replies + 10):
                for place, gateway in both if number % 2 else reversed(both):
                    found = await reply(gateway, channels[place], f"reply {number}", ROOM, 0.02)
                    taken[place].extend([found] if number >= 10 else [])
            with Trips() as trips:
                for number in range(50):
                    await reply(large, channels[1], f"counted {number}", ROOM, 0.03)
        return statistics.median(taken[0]), statistics.median(taken[1]), trips.count / 50


async def measure_writes(server: PostgresServer, times: int) -> tuple[float, float]:
    """One durable write on PostgreSQL and one on SQLite, medians in milliseconds, in turn."""
    with tempfile.TemporaryDirectory() as folder:
        url, taken = server.add_database("writes"), ([], [])  # type: tuple[list[float], list[float]]
        async with (
            running_gateway(Path(folder) / "p", store__url=url, **DAEMON) as large,
            running_gateway(Path(folder) / "s", **DAEMON) as small,
        ):
            for number in range(times + 10):
                for place, gateway in enumerate((large, small)):
                    found = await _write_ms(gateway.store, gateway.clock.now(), number)
                    taken[place].extend([found] if number >= 10 else [])
        return statistics.median(taken[0]), statistics.median(taken[1])


async def _write_ms(store: Store, now: int, number: int) -> float:
    start = time.perf_counter()
    await store.write(_step, now, number)
    return (time.perf_counter() - start) * 1000


def _step(db: Db, now: int, number: int) -> None:
    db.run("UPDATE groups SET created_at = ? WHERE folder = 'home'", (now + number,))


async def measure_ingest(server: PostgresServer, count: int) -> tuple[float, float, float]:
    """Messages a second that are taken in by 64 callers: SQLite, PostgreSQL, and a bare loop on as many lanes."""
    url = server.add_database("ingest")
    file, shared = await _ingest_per_s("", count), await _ingest_per_s(url, count)
    return file, shared, await asyncio.to_thread(_bare_per_s, url, count)


async def _ingest_per_s(url: str, count: int, name: str = "one", first: int = 0) -> float:
    channel = Instant()
    with tempfile.TemporaryDirectory() as folder:
        given = {"sessions__most_awake": 0, "gateway__name": name, "groups__place": "local", **DAEMON}
        home = Path(folder) / "h"
        async with running_gateway(home, {"fake": (channel.kind, channel)}, store__url=url, **given) as gateway:
            await open_rooms(gateway, ROOMS)
            await _receive(gateway, first + count)

            async def call(start: int) -> None:
                for number in range(first + start, first + count, CALLERS):
                    await _receive(gateway, number)

            begun = time.perf_counter()
            await asyncio.gather(*(call(number) for number in range(CALLERS)))
            return count / (time.perf_counter() - begun)


async def _receive(gateway: Gateway, number: int) -> None:
    address = f"fake:room/{number % ROOMS}"
    inbound = Inbound(
        address=address, platform_id=str(number), sender="fake:user/1", sender_name="someone", text="a short message"
    )
    await gateway.intake.receive("fake", inbound)


BARE = (
    "SELECT name, places FROM rule_state",
    "SELECT pg_advisory_xact_lock(?)",
    "INSERT INTO messages (instance, address, direction, sender, text, at, kind, platform_id, accepted_at)"
    " VALUES ('fake', ?, 'in', 'fake:user/1', 'a short message', 1, 'chat', ?, 1) RETURNING id",
    "UPDATE sessions SET next_seq = next_seq + 1 WHERE address = ? AND closed_at IS NULL RETURNING id, next_seq",
    "INSERT INTO inbox (message_id, session_id, folder, seq, state, created_at, updated_at)"
    " VALUES (?, ?, 'home', ?, 'queued', 1, 1) RETURNING id",
    "INSERT INTO search (message_id, words) VALUES (?, ?)",
    "INSERT INTO steps (message_id, row_id, at, step, detail) VALUES (?, ?, 1, 'queued', '')",
)


def _bare_per_s(url: str, count: int) -> float:
    """The statements of an accepted message, one after the other, on as many connections as there are lanes."""

    def work(lane: int) -> None:
        with open_connection(url) as connection:
            db = PostgresDb(connection.pgconn)
            for number in range(lane, count, LANES):
                _accept_bare(db, lane, number)

    threads = [threading.Thread(target=work, args=(lane,)) for lane in range(LANES)]
    begun = time.perf_counter()
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    return count / (time.perf_counter() - begun)


def _accept_bare(db: PostgresDb, lane: int, number: int) -> None:
    address = f"fake:room/{lane + LANES * (number // LANES % (ROOMS // LANES))}"
    db.command(b"BEGIN; SELECT pg_advisory_xact_lock_shared(1); SELECT pg_current_xact_id() FROM gateways")
    db.rows(BARE[0])
    db.rows(BARE[1], (hash(address) % 2**60,))
    (message_id,) = db.rows(BARE[2], (address, f"bare {number}"))[0]
    session_id, seq = db.rows(BARE[3], (address,))[0]
    (row_id,) = db.rows(BARE[4], (message_id, session_id, seq))[0]
    text = IndexedText(message_id, "fake", address, "fake:user/1", "a short message")
    db.rows(BARE[5], (message_id, make_vector(text)))
    db.rows(BARE[6], (message_id, row_id))
    db.command(b"COMMIT")


async def measure_two(server: PostgresServer, count: int) -> tuple[float, float, int]:
    """Messages a second into the same 40 sessions: by one gateway, by two at once, each a process; and the deadlocks
    that the server counted."""
    url = server.add_database("two")
    alone = await _run_gateways(url, {"one": 0}, count)
    both = await _run_gateways(url, {"one": 2 * count, "two": 4 * count}, count)
    await asyncio.sleep(1.5)  # the server counts with a delay
    deadlocks = server.execute("SELECT deadlocks FROM pg_stat_database WHERE datname = 'two'")
    return alone, both, int(deadlocks)


async def _run_gateways(url: str, firsts: dict[str, int], count: int) -> float:
    started = [
        await asyncio.create_subprocess_exec(
            sys.executable, __file__, url, name, str(first), str(count), stdout=subprocess.PIPE
        )
        for name, first in firsts.items()
    ]
    printed = [(await each.communicate())[0] for each in started]
    return sum(float(each.split()[-1]) for each in printed)


async def measure_words(url: str, times: int) -> tuple[float, float]:
    """One way from the loop of a gateway to that of another: a word, and a datagram; microseconds, medians, in turn."""
    loop, heard = asyncio.get_running_loop(), asyncio.Event()
    here, there = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    answering = await asyncio.create_subprocess_exec(
        *(sys.executable, __file__, "--answer", url, str(there.fileno())),
        pass_fds=(there.fileno(),),
        stdout=subprocess.PIPE,
    )
    assert answering.stdout is not None
    await answering.stdout.readline()
    exchange = NoticeExchange(url, "a", lambda said: heard.set())
    exchange.start()
    await heard.wait()  # that it listens

    def hear_datagram() -> None:
        here.recv(100)
        heard.set()

    loop.add_reader(here.fileno(), hear_datagram)
    taken: dict[str, list[float]] = {"word": [], "datagram": []}
    for number in range(times):
        for kind, found in taken.items():
            heard.clear()
            begun = time.perf_counter()
            if kind == "word":
                exchange.post(("session", str(number)))
            else:
                here.send(b"%d" % number)
            await heard.wait()
            found.append((time.perf_counter() - begun) / 2 * 1e6)
            await asyncio.sleep(0.012)
    loop.remove_reader(here.fileno())
    await exchange.stop()
    answering.terminate()
    await answering.wait()
    here.close()
    there.close()
    return statistics.median(taken["word"]), statistics.median(taken["datagram"])


async def answer_words(url: str, number: int) -> None:
    """Until it is ended: whatever is heard is said."""
    listening, here = asyncio.Event(), socket.socket(fileno=number)

    def hear(said: list[Notice]) -> None:
        listening.set()
        for each in said:
            exchange.post(each)

    exchange = NoticeExchange(url, "b", hear)
    exchange.start()
    asyncio.get_running_loop().add_reader(number, lambda: here.send(here.recv(100)))
    await listening.wait()
    print("ready", flush=True)
    await asyncio.sleep(600)


async def measure_idle(server: PostgresServer, seconds: float = 12.0) -> float:
    """Transactions a second of a gateway that has nothing to do. The server's own, which looks through new tables, are
    counted with them, so it leaves that."""
    server.execute("ALTER SYSTEM SET autovacuum = off")
    server.execute("SELECT pg_reload_conf()")
    url, channel = server.add_database("idle"), Instant()
    count = "SELECT xact_commit + xact_rollback FROM pg_stat_database WHERE datname = 'idle'"
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder) / "h"
        async with running_gateway(home, {"fake": (channel.kind, channel)}, store__url=url, **DAEMON):
            await asyncio.sleep(12)  # the server counts what a connection did up to ten seconds later
            before, begun = int(server.execute(count)), time.monotonic()
            await asyncio.sleep(seconds)
            return (int(server.execute(count)) - before) / (time.monotonic() - begun)


async def measure_idle_statements(server: PostgresServer, gateways: int, seconds: float = 12.0) -> float:
    """Statements a second of each of several gateways, while none has anything to do."""
    name = f"idle_{gateways}"
    url = server.add_database(name)
    server.execute("CREATE EXTENSION IF NOT EXISTS pg_stat_statements")
    with tempfile.TemporaryDirectory() as folder:
        async with AsyncExitStack() as running:
            for number in range(gateways):
                channel, home = Instant(), Path(folder) / f"h{number}"
                given = {"store__url": url, "gateway__name": f"g{number}", **DAEMON}
                await running.enter_async_context(running_gateway(home, {"fake": (channel.kind, channel)}, **given))
            await asyncio.sleep(5 + 4 * gateways)  # until duties have spread
            server.execute("SELECT pg_stat_statements_reset()")
            begun = time.monotonic()
            await asyncio.sleep(seconds)
            calls = "SELECT SUM(calls) FROM pg_stat_statements JOIN pg_database ON pg_database.oid = dbid WHERE datname"
            return int(server.execute(f"{calls} = '{name}'")) / (time.monotonic() - begun) / gateways


if __name__ == "__main__":
    given = sys.argv[1:]
    if given[0] == "--answer":
        uvloop.run(answer_words(given[1], int(given[2])))
    try:
        print(uvloop.run(_ingest_per_s(given[0], int(given[3]), given[1], int(given[2]))))
    except psycopg.Error as error:
        sys.exit(str(error))
