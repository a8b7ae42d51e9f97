"""Programs that wait for the answer to their post: a bounded number, each for a bounded time.

A waiting program is woken by the event of its room, and looks by itself every few seconds. A program that goes away,
and a gateway that stops, end the wait at once.
"""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Any

from gatepost.core.event_bus import EventBus
from gatepost.flow.links import INSTANCE
from gatepost.serve.web.hook_admission import HookBusy
from gatepost.store.port import Store
from gatepost.store.web import links
from gatepost.store.web.links import LinkOutcome

LONGEST_S = 60
MOST, MOST_OF_LINK = 64, 8
LOOK_S = 2.0  # without a bell
REST_S = 0.05  # between two looks: a busy room rings often
FULL_S = 5.0

Gone = Callable[[], Awaitable[None]]


class LinkWaits:
    def __init__(
        self,
        store: Store,
        events: EventBus,
        stopping: asyncio.Event,
        *,
        most: int = MOST,
        most_of_link: int = MOST_OF_LINK,
    ) -> None:
        self._store, self._stopping, self._most, self._most_of_link = store, stopping, most, most_of_link
        self._events: dict[str, set[asyncio.Event]] = {}  # by room
        self._places: Counter[str] = Counter()  # by link
        events.on_change(self._ring)

    @property
    def count(self) -> int:
        return self._places.total()

    @contextmanager
    def claim(self, link_id: str) -> Iterator[None]:
        """A place to wait, taken before anything is committed: who gets none may simply post again."""
        if self.count >= self._most or self._places[link_id] >= self._most_of_link:
            raise HookBusy(FULL_S)
        self._places[link_id] += 1
        try:
            yield
        finally:
            self._places[link_id] -= 1
            if not self._places[link_id]:
                del self._places[link_id]

    async def wait(self, address: str, message_id: int, seconds: float, gone: Gone) -> LinkOutcome:
        """`gone`: returns when the program is not there any more."""
        bell = asyncio.Event()
        self._events.setdefault(address, set()).add(bell)
        ended: list[asyncio.Future[Any]] = [asyncio.ensure_future(gone()), asyncio.ensure_future(self._stopping.wait())]
        deadline = asyncio.get_running_loop().time() + seconds
        try:
            while True:
                bell.clear()  # before the look: what rings during it is heard after it
                outcome = await self._store.read(links.get_outcome, message_id)
                left = deadline - asyncio.get_running_loop().time()
                if outcome.is_over or left <= 0 or any(each.done() for each in ended):
                    return outcome
                await self._sleep(bell, ended, left)
        finally:
            for each in ended:
                each.cancel()
            self._events[address].discard(bell)
            if not self._events[address]:
                del self._events[address]

    async def _sleep(self, bell: asyncio.Event, ended: list[asyncio.Future[Any]], left: float) -> None:
        woken = asyncio.ensure_future(bell.wait())
        try:
            await asyncio.wait([woken, *ended], timeout=min(left, LOOK_S), return_when=asyncio.FIRST_COMPLETED)
            if woken.done() and not any(each.done() for each in ended):
                await asyncio.wait(ended, timeout=min(left, REST_S), return_when=asyncio.FIRST_COMPLETED)
        finally:
            woken.cancel()

    def _ring(self, instance: str, address: str) -> None:
        if instance == INSTANCE:
            for bell in self._events.get(address, ()):
                bell.set()


def render_outcome(outcome: LinkOutcome) -> dict[str, object]:
    return {"response": {"status": outcome.status, "body": outcome.body}}
