"""Lines of a linked device to the gateway. Events are kept on the disk until the gateway has acknowledged them."""

import os
import threading
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

import msgspec
from msgspec import structs

from gatepost.channels.whatsapp_linked.protocol import Arrived, DeviceLine, parse_device_line, render_line

WINDOW = 200  # handed over and not acknowledged; fewer than the gateway takes without making its other lines wait
MOST = 10_000  # beyond it the library has to wait


class EventJournal:
    """Events of the device that the gateway has not acknowledged, on the disk: they outlive either process.

    The library tells WhatsApp that a message arrived before the gateway has stored it. So it is written down here
    first. Used from several threads.
    """

    def __init__(self, folder: Path, write: Callable[[Arrived], None]) -> None:
        self._folder, self._write = folder, write
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        known = sorted(int(each.stem) for each in folder.glob("*.json") if each.stem.isdecimal())
        self._waiting, self._handed = deque(known), set[int]()
        self._next = known[-1] + 1 if known else 1
        self._changed = threading.Condition()

    def add(self, arrived: Arrived) -> None:
        """Durable when it returns."""
        with self._changed:
            self._changed.wait_for(lambda: len(self._waiting) + len(self._handed) < MOST)
            number, self._next = self._next, self._next + 1
            part = self._folder / f"{number}.part"
            with part.open("wb") as file:
                file.write(render_line(structs.replace(arrived, number=number)))
                file.flush()
                os.fsync(file.fileno())
            part.rename(self._get_path(number))
            self._waiting.append(number)
            self._hand_over()

    def acknowledge(self, number: int) -> None:
        with self._changed:
            if number not in self._handed:
                return
            self._handed.remove(number)
            self._get_path(number).unlink(missing_ok=True)
            self._hand_over()
            self._changed.notify_all()

    def start(self) -> None:
        """Hands over what an earlier process left."""
        with self._changed:
            self._hand_over()

    def _hand_over(self) -> None:
        while self._waiting and len(self._handed) < WINDOW:
            number = self._waiting.popleft()
            try:
                line = parse_device_line(self._get_path(number).read_bytes())
            except (OSError, msgspec.DecodeError):
                self._get_path(number).unlink(missing_ok=True)  # cut short by a full disk; nobody could read it
                continue
            if isinstance(line, Arrived):
                self._handed.add(number)
                self._write(line)

    def _get_path(self, number: int) -> Path:
        return self._folder / f"{number}.json"


class LineWriter:
    """The gateway's end of the standard output, for several threads."""

    def __init__(self) -> None:
        self._file = os.fdopen(os.dup(1), "wb")
        os.dup2(2, 1)
        self._lock = threading.Lock()

    def write(self, line: DeviceLine) -> None:
        with self._lock:
            try:
                self._file.write(render_line(line))
                self._file.flush()
            except OSError:
                os._exit(0)  # the gateway is gone


def end(why: str) -> NoReturn:
    """At once, whatever the library's threads do."""
    os.write(2, " ".join(why.split()).encode() + b"\n")
    os._exit(1)
