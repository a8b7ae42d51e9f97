"""Files that a sandbox can write, touched from the host: the only way to `groups/` and `sessions/`.

Everything goes through directory handles. No component of a path is followed if it is a link. Nothing but a regular
file is read or replaced, nothing is opened that could block, and every amount has a cap. A sandbox that renames, swaps
or grows files meanwhile changes which of its own files is seen; it never gets at those of others.
"""

import errno
import os
import shutil
import stat
import sys
import time
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import BinaryIO

from msgspec import Struct

from gatepost.core import error_classification, ids
from gatepost.core.errors import GatepostError, Invalid, NotFound

TREES = frozenset({"groups", "sessions"})  # below a folder of this name no link is followed
MOST_ENTRIES = 10_000  # in one folder that is listed
DEEPEST = 128
ENTRY_COST = 256  # bytes that `size` counts for a name, so that endless empty files are seen, too
CHUNK = 256 * 1024
STEP = 1024 * 1024  # bytes of a copy that wait for the disk at most
PAUSE_S = 0.02  # between two steps: about 50 MB a second for one copy
REMOVED = ".gone"  # how the name of a tree ends that is being removed; what a killed gateway leaves behind is swept

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_FOLDER_HERE = _FOLDER | os.O_NOFOLLOW
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_NEW_FILE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


class TreeUsage(Struct, frozen=True):
    """The part of the disk that a tree takes. `closed`: a folder in it that could not be read, '' if there is none."""

    size: int
    files: int
    closed: str = ""


class UntrustedFolder:
    """An open folder. Paths are relative to it, with `/`, and never lead out of it."""

    def __init__(self, fd: int) -> None:
        self._fd = fd

    def __enter__(self) -> "UntrustedFolder":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        os.close(self._fd)

    @property
    def identity(self) -> tuple[int, int]:
        """Device and inode: the same inside a sandbox, wherever the folder is mounted."""
        found = os.fstat(self._fd)
        return found.st_dev, found.st_ino

    def read_bytes(self, relative: str, limit: int) -> bytes:
        """A regular file, whole, if it has at most `limit` bytes."""
        with self._open_file(relative) as fd:
            return b"".join(_bounded(fd, relative, limit))

    def write_bytes(self, relative: str, data: bytes, *, mode: int = 0o600, uid: int | None = None) -> None:
        """Replace a regular file, or make it: whoever reads sees the old or the new, never a half. As root, it is
        given to `uid`, or else to whom the folder belongs."""
        with self._parent(relative) as (folder, name):
            if _kind(folder, name) not in (None, stat.S_IFREG):
                raise Invalid(relative, "is not a regular file")
            draft = f".{ids.token(9)}.tmp"
            fd = os.open(draft, _NEW_FILE, 0o600, dir_fd=folder)
            try:
                try:
                    _write_all(fd, data)
                    _chown_to_owner(fd, folder, uid)
                    os.fchmod(fd, mode)
                finally:
                    os.close(fd)
                os.rename(draft, name, src_dir_fd=folder, dst_dir_fd=folder)
            except BaseException:
                with suppress(OSError):
                    os.unlink(draft, dir_fd=folder)
                raise

    def exists(self, relative: str) -> bool:
        """Return True if anything is there, be it a link that leads nowhere."""
        try:
            with self._parent(relative) as (folder, name):
                return _kind(folder, name) is not None
        except (NotFound, Invalid):
            return False

    def stat(self, relative: str = "") -> os.stat_result:
        """Return what is there, a link not followed; '' is the folder itself."""
        if not relative:
            return os.fstat(self._fd)
        with self._parent(relative) as (folder, name):
            return os.stat(name, dir_fd=folder, follow_symlinks=False)

    def make_dir(self, relative: str, mode: int, uid: int | None = None, gid: int | None = None) -> None:
        """Make a folder with this mode and owner, and the missing ones above it. An existing folder gets this mode and
        owner."""
        with _translate_errors(relative):
            self._make_dir(_parts(relative), mode, uid, uid if gid is None else gid)

    def _make_dir(self, parts: list[str], mode: int, uid: int | None, gid: int | None) -> None:
        fd = os.dup(self._fd)
        try:
            for number, part in enumerate(parts, 1):
                made = False
                with suppress(FileExistsError):
                    os.mkdir(part, 0o700, dir_fd=fd)
                    made = True
                below = os.open(part, _FOLDER_HERE, dir_fd=fd)
                os.close(fd)
                fd = below
                if made or number == len(parts):
                    _set_owner_and_mode(fd, mode, uid, gid)
        finally:
            os.close(fd)

    def remove_tree(self, relative: str) -> None:
        """A file, a link or a whole folder; nothing happens if it is not there. However deep: two handles at a time."""
        try:
            with self._parent(relative) as (folder, name):
                _remove(folder, name)
        except NotFound:
            return

    def move(self, relative: str, to: str) -> None:
        """Move what is there to another place in this folder, where nothing may be. It is one step."""
        with self._parent(relative) as (folder, name), self._parent(to) as (other, new):
            if _kind(other, new) is not None:
                raise Invalid(to, "is there already")
            try:
                os.rename(name, new, src_dir_fd=folder, dst_dir_fd=other)
            except PermissionError:
                _move_closed(folder, name, other, new)

    def copy_out(self, relative: str, target: Path, limit: int) -> int:
        """Copy a regular file to a new file of the host's own; how many bytes it had."""
        with self._open_file(relative) as fd:
            out = os.open(target, _NEW_FILE, 0o600)
            try:
                return write_synced(out, _bounded(fd, relative, limit))
            except BaseException:
                os.unlink(target)
                raise
            finally:
                os.close(out)

    def make_link(self, relative: str, target: str) -> None:
        """A link to a file beside it. For the agent; the host follows none."""
        if len(_parts(target)) != 1:
            raise Invalid(target, "a link may lead to a name in its own folder alone")
        with self._parent(relative) as (folder, name):
            os.symlink(target, name, dir_fd=folder)
            if os.geteuid() == 0:
                around = os.fstat(folder)
                os.chown(name, around.st_uid, around.st_gid, dir_fd=folder, follow_symlinks=False)

    @contextmanager
    def open_file(self, relative: str) -> Iterator[BinaryIO]:
        """A regular file, to be read piece by piece."""
        with self._open_file(relative) as fd, os.fdopen(os.dup(fd), "rb") as file:
            yield file

    def read_link(self, relative: str) -> str:
        """Return where a link leads; it is not followed."""
        with self._parent(relative) as (folder, name):
            return os.readlink(name, dir_fd=folder)

    def list(self, relative: str = "", begins: str = "", most: int = MOST_ENTRIES) -> list[str]:
        """The names in a folder, sorted; `begins`: only those that begin so."""
        with self._open_folder(relative) as fd:
            names: list[str] = []
            for entry in os.scandir(fd):
                if entry.name.startswith(begins):
                    names.append(entry.name)
                if len(names) > most:
                    raise Invalid(relative or ".", f"holds more than {most} entries")
            return sorted(names)

    def is_empty(self) -> bool:
        with self._open_folder("") as fd, os.scandir(fd) as entries:
            return next(entries, None) is None

    def size(self, limit: int) -> int:
        """Return what the tree takes on the disk, in bytes. Stops counting above `limit`; too deep to count is above
        it."""
        return self.measure(limit).size

    def measure(self, limit: int, files: int = sys.maxsize, skip: Collection[str] = ()) -> TreeUsage:
        """Return what the tree takes: bytes, and files with folders. Stops above `limit` or `files`; too deep to count
        is above both. `skip`: folders, by their path, that are counted elsewhere."""
        walk = _TreeCounter(limit, files, frozenset(skip))
        with _translate_errors("."):
            walk.count(self._fd, "", 0)
        return TreeUsage(walk.size, walk.files, walk.closed)

    def give(self, relative: str, uid: int) -> None:
        """Let a uid own a tree, whoever owned it before: files, folders and links, none of them followed. The top
        comes last, so a tree whose top is the uid's is done, and an interrupted walk is taken up by the next call."""
        with self._open_folder(relative) as fd:
            if os.fstat(fd).st_uid != uid:
                _chown_tree(fd, uid, 0)

    @contextmanager
    def _open_folder(self, relative: str) -> Iterator[int]:
        with _translate_errors(relative):
            fd = _walk(self._fd, _parts(relative) if relative else [])
            try:
                yield fd
            finally:
                os.close(fd)

    @contextmanager
    def _parent(self, relative: str) -> Iterator[tuple[int, str]]:
        parts = _parts(relative)
        with _translate_errors(relative):
            fd = _walk(self._fd, parts[:-1])
            try:
                yield fd, parts[-1]
            finally:
                os.close(fd)

    @contextmanager
    def _open_file(self, relative: str) -> Iterator[int]:
        with self._parent(relative) as (folder, name):
            fd = os.open(name, _FILE, dir_fd=folder)
            try:
                if not stat.S_ISREG(os.fstat(fd).st_mode):
                    raise Invalid(relative, "is not a regular file")
                yield fd
            finally:
                os.close(fd)


def open_untrusted(path: Path) -> UntrustedFolder:
    """Open a folder to work in. The way to the home may lead over the operator's links; below `groups` and `sessions`
    a link could be a sandbox's and is refused."""
    parts = path.absolute().parts
    trusted = next((index for index, part in enumerate(parts) if part in TREES), len(parts) - 1) + 1
    with _translate_errors(str(path)):
        top = os.open(Path(*parts[:trusted]), _FOLDER)
        try:
            return UntrustedFolder(_walk(top, list(parts[trusted:])))
        finally:
            os.close(top)


def remove_folder(path: Path) -> None:
    """Remove a folder of the host's own in which agents' files were laid out, as far as that can be done. They may have
    closed folders to their owner: what the usual way leaves is removed by its rights."""
    shutil.rmtree(path, ignore_errors=True)
    with suppress(GatepostError, OSError):
        if path.is_dir() and not path.is_symlink():
            with open_untrusted(path) as root:
                for name in root.list(most=sys.maxsize):
                    root.remove_tree(name)
            path.rmdir()


def render_path(path: str) -> str:
    """Return a path as text. An agent may use bytes in a name that are none; they are escaped."""
    return os.fsencode(path).decode(errors="backslashreplace")


def is_larger(folder: Path, limit: int) -> bool:
    """Return True if a tree takes more of the disk than `limit` bytes. One that is not there takes nothing."""
    with suppress(GatepostError), open_untrusted(folder) as root:
        return root.size(limit) > limit
    return False


def _parts(relative: str) -> list[str]:
    parts = relative.split("/")
    if any(part in ("", ".", "..") or "\0" in part for part in parts):
        raise Invalid(relative, "must be a plain relative path")
    return parts


def _walk(fd: int, parts: list[str]) -> int:
    """A handle of its own on a folder below `fd`."""
    fd = os.dup(fd)
    try:
        for part in parts:
            below = os.open(part, _FOLDER_HERE, dir_fd=fd)
            os.close(fd)
            fd = below
    except BaseException:
        os.close(fd)
        raise
    return fd


@contextmanager
def _translate_errors(relative: str) -> Iterator[None]:
    """Yield what the system says, in our words."""
    try:
        yield
    except GatepostError:
        raise
    except FileNotFoundError:
        raise NotFound("file", relative) from None
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.EMLINK, errno.ENOTDIR):
            raise Invalid(relative, "leads over a link, or over something that is not a folder") from None
        if error.errno == errno.ENXIO:  # a socket
            raise Invalid(relative, "is not a regular file") from None
        otherwise = Invalid(relative, f"cannot be used: {error.strerror}")
        raise error_classification.to_gatepost_error(relative, error, otherwise) from None


def _kind(folder: int, name: str) -> int | None:
    try:
        return stat.S_IFMT(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode)
    except FileNotFoundError:
        return None


def _bounded(fd: int, relative: str, limit: int) -> Iterator[bytes]:
    """The file's bytes. It may grow while it is read: what counts is what was read."""
    total = 0
    too_large = Invalid(relative, f"is larger than {limit} bytes")
    if os.fstat(fd).st_size > limit:
        raise too_large
    while part := os.read(fd, CHUNK):
        total += len(part)
        if total > limit:
            raise too_large
        yield part


def _write_all(fd: int, data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(fd, rest) :]


def _chown_to_owner(fd: int, folder: int, uid: int | None) -> None:
    if uid is not None:
        os.fchown(fd, uid, uid)
    elif os.geteuid() == 0:
        around = os.fstat(folder)
        os.fchown(fd, around.st_uid, around.st_gid)


def _set_owner_and_mode(fd: int, mode: int, uid: int | None, gid: int | None) -> None:
    found = os.fstat(fd)
    if uid is not None and gid is not None and (found.st_uid, found.st_gid) != (uid, gid):
        os.fchown(fd, uid, gid)
    if stat.S_IMODE(found.st_mode) != mode:
        os.fchmod(fd, mode)


def _remove(folder: int, name: str) -> None:
    """Folders inside a folder are first moved up beside it, so that depth costs neither handles nor recursion."""
    waiting = [name]
    while waiting:
        current = waiting.pop()
        if _kind(folder, current) != stat.S_IFDIR:
            with suppress(FileNotFoundError):
                os.unlink(current, dir_fd=folder)
            continue
        fd = _open_to_empty(folder, current)
        try:
            for entry in list(os.scandir(fd)):
                if entry.is_dir(follow_symlinks=False):
                    waiting.append(_move_up(fd, entry.name, folder))
                else:
                    os.unlink(entry.name, dir_fd=fd)
        finally:
            os.close(fd)
        os.rmdir(current, dir_fd=folder)


def _move_closed(folder: int, name: str, other: int, new: str) -> None:
    """Move a folder that its owner may not write to: it cannot change its parent until they may."""
    mode = os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode
    if not stat.S_ISDIR(mode):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), name)
    fd = _open_to_empty(folder, name)
    try:
        os.rename(name, new, src_dir_fd=folder, dst_dir_fd=other)
    finally:
        os.fchmod(fd, stat.S_IMODE(mode))
        os.close(fd)


def _move_up(fd: int, name: str, folder: int) -> str:
    moved = f".{ids.token(9)}{REMOVED}"
    try:
        os.rename(name, moved, src_dir_fd=fd, dst_dir_fd=folder)
    except PermissionError:  # a folder that is not writable itself cannot change its parent
        os.close(_open_to_empty(fd, name))
        os.rename(name, moved, src_dir_fd=fd, dst_dir_fd=folder)
    return moved


def _open_to_empty(folder: int, name: str) -> int:
    """A folder whose owner took the owner's rights away is given them back (a sandbox of our own uid can do that)."""
    try:
        fd = os.open(name, _FOLDER_HERE, dir_fd=folder)
    except PermissionError:
        if sys.platform != "linux":
            raise
        handle = os.open(name, os.O_PATH | _FOLDER_HERE, dir_fd=folder)
        try:
            os.chmod(f"/proc/self/fd/{handle}", 0o700)
        finally:
            os.close(handle)
        fd = os.open(name, _FOLDER_HERE, dir_fd=folder)
    if os.fstat(fd).st_uid == os.geteuid():
        os.fchmod(fd, 0o700)
    return fd


@dataclass(slots=True)
class _TreeCounter:
    """Counts a tree. A file with several names is counted once, whichever of them is seen."""

    limit: int
    most_files: int
    skip: frozenset[str]
    size: int = 0
    files: int = 0
    closed: str = ""
    _linked: set[tuple[int, int]] = field(default_factory=set)

    @property
    def over(self) -> bool:
        return self.size > self.limit or self.files > self.most_files

    def count(self, fd: int, place: str, depth: int) -> None:
        if depth > DEEPEST:
            self.size, self.files = max(self.size, self.limit + 1), max(self.files, self.most_files)
            return
        for entry in os.scandir(fd):
            path = f"{place}{entry.name}"
            if path in self.skip:
                continue
            with suppress(FileNotFoundError, NotADirectoryError):  # it went away or became another meanwhile
                self._add(fd, entry.name, path, depth)
            if self.over:
                break

    def _add(self, fd: int, name: str, path: str, depth: int) -> None:
        found = os.stat(name, dir_fd=fd, follow_symlinks=False)
        self.files += 1
        self.size += ENTRY_COST
        if found.st_nlink < 2 or stat.S_ISDIR(found.st_mode) or self._is_new(found):
            self.size += found.st_blocks * 512
        if stat.S_ISDIR(found.st_mode) and not self.over:
            self._descend(fd, name, path, depth)

    def _is_new(self, found: os.stat_result) -> bool:
        key = (found.st_dev, found.st_ino)
        known = key in self._linked
        self._linked.add(key)
        return not known

    def _descend(self, fd: int, name: str, path: str, depth: int) -> None:
        try:
            below = os.open(name, _FOLDER_HERE, dir_fd=fd)
        except OSError as error:
            if error.errno == errno.EACCES:
                self.closed = self.closed or path
            elif error.errno not in (errno.ELOOP, errno.ENOENT, errno.ENOTDIR):
                raise
            return
        try:
            self.count(below, f"{path}/", depth + 1)
        except PermissionError:  # it may be listed and not entered
            self.closed = self.closed or path
        finally:
            os.close(below)


def _chown_tree(fd: int, uid: int, depth: int) -> None:
    if depth > DEEPEST:
        return  # what lies so deep stays whose it is: better than a session that never wakes
    for entry in os.scandir(fd):
        with suppress(FileNotFoundError, NotADirectoryError):  # an agent of this tree that runs meanwhile removed it
            _chown_entry(fd, entry.name, uid, depth)
    os.fchown(fd, uid, uid)


def _chown_entry(fd: int, name: str, uid: int, depth: int) -> None:
    found = os.stat(name, dir_fd=fd, follow_symlinks=False)
    if stat.S_ISDIR(found.st_mode):
        below = os.open(name, _FOLDER_HERE, dir_fd=fd)
        try:
            _chown_tree(below, uid, depth + 1)
        finally:
            os.close(below)
    elif found.st_uid != uid and not (found.st_uid == 0 and found.st_nlink > 1):
        # Root's file with a second name is left alone: that name may lie outside this tree.
        os.chown(name, uid, uid, dir_fd=fd, follow_symlinks=False)


def write_synced(out: int, parts: Iterable[bytes]) -> int:
    """Write all parts to a descriptor, and to the disk after each step. Return how many bytes they were.

    The file system flushes a file's new pages with the next commit of anybody, so a large copy would make every durable
    write wait for the disk. Here only a few pages wait at any time, and between two steps the disk is everybody else's.
    """
    size = waiting = 0
    for part in parts:
        rest = memoryview(part)
        while rest:
            rest = rest[os.write(out, rest) :]
        size += len(part)
        waiting += len(part)
        if waiting >= STEP:
            os.fdatasync(out)
            time.sleep(PAUSE_S)
            waiting = 0
    return size
