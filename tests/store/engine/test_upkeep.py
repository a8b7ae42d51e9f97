"""What a store's file needs besides rows: damage is seen, space is given back, and no sample of a key stays."""

from collections.abc import Iterator
from pathlib import Path

import apsw
import pytest

from gatepost.store.engine.sqlite_db import connect
from gatepost.store.engine.upkeep import STATISTICS, SqliteUpkeep


@pytest.fixture
def connection(store_path: Path) -> Iterator[apsw.Connection]:
    opened = connect(store_path)
    yield opened
    opened.close()


@pytest.fixture
def upkeep(connection: apsw.Connection) -> SqliteUpkeep:
    return SqliteUpkeep(connection)


def fill(connection: apsw.Connection, rows: int = 2000) -> None:
    connection.execute("CREATE TABLE ballast (id INTEGER PRIMARY KEY AUTOINCREMENT, key TEXT, value TEXT)")
    connection.execute("CREATE INDEX ballast_key ON ballast (key)")
    with connection:
        connection.executemany(
            "INSERT INTO ballast (key, value) VALUES (?, ?)", [(f"room-{number}", "x" * 500) for number in range(rows)]
        )


def test_a_sound_store_has_no_damage(upkeep: SqliteUpkeep) -> None:
    assert upkeep.find_damage() == "" and upkeep.find_damage("messages") == ""


def test_damage_of_a_page_is_said_and_that_of_one_table_by_its_name(store_path: Path) -> None:
    opened = connect(store_path)
    fill(opened)
    root = opened.execute("SELECT rootpage FROM sqlite_schema WHERE name = 'ballast'").get
    size = int(opened.pragma("page_size"))
    opened.pragma("wal_checkpoint(TRUNCATE)")
    opened.close()
    with store_path.open("r+b") as file:
        file.seek((int(root) - 1) * size)
        file.write(b"\xff" * size)
    opened = connect(store_path)
    upkeep = SqliteUpkeep(opened)
    assert upkeep.find_damage() != ""
    assert upkeep.find_damage("ballast") != "" and upkeep.find_damage("users") == ""
    opened.close()


def test_free_pages_go_back_to_the_disk_a_few_at_a_time(connection: apsw.Connection, upkeep: SqliteUpkeep) -> None:
    fill(connection)
    connection.execute("DELETE FROM ballast")
    free = int(connection.pragma("freelist_count"))
    assert upkeep.can_shrink() and free > 100
    assert upkeep.release_pages(10) == free - 10
    assert upkeep.release_pages(10**6) == 0


def test_a_file_that_cannot_shrink_is_left_as_it_is(tmp_path: Path) -> None:
    opened = apsw.Connection(str(tmp_path / "old.db"))
    opened.set_busy_timeout(60_000)
    fill(opened)
    opened.execute("DELETE FROM ballast")
    free, upkeep = int(opened.pragma("freelist_count")), SqliteUpkeep(opened)
    assert free and not upkeep.can_shrink() and upkeep.release_pages(10) == 0
    assert int(opened.pragma("freelist_count")) == free
    opened.close()


def test_no_sample_of_a_key_stays(connection: apsw.Connection, upkeep: SqliteUpkeep) -> None:
    upkeep.remove_statistics()  # where there are none
    fill(connection, 200)
    connection.execute("ANALYZE")
    upkeep.remove_statistics()
    there = [row[0] for row in connection.execute("SELECT name FROM sqlite_schema WHERE name LIKE 'sqlite_stat%'")]
    assert there and {*there} <= {*STATISTICS}
    assert [connection.execute(f"SELECT COUNT(*) FROM {each}").get for each in there] == [0] * len(there)


def test_the_size_counts_the_log_beside_the_file(
    connection: apsw.Connection, upkeep: SqliteUpkeep, store_path: Path
) -> None:
    fill(connection)
    log = store_path.with_name(f"{store_path.name}-wal")
    assert log.stat().st_size > 0
    assert upkeep.get_size() == store_path.stat().st_size + log.stat().st_size


def test_the_last_id_is_known_also_if_its_row_is_gone(connection: apsw.Connection, upkeep: SqliteUpkeep) -> None:
    assert upkeep.get_last_id("ballast") == 0
    fill(connection, 7)
    connection.execute("DELETE FROM ballast")
    assert upkeep.get_last_id("ballast") == 7


def test_a_copy_has_what_is_committed_also_if_the_file_was_removed(
    connection: apsw.Connection, upkeep: SqliteUpkeep, store_path: Path, tmp_path: Path
) -> None:
    connection.execute("INSERT INTO users (id, name, created_at) VALUES ('fake:user/1', 'Ann', 1)")
    store_path.unlink()
    upkeep.copy_to(tmp_path / "copy.db")
    copy = apsw.Connection(str(tmp_path / "copy.db"))
    copy.set_busy_timeout(60_000)
    assert copy.execute("SELECT name FROM users WHERE id = 'fake:user/1'").get == "Ann"
    assert copy.pragma("journal_mode") == "delete"
    copy.close()
