"""The contents of a backup, as a tar: what it is of, the store in one snapshot, settings, plug-ins, groups,
conversations and media.

A store in PostgreSQL is in it as the file that `gatepost store copy` would make. If gateways have folders of their own,
those of this one are in it; a folder that gateways share is in it, too.

The key ring and the control token are never in it: a backup must not open the secrets in it. Nor is `channels/`, where
libraries keep tokens and keys of devices in the clear. An old copy of them must not be used, either: their ratchets
would give out keys a second time. Files that sandboxes can write are read through directory handles; links are kept as
links and never followed.
"""

import errno
import io
import json
import os
import stat
import sys
import tarfile
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO, Self

from gatepost import __version__
from gatepost.core import settings
from gatepost.core.clock import SystemClock
from gatepost.core.errors import GatepostError, Invalid, SetupError
from gatepost.core.files.private_files import UNDER_WAY, make_private_folder, make_whole_file
from gatepost.core.files.untrusted_files import UntrustedFolder, open_untrusted, render_path
from gatepost.core.home import Home
from gatepost.core.keyring import FILE as KEYRING
from gatepost.core.keyring import Keyring
from gatepost.core.process import home_lock
from gatepost.flow.gateways.group_place import MARK, place_home
from gatepost.serve.backups.sealed_files import BINARY, SEALED
from gatepost.serve.control.token_auth import TOKEN_FILE, token_path
from gatepost.store.engine.open_store import copy_store_rows
from gatepost.store.engine.place import SAVED, StorePlace, find_place
from gatepost.store.engine.readonly import find_damage, get_newest_version, read_snapshot
from gatepost.store.engine.sqlite_copy import copy_store
from gatepost.store.gateways.machine_memory import HOME_MEMORY, MemoryFile, is_in_place

MANIFEST = "backup.json"  # the first file in it: what it is of
SHARED_TREES = ("groups", "sessions")  # in a folder that gateways share, if they do
TREES = (*SHARED_TREES, "worktrees", "media", "plugins")
LEFT_OUT = (KEYRING, "control.token", "gatepost.lock", "gatepost.pid.json", SAVED, HOME_MEMORY)
MAILBOXES = ("in", "out")  # of a session; written at this moment if the gateway runs, and made anew from the store
STORE = "gatepost.db"
LARGEST = 8 * 1024**3  # bytes of one file; more is no file that an agent works with
MOST_HOLES = 1024**3  # bytes of holes in all files; they cost an agent nothing, and us the time to write them
MOST_PIECES = 1000  # of a file between holes that are looked for
MOST_SKIPPED, LONGEST_SKIPPED = 100, 300  # of what is left out are named; characters of a name
DEEPEST = 128  # folders in each other
LARGEST_HEADER = 64 * 1024  # bytes of what extends a header, such as a long name: they are read at once
LONGEST_PATH = 3000  # bytes; the system takes 4096, with the folder that a backup is put back into

_EXTENDING = frozenset(
    {
        tarfile.XHDTYPE,
        tarfile.XGLTYPE,
        tarfile.SOLARIS_XHDTYPE,
        tarfile.GNUTYPE_LONGNAME,
        tarfile.GNUTYPE_LONGLINK,
    }
)


class BoundedEntry(tarfile.TarInfo):
    """Refuses headers that have to be read at once and are large, and maps of holes, which have no bound."""

    @classmethod
    def frombuf(cls, buf: bytes | bytearray, encoding: str, errors: str) -> Self:
        found = super().frombuf(buf, encoding, errors)
        if found.type == tarfile.GNUTYPE_SPARSE:
            raise tarfile.ReadError("it has a file with holes")
        if found.type in _EXTENDING and found.size > LARGEST_HEADER:
            raise tarfile.ReadError(f"it has a header of {found.size:,} bytes")
        return found

    def _proc_gnusparse_10(self, *_: object) -> None:
        """Refuse the other way to write such a map. The library calls it by this name."""
        raise tarfile.ReadError("it has a file with holes")


def list_devices(home: Home) -> list[str]:
    """The instances of channels that keep something, which is left out."""
    try:
        return sorted(each.name for each in home.channels.iterdir() if any(each.iterdir()))
    except OSError:
        return []


@dataclass
class BackupContents:
    """The contents of an archive that was written."""

    made_at: int = 0
    files: int = 0
    skipped: list[str] = field(default_factory=list)  # the first paths that could not be read, or are no files
    skipped_in_all: int = 0
    holes: int = 0  # bytes of them in the files

    def skip(self, path: str) -> None:
        """Agents make such paths: they may be no text, and more than anybody reads."""
        self.skipped_in_all += 1
        if len(self.skipped) < MOST_SKIPPED:
            text = render_path(path)
            self.skipped.append(text if len(text) <= LONGEST_SKIPPED else f"{text[:LONGEST_SKIPPED]}…")


def find_keyring(home: Home) -> str:
    """Return where the key ring is, which is left out; '' if there is none."""
    keyring = Keyring(home)
    return keyring.where if keyring.read() is not None else ""


def write_archive(home: Home, target: Path) -> BackupContents:
    """To a new file of the owner's alone."""
    token = token_path(home, settings.load_declared(home.path, TOKEN_FILE)).absolute()
    try:
        with make_whole_file("FILE", target) as file:
            return _write(home, file, target, token)
    except OSError as error:
        raise SetupError(f"the backup cannot be written to {target}: {error.strerror or error}") from None


def _write(home: Home, file: BinaryIO, target: Path, token: Path) -> BackupContents:
    found, running = BackupContents(made_at=SystemClock().now()), home_lock.find_holder(home) is not None
    memory = MemoryFile(home.path / HOME_MEMORY).load() if running else None
    place, placed = find_place(home), place_home(home, settings.load_declared(home.path))
    if not place.url and memory is not None and not is_in_place(home.store, memory.file):
        why = "its file was removed or replaced while the gateway runs, which saves it in a moment"
        raise SetupError(f"the store cannot be backed up: {why}; `gatepost status` says how to go on")
    with tarfile.open(fileobj=file, mode="w:gz", format=tarfile.PAX_FORMAT, compresslevel=6) as tar:
        with make_private_folder(target.parent) as folder:
            copy = folder / home.store.name
            if place.url:
                copy_store_rows(place, StorePlace(copy), lambda table: None, running=True)
            else:
                copy_store(place, copy)
            broken = read_snapshot(copy, find_damage)
            if broken:
                raise SetupError(f"the store is damaged ({broken}), so nothing was backed up; restore a backup")
            _add_bytes(tar, MANIFEST, _make_manifest(found, placed))
            tar.add(copy, home.store.name)
            found.files += 1
        own = os.fstat(file.fileno())
        with open_untrusted(home.path) as root:
            for path, info in _walk(
                root, found, running, _list_top(root), TREES if placed.shared is None else TREES[2:]
            ):
                if home.path / path == token or os.path.samestat(info, own) or _is_backup(root, path, info):
                    continue
                _add(tar, root, path, info, found)
        if placed.shared is not None:
            with open_untrusted(placed.shared) as root:
                for path, info in _walk(root, found, running, [MARK] if root.exists(MARK) else [], SHARED_TREES):
                    _add(tar, root, path, info, found)
    return found


def _make_manifest(found: BackupContents, placed: Home) -> bytes:
    facts = {"made_at": found.made_at, "version": __version__, "schema": get_newest_version()}
    facts |= {"home": str(placed.path), "shared": placed.shared is not None, "gateway": placed.gateway}
    return json.dumps(facts).encode()


def _add_bytes(tar: tarfile.TarFile, name: str, data: bytes) -> None:
    entry = tarfile.TarInfo(name)
    entry.mode, entry.size = 0o600, len(data)
    tar.addfile(entry, io.BytesIO(data))


def _list_top(root: UntrustedFolder) -> list[str]:
    """Settings, and other files of the operator's beside them."""
    names = root.list(most=sys.maxsize)
    return [name for name in names if name not in (*LEFT_OUT, MANIFEST) and not name.startswith((STORE, UNDER_WAY))]


def _walk(
    root: UntrustedFolder, found: BackupContents, running: bool, files: Sequence[str], trees: Sequence[str]
) -> Iterator[tuple[str, os.stat_result]]:
    """Yield these files, then what is in the trees; folders before what is in them."""
    for name in files:
        info = root.stat(name)
        if stat.S_ISREG(info.st_mode):
            yield name, info
    waiting = [name for name in reversed(trees) if root.exists(name)]
    while waiting:
        path = waiting.pop()
        try:
            if len(os.fsencode(path)) > LONGEST_PATH:
                raise Invalid(path, "has a path that is too long")
            info = root.stat(path)
            yield path, info
            if stat.S_ISDIR(info.st_mode):
                if path.count("/") >= DEEPEST:
                    raise Invalid(path, "lies too deep")
                names = root.list(path, most=sys.maxsize)
                waiting += [f"{path}/{name}" for name in reversed(names) if _is_kept(path, name, running)]
        except GatepostError:
            found.skip(path)  # it went away meanwhile, or is closed to us


def _is_backup(root: UntrustedFolder, path: str, info: os.stat_result) -> bool:
    """Return True for an earlier backup beside the settings: each would hold all those before it."""
    if "/" in path or not stat.S_ISREG(info.st_mode):
        return False
    try:
        with root.open_file(path) as file:
            if file.read(len(BINARY)) == BINARY:
                return path.endswith(SEALED)
            file.seek(0)
            with tarfile.open(fileobj=file, mode="r|gz", bufsize=tarfile.BLOCKSIZE, tarinfo=BoundedEntry) as tar:
                first = tar.next()
                return first is not None and first.name in (MANIFEST, STORE)
    except (tarfile.TarError, EOFError, zlib.error, OSError, GatepostError):
        return False


def _is_kept(folder: str, name: str, running: bool) -> bool:
    in_session = folder.startswith("sessions/") and folder.count("/") == 1
    return not (running and in_session and name in MAILBOXES)


def _add(tar: tarfile.TarFile, root: UntrustedFolder, path: str, info: os.stat_result, found: BackupContents) -> None:
    entry = tarfile.TarInfo(path)
    entry.mode, entry.mtime = stat.S_IMODE(info.st_mode) & 0o777, int(info.st_mtime)
    entry.uid, entry.gid = info.st_uid, info.st_gid
    if stat.S_ISDIR(info.st_mode):
        entry.type = tarfile.DIRTYPE
        tar.addfile(entry)
        return
    try:
        if stat.S_ISLNK(info.st_mode):
            entry.type, entry.linkname = tarfile.SYMTYPE, root.read_link(path)
            tar.addfile(entry)
        else:
            with root.open_file(path) as file:
                entry.size = min(os.fstat(file.fileno()).st_size, LARGEST + 1)
                if entry.size > LARGEST:
                    raise Invalid(path, "is too large")
                holes = _holes(file.fileno(), entry.size)
                if found.holes + holes > MOST_HOLES:
                    raise Invalid(path, "has too many holes")
                found.holes += holes
                tar.addfile(entry, _PaddedReader(file, entry.size))
        found.files += 1
    except GatepostError:
        found.skip(path)  # a socket, a pipe, or gone meanwhile


def _holes(fd: int, size: int) -> int:
    """Count the bytes of a file that were never written; 0 if the system cannot tell."""
    data = place = 0
    try:
        for _ in range(MOST_PIECES):
            begin = os.lseek(fd, place, os.SEEK_DATA)
            place = os.lseek(fd, begin, os.SEEK_HOLE)
            data += place - begin
            if place >= size:
                break
    except OSError as error:
        if error.errno != errno.ENXIO:  # no data behind this place
            return 0
    finally:
        os.lseek(fd, 0, os.SEEK_SET)
    return max(size - data, 0)


class _PaddedReader(io.RawIOBase):
    """As many bytes as were announced: a file that shrinks while it is read ends in zeros."""

    def __init__(self, file: BinaryIO, size: int) -> None:
        self._file, self._left = file, size

    def read(self, size: int = -1) -> bytes:
        wanted = self._left if size < 0 else min(size, self._left)
        data = self._file.read(wanted)
        data += bytes(wanted - len(data))
        self._left -= wanted
        return data
