"""Files that a program posts before the event that they belong to. Bounded in number, bytes and age; a start of the
channel begins with none."""

import asyncio
import shutil
from collections import OrderedDict
from collections.abc import AsyncIterator
from pathlib import Path
from typing import BinaryIO

from msgspec import Struct

from gatepost.core import ids
from gatepost.core.errors import Invalid, Unavailable
from gatepost.messages.inbound import Attachment

MOST_FILES = 100
MOST_FACTOR = 5  # all files together, in files of the largest size
KEPT_S = 600.0
CHUNK = 256 * 1024


class FileTooLarge(Invalid):
    """More bytes than a file may have."""


class _Upload(Struct, frozen=True):
    path: Path
    name: str
    mime: str
    size: int
    at: float


class UploadStore:
    def __init__(self, folder: Path | None, largest: int) -> None:
        self._folder = folder / "uploads" if folder is not None else None
        self._largest = largest
        self._kept: OrderedDict[str, _Upload] = OrderedDict()
        self._used: set[str] = set()
        self._coming = 0

    async def clear(self) -> None:
        self._kept.clear()
        self._used.clear()
        if self._folder is not None:
            await asyncio.to_thread(_make_anew, self._folder)

    async def add(self, name: str, mime: str, chunks: AsyncIterator[bytes]) -> tuple[str, int]:
        """The file's id and size, once it is on the disk."""
        if self._folder is None:
            raise Unavailable("the channel", "it has no folder")
        await self._make_place()
        if self._is_full():
            raise Unavailable("the place for files", "it is full: post the events that they belong to", retry_after=5)
        identity = ids.new("file")
        path = self._folder / identity
        self._coming += 1
        try:
            size = await self._write(path, chunks)
        except BaseException:
            path.unlink(missing_ok=True)
            raise
        finally:
            self._coming -= 1
        self._kept[identity] = _Upload(path, name, mime, size, _now())
        return identity, size

    async def _write(self, path: Path, chunks: AsyncIterator[bytes]) -> int:
        size = 0
        file: BinaryIO = await asyncio.to_thread(path.open, "xb")
        try:
            async for chunk in chunks:
                size += len(chunk)
                if size > self._largest:
                    raise FileTooLarge("file", f"it has more than {self._largest} bytes")
                await asyncio.to_thread(file.write, chunk)
        finally:
            await asyncio.to_thread(file.close)
        return size

    def find(self, identity: str) -> Attachment:
        kept = self._kept.get(identity)
        if kept is None:
            raise Invalid("attachments", f"there is no file {identity[:80]!r}; post it to /files again")
        return Attachment(name=kept.name, mime=kept.mime, open=lambda: _read(kept.path), size=kept.size)

    def release(self, identities: list[str]) -> None:
        """Their events are durable. They stay until the place is needed: an event may be posted again."""
        self._used.update(each for each in identities if each in self._kept)

    async def _make_place(self) -> None:
        old = [name for name, each in self._kept.items() if each.at < _now() - KEPT_S]
        used = [name for name in self._kept if name in self._used and name not in old]
        for name in old:
            await self._remove(name)
        while used and self._is_full():
            await self._remove(used.pop(0))

    async def _remove(self, identity: str) -> None:
        self._used.discard(identity)
        gone = self._kept.pop(identity, None)
        if gone is not None:
            await asyncio.to_thread(gone.path.unlink, missing_ok=True)

    def _is_full(self) -> bool:
        many = len(self._kept) + self._coming >= MOST_FILES
        return many or self._count_bytes() > (MOST_FACTOR - 1) * self._largest

    def _count_bytes(self) -> int:
        return sum(each.size for each in self._kept.values()) + self._coming * self._largest


def _now() -> float:
    return asyncio.get_running_loop().time()


def _make_anew(folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(mode=0o700, parents=True)


async def _read(path: Path) -> AsyncIterator[bytes]:
    file = await asyncio.to_thread(path.open, "rb")
    try:
        while chunk := await asyncio.to_thread(file.read, CHUNK):
            yield chunk
    finally:
        await asyncio.to_thread(file.close)
