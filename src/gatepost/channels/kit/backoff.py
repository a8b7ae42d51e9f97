"""Trying again what is away for a while, each time after a longer wait."""

import asyncio
import random
import sys
from collections.abc import Awaitable, Callable
from typing import TypeVar

from gatepost.channels.contract import PULSE
from gatepost.core.errors import Unavailable

T = TypeVar("T")
FIRST_WAIT_S, LONGEST_WAIT_S = 0.5, 60.0  # of a connection
FIRST_RETRY_S, LONGEST_RETRY_S = 0.05, 5.0  # of an event
LONGEST_ASKED_S = 120.0  # of what a platform asks us to wait
LONGEST_LIMIT_S = 3600.0  # the same for who listens: a wrong date would make a channel deaf until somebody notices


class Backoff:
    """Waits between tries, each about twice as long as the one before it. `connects`: they are tries to reach the
    platform, and people are told that it does not answer. Such a wait ends early once the platform takes a message:
    else people would be heard a minute after they are answered."""

    def __init__(self, first: float = FIRST_WAIT_S, longest: float = LONGEST_WAIT_S, *, connects: bool = True) -> None:
        self._first, self._longest, self._next, self._connects = first, longest, first, connects

    async def wait(self, at_least: float | None = None) -> None:
        if self._connects:
            report_miss(sys.exception())
        asked = min(at_least or 0.0, LONGEST_LIMIT_S)
        wait = max(self._next * random.uniform(0.75, 1.0), asked)
        least = min(wait, max(self._first, asked))
        self._next = min(self._next * 2, self._longest)
        pulse = PULSE.get() if self._connects else None
        await (asyncio.sleep(wait) if pulse is None else pulse.wait_until_reached(least, wait))

    def reset(self) -> None:
        self._next = self._first


def report_miss(error: BaseException | None, *, at_once: bool = False) -> None:
    """Tell the health of the channel that listens in this task that its platform was not reached."""
    pulse = PULSE.get()
    if pulse is not None:
        pulse.miss(str(error or "") or "the platform does not answer", at_once=at_once)


async def stay_connected(connect: Callable[[Backoff], Awaitable[None]], report: Callable[..., None]) -> None:
    """Repeat `connect` until cancelled: it polls once, or holds a connection until that ends. While the platform is
    away, each wait is longer; `connect` resets it once the platform is reached. `report` logs the `error` of a try.

    The supervisor would start the channel anew as well, but takes each lost connection for a fault of the channel. It
    neither waits as long as the platform asks nor tries sooner once a message was sent.
    """
    backoff = Backoff()
    while True:
        try:
            await connect(backoff)
        except Unavailable as error:
            report(error=str(error))
            await backoff.wait(error.retry_after)


async def retry_until_done(job: Callable[[], Awaitable[T]]) -> T:
    """An event is never dropped because the store, or the platform, is away for a while."""
    backoff = Backoff(FIRST_RETRY_S, LONGEST_RETRY_S, connects=False)
    while True:
        try:
            return await job()
        except Unavailable as error:
            await backoff.wait(min(error.retry_after or 0.0, LONGEST_ASKED_S))


async def unwrap_group(run: Callable[[], Awaitable[None]]) -> None:
    """Runs what uses a TaskGroup, and raises the first error itself in the place of a group of them."""
    try:
        await run()
    except BaseExceptionGroup as group:
        first: BaseException = group
        while isinstance(first, BaseExceptionGroup):
            first = first.exceptions[0]
        raise first from None
