"""Hooks: what platforms send to `/channels/<instance>`, handed to the channel of that instance.

Whoever can reach the server can send here, by any host name and without a login. The channel checks who it was; this
module bounds what a stranger can cost: bytes, time, requests at once and requests a second, by instance. A request has
a place there once its body has come; before that it counts for whoever sends it, so a slow stranger keeps nobody out.
Cookies never get here, so a browser that is signed in proves nothing. An error of a channel is answered without words.
"""

import asyncio
import math
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from starlette.datastructures import Headers, QueryParams
from starlette.requests import ClientDisconnect, Request
from starlette.responses import PlainTextResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send

from gatepost.channels.contract import Channel, HookRequest, SupportsHook, SupportsStreams
from gatepost.core import log
from gatepost.core.errors import Unavailable
from gatepost.core.settings import Config, setting
from gatepost.core.token_bucket import Rate, TokenBucket
from gatepost.serve.peers import peer_of
from gatepost.serve.rate_limit import PeerRateLimiter

LARGEST = setting(
    "web.largest_hook_bytes",
    1024 * 1024,
    help="The largest body that a platform may send to /channels/<instance>, in bytes.",
)

PREFIX = "/channels"
AT_ONCE = 32  # requests of one instance
BODIES_AT_ONCE, BODIES_OF_PEER = 128, 16  # that are being read, of all instances
ARRIVALS = Rate(per_second=200, burst=400, patience_s=float("inf"))  # of one instance
BODY_S = 10.0
ANSWER_S = 20.0  # platforms give up after ten to thirty seconds, and send again
RETRY_AFTER_S = 5.0
FULL_S = 1.0  # until a place may be free
HIDDEN = frozenset({"cookie", "x-gatepost"})  # of the web page, no business of a channel
NOTHING = "There is nothing here.\n"

_log = log.get("hooks")


class _HookLoad:
    """What one instance is busy with."""

    def __init__(self, rate: Rate, now: float) -> None:
        self.running = 0
        self._bucket = TokenBucket(rate, now)
        self._free_at = 0.0

    def admit(self, most: int, now: float) -> float:
        """0 if a request may come in, else how many seconds it should wait. A refused one costs nothing, so a flood
        does not lengthen its own wait."""
        if self.running >= most:
            return FULL_S
        if now < self._free_at:
            return self._free_at - now
        self._free_at = now + self._bucket.charge(1, now)
        return 0.0


class _BodiesInFlight:
    """Whose bodies are being read."""

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()

    @contextmanager
    def enter(self, scope: Scope) -> Iterator[bool]:
        """Whether there is room for another one of this peer."""
        client = scope.get("client")
        peer = peer_of(str(client[0])) if client else ""
        if self._counts[peer] >= BODIES_OF_PEER or self._counts.total() >= BODIES_AT_ONCE:
            yield False
            return
        self._counts[peer] += 1
        try:
            yield True
        finally:
            self._counts[peer] -= 1
            self._counts += Counter()  # without those that have none


class ChannelHooks:
    """The ASGI application below `/channels`. `channels` is alive: instances come and go."""

    def __init__(
        self,
        channels: Mapping[str, Channel],
        config: Config,
        pace: PeerRateLimiter | None = None,
        *,
        at_once: int = AT_ONCE,
        arrivals: Rate = ARRIVALS,
        body_s: float = BODY_S,
        answer_s: float = ANSWER_S,
    ) -> None:
        """`pace`: holds whoever asks for instances that are not there."""
        self._channels, self._largest, self._pace = channels, config[LARGEST], pace
        self._at_once, self._arrivals, self._body_s, self._answer_s = at_once, arrivals, body_s, answer_s
        self._loads: dict[str, _HookLoad] = {}
        self._bodies = _BodiesInFlight()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        path = scope["path"].removeprefix(scope.get("root_path", ""))
        instance, slash, rest = path.lstrip("/").partition("/")
        channel: object = self._channels.get(instance)
        answer: ASGIApp
        if isinstance(channel, SupportsStreams):
            await self._stream(instance, channel, scope, receive, send)
            return
        if not isinstance(channel, SupportsHook):
            if self._pace is not None:
                await self._pace.hold(scope)
            answer = PlainTextResponse(NOTHING, 404)
        else:
            answer = await self._admit(instance, channel, Request(scope, receive), slash + rest)
        await answer(scope, receive, send)

    async def _stream(
        self, instance: str, channel: SupportsStreams, scope: Scope, receive: Receive, send: Send
    ) -> None:
        load, wait = self._enter(instance)
        if wait:
            await _render_wait(429, wait)(scope, receive, send)
            return
        load.running += 1
        try:
            below = {**scope, "root_path": f"{scope.get('root_path', '')}/{instance}"}
            await channel.answer_stream(below, receive, send)
        finally:
            load.running -= 1

    def _enter(self, instance: str) -> tuple[_HookLoad, float]:
        """What the instance is busy with, and how many seconds another request should wait; 0: it may come in."""
        now = asyncio.get_running_loop().time()
        load = self._loads.get(instance)
        if load is None:
            self._forget_removed()
            load = self._loads[instance] = _HookLoad(self._arrivals, now)
        return load, load.admit(self._at_once, now)

    async def _admit(self, instance: str, channel: SupportsHook, request: Request, path: str) -> Response:
        load, wait = self._enter(instance)
        if wait:
            return _render_wait(429, wait)
        with self._bodies.enter(request.scope) as has_room:
            body = await self._read(instance, request) if has_room else _render_wait(429, FULL_S)
        if isinstance(body, Response):
            return body
        if load.running >= self._at_once:
            return _render_wait(429, FULL_S)
        load.running += 1
        try:
            return await self._answer(instance, channel, request, path, body)
        finally:
            load.running -= 1

    def _forget_removed(self) -> None:
        for instance in [each for each in self._loads if each not in self._channels]:
            del self._loads[instance]

    async def _read(self, instance: str, request: Request) -> bytes | Response:
        """The body, or what is answered in its place."""
        try:
            async with asyncio.timeout(self._body_s):
                body = await _read_body(request, self._largest)
        except TimeoutError:
            return Response(status_code=408)
        except ClientDisconnect:
            return Response(status_code=400)
        if body is None:
            _log.warning("a hook was too large", channel=instance, largest=self._largest)
            return Response(status_code=413)
        return body

    async def _answer(self, instance: str, channel: SupportsHook, request: Request, path: str, body: bytes) -> Response:
        given = HookRequest(
            method=request.method,
            path=path,
            query=dict(QueryParams(request.scope["query_string"])),
            headers=_list_headers(request.headers),
            body=body,
        )
        try:
            async with asyncio.timeout(self._answer_s):
                answer = await channel.answer_hook(given)
        except TimeoutError:
            _log.warning("a hook was not answered in time", channel=instance, seconds=self._answer_s)
            return _render_wait(503, RETRY_AFTER_S)
        except Unavailable as error:
            _log.warning("a hook has to come again", channel=instance, error=str(error))
            return _render_wait(503, RETRY_AFTER_S if error.retry_after is None else error.retry_after)
        except Exception as error:  # noqa: BLE001  an adapter's mistake is not for a stranger to read
            _log.error("a channel broke while it answered a hook", channel=instance, error=repr(error))
            return Response(status_code=500)
        return Response(answer.body, answer.status, media_type=answer.content_type)


async def _read_body(request: Request, largest: int) -> bytes | None:
    """None if it is too large. The announced length is not believed: what comes is counted."""
    parts = bytearray()
    async for chunk in request.stream():
        parts += chunk
        if len(parts) > largest:
            return None
    return bytes(parts)


def _list_headers(headers: Headers) -> dict[str, str]:
    """Of a name that comes twice, nothing: a signature must not depend on which one is read."""
    names = headers.keys()
    return {name: headers[name] for name in set(names) - HIDDEN if len(headers.getlist(name)) == 1}


def _render_wait(status: int, seconds: float) -> Response:
    return Response(status_code=status, headers={"retry-after": str(max(1, math.ceil(seconds)))})
