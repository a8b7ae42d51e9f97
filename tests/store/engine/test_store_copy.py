"""A store goes from SQLite to PostgreSQL and back, whole."""

from collections.abc import Iterable, Iterator
from pathlib import Path

import apsw
import pytest

from gatepost.core.errors import SetupError
from gatepost.store.engine.open_store import copy_store_rows
from gatepost.store.engine.place import StorePlace
from gatepost.store.engine.sqlite_db import connect
from gatepost.store.engine.sqlite_store import SqliteStore
from gatepost.store.engine.store_copy import CopiedTable
from gatepost.store.memory import memories, memory_views, recall
from gatepost.store.memory.memories import Audience, Memory, MemoryScope, MemoryTrust
from gatepost.store.port import Db
from gatepost.store.sessions import groups
from gatepost_testing.servers.postgres import PACKAGE, PostgresServer, find_programs

pytestmark = [
    pytest.mark.sqlite,
    pytest.mark.skipif(find_programs() is None, reason=f"PostgreSQL is missing: apt-get install {PACKAGE}"),
]
HOSTILE = "a\tb\\N\n\\. 'quoted' \"and\" ✓ 漢字 \\x00"


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    with PostgresServer() as started:
        yield started


def fill(connection: apsw.Connection, messages: int) -> None:
    """Rows of several kinds, with gaps in their ids."""
    connection.execute("BEGIN")
    connection.execute("PRAGMA foreign_keys=OFF")
    columns = connection.execute("PRAGMA table_info(messages)").fetchall()
    given: dict[str, str | int] = {"text": HOSTILE, "instance": "fake", "address": "fake:room/1"}
    given |= {
        name: 7 if kind == "INTEGER" else "x"
        for _, name, kind, required, *_ in columns
        if required and name not in ("id", *given)
    }
    insert = f"INSERT INTO messages (id, {', '.join(given)}) VALUES (?{', ?' * len(given)})"
    connection.executemany(insert, ((3 * number, *given.values()) for number in range(1, messages + 1)))
    connection.execute("DELETE FROM messages WHERE id = ?", (3 * messages,))  # its id is never given again
    connection.execute("COMMIT")


def copy(old: StorePlace, new: StorePlace) -> dict[str, CopiedTable]:
    found: list[CopiedTable] = []
    copy_store_rows(old, new, found.append)
    return {each.name: each for each in found}


def read_all(path: Path, tables: Iterable[str]) -> dict[str, list[tuple[object, ...]]]:
    connection = connect(path, readonly=True)
    try:
        found = {name: sorted(connection.execute(f'SELECT * FROM "{name}"').fetchall(), key=repr) for name in tables}
        found["sqlite_sequence"] = sorted(connection.execute("SELECT name, seq FROM sqlite_sequence").fetchall())
        return found
    finally:
        connection.close()


@pytest.mark.slow
def test_there_and_back_is_equal_with_ids_and_sequences(
    store_path: Path, tmp_path: Path, server: PostgresServer
) -> None:
    connection = connect(store_path)
    fill(connection, 40)
    connection.close()
    database = StorePlace(tmp_path / "none", server.add_database("there"))
    there = copy(StorePlace(store_path), database)
    back = copy(database, StorePlace(tmp_path / "back.db"))
    assert there == back
    assert there["messages"].rows == 39
    assert read_all(store_path, there) == read_all(tmp_path / "back.db", there)
    last = server.execute("SELECT last_value FROM messages_id_seq", "there").strip()
    assert last == "120"
    assert server.execute("SELECT count(*) FROM search", "there").strip() == "39"


@pytest.mark.slow
async def test_what_agents_remember_is_found_in_a_copy_and_goes_on_there(
    store_path: Path, tmp_path: Path, server: PostgresServer
) -> None:
    from gatepost.store.postgres.postgres_store import PostgresStore

    def add(db: Db, text: str) -> int:
        entry = Memory(folder="acme", text=text, scope=MemoryScope.AGENT, trust=MemoryTrust.MEMBER, created_at=1)
        return memories.add(db, entry).id

    def find(db: Db) -> list[str]:
        return sorted(each.text for each in recall.find(db, Audience("acme"), "plums", 2, 9))

    database = StorePlace(tmp_path / "none", server.add_database("memory"))
    store = SqliteStore(store_path)
    await store.write(groups.add, "acme", "acme", "scripted", 1)
    ids = [await store.write(add, text) for text in ("Plums one.", "Plums two.")]
    await store.write(memory_views.put, "acme", {ids[0]: "a"}, 1)
    store.close()
    copy(StorePlace(store_path), database)
    there = PostgresStore(database.url)
    assert await there.read(find) == ["Plums one.", "Plums two."]
    assert await there.read(memory_views.get_lines, "acme") == {ids[0]: "a"}
    assert await there.write(add, "Plums three.") > ids[1]
    there.close()
    copy(database, StorePlace(tmp_path / "back.db"))
    back = SqliteStore(tmp_path / "back.db")
    assert await back.read(find) == ["Plums one.", "Plums three.", "Plums two."]
    back.close()


@pytest.mark.slow
def test_a_target_that_is_not_empty_is_left_alone(store_path: Path, tmp_path: Path, server: PostgresServer) -> None:
    url = server.add_database("taken")
    server.execute("CREATE TABLE mine (a int)", "taken")
    with pytest.raises(SetupError, match="has tables already"):
        copy(StorePlace(store_path), StorePlace(tmp_path / "none", url))
    (tmp_path / "there.db").write_text("mine")
    with pytest.raises(SetupError, match=r"there\.db is in .* already"):
        copy(StorePlace(store_path), StorePlace(tmp_path / "there.db"))
    assert (tmp_path / "there.db").read_text() == "mine"


@pytest.mark.parametrize("left", ["-wal", "-shm"])
def test_the_log_of_an_old_database_is_not_mixed_into_a_copy(store_path: Path, tmp_path: Path, left: str) -> None:
    (tmp_path / f"new.db{left}").write_text("old")
    with pytest.raises(
        SetupError, match=f"new.db{left} is in .* move new.db, new.db-wal and new.db-shm aside together"
    ):
        copy(StorePlace(store_path), StorePlace(tmp_path / "new.db"))
    assert [each.name for each in tmp_path.iterdir()] == [f"new.db{left}"]


@pytest.mark.slow
def test_a_copy_that_fails_leaves_nothing(store_path: Path, tmp_path: Path, server: PostgresServer) -> None:
    connection = connect(store_path)
    fill(connection, 3)
    connection.execute("CREATE TABLE from_elsewhere (a INTEGER) STRICT")
    connection.close()
    url = server.add_database("failed")
    with pytest.raises(SetupError, match="table from_elsewhere has not the same columns"):
        copy(StorePlace(store_path), StorePlace(tmp_path / "none", url))
    assert server.execute("SELECT count(*) FROM pg_tables WHERE schemaname = 'public'", "failed").strip() == "0"
    with pytest.raises(SetupError, match="table from_elsewhere has not the same columns"):
        copy(StorePlace(store_path), StorePlace(tmp_path / "back.db"))
    assert list(tmp_path.iterdir()) == []


def test_a_database_that_a_gateway_uses_is_not_copied(store_path: Path, tmp_path: Path, server: PostgresServer) -> None:
    from gatepost.store.postgres.connection import open_connection

    url = server.add_database("busy")
    with open_connection(url, "gatepost write 0"), pytest.raises(SetupError, match="a gateway uses the database busy"):
        copy(StorePlace(store_path), StorePlace(tmp_path / "none", url))
