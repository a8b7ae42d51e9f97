"""The trial of a backup: what is no backup is said, and nothing of the trial stays."""

import tempfile
from pathlib import Path

import pytest

from gatepost.core.home import Home
from gatepost.serve.backups import proof
from gatepost.serve.backups.proof import prove
from gatepost.store.engine.sqlite_copy import silence_copy
from gatepost.store.engine.sqlite_db import SqliteDb, connect
from gatepost.store.rights import switches


def test_what_is_no_backup_is_said_and_leaves_nothing(quick_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    places = quick_path / "t"
    places.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(places))
    (quick_path / "b.tar.gz").write_bytes(b"nothing")
    found = prove(quick_path / "b.tar.gz")
    assert "is no backup" in found.trouble and found.steps == () and list(places.iterdir()) == []


def test_no_room_for_a_trial_is_said_with_the_places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "b.tar.gz").write_bytes(b"nothing")
    monkeypatch.setattr(proof, "ROOM", 10**15)
    assert f"nor {tmp_path} has room" in prove(tmp_path / "b.tar.gz").trouble


def test_nothing_in_a_silenced_copy_acts_by_itself(tmp_path: Path, empty_store: Path) -> None:
    home = Home(tmp_path)
    home.store.write_bytes(empty_store.read_bytes())
    connection = connect(home.store)
    db = SqliteDb(connection)
    switches.turn_on(db, switches.PANIC, "test", "me", 1)
    connection.close()
    silence_copy(home.store)
    connection = connect(home.store)
    assert switches.get(SqliteDb(connection), switches.PANIC) is None
    connection.close()
