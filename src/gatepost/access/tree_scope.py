"""The part of the tree that a call may reach, whatever it was granted: pure. Nothing crosses worlds below root."""

from enum import StrEnum

from gatepost.access.tiers import ROOT_FOLDER, covers, is_path


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
