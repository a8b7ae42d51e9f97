"""Trying again what is away for a while, each time after a longer wait."""

import asyncio
import random
from collections.abc import Awaitable, Callable
from typing import TypeVar

from gatepost.core.errors import Unavailable

T = TypeVar("T")
FIRST_WAIT_S, LONGEST_WAIT_S = 0.5, 60.0  # of a connection
FIRST_RETRY_S, LONGEST_RETRY_S = 0.05, 5.0  # of an event
LONGEST_ASKED_S = 120.0  # of what a platform asks us to wait


class Backoff:
    """Waits between tries, each about twice as long as the one before it."""

    def __init__(self, first: float = FIRST_WAIT_S, longest: float = LONGEST_WAIT_S) -> None:
        self._first, self._longest, self._next = first, longest, first

    async def wait(self, at_least: float | None = None) -> None:
        wait = max(self._next * random.uniform(0.75, 1.0), at_least or 0.0)
        self._next = min(self._next * 2, self._longest)
        await asyncio.sleep(wait)

    def reset(self) -> None:
        self._next = self._first


async def retry_until_done(job: Callable[[], Awaitable[T]]) -> T:
    """An event is never dropped because the store, or the platform, is away for a while."""
    backoff = Backoff(FIRST_RETRY_S, LONGEST_RETRY_S)
    while True:
        try:
            return await job()
        except Unavailable as error:
            await backoff.wait(min(error.retry_after or 0.0, LONGEST_ASKED_S))
