from pathlib import Path

import pytest

from gatepost.core.clock import SystemClock
from gatepost.core.errors import SetupError
from gatepost.store.engine.migrate import migrate
from gatepost.store.engine.readonly import find_damage, get_newest_version, get_version, read_snapshot
from gatepost.store.engine.sqlite_db import SqliteDb, connect
from gatepost.store.port import Db
from gatepost.store.sessions import groups


def test_a_home_without_a_store_says_so(tmp_path: Path) -> None:
    with pytest.raises(SetupError, match=r"there is no store in .*; `gatepost up` makes one"):
        read_snapshot(tmp_path / "gatepost.db", get_version)


def test_a_whole_store_is_of_the_newest_version(store_path: Path) -> None:
    assert read_snapshot(store_path, get_version) == get_newest_version()
    assert read_snapshot(store_path, find_damage) == ""


def test_looking_cannot_write(store_path: Path) -> None:
    def attempt(db: Db) -> bool:
        return groups.add(db, "x", "X", "", 1)

    with pytest.raises(Exception, match="readonly"):
        read_snapshot(store_path, attempt)


def test_a_store_of_a_newer_version_is_left_alone(store_path: Path) -> None:
    connection = connect(store_path)
    SqliteDb(connection).run("INSERT INTO schema_version VALUES (9999, 'later', 1)")
    connection.close()

    with pytest.raises(SetupError, match="newer gatepost"):
        read_snapshot(store_path, get_version)


def test_a_file_that_is_no_store_is_told(tmp_path: Path) -> None:
    path = tmp_path / "gatepost.db"
    path.write_bytes(b"not a database at all, but long enough to be read as one" * 100)

    with pytest.raises(SetupError, match="store"):
        read_snapshot(path, get_version)


def test_the_store_is_its_owners_alone_from_its_first_moment(tmp_path: Path) -> None:
    path = tmp_path / "gatepost.db"
    migrate(path, SystemClock())

    connection = connect(path)
    groups.add(SqliteDb(connection), "x", "X", "", 1)
    modes = {each.name: each.stat().st_mode & 0o777 for each in tmp_path.iterdir()}
    connection.close()

    assert set(modes.values()) == {0o600} and "gatepost.db-wal" in modes
