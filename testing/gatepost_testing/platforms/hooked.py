"""A platform that sends its events to us by HTTP, one after another, and again until we take them."""

import asyncio
from collections import deque
from typing import Any

import httpx2

from gatepost_testing.platforms.base import EmulatedPlatform, PlatformFault
from gatepost_testing.waiting import PATIENCE_S

AGAIN_S = 0.02  # real platforms wait for seconds to hours
Event = dict[str, Any]


class HookedPlatform(EmulatedPlatform):
    """A subclass calls `emit` for each event, and renders the request that brings it."""

    calls_hooks = True
    redelivers = True  # until it is taken; else a delivery that fails is lost
    hook_query = ""  # what people write behind the address of the hook, such as ?token=…

    def __init__(self) -> None:
        super().__init__()
        self.deliveries: list[int] = []  # the answer to each, 0 for none
        self._events: deque[Event] = deque()
        self._held: Event | None = None  # is delivered after the next
        self._delivering: asyncio.Task[None] | None = None

    def render_delivery(self, event: Event) -> tuple[dict[str, str], bytes]:
        """The headers and the body of the request."""
        raise NotImplementedError

    def start(self, port: int = 0) -> None:
        super().start(port)
        self._run_in_loop(self._begin())

    async def _begin(self) -> None:
        self._delivering = asyncio.create_task(self._deliver_all())

    def emit(self, event: Event, *, faulty: bool = True) -> None:
        """`faulty`: the faults of events are for this one, too."""
        with self.changed:
            if not faulty:
                self._events.append(event)
                return
            held, self._held = self._held, None
            if self.claim_fault(PlatformFault.REORDER):
                self._held = event
            else:
                self._events.append(event)
                if self.claim_fault(PlatformFault.DUPLICATE):
                    self._events.append(event)
            if held is not None:
                self._events.append(held)
            self.changed.notify_all()

    async def _deliver_all(self) -> None:
        async with httpx2.AsyncClient(timeout=PATIENCE_S, trust_env=False, verify=False) as client:
            while True:
                with self.changed:
                    ready = bool(self._events and self.hook_url) and not self.is_faulty(PlatformFault.HELD_POLL)
                    event = self._events[0] if ready else None
                if event is None or not await self._deliver(client, event):
                    await asyncio.sleep(AGAIN_S)
                else:
                    with self.changed:
                        self._events.popleft()
                        self.changed.notify_all()

    async def _deliver(self, client: httpx2.AsyncClient, event: Event) -> bool:
        """Return True if it is done with."""
        headers, body = self.render_delivery(event)
        try:
            answer = await client.post(f"{self.hook_url}{self.hook_query}", headers=headers, content=body)
            status = answer.status_code
        except httpx2.TransportError:
            status = 0
        with self.changed:
            self.deliveries.append(status)
            self.changed.notify_all()
        if self.claim_fault(PlatformFault.FORGOTTEN):
            return False
        return 200 <= status < 300 or not self.redelivers
