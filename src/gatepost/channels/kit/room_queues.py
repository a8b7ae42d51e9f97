"""What arrives over one connection, handled room by room: each room in order, different rooms at the same time.

    async with RoomQueues() as queues:
        async for event in socket:
            await queues.put(room, partial(self._receive, event))

`put` waits while too much is under way, so a connection is read no faster than its events become durable. A job that
is Unavailable is tried again until it is done. One that is Invalid will never be done: it is logged, and the next one
follows. Any other error ends the block and comes out of it.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from types import TracebackType

from gatepost.core import log
from gatepost.core.errors import Invalid, Unavailable

Job = Callable[[], Awaitable[None]]
MOST = 500
FIRST_WAIT_S, LONGEST_WAIT_S = 0.05, 5.0
LONGEST_ASKED_S = 120.0  # of what a platform asks us to wait

_log = log.get("channels")


class RoomQueues:
    def __init__(self, most: int = MOST) -> None:
        self._free = asyncio.Semaphore(most)
        self._waiting: dict[str, deque[Job]] = {}  # a room is in it while a task works for it
        self._tasks: set[asyncio.Task[None]] = set()
        self._owner: asyncio.Task[object] | None = None
        self._error: BaseException | None = None

    async def __aenter__(self) -> "RoomQueues":
        self._owner = asyncio.current_task()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        owner, self._owner = self._owner, None
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self._error is None:
            return False
        if owner is not None and isinstance(error, asyncio.CancelledError):
            owner.uncancel()
        raise self._error

    async def put(self, room: str, job: Job) -> None:
        await self._free.acquire()
        waiting = self._waiting.get(room)
        if waiting is not None:
            waiting.append(job)
            return
        self._waiting[room] = deque((job,))
        task = asyncio.create_task(self._work(room))
        self._tasks.add(task)
        task.add_done_callback(self._end)

    async def _work(self, room: str) -> None:
        waiting = self._waiting[room]
        while waiting:
            try:
                await retry_until_done(waiting[0])
            except Invalid as error:
                _log.warning("an event that cannot be taken was left out", room=room[:80], error=str(error))
            waiting.popleft()
            self._free.release()
        del self._waiting[room]

    def _end(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if task.cancelled() or task.exception() is None or self._error is not None:
            return
        self._error = task.exception()
        if self._owner is not None:
            self._owner.cancel()


async def retry_until_done(job: Job) -> None:
    """An event is never dropped because the store, or the platform, is away for a while."""
    wait = FIRST_WAIT_S
    while True:
        try:
            return await job()
        except Unavailable as error:
            await asyncio.sleep(wait if error.retry_after is None else min(error.retry_after, LONGEST_ASKED_S))
            wait = min(2 * wait, LONGEST_WAIT_S)
