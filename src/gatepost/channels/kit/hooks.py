"""Events that come by hooks: their signature, and their way to `receive`, each room in order."""

import asyncio
import hashlib
import hmac
import json
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from typing import Any

from gatepost.channels.contract import ChannelDeps, HookRequest, Receive
from gatepost.channels.kit.batches import skip_invalid
from gatepost.core.errors import Unavailable
from gatepost.messages.inbound import Inbound, Receipt


def sign(secret: str, body: bytes) -> str:
    """As GitHub and Meta write it in their headers."""
    return "sha256=" + hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()


def is_signed(request: HookRequest, header: str, secret: str) -> bool:
    """Whether the header signs the body. Without a secret nothing is signed."""
    given = request.headers.get(header, "")
    return bool(secret) and hmac.compare_digest(sign(secret, request.body).encode(), given.encode())


def is_same(given: str, secret: str) -> bool:
    """Whether somebody knows a secret. Nobody knows an empty one."""
    return bool(secret) and hmac.compare_digest(given.encode(), secret.encode())


def parse_object(body: bytes) -> dict[str, Any] | None:
    """The JSON object of a body; None if it is none."""
    try:
        value = json.loads(body)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


class HookInbox:
    """Between `answer_hook` and `receive`. Requests come concurrently; the events of a room stay in order."""

    def __init__(self, around: ChannelDeps) -> None:
        self._around = around
        self._receive: Receive | None = None
        self._rooms: dict[str, tuple[asyncio.Lock, int]] = {}  # with how many use it: a room at rest has no lock

    @asynccontextmanager
    async def open(self, receive: Receive, *, skips_invalid: bool = True) -> AsyncIterator[None]:
        """While `listen` runs. `skips_invalid`: an event that intake will never take is logged and left out, so that it
        does not keep back what came with it; without it, whoever posts it is told so by Invalid."""
        self._receive = skip_invalid(receive) if skips_invalid else receive
        try:
            yield
        finally:
            self._receive = None

    @property
    def is_open(self) -> bool:
        return self._receive is not None

    async def receive(self, events: Iterable[Inbound]) -> None:
        """Returns once all are durable. Raises Unavailable while nobody listens, so that the platform sends again."""
        for event in events:
            await self.receive_one(event)
        self._around.beat()

    async def receive_one(self, event: Inbound) -> Receipt:
        async with self._hold(event.address):
            if self._receive is None:
                raise Unavailable("the channel", "it is not running yet", retry_after=1)
            return await self._receive(event)

    @asynccontextmanager
    async def _hold(self, room: str) -> AsyncIterator[None]:
        lock, users = self._rooms.get(room) or (asyncio.Lock(), 0)
        self._rooms[room] = (lock, users + 1)
        try:
            async with lock:
                yield
        finally:
            lock, users = self._rooms.pop(room)
            if users > 1:
                self._rooms[room] = (lock, users - 1)
