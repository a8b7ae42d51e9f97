"""Work off the loop that a sandbox can make long: so many at a time, and none of it keeps the process from ending."""

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

T = TypeVar("T")


class Threads:
    """A place belongs to the work, not to who waits for it: it is free again when the work is done, not before."""

    def __init__(self, most: int, within: "Threads | None" = None) -> None:
        """`within`: a place there is needed, too."""
        own = asyncio.Semaphore(most)
        self._places: tuple[asyncio.Semaphore, ...] = (own, *within._places) if within else (own,)

    async def run(self, work: Callable[[], T]) -> T:
        taken = 0  # places

        def leave(done: asyncio.Future[T]) -> None:
            done.cancelled() or done.exception()  # nobody may be waiting any more
            for each in self._places[:taken]:
                each.release()

        done: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        done.add_done_callback(leave)
        try:
            for each in self._places:
                await each.acquire()
                taken += 1
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
