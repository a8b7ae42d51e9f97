"""A reserve of space and of files on a small disk: whoever has filled it does not keep everybody else from running.

It is made only where one agent could fill the disk below its own limit. When the disk is full it is given up, so that
the others have something to work with, and made again once there is space for it.
"""

import os
import shutil
from contextlib import suppress
from pathlib import Path

from msgspec import Struct

from gatepost.core.home import Home

SPACE = "space"  # the file that takes the bytes
ROOM = 4  # a reserve is made only if so many times as much is free


class ReserveSize(Struct, frozen=True):
    size: int
    files: int


class DiskReserve:
    def __init__(self, home: Home) -> None:
        self._folder: Path = home.path / "reserve"
        self.released = False  # it was given up, and there is no space yet to make it again

    def is_there(self) -> bool:
        return self._folder.is_dir()

    def make(self, wanted: ReserveSize) -> bool:
        """False: there is no space for it after all."""
        try:
            self._folder.mkdir(mode=0o700)
            with (self._folder / SPACE).open("wb") as file:
                if wanted.size:
                    os.posix_fallocate(file.fileno(), 0, wanted.size)
            for number in range(wanted.files):
                (self._folder / f"{number}").touch()
        except OSError:
            self._remove()
            return False
        self.released = False
        return True

    def release(self) -> bool:
        """Give it up. False: there was none."""
        if not self.is_there():
            return False
        self.released = True
        self._remove()
        return True

    def _remove(self) -> None:
        with suppress(OSError):
            shutil.rmtree(self._folder)
