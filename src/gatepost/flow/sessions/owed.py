"""What was done and could not be written down, because the store is away (a full disk): kept in memory, and tried again
until it is written. A restart before that forgets it, so whoever asked is told."""

import asyncio
from collections.abc import Awaitable, Callable

from gatepost.core import log
from gatepost.core.errors import Unavailable

AGAIN_S = 1.0  # between two tries

_log = log.get("sessions")

Write = Callable[[], Awaitable[None]]


class Owed:
    def __init__(self) -> None:
        self._writes: dict[str, Write] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    def __contains__(self, key: str) -> bool:
        return key in self._writes

    def put(self, key: str, write: Write) -> None:
        """Have it written as soon as that is possible. The last word under a key counts."""
        self._writes[key] = write
        task = asyncio.get_running_loop().create_task(self._pay(key, write))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def drop(self, key: str) -> None:
        self._writes.pop(key, None)

    def close(self) -> None:
        for task in self._tasks:
            task.cancel()

    async def _pay(self, key: str, write: Write) -> None:
        while self._writes.get(key) is write:
            try:
                await write()
            except Unavailable as error:
                _log.error("what was done cannot be written down yet", what=key, error=str(error))
                await asyncio.sleep(AGAIN_S)
            else:
                if self._writes.get(key) is write:
                    del self._writes[key]
