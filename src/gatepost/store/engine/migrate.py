"""Numbered migrations, one transaction each, together with the record that it ran. Never edited once shipped.

A store that is made gets all of them in one transaction: it is whole or empty, and synced to the disk once.
"""

import importlib
from collections.abc import Callable, Sequence
from functools import cache, partial
from pathlib import Path

import apsw
from msgspec import Struct

from gatepost.core.clock import Clock
from gatepost.core.errors import SetupError
from gatepost.core.registry import list_package_modules
from gatepost.store import migrations
from gatepost.store.engine.sqlite_db import SqliteDb, connect
from gatepost.store.port import Db


class Migration(Struct, frozen=True):
    number: int
    name: str
    apply: Callable[[Db], None]


@cache
def list_migrations() -> tuple[Migration, ...]:
    """In their order. Each is imported when it is applied: a store that is up to date needs none."""
    names = [info.name for info in list_package_modules(migrations.__name__)]
    return tuple(
        Migration(int(name.partition("_")[0]), name, partial(apply_module, migrations.__name__, name)) for name in names
    )


def apply_module(package: str, name: str, db: Db) -> None:
    importlib.import_module(f"{package}.{name}").apply(db)


def holds_store(path: Path) -> bool:
    """Return False if there is no file, or an empty database. Raise SetupError if it is somebody else's."""
    if not path.is_file() or path.stat().st_size == 0:
        return False
    connection = connect(path, readonly=True)
    try:
        return find_store(connection, path)
    finally:
        connection.close()


def find_store(connection: apsw.Connection, path: Path) -> bool:
    """The same for a file that is open."""
    columns = connection.execute("SELECT name FROM pragma_table_info('schema_version')").fetchall()
    if [name for (name,) in columns] == ["number", "name", "applied_at"]:
        return bool(connection.execute("SELECT 1 FROM schema_version LIMIT 1").fetchall())
    if connection.execute("SELECT 1 FROM sqlite_schema LIMIT 1").fetchall():
        raise SetupError(
            f"{path} is a database of something else, no store of gatepost, and was left as it is; move it away, then"
            " restore a backup (docs/operations.md), or choose another home with --home"
        )
    return False


def migrate(path: Path, clock: Clock) -> int:
    """Bring a SQLite store up to date; the version that it has afterwards. A store from a newer one is left alone, and
    so is a database of something else."""
    holds_store(path)
    connection = connect(path)
    db = SqliteDb(connection)
    try:
        connection.execute("PRAGMA synchronous=FULL")
        connection.execute("BEGIN IMMEDIATE")
        db.define(
            "CREATE TABLE IF NOT EXISTS schema_version"
            " (number {int} PRIMARY KEY, name {text} NOT NULL, applied_at {int} NOT NULL) {strict}"
        )
        connection.execute("COMMIT")
        known = list_migrations()
        done = {row[0] for row in db.rows("SELECT number FROM schema_version")}
        newest = max((each.number for each in known), default=0)
        if done and max(done) > newest:
            raise SetupError(
                f"the store {path} was written by a newer gatepost (schema {max(done)}, this one knows {newest});"
                " upgrade gatepost, or restore a backup"
            )
        pending = [each for each in known if each.number not in done]
        if done:
            for each in pending:
                _apply(connection, db, [each], clock.now())
        else:
            _apply(connection, db, pending, clock.now())
        return newest
    finally:
        connection.close()


def _apply(connection: apsw.Connection, db: SqliteDb, together: Sequence[Migration], now: int) -> None:
    """In one transaction, each with its record."""
    name = ""
    connection.execute("BEGIN IMMEDIATE")
    try:
        for migration in together:
            name = migration.name
            migration.apply(db)
            db.run("INSERT INTO schema_version VALUES (?, ?, ?)", (migration.number, name, now))
        connection.execute("COMMIT")
    except BaseException as error:
        if connection.in_transaction:  # a full disk has rolled it back already
            connection.execute("ROLLBACK")
        if isinstance(error, apsw.Error):
            raise SetupError(f"the store cannot be brought to schema {name}: {error}; nothing was changed") from error
        raise


def render_schema(path: Path) -> str:
    """The schema as text, for `docs/schema.sql`."""
    return "".join(f"{sql};\n" for sql in list_definitions(path))


def list_definitions(path: Path) -> list[str]:
    """The statements that make the schema."""
    connection = connect(path, readonly=True)
    try:
        rows = connection.execute(
            # As it can be made again: triggers last. What a virtual table makes for itself is not ours.
            "SELECT sql FROM sqlite_schema WHERE sql IS NOT NULL AND name NOT LIKE 'sqlite_%'"
            " AND name NOT IN (SELECT name FROM pragma_table_list WHERE type = 'shadow')"
            " ORDER BY type = 'trigger', type DESC, name"
        ).fetchall()
        return [str(sql) for (sql,) in rows]
    finally:
        connection.close()
