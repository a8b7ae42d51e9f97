"""Decisions about a provider's request go to the sandbox that waits for them, by the gateway that runs it.

One that is not awake asks again when it is continued, and then has its answer from the store.
"""

from typing import Any, Protocol

from gatepost.core import log
from gatepost.core.clock import Clock
from gatepost.core.event_bus import EventBus
from gatepost.core.process.wake_loop import WakeLoop
from gatepost.store.port import Store
from gatepost.store.rights.requests import Request, RequestState
from gatepost.store.sessions import sleeping_turns

NOT_PERMITTED = "Whoever may decide about this did not permit it."
LOOK_S = 2.0  # behind the bell

_log = log.get("requests")


class WaitingProviders(Protocol):
    """Those whose turn waits in its sandbox for somebody's answer."""

    def list_asking(self) -> list[str]:
        """Their sessions."""

    def is_awaited(self, session_id: str, request: str) -> bool: ...

    def answer(self, session_id: str, request: str, verdict: str, given: dict[str, Any]) -> bool:
        """`given`: what it may use. False: nobody waits for it any more."""


class ProviderAnswers:
    def __init__(self, store: Store, clock: Clock, events: EventBus, providers: WaitingProviders) -> None:
        self._store, self._clock, self._bells, self._providers = store, clock, events, providers
        self._loop = WakeLoop(_log.warning, "answers to providers wait for the store", pause_s=LOOK_S)
        events.on_requests(self._loop.wake)

    async def run(self) -> None:
        """Until cancelled, on each of several gateways: whoever runs the loop of requests is another one, perhaps."""
        await self._loop.run(self.send_all)

    async def send_all(self) -> None:
        """To those that wait here. Nothing is read if none does."""
        for session_id in self._providers.list_asking():
            for request in await self._store.read(sleeping_turns.list_undelivered, session_id):
                if self._providers.is_awaited(session_id, request.name):
                    await self._send(session_id, request)

    async def _send(self, session_id: str, request: Request) -> None:
        """On the disk before the provider has it: so a yes is used once, whenever the gateway dies."""
        if not await self._store.write(sleeping_turns.claim_answer, request.id, self._clock.now(), lane=session_id):
            return
        allowed = request.state is RequestState.ALLOWED
        given = request.answer if allowed else {"reason": request.reason or NOT_PERMITTED}
        if not self._providers.answer(session_id, request.name, "allow" if allowed else "deny", given):
            await self._store.write(sleeping_turns.return_answer, request.id, lane=session_id)  # it sleeps by now
            self._bells.session(session_id)
