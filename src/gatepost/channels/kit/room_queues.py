"""Events of a platform, handled room by room: each room in order, different rooms at the same time.

    async with RoomQueues(save=cursor.save) as queues:
        async for event in socket:
            await queues.put(event.room, partial(self._receive, event), mark=event.id)

`put` waits while too much is under way, so a connection is read no faster than its events become durable. A job is
never dropped: one that is Unavailable is tried again until it is done. One that is Invalid will never be done: it is
logged, and the next one follows. Any other error ends the block and comes out of it.

`mark` is where the platform's cursor stands behind an event. Events are done in any order; `save` gets the mark up to
which all are done. `list_marks` has those that are not, for platforms that count otherwise.

`urgent` is for an order to stop: it waits for nothing else of its room, such as a file that does not come.

`run` is for a hook, which is answered when its event is stored: the job runs once, in its room's order, and its result
or error is the caller's. The platform sends again what failed.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from itertools import chain
from types import TracebackType
from typing import Any, TypeVar

from gatepost.channels.kit.backoff import retry_until_done
from gatepost.core import log
from gatepost.core.errors import Invalid, Unavailable

T = TypeVar("T")
Job = Callable[[], Awaitable[Any]]
SaveMark = Callable[[str], Awaitable[None]]
MOST = 500

_log = log.get("channels")


@dataclass(slots=True, eq=False)
class QueuedJob:
    job: Job
    mark: str = ""
    answer: asyncio.Future[Any] | None = None  # for a caller who waits
    reached: str = ""  # the mark up to which all behind this one is done


class RoomQueues:
    def __init__(self, most: int = MOST, save: SaveMark | None = None) -> None:
        self._free, self._save = asyncio.Semaphore(most), save
        self._rooms: dict[str, deque[QueuedJob]] = {}  # a room is in it while a task works for it
        self._open: list[QueuedJob] = []  # of all rooms, oldest first
        self._reached = ""
        self._tasks: set[asyncio.Task[None]] = set()
        self._owner: asyncio.Task[object] | None = None
        self.is_open = False
        self._error: BaseException | None = None

    async def __aenter__(self) -> "RoomQueues":
        self._owner, self.is_open = asyncio.current_task(), True
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        owner, self._owner, self.is_open = self._owner, None, False
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for item in chain.from_iterable(self._rooms.values()):
            if item.answer is not None and not item.answer.done():
                item.answer.set_exception(_make_closed())
        self._rooms.clear()
        for _ in self._open:
            self._free.release()  # for those who wait for a place: they are told, too
        if self._error is None:
            return False
        if owner is not None and isinstance(error, asyncio.CancelledError):
            owner.uncancel()
        raise self._error

    async def put(self, room: str, job: Job, mark: str = "", *, urgent: bool = False) -> None:
        """Returns as soon as there is a place for it."""
        await self._add(_get_line(room, urgent), QueuedJob(job, mark, reached=mark))

    async def run(self, room: str, job: Callable[[], Awaitable[T]], *, urgent: bool = False) -> T:
        """Raises Unavailable outside of the block. A job of this room must not call it for the same room."""
        answer: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        await self._add(_get_line(room, urgent), QueuedJob(job, answer=answer))
        return await answer

    async def drain(self) -> None:
        """Until all that was put is done, and the cursor is saved."""
        while self._tasks:
            await asyncio.wait(self._tasks)

    def list_marks(self) -> list[str]:
        """List the marks of jobs that are not done, oldest first."""
        return [item.mark for item in self._open if item.mark]

    async def _add(self, room: str, item: QueuedJob) -> None:
        self._check_open()
        self._open.append(item)  # already now: what waits for a place is not done, either
        try:
            await self._free.acquire()
            self._check_open()
        except BaseException:
            self._open.remove(item)
            raise
        waiting = self._rooms.get(room)
        if waiting is not None:
            waiting.append(item)
            return
        self._rooms[room] = deque((item,))
        task = asyncio.create_task(self._work(room))
        self._tasks.add(task)
        task.add_done_callback(self._end)

    def _check_open(self) -> None:
        if not self.is_open:
            raise _make_closed()

    async def _work(self, room: str) -> None:
        waiting = self._rooms[room]
        while waiting:
            item = waiting[0]
            if item.answer is not None:
                await _answer(item.job, item.answer)
            else:
                try:
                    await retry_until_done(item.job)
                except Invalid as error:
                    _log.warning("an event that cannot be taken was left out", room=room[:80], error=str(error))
            waiting.popleft()
            await self._finish(item)
        del self._rooms[room]

    async def _finish(self, item: QueuedJob) -> None:
        at = self._open.index(item)
        del self._open[at]
        self._free.release()
        if not item.reached:
            return
        if at > 0:
            self._open[at - 1].reached = item.reached  # told when that one is done
        elif self._save is not None:
            self._reached = item.reached
            await retry_until_done(self._save_reached)

    async def _save_reached(self) -> None:
        """The newest: a try that comes late must not set it back."""
        assert self._save is not None
        await self._save(self._reached)

    def _end(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if task.cancelled() or task.exception() is None or self._error is not None:
            return
        self._error = task.exception()
        if self._owner is not None:
            self._owner.cancel()


def _get_line(room: str, urgent: bool) -> str:
    """The urgent ones of a room stand in a line of their own."""
    return f"{room} urgent" if urgent else room


async def _answer(job: Job, answer: asyncio.Future[Any]) -> None:
    """For a caller, until the caller goes."""
    if answer.done():
        return
    task = asyncio.ensure_future(job())
    answer.add_done_callback(lambda _: task.cancel())
    try:
        result = await task
    except asyncio.CancelledError:
        worker = asyncio.current_task()
        if not answer.done() or (worker is not None and worker.cancelling()):
            raise  # the queues are closed
    except Exception as error:  # noqa: BLE001  whatever it is, it is the caller's
        if not answer.done():
            answer.set_exception(error)
    else:
        if not answer.done():
            answer.set_result(result)


def _make_closed() -> Unavailable:
    return Unavailable("the channel", "it is not running yet", retry_after=1)
