"""A small event loop on `select.poll`: asyncio takes longer to import than a bridge may take to start.

Each task is a coroutine that waits for a descriptor, for a moment, or to be woken.
"""

from __future__ import annotations

import select
import time
from _collections_abc import Callable, Coroutine, Generator  # `os` has loaded it; `collections.abc` loads much more

GONE = select.POLLHUP | select.POLLERR | select.POLLNVAL

now = time.monotonic


class PollWait:
    """One wait of a task. It returns the events of the descriptor, or 0 when the moment came first."""

    __slots__ = ("events", "fd", "until")

    def __init__(self, fd: int = -1, events: int = 0, until: float = 0.0) -> None:
        self.fd, self.events, self.until = fd, events, until

    def __await__(self) -> Generator[PollWait, int | None, int]:
        return (yield self) or 0


PollTask = Coroutine[PollWait, int | None, None]


class PollLoop:
    def __init__(self) -> None:
        self._tasks: dict[PollTask, PollWait | None] = {}  # None: it waits for nothing
        self.current: PollTask | None = None
        self._poll = select.poll()
        self._ready: list[tuple[PollTask, int | None]] = []
        self._watched: dict[int, PollTask] = {}
        self._timed: dict[PollTask, float] = {}

    def spawn(self, task: PollTask) -> None:
        self._tasks[task] = None
        self._ready.append((task, None))

    def wake(self, task: PollTask, events: int = 1) -> None:
        if self._tasks.get(task) is not None:
            self._end_wait(task)
            self._ready.append((task, events))

    def cancel(self, task: PollTask | None) -> None:
        """The task's `finally` blocks run, nothing else of it. A task does not cancel itself."""
        if task is not None and task in self._tasks and task is not self.current:
            self._end_wait(task)
            del self._tasks[task]
            task.close()

    def run(self, main: PollTask) -> None:
        """Run until this task is done, then cancel the others."""
        self.spawn(main)
        while main in self._tasks:
            while self._ready:
                ready, self._ready = self._ready, []
                for task, given in ready:
                    if task in self._tasks:
                        self._step(task, given)
            if main not in self._tasks:
                break
            for fd, events in self._poll.poll(self._timeout_ms()):
                self.wake(self._watched[fd], events)
            if self._timed:
                moment = now()
                for task in [each for each, until in self._timed.items() if until <= moment]:
                    self.wake(task, 0)
        for task in list(self._tasks):
            self.cancel(task)

    def _step(self, task: PollTask, events: int | None) -> None:
        self.current = task
        try:
            wait = task.send(events)
        except StopIteration:
            del self._tasks[task]
            return
        finally:
            self.current = None
        self._tasks[task] = wait
        if wait.fd >= 0:
            self._poll.register(wait.fd, wait.events)
            self._watched[wait.fd] = task
        if wait.until:
            self._timed[task] = wait.until

    def _end_wait(self, task: PollTask) -> None:
        wait, self._tasks[task] = self._tasks[task], None
        if wait is not None and wait.fd >= 0:
            self._poll.unregister(wait.fd)
            del self._watched[wait.fd]
        self._timed.pop(task, None)

    def _timeout_ms(self) -> float | None:
        return max(0.0, min(self._timed.values()) - now()) * 1000 + 1 if self._timed else None


class PollCondition:
    """Tasks that wait until a predicate is true. Each tests its own predicate after a notification."""

    def __init__(self, loop: PollLoop) -> None:
        self._loop = loop
        self._waiting: list[PollTask] = []

    async def until(self, true: Callable[[], bool], moment: float = 0.0) -> bool:
        """False: the moment came first."""
        while not true():
            if self._loop.current is not None:
                self._waiting.append(self._loop.current)
            if not await PollWait(until=moment):
                self._waiting = [each for each in self._waiting if each is not self._loop.current]
                return true()
        return True

    def notify(self) -> None:
        waiting, self._waiting = self._waiting, []
        for task in waiting:
            self._loop.wake(task)
