"""The two files of a host in the temporary folder: `gatepost_embed_<32 hex>.json` (what the tools are) and `.sock`.

The process that holds the lock on the .json is the owner and alive: the kernel releases the lock when a process ends,
however it ends. Both files are made in a folder that nobody else can enter, and are moved out when complete. So they
are locked, and readable by their owner alone, from the first moment that anybody sees them.
"""

import errno
import fcntl
import os
import re
import shutil
import stat
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from socket import AF_UNIX, SOCK_STREAM
from socket import socket as Socket
from uuid import uuid4

PREFIX = "gatepost_embed_"
LONGEST = 107 if sys.platform == "linux" else 103  # bytes of a socket's path
ABANDONED_S = 60  # a folder in which files were being made

_OURS = re.compile(rf"({PREFIX}[0-9a-f]{{32}})\.(json|sock|new)")


@dataclass(frozen=True, slots=True)
class HostFiles:
    """A living host's files. `listener` is bound, not listening yet; `lock` is held as long as it is open."""

    socket: Path
    schema: Path
    listener: Socket
    lock: int

    def remove(self) -> None:
        for path in (self.socket, self.schema):
            path.unlink(missing_ok=True)
        os.close(self.lock)


def make_files(schema: bytes, folder: Path | None = None) -> HostFiles:
    base = folder or Path(tempfile.gettempdir())
    stem = f"{PREFIX}{uuid4().hex}"
    path = base / f"{stem}.sock"
    if len(os.fsencode(path)) > LONGEST:
        raise OSError(f"{path} is longer than a socket's path may be ({LONGEST} bytes): set TMPDIR to a shorter folder")
    with _closed_folder(base / f"{stem}.new") as making, _complete_or_closed() as opened:
        lock = os.open(making / "json", os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        opened.append(lock)
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        with os.fdopen(os.dup(lock), "wb") as file:
            file.write(schema)
        listener = Socket(AF_UNIX, SOCK_STREAM)
        opened.append(listener)
        listener.bind(os.fspath(making / "s"))
        os.chmod(making / "s", 0o600)
        files = HostFiles(path, base / f"{stem}.json", listener, lock)
        (making / "json").rename(files.schema)
        (making / "s").rename(files.socket)
    return files


@contextmanager
def _closed_folder(path: Path) -> Iterator[Path]:
    path.mkdir(0o700)
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)


@contextmanager
def _complete_or_closed() -> Iterator[list[int | Socket]]:
    opened: list[int | Socket] = []
    try:
        yield opened
    except BaseException:
        for each in opened:
            each.close() if isinstance(each, Socket) else os.close(each)
        raise


def remove_stale_files(folder: Path | None = None) -> list[Path]:
    """Remove the files of dead owners, and return them. Files that cannot be judged, or are not ours, stay."""
    base = folder or Path(tempfile.gettempdir())
    removed: list[Path] = []
    for name in sorted(os.listdir(base)):
        found = _OURS.fullmatch(name)
        if found is None:
            continue
        path, schema = base / name, base / f"{found[1]}.json"
        with suppress(OSError):  # one that cannot be judged or removed does not keep the others
            if path.lstat().st_uid == os.geteuid() and _is_dead(path, schema):
                shutil.rmtree(path) if path.is_dir() else path.unlink()
                removed.append(path)
    return removed


def _is_dead(path: Path, schema: Path) -> bool:
    kind = path.lstat().st_mode
    if stat.S_ISDIR(kind):
        old = time.time() - path.lstat().st_mtime > ABANDONED_S  # a young one may be about to take its lock
        return old and (not (path / "json").exists() or _is_unlocked(path / "json"))
    if stat.S_ISREG(kind):
        return _is_unlocked(path)
    return stat.S_ISSOCK(kind) and (_is_unlocked(schema) if schema.exists() else _is_refused(path))


def _is_unlocked(path: Path) -> bool:
    """Nobody holds its lock."""
    handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    finally:
        os.close(handle)
    return True


def _is_refused(path: Path) -> bool:
    """A socket whose schema is gone says itself whether anybody listens."""
    with Socket(AF_UNIX, SOCK_STREAM) as probe:
        probe.setblocking(False)
        return probe.connect_ex(os.fspath(path)) == errno.ECONNREFUSED
