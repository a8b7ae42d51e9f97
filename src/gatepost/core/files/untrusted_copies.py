"""A copy of a tree that a sandbox can write, and may be writing to: taken when it is at rest, or not at all.

A copy shows the tree as it was at one moment. The tree is looked at before and after, and if anything changed meanwhile
it is copied again. Links, sockets and devices are left out. The target must be the host's own: no sandbox sees it yet.
"""

import os
import stat
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from msgspec import Struct

from gatepost.core.errors import GatepostError, Invalid, NotFound
from gatepost.core.files.untrusted_files import DEEPEST, UntrustedFolder, open_untrusted

TRIES, PAUSE_S = 20, 0.05
LONGEST_S = 20.0  # no further try after this time
TICK_NS = 20_000_000  # a file that was written within this time may have been written again under the same time stamp
SHARED_MEMORY = "-shm"  # SQLite makes it anew, and writes it without a time stamp


class TreeTooLarge(Invalid):
    """It is beyond the limits of a copy."""


class TreeLimits(Struct, frozen=True):
    bytes: int
    entries: int


class TreeEntry(Struct, frozen=True):
    """Facts that tell whether a file has changed."""

    path: str
    is_dir: bool
    mode: int
    size: int
    identity: tuple[int, int, int, int]


def copy_settled_tree(source: Path, target: Path, limits: TreeLimits, place: str = "") -> int | None:
    """Copy what lies in `source` to the new folder `target`; how many bytes it has. None: there is nothing, or it does
    not come to rest. Raises TreeTooLarge, and Invalid if something in it cannot be read. `place`: the folder in both
    that is meant."""
    source, target = source / place, target / place
    until = time.monotonic() + LONGEST_S
    for number in range(TRIES):
        if number:
            time.sleep(PAUSE_S)
        if not os.path.lexists(source) or time.monotonic() > until:
            return None
        if (size := _try_copy(source, target, limits)) is not None:
            return size
        _remove(target)
    return None


def _try_copy(source: Path, target: Path, limits: TreeLimits) -> int | None:
    """None: it was written to meanwhile, or just before."""
    with suppress(NotFound), open_untrusted(source) as root:  # something in it went away meanwhile
        before = list_entries(root, limits)
        if _is_recent(before):
            return None
        size = _copy(root, before, target, limits)
        return size if list_entries(root, limits) == before else None
    return None


def list_entries(root: UntrustedFolder, limits: TreeLimits) -> list[TreeEntry]:
    """Its files and folders, each folder before what is in it."""
    found: list[TreeEntry] = []
    size = 0
    for entry in _walk(root, "", limits.entries):
        found.append(entry)
        size += 0 if entry.is_dir else entry.size
        if len(found) > limits.entries:
            raise TreeTooLarge("", f"there are more than {limits.entries} files")
        if size > limits.bytes:
            raise TreeTooLarge("", f"they have more than {limits.bytes} bytes")
    return found


def _walk(root: UntrustedFolder, place: str, most: int, depth: int = 0) -> Iterator[TreeEntry]:
    if depth > DEEPEST:
        raise TreeTooLarge("", f"they are more than {DEEPEST} folders deep")
    owner = root.stat().st_uid
    for name in root.list(place, most=most):
        path = f"{place}/{name}" if place else name
        found = root.stat(path)
        is_dir = stat.S_ISDIR(found.st_mode)
        if not is_dir and (not stat.S_ISREG(found.st_mode) or name.endswith(SHARED_MEMORY)):
            continue
        if owner != 0 and found.st_uid == 0 and found.st_nlink > 1 and not is_dir:
            continue  # root's file with a second name, which may lie outside this tree
        size, *times = (0, 0, 0) if is_dir else (found.st_size, found.st_mtime_ns, found.st_ctime_ns)
        yield TreeEntry(path, is_dir, found.st_mode & 0o700, size, (found.st_dev, found.st_ino, times[0], times[1]))
        if is_dir:
            yield from _walk(root, path, most, depth + 1)


def _is_recent(entries: list[TreeEntry]) -> bool:
    newest = max((entry.identity[2] for entry in entries), default=0)
    return 0 <= time.time_ns() - newest < TICK_NS


def _copy(root: UntrustedFolder, entries: list[TreeEntry], target: Path, limits: TreeLimits) -> int:
    target.mkdir(mode=0o700)
    size = 0
    for entry in entries:
        place = target / entry.path
        if entry.is_dir:
            place.mkdir(mode=0o700)
            continue
        size += root.copy_out(entry.path, place, limits.bytes - size)
        place.chmod(entry.mode | 0o600)
        os.utime(place, ns=(entry.identity[2], entry.identity[2]))
    return size


def _remove(target: Path) -> None:
    with suppress(GatepostError), open_untrusted(target.parent) as root:  # the next try says what is wrong
        root.remove_tree(target.name)
