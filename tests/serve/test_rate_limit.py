"""Requests of strangers at a bounded rate."""

from typing import Any

import pytest

from gatepost.core.token_bucket import Rate
from gatepost.serve.rate_limit import MOST_PEERS, PeerRateLimiter, RateLimitMiddleware
from gatepost.serve.web.trusted_proxies import ClientAddresses

RATE = Rate(per_second=10, burst=5, patience_s=float("inf"))
SHARED = Rate(per_second=100, burst=50, patience_s=float("inf"))


class Visit:
    """A pace whose time stands still, and what it was told to wait."""

    def __init__(self, clients: ClientAddresses | None = None) -> None:
        self.waited: list[float] = []
        self.pace = PeerRateLimiter(clients, RATE, SHARED, self._pause, lambda: 0.0)

    async def _pause(self, seconds: float) -> None:
        self.waited.append(seconds)

    async def ask(self, address: str | None, times: int = 1, forwarded: str = "") -> None:
        client = (address, 1) if address is not None else None
        headers = [(b"x-forwarded-for", forwarded.encode())] if forwarded else []
        for _ in range(times):
            await self.pace.hold({"type": "http", "client": client, "headers": headers})


async def test_stranger_04_who_asks_faster_waits_and_nobody_else_does() -> None:
    visit = Visit()
    await visit.ask("8.8.8.1", 7)
    assert visit.waited == [0.1, 0.2]
    await visit.ask("8.8.8.2", 5)
    assert len(visit.waited) == 2
    await visit.ask("2a00:1450::1", 5)
    await visit.ask("2a00:1450::2")  # the same network
    assert len(visit.waited) == 3


@pytest.mark.parametrize(
    ("clients", "address"),
    [
        (ClientAddresses(), "127.0.0.1"),
        (ClientAddresses(is_proxied=True), "8.8.8.1"),
        (ClientAddresses(("8.8.8.1",)), "8.8.8.1"),
        (ClientAddresses(), None),
    ],
)
async def test_who_may_be_a_proxy_of_everybody_has_a_larger_rate_and_yet_a_bound(
    clients: ClientAddresses, address: str | None
) -> None:
    visit = Visit(clients)
    await visit.ask(address, 50)
    assert visit.waited == []
    await visit.ask(address)
    assert visit.waited == [0.01]


async def test_visitors_whom_a_trusted_proxy_names_have_a_rate_each() -> None:
    visit = Visit(ClientAddresses(("10.0.0.2",), "x-forwarded-for"))
    await visit.ask("10.0.0.2", 6, "8.8.8.1")
    assert visit.waited == [0.1]
    await visit.ask("10.0.0.2", 5, "8.8.8.2")
    await visit.ask("10.0.0.2", 1, "8.8.8.3, 8.8.8.1")  # the first one is the visitor's own word
    assert visit.waited == [0.1, 0.2]


async def test_the_table_of_addresses_is_bounded() -> None:
    visit = Visit()
    for number in range(MOST_PEERS + 50):
        await visit.ask(f"10.0.{number // 256}.{number % 256}")
    assert len(visit.pace._buckets) == MOST_PEERS


async def test_what_is_judged_by_its_login_is_not_held_here() -> None:
    visit, served = Visit(), []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        served.append(scope["path"])

    paced = RateLimitMiddleware(app, visit.pace, "/api/")
    for path in ["/api/messages"] * 10 + ["/"] * 6:
        await paced({"type": "http", "path": path, "client": ("8.8.8.1", 1)}, None, None)  # type: ignore[arg-type]
    assert len(served) == 16 and len(visit.waited) == 1
