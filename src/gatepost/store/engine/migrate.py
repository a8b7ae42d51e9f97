"""Numbered migrations, one transaction each, together with the record that it ran. Never edited once shipped.

A new store gets the baseline, which stands for the steps of earlier versions, and the later steps. All of that is one
transaction: the store is whole or empty, and synced to the disk once.
"""

import importlib
import re
from collections.abc import Callable, Collection, Sequence
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

SQLITE, POSTGRES = "sqlite", "postgres"
VERSIONS = (
    "CREATE TABLE IF NOT EXISTS schema_version"
    " (number {int} PRIMARY KEY, name {text} NOT NULL, applied_at {int} NOT NULL) {strict}"
)
_SECTION = re.compile(r"^-- \[(\w+)\]\n", re.MULTILINE)


class Migration(Struct, frozen=True):
    number: int
    name: str
    apply: Callable[[Db], None]
    stands_for: tuple["Migration", ...] = ()  # earlier steps, whose work it does as well


@cache
def list_migrations(engine: str = SQLITE) -> tuple[Migration, ...]:
    """In their order. Each is imported when it is applied: a store that is up to date needs none."""
    folded = [(module, name, f"apply_{name[:4]}") for module, names in migrations.FOLDED.items() for name in names]
    found = [info.name for info in list_package_modules(migrations.__name__) if info.name not in migrations.FOLDED]
    return tuple(
        Migration(int(name[:4]), name, partial(_apply_step, module, function, engine))
        for module, name, function in (*folded, *((name, name, "apply") for name in found))
    )


def _apply_step(module: str, function: str, engine: str, db: Db) -> None:
    """Apply the form of an engine, if there is one (`apply_postgres`), else the form for both."""
    step = importlib.import_module(f"{migrations.__name__}.{module}")
    apply = getattr(step, f"{function}_{engine}", None) or getattr(step, function)
    apply(db)


def list_pending(known: Sequence[Migration], done: Collection[int], engine: str = SQLITE) -> list[Migration]:
    """Return the steps that a store lacks. A new store lacks all: it gets the baseline in place of the folded ones."""
    if done:
        return [each for each in known if each.number not in done]
    count = sum(map(len, migrations.FOLDED.values()))
    *before, last = known[:count]
    return [Migration(last.number, last.name, partial(apply_baseline, engine), tuple(before)), *known[count:]]


def apply_baseline(engine: str, db: Db) -> None:
    """Make the tables as the folded steps would leave them in an empty store, in the caller's transaction."""
    db.define(read_baseline(engine))


def read_baseline(engine: str) -> str:
    """Return the definitions for an engine: the sections of `baseline.sql` that are for both, or for this one."""
    text = Path(migrations.__path__[0], "baseline.sql").read_text(encoding="utf-8")
    _, *parts = _SECTION.split(text)
    return "".join(part for name, part in zip(parts[::2], parts[1::2], strict=True) if name in ("both", engine))


def record(db: Db, migration: Migration, now: int) -> None:
    """Note that a step ran, and those that it stands for."""
    for each in (*migration.stands_for, migration):
        db.append("INSERT INTO schema_version (number, name, applied_at) VALUES", (each.number, each.name, now))
    db.flush()


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
        db.define(VERSIONS)
        connection.execute("COMMIT")
        known = list_migrations()
        done = {row[0] for row in db.rows("SELECT number FROM schema_version")}
        newest = max((each.number for each in known), default=0)
        if done and max(done) > newest:
            raise SetupError(
                f"the store {path} was written by a newer gatepost (schema {max(done)}, this one knows {newest});"
                " upgrade gatepost, or restore a backup"
            )
        pending = list_pending(known, done)
        for together in [[each] for each in pending] if done else [pending]:
            _apply(connection, db, together, clock.now())
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
            record(db, migration, now)
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
