"""A backup that is put back: the old home or the new one, and nothing outside of it."""

import io
import os
import stat
import subprocess
import sys
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

from gatepost.core.errors import Invalid, SetupError
from gatepost.core.home import Home
from gatepost.serve.backups.restoring import restore, unpack

VOLUME = Path("/dev/shm")


def make_backup(
    path: Path, *entries: tuple[str, bytes | str | None], spoil: Callable[[tarfile.TarInfo], None] = id
) -> Path:
    """Of files, links (a text says where to) and folders (None)."""
    with tarfile.open(path, "w:gz") as tar:
        for name, content in (("gatepost.db", b"store"), *entries):
            entry = tarfile.TarInfo(name)
            entry.mode = 0o640
            if content is None:
                entry.type, entry.mode = tarfile.DIRTYPE, 0o755
            elif isinstance(content, str):
                entry.type, entry.linkname = tarfile.SYMTYPE, content
            else:
                entry.size = len(content)
            if name != "gatepost.db":
                spoil(entry)
            tar.addfile(entry, io.BytesIO(content) if isinstance(content, bytes) else None)
    return path


def list_all(folder: Path) -> list[str]:
    return sorted(str(each.relative_to(folder)) for each in folder.rglob("*"))


def test_files_folders_and_links_are_as_they_were(tmp_path: Path) -> None:
    backup = make_backup(
        tmp_path / "b",
        ("groups", None),
        ("groups/acme", None),
        ("groups/acme/a.txt", b"hi"),
        ("groups/acme/l", "/etc/passwd"),
    )
    done = restore(backup, Home(tmp_path / "home"))
    acme = tmp_path / "home" / "groups" / "acme"
    assert (acme / "a.txt").read_bytes() == b"hi" and os.readlink(acme / "l") == "/etc/passwd"
    assert stat.S_IMODE((acme / "a.txt").stat().st_mode) == 0o640
    assert (done.files, done.before) == (2, "")
    assert "b" in (tmp_path / "home" / "restored").read_text()
    assert stat.S_IMODE((tmp_path / "home").stat().st_mode) == 0o700


def test_a_home_that_is_there_is_moved_aside_only_when_that_is_asked(tmp_path: Path) -> None:
    home, backup = tmp_path / "home", make_backup(tmp_path / "b")
    home.mkdir()
    (home / "gatepost.db").write_text("old")
    (home / "keyring.json").write_text("ring")
    with pytest.raises(Invalid, match="--replace"):
        restore(backup, Home(home))
    assert (home / "gatepost.db").read_text() == "old"
    done = restore(backup, Home(home), replace=True)
    assert (home / "gatepost.db").read_text() == "store"
    assert (home / "keyring.json").read_text() == "ring" and done.keyring
    assert (Path(done.before) / "gatepost.db").read_text() == "old"
    assert sorted(each.name for each in tmp_path.iterdir()) == ["b", "home", "home.before-restore-1"]


def test_the_backups_of_a_home_that_is_moved_aside_come_along(tmp_path: Path) -> None:
    home = tmp_path / "home"
    (home / "backups").mkdir(parents=True)
    backup = make_backup(home / "backups" / "b")
    (home / "gatepost.db").write_text("old")
    done = restore(backup, Home(home), replace=True)
    assert done.backups and backup.is_file() and (home / "gatepost.db").read_text() == "store"
    assert [each.name for each in Path(done.before).iterdir()] == ["gatepost.db"]


HOSTILE: tuple[tuple[str, bytes | str | None], ...] = (
    ("../out", b"x"),
    ("groups/../../out", b"x"),
    ("/etc/out", b"x"),
    ("groups//a", b"x"),
    ("keyring.json", b"{}"),
    ("control.token", b"x"),
    ("gatepost.db-wal", b"x"),
    ("run/control.sock", b"x"),
    ("channels/matrix/keys", b"x"),
    ("groups" + "/d" * 140, b"x"),
    ("settings", "/etc"),
)


@pytest.mark.parametrize(("name", "content"), HOSTILE)
def test_what_no_backup_of_ours_has_is_refused_whole(tmp_path: Path, name: str, content: bytes | str | None) -> None:
    home = tmp_path / "home"
    with pytest.raises(SetupError, match="nothing was restored"):
        restore(make_backup(tmp_path / "b", (name, content)), Home(home))
    assert list_all(tmp_path) == ["b"]


@pytest.mark.parametrize("kind", [tarfile.FIFOTYPE, tarfile.CHRTYPE, tarfile.LNKTYPE])
def test_pipes_devices_and_second_names_are_refused(tmp_path: Path, kind: bytes) -> None:
    def spoil(entry: tarfile.TarInfo) -> None:
        entry.type, entry.linkname, entry.size = kind, "gatepost.db", 0

    backup = make_backup(tmp_path / "b", ("groups/p", b""), spoil=spoil)
    with pytest.raises(SetupError, match="neither file, folder nor link"):
        restore(backup, Home(tmp_path / "home"))
    assert list_all(tmp_path) == ["b"]


@pytest.mark.parametrize("order", [("link", "file"), ("file", "link")])
def test_no_file_goes_through_a_link_of_the_backup(tmp_path: Path, order: tuple[str, str]) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    entries: dict[str, tuple[str, bytes | str]] = {
        "link": ("groups/a", str(outside)),
        "file": ("groups/a/evil", b"x"),
    }
    with pytest.raises(SetupError):
        restore(make_backup(tmp_path / "b", *(entries[each] for each in order)), Home(tmp_path / "home"))
    assert list_all(outside) == [] and not (tmp_path / "home").exists()


@pytest.mark.parametrize("spoil", [b"", b"no archive at all", b"\x1f\x8b\x08\x00 cut"])
def test_a_file_that_is_no_backup_is_said_and_leaves_nothing(tmp_path: Path, spoil: bytes) -> None:
    (tmp_path / "b").write_bytes(spoil)
    with pytest.raises(SetupError, match="is no backup"):
        restore(tmp_path / "b", Home(tmp_path / "home"))
    assert list_all(tmp_path) == ["b"]


def test_a_backup_that_was_cut_is_refused(tmp_path: Path) -> None:
    whole = make_backup(tmp_path / "b", ("groups/a", os.urandom(100_000)))
    whole.write_bytes(whole.read_bytes()[:50_000])
    (tmp_path / "new").mkdir()
    with pytest.raises(SetupError, match="damaged"):
        unpack(whole, tmp_path / "new")


def test_a_failure_after_the_exchange_leaves_both_homes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home, backup = tmp_path / "home", make_backup(tmp_path / "b")
    home.mkdir()
    (home / "gatepost.db").write_text("old")

    def fail(one: object, other: object) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(os, "rename", fail)
    with pytest.raises(OSError, match="Input/output"):
        restore(backup, Home(home), replace=True)
    stores = sorted(each.read_text() for each in tmp_path.rglob("gatepost.db"))
    assert (home / "gatepost.db").read_text() == "store" and stores == ["old", "store"]


@pytest.mark.skipif(not VOLUME.is_mount(), reason="it stands for a volume")
def test_a_home_that_is_a_volume_is_refused_with_a_way_out_and_nothing_is_made_beside_it(tmp_path: Path) -> None:
    before = os.listdir(VOLUME.parent)
    with pytest.raises(SetupError, match=f"--home {VOLUME}/home"):
        restore(make_backup(tmp_path / "b"), Home(VOLUME), replace=True)
    assert os.listdir(VOLUME.parent) == before


def test_a_folder_above_the_home_that_is_closed_is_said_before_anything_is_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    backup = make_backup(tmp_path / "b")
    monkeypatch.setattr(os, "access", lambda path, mode: path != tmp_path)  # root may write everywhere
    with pytest.raises(SetupError, match="you may not write to"):
        restore(backup, Home(tmp_path / "home"))
    assert list_all(tmp_path) == ["b"]


def test_what_a_killed_restore_left_is_removed_by_the_next(tmp_path: Path) -> None:
    """It may be as large as the home, and has its key ring."""
    backup, home = make_backup(tmp_path / "b", ("groups/a.txt", b"hi")), tmp_path / "home"
    home.mkdir()
    (home / "keyring.json").write_text("keys")
    code = (
        "import os, sys; from pathlib import Path; from gatepost.core.home import Home\n"
        "from gatepost.serve.backups.restoring import restore\n"
        "restore(Path(sys.argv[1]), Home(Path(sys.argv[2])), replace=True, prepare=lambda new: os._exit(9))"
    )
    assert subprocess.run([sys.executable, "-c", code, backup, home], timeout=60).returncode == 9
    assert len([each for each in tmp_path.rglob("keyring.json") if each.parent != home]) == 1
    for each in tmp_path.iterdir():
        os.utime(each, (1, 1))
    restore(backup, Home(home), replace=True)
    assert sorted(each.name for each in tmp_path.iterdir()) == ["b", "home", "home.before-restore-1"]
