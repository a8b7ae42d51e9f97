"""Work off the loop that a sandbox can make long: so many at a time, and none of it keeps the process from ending."""

import asyncio
import threading
from collections import Counter, OrderedDict, deque
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from typing import TypeVar, TypeVarTuple

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

WORKERS, SHARE = 8, 2
IDLE_S = 10.0  # after which a thread ends that nobody needs


class BoundedThreadPool:
    """A place belongs to the work, not to who waits for it: it is free again when the work is done, not before."""

    def __init__(self, most: int, within: "BoundedThreadPool | None" = None) -> None:
        """`within`: a place there is needed, too."""
        own = asyncio.Semaphore(most)
        self._places: tuple[asyncio.Semaphore, ...] = (own, *within._places) if within else (own,)

    async def run(self, work: Callable[[], T]) -> T:
        claimed = 0  # places

        def leave(done: asyncio.Future[T]) -> None:
            done.cancelled() or done.exception()  # nobody may be waiting any more
            for each in self._places[:claimed]:
                each.release()

        done: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        done.add_done_callback(leave)
        try:
            for each in self._places:
                await each.acquire()
                claimed += 1
            threading.Thread(target=_work, args=(work, done), daemon=True).start()
        except BaseException:
            done.cancel()
            raise
        try:
            return await asyncio.shield(done)
        finally:
            del done  # an error that held itself would keep all that it was raised from


def _work(work: Callable[[], T], done: asyncio.Future[T]) -> None:
    loop = done.get_loop()
    with suppress(RuntimeError):  # the loop is closed: nobody waits
        try:
            result = work()
        except BaseException as error:  # noqa: BLE001  whatever it is, it is the waiter's
            loop.call_soon_threadsafe(done.set_exception, error)
        else:
            loop.call_soon_threadsafe(done.set_result, result)
        finally:
            del work, done


class FairThreadPool:
    """A few threads for all sessions. An owner has at most `share` of them. Waiting work is claimed from one owner
    after the other, so that sixty calls of one session do not delay a call of another."""

    def __init__(self, workers: int = WORKERS, share: int = SHARE, idle_s: float = IDLE_S) -> None:
        self._workers, self._share, self._idle_s = workers, share, idle_s
        self._threads = 0
        self._running: Counter[str] = Counter()  # by owner
        self._waiting: OrderedDict[str, deque[Callable[[], None]]] = OrderedDict()  # by owner, who is next first
        self._changed = threading.Condition()
        self._closed = False

    async def run(self, owner: str, fn: Callable[[*Ts], T], *args: *Ts) -> T:
        return await asyncio.wrap_future(self.submit(owner, fn, *args))

    def submit(self, owner: str, fn: Callable[[*Ts], T], *args: *Ts) -> Future[T]:
        future: Future[T] = Future()

        def work() -> None:
            if not future.set_running_or_notify_cancel():
                return
            try:
                future.set_result(fn(*args))
            except BaseException as error:  # noqa: BLE001  whatever it is, it is the waiter's
                future.set_exception(error)

        with self._changed:
            if self._closed:
                raise RuntimeError("the gateway is stopping")
            self._waiting.setdefault(owner, deque()).append(work)
            if self._threads < self._workers:
                self._threads += 1
                threading.Thread(target=self._work, name="work", daemon=True).start()
            self._changed.notify()
        return future

    def close(self) -> None:
        """Begin nothing new. Running work is not waited for."""
        with self._changed:
            self._closed = True
            self._waiting.clear()
            self._changed.notify_all()

    def _work(self) -> None:
        owner: str | None = None  # whose work was done last
        while (claimed := self._claim(owner)) is not None:
            owner, work = claimed
            try:
                work()
            finally:
                del work, claimed

    def _claim(self, done: str | None) -> tuple[str, Callable[[], None]] | None:
        """Leave the place of the owner whose work is done, and take the next; None: the thread is not needed."""
        is_idle = False
        with self._changed:
            if done is not None:
                self._running[done] -= 1
                if not self._running[done]:
                    del self._running[done]
                self._changed.notify()
            while not self._closed:
                owner = next((each for each in self._waiting if self._running[each] < self._share), None)
                if owner is not None:
                    work = self._waiting[owner].popleft()
                    self._waiting.move_to_end(owner)
                    if not self._waiting[owner]:
                        del self._waiting[owner]
                    self._running[owner] += 1
                    return owner, work
                if is_idle:
                    break
                is_idle = not self._changed.wait(self._idle_s)
            self._threads -= 1
            return None
