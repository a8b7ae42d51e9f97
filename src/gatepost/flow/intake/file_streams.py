"""Files that a platform streams: on the disk as they come, counted on the way, before their message is committed.

A stream that breaks off leaves nothing, and the channel brings its event again. One that fails for good, or breaks off
again and again for `PATIENCE`, costs its file and not the message: a line of the text says what is missing.
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
from gatepost.core.settings import setting
from gatepost.core.thread_pools import FairThreadPool
from gatepost.flow.intake.attachments import StoredAttachment, flush_folder, make_safe_names, open_new
from gatepost.messages.inbound import Attachment
from gatepost.messages.text import one_line

TIMEOUT_S = setting(
    "intake.attachment_timeout_s", 300.0, help="How long the files of one incoming message may take to arrive."
)
PATIENCE = 10 * MINUTE  # with an event whose files break off each time
MOST_REMEMBERED = 1000  # events whose files broke off
WRITTEN_AT_ONCE = 256 * 1024
LONGEST_WHY = 200

T = TypeVar("T")
Ts = TypeVarTuple("Ts")
EventKey = tuple[str, str, str, str]  # instance, address, platform id, event

_log = log.get("intake")


class FilesTooLarge(GatepostError):
    """More bytes came than a message may have."""


class FetchedFiles(Struct, frozen=True):
    """What is on the disk, and the lines that name what is not."""

    kept: tuple[StoredAttachment, ...] = ()
    missing: tuple[str, ...] = ()


class FileStreams:
    def __init__(self, media: Path, threads: FairThreadPool, clock: Clock) -> None:
        self._media, self._threads, self._clock = media, threads, clock
        self._broken: dict[EventKey, int] = {}  # since when, the oldest first

    async def fetch(
        self, event: EventKey, given: Sequence[Attachment], most_bytes: int, timeout_s: float
    ) -> FetchedFiles:
        """Raise FilesTooLarge, or Unavailable if the event has to come again; then nothing is left of it."""
        now = self._clock.monotonic()
        patient = now - self._broken.get(event, now) < PATIENCE
        transfer = FileTransfer(self._media, self._threads, event[1], most_bytes, patient)
        try:
            fetched = await transfer.run(given, timeout_s)
        except Unavailable:
            self._broken.setdefault(event, now)
            if len(self._broken) > MOST_REMEMBERED:
                del self._broken[next(iter(self._broken))]
            raise
        self._broken.pop(event, None)
        return fetched


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
            if self._patient:
                raise
            self._give_up(name, error)
        except GatepostError as error:
            self._give_up(name, error)
        else:
            self._kept.append(StoredAttachment(name, given.mime, given.kind, size, path))
            return
        await self._on_disk(_remove, self._media / path)

    def _give_up(self, name: str, error: GatepostError) -> None:
        why = one_line(str(error))[:LONGEST_WHY]
        self._missing.append(f"[file: {name}, which could not be fetched: {why}]")
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
        except Exception as error:  # whatever broke in the channel, its event comes again
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
            raise Unavailable("the disk", why) from None
        finally:
            while not work.done():
                with suppress(asyncio.CancelledError):
                    await asyncio.wait((work,))


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
