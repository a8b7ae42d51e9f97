"""Files that a platform streams: on the disk as they come, counted on the way.

A stream that breaks off leaves nothing, and is tried again for `PATIENCE`. One that fails for good, or has broken off
for so long, costs its file and not the message: a line of the text says what is missing. A room,
and a channel, has a bounded number fetched at a time: nobody's files wait behind those of another room.
"""

import asyncio
import os
import shutil
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TypeVar, TypeVarTuple

from msgspec import Struct

from gatepost.core import ids, log
from gatepost.core.clock import MINUTE, Clock
from gatepost.core.errors import GatepostError, Unavailable
from gatepost.core.process.thread_pools import FairThreadPool
from gatepost.core.settings import setting
from gatepost.flow.intake.attachments import StoredAttachment, flush_folder, make_safe_names, open_new
from gatepost.messages.inbound import Attachment
from gatepost.messages.text import one_line

TIMEOUT_S = setting(
    "intake.attachment_timeout_s", 300.0, help="How long the files of one incoming message may take to arrive."
)
PATIENCE = 10 * MINUTE  # with files that break off each time
FIRST_PAUSE_S, LONGEST_PAUSE_S = 2.0, 60.0  # between two tries
AT_ONCE_OF_ROOM, AT_ONCE_OF_CHANNEL = 2, 16  # messages whose files are fetched
MOST_OF_ROOM = 50  # messages of a room whose files are fetched or wait for it
TOO_MANY = "too many files of this room are on their way"
WRITTEN_AT_ONCE = 256 * 1024
LONGEST_WHY = 200

T = TypeVar("T")
Ts = TypeVarTuple("Ts")
EventKey = tuple[str, str, str, str]  # instance, address, platform id, event

_log = log.get("intake")


class FilesTooLarge(GatepostError):
    """More bytes came than a message may have."""


class StorageUnavailable(Unavailable):
    """The disk does not take a file: its event has to come again."""


class FetchedFiles(Struct, frozen=True):
    """The files that are on the disk, and the lines that name those that are not."""

    kept: tuple[StoredAttachment, ...] = ()
    missing: tuple[str, ...] = ()


class RoomFetches:
    """The fetches of one room that are not done: `count` of them, a few at a time."""

    def __init__(self) -> None:
        self.count, self.places = 0, asyncio.Semaphore(AT_ONCE_OF_ROOM)


class FileStreams:
    def __init__(self, media: Path, threads: FairThreadPool, clock: Clock) -> None:
        self._media, self._threads, self._clock = media, threads, clock
        self._rooms: dict[tuple[str, str], RoomFetches] = {}
        self._channels: dict[str, asyncio.Semaphore] = {}

    def count(self, instance: str, address: str) -> int:
        """Return how many fetches of a room are not done."""
        found = self._rooms.get((instance, address))
        return found.count if found is not None else 0

    async def fetch(
        self, event: EventKey, given: Sequence[Attachment], most_bytes: int, timeout_s: float
    ) -> FetchedFiles:
        """Raise FilesTooLarge, or StorageUnavailable if the disk does not take them; then nothing is left of it."""
        room = (event[0], event[1])
        own = self._rooms.setdefault(room, RoomFetches())
        if own.count >= MOST_OF_ROOM:
            return FetchedFiles((), tuple(_render_missing(name, TOO_MANY) for name in make_safe_names(given)))
        own.count += 1
        channel = self._channels.setdefault(event[0], asyncio.Semaphore(AT_ONCE_OF_CHANNEL))
        try:
            async with own.places, channel:
                return await self._fetch(event[1], given, most_bytes, timeout_s)
        finally:
            own.count -= 1
            if not own.count:
                self._rooms.pop(room, None)

    async def _fetch(self, room: str, given: Sequence[Attachment], most_bytes: int, timeout_s: float) -> FetchedFiles:
        begun, pause = self._clock.monotonic(), FIRST_PAUSE_S
        while True:
            patient = self._clock.monotonic() - begun < PATIENCE
            try:
                return await FileTransfer(self._media, self._threads, room, most_bytes, patient).run(given, timeout_s)
            except StorageUnavailable:
                raise
            except Unavailable as error:
                _log.info("a file has not come yet", room=room, error=str(error))
                await asyncio.sleep(pause if error.retry_after is None else max(error.retry_after, FIRST_PAUSE_S))
                pause = min(2 * pause, LONGEST_PAUSE_S)


class FileTransfer:
    """The files of one message. `patient`: what breaks off is raised, and not given up."""

    def __init__(self, media: Path, threads: FairThreadPool, room: str, most_bytes: int, patient: bool) -> None:
        self._media, self._threads, self._room, self._patient = media, threads, room, patient
        self._left, self._most = most_bytes, most_bytes
        self._kept: list[StoredAttachment] = []
        self._missing: list[str] = []

    async def run(self, given: Sequence[Attachment], timeout_s: float) -> FetchedFiles:
        folder = f"in/{ids.new('f')}"
        deadline = asyncio.get_running_loop().time() + timeout_s
        try:
            await self._on_disk(_make_folder, self._media / folder)
            for name, each in zip(make_safe_names(given), given, strict=True):
                await self._add(f"{folder}/{name}", name, each, deadline)
            await self._on_disk(_flush, self._media / folder)
        except BaseException:  # also if the channel is stopped meanwhile
            _remove_folder(self._media / folder)
            raise
        if not self._kept:
            await self._on_disk(_remove_folder, self._media / folder)
        return FetchedFiles(tuple(self._kept), tuple(self._missing))

    async def _add(self, path: str, name: str, given: Attachment, deadline: float) -> None:
        try:
            size = await self._write_stream(self._media / path, given, deadline)
        except FilesTooLarge:
            raise
        except Unavailable as error:
            if (self._patient and not error.lasting) or isinstance(error, StorageUnavailable):
                raise
            self._give_up(name, error)
        except GatepostError as error:
            self._give_up(name, error)
        else:
            self._kept.append(StoredAttachment(name, given.mime, given.kind, size, path))
            return
        await self._on_disk(_remove, self._media / path)

    def _give_up(self, name: str, error: GatepostError) -> None:
        self._missing.append(_render_missing(name, str(error)))
        _log.warning("a file could not be fetched", room=self._room, file=name, error=str(error))

    async def _write_stream(self, path: Path, given: Attachment, deadline: float) -> int:
        handle = await self._on_disk(open_new, path)
        try:
            async with asyncio.timeout_at(deadline):
                size = await self._copy(handle, given)
            await self._on_disk(os.fsync, handle)
        except TimeoutError:
            raise Unavailable("a file", "the platform sends it too slowly") from None
        except (GatepostError, asyncio.CancelledError):
            raise
        except Exception as error:  # whatever broke in the channel, it is tried again
            raise Unavailable("a file", f"it broke off with {type(error).__name__}") from error
        finally:
            os.close(handle)
        return size

    async def _copy(self, handle: int, given: Attachment) -> int:
        size, chunks = 0, bytearray()
        stream = given.open() if given.open is not None else _read_data(given.data)
        try:
            async for chunk in stream:
                size, self._left = size + len(chunk), self._left - len(chunk)
                if self._left < 0:
                    raise FilesTooLarge(f"more than {self._most} bytes")
                chunks += chunk
                if len(chunks) >= WRITTEN_AT_ONCE:
                    await self._on_disk(_write_all, handle, chunks)
                    chunks = bytearray()
        finally:
            if (close := getattr(stream, "aclose", None)) is not None:
                with suppress(Exception):  # what it was about is raised already
                    await close()
        await self._on_disk(_write_all, handle, chunks)
        return size

    async def _on_disk(self, fn: Callable[[*Ts], T], *args: *Ts) -> T:
        """Its end is waited for, whoever is cancelled: a handle must not be closed while a thread writes to it."""
        work = asyncio.ensure_future(self._threads.run(self._room, fn, *args))
        try:
            return await asyncio.shield(work)
        except OSError as error:
            why = f"the attachment could not be stored: {error.strerror}"
            raise StorageUnavailable("the disk", why) from None
        finally:
            while not work.done():
                with suppress(asyncio.CancelledError):
                    await asyncio.wait((work,))


def _render_missing(name: str, why: str) -> str:
    return f"[file: {name}, which could not be fetched: {one_line(why)[:LONGEST_WHY]}]"


async def _read_data(data: bytes) -> AsyncIterator[bytes]:
    yield data


def _make_folder(path: Path) -> None:
    path.mkdir(mode=0o700, parents=True)


def _write_all(handle: int, data: bytearray) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(handle, view) :]


def _flush(folder: Path) -> None:
    for path in (folder, folder.parent):
        flush_folder(path)


def _remove_folder(path: Path) -> None:
    shutil.rmtree(path, ignore_errors=True)


def _remove(path: Path) -> None:
    path.unlink(missing_ok=True)
