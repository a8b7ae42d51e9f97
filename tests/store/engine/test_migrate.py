"""Migrations: one transaction each, with its record, but one for all of a new store; a newer store is left alone."""

import hashlib
import importlib
from pathlib import Path
from typing import Any

import pytest

from gatepost.core.clock import SystemClock
from gatepost.core.errors import SetupError
from gatepost.store import migrations
from gatepost.store.engine import migrate as module
from gatepost.store.engine.migrate import Migration, list_migrations, migrate, render_schema
from gatepost.store.engine.sqlite_db import SqliteDb, connect
from gatepost.store.people import identities, logins, users
from gatepost.store.port import Db

# A migration that is in the main branch is in somebody's store: it is never edited again. A new one is added here.
SHIPPED = {
    "0001_spine": "3d5e1742d995ad75",
    "0002_money": "86afa3cafd095f76",
    "0003_secrets": "81eba2b752bdeb3f",
    "0004_egress": "98192dfb95cec66c",
    "0005_limits": "f331ee904fce4225",
    "0006_switches": "ccb9c8992fa086d9",
    "0007_bindings": "965b3d8286be276a",
    "0008_access": "43995f765c7b74dd",
    "0009_watchers": "7f285c1dbc2773f5",
    "0010_search": "6a982806b94d9a7b",
    "0011_agents": "04cfd20ff96f9100",
    "0012_plans": "d37dcef086266699",
    "0013_worktrees": "f927c34e333c7267",
    "0014_answers": "28a0fb5fbf092295",
    "0015_secret_origins": "6ad99a2f71e49725",
    "0016_early_stores": "ab0e27ec19bb827b",
    "0017_origins": "63508b85f4fc0bab",
    "0018_calls": "45441f7e90f37410",
    "0019_uids": "ce02d82053490b8d",
    "0020_growth": "e99bbc224cec451b",
    "0021_said": "f9c57f282b7089c5",
    "0022_rule_state": "e3ed8d605923f17f",
    "0023_requests": "1c6bc57555bd2563",
    "0024_identities": "d3603c050f23688d",
    "0025_questions": "7d9cbb1211a315b3",
    "0026_waiting_turns": "a1c774186acb5909",
    "0027_session_notes": "af082f7077453680",
    "0028_tokens": "ba5a88bce90d989b",
    "0029_requests_by_group": "12e74c1a4a86788d",
    "0030_channels": "6c96922d7f0bf0e6",
    "0031_tasks": "3824e624eb307592",
    "0032_engagements": "674492b7cb15f092",
    "0033_errands": "bc22cf9f23748723",
    "0034_forks": "a4ea5d8ce1528585",
    "0035_pinned_rules_and_replays": "6d6a2cc7b1714aa1",
    "0036_wanted_forks": "870f3eb211ae1804",
    "0037_live_rooms": "8ae8f306aba41480",
    "0038_task_titles_and_holds": "7643f48177d7539b",
    "0039_unclear_effects": "35471dd4d72dc9be",
    "0040_api_tokens": "b22e935658907879",
    "0041_browsers_that_are_signed_in": "0a1a6e90c524ed3a",
    "0042_passwords": "70ec8fb945d80ec4",
    "0043_passkeys": "ec2a279bd97bfd2a",
    "0044_hook_links": "bacc4efd366f5bdb",
    "0045_web_routes": "48e5673cd0516df1",
    "0046_chat_links": "797c74f3df2bf086",
    "0047_spent_tickets": "1c094e26943d5dd2",
    "0048_open_rows": "72fdafbab9be5b73",
    "0049_gateways": "a1787121e211c843",
    "0050_spending": "7920a92a6f94546c",
    "0051_approved_as_seen": "835d9c8564bc7817",
    "0052_incarnations": "16bdd802b922db9f",
    "0053_seen_cards": "facd6c0f395cd021",
    "0054_duty_health": "4ead96b4d08b6c86",
    "0055_turns_of_rooms": "3bcbc4b0651f2492",
    "0056_files_and_history": "cb40bae03e984ff9",
    "0057_continued_messages": "048c9c5a624504c4",
    "0058_failed_calls": "e1d5ed18c117b8c9",
}


def test_every_migration_is_listed() -> None:
    assert {each.name for each in list_migrations()} == SHIPPED.keys()


@pytest.mark.parametrize("name", SHIPPED)
def test_stranger_24_a_shipped_migration_is_never_edited(name: str) -> None:
    text = (Path(migrations.__path__[0]) / f"{name}.py").read_bytes()
    assert hashlib.sha256(text).hexdigest()[:16] == SHIPPED[name], "add a new migration instead"


def tables(path: Path) -> set[str]:
    connection = connect(path, readonly=True)
    names = {row[0] for row in SqliteDb(connection).rows("SELECT name FROM sqlite_schema WHERE type = 'table'")}
    connection.close()
    return names


def test_migrations_are_numbered_without_gaps_and_described() -> None:
    found = list_migrations()
    assert [each.number for each in found] == list(range(1, len(found) + 1))
    modules = [importlib.import_module(f"{migrations.__name__}.{each.name}") for each in found]
    assert all(module.__doc__ and callable(module.apply) for module in modules)


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


def test_requests_are_kept_when_answers_come_to_hold_for_what_was_asked(tmp_path: Path) -> None:
    path = tmp_path / "old.db"
    connection = connect(path)
    db = SqliteDb(connection)
    for each in list_migrations()[:13]:
        each.apply(db)
    db.run("PRAGMA foreign_keys = OFF")
    db.run(
        "INSERT INTO permissions (id, session_id, turn_id, request, kind, tool, input, state, asked_at)"
        " VALUES ('p-1', 's-1', 't-1', '0', 'tool', 'Bash', '{\"command\": \"ls\"}', 'allowed', 7)"
    )
    list_migrations()[13].apply(db)
    assert db.rows("SELECT id, request, digest, input, cut, answer, state, asked_at FROM permissions") == [
        ("p-1", "0", "", '{"command": "ls"}', 0, "{}", "allowed", 7)
    ]
    connection.close()


def test_the_owner_of_an_old_store_becomes_one_person(tmp_path: Path) -> None:
    connection = connect(tmp_path / "old.db")
    db = SqliteDb(connection)
    for each in list_migrations()[:23]:
        each.apply(db)
    for user in ("terminal:owner", "web:user/owner"):
        users.add(db, user, "Owner", 7)
        db.run("INSERT INTO user_roles VALUES (?, 'owner', '', 'gatepost', 7)", (user,))
    db.run("INSERT INTO budgets VALUES ('user', 'web:user/owner', 'day', 5, 'operator', 7)")
    list_migrations()[23].apply(db)
    assert identities.list_names(db, "web:user/owner") == ("terminal:owner", "web:user/owner")
    assert db.rows("SELECT user_id FROM user_roles") == [("terminal:owner",)]
    assert db.rows("SELECT name, micro FROM budgets") == [("terminal:owner", 5)]
    assert [each.id for each in users.list_all(db)] == ["terminal:owner"]
    connection.close()


def test_a_browser_of_an_old_store_stays_signed_in_and_can_be_named(tmp_path: Path) -> None:
    connection = connect(tmp_path / "old.db")
    db = SqliteDb(connection)
    for each in list_migrations()[:40]:
        each.apply(db)
    users.add(db, "web:user/owner", "Owner", 7)
    for kind, token in (("browser", "t-1"), ("browser", "t-2"), ("once", "t-3")):
        hashed = hashlib.sha256(token.encode()).hexdigest()
        db.run("INSERT INTO logins VALUES (?, ?, 'web:user/owner', 100, 7)", (hashed, kind))
    list_migrations()[40].apply(db)
    one, two = (logins.find_browser(db, token, 8) for token in ("t-1", "t-2"))
    assert one and two and one.id != two.id and one.last_seen_at == 7 and one.way == "one_time_link"
    assert logins.redeem(db, "t-3", 8) == "web:user/owner"
    connection.close()


# How migration 0001 was edited after it was first used, newest first: what it has now, and what it had before.
EDITS = (
    (
        (
            "        window_messages {int},                    -- observed context that its route shows;"
            " NULL: as its group says\n        window_chars {int},\n        owner",
            "        owner",
        ),
        ("CREATE INDEX inbox_observed ON inbox (session_id, seq) WHERE mode = 'observe' AND given = 0", ""),
    ),
    (
        (
            "        spared {int} NOT NULL DEFAULT 0,          -- attempts that do not count: ended in good order\n",
            "",
        ),
    ),
    (("CREATE UNIQUE INDEX turns_open", "CREATE INDEX turns_open"),),
    (
        (
            "REFERENCES sessions (id) ON DELETE SET NULL,  -- NULL: it reached none, or its group is gone",
            "REFERENCES sessions (id) ON DELETE CASCADE,  -- NULL: it reached no session",
        ),
    ),
)


def early_store(path: Path, edits: int) -> None:
    """A store as the first migration made it before its last edits, with a turn and its message."""
    spine = importlib.import_module(f"{migrations.__name__}.0001_spine")
    ddl = list(spine.TABLES)
    for before, after in (pair for edit in EDITS[:edits] for pair in edit):
        assert any(before in each for each in ddl)
        ddl = [each.replace(before, after) for each in ddl]
    connection = connect(path)
    db = SqliteDb(connection)
    db.define("CREATE TABLE schema_version (number {int} PRIMARY KEY, name {text} NOT NULL, applied_at {int} NOT NULL)")
    for each in filter(None, ddl):
        db.define(each)
    db.run("INSERT INTO schema_version VALUES (1, '0001_spine', 1)")
    db.run("INSERT INTO groups (folder, name, created_at) VALUES ('acme', 'Acme', 1)")
    db.run(
        "INSERT INTO sessions (id, key, folder, mode, instance, address, thread, created_at, active_at)"
        " VALUES ('s-1', 'k', 'acme', 'per-thread', 'web', 'web:home', '', 1, 1)"
    )
    turn = "INSERT INTO turns (id, session_id, folder, provider, instance, address, thread, rights, state, next_at,"
    turn += (
        " owner, lease_until, started_at) VALUES (?, 's-1', 'acme', 'demo', 'web', 'web:home', '', 'owner', 'begun',"
    )
    turn += " 9, 'd', 9, ?)"
    for number in (1, 2) if edits > 2 else (2,):
        db.run(turn, (f"t-{number}", number))
    db.run(
        "INSERT INTO messages (id, instance, address, direction, kind, sender, text, at, accepted_at)"
        " VALUES (7, 'web', 'web:home', 'in', 'chat', 'web:user/owner', 'hello', 1, 1)"
    )
    db.run(
        "INSERT INTO inbox (id, message_id, session_id, seq, turn_id, state, created_at, updated_at)"
        " VALUES (3, 7, 's-1', 1, 't-2', 'working', 1, 1)"
    )
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


@pytest.mark.parametrize("edits", range(len(EDITS) + 1))
def test_stranger_24_a_store_older_than_the_last_edit_of_the_first_migration_is_repaired(
    tmp_path: Path, store_path: Path, edits: int
) -> None:
    path = tmp_path / "early.db"
    early_store(path, edits)
    migrate(path, SystemClock())

    assert shape(path) == shape(store_path)
    connection = connect(path)
    db = SqliteDb(connection)
    assert db.rows("SELECT id, message_id, session_id, turn_id, state FROM inbox") == [(3, 7, "s-1", "t-2", "working")]
    assert db.rows("SELECT id, spared FROM turns WHERE ended_at IS NULL") == [("t-2", 0)]
    assert db.rows("SELECT window_messages, window_chars FROM sessions") == [(None, None)]
    assert db.rows("PRAGMA foreign_key_check") == []
    connection.close()
