"""`docs/schema.sql` is the store's schema, printed: an empty file that was migrated has exactly that.
`docs/schema.postgres.sql` is the same on a server."""

import re
from pathlib import Path

import pytest

from gatepost.core.clock import SystemClock
from gatepost.store.engine.migrate import list_definitions, migrate, render_schema
from gatepost.store.engine.sqlite_db import SqliteDb, connect
from gatepost.store.postgres.dialect import render_postgres_schema
from gatepost_testing.servers.postgres import PACKAGE, PostgresServer, find_programs

PAGE = Path(__file__).resolve().parent.parent / "docs" / "schema.sql"
_OWN_NAME = re.compile(r"(?<=_pkey)\d+|(?<=_key)\d+")
POSTGRES_PAGE = PAGE.with_name("schema.postgres.sql")


def test_an_empty_store_is_migrated_to_exactly_the_printed_schema(tmp_path: Path) -> None:
    migrate(tmp_path / "gatepost.db", SystemClock())
    assert PAGE.read_text(encoding="utf-8") == render_schema(tmp_path / "gatepost.db"), "`make docs` prints it anew"


def test_the_printed_schema_makes_the_same_store(tmp_path: Path) -> None:
    printed = tmp_path / "printed.db"
    connection = connect(printed)
    connection.execute(PAGE.read_text(encoding="utf-8"))
    connection.close()
    assert render_schema(printed) == PAGE.read_text(encoding="utf-8")


def test_every_table_is_strict_and_every_working_row_can_be_leased(store_path: Path) -> None:
    connection = connect(store_path, readonly=True)
    db = SqliteDb(connection)
    loose = db.rows("SELECT name FROM pragma_table_list WHERE schema = 'main' AND type = 'table' AND strict = 0")
    leased = {"owner", "lease_until", "epoch", "next_at"}
    columns = {
        table: {row[0] for row in db.rows(f"SELECT name FROM pragma_table_info('{table}')")}
        for table in ("turns", "inbox", "outbox")
    }
    connection.close()

    assert [name for (name,) in loose if not name.startswith("sqlite_")] == []
    assert all(found >= leased for found in columns.values())


def test_the_printed_schema_of_postgres_is_what_migrations_make(tmp_path: Path) -> None:
    migrate(tmp_path / "gatepost.db", SystemClock())
    printed = render_postgres_schema(list_definitions(tmp_path / "gatepost.db"))
    assert POSTGRES_PAGE.read_text(encoding="utf-8") == printed, "`make docs` prints it anew"
    if find_programs() is None:
        pytest.skip(f"PostgreSQL is missing: apt-get install {PACKAGE}")
    from gatepost.store.postgres.migrate import migrate_postgres

    with PostgresServer() as server:
        migrate_postgres(server.add_database("migrated"), SystemClock())
        server.add_database("printed")
        server.execute(printed, "printed")
        assert describe(server, "printed") == describe(server, "migrated")


def describe(server: PostgresServer, database: str) -> dict[str, list[str]]:
    """Columns, constraints and indexes, but for the order of columns and the names of what a table declares itself."""
    asked = {
        "columns": "SELECT table_name, column_name, data_type, collation_name, is_nullable, column_default, is_identity"
        " FROM information_schema.columns WHERE table_schema = 'public'",
        "constraints": "SELECT conrelid::regclass, contype, pg_get_constraintdef(oid) FROM pg_constraint"
        " WHERE connamespace = 'public'::regnamespace",
        "indexes": "SELECT indexdef FROM pg_indexes WHERE schemaname = 'public'",
    }
    return {what: sorted(_OWN_NAME.sub("", server.execute(sql, database)).splitlines()) for what, sql in asked.items()}
