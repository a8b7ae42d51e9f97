"""Connections to the database that break at COMMIT: before it arrives, while it is under way, and after it was done.

A proxy between the store and a PostgresServer cuts the connection of each COMMIT that it is told to. Every unit adds
one row with the next number, so one that is lost or done twice shows.
"""

import asyncio
import random
import re
import shutil
import socket
import tempfile
import threading
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from enum import StrEnum
from pathlib import Path
from types import TracebackType

from msgspec import Struct

from gatepost.core.clock import SystemClock
from gatepost.store.port import Db
from gatepost.store.postgres.migrate import migrate_postgres
from gatepost.store.postgres.postgres_store import PostgresStore
from gatepost.store.sessions import groups, sessions, timeline
from gatepost.store.sessions.sessions import SessionMode
from gatepost.store.sessions.timeline import TimelineKind
from gatepost_testing.servers.postgres import PostgresServer
from gatepost_testing.storms.storm import MODE, StormTime, storm

DATABASE, SOCKET = "backends", ".s.PGSQL.5432"
# As the protocol has it: "Parse" gives a statement a name, and "Bind" is its use.
PREPARED = re.compile(rb"P.{4}([^\0]+)\0COMMIT\0", re.DOTALL)
CHUNK = 65536
UNITS = 200  # in `make prove`


class CommitCut(StrEnum):
    BEFORE = "before"  # the server never gets it
    DURING = "during"  # it gets it, and nobody waits for what it says
    AFTER = "after"  # it has answered, and nobody hears it


class CommitCutter:
    """`choose` is asked at each COMMIT; None: it passes."""

    def __init__(self, server: PostgresServer, choose: Callable[[], CommitCut | None]) -> None:
        self._server, self._choose = server, choose
        self._folder = Path(tempfile.mkdtemp(prefix="gpcut-", dir="/tmp"))
        self._listening = socket.socket(socket.AF_UNIX)
        self.cuts: Counter[CommitCut] = Counter()

    def __enter__(self) -> "CommitCutter":
        self._listening.bind(str(self._folder / SOCKET))
        self._listening.listen(64)
        threading.Thread(target=self._accept, name="commit-cutter", daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with suppress(OSError):
            self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()
        shutil.rmtree(self._folder, ignore_errors=True)

    def url(self, database: str) -> str:
        return f"postgresql://postgres@/{database}?host={self._folder}"

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listening.accept()
                there = socket.socket(socket.AF_UNIX)
                there.connect(str(self._server.folder / SOCKET))
                pair = _Pair(client, there)
                threading.Thread(target=self._send, args=(pair,), daemon=True).start()
                threading.Thread(target=pair.answer, daemon=True).start()

    def _send(self, pair: "_Pair") -> None:
        """From the client to the server, until one of them has gone."""
        used: re.Pattern[bytes] | None = None
        with suppress(OSError):
            while data := pair.client.recv(CHUNK):
                cut = self._choose() if used is not None and used.search(data) else None
                if named := PREPARED.search(data):
                    used = re.compile(rb"B.{4}\0" + re.escape(named[1]) + rb"\0", re.DOTALL)
                if cut is None:
                    pair.server.sendall(data)
                    continue
                self.cuts[cut] += 1
                if cut is CommitCut.AFTER:
                    pair.deaf.set()
                if cut is not CommitCut.BEFORE:
                    pair.server.sendall(data)
                if cut is CommitCut.AFTER:
                    pair.answered.wait()
                break
        pair.close()


class _Pair:
    def __init__(self, client: socket.socket, server: socket.socket) -> None:
        self.client, self.server = client, server
        self.deaf, self.answered = threading.Event(), threading.Event()

    def answer(self) -> None:
        """From the server to the client."""
        with suppress(OSError):
            while data := self.server.recv(CHUNK):
                if self.deaf.is_set():
                    break
                self.client.sendall(data)
        self.answered.set()
        self.close()

    def close(self) -> None:
        for each in (self.client, self.server):
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()


class BackendCounts(Struct, frozen=True, kw_only=True):
    seed: int
    units: int
    cuts: dict[str, int]
    numbers: int  # different ones that units were answered
    rows: int

    def list_faults(self) -> list[str]:
        """Return what went wrong; empty: nothing did."""
        wrong = {
            f"{self.rows} rows of {self.units} units": self.rows != self.units,
            f"{self.numbers} answers of {self.units} units": self.numbers != self.units,
            f"not every kind of cut happened: {self.cuts}": len(self.cuts) < len(CommitCut),
        }
        return [what for what, is_so in wrong.items() if is_so]

    def list_times(self) -> list[StormTime]:
        return []

    def render(self) -> str:
        cuts = ", ".join(f"{count} {kind}" for kind, count in sorted(self.cuts.items()))
        return f"seed {self.seed}, {self.units} units, connections cut at COMMIT: {cuts}; {self.rows} rows"


def run_backends_storm(server: PostgresServer, *, units: int = 60, lanes: int = 1, seed: int = 7) -> BackendCounts:
    """With one lane the first COMMIT of every unit is cut; with several, every second one at random."""
    migrate_postgres(server.add_database(f"{DATABASE}{lanes}"), SystemClock())
    return asyncio.run(_run(server, units, lanes, seed))


async def _run(server: PostgresServer, units: int, lanes: int, seed: int) -> BackendCounts:
    drawn, armed = random.Random(seed), threading.Event()

    def choose() -> CommitCut | None:
        if lanes > 1:
            return drawn.choice(list(CommitCut)) if drawn.random() < 0.5 else None
        if not armed.is_set():
            return None
        armed.clear()
        return drawn.choice(list(CommitCut))

    with CommitCutter(server, choose) as cutter:
        store = PostgresStore(cutter.url(f"{DATABASE}{lanes}"), lanes=lanes)
        try:
            session_id = await store.write(_add_session)
            if lanes > 1:
                numbers = await asyncio.gather(*(store.write(_add_row, session_id, each) for each in range(units)))
            else:
                numbers = []
                for each in range(units):
                    armed.set()
                    numbers.append(await store.write(_add_row, session_id, each))
        finally:
            await asyncio.to_thread(store.close)
    rows = int(server.execute("SELECT COUNT(*) FROM timeline", f"{DATABASE}{lanes}"))
    cuts = {each.value: count for each, count in cutter.cuts.items()}
    return BackendCounts(seed=seed, units=units, cuts=cuts, numbers=len(set(numbers)), rows=rows)


def _add_session(db: Db) -> str:
    """It may be run again, and finds what it made."""
    if groups.get(db, "acme") is None:
        groups.add(db, "acme", "Acme", "", 1)
    return sessions.find_or_add(db, SessionMode.SHARED, "acme", "fake", "fake:room/1", "", 1).id


def _add_row(db: Db, session_id: str, number: int) -> int:
    return timeline.add(db, session_id, "", TimelineKind.STATUS, {"unit": number}, 1)


@storm(MODE, "backends")
def run_with_server(folder: Path, seed: int) -> BackendCounts:
    with PostgresServer() as server:
        return run_backends_storm(server, units=UNITS, seed=seed)


@storm(MODE, "backends of several lanes")
def run_lanes_with_server(folder: Path, seed: int) -> BackendCounts:
    with PostgresServer() as server:
        return run_backends_storm(server, units=UNITS, lanes=4, seed=seed)
