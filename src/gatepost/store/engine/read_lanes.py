"""Reads of one lane run one after the other: who asks for much at once delays only themselves."""

import asyncio
from collections.abc import Callable
from typing import TypeVar
from weakref import WeakValueDictionary

T = TypeVar("T")


class ReadLanes:
    def __init__(self) -> None:
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    async def run(self, lane: str, start: Callable[[], "asyncio.Future[T]"]) -> T:
        """Start a read when its lane is free, and wait for it. Without a lane it starts at once."""
        if not lane:
            return await start()
        lock = self._locks.setdefault(lane, asyncio.Lock())
        await lock.acquire()
        try:
            found = start()
        except BaseException:
            lock.release()
            raise
        # The place belongs to the read: who is cancelled does not get another while it goes on.
        found.add_done_callback(lambda _: lock.release())
        return await asyncio.shield(found)
