"""How a backup is put back: into a new folder beside the home, which takes the home's place in one step.

So there is the old home or the new one at every moment, and never half of one. A backup may have been in foreign hands:
nothing in it leads out of the new folder. Files and folders come first, and links last; no name goes through a link.
"""

import ctypes
import glob
import gzip
import os
import shutil
import stat
import tarfile
import tempfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from msgspec import Struct

from gatepost.core.clock import iso
from gatepost.core.errors import Invalid, SetupError
from gatepost.core.files.private_files import make_private_folder
from gatepost.core.files.untrusted_files import remove_folder, write_synced
from gatepost.core.home import Home
from gatepost.core.keyring import FILE as KEYRING
from gatepost.flow.gateways.group_place import MARK
from gatepost.flow.store_watch import MARKER
from gatepost.serve.backups.archive import (
    DEEPEST,
    LARGEST,
    LEFT_OUT,
    LONGEST_PATH,
    MANIFEST,
    SHARED_TREES,
    STORE,
    TREES,
    BoundedEntry,
)
from gatepost.serve.backups.backup_folder import BACKUPS, BackupManifest, parse_manifest
from gatepost.serve.backups.sealed_files import open_plain

PIECE = 1024 * 1024
MOST_ENTRIES = 5_000_000
LEAST_FREE = 256 * 1024**2  # bytes that stay free
_DAMAGED = (
    tarfile.TarError,
    gzip.BadGzipFile,
    EOFError,
    zlib.error,
    OverflowError,
    ValueError,
    RecursionError,  # of headers that extend each other
)
_EXCHANGE, _AT_FDCWD = 2, -100  # RENAME_EXCHANGE: both names stay, and each has what the other had


class RestoredHome(Struct, frozen=True, kw_only=True):
    """`before`: the home that was there, moved aside; '' if there was none. `keyring`: its ring was taken along;
    `backups`: its folder of backups. `left_out`: entries whose path is too long, in a backup of before such were left
    out when it was made."""

    files: int
    made_at: int
    version: str
    before: str = ""
    keyring: bool = False
    backups: bool = False
    left_out: int = 0


class UnpackedBackup(Struct, frozen=True):
    files: int
    facts: BackupManifest
    left_out: int = 0


def unpack(
    source: Path, target: Path, identity: str = "", wanted: Callable[[str], bool] = lambda name: True
) -> UnpackedBackup:
    """Unpack a backup into an empty folder of our own. `identity`: what opens a sealed one. `wanted`: of which names,
    besides the store. It raises SetupError if that is no backup, or a damaged one.

    Its last bytes are the proof that nothing was changed or cut, so they are read, too.
    """
    links: list[tuple[Path, str, tarfile.TarInfo]] = []
    folders: list[tuple[Path, tarfile.TarInfo]] = []
    names, count, left_out = set[str](), 0, 0
    try:
        with open_plain(source, identity) as file, _open_archive(file) as tar:
            for number, entry in enumerate(tar):
                tar.members.clear()  # type: ignore[attr-defined]  # it would keep each entry
                if number > MOST_ENTRIES:
                    raise SetupError(f"{source} has more than {MOST_ENTRIES:,} entries, which no backup of ours has")
                if len(os.fsencode(entry.name)) > LONGEST_PATH:
                    left_out += 1
                    continue
                place = target / _check_name(entry)
                if entry.name not in (STORE, MANIFEST) and not wanted(entry.name):
                    continue
                _check_room(target, entry)
                if entry.issym():
                    names.add(entry.name)
                if entry.isdir():
                    place.mkdir(parents=True, exist_ok=True, mode=0o700)
                    folders.append((place, entry))
                elif entry.issym():
                    links.append((place, entry.linkname, entry))
                else:
                    count += 1
                    _write_file(tar, entry, place)
        _check_links(target, names, links, folders)
        for place, to, entry in links:
            place.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            os.symlink(to, place)
            _give(place, entry)
        for place, entry in reversed(folders):  # a folder may be closed to writers, so this comes last
            _give(place, entry)
    except _DAMAGED as error:
        raise SetupError(f"{source} is no backup, or is damaged: {error}") from None
    except OSError as error:
        raise SetupError(f"{source} cannot be unpacked to {target}: {error.strerror or error}") from None
    if not (target / STORE).is_file():
        raise SetupError(f"{source} is no backup: there is no store in it")
    said = target / MANIFEST
    facts = parse_manifest(said) if said.is_file() else BackupManifest()
    said.unlink(missing_ok=True)
    return UnpackedBackup(count, facts, left_out)


@contextmanager
def _open_archive(file: BinaryIO) -> Iterator[tarfile.TarFile]:
    with gzip.GzipFile(fileobj=file) as plain:
        with tarfile.open(fileobj=plain, mode="r|", tarinfo=BoundedEntry) as tar:
            yield tar
        while plain.read(PIECE):
            pass


def _check_links(
    target: Path,
    names: set[str],
    links: Sequence[tuple[Path, str, tarfile.TarInfo]],
    folders: Sequence[tuple[Path, tarfile.TarInfo]],
) -> None:
    """No entry lies behind a link: what is made there would be made elsewhere."""
    for place in (*(each[0] for each in links), *(each[0] for each in folders)):
        above = [str(each) for each in place.relative_to(target).parents]
        if behind := names.intersection(above):
            raise SetupError(f"{str(place)[:120]!r} lies behind the link {min(behind)[:120]!r}; nothing was restored")


def _check_room(target: Path, entry: tarfile.TarInfo) -> None:
    """A file that is small in an archive may be large on a disk."""
    if entry.sparse is not None:
        raise SetupError(f"{entry.name[:120]!r} in the backup has holes, and in none of ours; nothing was restored")
    if shutil.disk_usage(target).free < entry.size + LEAST_FREE:
        raise SetupError(f"there is no room for {entry.name[:120]!r} at {target}; nothing was restored")


def _check_name(entry: tarfile.TarInfo) -> str:
    parts = entry.name.split("/")
    plain = all(part not in ("", ".", "..") and "\0" not in part for part in parts)
    known = parts[0] in TREES if len(parts) > 1 or entry.isdir() else entry.isreg() and parts[0] not in LEFT_OUT
    of_store = entry.name.startswith(STORE) and entry.name != STORE  # its log would be written into it
    if not plain or not known or of_store or len(parts) > DEEPEST + 2:
        raise SetupError(f"{entry.name[:120]!r} is in the backup, and in none of ours; nothing was restored")
    if not (entry.isreg() or entry.isdir() or entry.issym()) or entry.size > LARGEST:
        raise SetupError(f"{entry.name[:120]!r} in the backup is neither file, folder nor link; nothing was restored")
    return entry.name


def _write_file(tar: tarfile.TarFile, entry: tarfile.TarInfo, place: Path) -> None:
    place.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    found = tar.extractfile(entry)
    assert found is not None
    fd = os.open(place, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        write_synced(fd, iter(lambda: found.read(PIECE), b""))
    finally:
        os.close(fd)
    _give(place, entry)


def _give(place: Path, entry: tarfile.TarInfo) -> None:
    """To whom it belonged, if we may. Rights of a file that is not ours to give away stay narrow."""
    if os.geteuid() == 0:
        os.chown(place, entry.uid, entry.gid, follow_symlinks=False)
    if not entry.issym():
        os.chmod(place, stat.S_IMODE(entry.mode) & 0o777)
        os.utime(place, (entry.mtime, entry.mtime))


def restore(
    source: Path,
    home: Home,
    *,
    replace: bool = False,
    identity: str = "",
    prepare: Callable[[Home], None] = lambda new: None,
) -> RestoredHome:
    """Put a backup in the home's place. `replace`: a home that is there is moved aside. The lock is the caller's.

    `prepare` gets the new home before it is in its place. If it raises, everything stays as it was.
    """
    if not is_free(home.path) and not replace:
        raise Invalid(
            "HOME",
            f"there is something in {home.path} already; --replace moves it aside, or --home names another place",
        )
    check_exchange(home.path)
    with _make_folder(home.path) as new:
        unpacked = unpack(source, new, identity)
        facts = unpacked.facts
        when = f" of {iso(facts.made_at)}" if facts.made_at else ""
        (new / MARKER).write_text(f"{source.name}{when}\n")
        ring = home.path / KEYRING
        kept = ring.is_file() and not ring.is_symlink()
        if kept:
            shutil.copy(ring, new / KEYRING)
            os.chmod(new / KEYRING, 0o600)
        os.chmod(new, stat.S_IMODE(home.path.stat().st_mode) if home.path.is_dir() else 0o700)
        prepare(Home(new))
        _sync(new)
        ready = Path(tempfile.mkdtemp(prefix=_render_prefix(home.path), dir=home.path.parent))
        os.replace(new, ready)  # from here on it may become the home that was there, which nobody removes
    before = _put_in_place(ready, home.path)
    brought = before is not None and _bring_backups(before, home.path)
    _sync(home.path.parent)
    return RestoredHome(
        files=unpacked.files,
        made_at=facts.made_at,
        version=facts.version,
        before=str(before or ""),
        keyring=kept,
        backups=brought,
        left_out=unpacked.left_out,
    )


def list_left_homes(home: Path) -> list[Path]:
    """Return what restores left beside this home that were killed in their last step: mostly the home of before, which
    nobody but the operator removes."""
    return sorted(home.parent.glob(f"{glob.escape(_render_prefix(home))}*"))


def _render_prefix(home: Path) -> str:
    return f".{home.name}-restoring-"


def check_exchange(home: Path) -> None:
    """Raise SetupError where no other home can take this one's place."""
    if home.is_mount():
        raise SetupError(
            f"{home} is where a disk or volume is mounted, and nothing can take its place. Use a folder in it as the"
            f" home, such as --home {home / 'home'}, and have the gateway start with that"
        )
    check_folder_beside(home)


def check_folder_beside(home: Path) -> None:
    """Raise SetupError where none can be made."""
    above = next(each for each in home.absolute().parents if each.exists())
    if not os.access(above, os.W_OK | os.X_OK):
        raise SetupError(
            f"nothing can be made beside {home}, because you may not write to {above}. Do this as somebody who may, or"
            " use a home in a folder of your own"
        )


def is_free(path: Path) -> bool:
    """Return True if nothing is lost when a home takes this place. The lock of a command may be there."""
    try:
        return not set(os.listdir(path)) - {"gatepost.lock", "gatepost.pid.json", "run"}
    except FileNotFoundError:
        return True
    except NotADirectoryError:
        raise Invalid("HOME", f"{path} is no folder") from None


@contextmanager
def _make_folder(home: Path) -> Iterator[Path]:
    """A folder on the home's own disk, gone when the block ends. Leftovers of a restore that was killed go first."""
    try:
        home.parent.mkdir(parents=True, exist_ok=True)
        with make_private_folder(home.parent) as folder:
            new = folder / home.name
            new.mkdir(mode=0o700)
            yield new
    except OSError as error:
        raise SetupError(f"the backup cannot be restored to {home}: {error.strerror or error}") from None


def _put_in_place(new: Path, home: Path) -> Path | None:
    """Return where the home is that was there; None if there was none. At every moment one of them is in the place."""
    if not home.exists():
        os.rename(new, home)
        return None
    had_nothing, before = is_free(home), _name_before(home)
    _exchange(new, home)
    if had_nothing:
        shutil.rmtree(new, ignore_errors=True)
        return None
    os.rename(new, before)
    return before


def _bring_backups(before: Path, home: Path) -> bool:
    """Take the backups out of the home that was moved aside: whoever removes that one must not remove them with it."""
    if not (before / BACKUPS).exists() or (home / BACKUPS).exists():
        return False
    with suppress(OSError):  # a disk of its own is mounted there: they stay where they are, which is said
        os.rename(before / BACKUPS, home / BACKUPS)
        return True
    return False


def _name_before(home: Path) -> Path:
    number = 1
    while (place := home.with_name(f"{home.name}.before-restore-{number}")).exists():
        number += 1
    return place


def _exchange(one: Path, other: Path) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    with suppress(AttributeError):
        names = os.fsencode(one), os.fsencode(other)
        if libc.renameat2(_AT_FDCWD, names[0], _AT_FDCWD, names[1], _EXCHANGE) == 0:
            return
    aside = _name_before(other)  # a file system that cannot exchange names: two steps
    try:
        os.rename(other, aside)
    except OSError as error:
        remove_folder(one)
        raise SetupError(
            f"{other} cannot be exchanged: {error.strerror or error}. Nothing was changed; choose another folder as the"
            " home"
        ) from None
    try:
        os.rename(one, other)
    except OSError:
        os.rename(aside, other)
        raise
    os.rename(aside, one)


def move_shared(home: Path, shared: Path) -> None:
    """Move the groups and sessions of a backup to the folder that gateways share, where they lay."""
    there = [name for name in SHARED_TREES if (shared / name).exists()]
    if there:
        raise Invalid("groups.shared_folder", f"{shared / there[0]} is there already; move it aside")
    for name in (*SHARED_TREES, MARK):
        if (home / name).exists():
            shutil.move(home / name, shared / name)


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
