"""The files of a world as one stream: its folder, and what providers keep of its sessions.

Agents wrote what is packed, so no link is followed and nothing but files, folders and links is taken. The digest covers
each name, mode, time and content: who unpacks reads everything back from the disk and compares. Everything here blocks.
"""

import hashlib
import os
import stat
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path

import msgspec
from msgspec import Struct

from gatepost.core.errors import Invalid
from gatepost.core.files.untrusted_files import DEEPEST, UntrustedFolder, open_untrusted, render_path

GROUPS, SESSIONS = "groups", "sessions"
MAILBOX = frozenset({"in", "out"})  # of a session, made anew where it wakes
STEP = 1024 * 1024
LENGTH = 4  # bytes before each header
LARGEST_HEADER = 64 * 1024
MODE = 0o777
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


class EntryKind(StrEnum):
    FOLDER = "folder"
    FILE = "file"
    LINK = "link"
    END = "end"


class ArchiveEntry(Struct, frozen=True):
    """`time`: of a file's last change, in nanoseconds. `size`: of what follows."""

    path: bytes = b""
    kind: EntryKind = EntryKind.END
    mode: int = 0
    time: int = 0
    size: int = 0
    link: bytes = b""


class ArchiveLimits(Struct, frozen=True):
    bytes: int
    entries: int


class ArchiveSummary(Struct, frozen=True):
    files: int
    bytes: int
    digest: str
    left_out: int = 0  # sockets, devices and the like


NO_LIMITS = ArchiveLimits(sys.maxsize, 10_000_000)
SAME_NS = 2_000_000_000

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(ArchiveEntry).decode


class _Tree:
    """Walks the trees of a world in one order, and sums up what it finds."""

    def __init__(self, home: Path, tops: Sequence[str], limits: ArchiveLimits) -> None:
        """`tops`: `groups/acme`, `sessions/s-1`; those that are not there are passed over."""
        self._home, self._tops, self._limits = home, tops, limits
        self._digest = hashlib.sha256()
        self.entries = self.bytes = self.left_out = self._owner = 0

    @property
    def summary(self) -> ArchiveSummary:
        return ArchiveSummary(self.entries, self.bytes, self._digest.hexdigest(), self.left_out)

    def walk(self) -> Iterator[tuple[UntrustedFolder, str, ArchiveEntry]]:
        """(the folder that it is opened from, its path there, what it is), a folder before what is in it."""
        for top in self._tops:
            below, _, name = top.partition("/")
            if not os.path.lexists(self._home / below):
                continue
            with open_untrusted(self._home / below) as root:
                if root.exists(name):
                    self._owner = root.stat(name).st_uid
                    skip = MAILBOX if below == SESSIONS else frozenset[str]()
                    for path, entry in self._walk(root, below, name, skip, 0):
                        yield root, path, entry

    def _walk(
        self, root: UntrustedFolder, below: str, path: str, skip: frozenset[str], depth: int
    ) -> Iterator[tuple[str, ArchiveEntry]]:
        if depth > DEEPEST:
            raise Invalid("", f"its files are more than {DEEPEST} folders deep")
        entry = self._describe(root, below, path)
        if entry is None:
            self.left_out += 1
            return
        self._count(entry)
        yield path, entry
        if entry.kind is EntryKind.FOLDER:
            for name in root.list(path, most=self._limits.entries):
                if name not in skip:
                    yield from self._walk(root, below, f"{path}/{name}", frozenset(), depth + 1)

    def _describe(self, root: UntrustedFolder, below: str, path: str) -> ArchiveEntry | None:
        found = root.stat(path)
        name, mode = os.fsencode(f"{below}/{path}"), found.st_mode & MODE
        if stat.S_ISDIR(found.st_mode):
            return ArchiveEntry(name, EntryKind.FOLDER, mode)
        if stat.S_ISLNK(found.st_mode):
            return ArchiveEntry(name, EntryKind.LINK, link=os.fsencode(root.read_link(path)))
        if not stat.S_ISREG(found.st_mode) or (self._owner and not found.st_uid and found.st_nlink > 1):
            return None  # or root's file with a second name, which may lie outside this tree
        return ArchiveEntry(name, EntryKind.FILE, mode, found.st_mtime_ns, found.st_size)

    def _count(self, entry: ArchiveEntry) -> None:
        self.entries += 1
        self.bytes += entry.size
        if self.entries > self._limits.entries:
            raise Invalid("", f"it has more than {self._limits.entries:,} files")
        if self.bytes > self._limits.bytes:
            raise Invalid("", f"its files have more than {self._limits.bytes // 1024**2:,} MB (groups.move_mb)")

    def add_to_digest(self, entry: ArchiveEntry, content: bytes) -> None:
        self._digest.update(_encode(entry) + content)


def find_newer(one: Path, other: Path, tops: Sequence[str]) -> str:
    """Return a file below `one` that `other` lacks, or has as it was before; '' if there is none. A copy keeps the time
    of a file, some to the second."""
    there = {entry.path: entry for _, _, entry in _Tree(other, tops, NO_LIMITS).walk()}
    for _, _, entry in _Tree(one, tops, NO_LIMITS).walk():
        known = there.get(entry.path)
        if (
            known is None
            or entry.time > known.time + SAME_NS
            or (entry.size != known.size and entry.time >= known.time)
        ):
            return render_path(os.fsdecode(entry.path))
    return ""


def list_tops(world: str, sessions: Sequence[str]) -> list[str]:
    return [f"{GROUPS}/{world}", *(f"{SESSIONS}/{each}" for each in sorted(sessions))]


class WorldPacker:
    def __init__(self, home: Path, tops: Sequence[str], limits: ArchiveLimits) -> None:
        self._tree = _Tree(home, tops, limits)
        self._parts, self._buffer = self._pack(), bytearray()

    def read(self, size: int) -> bytes:
        """The next bytes; fewer than `size` at the end."""
        while len(self._buffer) < size:
            part = next(self._parts, None)
            if part is None:
                break
            self._buffer += part
        data = bytes(self._buffer[:size])
        del self._buffer[:size]
        return data

    @property
    def summary(self) -> ArchiveSummary:
        """Once all of it was read."""
        return self._tree.summary

    def _pack(self) -> Iterator[bytes]:
        for root, path, entry in self._tree.walk():
            yield _frame(entry)
            content = hashlib.sha256()
            if entry.kind is EntryKind.FILE:
                with root.open_file(path) as file:
                    left = entry.size
                    while left and (data := file.read(min(left, STEP))):
                        left -= len(data)
                        content.update(data)
                        yield data
                    if left or file.read(1) or os.fstat(file.fileno()).st_mtime_ns != entry.time:
                        raise Invalid("", f"{path} was written to while it was read; run it again")
            self._tree.add_to_digest(entry, content.digest())
        yield _frame(ArchiveEntry())


def _frame(entry: ArchiveEntry) -> bytes:
    header = _encode(entry)
    return len(header).to_bytes(LENGTH, "big") + header


def measure(home: Path, tops: Sequence[str], limits: ArchiveLimits) -> ArchiveSummary:
    """Return what lies there, read from the disk."""
    tree = _Tree(home, tops, limits)
    for root, path, entry in tree.walk():
        content = hashlib.sha256()
        if entry.kind is EntryKind.FILE:
            with root.open_file(path) as file:
                while data := file.read(STEP):
                    content.update(data)
        tree.add_to_digest(entry, content.digest())
    return tree.summary


class WorldUnpacker:
    """Makes the trees anew in a folder of the host's own, which nobody else sees."""

    def __init__(self, folder: Path) -> None:
        self._fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        self._buffer, self._entry, self._left, self._out = bytearray(), ArchiveEntry(), 0, -1
        self._folders: list[ArchiveEntry] = []
        self.ended = False

    def __enter__(self) -> "WorldUnpacker":
        return self

    def __exit__(self, *_: object) -> None:
        if self._out >= 0:
            os.close(self._out)
        os.close(self._fd)

    def feed(self, data: bytes) -> None:
        """The next bytes of the stream. Raises OSError, such as for a full disk, and Invalid for what is no archive."""
        self._buffer += data
        while not self.ended:
            if self._out >= 0:
                if not self._buffer and self._left:
                    return
                self._write_some()
            elif not self._read_entry():
                return

    def _read_entry(self) -> bool:
        """False: it has not come as a whole yet."""
        size = int.from_bytes(self._buffer[:LENGTH], "big")
        if len(self._buffer) >= LENGTH and size > LARGEST_HEADER:
            raise Invalid("", "what came is no archive of a group")
        if len(self._buffer) < LENGTH + size or len(self._buffer) < LENGTH:
            return False
        try:
            entry = _decode(bytes(self._buffer[LENGTH : LENGTH + size]))
        except msgspec.MsgspecError:
            raise Invalid("", "what came is no archive of a group") from None
        del self._buffer[: LENGTH + size]
        self._add(entry)
        return True

    def _add(self, entry: ArchiveEntry) -> None:
        if entry.kind is EntryKind.END:
            self._finish()
            return
        with self._open_parent(entry) as (parent, name):
            match entry.kind:
                case EntryKind.FOLDER:
                    os.mkdir(name, 0o700, dir_fd=parent)
                    self._folders.append(entry)
                case EntryKind.LINK:
                    os.symlink(entry.link, name, dir_fd=parent)
                case EntryKind.FILE:
                    self._out = os.open(name, _NEW, 0o600, dir_fd=parent)
                    self._entry, self._left = entry, entry.size

    def _write_some(self) -> None:
        data = self._buffer[: min(self._left, STEP)]
        del self._buffer[: len(data)]
        rest = memoryview(bytes(data))
        while rest:
            rest = rest[os.write(self._out, rest) :]
        self._left -= len(data)
        if len(data) == STEP:
            os.fdatasync(self._out)  # so that no durable write of others waits for many of these pages
        if not self._left:
            os.fchmod(self._out, self._entry.mode)
            os.utime(self._out, ns=(self._entry.time, self._entry.time))
            os.close(self._out)
            self._out = -1

    def _finish(self) -> None:
        """Modes of folders come last: one may not be writable."""
        self.ended = True
        for entry in reversed(self._folders):
            with self._open_parent(entry) as (parent, name):
                os.chmod(name, entry.mode, dir_fd=parent)

    @contextmanager
    def _open_parent(self, entry: ArchiveEntry) -> Iterator[tuple[int, bytes]]:
        """No part of the way is a link, whatever the stream says."""
        *parts, name = entry.path.split(b"/")
        if not parts or any(each in (b"", b".", b"..") for each in (*parts, name)):
            raise Invalid("", "what came is no archive of a group")
        fd = os.dup(self._fd)
        try:
            for part in parts:
                below = os.open(part, _FOLDER, dir_fd=fd)
                os.close(fd)
                fd = below
            yield fd, name
        finally:
            os.close(fd)
