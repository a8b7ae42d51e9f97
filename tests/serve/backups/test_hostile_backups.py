"""A backup in foreign hands: links that lie in links, odd dates, small files that are large."""

import gzip
import io
import os
import subprocess
import sys
import tarfile
from contextlib import suppress
from pathlib import Path

import pytest

from gatepost.core.errors import SetupError
from gatepost.core.home import Home
from gatepost.core.settings import Config
from gatepost.serve.backups.backup_folder import list_backups, prune
from gatepost.serve.backups.backup_runs import is_due
from gatepost.serve.backups.restoring import restore, unpack


def make_hostile(path: Path, victim: Path, to: Path) -> Path:
    with tarfile.open(path, "w:gz") as tar:

        def add(name: str, content: bytes | str) -> None:
            entry = tarfile.TarInfo(name)
            entry.uid, entry.gid, entry.mode = os.getuid(), os.getgid(), 0o600
            if isinstance(content, str):
                entry.type, entry.linkname = tarfile.SYMTYPE, content
                tar.addfile(entry)
            else:
                entry.size = len(content)
                tar.addfile(entry, io.BytesIO(content))

        add("gatepost.db", b"store")
        add("groups/evil.service", b"[Service]\nExecStart=/bin/true\n")
        add("groups/a", str(victim))
        add("groups/a/default.target.wants/evil.service", str(to))  # through the link before it
    return path


def test_a_link_in_a_backup_is_not_made_through_another_link(tmp_path: Path) -> None:
    victim = tmp_path / "systemd-user"
    victim.mkdir()
    backup = make_hostile(tmp_path / "b.tar.gz", victim, tmp_path / "t/groups/evil.service")
    target = tmp_path / "t"
    target.mkdir()
    with suppress(SetupError):
        unpack(backup, target)
    assert list(victim.rglob("*")) == []


def test_the_same_for_a_whole_restore(tmp_path: Path) -> None:
    victim = tmp_path / "systemd-user"
    victim.mkdir()
    backup = make_hostile(tmp_path / "b.tar.gz", victim, tmp_path / "home/groups/evil.service")
    with suppress(SetupError):
        restore(backup, Home(tmp_path / "home"))
    assert list(victim.rglob("*")) == []


def make_saying(path: Path, facts: bytes) -> Path:
    with tarfile.open(path, "w:gz") as tar:
        entry = tarfile.TarInfo("backup.json")
        entry.size = len(facts)
        tar.addfile(entry, io.BytesIO(facts))
    return path


def test_a_backup_that_says_it_is_of_the_future_stops_no_schedule(tmp_path: Path) -> None:
    """As one does that was made while the machine's clock was wrong."""
    now = 1_800_000_000_000_000
    make_saying(tmp_path / "gatepost-20260101T000000Z.tar.gz", b'{"made_at": 4000000000000000}')
    assert is_due(list_backups(tmp_path), now, 24.0)


@pytest.mark.parametrize("made_at", [9_000_000_000_000_000_000, -9_000_000_000_000_000_000])
def test_a_backup_of_no_date_stops_no_pruning(tmp_path: Path, made_at: int) -> None:
    make_saying(tmp_path / "gatepost-20260101T000000Z.tar.gz", b'{"made_at": %d}' % made_at)
    prune(tmp_path, Config())
    assert len(list_backups(tmp_path)) == 1


def test_listing_a_small_hostile_backup_takes_little_memory(tmp_path: Path) -> None:
    """A header of pax is read whole, whatever its size."""
    size = 600 * 1024**2
    head = tarfile.TarInfo("x")
    head.type, head.size = tarfile.XHDTYPE, size
    path = tmp_path / "gatepost-20260101T000000Z.tar.gz"
    with gzip.open(path, "wb", compresslevel=9) as file:
        file.write(head.tobuf(tarfile.USTAR_FORMAT))
        for _ in range(size // 1024**2):
            file.write(bytes(1024**2))
    assert path.stat().st_size < 1_000_000
    code = (
        "import sys; from pathlib import Path\n"
        "from gatepost.serve.backups.backup_folder import list_backups\n"
        "list_backups(Path(sys.argv[1]))\n"
        "status = Path('/proc/self/status').read_text()\n"
        "print(int(status.partition('VmHWM:')[2].split()[0]) // 1024)"
    )
    done = subprocess.run([sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr[-500:]
    assert int(done.stdout) < 300, f"{done.stdout.strip()} MB for {path.stat().st_size} bytes"


@pytest.mark.parametrize("spoiled", [{"mtime": "1e300"}, {"uid": str(2**40)}])
def test_odd_numbers_in_a_backup_are_refused_in_words(tmp_path: Path, spoiled: dict[str, str]) -> None:
    path = tmp_path / "b.tar.gz"
    with tarfile.open(path, "w:gz", format=tarfile.PAX_FORMAT) as tar:
        entry = tarfile.TarInfo("gatepost.db")
        entry.pax_headers = spoiled
        entry.uid, entry.gid = os.getuid(), os.getgid()
        tar.addfile(entry)
    with pytest.raises(SetupError):
        restore(path, Home(tmp_path / "home"))


def test_a_small_backup_does_not_become_a_large_home(tmp_path: Path) -> None:
    """A sparse file of up to 8 GiB takes a few hundred bytes in an archive, and there may be five million of them. The
    trial asks for room of twice the archive's size."""
    source, target = tmp_path / "s", tmp_path / "t"
    (source / "groups").mkdir(parents=True)
    target.mkdir()
    (source / "gatepost.db").write_bytes(b"x")
    with (source / "groups" / "hole").open("wb") as file:
        file.truncate(300 * 1024**2)
    path = tmp_path / "b.tar.gz"
    subprocess.run(["tar", "--sparse", "-czf", path, "gatepost.db", "groups"], cwd=source, check=True)
    try:
        unpack(path, target)
    except SetupError:
        return
    used = sum(each.stat().st_blocks * 512 for each in target.rglob("*"))
    assert used < 1000 * path.stat().st_size + 1024**2, f"{used} bytes of disk for {path.stat().st_size}"
