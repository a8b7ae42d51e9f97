"""Acts that could not be written down, because the store is away (a full disk): kept in memory, and tried again until
they are written. A restart before that forgets it, so whoever asked is told."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from gatepost.core import log
from gatepost.core.errors import Unavailable

AGAIN_S, LONGEST_S = 1.0, 8.0  # between two tries: it doubles, because a try may cost the store a unit's whole time
SOON_S = 0.4  # a store that has not written by then is not waited for

_log = log.get("sessions")

Write = Callable[[], Awaitable[None]]
T = TypeVar("T")


def _nothing(answer: Any) -> None:
    return None


class DeferredWrites:
    def __init__(self) -> None:
        self._writes: dict[str, Write] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    def __contains__(self, key: str) -> bool:
        return key in self._writes

    def put(self, key: str, write: Write) -> None:
        """Have it written as soon as that is possible. The last word under a key counts."""
        self._writes[key] = write
        task = asyncio.get_running_loop().create_task(self._retry_write(key, write))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def write_or_defer(
        self, key: str, write: Callable[[], Awaitable[T]], then: Callable[[T], None] = _nothing
    ) -> T:
        """Write down what was done already, if the store does so soon. Else raise Unavailable, and have it written when
        the store is back, `then` with its answer: a first try that is still under way is waited for before a second."""
        first = asyncio.ensure_future(write())
        done, _ = await asyncio.wait((first,), timeout=SOON_S)
        if done:
            try:
                return first.result()
            except Unavailable:
                self.put(key, self._again(None, write, then))
                raise
        self.put(key, self._again(first, write, then))
        raise Unavailable("the store", "it does not answer; what was asked is done and not written down yet")

    def _again(
        self, first: "asyncio.Future[T] | None", write: Callable[[], Awaitable[T]], then: Callable[[T], None]
    ) -> Write:
        tries = [] if first is None else [first]

        async def again() -> None:
            then(await (asyncio.shield(tries.pop()) if tries else write()))

        return again

    def drop(self, key: str) -> None:
        self._writes.pop(key, None)

    def close(self) -> None:
        for task in self._tasks:
            task.cancel()

    async def _retry_write(self, key: str, write: Write) -> None:
        pause = AGAIN_S
        while self._writes.get(key) is write:
            try:
                await write()
            except Unavailable as error:
                _log.error("what was done cannot be written down yet", what=key, error=str(error))
                await asyncio.sleep(pause)
                pause = min(2 * pause, LONGEST_S)
            else:
                if self._writes.get(key) is write:
                    del self._writes[key]
