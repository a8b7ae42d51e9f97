"""One daemon per home. The OS lock on `gatepost.lock` decides; it is held for life and the file is never unlinked,
because whoever unlinks it lets two start.

`gatepost.pid.json` beside it is information only: corrupt, empty, foreign or stale, it never blocks a start.
"""

import fcntl
import json
import os
import socket
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from msgspec import Struct

from gatepost.core import clock
from gatepost.core.errors import SetupError
from gatepost.core.home import Home
from gatepost.core.records import replace

DAEMON = "daemon"
# A command that only looks holds the lock for an instant, and so does what a killed gateway was about to start.
# Neither must make a start fail.
PATIENCE_S = 2.0
_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
_LOCKS = Path("/proc/locks")


class LockHolder(Struct, frozen=True, kw_only=True):
    """The holder of a home, as far as it is known. Only `pid` 0 means: somebody, but nobody can say who."""

    pid: int = 0
    started_at: str = ""
    hostname: str = ""
    boot_id: str = ""
    uid: int = -1
    listen: str = ""
    control: str = ""
    argv: tuple[str, ...] = ()
    role: str = ""  # DAEMON: a gateway that serves; '': a command, or not known
    began: str = ""  # the kernel's own word on when the process began; '' where it has none

    @property
    def is_daemon(self) -> bool:
        """Return True if this is for certain a gateway that still runs: what it wrote about itself is true of the
        process that has its pid now."""
        return self.role == DAEMON and self.pid > 0 and self.here and self.began == get_process_start(self.pid)

    @property
    def here(self) -> bool:
        """Return True if it was written on this machine since it booted; elsewhere its pid means nothing."""
        return self.hostname == socket.gethostname() and self.boot_id == _boot_id()


class HomeLocked(SetupError):
    """Another process has this home."""

    def __init__(self, home: Home, info: LockHolder) -> None:
        who = f"pid {info.pid}" if info.pid else "a process that this one cannot see"
        since = f", since {info.started_at}" if info.started_at else ""
        super().__init__(
            f"already running in {home.path} ({who}{since}); `gatepost down` ends it, `--home` chooses another home"
        )
        self.info = info


class HomeLock:
    """A home that is ours until `release`, or until this process ends in whatever way."""

    def __init__(self, home: Home, handle: int, info: LockHolder) -> None:
        self._home, self._handle, self.info = home, handle, info

    def publish(self, *, listen: str, control: str) -> None:
        """Say where we are reached, once that is bound."""
        self.info = replace(self.info, listen=listen, control=control)
        _write(self._home, self.info)

    def release(self) -> None:
        """The information goes first, while nobody else can have written theirs."""
        if self._handle < 0:
            return
        with suppress(OSError):  # information only, and the disk may be one that can only be read by now
            self._home.pid_file.unlink(missing_ok=True)
        os.close(self._handle)
        self._handle = -1

    def __enter__(self) -> "HomeLock":
        return self

    def __exit__(self, *_: object) -> None:
        self.release()


def acquire(home: Home, *, patience: float = PATIENCE_S, role: str = "") -> HomeLock:
    """Become this home's only writer, or fail naming the one that is. `role`: DAEMON, for one that serves."""
    handle = _open(home)
    deadline = time.monotonic() + patience
    while not _try_flock(handle, fcntl.LOCK_EX):
        info = _identify_holder(home, handle)
        if info.is_daemon or time.monotonic() >= deadline:  # a gateway stays; anybody else is soon done
            os.close(handle)
            raise HomeLocked(home, info)
        time.sleep(0.02)
    info = LockHolder(
        pid=os.getpid(),
        started_at=clock.iso(clock.SystemClock().now()) or "",
        hostname=socket.gethostname(),
        boot_id=_boot_id(),
        uid=os.getuid(),
        argv=tuple(sys.argv),
        role=role,
        began=get_process_start(os.getpid()),
    )
    _write(home, info)
    return HomeLock(home, handle, info)


def find_holder(home: Home) -> LockHolder | None:
    """Return who holds this home now; None if nobody does."""
    if not home.lock.exists():
        return None
    handle = _open(home, os.O_RDONLY)  # also on a disk that can only be read
    try:
        return None if _try_flock(handle, fcntl.LOCK_SH) else _identify_holder(home, handle)
    finally:
        os.close(handle)


def read_holder(home: Home) -> LockHolder | None:
    """Return what the information beside the lock says, whoever wrote it and when; None if it cannot be read."""
    try:
        found: Any = json.loads(home.pid_file.read_bytes())
        return LockHolder(
            pid=int(found["pid"]),
            started_at=str(found.get("startedAt", "")),
            hostname=str(found.get("hostname", "")),
            boot_id=str(found.get("bootId", "")),
            uid=int(found.get("uid", -1)),
            listen=str(found.get("listen", "")),
            control=str(found.get("control", "")),
            argv=tuple(str(each) for each in found.get("argv", ())),
            role=str(found.get("role", "")),
            began=str(found.get("began", "")),
        )
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        return None


def _open(home: Home, how: int = os.O_RDWR | os.O_CREAT) -> int:
    try:
        return os.open(home.lock, how | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise SetupError(f"the lock {home.lock} cannot be opened: {error.strerror}; is this home yours?") from None


def _try_flock(handle: int, how: int) -> bool:
    try:
        fcntl.flock(handle, how | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _identify_holder(home: Home, handle: int) -> LockHolder:
    """The kernel knows who holds the lock; the file may be corrupt, or still be that of a daemon that was killed."""
    holder = read_holder(home)
    pid = _find_pid(os.fstat(handle))
    if holder is not None and holder.here and pid in (0, holder.pid):
        return holder
    return LockHolder(pid=pid)


def _find_pid(lock: os.stat_result) -> int:
    """0 where the kernel does not tell (another system, another pid namespace)."""
    wanted = f"{os.major(lock.st_dev):02x}:{os.minor(lock.st_dev):02x}:{lock.st_ino}"
    with suppress(OSError, ValueError):
        for line in _LOCKS.read_text().splitlines():
            fields = line.split()
            if len(fields) >= 6 and fields[1] == "FLOCK" and fields[5] == wanted and int(fields[4]) > 0:
                return int(fields[4])
    return 0


def get_process_start(pid: int) -> str:
    """When a process began, in the kernel's ticks since the boot: with its pid it is one process and no other."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return "" if fields[0] == "Z" else fields[19]  # one that has ended and waits for its parent is no process
    except (OSError, IndexError):
        return ""


def _boot_id() -> str:
    try:
        return _BOOT_ID.read_text().strip()
    except OSError:
        return ""


def _write(home: Home, info: LockHolder) -> None:
    """Whole or not at all: a crash between truncate and write must not leave an empty file."""
    text = json.dumps(
        {
            "pid": info.pid,
            "startedAt": info.started_at,
            "hostname": info.hostname,
            "bootId": info.boot_id,
            "uid": info.uid,
            "listen": info.listen,
            "control": info.control,
            "argv": info.argv,
            "role": info.role,
            "began": info.began,
        }
    )
    temporary = home.pid_file.with_name(f".{home.pid_file.name}.{info.pid}")
    with suppress(OSError):  # information only: a start does not fail for it
        temporary.unlink(missing_ok=True)
        handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
        with os.fdopen(handle, "w") as file:
            file.write(text + "\n")
        temporary.replace(home.pid_file)
