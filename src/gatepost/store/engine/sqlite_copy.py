"""Copies of SQLite stores: one side of a copy from engine to engine, and SQLite's own backup, in one snapshot.

A copy's file is read, or a new one is written beside its name and moved there last. A backup is consistent, whether the
daemon runs or not.
"""

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from itertools import islice
from pathlib import Path

import apsw

from gatepost.core.clock import SystemClock
from gatepost.core.errors import SetupError
from gatepost.store.engine.damage_check import BROKEN, describe_broken
from gatepost.store.engine.migrate import holds_store, migrate
from gatepost.store.engine.place import StorePlace, check_single, render_missing
from gatepost.store.engine.readonly import check_version, get_version
from gatepost.store.engine.sqlite_db import SqliteDb, connect
from gatepost.store.engine.store_copy import BATCH, SEARCH
from gatepost.store.port import Db, Row

LOGS = ("-wal", "-shm")
# What could act on its own in a copy: by table, for a store of an old version does not have each.
_ACTING = {
    "budgets": "DELETE FROM budgets",
    "channel_instances": "DELETE FROM channel_instances",
    "switches": "DELETE FROM switches",
    "tasks": "UPDATE tasks SET state = 'paused' WHERE state = 'active'",
}


class SqliteTables:
    def __init__(self, connection: apsw.Connection) -> None:
        self._connection, self.db = connection, SqliteDb(connection)

    def list_tables(self) -> dict[str, tuple[str, ...]]:
        rows = self.db.rows(
            "SELECT t.name, c.name FROM pragma_table_list t, pragma_table_info(t.name) c"
            " WHERE t.schema = 'main' AND t.type = 'table' AND substr(t.name, 1, 7) <> 'sqlite_' ORDER BY t.name, c.cid"
        )
        found: dict[str, tuple[str, ...]] = {}
        for table, column in rows:
            if table not in SEARCH:
                found[table] = (*found.get(table, ()), column)
        return found

    def read_rows(self, table: str, columns: tuple[str, ...]) -> Iterator[Row]:
        return self._connection.execute(f"SELECT {_render_names(columns)} FROM {_render_names([table])}")

    def read_sequences(self) -> dict[str, int]:
        return {str(name): int(seq) for name, seq in self.db.rows("SELECT name, seq FROM sqlite_sequence")}

    def write_rows(self, table: str, columns: tuple[str, ...], rows: Iterable[Row]) -> None:
        marks = ", ".join("?" * len(columns))
        insert = f"INSERT INTO {_render_names([table])} ({_render_names(columns)}) VALUES ({marks})"
        self._connection.execute(f"DELETE FROM {_render_names([table])}")  # what migrations wrote
        waiting = iter(rows)
        while some := list(islice(waiting, BATCH)):
            self._connection.executemany(insert, some)

    def write_sequences(self, last: dict[str, int]) -> None:
        self.db.run("DELETE FROM sqlite_sequence")
        for name, number in last.items():
            self.db.run("INSERT INTO sqlite_sequence (name, seq) VALUES (?, ?)", (name, number))

    def check_references(self) -> None:
        row = self.db.row("PRAGMA foreign_key_check")
        if row is not None:
            raise SetupError(f"a row of {row[0]} names one of {row[2]} that is not there; nothing was kept")


def _render_names(names: Iterable[str]) -> str:
    return ", ".join(f'"{name}"' for name in names)


@contextmanager
def read_sqlite(path: Path) -> Iterator[SqliteTables]:
    if not path.is_file():
        raise SetupError(f"there is no store {path}")
    connection = connect(path, readonly=True)
    try:
        connection.execute("BEGIN")
        tables = SqliteTables(connection)
        check_version(f"store {path}", get_version(tables.db) if tables.db.definition("schema_version") else 0)
        yield tables
    finally:
        connection.close()


@contextmanager
def write_sqlite(path: Path) -> Iterator[SqliteTables]:
    _check_free(path)
    new = path.with_name(f"{path.name}.copy")
    _remove(new)
    try:
        migrate(new, SystemClock())
        connection = connect(new)
        try:
            connection.execute("PRAGMA foreign_keys=OFF")  # tables come in the order of their names
            connection.execute("BEGIN IMMEDIATE")
            yield SqliteTables(connection)
            connection.execute("COMMIT")
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        finally:
            connection.close()
        _sync(new)
        os.rename(new, path)
        _sync(path.parent)
    finally:
        _remove(new)


def _check_free(path: Path) -> None:
    """The log of another database would be taken for the copy's own, and written into it."""
    there = [each.name for each in _list_files(path) if each.is_symlink() or each.exists()]
    if there:
        raise SetupError(
            f"{' and '.join(there)} {'is' if len(there) == 1 else 'are'} in {path.parent} already; a copy needs a place"
            f" where nothing is: move {path.name}, {path.name}-wal and {path.name}-shm aside together"
        )


def _list_files(path: Path) -> list[Path]:
    return [path, *(path.with_name(path.name + log) for log in LOGS)]


def _remove(path: Path) -> None:
    for each in _list_files(path):
        with suppress(FileNotFoundError):
            each.unlink()


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def copy_store(place: StorePlace, target: Path) -> None:
    """Back a store up to a new file of the owner's alone.

    Writers are not held up; what they write meanwhile is not in it.
    """
    source = place.path
    try:
        if not holds_store(source):
            raise SetupError(render_missing(source.parent))
    except BROKEN as error:
        raise SetupError(f"the store {source} cannot be copied: {describe_broken(error)}") from None
    check_single(source.parent)
    reading, writing = connect(source, readonly=True), connect(target)
    try:
        with writing.backup("main", reading, "main") as backup:
            while not backup.done:
                backup.step(-1)
        writing.execute("PRAGMA journal_mode=DELETE")  # one file, without a log beside it
    except apsw.Error as error:
        raise SetupError(f"the store {source} cannot be copied: {error}") from None
    finally:
        writing.close()
        reading.close()


def save_open_store(db: Db, target: Path) -> None:
    """Save a store that is open and whose file is gone. The one that was saved before is replaced."""
    made = target.with_name(f".{target.name}")
    made.unlink(missing_ok=True)
    os.close(os.open(made, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
    db.upkeep.copy_to(made)
    os.replace(made, target)


def silence_copy(path: Path) -> None:
    """Take out of a copy, of any version, what would speak to somebody or keep an agent from its work there."""
    connection = apsw.Connection(str(path))
    try:
        there = {str(row[0]) for row in connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")}
        for table in sorted(there & _ACTING.keys()):
            connection.execute(_ACTING[table])
    except apsw.Error as error:
        raise SetupError(f"the store in it cannot be read: {error}") from None
    finally:
        connection.close()
