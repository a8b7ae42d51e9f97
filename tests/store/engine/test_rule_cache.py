"""What is read of the rules is kept until they change, and never longer."""

import asyncio
import threading
from pathlib import Path

import pytest

from gatepost.store.engine.rule_cache import PLACES, TABLES, RuleCache, RuleState, find_changed_state
from gatepost.store.engine.sqlite_store import SqliteStore
from gatepost.store.people import users
from gatepost.store.people.users import UserRole
from gatepost.store.port import Db
from gatepost.store.postgres.postgres_store import PostgresStore
from gatepost.store.rights import switches
from gatepost.store.rooms import engagements, rooms, routes
from gatepost.store.rooms.engagements import StickyChoice
from gatepost.store.rooms.rooms import RoomPolicy
from gatepost_testing.empty_database import EmptyDatabase
from gatepost_testing.waiting import PATIENCE_S

ROOM = ("fake", "fake:room/1")


class Undone(Exception):
    pass


@pytest.fixture
def path(store_path: Path) -> Path:
    return store_path


def read_policy(db: Db, rules: RuleCache) -> str:
    rules.renew(db)
    room = rules.read(db, rooms.get, *ROOM)
    return room.policy if room else ""


async def test_what_was_read_is_not_read_again_until_the_rules_change(path: Path) -> None:
    store, rules, reads = SqliteStore(path), RuleCache(), []

    def count(db: Db, folder: str) -> int:
        reads.append(folder)
        return len(reads)

    def ask(db: Db) -> int:
        rules.renew(db)
        return rules.read(db, count, "acme")

    try:
        assert [await store.write(ask), await store.write(ask)] == [1, 1]
        await store.write(users.add, "fake:user/1", "Ada", 1)
        assert await store.write(ask) == 2
    finally:
        store.close()


async def test_a_change_of_another_gateway_on_the_same_store_is_seen(path: Path) -> None:
    here, there, rules = SqliteStore(path), SqliteStore(path), RuleCache()
    try:
        await here.write(rooms.add, *ROOM, "room", False, "public", 1)
        assert await here.write(read_policy, rules) == "public"
        await there.write(rooms.set_policy, *ROOM, "strict")
        assert await here.write(read_policy, rules) == "strict"
    finally:
        here.close()
        there.close()


async def test_what_was_read_in_a_transaction_that_was_undone_is_not_kept(path: Path) -> None:
    store, rules = SqliteStore(path), RuleCache()
    await store.write(rooms.add, *ROOM, "room", False, "public", 1)

    def change_and_fail(db: Db) -> None:
        rooms.set_policy(db, *ROOM, RoomPolicy.STRICT)
        assert read_policy(db, rules) == "strict"
        raise Undone

    try:
        with pytest.raises(Undone):
            await store.write(change_and_fail)
        assert await store.write(read_policy, rules) == "public"
    finally:
        store.close()


async def test_every_way_to_change_rules_is_noticed(path: Path) -> None:
    """As the store's own functions write: whatever touches one of the tables."""
    store, seen = SqliteStore(path), set()

    def state(db: Db) -> str:
        row = db.row("SELECT name FROM rule_state")
        assert row is not None
        return str(row[0])

    try:
        for change in (
            lambda db: users.add(db, "u", "U", 1),
            lambda db: users.add_role(db, "u", UserRole.OWNER, "", "cli", 1),
            lambda db: switches.turn_on(db, switches.PANIC, "", "cli", 1),
            lambda db: switches.turn_off(db, switches.PANIC),
            lambda db: routes.remove(db, 1),
        ):
            before = await store.write(state)
            await store.write(change)
            seen.add(await store.write(state))
            assert await store.write(state) != before
    finally:
        store.close()
    assert len(seen) == 5


@pytest.mark.parametrize("table", sorted(TABLES | PLACES))
def test_writes_to_a_table_of_rules_are_told_from_reads(table: str) -> None:
    state = RuleState.RULES if table in TABLES else RuleState.PLACES
    assert find_changed_state(f"INSERT INTO {table} (a) VALUES (?)") is state
    assert find_changed_state(f"\n  UPDATE {table} SET a = 1") is state
    assert find_changed_state(f"DELETE FROM {table}") is state
    assert find_changed_state(f"SELECT * FROM {table}") is None
    assert find_changed_state(f"DELETE FROM {table}_of_others") is None


async def test_who_is_in_a_conversation_changes_and_the_rules_stay_where_they_are(path: Path) -> None:
    store, rules, reads = SqliteStore(path), RuleCache(), []

    def note(db: Db, what: str) -> int:
        reads.append(what)
        return len(reads)

    def ask(db: Db) -> None:
        rules.renew(db)
        rules.read(db, note, "rules")
        rules.read_place(db, note, "place")

    chosen = StickyChoice("fake", "fake:room/1", "", "fake:user/1", folder="acme")
    try:
        for change in (lambda db: None, lambda db: engagements.put_choice(db, chosen), lambda db: routes.remove(db, 1)):
            await store.write(change)
            await store.write(ask)
            reads.append("|")
    finally:
        store.close()
    assert reads == ["rules", "place", "|", "place", "|", "rules", "place", "|"]


def test_no_statement_of_the_store_writes_rules_in_a_form_that_is_not_noticed() -> None:
    source = Path(rooms.__file__).parent
    text = "\n".join(each.read_text(encoding="utf-8") for each in source.glob("*.py"))
    for form in ("INSERT OR", "REPLACE INTO"):  # and no WITH … UPDATE, which PostgreSQL has and SQLite has not
        assert f'"{form}' not in text, form


async def test_what_one_writer_read_before_a_change_is_not_found_by_another_after_it(emptied: EmptyDatabase) -> None:
    """On a server several threads write, and a unit may take long between its read and what it keeps."""
    store, rules = PostgresStore(emptied.url, lanes=2), RuleCache()
    has_read, go_on = threading.Event(), threading.Event()

    def read_slowly(db: Db, instance: str, address: str) -> str:
        room = rooms.get(db, instance, address)
        if threading.current_thread() is slow[0]:
            has_read.set()
            assert go_on.wait(PATIENCE_S)
        return room.policy if room else ""

    slow: list[threading.Thread] = []

    def ask(db: Db, slowly: bool) -> str:
        if slowly:
            slow.append(threading.current_thread())
        rules.renew(db)
        return rules.read(db, read_slowly, *ROOM)

    try:
        await store.write(rooms.add, *ROOM, "room", False, "public", 1)
        first = asyncio.create_task(store.write(ask, True, lane="slow"))
        await asyncio.to_thread(has_read.wait, PATIENCE_S)
        await store.write(rooms.set_policy, *ROOM, "strict")
        await store.write(rules.renew)
        go_on.set()
        assert await first == "public"  # it was first: nobody had changed anything
        slow[0] = threading.main_thread()
        for _ in range(4):
            assert await store.write(ask, False) == "strict"
    finally:
        go_on.set()
        store.close()
