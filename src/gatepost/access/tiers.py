"""Tiers: how deep a group stands in the tree, who stands above whom, and which part of the tree a call may reach. Pure.

`root` is the only tier 0 and has no children. Being the operator is a role of a person, never a depth. Nothing crosses
worlds below root, whatever was granted.
"""

import re
from enum import IntEnum, StrEnum
from functools import lru_cache

from gatepost.core.errors import Invalid

ROOT_FOLDER = "root"
DEFAULTS = (ROOT_FOLDER, "home")  # the groups that every gateway has
LONGEST_FOLDER = 255
_SEGMENT = re.compile(r"[A-Za-z0-9_](?:[A-Za-z0-9_.-]{0,126}[A-Za-z0-9_-])?\Z")
_TAKEN = frozenset({"share"})


class Tier(IntEnum):
    """The smaller, the more it may."""

    ROOT = 0
    WORLD = 1
    AGENT = 2
    WORKER = 3


@lru_cache(maxsize=4096)
def tier_of(folder: str) -> Tier:
    """`root` 0, `acme` 1, `acme/eng` 2, deeper 3."""
    if folder == ROOT_FOLDER:
        return Tier.ROOT
    return Tier(min(folder.count("/") + 1, 3))


def check_removable(folder: str) -> None:
    if folder in DEFAULTS:
        raise Invalid("folder", f"{folder!r} belongs to every gateway and stays")


def check_folder(folder: str, field: str = "folder") -> str:
    """The folder itself if a group may be named so; it becomes a path, so nothing doubtful passes."""
    if not folder:
        raise Invalid(field, "is empty; a group is named by its place in the tree, like acme/eng")
    if len(folder) > LONGEST_FOLDER:
        raise Invalid(field, f"{folder[:40]!r}… is longer than {LONGEST_FOLDER} characters")
    segments = folder.split("/")
    for segment in segments:
        if not _SEGMENT.match(segment) or ".." in segment:
            where = "" if segment == folder else f" in {folder!r}"
            raise Invalid(
                field, f"{segment!r}{where} is not a name: letters, digits, `_`, `-`, single inner dots, at most 128"
            )
        if segment.lower() in _TAKEN:
            raise Invalid(field, f"{segment!r} in {folder!r} is taken by the gateway itself")
    if folder != ROOT_FOLDER and any(segment.lower() == ROOT_FOLDER for segment in segments):
        raise Invalid(field, f"{folder!r}: `root` stands alone and has no children")
    return folder


@lru_cache(maxsize=4096)
def is_path(folder: str) -> bool:
    """Return True if every segment stands for itself. `acme/../beta` begins like a folder below `acme` and is none, so
    nothing may be compared by its beginning that is not one of these."""
    return folder.isprintable() and all(segment.strip(". ") for segment in folder.split("/")) and "\\" not in folder


def covers(parent: str, child: str) -> bool:
    """Is `child` the group itself or below it? Root covers everything that is a folder."""
    return is_path(child) and (parent in (ROOT_FOLDER, child) or child.startswith(parent + "/"))


class TreeScope(StrEnum):
    """How far a group may reach, from itself."""

    SUBTREE = "own or below"
    BELOW = "below"
    CHILD = "a direct child"
    NEAR = "own, below or above, in the same world"
    WORLD = "the same world"


def world_of(folder: str) -> str:
    return folder.partition("/")[0]


def may_act_on(within: TreeScope, folder: str, target: str) -> bool:
    """May a group's agent act on that one? Root may act on every one but itself as a child. A target comes from the
    agent and may be anything."""
    if not is_path(target):
        return False
    if folder == ROOT_FOLDER:
        return target != ROOT_FOLDER or within not in (TreeScope.BELOW, TreeScope.CHILD)
    if target == ROOT_FOLDER or world_of(folder) != world_of(target):
        return False
    match within:
        case TreeScope.SUBTREE:
            return covers(folder, target)
        case TreeScope.BELOW:
            return target != folder and covers(folder, target)
        case TreeScope.CHILD:
            return target.rpartition("/")[0] == folder
        case TreeScope.NEAR:
            return covers(folder, target) or covers(target, folder)
        case TreeScope.WORLD:
            return True


def may_watch(observer: str, source: str, *, open: bool) -> bool:
    """Above, below, or an open sibling. Root watches everybody."""
    if not is_path(source):
        return False
    if observer == ROOT_FOLDER or source.startswith(observer + "/") or observer.startswith(source + "/"):
        return True
    return open and is_sibling(observer, source)


def is_sibling(folder: str, other: str) -> bool:
    """Return True if both stand below the same group. Worlds have no siblings."""
    return folder != other and "/" in folder and folder.rpartition("/")[0] == other.rpartition("/")[0]
