"""The baseline: a new store cannot be told from one that went through every step."""

import runpy
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from tests.store.migrations.old_stores import make_step_by_step

from gatepost.core.clock import SystemClock
from gatepost.store import migrations
from gatepost.store.engine import migrate as module
from gatepost.store.engine.migrate import POSTGRES, VERSIONS, list_migrations, migrate, record
from gatepost.store.engine.sqlite_db import connect
from gatepost.store.postgres.connection import open_connection
from gatepost.store.postgres.migrate import apply_all, migrate_postgres
from gatepost.store.postgres.postgres_db import PostgresDb
from gatepost_testing.clock import FixedClock
from gatepost_testing.servers.postgres import PACKAGE, PostgresServer, find_programs

FOLDED = sum(map(len, migrations.FOLDED.values()))
# One fault of each kind: a table, a column, a default, an index, a trigger, a comment, and a row that a step wrote.
FAULTS = (
    ("CREATE TABLE switches", "CREATE TABLE levers"),
    ("failure {text} NOT NULL DEFAULT ''", "failures {text} NOT NULL DEFAULT ''"),
    ("open {int} NOT NULL DEFAULT 1,", "open {int} NOT NULL DEFAULT 0,"),
    ("CREATE INDEX turns_room ON turns (instance, address, ended_at)", "CREATE INDEX turns_room ON turns (instance)"),
    ("CREATE INDEX costs_at ON costs (at);\n", ""),
    ("REFERENCES groups (folder) ON DELETE CASCADE", "REFERENCES groups (folder)"),
    ("VALUES (1, 'first', 'first')", "VALUES (1, 'second', 'first')"),
)
SQLITE_FAULTS = (
    ("-- the sender's address, telegram:user/9", "-- an address"),
    ("AFTER DELETE ON messages", "BEFORE DELETE ON messages"),
    ("VALUES ('deletemerge', 0)", "VALUES ('deletemerge', 1)"),
)
POSTGRES_FAULTS = (
    ("WITH (fastupdate = off)", ""),
    ("CONSTRAINT secrets_pkey TO secrets_pkey1", "CONSTRAINT secrets_pkey TO secrets_pkey2"),
)


def plant(monkeypatch: pytest.MonkeyPatch, before: str, after: str) -> None:
    """Put a fault into the baseline."""
    read = module.read_baseline
    assert before in read("sqlite") + read("postgres")
    monkeypatch.setattr(module, "read_baseline", lambda engine: read(engine).replace(before, after, 1))


def describe_file(path: Path) -> dict[str, Any]:
    """Return every definition and every row, but for the moments at which steps ran."""
    connection = connect(path, readonly=True)
    try:
        schema = connection.execute("SELECT type, name, tbl_name, sql FROM sqlite_schema").fetchall()
        found: dict[str, Any] = {"schema": sorted(schema, key=str)}
        for table in sorted(str(name) for kind, name, *_ in schema if kind == "table"):
            found[table] = sorted(connection.execute(f'SELECT * FROM "{table}"').fetchall(), key=str)
        found["schema_version"] = [row[:2] for row in found["schema_version"]]
        return found
    finally:
        connection.close()


@pytest.fixture(scope="module")
def by_steps(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    path = tmp_path_factory.mktemp("steps") / "steps.db"
    make_step_by_step(path, len(list_migrations()))
    return describe_file(path)


def test_a_new_file_has_every_definition_and_row_of_one_that_took_each_step(
    tmp_path: Path, by_steps: dict[str, Any]
) -> None:
    migrate(tmp_path / "new.db", SystemClock())
    assert describe_file(tmp_path / "new.db") == by_steps


@pytest.mark.parametrize(("before", "after"), FAULTS + SQLITE_FAULTS)
def test_a_difference_in_a_new_file_is_found(
    tmp_path: Path, by_steps: dict[str, Any], monkeypatch: pytest.MonkeyPatch, before: str, after: str
) -> None:
    plant(monkeypatch, before, after)
    migrate(tmp_path / "new.db", SystemClock())
    assert describe_file(tmp_path / "new.db") != by_steps


def test_a_new_store_has_a_record_of_every_step(tmp_path: Path) -> None:
    migrate(tmp_path / "new.db", FixedClock())
    connection = connect(tmp_path / "new.db", readonly=True)
    rows = connection.execute("SELECT number, name, applied_at FROM schema_version ORDER BY number").fetchall()
    connection.close()
    assert rows == [(each.number, each.name, FixedClock().now()) for each in list_migrations()]


def test_later_steps_are_applied_on_top_of_the_baseline() -> None:
    known = list_migrations()
    baseline, *later = module.list_pending(known, ())
    assert (baseline.number, baseline.name) == (known[FOLDED - 1].number, known[FOLDED - 1].name)
    assert baseline.stands_for == known[: FOLDED - 1]
    assert tuple(later) == known[FOLDED:]
    assert module.list_pending(known, range(1, FOLDED)) == [*known[FOLDED - 1 :]]


def test_the_script_prints_the_baseline_as_it_is() -> None:
    script = runpy.run_path(str(Path(__file__).parents[3] / "scripts" / "print_baseline.py"))
    text = script["BASELINE"].read_text(encoding="utf-8")
    _, _, postgres = text.partition("-- [postgres]\n")
    assert script["render_baseline"](postgres) == text


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    if find_programs() is None:
        pytest.skip(f"PostgreSQL is missing: apt-get install {PACKAGE}")
    with PostgresServer() as found:
        yield found


# By names alone, never by the numbers that a server gives.
CATALOG = {
    "columns": "SELECT table_name, ordinal_position, column_name, data_type, collation_name, is_nullable,"
    " column_default, is_identity, identity_generation FROM information_schema.columns WHERE table_schema = 'public'",
    "constraints": "SELECT conrelid::regclass, conname, contype, pg_get_constraintdef(oid) FROM pg_constraint"
    " WHERE connamespace = 'public'::regnamespace",
    "indexes": "SELECT tablename, indexname, indexdef FROM pg_indexes WHERE schemaname = 'public'",
    "relations": "SELECT relname, relkind, reloptions FROM pg_class WHERE relnamespace = 'public'::regnamespace",
    "sequences": "SELECT sequencename, data_type, start_value, last_value FROM pg_sequences"
    " WHERE schemaname = 'public'",
    "triggers": "SELECT tgrelid::regclass, tgname FROM pg_trigger WHERE NOT tgisinternal",
    "versions": "SELECT number, name FROM schema_version",
}


def describe_database(server: PostgresServer, database: str) -> dict[str, list[str]]:
    """Return every definition and every row, but for the moments at which steps ran."""
    with psycopg.connect(server.url(database)) as connection:
        found = {what: sorted(map(str, connection.execute(sql))) for what, sql in CATALOG.items()}
        tables = connection.execute("SELECT tablename FROM pg_tables WHERE schemaname = 'public'").fetchall()
        for table in sorted({name for (name,) in tables} - {"schema_version"}):
            found[f"rows of {table}"] = [*map(str, connection.execute(f"SELECT * FROM {table}"))]
        return found


@pytest.fixture(scope="module")
def database_by_steps(server: PostgresServer) -> dict[str, list[str]]:
    connection = open_connection(server.add_database("steps"))
    db = PostgresDb(connection.pgconn)
    db.define(VERSIONS)
    for each in list_migrations(POSTGRES):
        each.apply(db)
        record(db, each, 1)
    connection.close()
    return describe_database(server, "steps")


def test_a_new_database_has_every_definition_and_row_of_one_that_took_each_step(
    server: PostgresServer, database_by_steps: dict[str, list[str]]
) -> None:
    migrate_postgres(server.add_database("fresh"), SystemClock())
    assert describe_database(server, "fresh") == database_by_steps


def test_a_database_for_a_copy_is_made_in_the_same_way(
    server: PostgresServer, database_by_steps: dict[str, list[str]]
) -> None:
    connection = open_connection(server.add_database("copied"))
    apply_all(PostgresDb(connection.pgconn), 1)
    connection.close()
    assert describe_database(server, "copied") == database_by_steps


@pytest.mark.parametrize("number", range(len(FAULTS + POSTGRES_FAULTS)))
def test_a_difference_in_a_new_database_is_found(
    server: PostgresServer, database_by_steps: dict[str, list[str]], monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    plant(monkeypatch, *(FAULTS + POSTGRES_FAULTS)[number])
    migrate_postgres(server.add_database(f"fault{number}"), SystemClock())
    assert describe_database(server, f"fault{number}") != database_by_steps
