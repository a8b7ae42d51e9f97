"""The loop of a background job: rounds of work, with a pause in between that a wake-up ends.

A wake-up during a round starts another one right after it, so none is lost. Cancelling ends the loop at once, wherever
it is. Only the errors that the job names are survived: each is logged, and the next round follows after a pause. Any
other error ends the loop, and with it the gateway.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Protocol

from gatepost.core.errors import Unavailable


class LogMethod(Protocol):
    """A method of a logger; it decides on the level."""

    def __call__(self, event: str, **facts: object) -> None: ...


class WakeLoop:
    def __init__(
        self,
        report: LogMethod,
        failure: str,
        *,
        pause_s: float | None = None,
        retry_s: float | None = None,
        errors: tuple[type[Exception], ...] = (Unavailable,),
    ) -> None:
        """`failure`: the line of the log about a round that failed with one of `errors`. `pause_s`: the longest pause;
        None: until a wake-up. `retry_s`: the pause after a failed round, if it is another."""
        self._report, self._failure, self._errors = report, failure, errors
        self._pause_s, self._retry_s = pause_s, pause_s if retry_s is None else retry_s
        self._woken = asyncio.Event()
        self.was_woken = False  # the current round was asked for; False: its time had come

    def wake(self) -> None:
        """Begin the next round now, or right after the current one."""
        self._woken.set()

    async def run(self, work: Callable[[], Awaitable[float | None]], *, first_s: float = 0.0) -> None:
        """Repeat `work` until cancelled. It may return the seconds to its next round. The first one begins after
        `first_s`."""
        self.was_woken = first_s > 0 and await self._wait(first_s)
        while True:
            self._woken.clear()  # before the work: a wake-up during it counts for the next round
            try:
                wanted = await work()
                pause = self._pause_s if wanted is None else wanted
            except self._errors as error:
                self._report(self._failure, error=str(error))
                pause = self._retry_s
            self.was_woken = await self._wait(pause)

    async def _wait(self, seconds: float | None) -> bool:
        try:
            async with asyncio.timeout(seconds):
                await self._woken.wait()
        except TimeoutError:
            return False
        return True
