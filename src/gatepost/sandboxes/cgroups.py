"""Limits for a whole sandbox by cgroup, v1 or v2, where this process may make one; None where it may not.

A cgroup is made below our own, so that whatever limits the daemon limits its sandboxes, too. Nothing is moved but the
sandbox's first process, before it runs.
"""

import os
import signal
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from msgspec import Struct

from gatepost.sandboxes.contract import SandboxLimits

WANTED = ("pids", "memory", "freezer", "cpu")  # of v1; v2 freezes and kills without a controller
PERIOD_US = 100_000
# Shares of the processors when they are short; the gateway's own is 100. A start costs much, and nobody talks with it.
STARTING_SHARE, WORKING_SHARE = 20, 50
OF_V1, OF_V2 = "freezer.state", "cgroup.freeze"
ANY_SANDBOX = "gatepost-"  # what the names of all sandboxes of all homes begin with
DAEMON = "gatepost-daemon"  # v2: the leaf that we move to, because a cgroup with children holds no processes


class CgroupBases(Struct, frozen=True):
    """The places for cgroups: a folder per v1 controller, or one folder of v2."""

    v1: dict[str, Path]
    v2: Path | None


class Cgroup(Struct, frozen=True):
    """One sandbox's own, in one folder (v2) or one per controller (v1)."""

    folders: dict[str, Path]
    unified: bool

    def limits(self, controller: str) -> bool:
        return controller in self.folders

    def add(self, pid: int) -> None:
        for folder in self._each():
            _write(folder / "cgroup.procs", str(pid))

    def holds(self, pid: int) -> bool:
        """Return True if the process is in it, in every hierarchy."""
        return all(str(pid) in (folder / "cgroup.procs").read_text().split() for folder in self._each())

    def kill(self) -> None:
        """Frozen first, so that nothing forks faster than it is killed. A frozen v1 task dies only when thawed."""
        for folder in self._each():
            if self.unified and _try_write(folder / "cgroup.kill", "1"):
                return
        frozen = self.folders.get("freezer")
        if frozen is not None:
            _try_write(frozen / "freezer.state", "FROZEN")
        for folder in self._each():
            _kill_all(folder)
        if frozen is not None:
            _try_write(frozen / "freezer.state", "THAWED")

    def freeze(self) -> bool:
        """Nothing in it runs until `thaw`. False: there is no freezer here."""
        return self._freeze(frozen=True)

    def thaw(self) -> None:
        self._freeze(frozen=False)

    def set_idle(self) -> None:
        """Let it run only in time that nobody else wants: whoever wakes takes a processor from it at once."""
        if (folder := self.folders.get("cpu")) is not None:
            _try_write(folder / "cpu.idle", "1")

    def set_share(self, share: int) -> None:
        """Set its share of the processors when they are short. Without a controller for them there is none."""
        if (folder := self.folders.get("cpu")) is not None:
            _try_write(folder / "cpu.idle", "0")  # else there is no share to set
            name, value = ("cpu.weight", share) if self.unified else ("cpu.shares", to_shares(share))
            _try_write(folder / name, str(value))

    @property
    def freezer(self) -> Path | None:
        """The file that freezes it; None: there is no freezer here."""
        folder = self.folders.get("freezer")
        return None if folder is None else folder / (OF_V2 if self.unified else OF_V1)

    def _freeze(self, *, frozen: bool) -> bool:
        return self.freezer is not None and write_freezer(self.freezer, frozen=frozen)

    def remove(self) -> bool:
        """True when it is gone; False while something in it is still ending."""
        gone = True
        for folder in self._each():
            try:
                folder.rmdir()
            except FileNotFoundError:
                continue
            except OSError:
                gone = False
        return gone

    def _each(self) -> set[Path]:
        return set(self.folders.values())


def to_shares(weight: int) -> int:
    """Return a weight of cgroup v2, of which 100 is usual, in the unit of v1, of which 1024 is."""
    return weight * 1024 // 100


def find_bases(mounts: str, own: str) -> CgroupBases:
    """From the text of /proc/self/mounts and /proc/self/cgroup: our own cgroup in each hierarchy."""
    paths: dict[str, str] = {}
    for line in own.splitlines():
        _, controllers, path = line.split(":", 2)
        for controller in controllers.split(","):
            paths[controller] = path.strip("/")
    v1: dict[str, Path] = {}
    v2: Path | None = None
    for line in mounts.splitlines():
        _, place, kind, options, *_ = line.split(" ")
        if kind == "cgroup2" and "" in paths:
            v2 = Path(place) / paths[""]
        elif kind == "cgroup":
            for controller in WANTED:
                if controller in options.split(",") and controller in paths:
                    v1[controller] = Path(place) / paths[controller]
    return CgroupBases(v1, v2)


def find_own_bases() -> CgroupBases:
    try:
        return find_bases(Path("/proc/self/mounts").read_text(), Path("/proc/self/cgroup").read_text())
    except OSError:
        return CgroupBases({}, None)


def make(name: str, limits: SandboxLimits, bases: CgroupBases) -> Cgroup | None:
    """A cgroup with its limits set; None if neither version lets us limit processes."""
    for attempt in (_make_v1, _make_v2):
        made = attempt(name, limits, bases)
        if made is not None:
            return made
    return None


def _make_v1(name: str, limits: SandboxLimits, bases: CgroupBases) -> Cgroup | None:
    folders: dict[str, Path] = {}
    quota = [("cpu.cfs_quota_us", str(limits.cpu_percent * PERIOD_US // 100))] if limits.cpu_percent else []
    values = {
        "pids": [("pids.max", str(limits.processes))],
        "memory": [("memory.limit_in_bytes", str(limits.memory_mb << 20))],
        "freezer": [],
        "cpu": [("cpu.shares", str(to_shares(STARTING_SHARE))), *quota],
    }
    for controller, base in bases.v1.items():
        folder = _make_folder(base / name, values[controller])
        if folder is not None:
            folders[controller] = folder
    if "pids" in folders:
        return Cgroup(folders, unified=False)
    Cgroup(folders, unified=False).remove()
    return None


def _make_v2(name: str, limits: SandboxLimits, bases: CgroupBases) -> Cgroup | None:
    base = _delegated(bases.v2) if bases.v2 is not None else None
    if base is None:
        return None
    values = [("pids.max", str(limits.processes)), ("memory.max", str(limits.memory_mb << 20))]
    if "cpu" in _read_delegated_controllers(base):
        values.append(("cpu.weight", str(STARTING_SHARE)))
        if limits.cpu_percent:
            values.append(("cpu.max", f"{limits.cpu_percent * PERIOD_US // 100} {PERIOD_US}"))
    folder = _make_folder(base / name, values)
    return None if folder is None else Cgroup(dict.fromkeys(("pids", "memory", "freezer", "cpu"), folder), unified=True)


def _delegated(base: Path) -> Path | None:
    """Our own v2 cgroup with its controllers handed down, if it is ours to arrange."""
    if base.name == DAEMON:
        base = base.parent
    try:
        if {"pids", "memory"} <= _read_delegated_controllers(base):
            return base
        there = set((base / "cgroup.controllers").read_text().split())
        if not {"pids", "memory"} <= there:
            return None
        if (base / "cgroup.procs").read_text().split() == [str(os.getpid())]:
            (base / DAEMON).mkdir(exist_ok=True)
            _write(base / DAEMON / "cgroup.procs", str(os.getpid()))
        _write(base / "cgroup.subtree_control", "+pids +memory" + (" +cpu" if "cpu" in there else ""))
    except OSError:
        return None
    return base


def _read_delegated_controllers(base: Path) -> set[str]:
    return set((base / "cgroup.subtree_control").read_text().split())


def can_limit_memory(bases: CgroupBases) -> bool:
    """Return True if the memory of a sandbox can be limited here."""
    if "pids" in bases.v1 and os.access(bases.v1["pids"], os.W_OK):
        return "memory" in bases.v1 and os.access(bases.v1["memory"], os.W_OK)
    return bases.v2 is not None and _delegated(bases.v2) is not None


def can_limit_cpu(bases: CgroupBases) -> bool:
    """Return True if processor time can be limited here."""
    if "pids" in bases.v1:
        return "cpu" in bases.v1 and os.access(bases.v1["cpu"], os.W_OK)
    base = _delegated(bases.v2) if bases.v2 is not None else None
    return base is not None and "cpu" in _read_delegated_controllers(base)


def _make_folder(folder: Path, values: list[tuple[str, str]]) -> Path | None:
    """None if it cannot be made or a limit cannot be set: half a limit is none."""
    try:
        folder.mkdir(exist_ok=True)
        for name, value in values:
            _write(folder / name, value)
    except OSError:
        with suppress(OSError):
            folder.rmdir()
        return None
    return folder


def sweep(prefix: str, mounts: str) -> int:
    """End what is in leftover cgroups and remove them, wherever in the tree an earlier daemon had its own."""
    found = _find_left(prefix, mounts)
    for (_, unified), folders in found.items():
        left = Cgroup(folders, unified)
        left.kill()
        left.remove()
    return len(found)


def list_left(prefix: str) -> list[Path]:
    """Return the folders of cgroups whose name begins so."""
    try:
        mounts = Path("/proc/self/mounts").read_text()
    except OSError:
        return []
    return [path for folders in _find_left(prefix, mounts).values() for path in dict.fromkeys(folders.values())]


def _find_left(prefix: str, mounts: str) -> dict[tuple[str, bool], dict[str, Path]]:
    found: dict[tuple[str, bool], dict[str, Path]] = {}
    for controller, top, unified in _list_hierarchies(mounts):
        for place, names, _ in os.walk(top):
            for name in names:
                if name.startswith(prefix):
                    found.setdefault((name, unified), {})[controller] = Path(place) / name
            names[:] = [each for each in names if not each.startswith(ANY_SANDBOX)]  # there are no others in these
    return found


def _list_hierarchies(mounts: str) -> Iterator[tuple[str, Path, bool]]:
    for line in mounts.splitlines():
        _, place, kind, options, *_ = line.split(" ")
        if kind == "cgroup2":
            yield "pids", Path(place), True
        elif kind == "cgroup":
            for controller in WANTED:
                if controller in options.split(","):
                    yield controller, Path(place), False


def write_freezer(path: Path, *, frozen: bool) -> bool:
    """False: it cannot be written."""
    if path.name == OF_V2:
        return _try_write(path, "1" if frozen else "0")
    return _try_write(path, "FROZEN" if frozen else "THAWED")


def find_freezer(pid: int, name: str, mounts: str) -> Path | None:
    """That of the cgroup of a process, if `name` is in its path: then it is no other's. From /proc/self/mounts."""
    try:
        own = find_bases(mounts, Path(f"/proc/{pid}/cgroup").read_text())
    except OSError:
        return None
    found = [own.v1["freezer"] / OF_V1] if "freezer" in own.v1 else []
    found += [own.v2 / OF_V2] if own.v2 is not None else []
    return next((path for path in found if name and name in str(path) and os.access(path, os.W_OK)), None)


def _kill_all(folder: Path) -> None:
    with suppress(OSError):
        for pid in (folder / "cgroup.procs").read_text().split():
            with suppress(ProcessLookupError, PermissionError):
                os.kill(int(pid), signal.SIGKILL)


def _write(path: Path, text: str) -> None:
    fd = os.open(path, os.O_WRONLY)  # never created: a file that is not there is a controller that is not there
    try:
        os.write(fd, text.encode())
    finally:
        os.close(fd)


def _try_write(path: Path, text: str) -> bool:
    try:
        _write(path, text)
    except OSError:
        return False
    return True
