"""Tells open pages that something changed. A ring carries no content: the page asks again for what it shows."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable

from gatepost.core.event_bus import EventBus

APART_S = 1.0  # two rings of one page
QUIET_S = 15.0  # a line at least so often: whoever is gone is noticed, and lost rings are made up for
STALE_QUIETS = 4  # after so many of these a page asks again all the same: ages grow, and disks fill
MOST_STREAMS = 500
CHANGED = b"event: changed\ndata: \n\n"


class ChangeStreams:
    """One for the site. `open_streams` is bounded; who comes beyond that asks again by time."""

    def __init__(self, events: EventBus, stopping: asyncio.Event) -> None:
        self._stopping = stopping
        self._waiting: set[asyncio.Event] = set()
        self._ending: asyncio.Task[None] | None = None
        self._sign_outs = 0
        events.on_change(lambda instance, address: self._ring())
        events.on_channel(lambda instance: self._ring())
        events.on_session(lambda session: self._ring())
        events.on_requests(self._ring)
        events.on_tasks(self._ring)
        events.on_newcomers(self._ring)
        events.on_errands(self._ring)
        events.on_operation(self._ring)
        events.on_group(lambda folder: self._ring())
        events.on_gateways(self._ring)
        events.on_logins(self._check_all)

    @property
    def is_full(self) -> bool:
        return len(self._waiting) >= MOST_STREAMS

    async def follow(self, may_see: Callable[[], Awaitable[bool]]) -> AsyncIterator[bytes]:
        """`may_see`: whether the browser is still signed in. It is asked when one was signed out, and now and then."""
        woken, quiets, checked = asyncio.Event(), 0, self._sign_outs
        self._waiting.add(woken)
        self._ending = self._ending or asyncio.create_task(self._ring_at_stop())
        try:
            yield b"retry: 2000\n\n"
            while not self._stopping.is_set():
                try:
                    async with asyncio.timeout(QUIET_S):
                        await woken.wait()
                except TimeoutError:
                    quiets += 1
                    if quiets < STALE_QUIETS:
                        yield b": still here\n\n"
                        continue
                if self._stopping.is_set():
                    return
                if (quiets or checked != self._sign_outs) and not await may_see():
                    yield CHANGED  # the page asks again, and is told that it is signed out
                    return
                quiets, checked = 0, self._sign_outs
                woken.clear()
                yield CHANGED
                await asyncio.sleep(APART_S)
        finally:
            self._waiting.discard(woken)

    async def _ring_at_stop(self) -> None:
        """A gateway that stops waits for no page."""
        await self._stopping.wait()
        self._ring()

    def _check_all(self) -> None:
        self._sign_outs += 1
        self._ring()

    def _ring(self) -> None:
        for woken in self._waiting:
            woken.set()
