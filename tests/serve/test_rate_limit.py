"""Requests of strangers at a bounded rate."""

from typing import Any

from gatepost.core.token_bucket import Rate
from gatepost.serve.rate_limit import MOST_PEERS, PeerRateLimiter, RateLimitMiddleware

RATE = Rate(per_second=10, burst=5, patience_s=float("inf"))


class Visit:
    """A pace whose time stands still, and what it was told to wait."""

    def __init__(self) -> None:
        self.waited: list[float] = []
        self.pace = PeerRateLimiter(RATE, self._pause, lambda: 0.0)

    async def _pause(self, seconds: float) -> None:
        self.waited.append(seconds)

    async def ask(self, address: str, times: int = 1) -> None:
        for _ in range(times):
            await self.pace.hold({"type": "http", "client": (address, 1)})


async def test_stranger_04_who_asks_faster_waits_and_nobody_else_does() -> None:
    visit = Visit()
    await visit.ask("10.0.0.1", 7)
    assert visit.waited == [0.1, 0.2]
    await visit.ask("10.0.0.2", 5)
    assert len(visit.waited) == 2
    await visit.ask("2001:db8::1", 5)
    await visit.ask("2001:db8::2")  # the same network
    assert len(visit.waited) == 3


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
        await paced({"type": "http", "path": path, "client": ("10.0.0.1", 1)}, None, None)  # type: ignore[arg-type]
    assert len(served) == 16 and len(visit.waited) == 1
