"""Events that come by hooks: their signature, and their way to `receive`, each room in order."""

import asyncio
import hashlib
import hmac
import json
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, NoReturn

from gatepost.channels.contract import ChannelDeps, HookRequest, Receive
from gatepost.channels.kit.backoff import report_miss
from gatepost.channels.kit.receiving import LOG, skip_invalid
from gatepost.channels.kit.room_queues import RoomQueues
from gatepost.core.errors import Unavailable
from gatepost.core.json_limits import has_few_values
from gatepost.messages.inbound import Inbound, Receipt
from gatepost.messages.text import may_stop

SIGNATURE = "x-hub-signature-256"  # of GitHub and Meta
MOST_VALUES = 20_000  # in the body of an event
_SIGNED = re.compile(r"sha256=[0-9a-f]{64}\Z")


def sign(secret: str, body: bytes) -> str:
    """As GitHub and Meta write it in their headers."""
    return "sha256=" + hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()


def has_signature(head: HookRequest, header: str) -> bool:
    """Return False for what no body could make a signed request."""
    return head.method == "POST" and _SIGNED.match(head.headers.get(header, "")) is not None


def is_signed(request: HookRequest, header: str, secret: str) -> bool:
    """Return True if the header signs the body. Without a secret nothing is signed."""
    given = request.headers.get(header, "")
    return bool(secret) and hmac.compare_digest(sign(secret, request.body).encode(), given.encode())


def is_same(given: str, secret: str) -> bool:
    """Return True if somebody knows a secret. Nobody knows an empty one."""
    return bool(secret) and hmac.compare_digest(given.encode(), secret.encode())


def parse_object(body: bytes) -> dict[str, Any] | None:
    """The JSON object of a body; None if it is none, or holds so many values that reading it would hold up others."""
    if not has_few_values(body, MOST_VALUES):
        return None
    try:
        value = json.loads(body)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


class HookInbox:
    """Between `answer_hook` and `receive`: requests come concurrently, and the events of a room stay in order."""

    def __init__(self, deps: ChannelDeps) -> None:
        self._deps = deps
        self._receive: Receive | None = None
        self._queues = RoomQueues()

    @asynccontextmanager
    async def open(self, receive: Receive, *, skips_invalid: bool = True) -> AsyncIterator[None]:
        """Take events while `listen` runs.

        `skips_invalid`: an event that intake will never take is logged and left out, so that it does not hold up others
        of the same request. Without it, the sender gets Invalid.
        """
        async with RoomQueues() as queues:
            self._queues, self._receive = queues, skip_invalid(receive) if skips_invalid else receive
            yield

    async def listen(self, receive: Receive, look: Callable[[], Awaitable[object]], pause_s: float) -> NoReturn:
        """Take events, and look at the platform now and then: what is revoked or missed is found by that."""
        async with self.open(receive):
            while True:
                try:
                    await look()
                    self._deps.beat()
                except Unavailable as error:
                    LOG.warning("a platform was not asked whole", instance=self._deps.instance, error=str(error))
                    report_miss(error, at_once=True)
                await asyncio.sleep(pause_s)

    @property
    def is_open(self) -> bool:
        return self._queues.is_open

    async def receive(self, events: Iterable[Inbound]) -> None:
        """Returns once all are durable. Raises Unavailable while nobody listens, so that the platform sends again."""
        for event in events:
            await self.receive_one(event)
        self._deps.beat()

    async def receive_one(self, event: Inbound) -> Receipt:
        urgent = event.event == "message" and may_stop(event.text)
        return await self._queues.run(event.address, partial(self._hand_in, event), urgent=urgent)

    async def _hand_in(self, event: Inbound) -> Receipt:
        assert self._receive is not None
        return await self._receive(event)
