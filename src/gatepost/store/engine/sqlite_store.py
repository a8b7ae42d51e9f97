"""SQLite behind the port: one writer thread with group commit, readers beside it.

Units that wait together are committed together. One that fails takes nobody with it: the others are run again, each
in a savepoint of its own. A group with a durable unit in it is committed with `synchronous=FULL`, another with NORMAL.
An answer is given only after COMMIT. A group takes units from all lanes in turn and is closed after some time, so that
who floods the store delays others by about one group.
"""

import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar, TypeVarTuple

import apsw

from gatepost.core import log
from gatepost.core.errors import Unavailable
from gatepost.store.engine.damage_check import BROKEN, UNREADABLE, describe_broken
from gatepost.store.engine.deadline import UNIT_S, Deadline, DeadlineExceeded
from gatepost.store.engine.lanes import ReadLanes, WriteQueue, WriteUnit, log_lost_error, send_answers
from gatepost.store.engine.sqlite_db import SqliteDb, connect
from gatepost.store.port import Db

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

LARGEST_GROUP = 512  # units in one commit …
GROUP_S = 0.02  # … and the time after which no further one is begun: both bound how long the first of them waits
SNAPSHOT_S = 0.02
STEPS = 200  # of SQLite's machine, between two looks at the clock
STEPS_OF_WRITER = 10_000  # the same in the writer: a fraction of a millisecond, and no cost that can be measured
SLOW_S = 0.05  # a unit that takes longer is reported
OVERDUE_S = 1.0  # for what was interrupted to end
CLOSE_S = 3.0  # for what was accepted, when the store is closed

_log = log.get("store")
LOG_WAIT_MS = 100  # for readers to let go of the log: nobody writes meanwhile


def _open_reader(path: Path) -> apsw.Connection:
    """SQLite opens the log with the first look."""
    connection = connect(path, readonly=True)
    connection.execute("SELECT count(*) FROM sqlite_schema").fetchall()
    return connection


class SqliteStore:
    """The default store. Open it on a running loop; `close` waits for what was accepted, within bounds. `slow` is
    called in the writer's thread with a unit that took long: its name, its seconds by the clock and by the processor.
    """

    def __init__(
        self,
        path: Path,
        *,
        readers: int = 2,
        group_s: float = GROUP_S,
        unit_s: float = UNIT_S.default,
        slow: Callable[[str, float, float], None] = lambda name, wall, cpu: None,
        rehearse: bool = False,
    ) -> None:
        """`rehearse`, for tests: every unit is run twice, the first time undone."""
        self.path, self._group_s, self._slow, self._rehearse = path, group_s, slow, rehearse
        self._deadline = Deadline(unit_s)
        self.running: WriteUnit | None = None  # in the writer, right now …
        self._group: list[WriteUnit] = []  # … and what is committed with it
        self._lanes = WriteQueue()
        self._writer = connect(path)
        self._here = _open_reader(path)
        self._here_db = SqliteDb(self._here)
        self._commits, self._seen = 0, -1  # what was committed, and up to where reads that run here see it
        self._letting_go: asyncio.TimerHandle | None = None
        self._local = threading.local()
        # Opened now: later there may be no descriptor left for them.
        self._opened = [_open_reader(path) for _ in range(readers)]
        self._free = list(self._opened)
        self._reading = ReadLanes()
        self._pool = ThreadPoolExecutor(readers, thread_name_prefix="store-read")
        self._thread = threading.Thread(target=self._work, name="store-write", daemon=True)
        self._synchronous = ""  # of the writer's connection; known once it was set
        self._closed = False
        self._damage = self._unwritten = ""  # why it cannot be read as a whole, or not be written
        self._met = ""  # the last of `_unwritten` that nobody asked for yet
        self._thread.start()

    async def write(self, fn: Callable[[Db, *Ts], T], *args: *Ts, durable: bool = True, lane: str = "") -> T:
        if self._closed:
            raise Unavailable("the store", "the gateway is stopping")
        loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()
        self._lanes.put(WriteUnit(fn, args, durable, lane, loop, future))
        return await future

    def post(self, fn: Callable[[Db, *Ts], object], *args: *Ts, lane: str) -> None:
        if not self._closed:
            loop = asyncio.get_running_loop()
            future: asyncio.Future[object] = loop.create_future()
            future.add_done_callback(log_lost_error)
            self._lanes.put(WriteUnit(fn, args, False, lane, loop, future, patient=True))

    async def read(self, fn: Callable[[Db, *Ts], T], *args: *Ts, within: float | None = None, lane: str = "") -> T:
        if fn.__dict__.get("inline_read"):
            return self.read_now(fn, *args)
        return await self._reading.run(lane, lambda: self._start_read(fn, args, within))

    def _start_read(self, fn: Callable[..., T], args: tuple[Any, ...], within: float | None) -> asyncio.Future[T]:
        if self._closed:
            raise Unavailable("the store", "the gateway is stopping")
        return asyncio.get_running_loop().run_in_executor(self._pool, self._read, fn, args, within)

    def read_now(self, fn: Callable[[Db, *Ts], T], *args: *Ts) -> T:
        """Read on the loop, as no other store can: tests wait with it. Such reads share one snapshot until something is
        committed, because taking a new one costs more than a look-up. It is let go of soon, so that it never holds up
        the log's checkpoint."""
        if self._closed:
            raise Unavailable("the store", "the gateway is stopping")
        try:
            if self._seen != self._commits:
                if self._here.in_transaction:
                    self._here.execute("COMMIT")
                self._seen = self._commits
                self._here.execute("BEGIN")
                if self._letting_go is None:
                    self._letting_go = asyncio.get_running_loop().call_later(SNAPSHOT_S, self._release_snapshot)
            return fn(self._here_db, *args)
        except UNREADABLE as error:
            raise self._record_trouble(error) from None

    def _release_snapshot(self) -> None:
        self._letting_go = None
        if not self._closed and self._here.in_transaction:
            self._here.execute("COMMIT")
            self._seen = -1

    def stop_waiting(self) -> None:
        """A file is never away."""

    def rewrite_files(self) -> None:
        _rewrite(connect(self.path))

    def truncate_log(self) -> bool:
        return _truncate_log(connect(self.path))

    def close(self, within: float = CLOSE_S) -> str:
        """Write what was accepted, and close. Return '' if that is done. Else return what did not end in time: it is
        left behind, and the process should end. Callers that still wait are told that the gateway is stopping."""
        if self._closed:
            return ""
        self._closed = True
        if self._letting_go is not None:
            self._letting_go.cancel()
        self._lanes.close()
        end = time.monotonic() + within
        self._thread.join(within)
        if self._thread.is_alive():
            self.interrupt_overdue(now=True)
            self._thread.join(OVERDUE_S)
        if self._thread.is_alive():
            unit = self.running
            for each in (*self._group, *self._lanes.rest()):
                each.error = Unavailable("the store", "the gateway is stopping")
                send_answers([each])
            return f"the store's writer is still at {unit.name if unit is not None else 'a commit'}"
        if not self._close_readers(end):
            return "a read of the store does not end"
        self._here.close()
        with suppress(apsw.Error):  # a full disk must not keep us from closing
            self._writer.execute("PRAGMA optimize")
        self._writer.close()
        return ""

    def _close_readers(self, end: float) -> bool:
        ending = threading.Thread(target=self._pool.shutdown, name="store-close", daemon=True)
        ending.start()
        ending.join(max(OVERDUE_S, end - time.monotonic()))
        if ending.is_alive():
            for connection in self._opened:
                connection.interrupt()
            ending.join(OVERDUE_S)
        if ending.is_alive():
            return False
        for connection in self._opened:
            connection.close()
        return True

    def _read(self, fn: Callable[..., T], args: tuple[Any, ...], within: float | None) -> T:
        connection: apsw.Connection | None = getattr(self._local, "connection", None)
        if connection is None:
            connection = self._local.connection = self._free.pop()  # as many as there are threads
        connection.execute("BEGIN")
        try:
            with _time_limit(connection, within):
                return fn(SqliteDb(connection), *args)
        except UNREADABLE as error:
            raise self._record_trouble(error) from None
        finally:
            connection.execute("COMMIT")

    def _work(self) -> None:
        db = SqliteDb(self._writer, of_writer=True)
        self._writer.set_progress_handler(self._deadline.is_over, STEPS_OF_WRITER)
        while group := self._lanes.pop(LARGEST_GROUP):
            self._group = group
            done = self._commit(db, group)
            if done < len(group):
                self._lanes.put_back(group[done:])
            self._commits += 1
            self._group = []
            send_answers(group[:done])

    def _commit(self, db: SqliteDb, group: list[WriteUnit]) -> int:
        """Run units for as long as a group may take, and commit them. Return how many have their answer now."""
        execute = self._writer.execute
        wanted = "FULL" if any(unit.durable for unit in group) else "NORMAL"
        try:
            if wanted != self._synchronous:
                execute(f"PRAGMA synchronous={wanted}")
                self._synchronous = wanted
            done = self._run(db, group, time.monotonic() + self._group_s)
            while not self._writer.in_transaction:  # a unit that failed took the others with it
                done = self._run_apart(db, group[:done])
            execute("COMMIT")
        except apsw.Error as error:
            if self._writer.in_transaction:
                execute("ROLLBACK")
            db.discard()
            trouble = self._record_trouble(error, of_writes=True)
            for unit in group:
                unit.error = unit.error or trouble
            return len(group)
        self._unwritten = ""
        return done

    def _record_trouble(self, error: apsw.Error, *, of_writes: bool = False) -> Unavailable:
        """Damage stays until somebody repairs it; a disk that takes nothing may take the next write."""
        reason = describe_broken(error) if isinstance(error, BROKEN) else str(error)
        if isinstance(error, (apsw.CorruptError, apsw.NotADBError)):
            self._damage = reason
        elif of_writes and isinstance(error, BROKEN):
            self._unwritten = self._met = reason
        return Unavailable("the store", reason)

    def find_trouble(self) -> str:
        return self._damage or self._unwritten

    def pop_trouble(self) -> str:
        if met := self._met:
            self._met = ""
        return met

    def _run(self, db: SqliteDb, group: list[WriteUnit], end: float) -> int:
        """Run units until the time is up. Return how many were looked at; if the transaction is gone then, the last of
        them failed, and they are to be run again without it. Mostly none fails, and savepoints would cost more."""
        execute = self._writer.execute
        execute("BEGIN IMMEDIATE")
        for count, unit in enumerate(group, 1):
            if not self._try(db, unit):
                break
            if time.monotonic() > end or count == len(group):
                try:
                    db.flush()
                except apsw.ConstraintError:  # run apart, the unit is found that appended what cannot be written
                    break
                return count
        if self._writer.in_transaction:
            execute("ROLLBACK")
        db.discard()
        return count

    def _run_apart(self, db: SqliteDb, group: list[WriteUnit]) -> int:
        """The same for units of which some fail: each that has not failed yet in its savepoint. If the transaction is
        gone then, the last of them was interrupted."""
        execute = self._writer.execute
        execute("BEGIN IMMEDIATE")
        for count, unit in enumerate(group, 1):
            if unit.error is not None:
                continue
            execute("SAVEPOINT unit")
            if not self._try(db, unit, flush=True):
                db.discard()
                if not self._writer.in_transaction:
                    return count
                execute("ROLLBACK TO unit")
            execute("RELEASE unit")
        return len(group)

    def _try(self, db: SqliteDb, unit: WriteUnit, *, flush: bool = False) -> bool:
        """Run one unit. False if it failed."""
        self.running = unit
        wall, cpu = time.monotonic(), time.thread_time()
        try:
            try:
                if self._rehearse:
                    self._rehearse_one(db, unit)
                unit.answer = self._deadline.run(unit.fn, db, *unit.args)
            finally:
                self.running = None
                if (took := time.monotonic() - wall) > SLOW_S:
                    self._slow(unit.name, took, time.thread_time() - cpu)
            if flush:
                db.flush()
        except BROKEN:
            raise  # the whole group fails: SQLite may have rolled all of it back
        except BaseException as error:  # noqa: BLE001  it is the caller's, and is raised there
            unit.error = self._error_of(unit, error)
            return False
        return True

    def _rehearse_one(self, db: SqliteDb, unit: WriteUnit) -> None:
        db.flush()
        self._writer.execute("SAVEPOINT rehearsal")
        with suppress(Exception):  # it fails the second time, too
            self._deadline.run(unit.fn, db, *unit.args)
            db.flush()
        db.discard()
        if self._writer.in_transaction:
            self._writer.execute("ROLLBACK TO rehearsal")
            self._writer.execute("RELEASE rehearsal")

    def _error_of(self, unit: WriteUnit, error: BaseException) -> BaseException:
        if isinstance(error, (DeadlineExceeded, apsw.InterruptError)):
            seconds = self._deadline.seconds
            _log.error("a write took too long and was undone", unit=unit.name, lane=unit.lane, seconds=seconds)
            return Unavailable("the store", f"this takes more than {seconds:g} s to write; ask for less at once")
        # A future takes no StopIteration, and the rest of the group must be answered.
        return RuntimeError(repr(error)) if isinstance(error, StopIteration) else error

    @property
    def refused_writes(self) -> int:
        return 0  # nobody takes over from who is alone

    def set_unit_timeout(self, seconds: float) -> None:
        """From now on a unit has this long."""
        self._deadline.seconds = seconds

    def interrupt_overdue(self, *, now: bool = False) -> None:
        """Called by a watchdog every now and then: end a unit that computes beyond its time."""
        unit = self.running
        if self._deadline.interrupt(now=now) and unit is not None:
            _log.error("a write computes beyond its time and is interrupted", unit=unit.name, lane=unit.lane)


@contextmanager
def _time_limit(connection: apsw.Connection, seconds: float | None) -> Iterator[None]:
    if seconds is None:
        yield
        return
    end = time.monotonic() + seconds
    connection.set_progress_handler(lambda: time.monotonic() > end, STEPS)
    try:
        yield
    except apsw.InterruptError:
        raise Unavailable("the answer", f"it takes more than {seconds:g} s to find; ask for less at once") from None
    finally:
        connection.set_progress_handler(None)


def _truncate_log(connection: apsw.Connection) -> bool:
    """Write the write-ahead log into the file and cut it to nothing. False: somebody reads what it holds; try again.
    The connection is closed."""
    connection.set_busy_timeout(LOG_WAIT_MS)
    try:
        rows = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        return bool(rows) and rows[0][0] == 0
    except apsw.BusyError:
        return False
    finally:
        connection.close()


def _rewrite(connection: apsw.Connection) -> None:
    """Write the whole file anew: nothing is left between its rows. Nobody writes meanwhile, so for a gateway that is
    down. A file that could not give free pages back can from then on. The connection is closed."""
    try:
        connection.execute("PRAGMA temp_store=FILE")  # it takes as much as the file
        connection.execute("PRAGMA auto_vacuum=INCREMENTAL")
        connection.execute("VACUUM")
    finally:
        connection.close()
