"""The use of disk and memory by awake sandboxes, where no quota of the system holds them to it, and how much of the
disk is left.

Use is measured on threads of its own, with a share of the processor that stays small however much there is to count. A
tree is charged to the group that it belongs to, not to the groups above it.

Below the floor of free space, sandboxes are frozen, the one whose files grew most is ended, and the others go on. Its
group is kept asleep until there is space again. Below half of the floor, a reserve is given up if nobody grew. Without
a reserve, all sandboxes are ended without blame and none is woken: the rest of the disk is the store's. These decisions
are pure.
"""

import asyncio
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import TypeVar, TypeVarTuple

from msgspec import Struct

from gatepost.core.errors import GatepostError, NotFound
from gatepost.core.files.untrusted_files import TreeUsage, open_untrusted
from gatepost.core.settings import setting
from gatepost.core.terminal_text import one_line
from gatepost.flow.sessions.sandbox.group_limits import GroupLimits

FLOOR_MB = setting(
    "sandbox.floor_mb",
    512,
    help="With less of the disk free, in MiB, sandboxes are frozen and the one whose files grew most is ended; below "
    "half of it none runs. At most a fiftieth of the file system counts; 0: not looked at.",
)
FLOOR_FILES = setting(
    "sandbox.floor_files",
    10_000,
    help="The same for files that the file system can still make (inodes), at most a fiftieth of them; 0: not looked "
    "at.",
)
SHARE = 50  # a floor is at most this part of the whole
MOST_OF_ONE = 2  # one agent has at most this part of a file system
SPARED = 16  # of the floor: a growth below this part of it is nobody's fault
LEAST_GROWTH, LEAST_NEW_FILES = 1024 * 1024, 64  # nor one below this, which mailbox and conversation take anyway
T = TypeVar("T")
Ts = TypeVarTuple("Ts")
MIB = 1024 * 1024
NO_LIMIT = 2**62
MOST_REMEMBERED = 10_000


class FileSystemSpace(Struct, frozen=True):
    """A file system: free and whole, in bytes and in files. `files` is 0 where it has no fixed number."""

    free: int
    whole: int
    free_files: int = 0
    files: int = 0


class DiskGrowth(Struct, frozen=True):
    size: int = 0
    files: int = 0


class SpaceLevel(StrEnum):
    ENOUGH = "enough"
    LOW = "low"
    EMPTY = "empty"


class DiskShortage(Struct, frozen=True):
    level: SpaceLevel = SpaceLevel.ENOUGH
    why: str = ""
    of_files: bool = False
    spared: int = 0  # who grew by less is not ended


def read_space(places: Iterable[Path]) -> list[FileSystemSpace]:
    """Return the space of each file system that one of these folders is on. A folder that is missing is on none."""
    found: dict[int, FileSystemSpace] = {}
    for place in places:
        try:
            seen, device = os.statvfs(place), os.stat(place).st_dev
        except OSError:
            continue
        size = seen.f_frsize
        found[device] = FileSystemSpace(seen.f_bavail * size, seen.f_blocks * size, seen.f_favail, seen.f_files)
    return list(found.values())


def find_floor(space: FileSystemSpace, floor_mb: int, floor_files: int) -> DiskGrowth:
    """Return how many bytes and files must stay free."""
    return DiskGrowth(min(floor_mb * MIB, space.whole // SHARE), min(floor_files, space.files // SHARE))


def find_share(space: FileSystemSpace) -> DiskGrowth:
    """The most that one agent may take of a file system, however large its limit is. No files: any number."""
    return DiskGrowth(space.whole // MOST_OF_ONE, space.files // MOST_OF_ONE)


def check_space(spaces: Iterable[FileSystemSpace], floor_mb: int, floor_files: int) -> DiskShortage:
    """The worst of them."""
    worst = DiskShortage()
    for each in spaces:
        floor = find_floor(each, floor_mb, floor_files)
        for free, least, of_files in ((each.free, floor.size, False), (each.free_files, floor.files, True)):
            level = SpaceLevel.EMPTY if free < least // 2 else SpaceLevel.LOW if free < least else SpaceLevel.ENOUGH
            if least and level is not SpaceLevel.ENOUGH and worst.level is not SpaceLevel.EMPTY:
                spared = max(LEAST_NEW_FILES if of_files else LEAST_GROWTH, least // SPARED)
                worst = DiskShortage(level, _render_shortage(free, least, of_files), of_files, spared)
    return worst


def _render_shortage(free: int, least: int, of_files: bool) -> str:
    if of_files:
        return f"the disk is nearly full: {free} more files can be made, and {least} must stay (sandbox.floor_files)"
    return f"the disk is nearly full: {free // MIB} MB are free, and {least // MIB} MB must stay (sandbox.floor_mb)"


def pick_heaviest(growth: Mapping[str, DiskGrowth], shortage: DiskShortage) -> str:
    """The session that is ended; '' if none grew by more than is spared."""

    def by(session_id: str) -> int:
        return growth[session_id].files if shortage.of_files else growth[session_id].size

    heaviest = max(growth, key=by, default="")
    return heaviest if heaviest and by(heaviest) > shortage.spared else ""


NO_SHARE = DiskGrowth()  # of the disk: any part


class DiskTree(Struct, frozen=True):
    """A folder that is charged as one. `skip`: folders in it that are charged to others."""

    place: Path
    skip: tuple[str, ...] = ()


@dataclass(slots=True)
class DiskBaseline:
    """The size of a sandbox's trees before it started, and which of its folders were closed at the last look."""

    usage: dict[Path, TreeUsage] = field(default_factory=dict)
    closed: str = ""


class DiskUsageMeter:
    """Measures trees, and remembers what they took last."""

    def __init__(self) -> None:
        self._last: dict[Path, TreeUsage] = {}
        self._threads = ThreadPoolExecutor(1, thread_name_prefix="usage")
        self._memory = ThreadPoolExecutor(1, thread_name_prefix="memory")
        self._quick = ThreadPoolExecutor(1, thread_name_prefix="floor")

    def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)
        self._memory.shutdown(wait=False, cancel_futures=True)
        self._quick.shutdown(wait=False, cancel_futures=True)

    async def baseline(self, trees: Sequence[DiskTree], files: int) -> DiskBaseline:
        """Before a sandbox starts. A tree that was measured since the gateway began is not measured again."""
        unknown = [each for each in trees if each.place not in self._last]
        if unknown:
            await self.run_measurement(self.measure, unknown, files)
        return DiskBaseline({each.place: self._last.get(each.place, TreeUsage(0, 0)) for each in trees})

    async def run_measurement(self, fn: Callable[[*Ts], T], *args: *Ts) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._threads, fn, *args)

    async def quick(self, fn: Callable[[*Ts], T], *args: *Ts) -> T:
        """For what takes a moment: never behind a tree that is being measured, nor behind anything else whose length
        a sandbox decides, such as what its processes hold."""
        return await asyncio.get_running_loop().run_in_executor(self._quick, fn, *args)

    async def run_memory_check(self, fn: Callable[[*Ts], T], *args: *Ts) -> T:
        """For a look at memory: one at a time, and never behind a tree."""
        return await asyncio.get_running_loop().run_in_executor(self._memory, fn, *args)

    def measure(self, trees: Iterable[DiskTree], files: int) -> dict[Path, TreeUsage]:
        """May take long: it stops behind `files` of them in a tree. A missing folder takes nothing."""
        found = {}
        for each in trees:
            try:
                with open_untrusted(each.place) as root:
                    found[each.place] = root.measure(NO_LIMIT, files, each.skip)
            except NotFound:
                found[each.place] = TreeUsage(0, 0)
            except GatepostError:
                continue  # a link in its place, or too few descriptors: the next look tells
        if len(self._last) > MOST_REMEMBERED:
            self._last.clear()
        self._last.update(found)
        return found


def find_breach(
    found: Mapping[Path, TreeUsage],
    own: Sequence[DiskTree],
    deleted: int,
    limits: GroupLimits,
    before: DiskBaseline,
    share: DiskGrowth = NO_SHARE,
) -> str:
    """Why a sandbox must end, '' if it need not. Files that are not `own` belong to groups below: theirs to answer for,
    unless they grew since this sandbox started while nobody else could write there. `share`: of the disk, which holds
    where the limits are above it; 0: no part of it."""
    size, files, places = limits.disk_mb * MIB, limits.files, {each.place for each in own}
    size, files = min(size, share.size or size), min(files, share.files or files)
    for place, now in found.items():
        held = deleted if place in places else 0
        then = before.usage.get(place, TreeUsage(0, 0))
        if place not in places and (now.size, now.files) <= (then.size, then.files):
            continue
        if now.size + held > size:
            why = "sandbox.disk_mb" if size == limits.disk_mb * MIB else "half of a small disk"
            return f"the agent's files take more than {size // MIB} MB of the disk ({why})"
        if now.files > files:
            why = "sandbox.files" if files == limits.files else "half of what a small disk can have"
            return f"the agent has more than {files} files and folders ({why})"
    closed = next((one_line(f"{place.name}/{now.closed}")[:200] for place, now in found.items() if now.closed), "")
    if closed and before.closed:
        return f"the agent's folder {closed} cannot be looked into, so its files cannot be counted; chmod u+rx it"
    before.closed = closed
    return ""


def measure_growth(found: Mapping[Path, TreeUsage], deleted: int, before: DiskBaseline) -> DiskGrowth:
    size, files = deleted, 0
    for place, now in found.items():
        then = before.usage.get(place, TreeUsage(0, 0))
        size += max(0, now.size - then.size)
        files += max(0, now.files - then.files)
    return DiskGrowth(size, files)


def group_tree(top: Path, folder: str, every: Sequence[str]) -> DiskTree:
    """A group's own tree, without those of the groups below it. `every`: the folders of all groups."""
    start = folder + "/"
    return DiskTree(top, tuple(each.removeprefix(start) for each in every if each.startswith(start)))
