"""Requests of strangers at a bounded rate: a client that asks faster waits for its answer, and nobody else does.

A waiting request holds its connection, and the connections of an address are bounded. An address that may be a proxy of
everybody has a larger rate, which all its clients share. People who are signed in are not slowed by strangers at the
same address: their requests are judged by their login before they come here.
"""

import asyncio
from collections.abc import Awaitable, Callable

from starlette.types import ASGIApp, Receive, Scope, Send

from gatepost.core.token_bucket import KeyedBuckets, Rate
from gatepost.serve.peers import peer_of
from gatepost.serve.web.trusted_proxies import ClientAddresses

REQUESTS = Rate(per_second=50, burst=200, patience_s=float("inf"))  # a page with all that belongs to it is a dozen
SHARED = Rate(per_second=200, burst=800, patience_s=float("inf"))  # of an address that may be everybody's proxy
LONGEST_S = 10.0
MOST_PEERS = 1000  # whose rates are remembered, the latest


class PeerRateLimiter:
    def __init__(
        self,
        clients: ClientAddresses | None = None,
        rate: Rate = REQUESTS,
        shared: Rate = SHARED,
        pause: Callable[[float], Awaitable[None]] = asyncio.sleep,
        now: Callable[[], float] | None = None,
    ) -> None:
        self._clients, self._shared = clients or ClientAddresses(), shared
        self._pause, self._now = pause, now
        self._buckets = KeyedBuckets(rate, MOST_PEERS)

    async def hold(self, scope: Scope) -> None:
        """Returns when the request may be answered."""
        now = self._now() if self._now is not None else asyncio.get_running_loop().time()
        own = self._clients.find_own(scope)
        peer = own or f"shared {peer_of(self._clients.get(scope))}"
        if wait := self._buckets.charge(peer, now, None if own else self._shared):
            await self._pause(min(wait, LONGEST_S))


class RateLimitMiddleware:
    """Holds every request but those below `judged`, which are held there if they turn out to be a stranger's.
    `gets_in`: whether a request gets there at all; one that is answered before is held here."""

    def __init__(
        self,
        app: ASGIApp,
        pace: PeerRateLimiter,
        judged: str | tuple[str, ...],
        gets_in: Callable[[Scope], bool] = lambda scope: True,
    ) -> None:
        self._app, self._pace, self._judged, self._gets_in = app, pace, judged, gets_in

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and not (scope["path"].startswith(self._judged) and self._gets_in(scope)):
            await self._pace.hold(scope)
        await self._app(scope, receive, send)
