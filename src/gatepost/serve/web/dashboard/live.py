"""Tells open pages that something changed. A ring carries no content: the page asks again for what it shows."""

import asyncio
from collections.abc import AsyncIterator

from gatepost.core.event_bus import EventBus

APART_S = 1.0  # two rings of one page
QUIET_S = 15.0  # a line at least so often: whoever is gone is noticed, and lost rings are made up for
STALE_QUIETS = 4  # after so many of these a page asks again all the same: ages grow, and disks fill
MOST_STREAMS = 500


class ChangeStreams:
    """One for the site. `open_streams` is bounded; who comes beyond that asks again by time."""

    def __init__(self, bells: EventBus, stopping: asyncio.Event) -> None:
        self._stopping = stopping
        self._waiting: set[asyncio.Event] = set()
        bells.on_change(lambda instance, address: self._ring())
        bells.on_session(lambda session: self._ring())
        bells.on_requests(self._ring)
        bells.on_tasks(self._ring)
        bells.on_newcomers(self._ring)
        bells.on_errands(self._ring)
        bells.on_operation(self._ring)
        bells.on_group(lambda folder: self._ring())

    @property
    def is_full(self) -> bool:
        return len(self._waiting) >= MOST_STREAMS

    async def follow(self) -> AsyncIterator[bytes]:
        rung, quiets = asyncio.Event(), 0
        self._waiting.add(rung)
        try:
            yield b"retry: 2000\n\n"
            while not self._stopping.is_set():
                try:
                    await asyncio.wait_for(rung.wait(), QUIET_S)
                except TimeoutError:
                    quiets += 1
                    if quiets < STALE_QUIETS:
                        yield b": still here\n\n"
                        continue
                quiets = 0
                rung.clear()
                yield b"event: changed\ndata: \n\n"
                await asyncio.sleep(APART_S)
        finally:
            self._waiting.discard(rung)

    def _ring(self) -> None:
        for rung in self._waiting:
            rung.set()
