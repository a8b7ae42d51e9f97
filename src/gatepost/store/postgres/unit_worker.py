"""One connection that writes, the thread that runs units on it, and the queue from which it takes them.

A unit that meets another's (a deadlock, a lock that does not come free) is undone and run again. So is one whose
connection broke before COMMIT was sent; afterwards the server is asked by the number of the transaction.
"""

import random
import threading
import time
from collections import OrderedDict, deque
from collections.abc import Callable
from contextlib import suppress
from itertools import count

import psycopg
from psycopg import errors

from gatepost.core import log
from gatepost.core.errors import StoreAway, Unavailable
from gatepost.store.engine.deadline import Deadline, DeadlineExceeded
from gatepost.store.engine.lanes import WriteUnit, send_answers
from gatepost.store.port import Db, OutdatedDecision, Row
from gatepost.store.postgres.advisory_locks import LockName, LockOrderConflict
from gatepost.store.postgres.answer_guard import GRACE_S, AnswerGuard, AwaitedAnswer
from gatepost.store.postgres.connection import is_usable, open_connection, render_application
from gatepost.store.postgres.postgres_db import PostgresDb
from gatepost.store.postgres.refusals import render_away, translate_error

SLOW_S = 0.05  # a unit that takes longer is reported
AWAY_S = 4.0  # for which a unit waits for a database that is away
UNSURE_S = 60.0  # for which one is waited for that may have committed a unit
AGAIN_S = 0.05  # between two tries to reach it
MOST_TRIES = 30
MOST_LOOKS = 2  # at a key that is taken; then the unit is to blame
PAUSE_S = 0.002  # after the first conflict; twice as long after each further one …
LONGEST_PAUSE_S = 0.1  # … up to this

NUMBER = "SELECT pg_current_xact_id()::text"

_CONFLICTS = (errors.SerializationFailure, errors.DeadlockDetected, errors.LockNotAvailable, OutdatedDecision)

_log = log.get("store")


class LaneQueue:
    """Units that wait for one of several workers: those of one lane in their order, while lanes take turns.

    A unit without a lane is a lane of its own. `put` is for any thread, the rest is for the workers.
    """

    def __init__(self) -> None:
        self._ready = threading.Condition()
        self._waiting: OrderedDict[str, deque[WriteUnit]] = OrderedDict()  # lanes with nothing under way
        self._working: dict[str, deque[WriteUnit]] = {}  # lanes with a unit under way, and what waits behind it
        self._numbers = count()
        self._closed = False

    def put(self, unit: WriteUnit) -> None:
        lane = unit.lane or f"\0{next(self._numbers)}"
        with self._ready:
            behind = self._working.get(lane)
            if behind is not None:
                behind.append(unit)
                return
            self._waiting.setdefault(lane, deque()).append(unit)
            self._ready.notify()

    def pop(self) -> tuple[str, WriteUnit] | None:
        """The next unit and its lane, which is held until `release`; waits for one. None: closed, nothing is left."""
        with self._ready:
            while not self._waiting:
                if self._closed and not self._working:
                    return None
                self._ready.wait()
            lane, units = self._waiting.popitem(last=False)
            unit = units.popleft()
            self._working[lane] = units
            return lane, unit

    def release(self, lane: str) -> None:
        with self._ready:
            units = self._working.pop(lane)
            if units:
                self._waiting[lane] = units
                self._ready.notify()
            elif self._closed:
                self._ready.notify_all()

    def close(self) -> None:
        with self._ready:
            self._closed = True
            self._ready.notify_all()

    def rest(self) -> list[WriteUnit]:
        """All that waits, for whoever gives up on the workers."""
        with self._ready:
            found = [unit for units in (*self._working.values(), *self._waiting.values()) for unit in units]
            for units in (*self._working.values(), *self._waiting.values()):
                units.clear()
            self._waiting.clear()
            return found


class UnitWorker:
    def __init__(
        self,
        url: str,
        number: int,
        lanes: LaneQueue,
        unit_s: float,
        slow: Callable[[str, float, float], None],
        gateway: str = "",
        fence: Callable[[], str] = lambda: NUMBER,
        rehearse: bool = False,
        guard: AnswerGuard | None = None,
        may_write: Callable[[Db], bool] | None = None,
    ) -> None:
        """`fence`: what a transaction begins with. It finds the number of the transaction, and no row if this life of
        the gateway is over. `guard`: somebody calls its `check`. `may_write`: asked with each new
        connection."""
        self._url, self._lanes, self._slow, self._fence = url, lanes, slow, fence
        self._rehearse, self._guard = rehearse, guard or AnswerGuard()
        self._gateway, self._may_write = gateway, may_write
        self._name = f"{render_application(gateway)} write {number}"
        self.refused = 0  # units that came after this life of the gateway was over
        self.deadline = Deadline(unit_s)
        self.running: WriteUnit | None = None
        self._connection: psycopg.Connection | None = None
        self._away_since: float | None = None  # a unit that comes later waits no further while
        self._db: PostgresDb | None = None
        self._cuts = 0  # those before this connection was made
        self.thread = threading.Thread(target=self._work, name=f"store-write-{number}", daemon=True)

    def interrupt(self, *, now: bool = False) -> None:
        """From another thread: end a unit that has had its time, in SQL or in Python."""
        unit, connection = self.running, self._connection
        if (now or self.deadline.is_over()) and unit is not None and connection is not None:
            connection.cancel_safe(timeout=1)
        if self.deadline.interrupt(now=now) and unit is not None:
            _log.error("a write computes beyond its time and is interrupted", unit=unit.name, lane=unit.lane)

    def _work(self) -> None:
        while (taken := self._lanes.pop()) is not None:
            lane, unit = taken
            self.running = unit
            try:
                unit.answer = self._run(unit)
            except BaseException as error:  # noqa: BLE001  it is the caller's, and is raised there
                unit.error = self._translate(unit, error)
            self.running = None
            self._lanes.release(lane)
            send_answers([unit])
        if self._connection is not None:
            self._connection.close()

    def _run(self, unit: WriteUnit) -> object:
        """Until it is committed, or failed for a reason of its own."""
        pause, first = PAUSE_S, frozenset[LockName]()
        for number in range(MOST_TRIES):
            try:
                return self._try(unit, first)
            except LockOrderConflict as error:
                last: Exception = error
                first |= error.wanted
            except _CONFLICTS as error:
                last = error
                time.sleep(random.uniform(0.5, 1) * pause)
                pause = min(pause * 2, LONGEST_PAUSE_S)
            except errors.UniqueViolation as error:  # it may have looked before another wrote the same key
                last = error
                if number >= MOST_LOOKS:
                    raise
            except _ConnectionBroke as error:
                last = error
        raise Unavailable("the store", f"others write the same rows all the time ({last})")

    def _try(self, unit: WriteUnit, first: frozenset[LockName] = frozenset()) -> object:
        db = self._connect()
        number = 0
        wall, cpu = time.monotonic(), time.thread_time()

        def set_number(found: Row | None) -> None:
            nonlocal number
            number = self._read_number(unit, found)

        awaited = self._guard.begin(db.connection, self.deadline.seconds + GRACE_S)
        try:
            if self._rehearse:
                self._rehearse_unit(db, unit, first)
            db.begin_unit(self._fence(), set_number, first, durable=unit.durable)
            answer = self.deadline.run(_run_unit, unit, db)
        except BaseException as error:
            self._guard.end(awaited)
            self._undo(db)
            if awaited.was_cut or (not is_usable(db.connection) and isinstance(error, psycopg.Error)):
                raise _ConnectionBroke(str(error)) from None
            if isinstance(error, errors.ReadOnlySqlTransaction):
                self._drop()  # the next one may reach the primary
            raise
        finally:
            if (took := time.monotonic() - wall) > SLOW_S:
                self._slow(unit.name, took, time.thread_time() - cpu)
        self._commit(db, number, awaited)
        return answer

    def _commit(self, db: PostgresDb, number: int, awaited: AwaitedAnswer) -> None:
        try:
            if not number:  # whatever the unit made of that
                self._undo(db)
                raise Unavailable("the store", "this life of the gateway is over")
            self._guard.renew(awaited, UNSURE_S)  # it may wait for a standby
            db.commit()
        except psycopg.Error as error:
            lost = not is_usable(db.connection)
            self._undo(db)
            if not lost:
                raise
            self._guard.end(awaited)  # to find out may take longer, on another connection
            if not self._is_committed(number):
                raise _ConnectionBroke(str(error)) from None
        finally:
            self._guard.end(awaited)

    def _read_number(self, unit: WriteUnit, found: Row | None) -> int:
        """The number of the transaction."""
        if found is None:
            self.refused += 1
            _log.warning("a write was refused: another gateway has taken over", unit=unit.name, lane=unit.lane)
            raise Unavailable("the store", "another gateway has taken over from this one")
        return int(found[0])

    def _rehearse_unit(self, db: PostgresDb, unit: WriteUnit, first: frozenset[LockName]) -> None:
        with suppress(Exception):  # it fails the second time, too
            db.begin_unit(self._fence(), lambda found: None, first, durable=unit.durable)
            self.deadline.run(_run_unit, unit, db)
            db.flush()
        db.discard()
        db.command(b"ROLLBACK")

    def _undo(self, db: PostgresDb) -> None:
        db.discard()
        if is_usable(db.connection):
            try:
                with self._guard.within(db.connection, GRACE_S):
                    db.command(b"ROLLBACK")
            except psycopg.Error:
                self._drop()
        else:
            self._drop()

    def _drop(self) -> None:
        if self._connection is not None:
            self._connection.close()
        self._connection = self._db = None

    def _connect(self) -> PostgresDb:
        while self._db is None or not is_usable(self._db.connection) or self._cuts < self._guard.cuts:
            self._drop()
            self._cuts = self._guard.cuts
            try:
                self._connection = open_connection(self._url, self._name)
                made = PostgresDb(self._connection.pgconn, of_writer=True, gateway=self._gateway)
                self._check_server(made)
                self._db = made
            except psycopg.OperationalError as error:
                self._away_since = self._away_since or time.monotonic()
                if time.monotonic() > self._away_since + AWAY_S:
                    raise StoreAway(render_away(self._url, error)) from None
                time.sleep(AGAIN_S)
        self._away_since = None
        return self._db

    def _check_server(self, db: PostgresDb) -> None:
        """A promoted standby may have forgotten what was sent: nothing is written there before that is dealt with."""
        if self._may_write is not None and not self._may_write(db):
            raise psycopg.OperationalError("the database has failed over; what was open is held first")

    def _is_committed(self, number: int) -> bool:
        """Return True if a transaction whose connection broke was committed. Until the server notices the break, it
        counts as under way."""
        until = time.monotonic() + UNSURE_S
        while time.monotonic() < until:
            try:
                db = self._connect()
                with self._guard.within(db.connection, GRACE_S):
                    state = db.command(b"SELECT pg_xact_status('%d'::xid8)" % number)[0][0]
            except (StoreAway, psycopg.Error):
                state = "in progress"  # nobody to ask yet
            if state != "in progress":
                return bool(state == "committed")
            time.sleep(AGAIN_S)
        why = "the database does not say whether this was written; look before you try again"
        raise Unavailable("the store", why, uncertain=True)

    def _translate(self, unit: WriteUnit, error: BaseException) -> BaseException:
        if isinstance(error, (DeadlineExceeded, errors.QueryCanceled)):
            seconds = self.deadline.seconds
            _log.error("a write took too long and was undone", unit=unit.name, lane=unit.lane, seconds=seconds)
            return Unavailable("the store", f"this takes more than {seconds:g} s to write; ask for less at once")
        # A future takes no StopIteration.
        return RuntimeError(repr(error)) if isinstance(error, StopIteration) else translate_error(error)


class _ConnectionBroke(Exception):
    """Nothing of the unit is written."""


def _run_unit(unit: WriteUnit, db: PostgresDb) -> object:
    answer = unit.fn(db, *unit.args)
    db.prepare_commit()
    return answer
