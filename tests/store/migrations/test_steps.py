"""The steps: what each executes is as it was shipped, and what rows of earlier stores become."""

import hashlib
import importlib
from pathlib import Path

import pytest
from tests.store.migrations.old_stores import load_sample, shape
from tests.store.migrations.recording_db import RecordingDb

from gatepost.core.clock import SystemClock
from gatepost.messages.inbound import Direction
from gatepost.store import migrations
from gatepost.store.engine.migrate import POSTGRES, list_migrations, migrate
from gatepost.store.engine.sqlite_db import SqliteDb, connect
from gatepost.store.messages import messages
from gatepost.store.messages.messages import NewMessage
from gatepost.store.migrations import steps_0001_0007
from gatepost.store.people import identities, logins, users
from gatepost.store.rooms import direct_rooms, rooms
from gatepost.store.rooms.rooms import RoomPolicy

# A step that is in the main branch is in somebody's store: its file is never edited again. A new one is added here.
FILES = {
    "steps_0001_0007": "7f6e669045957673",
    "steps_0008_0014": "86af59da7bf1c773",
    "steps_0015_0022": "c8d1de7ee833a300",
    "steps_0023_0031": "e00cb0cc35bb3178",
    "steps_0032_0048": "efd855382e764818",
    "steps_0049_0058": "863322070cf2ab6e",
    "0059_memories": "c7f336609e9cef38",
    "0060_unlocked_tools": "19abaa4ef04792ba",
    "0061_direct_room_readers": "3cf84d4258834db6",
    "0062_skills": "4030b5fde763ef9b",
    "0063_memory_shares": "68987be27c8b946a",
    "0064_budget_raises": "de996bc8444c3308",
    "0065_memory_views": "f6b9e85c788238c0",
    "0066_caps": "33078bdac3474a75",
    "0067_needed_money": "5b1a6f94d550e7da",
    "0068_errand_costs": "ff6eb50dad46ed74",
    "0069_replaced_skills": "bbd3dc5ae0855a9e",
    "0070_languages": "dc16ddd0965c0307",
    "0071_page_invitations": "604dfdb9ee265a09",
    "0072_memory_vectors": "13297ed988310bee",
    "0073_instructions": "aba74e632b228b58",
    "0074_threads": "e67b4cd78b9c3484",
    "0075_alerts": "dbfb6f41e1c4d3ee",
}
# Digests of what each step executes on an empty store. They were taken before it was folded into the file that has it.
EXECUTED = {
    "0001_spine": "97c093f1a72444e9",
    "0002_money": "1638d4a5ea1bdd81",
    "0003_secrets": "a1d9c5549d297980",
    "0004_egress": "bae52907afedda1a",
    "0005_limits": "67aef002c22db04c",
    "0006_switches": "b319143b0b3df305",
    "0007_bindings": "41a5f416033b7de4",
    "0008_access": "7bfdc4a36911d66f",
    "0009_watchers": "f9c6ae9cdd44d084",
    "0010_search": "c70f0f00dfef169a",
    "0011_agents": "747aa9bd07e929a0",
    "0012_plans": "4877689250c05c6c",
    "0013_worktrees": "eb1c70a3d6866495",
    "0014_answers": "948bba2884100936",
    "0015_secret_origins": "6e7ff658cd676fe9",
    "0016_early_stores": "4f53cda18c2baa0c",
    "0017_origins": "92bd1fe73ea271c1",
    "0018_calls": "6f7859bdb4e094bf",
    "0019_uids": "e3c97d18d48c5653",
    "0020_growth": "7f2560c502f3eb3c",
    "0021_said": "911f0de203a7df8f",
    "0022_rule_state": "557364b501c8b497",
    "0023_requests": "0f48d35f7764ac4a",
    "0024_identities": "3860619c96c46bdd",
    "0025_questions": "c48737659f9a1d94",
    "0026_waiting_turns": "ef1a17abae567f1b",
    "0027_session_notes": "b39f6916c8968de8",
    "0028_tokens": "c838e4201f157444",
    "0029_requests_by_group": "1cb3360ca524f376",
    "0030_channels": "7d50cae9de70b793",
    "0031_tasks": "ff8a518ef33591aa",
    "0032_engagements": "96dd2b7bc17d515a",
    "0033_errands": "d9fed318fefb3bae",
    "0034_forks": "767217b2b277af54",
    "0035_pinned_rules_and_replays": "0c821353fe901b69",
    "0036_wanted_forks": "fec0aee7d6e1a447",
    "0037_live_rooms": "a882877ddc6c8aa7",
    "0038_task_titles_and_holds": "eec05222ef110304",
    "0039_unclear_effects": "99785748c1e7b613",
    "0040_api_tokens": "f1a36cf7c0ce7e6d",
    "0041_browsers_that_are_signed_in": "b4bc9105aff1e738",
    "0042_passwords": "47556b2be3cdf8c5",
    "0043_passkeys": "d40d1f928da419c7",
    "0044_hook_links": "cbd78241e91a9e49",
    "0045_web_routes": "a55b18bd462d1dd5",
    "0046_chat_links": "bcda884a799c0816",
    "0047_spent_tickets": "4e51eea550ea663a",
    "0048_open_rows": "673a88270dae5d90",
    "0049_gateways": "6757d20327e9ebc6",
    "0050_spending": "93884b2aef273782",
    "0051_approved_as_seen": "da13ec83492324b8",
    "0052_incarnations": "870a6717d543fd3f",
    "0053_seen_cards": "3d46ffdfcaedeb10",
    "0054_duty_health": "beb42064f40ef683",
    "0055_turns_of_rooms": "7d6f6a910742a18b",
    "0056_files_and_history": "a4d440fd16e7f33d",
    "0057_continued_messages": "39c1b74806c64b3c",
    "0058_failed_calls": "9b1da735662d14c9",
}
# Where it is more if there are rows: in the store of 0.1 ...
EXECUTED_ON_ROWS = {
    "0021_said": "08a7c5eb560cb419",
    "0024_identities": "17012f386037a115",
    "0041_browsers_that_are_signed_in": "2da1293355c17fe2",
}
# ... in stores that are older than the last edits of the first step, by how many edits ...
REPAIRS = ("4f53cda18c2baa0c", "12a65dda884b6edc", "43a02f33cea53999", "95de3b6ff50d7a0d", "c52f3513b9b875c9")
# ... and on PostgreSQL, where it has a form of its own.
EXECUTED_ON_POSTGRES = {"0010_search": "e568d1f806c6f816", "0020_growth": "140c33ea9a08fa83"}


def list_files() -> dict[str, Path]:
    """Return the files of steps by their names."""
    return {path.stem: path for path in Path(migrations.__path__[0]).glob("*.py") if path.stem != "__init__"}


def test_every_file_of_steps_is_listed() -> None:
    assert list_files().keys() == FILES.keys()


@pytest.mark.parametrize("name", FILES)
def test_stranger_24_a_shipped_migration_is_never_edited(name: str) -> None:
    text = list_files()[name].read_bytes()
    assert hashlib.sha256(text).hexdigest()[:16] == FILES[name], "add a new migration instead"


def test_a_folded_step_executes_what_it_did_in_a_file_of_its_own(tmp_path: Path) -> None:
    assert [name for names in migrations.FOLDED.values() for name in names] == list(EXECUTED)
    connection = connect(tmp_path / "new.db")
    db = RecordingDb(connection)
    found = {}
    for each in list_migrations()[: len(EXECUTED)]:
        each.apply(db)
        found[each.name] = db.pop_digest()
    connection.close()
    assert found == EXECUTED


def test_a_folded_step_executes_the_same_on_rows(tmp_path: Path) -> None:
    connection = connect(tmp_path / "old.db")
    number = load_sample(connection, "store_0_1")
    db = RecordingDb(connection)
    found = {}
    for each in list_migrations()[number : len(EXECUTED)]:
        each.apply(db)
        found[each.name] = db.pop_digest()
    connection.close()
    assert found == {name: digest for name, digest in EXECUTED.items() if name in found} | EXECUTED_ON_ROWS


def test_a_folded_step_defines_the_same_on_postgres(tmp_path: Path) -> None:
    class Defined(RecordingDb):
        def define(self, ddl: str) -> None:
            self.executed.append(("define", ddl, []))

    connection = connect(tmp_path / "unused.db")
    db = Defined(connection)
    portable, here = list_migrations(), list_migrations(POSTGRES)
    found = {}
    for common, own in zip(portable, here, strict=True):
        assert (common.number, common.name) == (own.number, own.name)
        if own.name in EXECUTED_ON_POSTGRES:
            own.apply(db)
            found[own.name] = db.pop_digest()
    connection.close()
    assert found == EXECUTED_ON_POSTGRES
    modules = [importlib.import_module(f"{migrations.__name__}.{name}") for name in FILES]
    own_forms = [name for module in modules for name in vars(module) if name.endswith("_postgres")]
    assert own_forms == ["apply_0010_postgres", "apply_0020_postgres"]


def test_steps_are_numbered_without_gaps_and_described() -> None:
    found = list_migrations()
    assert [each.number for each in found] == list(range(1, len(found) + 1))
    modules = {name: importlib.import_module(f"{migrations.__name__}.{name}") for name in FILES}
    assert all(module.__doc__ for module in modules.values())
    folded = [(modules[file], name) for file, names in migrations.FOLDED.items() for name in names]
    assert all(getattr(module, f"apply_{name[:4]}").__doc__ for module, name in folded)
    assert all(callable(modules[name].apply) for name in modules.keys() - migrations.FOLDED.keys())


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


def test_who_was_seen_in_a_direct_room_of_an_old_store_is_still_a_reader_of_it(tmp_path: Path) -> None:
    """Ann's latest direct room is another one, but she has written in that of Bob."""
    connection = connect(tmp_path / "old.db")
    db = SqliteDb(connection)
    for each in list_migrations()[:60]:
        each.apply(db)
    for address in ("fake:dm/both", "fake:dm/ann"):
        rooms.add(db, "fake", address, address, True, RoomPolicy.STRICT, 7)
    db.run("INSERT INTO direct_rooms VALUES ('fake:user/ann', 'fake', 'fake:dm/ann', 7)")
    db.run("INSERT INTO direct_rooms VALUES ('fake:user/bob', 'fake', 'fake:dm/both', 7)")
    said = {"instance": "fake", "address": "fake:dm/both", "direction": Direction.IN, "platform_id": "1", "at": 7}
    messages.accept(db, NewMessage(thread="", sender="fake:user/ann", sender_name="Ann", text="hi", **said), 7)
    list_migrations()[60].apply(db)
    assert direct_rooms.list_readers(db, "fake", "fake:dm/both") == ["fake:user/ann", "fake:user/bob"]
    assert direct_rooms.list_readers(db, "fake", "fake:dm/ann") == ["fake:user/ann"]
    connection.close()


def test_the_owner_of_an_old_store_becomes_one_person(tmp_path: Path) -> None:
    connection = connect(tmp_path / "old.db")
    db = SqliteDb(connection)
    for each in list_migrations()[:23]:
        each.apply(db)
    for user in ("terminal:owner", "web:user/owner"):
        db.run("INSERT INTO users VALUES (?, 'Owner', 7)", (user,))
        db.run("INSERT INTO user_roles VALUES (?, 'owner', '', 'gatepost', 7)", (user,))
    db.run("INSERT INTO budgets VALUES ('user', 'web:user/owner', 'day', 5, 'operator', 7)")
    list_migrations()[23].apply(db)
    assert identities.list_names(db, "web:user/owner") == ("terminal:owner", "web:user/owner")
    assert db.rows("SELECT user_id FROM user_roles") == [("terminal:owner",)]
    assert db.rows("SELECT name, micro FROM budgets") == [("terminal:owner", 5)]
    for each in list_migrations()[24:]:
        each.apply(db)
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


# How step 1 was edited after it was first used, newest first: what it has now, and what it had before.
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
    ddl = list(steps_0001_0007.TABLES_0001)
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


@pytest.mark.parametrize("edits", range(len(EDITS) + 1))
def test_the_repair_of_an_early_store_executes_what_it_did_in_a_file_of_its_own(tmp_path: Path, edits: int) -> None:
    early_store(tmp_path / "early.db", edits)
    connection = connect(tmp_path / "early.db")
    db = RecordingDb(connection)
    for each in list_migrations()[1:15]:
        each.apply(db)
    db.pop_digest()
    list_migrations()[15].apply(db)
    assert db.pop_digest() == REPAIRS[edits]
    connection.close()
