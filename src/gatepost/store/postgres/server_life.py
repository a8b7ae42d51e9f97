"""Notices that the server is another than before: a standby that was promoted, or the same one with older files.

With a synchronous standby nothing that was waited for is lost. Otherwise the last moments may be, and nobody can tell:
what was open is held, once, by whoever notices first. Until then nothing is written.
"""

import psycopg
from msgspec import Struct

from gatepost.core import log
from gatepost.store.gateways import database_lives, incarnations
from gatepost.store.gateways.database_lives import DatabaseLife
from gatepost.store.port import Db

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
    """A gateway's memory of the server. `timeline`: the one whose loss was dealt with; '': nothing is known."""

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
