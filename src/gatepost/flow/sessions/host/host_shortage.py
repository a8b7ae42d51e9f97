"""Shortages of this machine, now or a moment ago, measured by the gateway itself.

A turn that breaks meanwhile goes on later, and is not counted against its messages. The word of a sandbox is not taken
for it: one that says that its disk is full would be tried for ever.
"""

import errno
import math
import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from gatepost.flow.sessions.host.disk_usage import MIB, FileSystemSpace, read_space

LASTS_S = 10.0  # for which it counts after it was last seen: whoever broke by it says so later
LEAST_FREE = MIB  # with less, SQLite may find no space for a commit
LEAST_FILES = 8
NO_SPACE = "the disk of this gateway is full"
NO_DESCRIPTOR = "this gateway may open no further file"


class HostShortage:
    """`measure`: also called at a pace of its own, so that a shortage is known to whoever breaks by it."""

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._why, self._until = "", -math.inf
        self._was_full = False

    def measure(self, places: Sequence[Path]) -> list[FileSystemSpace]:
        """Return the space of the file systems that these folders are on. The first is the one with the store."""
        spaces = read_space(places)
        if spaces and is_full(spaces[0]):
            self._was_full = True
        if why := _find_shortage(spaces):
            self._why, self._until = why, self._monotonic() + LASTS_S
        return spaces

    def find(self, places: Sequence[Path]) -> str:
        """Return what the machine lacks, or '' if it has enough."""
        self.measure(places)
        return self._why if self._monotonic() < self._until else ""

    def pop_full(self) -> bool:
        """Return True if the disk of the store was full at a measurement since this was last asked."""
        if was_full := self._was_full:
            self._was_full = False
        return was_full


def _find_shortage(spaces: Sequence[FileSystemSpace]) -> str:
    if any(is_full(each) for each in spaces):
        return NO_SPACE
    try:
        os.close(os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC))
    except OSError as error:
        return NO_DESCRIPTOR if error.errno in (errno.EMFILE, errno.ENFILE) else ""
    return ""


def is_full(space: FileSystemSpace) -> bool:
    """Return True if nothing can be written. A file system without a fixed number of files has `files` 0."""
    return space.free < LEAST_FREE or (space.files > 0 and space.free_files < LEAST_FILES)
