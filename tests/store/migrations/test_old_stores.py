"""Stores of earlier releases come up to date with their rows. Their samples are SQL that was written out of them."""

from pathlib import Path

import apsw
import pytest
from tests.store.migrations.old_stores import SAMPLES, STORES, load_sample, shape

from gatepost.core.clock import SystemClock
from gatepost.store import search
from gatepost.store.engine.migrate import list_migrations, migrate
from gatepost.store.engine.sqlite_db import SqliteDb, connect
from gatepost.store.migrations import RELEASES
from gatepost.store.people import identities, logins, users
from gatepost.store.rights import requests
from gatepost.store.rights.requests import RequestState
from gatepost.store.search import SearchQuery, Subtree

WHEN = 1_763_200_000_000_000
ROOT = Subtree("root", everything=True)


@pytest.fixture(params=STORES)
def old_store(tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    connection = connect(tmp_path / "old.db")
    load_sample(connection, request.param)
    connection.close()
    return tmp_path / "old.db"


def test_the_last_step_of_each_release_is_that_of_its_store() -> None:
    found = {}
    for name in STORES:
        connection = apsw.Connection(":memory:")
        found[f"{name.removeprefix('store_').replace('_', '.')}.0"] = load_sample(connection, name)
        connection.close()
    assert found == {version: int(step[:4]) for version, step in RELEASES.items()}


def test_samples_are_small() -> None:
    assert {path.stem for path in SAMPLES.iterdir()} == set(STORES)
    assert all(path.stat().st_size < 100_000 for path in SAMPLES.iterdir())


def test_a_store_of_an_earlier_release_gets_the_schema_of_a_new_one(old_store: Path, store_path: Path) -> None:
    assert migrate(old_store, SystemClock()) == list_migrations()[-1].number

    assert shape(old_store) == shape(store_path)
    connection = connect(old_store, readonly=True)
    names = connection.execute("SELECT name FROM schema_version ORDER BY number").fetchall()
    assert [name for (name,) in names] == [each.name for each in list_migrations()]
    assert connection.execute("PRAGMA foreign_key_check").fetchall() == []
    assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    connection.close()


def test_no_row_of_an_earlier_release_is_lost(old_store: Path) -> None:
    before = count_rows(old_store)
    migrate(old_store, SystemClock())
    after = count_rows(old_store)

    moved = {"permissions", "audit_anchor", "user_roles", "memberships", "schema_version", "unsearched", "spending"}
    kept = before.keys() - moved
    assert {name: after[name] for name in kept} == {name: before[name] for name in kept}
    assert after["requests"] == before["permissions"] == 2
    assert after["audit_anchors"] == before.get("audit_anchor", 0)
    assert after["spending"] == before["spending"] + 1  # the open conversation, which has cost something
    assert (before["user_roles"], after["user_roles"]) == (2, 1)  # the owner's identities became one person


def count_rows(path: Path) -> dict[str, int]:
    connection = connect(path, readonly=True)
    tables = connection.execute(
        "SELECT name FROM pragma_table_list WHERE schema = 'main' AND type = 'table' AND name NOT LIKE 'sqlite_%'"
    ).fetchall()
    found = {str(name): int(connection.execute(f"SELECT COUNT(*) FROM {name}").fetchall()[0][0]) for (name,) in tables}
    connection.close()
    return found


def test_rows_of_an_earlier_release_are_read_as_they_were_meant(old_store: Path) -> None:
    migrate(old_store, SystemClock())
    connection = connect(old_store)
    db = SqliteDb(connection)

    assert identities.list_names(db, "web:user/owner") == ("terminal:owner", "web:user/owner")
    assert {each.id for each in users.list_all(db)} == {"terminal:owner", "telegram:user/7"}
    asked = requests.list_by_ids(db, ["p-1", "p-2"])
    assert [(each.id, each.state, each.folder, each.name) for each in asked] == [
        ("p-1", RequestState.PENDING, "acme", "0"),
        ("p-2", RequestState.WITHDRAWN, "acme", "0"),
    ]
    assert [(each.way, each.last_seen_at) for each in logins.list_all(db, WHEN)] == [("one_time_link", WHEN)]
    while search.index(db):
        pass
    assert [hit.id for hit in search.find(db, SearchQuery(query="tea", part=ROOT))] == [1]
    assert db.rows("SELECT answers FROM outbox WHERE turn_id = 't-2'") == [(2,)]
    connection.close()
