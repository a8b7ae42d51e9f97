"""Stores of earlier releases, kept as SQL, and the shape of a store in which two of them are compared."""

from pathlib import Path
from typing import Any

import apsw

from gatepost.store.engine.migrate import VERSIONS, list_migrations, record
from gatepost.store.engine.sqlite_db import SqliteDb, connect

SAMPLES = Path(__file__).with_name("samples")
STORES = ("store_0_1", "store_0_2")


def load_sample(connection: apsw.Connection, name: str) -> int:
    """Make the store of an earlier release; return the number of its last step."""
    connection.execute("PRAGMA foreign_keys = OFF")  # tables come in the order in which they were made
    connection.execute((SAMPLES / f"{name}.sql").read_text(encoding="utf-8"))
    connection.execute("PRAGMA foreign_keys = ON")
    ((number,),) = connection.execute("SELECT MAX(number) FROM schema_version").fetchall()
    return int(number)


def make_step_by_step(path: Path, last: int, now: int = 1) -> None:
    """Make a store by the steps themselves, up to one of them, as stores were made before there was a baseline."""
    connection = connect(path)
    db = SqliteDb(connection)
    db.define(VERSIONS)
    for each in list_migrations()[:last]:
        each.apply(db)
        record(db, each, now)
    connection.close()


def shape(path: Path) -> dict[str, Any]:
    """Tables by their columns and references, indexes by what they say: what `docs/schema.sql` says but for the order
    and the comments."""
    connection = connect(path, readonly=True)
    db = SqliteDb(connection)
    try:
        names = [row[0] for row in db.rows("SELECT name FROM sqlite_schema WHERE type = 'table' ORDER BY name")]
        found: dict[str, Any] = {}
        for name in names:
            if name == "schema_version":
                continue
            columns = sorted(row[1:] for row in db.rows(f"PRAGMA table_info({name})"))
            references = sorted(row[2:] for row in db.rows(f"PRAGMA foreign_key_list({name})"))
            found[name] = (columns, references)
        return found | dict(db.rows("SELECT name, sql FROM sqlite_schema WHERE type <> 'table' AND sql IS NOT NULL"))
    finally:
        connection.close()
