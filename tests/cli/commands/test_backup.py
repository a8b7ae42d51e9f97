"""`gatepost backup`: what is in it, what never is, and who can read it."""

import io
import os
import stat
import sys
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gatepost.core.home import Home
from gatepost.serve.backups import archive
from gatepost.store.engine.readonly import read_snapshot
from gatepost.store.memory import memories
from gatepost.store.memory.memories import MemoryFilter

Run = Callable[..., Any]


@pytest.fixture
def home(bare_home: Home) -> Home:
    """One of these tests is about a home without a store."""
    return bare_home


def names(path: Path) -> dict[str, tarfile.TarInfo]:
    with tarfile.open(path) as tar:
        return {each.name: each for each in tar.getmembers()}


@pytest.fixture
def used(run: Run, home: Home, monkeypatch: pytest.MonkeyPatch) -> Home:
    run("group", "add", "acme")
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"hunter2hunter2")))
    assert run("secret", "set", "WEATHER").code == 0
    (home.path / "control.token").write_text("a-token-of-thirty-two-characters")
    (home.path / "gatepost.toml").write_text('timezone = "Europe/Berlin"\n')
    return home


def test_stranger_14_a_backup_is_the_owners_alone_and_has_neither_key_ring_nor_token(
    run: Run, used: Home, tmp_path: Path
) -> None:
    before = os.umask(0)
    try:
        told = run("backup", "create", str(tmp_path / "b.tar.gz"))
    finally:
        os.umask(before)

    assert told.code == 0 and "keyring.json" in told.out
    assert stat.S_IMODE((tmp_path / "b.tar.gz").stat().st_mode) == 0o600
    found = names(tmp_path / "b.tar.gz")
    assert {"gatepost.db", "gatepost.toml", "groups/acme/AGENTS.md", "groups/acme/CLAUDE.md"} <= set(found)
    assert not {"keyring.json", "control.token", "run", "logs", "gatepost.lock"} & set(found)
    assert [each.name for each in tmp_path.iterdir()] == ["b.tar.gz"]


def test_a_backup_has_what_agents_remember_and_its_file(run: Run, used: Home, tmp_path: Path) -> None:
    assert run("memory", "add", "acme", "The bins go on Tuesday.").code == 0
    assert run("memory", "sync", "acme").code == 0
    assert run("backup", "create", str(tmp_path / "b.tar.gz")).code == 0
    with tarfile.open(tmp_path / "b.tar.gz") as tar:
        tar.extractall(tmp_path / "back", filter="data")

    found = read_snapshot(tmp_path / "back" / "gatepost.db", memories.list_chosen, MemoryFilter(), 2**60)
    assert [each.text for each in found] == ["The bins go on Tuesday."]
    assert "Tuesday" in (tmp_path / "back" / "groups" / "acme" / "MEMORY.md").read_text()


def test_a_backup_in_the_home_holds_neither_itself_nor_an_earlier_one(run: Run, used: Home) -> None:
    (used.path / "notes.tar.gz").write_bytes(b"no backup")
    for name in ("b1.tar.gz", "second"):
        assert run("backup", "create", str(used.path / name)).code == 0
    found = set(names(used.path / "second"))
    assert {"gatepost.db", "notes.tar.gz"} <= found and not {"b1.tar.gz", "second"} & found


@pytest.mark.slow
def test_the_keys_of_devices_are_left_out_and_it_is_said_whose(run: Run, used: Home, tmp_path: Path) -> None:
    """They open encrypted rooms, and an old copy of them must not be used again."""
    for name in ("matrix", "empty"):
        (used.channels / name).mkdir(parents=True)
    (used.channels / "matrix" / "keys.db").write_text("keys")
    told = run("backup", "create", str(tmp_path / "b.tar.gz"))

    assert "without the keys of devices: matrix are linked anew after a restore" in told.out
    assert not [each for each in names(tmp_path / "b.tar.gz") if each.startswith("channels")]
    assert run("backup", "create", str(tmp_path / "c.tar.gz"), "--json").json["devices"] == ["matrix"]


def test_stranger_14_a_token_that_lies_elsewhere_in_the_home_is_left_out(
    run: Run, used: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (used.plugins / "token").write_text("a-token-of-thirty-two-characters")
    monkeypatch.setenv("GATEPOST_CONTROL_TOKEN_FILE", str(used.plugins / "token"))
    run("backup", "create", str(tmp_path / "b.tar.gz"))

    assert "plugins/token" not in names(tmp_path / "b.tar.gz")


def test_stranger_14_a_backup_follows_no_link_and_is_held_up_by_no_pipe(run: Run, used: Home, tmp_path: Path) -> None:
    place = used.group("acme")
    (place / "shadow").symlink_to("/etc/passwd")
    os.mkfifo(place / "pipe")
    told = run("backup", "create", str(tmp_path / "b.tar.gz"), "--json").json

    link = names(tmp_path / "b.tar.gz")["groups/acme/shadow"]
    assert link.issym() and link.linkname == "/etc/passwd"
    assert told["skipped"] == ["groups/acme/pipe"]


def test_stranger_14_a_file_that_is_there_is_not_overwritten(run: Run, used: Home, tmp_path: Path) -> None:
    (tmp_path / "b.tar.gz").write_text("mine")
    told = run("backup", "create", str(tmp_path / "b.tar.gz"))

    assert told.code == 1 and "is there already" in told.err
    assert (tmp_path / "b.tar.gz").read_text() == "mine"


def test_stranger_14_without_a_store_there_is_nothing_to_back_up(run: Run, tmp_path: Path) -> None:
    told = run("backup", "create", str(tmp_path / "b.tar.gz"))

    assert told.code == 1 and "there is no store" in told.err
    assert list(tmp_path.glob("*.tar.gz")) == []


@pytest.mark.slow
def test_stranger_new_an_agent_cannot_make_a_backup_endless_nor_get_a_tree_left_out(
    run: Run, used: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Holes cost an agent nothing: its files could be 200,000 of 2 GiB each. Very many names in a folder are no reason
    to leave it out, and neither is one hole in a file."""
    monkeypatch.setattr(archive, "MOST_HOLES", 5 << 20, raising=False)
    place = used.group("acme")
    for name in ("a.bin", "b.bin"):
        (place / name).write_bytes(b"x" * 4096)
        os.truncate(place / name, 4 << 20)
    (used.media / "web").mkdir(parents=True, exist_ok=True)
    for number in range(10_001):
        (used.media / "web" / str(number)).touch()
    deep = os.open(place, os.O_RDONLY)
    for _ in range(300):
        os.mkdir("d", dir_fd=deep)
        below = os.open("d", os.O_RDONLY, dir_fd=deep)
        os.close(deep)
        deep = below
    os.close(deep)
    told = run("backup", "create", str(tmp_path / "b.tar.gz"), "--json").json

    found = names(tmp_path / "b.tar.gz")
    assert {"groups/acme/a.bin", "media/web/10000"} <= set(found) and "groups/acme/b.bin" not in found
    assert max(each.count("/d") for each in found) < 150
    assert [each.replace("/d", "") for each in told["skipped"]] == ["groups/acme/b.bin", "groups/acme"]
