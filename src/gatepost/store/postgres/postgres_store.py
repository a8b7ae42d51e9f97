"""PostgreSQL behind the port: a unit is a transaction, on one of several connections; readers beside them.

PostgreSQL flushes the commits of many connections together, so nothing is grouped here. A unit that meets another's
is run again, so a unit has no effect but its writes. When the connection breaks after COMMIT was sent, the server is
asked whether it happened: a unit is never run twice.
"""

import asyncio
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, TypeVar, TypeVarTuple

import psycopg
from psycopg import errors

from gatepost.core.errors import StoreAway, Unavailable
from gatepost.store.engine.deadline import UNIT_S
from gatepost.store.engine.lanes import ReadLanes, WriteUnit, log_lost_error, send_answers
from gatepost.store.port import FAILS_SOON, Db
from gatepost.store.postgres.answer_guard import GRACE_S, AnswerGuard
from gatepost.store.postgres.connection import is_usable, open_connection, render_application
from gatepost.store.postgres.postgres_db import PostgresDb
from gatepost.store.postgres.refusals import render_away, translate_error
from gatepost.store.postgres.unit_worker import AWAY_S, NUMBER, LaneQueue, UnitWorker

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

CLOSE_S = 3.0
OVERDUE_S = 1.0
ANSWER_S = 60.0  # for a read that has no time of its own
RETRY_S = 0.25  # between two tries of a flow that waits for the database


class PostgresStore:
    """Open it on a running loop; `close` waits for what was accepted, within bounds. `slow` is called in a worker's
    thread with a unit that took long: its name, its seconds by the clock and by the processor."""

    def __init__(
        self,
        url: str,
        *,
        lanes: int = 4,
        readers: int = 2,
        unit_s: float = UNIT_S.default,
        slow: Callable[[str, float, float], None] = lambda name, wall, cpu: None,
        gateway: str = "",
        fence: Callable[[], str] | None = None,
        rehearse: bool = False,
        may_write: Callable[[Db], bool] | None = None,
    ) -> None:
        """`fence`, `may_write`: what every transaction, and every connection, begins with (`UnitWorker`). `rehearse`,
        for tests: every unit is run twice, the first time undone."""
        self.url, self._reader_name = url, f"{render_application(gateway)} read"
        self._lanes = LaneQueue()
        self._closed = False
        self._guard = AnswerGuard()
        self._workers = [
            UnitWorker(
                url, number, self._lanes, unit_s, slow, gateway, fence or _no_fence, rehearse, self._guard, may_write
            )
            for number in range(lanes)
        ]
        self._pool = ThreadPoolExecutor(readers, thread_name_prefix="store-read")
        self._local = threading.local()
        self._waits = True
        self._away_since: float | None = None  # who comes later waits no further while
        self._opened: list[PostgresDb] = []
        self._reading = ReadLanes()
        for each in self._workers:
            each.thread.start()

    async def write(self, fn: Callable[[Db, *Ts], T], *args: *Ts, durable: bool = True, lane: str = "") -> T:
        while True:
            if self._closed:
                raise Unavailable("the store", "the gateway is stopping")
            loop = asyncio.get_running_loop()
            future: asyncio.Future[T] = loop.create_future()
            self._lanes.put(WriteUnit(fn, args, durable, lane, loop, future))
            try:
                return await future
            except StoreAway:
                await self._wait_for_database()

    def post(self, fn: Callable[[Db, *Ts], object], *args: *Ts, lane: str) -> None:
        if not self._closed:
            loop = asyncio.get_running_loop()
            future: asyncio.Future[object] = loop.create_future()
            future.add_done_callback(partial(self._post_again, fn, args, lane))
            self._lanes.put(WriteUnit(fn, args, False, lane, loop, future, patient=True))

    def _post_again(
        self, fn: Callable[..., object], args: tuple[Any, ...], lane: str, future: asyncio.Future[object]
    ) -> None:
        """Unless the database was there."""
        if not future.cancelled() and isinstance(future.exception(), StoreAway) and self._waits and not self._closed:
            asyncio.get_running_loop().call_later(RETRY_S, partial(self.post, fn, *args, lane=lane))
        else:
            log_lost_error(future)

    async def read(self, fn: Callable[[Db, *Ts], T], *args: *Ts, within: float | None = None, lane: str = "") -> T:
        while True:
            try:
                return await self._reading.run(lane, lambda: self._start_read(fn, args, within))
            except StoreAway:
                await self._wait_for_database()

    async def _wait_for_database(self) -> None:
        """Raises what is being handled if the caller does not wait."""
        if FAILS_SOON.get() or self._closed or not self._waits:
            raise
        await asyncio.sleep(RETRY_S)

    def _start_read(self, fn: Callable[..., T], args: tuple[Any, ...], within: float | None) -> asyncio.Future[T]:
        if self._closed:
            raise Unavailable("the store", "the gateway is stopping")
        return asyncio.get_running_loop().run_in_executor(self._pool, self._read, fn, args, within)

    def _read(self, fn: Callable[..., T], args: tuple[Any, ...], within: float | None) -> T:
        while True:
            db: PostgresDb | None = None
            try:
                db = self._get_reader()
                self._away_since = None
                return self._read_once(db, fn, args, within)
            except (psycopg.OperationalError, errors.AdminShutdown) as error:
                if db is not None and is_usable(db.connection):
                    raise translate_error(error) from None
                self._away_since = self._away_since or time.monotonic()
                if time.monotonic() > self._away_since + AWAY_S or self._closed:
                    raise StoreAway(render_away(self.url, error)) from None
                time.sleep(0.05)
            except (psycopg.InternalError, psycopg.ProgrammingError) as error:
                if isinstance(error, errors.ReadOnlySqlTransaction):  # a read that writes, wherever it is run
                    raise
                raise translate_error(error) from None

    def _get_reader(self) -> PostgresDb:
        """This thread's connection, or another if that is of no use any more."""
        db: PostgresDb | None = getattr(self._local, "db", None)
        if db is not None and is_usable(db.connection) and self._local.cuts == self._guard.cuts:
            return db
        if db is not None:
            self._local.db = None
            self._opened.remove(db)
            db.connection.finish()
        self._local.cuts = self._guard.cuts
        made = self._local.db = PostgresDb(open_connection(self.url, self._reader_name).pgconn)
        self._opened.append(made)
        return made

    def _read_once(self, db: PostgresDb, fn: Callable[..., T], args: tuple[Any, ...], within: float | None) -> T:
        awaited = self._guard.begin(db.connection, ANSWER_S if within is None else within + GRACE_S)
        try:
            db.begin_read(0 if within is None else max(1, int(within * 1000)))
            return fn(db, *args)
        except errors.QueryCanceled:
            if within is None:
                raise
            raise Unavailable("the answer", f"it takes more than {within:g} s to find; ask for less at once") from None
        except psycopg.OperationalError:
            if awaited.is_overdue and within is None:  # it may be as long the next time
                raise Unavailable("the store", f"it gives no answer within {ANSWER_S:g} s") from None
            raise
        finally:
            if is_usable(db.connection):
                db.end_read()
            self._guard.end(awaited)

    def stop_waiting(self) -> None:
        self._waits = False

    def rewrite_files(self) -> None:
        """Autovacuum does it, in its own time."""

    def truncate_log(self) -> bool:
        """The server's own log is no copy of ours to clear: it is overwritten in its turn."""
        return True

    def close(self, within: float = CLOSE_S) -> str:
        """Write what was accepted and close. '' if that is done; else what did not end in time and is left behind."""
        if self._closed:
            return ""
        self._closed = True
        self._lanes.close()
        end = time.monotonic() + within
        for each in self._workers:
            each.thread.join(max(0.0, end - time.monotonic()))
        left = [each for each in self._workers if each.thread.is_alive()]
        for each in left:
            each.interrupt(now=True)
        for each in left:
            each.thread.join(OVERDUE_S)
        left = [each for each in left if each.thread.is_alive()]
        if left:
            units = [each.running for each in left if each.running is not None]
            for unit in (*units, *self._lanes.rest()):
                unit.error = Unavailable("the store", "the gateway is stopping")
                send_answers([unit])
            return f"the store's writer is still at {units[0].name if units else 'a commit'}"
        self._pool.shutdown()
        for db in self._opened:
            db.connection.finish()
        return ""

    def find_trouble(self) -> str:
        return ""  # a database that is away is told of by its lease

    def pop_trouble(self) -> str:
        return ""

    @property
    def refused_writes(self) -> int:
        """Units that came after a life of this gateway was over."""
        return sum(each.refused for each in self._workers)

    def set_unit_timeout(self, seconds: float) -> None:
        for each in self._workers:
            each.deadline.seconds = seconds

    def interrupt_overdue(self) -> None:
        self._guard.check()
        for each in self._workers:
            each.interrupt()


def _no_fence() -> str:
    return NUMBER
