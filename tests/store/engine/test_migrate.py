"""Migrations: one transaction each, with its record, but one for all of a new store; a newer store is left alone."""

import sys
from importlib.machinery import FileFinder
from pathlib import Path
from pkgutil import ModuleInfo
from types import ModuleType

import pytest

from gatepost.core.clock import SystemClock
from gatepost.core.errors import SetupError
from gatepost.core.registry import list_package_modules
from gatepost.store import migrations
from gatepost.store.engine import migrate as module
from gatepost.store.engine.migrate import POSTGRES, SQLITE, Migration, list_migrations, migrate, render_schema
from gatepost.store.engine.sqlite_db import SqliteDb, connect
from gatepost.store.port import Db


def tables(path: Path) -> set[str]:
    connection = connect(path, readonly=True)
    names = {row[0] for row in SqliteDb(connection).rows("SELECT name FROM sqlite_schema WHERE type = 'table'")}
    connection.close()
    return names


def test_a_second_run_changes_nothing(store_path: Path) -> None:
    before = render_schema(store_path)
    assert migrate(store_path, SystemClock()) == list_migrations()[-1].number
    assert render_schema(store_path) == before


def broken(with_what: str) -> Migration:
    def apply(db: Db) -> None:
        db.define("CREATE TABLE half_done (id {id}) {strict}")
        db.define(with_what)

    return Migration(9000, "9000_broken", apply)


def test_a_failed_migration_leaves_nothing_behind(store_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = render_schema(store_path)
    known = [*list_migrations(), broken("CREATE TABLE this is no SQL")]
    monkeypatch.setattr(module, "list_migrations", lambda: known)

    with pytest.raises(SetupError, match=r"cannot be brought to schema 9000_broken: .*; nothing was changed"):
        migrate(store_path, SystemClock())

    assert "half_done" not in tables(store_path)
    assert render_schema(store_path) == before
    known[-1] = broken("CREATE TABLE whole (id {id}) {strict}")
    assert migrate(store_path, SystemClock()) == 9000
    assert tables(store_path) >= {"half_done", "whole"}


def test_a_store_whose_making_failed_is_empty_and_can_be_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, known = tmp_path / "new.db", list_migrations()
    monkeypatch.setattr(module, "list_migrations", lambda: [*known, broken("CREATE TABLE this is no SQL")])

    with pytest.raises(SetupError, match=r"cannot be brought to schema 9000_broken: .*; nothing was changed"):
        migrate(path, SystemClock())

    assert tables(path) == {"schema_version"}
    monkeypatch.setattr(module, "list_migrations", lambda: known)
    assert migrate(path, SystemClock()) == known[-1].number


def test_an_old_store_keeps_the_migrations_before_the_one_that_failed(
    store_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fine = Migration(8999, "8999_fine", lambda db: db.define("CREATE TABLE fine (id {id}) {strict}"))
    known = [*list_migrations(), fine, broken("CREATE TABLE this is no SQL")]
    monkeypatch.setattr(module, "list_migrations", lambda: known)

    with pytest.raises(SetupError, match="cannot be brought to schema 9000_broken"):
        migrate(store_path, SystemClock())

    assert "fine" in tables(store_path)
    assert "half_done" not in tables(store_path)


def test_a_step_in_a_file_of_its_own_may_have_a_form_for_postgres(
    store_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name, applied = "9000_trial", []
    step = ModuleType(name)
    step.__dict__.update(apply=lambda db: applied.append("both"), apply_postgres=lambda db: applied.append("postgres"))
    monkeypatch.setitem(sys.modules, f"{migrations.__name__}.{name}", step)
    found = (*list_package_modules(migrations.__name__), ModuleInfo(FileFinder("."), name, False))
    monkeypatch.setattr(module, "list_package_modules", lambda package: found)
    connection = connect(store_path)
    for engine in (SQLITE, POSTGRES):
        last = list_migrations.__wrapped__(engine)[-1]
        assert (last.number, last.name) == (9000, name)
        last.apply(SqliteDb(connection))
    connection.close()
    assert applied == ["both", "postgres"]


def test_a_newer_store_refuses_to_open_and_stays_as_it_is(store_path: Path) -> None:
    connection = connect(store_path)
    SqliteDb(connection).run("INSERT INTO schema_version VALUES (9999, 'from the future', 1)")
    connection.close()
    before = render_schema(store_path)

    with pytest.raises(SetupError, match=r"written by a newer gatepost \(schema 9999, this one knows \d+\); upgrade"):
        migrate(store_path, SystemClock())
    assert render_schema(store_path) == before


def test_references_hold_everywhere(store_path: Path) -> None:
    for readonly in (False, True):
        connection = connect(store_path, readonly=readonly)
        assert SqliteDb(connection).row("PRAGMA foreign_keys") == (1,)
        connection.close()
