"""The store as seen from outside the daemon: read-only, one snapshot, whether the daemon runs or not."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar, TypeVarTuple

import apsw

from gatepost.core.clock import Clock, SystemClock
from gatepost.core.errors import SetupError
from gatepost.core.home import Home
from gatepost.core.settings import Config
from gatepost.store.engine.damage_check import BROKEN, READ_ONLY, WAY_BACK, describe_broken
from gatepost.store.engine.migrate import find_store, list_migrations
from gatepost.store.engine.place import StorePlace, check_library, check_single, find_place, get_place, render_missing
from gatepost.store.engine.sqlite_db import SqliteDb, connect
from gatepost.store.port import Db

if TYPE_CHECKING:
    from gatepost.store.postgres.snapshot import DatabaseReader

T = TypeVar("T")
Ts = TypeVarTuple("Ts")


def read_snapshot(place: Path | StorePlace, fn: Callable[[Db, *Ts], T], *args: *Ts) -> T:
    """Run `fn` on one snapshot of a store of this version."""
    if not isinstance(place, StorePlace):
        return _read_file(place, fn, *args)
    database = _find_database(place)
    return database.read(fn, *args) if database else _read_file(place.path, fn, *args)


def _find_database(place: StorePlace) -> "DatabaseReader | None":
    """None: the store is a file."""
    if not place.url:
        return None
    check_library(place)
    from gatepost.store.postgres.snapshot import DatabaseReader

    return DatabaseReader(place.url)


def read_store(home: Home, fn: Callable[[Db, *Ts], T], *args: *Ts) -> T:
    """The same for who has read no settings."""
    return read_snapshot(find_place(home), fn, *args)


def _read_file(path: Path, fn: Callable[[Db, *Ts], T], *args: *Ts) -> T:
    if not path.is_file():
        raise SetupError(render_missing(path.parent))
    check_single(path.parent)
    connection = connect(path, readonly=True)
    try:
        connection.execute("BEGIN")
        db = SqliteDb(connection)
        if not find_store(connection, path):
            raise SetupError(render_missing(path.parent))
        check_version(f"store {path}", get_version(db))
        return fn(db, *args)
    except (apsw.CorruptError, apsw.NotADBError) as error:
        raise SetupError(f"the store {path} is damaged: {error}; {WAY_BACK}") from None
    except BROKEN as error:
        if isinstance(error, apsw.ReadOnlyError) and not Home(path.parent).is_read_only():
            raise  # a look that writes is a fault of ours
        why = READ_ONLY if Home(path.parent).is_read_only() else describe_broken(error)
        raise SetupError(f"the store {path} cannot be read: {why}") from None
    finally:
        connection.close()


def get_version(db: Db) -> int:
    """The newest migration that ran."""
    row = db.row("SELECT MAX(number) FROM schema_version")
    return int(row[0] or 0) if row else 0


def get_newest_version() -> int:
    """The version that this gatepost knows."""
    return max((each.number for each in list_migrations()), default=0)


def check_version(name: str, found: int) -> None:
    """`name`: what it is called for people."""
    if found > get_newest_version():
        raise SetupError(
            f"the {name} was written by a newer gatepost (schema {found}, this one knows {get_newest_version()});"
            " upgrade gatepost, or restore a backup"
        )
    if found < get_newest_version():
        raise SetupError(f"the {name} is of an older version; `gatepost up` brings it up to date")


def find_damage(db: Db) -> str:
    """Return what a quick look through the whole file finds wrong; '' if nothing."""
    return db.upkeep.find_damage()


def list_waiting_instances(db: Db) -> list[tuple[str, int]]:
    """(channel instance, effects that wait for it)."""
    rows = db.rows(
        "SELECT instance, COUNT(*) FROM outbox WHERE state IN ('pending', 'sending') GROUP BY instance ORDER BY 1"
    )
    return [(str(row[0]), int(row[1])) for row in rows]


def count_expired_leases(db: Db, now: int) -> int:
    """Open turns that nobody renews any more: a running daemon takes them up again within seconds. One that waits for
    its time, or for a person, is held by nobody on purpose."""
    row = db.row(
        "SELECT COUNT(*) FROM turns WHERE ended_at IS NULL AND lease_until < ?"
        " AND NOT (state = 'interrupted' AND next_at > ?)",
        (now, now),
    )
    return int(row[0]) if row else 0


def get_clock(home: Home, config: Config | None = None) -> Clock:
    """Return the clock of the store, for a command: the database's if machines share it, else the system's. Without
    `config` the settings are read."""
    database = _find_database(find_place(home) if config is None else get_place(home, config))
    return database.read_clock() if database else SystemClock()
