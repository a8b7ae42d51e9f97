"""A gateway's lease: a thread with a connection of its own renews it, whatever the rest of the process does.

By its own clock a gateway stops before the others judge it dead: `in_contact` turns false some time before the lease is
over. From then on it calls nobody. A renewal under the same epoch makes it true again; where there is nothing left to
renew, this life is over (`is_over`), and the gateway begins another with `begin`.
"""

import threading
from collections.abc import Callable, Iterable, Sequence

import psycopg
from msgspec import Struct

from gatepost.core import log
from gatepost.core.clock import SECOND, DatabaseClock, to_microseconds
from gatepost.core.errors import SetupError, Unavailable
from gatepost.core.process.keeper_process import read_clock
from gatepost.store.gateways import database_lives, gateways, group_places, incarnations
from gatepost.store.gateways.database_lives import DatabaseLife
from gatepost.store.gateways.gateway_checks import check_companions, check_connections, find_order
from gatepost.store.gateways.gateways import GatewayIdentity, GatewayRow, GatewayState
from gatepost.store.port import Db
from gatepost.store.postgres.advisory_locks import TAKE, make_gateway_number
from gatepost.store.postgres.answer_guard import AnswerGuard
from gatepost.store.postgres.connection import open_connection, render_application
from gatepost.store.postgres.database_time import measure_clock, read_time
from gatepost.store.postgres.notices import Notice, NoticeExchange
from gatepost.store.postgres.postgres_db import PostgresDb
from gatepost.store.postgres.refusals import render_away
from gatepost.store.postgres.server_check import read_limits

LEASE_S, BEAT_S, STOP_S = 6.0, 1.5, 4.5  # how long it lasts, how often it is renewed, when its holder stops by itself
ANSWER_S = 3.0  # in which a renewal is answered; else the connection is of no use
AGAIN_S = 0.5  # after a renewal that failed
BEGIN_S = 10.0  # in which a life begins
LEAST_S = 0.02  # between two beats, whatever ends in between

SILENT_S = 3.0  # twice the time between two renewals
POSITION = (
    "SELECT (SELECT system_identifier FROM pg_control_system())::text,"
    " substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8), (pg_current_wal_lsn() - '0/0')::bigint,"
    " EXTRACT(EPOCH FROM pg_postmaster_start_time())::bigint,"
    " (current_setting('synchronous_standby_names') <> ''"
    " AND current_setting('synchronous_commit') IN ('on', 'remote_apply'))::int"
)
LEAST_LOSS = 1024 * 1024  # bytes; a crash may set the end of the log back by less, and loses nothing

_log = log.get("gateways")


class ServerPosition(Struct, frozen=True):
    system: str
    timeline: str
    position: int  # in its log
    started_at: int
    synchronous: int

    @property
    def name(self) -> str:
        return f"{self.system}/{self.timeline}"


def read_position(db: Db) -> ServerPosition:
    row = db.row(POSITION)
    assert row is not None
    return ServerPosition(*row)


def read_timeline(db: Db) -> str:
    """'' on a standby, which has none of its own."""
    own = "SELECT CASE WHEN pg_is_in_recovery() THEN '' ELSE substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8) END"
    row = db.row(own)
    return str(row[0]) if row else ""


class ServerLife:
    """Notices that the server is another than before: a standby that was promoted, or the same one with older files.

    With a synchronous standby nothing that was waited for is lost. Otherwise the last moments may be, and nobody can
    tell: what was open is held, once, by whoever notices first. Until then nothing is written.

    `timeline`: the one whose loss was dealt with; '': nothing is known.
    """

    def __init__(self) -> None:
        self.timeline = ""
        self._has_timeline = True  # the server tells where it is; some that others run do not
        self._position, self._synchronous = 0, -1

    def probe(self, db: Db) -> None:
        """Outside of a transaction, which the server would end."""
        try:
            read_position(db)
        except (psycopg.ProgrammingError, psycopg.NotSupportedError, psycopg.InternalError) as error:
            self._has_timeline = False
            _log.warning("the database does not tell its timeline, so a failover is not noticed", error=str(error))

    def is_known(self, db: Db) -> bool:
        return not self._has_timeline or read_timeline(db) == self.timeline

    def check(self, db: Db, gateway: str, now: int) -> None:
        """In a transaction of the gateway's lease: hold what was open, if something may have been lost."""
        if not self._has_timeline:
            return
        found = read_position(db)
        set_back = self.timeline == found.timeline and found.position < self._position - LEAST_LOSS
        if self.timeline != found.timeline or set_back:
            self._begin(db, found, gateway, now, is_lost=found.position < self._position, set_back=set_back)
        elif found.synchronous != self._synchronous:
            database_lives.set_synchronous(db, found.name, found.synchronous)
        self.timeline, self._position, self._synchronous = found.timeline, found.position, found.synchronous

    def _begin(self, db: Db, found: ServerPosition, gateway: str, now: int, *, is_lost: bool, set_back: bool) -> None:
        name = f"{found.name}/{found.started_at}" if set_back else found.name
        before = database_lives.find_before(db, found.system)
        if database_lives.find(db, name) is not None:
            database_lives.set_synchronous(db, name, found.synchronous)
            return
        life = DatabaseLife(name, gateway, found.synchronous, -1, now)
        if not database_lives.add(db, life) or before is None:
            return
        if before.synchronous and not is_lost:
            _log.warning("the database failed over to a synchronous standby", server=name)
            return
        held = incarnations.hold_open(db, now)
        database_lives.set_held(db, name, held)
        _log.error("the database failed over and may have forgotten the last moments", server=name, held=held)


class SeenLeases:
    """The renewals of others, by the clock of this machine.

    The database's clock says when a lease is over. Somebody may set it, and then every lease is over at once, or none
    for an hour. So a gateway that was seen to renew just now is not judged, and no lease lasts longer than leases do.
    """

    def __init__(self, now: Callable[[], float] = read_clock) -> None:
        self._now = now
        self._since: dict[tuple[str, int, int], float] = {}  # (name, epoch, until): when it was first seen so

    def set_seen(self, rows: Iterable[GatewayRow]) -> None:
        """All that live, as they are now."""
        now = self._now()
        keys = [(each.name, each.epoch, each.until) for each in rows]
        self._since = {key: self._since.get(key, now) for key in keys}

    def find_silence(self, row: GatewayRow) -> float:
        """Seconds until it was not renewed for as long as it takes any gateway that lives; 0 or less: it was not."""
        since = self._since.get((row.name, row.epoch, row.until))
        return SILENT_S if since is None else since + SILENT_S - self._now()


class LeaseTimes:
    """By a clock of the holder's machine that runs forward only, also while the machine sleeps: when its last good
    renewal was sent, and since when all were good."""

    def __init__(self, now: Callable[[], float] = read_clock) -> None:
        self._now = now
        self._sent = self._since = -float("inf")

    @property
    def stops_at(self) -> float:
        """When its holder stops by itself, if no renewal is made until then."""
        return self._sent + STOP_S

    @property
    def in_contact(self) -> bool:
        return self._now() - self._sent < STOP_S

    def find_judging(self, overdue_s: float) -> float:
        """Return the seconds until this gateway may judge one whose lease has been over for `overdue_s`; 0 or less
        means now.

        A gateway that was in contact for a whole lease judges everybody. After a restart of the database nobody was, so
        nobody is judged before all had the time to renew. A gateway that began later judges those whose lease lasted
        two more beats after that: they did not renew although the database answered.
        """
        contact = self._now() - self._since
        saw_two_beats = contact - overdue_s > 2 * BEAT_S
        return 0.0 if saw_two_beats else LEASE_S - contact

    def renewed(self, sent: float) -> None:
        if self._since == float("inf") or self._now() - self._sent >= STOP_S:
            self._since = sent
        self._sent = sent

    def broken(self) -> None:
        """A renewal failed: who lives is judged by a whole lease from the next one on."""
        self._since = float("inf")


class GatewayLease:
    def __init__(self, url: str, identity: GatewayIdentity) -> None:
        self.url, self.identity = url, identity
        self.times = LeaseTimes()
        self.epoch = 0
        self.is_over = False
        self.clock = DatabaseClock()
        self.offset = 0  # microseconds that the database's clock is ahead of this machine's
        self.store_id = ""  # the same for all who share the store
        self.must_leave = ""  # why it is to drain and stop; '': it is not
        self.is_alone = False  # no other gateway was there at the last beat
        self.companions: tuple[str, ...] = ()  # others that lived then, and did not drain
        self._is_failing = False  # renewals fail, and it was said
        self._dead: tuple[tuple[str, int], ...] = ()
        self.pause = BEAT_S  # until the next beat: at most so long, and no longer than until another may be judged
        self._db: PostgresDb | None = None
        self._guard, self._seen = AnswerGuard(), SeenLeases()
        self._server = ServerLife()
        self._ending = threading.Event()
        self._thread: threading.Thread | None = None

    @property
    def stops_at(self) -> float:
        return self.times.stops_at

    @property
    def name(self) -> str:
        return self.identity.name

    @property
    def in_contact(self) -> bool:
        return not self.is_over and self.times.in_contact

    @property
    def dead(self) -> tuple[tuple[str, int], ...]:
        """(name, epoch) of others whose lease is over, and whom this one may judge."""
        return self._dead if self.in_contact else ()

    def begin(self) -> None:
        """A new life. Blocks. Raises SetupError if another gateway has this name, Unavailable without a database."""
        try:
            self._begin()
        except psycopg.Error as error:
            self._db = None
            raise Unavailable("the store", render_away(self.url, error)) from None

    def _begin(self) -> None:
        db = self._connect()
        with self._guard.within(db.connection, ANSWER_S):
            lives_s = self._find_earlier(db)
            self._server.probe(db)
        self._ending.wait(lives_s)
        sent = read_clock()
        with self._guard.within(db.connection, BEGIN_S):
            self._register(db)
        self.is_over = False
        self.times = LeaseTimes()
        self.times.renewed(sent)

    def _find_earlier(self, db: PostgresDb) -> float:
        """Seconds until the leases are over that this home had under other names. Its lock is ours, so none of them
        renews; one that does is on a copy of this home."""
        now = read_time(db)
        earlier = gateways.list_earlier(db, self.identity.home, self.name)
        lasts = [(each.until - now) / SECOND for each in earlier if each.state is not GatewayState.GONE]
        return min(LEASE_S, max(0.0, *lasts) + LEAST_S) if lasts else 0.0

    def _register(self, db: PostgresDb) -> None:
        db.command(b"BEGIN")
        try:
            now, self.offset = measure_clock(db, self.clock)
            earlier = gateways.list_earlier(db, self.identity.home, self.name)
            for name in sorted({self.name, *(each.name for each in earlier)}):
                db.row(TAKE, (make_gateway_number(name),))
                db.row("SELECT 1 FROM gateways WHERE name = ? FOR UPDATE", (name,))
            known = gateways.list_all(db)
            check_companions(self.identity, known, now)
            for limit in read_limits(db):
                check_connections(self.identity, known, limit.most, limit.name, now)
            self.store_id = gateways.get_store_id(db)
            self.epoch = gateways.register(db, self.identity, to_microseconds(LEASE_S), self.epoch + 1, now)
            group_places.claim_for_home(db, self.identity.home, self.name, now)
            self._server.check(db, self.name, now)
            db.command(b"COMMIT")
        except SetupError:
            db.command(b"ROLLBACK")
            raise

    def start(self, on_change: Callable[[], None]) -> None:
        """`on_change` is called in the lease's thread after each renewal, tried or made."""
        self._thread = threading.Thread(target=self._work, args=(on_change,), name="gateway-lease", daemon=True)
        self._thread.start()
        threading.Thread(target=self._guard.run, args=(self._ending,), name="gateway-guard", daemon=True).start()

    def stop(self) -> None:
        """Stop renewing. The lease is released by a drain, or taken over by another gateway."""
        self._ending.set()
        if self._thread is not None:
            self._thread.join(2 * BEAT_S)
        if self._db is not None:
            self._db.connection.finish()

    def open_exchange(self, hear: Callable[[list[Notice]], None]) -> NoticeExchange:
        """Return where gateways leave words for each other. `hear` is called on this loop."""
        return NoticeExchange(self.url, self.name, hear, self._guard)

    def may_write(self, db: Db) -> bool:
        """Return False on a server whose life has begun since the last beat: what was open is held first."""
        return self._server.is_known(db)

    def render_opening(self) -> str:
        """Return what a transaction of this life begins with: the number of the transaction, if this life goes on."""
        name = self.name.replace("'", "''")
        return f"SELECT pg_current_xact_id()::text FROM gateways WHERE name = '{name}' AND epoch = {self.epoch}"

    def end_life(self, db: Db, name: str, epoch: int) -> bool:
        """In a transaction of whoever takes over: wait for what the dead one has under way, and refuse what comes
        after. False: it lives after all, or somebody else was first."""
        db.row(TAKE, (make_gateway_number(name),))
        found = db.row("SELECT epoch, until, state FROM gateways WHERE name = ? FOR UPDATE", (name,))
        if found is None or found[0] != epoch or found[1] >= read_time(db) or found[2] == GatewayState.GONE:
            return False
        return gateways.end_life(db, name, epoch)

    def end_connections(self, name: str) -> None:
        """Blocks: nothing that a dead gateway has under way on the server goes on."""
        try:  # on a connection of its own: the lease's thread uses the other one meanwhile
            with open_connection(self.url, f"{render_application(self.name)} takeover") as made:
                PostgresDb(made.pgconn).rows(
                    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                    " WHERE datname = current_database() AND starts_with(application_name, ?)",
                    (f"{render_application(name)} ",),
                )
        except psycopg.Error as error:
            raise Unavailable("the store", render_away(self.url, error)) from None

    def beat(self) -> None:
        """Renew once."""
        sent = read_clock()
        try:
            db = self._connect()
            with self._guard.within(db.connection, ANSWER_S):
                db.command(b"BEGIN")
                now, self.offset = measure_clock(db, self.clock)
                self._server.check(db, self.name, now)
                renewal = gateways.renew(db, self.name, self.epoch, now + to_microseconds(LEASE_S))
                present = gateways.list_present(db)
                db.command(b"COMMIT")
                if any(each.until > now + to_microseconds(LEASE_S + BEAT_S) for each in present):
                    gateways.shorten_leases(db, now + to_microseconds(LEASE_S))  # by itself: others do it, too
            running = [each for each in present if each.state is GatewayState.RUNNING and each.until >= now]
            self.companions = tuple(each.name for each in running if each.name != self.name)
            self.is_alone = all(each.name == self.name for each in present)
            if renewal is not None:
                self.times.renewed(sent)
                self.must_leave = self.must_leave or find_order(self.identity, renewal)
                self._judge(present, now)
            else:
                self.is_over = True
            self._set_failing("")
        except psycopg.Error as error:
            self._set_failing(str(error).strip() or "no answer")
            self.times.broken()
            self._db, self.pause = None, AGAIN_S

    def _set_failing(self, error: str) -> None:
        """Said once for each outage, and once when it is over; '': it is."""
        if error and not self._is_failing:
            _log.warning("the lease cannot be renewed", gateway=self.name, error=error)
        elif self._is_failing and not error:
            _log.info("the lease is renewed again", gateway=self.name)
        self._is_failing = bool(error)

    def _judge(self, present: Sequence[GatewayRow], now: int) -> None:
        self._seen.set_seen(present)
        waits = {(each.name, each.epoch): self._find_wait(each, now) for each in present}
        self._dead = tuple(each for each, wait in waits.items() if wait <= 0)
        self.pause = choose_pause([wait for wait in waits.values() if wait > 0])

    def _find_wait(self, row: GatewayRow, now: int) -> float:
        """Seconds until another may be taken for dead. 0 or less: it is."""
        overdue_s = (now - row.until) / SECOND
        if overdue_s <= 0:
            return LEAST_S - overdue_s
        return max(self.times.find_judging(overdue_s), self._seen.find_silence(row))

    def _work(self, on_change: Callable[[], None]) -> None:
        while not self._ending.wait(self.pause):
            if not self.is_over:
                self.beat()
            on_change()

    def _connect(self) -> PostgresDb:
        if self._db is None:
            made = open_connection(self.url, f"{render_application(self.name)} lease", statement_ms=int(BEAT_S * 1000))
            self._db = PostgresDb(made.pgconn)
            self._kept = made  # it closes with its last reference
        return self._db


def choose_pause(waits: Sequence[float]) -> float:
    """Seconds until the next beat, by those until another may be judged: who waits for an answer of a dead gateway does
    not wait for our beat as well."""
    return min(BEAT_S, max(LEAST_S, min(waits, default=BEAT_S) + LEAST_S))
