"""How much of the disk is left, and what is done when it is too little. The decision is pure.

Below the floor, sandboxes are frozen, the one whose files grew most is ended, and the others go on; its group is kept
asleep until there is space again. Below half of it, a reserve is given up if nobody grew. Without a reserve, all
sandboxes are ended without blame and none is woken: the rest of the disk is the store's.
"""

import os
from collections.abc import Iterable, Mapping
from enum import StrEnum
from pathlib import Path

from msgspec import Struct

from gatepost.core.settings import setting

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
MIB = 1024 * 1024


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
    """Of each file system that one of these folders is on. A folder that is missing is on none."""
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
