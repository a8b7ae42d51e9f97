"""The processes of started sandboxes, seen from the host: which they are, what they hold that no folder shows, and how
they are stopped for a moment.

Everything here reads /proc. If that does not tell (another system, a process that hides its descriptors), the answer is
too small, never an error.

While this gateway may not act, everything in its sandboxes is held still, by the gateway's own clock. Should the
gateway be stopped, its keeper does the same.
"""

import os
import signal
import stat
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Protocol, runtime_checkable

from msgspec import Struct

from gatepost.core import log
from gatepost.core.process.fencing import FenceCheck, always
from gatepost.sandboxes.contract import Sandbox

MOST_DESCRIPTORS = 50_000  # that are looked at in one sandbox
STOP_PASSES = 5  # a process can fork while it is being stopped
IN_MEMORY = ("tmp", "dev/shm")  # file systems of a sandbox's own that are memory
LARGEST_MAPS = 4 << 20  # bytes of all maps of a sandbox that are read
KIB = 1024
_log = log.get("sessions")


@runtime_checkable
class Freezable(Protocol):
    """A sandbox that can be frozen as a whole, by its cgroup. False: it cannot, here."""

    @property
    def freezer(self) -> Path | None:
        """The file that does it; None: there is none."""
        ...

    def freeze(self) -> bool: ...

    def thaw(self) -> None: ...


class UnlinkedFileUsage(Struct, frozen=True):
    """Bytes that processes hold and no folder shows."""

    deleted: int = 0  # files of the disk that have no name any more
    memfd: int = 0


def list_pids(sandboxes: Sequence[Sandbox]) -> list[list[int]]:
    """The processes of each sandbox, by one pass over /proc."""
    found: list[list[int]] = [[] for _ in sandboxes]
    spaces = {each.pid_namespace: number for number, each in enumerate(sandboxes) if each.pid_namespace is not None}
    others = [number for number, each in enumerate(sandboxes) if each.pid_namespace is None]
    for pid in _every_pid():
        try:
            number = spaces.get(os.stat(f"/proc/{pid}/ns/pid").st_ino)
        except OSError:
            number = next((each for each in spaces.values() if sandboxes[each].owns(pid)), None)
        if number is None:
            number = next((each for each in others if sandboxes[each].owns(pid)), None)
        if number is not None:
            found[number].append(pid)
    return found


def freeze(sandboxes: Sequence[Sandbox]) -> None:
    """Nothing in them runs until `thaw`. They can be killed meanwhile."""
    left = [each for each in sandboxes if not (isinstance(each, Freezable) and each.freeze())]
    stopped: set[int] = set()
    for _ in range(STOP_PASSES if left else 0):
        running = {pid for each in list_pids(left) for pid in each} - stopped
        if not running:
            return
        _signal(running, signal.SIGSTOP)
        stopped |= running


def find_freezer(sandbox: Sandbox) -> str:
    """The file of its cgroup that freezes it; '' if it has none."""
    path = sandbox.freezer if isinstance(sandbox, Freezable) else None
    return "" if path is None else str(path)


def thaw(sandboxes: Sequence[Sandbox]) -> None:
    left = []
    for each in sandboxes:
        if isinstance(each, Freezable):
            each.thaw()
        left.append(each)
    for pids in list_pids(left):
        _signal(pids, signal.SIGCONT)


def measure_unlinked_files(pids: Iterable[int], devices: Iterable[int]) -> UnlinkedFileUsage:
    """`devices`: of the file systems whose deleted files count; of none, maps are not looked at."""
    disks, seen = frozenset(devices), set[tuple[int, int]]()
    pids = list(pids)
    deleted = memfd = looked = 0
    for path in (each for pid in pids for each in _descriptors(pid)):
        looked += 1
        if looked > MOST_DESCRIPTORS:
            break
        try:
            found = os.stat(path)
        except OSError:
            continue
        key = (found.st_dev, found.st_ino)
        if not stat.S_ISREG(found.st_mode) or found.st_nlink or key in seen:
            continue
        seen.add(key)
        if found.st_dev in disks:
            deleted += found.st_blocks * 512
        elif _target(path).startswith("/memfd:"):
            memfd += found.st_blocks * 512
    for key, size in _mapped_and_deleted(pids if disks else ()):
        if key[0] in disks and key not in seen:
            seen.add(key)
            deleted += size
    return UnlinkedFileUsage(deleted, memfd)


def measure_memory(pids: Sequence[int], inner_pid: int, limit: int) -> int:
    """The memory of a sandbox, in bytes, as far as /proc tells: private and shared pages, memfds, file systems in
    memory. The quick sum counts pages twice that processes share; only above `limit` it is looked at closely."""
    kept = measure_unlinked_files(pids, ()).memfd + _tmpfs(inner_pid)
    quick = kept + sum(_status(pid) for pid in pids)
    return quick if quick <= limit else kept + sum(_shares(pid) for pid in pids)


def _every_pid() -> list[int]:
    try:
        return [int(name) for name in os.listdir("/proc") if name.isdecimal()]
    except OSError:
        return []


def _signal(pids: Iterable[int], number: signal.Signals) -> None:
    for pid in pids:
        with suppress(ProcessLookupError, PermissionError):
            os.kill(pid, number)


def _descriptors(pid: int) -> Iterator[str]:
    with suppress(OSError):
        for name in os.listdir(f"/proc/{pid}/fd"):
            yield f"/proc/{pid}/fd/{name}"


def _mapped_and_deleted(pids: Iterable[int]) -> Iterator[tuple[tuple[int, int], int]]:
    """Files without a name that processes have mapped, perhaps with no descriptor left: which, and how much of each.
    Each process has its share of what is read, so that none can hide the others' with very many maps of its own."""
    left = LARGEST_MAPS
    waiting = list(pids)
    while waiting and left > 0:
        pid = waiting.pop()
        with suppress(OSError, ValueError), Path(f"/proc/{pid}/maps").open("rb") as maps:
            read = maps.read(max(4096, left // (len(waiting) + 1)))
            left -= len(read)
            for line in read.split(b"\n"):
                if line.endswith(b" (deleted)"):
                    span, _, _, device, inode, *_ = line.split(None, 5)
                    first, _, last = span.partition(b"-")
                    major, _, minor = device.partition(b":")
                    yield (os.makedev(int(major, 16), int(minor, 16)), int(inode)), int(last, 16) - int(first, 16)


def _target(path: str) -> str:
    try:
        return os.readlink(path)
    except OSError:
        return ""


def _status(pid: int) -> int:
    return _sum(Path(f"/proc/{pid}/status"), (b"RssAnon:", b"RssShmem:", b"VmSwap:"))


def _shares(pid: int) -> int:
    """Return what is a process's own, with its share of what it has in common with others."""
    rollup = Path(f"/proc/{pid}/smaps_rollup")
    found = _sum(rollup, (b"Pss_Anon:", b"Pss_Shmem:", b"SwapPss:"))
    return found or _status(pid)


def _sum(path: Path, names: tuple[bytes, ...]) -> int:
    """Add up these lines in bytes. They are split by the kernel's own line ends: a process can give itself any other
    sign as its name."""
    total = 0
    with suppress(OSError, ValueError, IndexError):
        for line in path.read_bytes().split(b"\n"):
            if line.startswith(names):
                total += int(line.split()[1]) * KIB
    return total


def _tmpfs(inner_pid: int) -> int:
    """Return what lies in the sandbox's own file systems in memory. One that is the host's own is not looked at."""
    total = 0
    for place in IN_MEMORY:
        with suppress(OSError):
            inside = f"/proc/{inner_pid}/root/{place}"
            if os.stat(inside).st_dev != os.stat(f"/{place}").st_dev:
                found = os.statvfs(inside)
                total += (found.f_blocks - found.f_bfree) * found.f_frsize
    return total


class SandboxKeeper(Protocol):
    """Holds sandboxes when this process cannot."""

    def add(self, sandbox: Sandbox, freezer: str) -> None: ...
    def remove(self, sandbox: Sandbox) -> None: ...


class SandboxFreezer:
    def __init__(self, may_act: FenceCheck = always, keeper: SandboxKeeper | None = None) -> None:
        """`keeper`: None, if nobody takes over from this gateway."""
        self._may_act, self._keeper = may_act, keeper
        self._running: list[Sandbox] = []
        self.is_frozen = False

    def add(self, sandbox: Sandbox) -> None:
        """It has just started: before anything is awaited."""
        self._running.append(sandbox)
        if not self.may_go_on():
            freeze([sandbox])
        if self._keeper is not None:
            self._keeper.add(sandbox, find_freezer(sandbox))

    def remove(self, sandbox: Sandbox) -> None:
        """It has ended, or was killed."""
        if sandbox in self._running:
            self._running.remove(sandbox)
            if self._keeper is not None:
                self._keeper.remove(sandbox)

    def set_frozen(self, frozen: bool) -> bool:
        """Return True if that is a change."""
        if frozen == self.is_frozen:
            return False
        self.is_frozen = frozen
        _log.warning("sandboxes are frozen" if frozen else "sandboxes go on", sandboxes=len(self._running))
        (freeze if frozen else thaw)(self._running)
        return True

    def may_go_on(self) -> bool:
        """Return True if a sandbox may run now. If not, all are frozen from here on: whoever held some for a moment
        must not let them go."""
        if not self.is_frozen and not self._may_act():
            self.set_frozen(True)
        return not self.is_frozen
