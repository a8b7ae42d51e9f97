"""A backup in foreign hands: links that lie in links, odd dates, small files that are large."""

import gzip
import io
import os
import random
import subprocess
import sys
import tarfile
from contextlib import suppress
from pathlib import Path

import pytest

from gatepost.core.clock import SystemClock
from gatepost.core.errors import SetupError
from gatepost.core.home import Home
from gatepost.core.settings import Config
from gatepost.serve.backups.archive import write_archive
from gatepost.serve.backups.backup_folder import list_backups, prune, render_proof
from gatepost.serve.backups.backup_runs import is_due
from gatepost.serve.backups.restoring import restore, unpack
from gatepost.store.engine.migrate import migrate


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


def make_saying(path: Path, facts: bytes, store: bytes = b"") -> Path:
    with tarfile.open(path, "w:gz") as tar:
        for name, content in (("backup.json", facts), ("gatepost.db", store)):
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            tar.addfile(entry, io.BytesIO(content))
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


@pytest.mark.parametrize("moment", [10**20, 9 * 10**18, -(10**20)])
def test_a_proof_or_a_backup_of_no_date_is_shown_and_put_back(tmp_path: Path, moment: int) -> None:
    path = make_saying(tmp_path / "gatepost-20260101T000000Z.tar.gz", b'{"made_at": %d}' % moment, b"store")
    path.with_name(f"{path.name}.proof.json").write_bytes(b'{"at": %d}' % moment)
    (found,) = list_backups(tmp_path)
    assert render_proof(found.proof) == "not tried yet"
    assert restore(path, Home(tmp_path / "home")).files == 2


def test_listing_a_small_hostile_backup_takes_little_memory(tmp_path: Path) -> None:
    """A header of pax is read whole, whatever its size."""
    path = make_bomb(tmp_path / "gatepost-20260101T000000Z.tar.gz", tarfile.XHDTYPE)
    code = "from gatepost.serve.backups.backup_folder import list_backups; list_backups(Path(sys.argv[1]))"
    assert measure_memory(code, tmp_path) < 300, path.stat().st_size


def make_bomb(path: Path, kind: bytes, piece: bytes = bytes(1024**2), **said: str) -> Path:
    """A header that extends the next one, with 400 MB of content."""
    head = tarfile.TarInfo("groups/x")
    head.type, head.size, head.pax_headers = kind, 400 * 1024**2, said
    with gzip.open(path, "wb", compresslevel=6) as file:
        file.write(head.tobuf(tarfile.PAX_FORMAT if said else tarfile.USTAR_FORMAT))
        for _ in range(head.size // len(piece)):
            file.write(piece)
    assert path.stat().st_size < 3_000_000
    return path


def measure_memory(code: str, path: Path) -> int:
    """Return the megabytes that a process takes at most which does this."""
    whole = (
        f"import sys; from pathlib import Path\n{code}\n"
        "status = Path('/proc/self/status').read_text()\n"
        "print(int(status.partition('VmHWM:')[2].split()[0]) // 1024)"
    )
    done = subprocess.run([sys.executable, "-c", whole, str(path)], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr[-500:]
    return int(done.stdout)


UNPACK = """
from gatepost.core.errors import SetupError
from gatepost.serve.backups.restoring import unpack
try:
    unpack(Path(sys.argv[1]), Path(sys.argv[1]).parent / "t")
    raise SystemExit("it was taken")
except SetupError:
    pass
"""


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        (tarfile.XHDTYPE, {}),
        pytest.param(tarfile.XGLTYPE, {}, marks=pytest.mark.slow),
        pytest.param(tarfile.GNUTYPE_LONGNAME, {}, marks=pytest.mark.slow),
        pytest.param(tarfile.REGTYPE, {"GNU.sparse.major": "1", "GNU.sparse.minor": "0"}, marks=pytest.mark.slow),
    ],
    ids=["pax", "pax of all", "long name", "map of holes"],
)
def test_unpacking_a_small_hostile_backup_takes_little_memory(
    tmp_path: Path, kind: bytes, said: dict[str, str]
) -> None:
    path = make_bomb(tmp_path / "b.tar.gz", kind, b"9999999\n" * (1024**2 // 8), **said)
    (tmp_path / "t").mkdir()
    assert measure_memory(UNPACK, path) < 300


def test_headers_that_extend_each_other_without_end_are_refused_in_words(tmp_path: Path) -> None:
    path = tmp_path / "b.tar.gz"
    head = tarfile.TarInfo("groups/x")
    head.type, head.size = tarfile.GNUTYPE_LONGNAME, 0
    path.write_bytes(gzip.compress(head.tobuf(tarfile.USTAR_FORMAT) * 5000))
    (tmp_path / "t").mkdir()
    with pytest.raises(SetupError):
        unpack(path, tmp_path / "t")


def fill_home(path: Path) -> Path:
    """Return the folder of its only agent."""
    home = Home(path)
    (home.groups / "acme").mkdir(parents=True)
    migrate(home.store, SystemClock())
    return home.groups / "acme"


def test_an_agent_makes_no_backup_that_cannot_be_put_back_by_the_length_of_its_paths(tmp_path: Path) -> None:
    """Folders can be made in each other until no path names the last one any more."""
    acme = fill_home(tmp_path / "home")
    (acme / "memory.md").write_text("kept")
    fd = os.open(acme, os.O_RDONLY)
    for _ in range(30):
        os.mkdir("d" * 200, dir_fd=fd)
        below = os.open("d" * 200, os.O_RDONLY, dir_fd=fd)
        os.close(fd)
        fd = below
    os.close(fd)
    contents = write_archive(Home(tmp_path / "home"), tmp_path / "b.tar.gz")
    restore(tmp_path / "b.tar.gz", Home(tmp_path / "new"))
    assert (tmp_path / "new" / "groups" / "acme" / "memory.md").read_text() == "kept"
    assert len(contents.skipped) == 1


def test_paths_in_an_old_backup_that_are_too_long_are_left_out_and_counted(tmp_path: Path) -> None:
    fill_home(tmp_path / "home")
    with tarfile.open(tmp_path / "b.tar.gz", "w:gz", format=tarfile.PAX_FORMAT) as tar:
        tar.add(tmp_path / "home" / "gatepost.db", "gatepost.db")
        for name in ("groups/a.txt", f"groups/{'/'.join(['d' * 200] * 30)}/b.txt"):
            tar.addfile(tarfile.TarInfo(name), io.BytesIO())
    done = restore(tmp_path / "b.tar.gz", Home(tmp_path / "new"))
    assert (done.files, done.left_out) == (2, 1)
    assert (tmp_path / "new" / "groups" / "a.txt").exists()


def test_a_backup_that_was_changed_or_cut_anywhere_is_refused(tmp_path: Path) -> None:
    """What cannot be compressed lies in it as it is, so that a changed byte is no fault of its packing. A cut between
    two files looks like an end."""
    acme, generator = fill_home(tmp_path / "home"), random.Random(1)
    for number in range(200):
        (acme / f"note-{number}").write_bytes(generator.randbytes(400))
    (acme / "photo.jpg").write_bytes(generator.randbytes(100_000))
    write_archive(Home(tmp_path / "home"), tmp_path / "b.tar.gz")
    whole = (tmp_path / "b.tar.gz").read_bytes()
    changed = [whole[:at] + bytes([whole[at] ^ 16]) + whole[at + 1 :] for at in range(40_000, len(whole), 60_011)]
    cut = [whole[:-size] for size in (1, 5, 9, *range(3_000, len(whole), 15_001))]
    taken = []
    for number, data in enumerate((*changed, *cut)):
        (tmp_path / "c.tar.gz").write_bytes(data)
        target = tmp_path / f"t{number}"
        target.mkdir()
        with suppress(SetupError):
            unpack(tmp_path / "c.tar.gz", target)
            taken.append(number)
    assert taken == []


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
