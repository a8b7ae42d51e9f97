"""Migrations: one transaction each, with its record; a newer store is left alone."""

from pathlib import Path

import pytest

from gatepost.core.clock import SystemClock
from gatepost.core.errors import SetupError
from gatepost.store import migrate as module
from gatepost.store.migrate import Migration, all_migrations, migrate, printed_schema
from gatepost.store.port import Db
from gatepost.store.writer import Sqlite, connect


def tables(path: Path) -> set[str]:
    connection = connect(path, readonly=True)
    names = {row[0] for row in Sqlite(connection).rows("SELECT name FROM sqlite_schema WHERE type = 'table'")}
    connection.close()
    return names


def test_migrations_are_numbered_without_gaps_and_described() -> None:
    found = all_migrations()
    assert [each.number for each in found] == list(range(1, len(found) + 1))
    assert all(each.apply.__module__.endswith(each.name) for each in found)


def test_a_second_run_changes_nothing(store_path: Path) -> None:
    before = printed_schema(store_path)
    assert migrate(store_path, SystemClock()) == all_migrations()[-1].number
    assert printed_schema(store_path) == before


def broken(with_what: str) -> Migration:
    def apply(db: Db) -> None:
        db.define("CREATE TABLE half_done (id {id}) {strict}")
        db.define(with_what)

    return Migration(9000, "9000_broken", apply)


def test_a_failed_migration_leaves_nothing_behind(store_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = printed_schema(store_path)
    known = [*all_migrations(), broken("CREATE TABLE this is no SQL")]
    monkeypatch.setattr(module, "all_migrations", lambda: known)

    with pytest.raises(SetupError, match=r"cannot be brought to schema 9000_broken: .*; nothing was changed"):
        migrate(store_path, SystemClock())

    assert "half_done" not in tables(store_path)
    assert printed_schema(store_path) == before
    known[-1] = broken("CREATE TABLE whole (id {id}) {strict}")
    assert migrate(store_path, SystemClock()) == 9000
    assert tables(store_path) >= {"half_done", "whole"}


def test_a_newer_store_refuses_to_open_and_stays_as_it_is(store_path: Path) -> None:
    connection = connect(store_path)
    Sqlite(connection).run("INSERT INTO schema_version VALUES (9999, 'from the future', 1)")
    connection.close()
    before = printed_schema(store_path)

    with pytest.raises(SetupError, match=r"written by a newer gatepost \(schema 9999, this one knows \d+\); upgrade"):
        migrate(store_path, SystemClock())
    assert printed_schema(store_path) == before


def test_references_hold_everywhere(store_path: Path) -> None:
    for readonly in (False, True):
        connection = connect(store_path, readonly=readonly)
        assert Sqlite(connection).row("PRAGMA foreign_keys") == (1,)
        connection.close()


def test_requests_are_kept_when_answers_come_to_hold_for_what_was_asked(tmp_path: Path) -> None:
    path = tmp_path / "old.db"
    connection = connect(path)
    db = Sqlite(connection)
    for each in all_migrations()[:13]:
        each.apply(db)
    db.run("PRAGMA foreign_keys = OFF")
    db.run(
        "INSERT INTO permissions (id, session_id, turn_id, request, kind, tool, input, state, asked_at)"
        " VALUES ('p-1', 's-1', 't-1', '0', 'tool', 'Bash', '{\"command\": \"ls\"}', 'allowed', 7)"
    )
    all_migrations()[13].apply(db)
    assert db.rows("SELECT id, request, digest, input, cut, answer, state, asked_at FROM permissions") == [
        ("p-1", "0", "", '{"command": "ls"}', 0, "{}", "allowed", 7)
    ]
    connection.close()
