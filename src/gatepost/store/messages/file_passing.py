"""Passes files between gateways: who receives or sends a message need not be where its agent is.

A gateway that has no others beside it passes nothing. No more than a piece of a file is in memory at once.
Pieces are in the store until they have arrived. A file that came with a message is named by its path in the media
folder (`in/…`). A file to be sent is named by its path on the gateway of its sender (`/…`).
"""

import asyncio
import hashlib
import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from gatepost.core import ids, log
from gatepost.core.clock import Clock
from gatepost.core.errors import Unavailable
from gatepost.core.process.wake_loop import WakeLoop
from gatepost.core.records import replace
from gatepost.messages.outbound import OutboundFile
from gatepost.store.gateways import gateways
from gatepost.store.messages import passed_files
from gatepost.store.messages.passed_files import CHUNK
from gatepost.store.port import Store

SWEEP_S = 60.0

_log = log.get("store")


class FilePassing:
    def __init__(self, store: Store, clock: Clock, media: Path) -> None:
        self._store, self._clock, self._media = store, clock, media

    async def has_others(self) -> bool:
        return await self._store.read(gateways.count) > 1

    # What came with a message: names are paths in the media folder.

    async def put(self, names: Sequence[str]) -> None:
        """Before their message is committed."""
        for name in names:
            await self._put(name, self._media / name)

    async def set_message(self, names: Sequence[str], message_id: int) -> None:
        await self._store.write(passed_files.set_message, list(names), message_id, durable=False)

    async def fetch(self, names: Sequence[str]) -> None:
        """Those that are not here. Raises Unavailable if one has not arrived in the store."""
        for name in names:
            target = self._media / name
            is_received = name.startswith("in/") and ".." not in name.split("/")
            if is_received and not await asyncio.to_thread(target.exists):
                await self._fetch(name, target)

    # What is sent: names are paths on the gateway of the sender.

    async def put_sent(self, files: Sequence[OutboundFile]) -> None:
        """Before their delivery is committed."""
        if files and await self.has_others():
            for file in files:
                await self._put(file.path, Path(file.path))

    async def fetch_sent(self, files: tuple[OutboundFile, ...]) -> tuple[OutboundFile, ...]:
        """The same with paths of this gateway."""
        found = []
        for file in files:
            path = Path(file.path)
            if not await asyncio.to_thread(path.exists):
                path = self._find_copy(file.path)
                if not await asyncio.to_thread(path.exists):
                    await self._fetch(file.path, path)
            found.append(replace(file, path=str(path)))
        return tuple(found)

    async def remove_sent(self, paths: Sequence[str]) -> None:
        """They are delivered, or never will be."""
        await asyncio.to_thread(_remove, [self._find_copy(each) for each in paths])
        await self._store.write(passed_files.remove, list(paths), durable=False)

    def _find_copy(self, path: str) -> Path:
        return self._media / "out" / "passed" / hashlib.sha256(path.encode()).hexdigest()

    # Both.

    async def run(self) -> None:
        """Until cancelled: what has arrived is removed."""
        await WakeLoop(_log.debug, "passed files stay for a while", pause_s=SWEEP_S).run(self._remove_arrived)

    async def _remove_arrived(self) -> None:
        await self._store.write(passed_files.remove_arrived, self._clock.now(), durable=False)

    async def _put(self, name: str, path: Path) -> None:
        number = 0
        while True:
            data = await asyncio.to_thread(_read_chunk, path, number * CHUNK)
            if number and not data:
                return
            await self._store.write(passed_files.put, name, number, data, self._clock.now(), durable=False, lane=name)
            if len(data) < CHUNK:
                return
            number += 1

    async def _fetch(self, name: str, target: Path) -> None:
        draft = target.with_name(f".{ids.token(8)}")
        number = 0
        try:
            while True:
                data = await self._store.read(passed_files.get, name, number)
                if data is None and not number:
                    raise Unavailable("a file", "it has not come from the gateway that has it")
                if data:
                    await asyncio.to_thread(_append, draft, data)
                if data is None or len(data) < CHUNK:
                    break
                number += 1
            await asyncio.to_thread(_finish, draft, target)
        except OSError as error:
            raise Unavailable("the disk", f"a file could not be stored: {error.strerror}") from None
        finally:
            await asyncio.to_thread(draft.unlink, missing_ok=True)


def _read_chunk(path: Path, offset: int) -> bytes:
    try:
        with path.open("rb") as file:
            file.seek(offset)
            return file.read(CHUNK)
    except OSError as error:
        raise Unavailable("the disk", f"a file could not be read: {error.strerror}") from None


def _append(path: Path, data: bytes) -> None:
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with open(path, "ab", opener=lambda name, flags: os.open(name, flags, 0o600)) as file:
        file.write(data)


def _finish(draft: Path, target: Path) -> None:
    _append(draft, b"")  # an empty file is one, too
    draft.replace(target)


def _remove(paths: list[Path]) -> None:
    for path in paths:
        with suppress(OSError):
            path.unlink(missing_ok=True)
