"""Hooks: requests of platforms to `/channels/<instance>`, handed to the channel of that instance.

Everybody who can reach the server can send here, by any host name and without a login. The channel checks the sender;
this module bounds the cost: bytes, time, requests at once and requests a second. An instance counts those alone that
the channel calls proved (`HookRequest.admit`), so a stranger keeps no platform out; see `hook_admission`. Cookies never
get here, so a browser that is signed in proves nothing. An error of a channel is answered without words.
"""

import asyncio
import math
from collections.abc import Awaitable, Callable, Mapping

from starlette.datastructures import Headers, QueryParams
from starlette.requests import ClientDisconnect, Request
from starlette.responses import PlainTextResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from gatepost.channels.contract import (
    ADMIT,
    Channel,
    ChecksHookHead,
    HookRequest,
    HookResponse,
    SupportsHook,
    SupportsStreams,
)
from gatepost.core import log
from gatepost.core.errors import Unavailable
from gatepost.core.settings import Config, setting
from gatepost.core.token_bucket import Rate
from gatepost.serve.rate_limit import PeerRateLimiter
from gatepost.serve.web.hook_admission import HookBusy, HookLoad, HookVisit, UnprovedVisits
from gatepost.serve.web.trusted_proxies import make_client_addresses

LARGEST = setting(
    "web.largest_hook_bytes",
    1024 * 1024,
    help="The largest body that a platform may send to /channels/<instance>, in bytes.",
)

PREFIX = "/channels"
AT_ONCE = 32  # requests of one instance, whose senders are proved
ARRIVALS = Rate(per_second=200, burst=400, patience_s=float("inf"))  # of these
UNPROVED_AT_ONCE, UNPROVED_OF_PEER = 128, 16  # requests of all instances, whose senders are not
FAILED = range(400, 500)  # whatever a stranger gets that is not our own fault
BODY_S = 10.0
ANSWER_S = 20.0  # platforms give up after ten to thirty seconds, and send again
RETRY_AFTER_S = 5.0
HIDDEN = frozenset({"cookie", "x-gatepost"})  # of the web page, no business of a channel
NOTHING = "There is nothing here.\n"

_log = log.get("hooks")


class ChannelHooks:
    """The ASGI application below `/channels`. `adapters` is alive: instances come and go."""

    def __init__(
        self,
        adapters: Mapping[str, Channel],
        config: Config,
        pace: PeerRateLimiter | None = None,
        *,
        at_once: int = AT_ONCE,
        arrivals: Rate = ARRIVALS,
        body_s: float = BODY_S,
        answer_s: float = ANSWER_S,
    ) -> None:
        """`pace`: holds whoever asks for instances that are not there."""
        self._adapters, self._largest, self._pace = adapters, config[LARGEST], pace
        self._at_once, self._arrivals, self._body_s, self._answer_s = at_once, arrivals, body_s, answer_s
        self._loads: dict[str, HookLoad] = {}
        self._unproved = UnprovedVisits(UNPROVED_AT_ONCE, UNPROVED_OF_PEER, make_client_addresses(config))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        path = scope["path"].removeprefix(scope.get("root_path", ""))
        instance, slash, rest = path.lstrip("/").partition("/")
        channel: object = self._adapters.get(instance)
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
        has_begun = False

        async def send_on(message: Message) -> None:
            nonlocal has_begun
            has_begun = True
            await send(message)

        answer: Response | None = None
        try:
            async with self._unproved.enter(scope, self._find_load(instance), self._body_s, None) as visit:
                below = {**scope, "root_path": f"{scope.get('root_path', '')}/{instance}", ADMIT: visit.admit}
                await channel.answer_stream(below, receive, send_on)
                if not visit.is_proved:
                    await self._unproved.charge(visit)
        except HookBusy as error:
            answer = _render_busy(error)
        except TimeoutError:
            answer = Response(status_code=408)
        if answer is not None and not has_begun:
            await answer(scope, receive, send)

    def _find_load(self, instance: str) -> HookLoad:
        load = self._loads.get(instance)
        if load is None:
            for each in [each for each in self._loads if each not in self._adapters]:
                del self._loads[each]
            now = asyncio.get_running_loop().time()
            load = self._loads[instance] = HookLoad(self._arrivals, self._at_once, now)
        return load

    async def _admit(self, instance: str, channel: SupportsHook, request: Request, path: str) -> Response:
        body: bytes | Response | None = None
        try:
            async with self._unproved.enter(
                request.scope, self._find_load(instance), self._body_s, self._answer_s
            ) as visit:
                body = await self._check_head(instance, channel, request, path, visit)
                if body is None:
                    body = await self._read(instance, request, visit)
                if isinstance(body, bytes):
                    visit.allow(self._answer_s)
                    answer = await self._answer(instance, channel, _make_request(request, path, visit, body))
                else:
                    answer = body
                if not visit.is_proved and answer.status_code in FAILED:
                    await self._unproved.charge(visit)
                return answer
        except HookBusy as error:
            return _render_busy(error)
        except TimeoutError:
            if body is None:
                return Response(status_code=408)
            _log.warning("a hook was not answered in time", channel=instance, seconds=self._answer_s)
            return render_wait(503, RETRY_AFTER_S)

    async def _check_head(
        self, instance: str, channel: SupportsHook, request: Request, path: str, visit: HookVisit
    ) -> Response | None:
        """Return the answer to a stranger before the body is read, or None if the sender may be known."""
        if not isinstance(channel, ChecksHookHead):
            return None
        head = _make_request(request, path, visit, b"")
        return await self._run(instance, channel.check_hook_head(head))

    async def _read(self, instance: str, request: Request, visit: HookVisit) -> bytes | Response:
        """The body, or what is answered in its place."""
        try:
            body = await read_body(request, self._largest, visit.pace)
        except ClientDisconnect:
            return Response(status_code=400)
        if body is None:
            _log.warning("a hook was too large", channel=instance, largest=self._largest)
            return Response(status_code=413)
        return body

    async def _answer(self, instance: str, channel: SupportsHook, request: HookRequest) -> Response:
        return await self._run(instance, channel.answer_hook(request)) or Response(status_code=500)

    async def _run(self, instance: str, work: Awaitable[HookResponse | None]) -> Response | None:
        """Render what a channel answers. Its mistakes are not for a stranger to read."""
        try:
            answer = await work
        except (HookBusy, TimeoutError):
            raise
        except Unavailable as error:
            _log.warning("a hook has to come again", channel=instance, error=str(error))
            return render_wait(503, RETRY_AFTER_S if error.retry_after is None else error.retry_after)
        except Exception as error:  # noqa: BLE001  an adapter's mistake must not end the server
            _log.error("a channel broke while it answered a hook", channel=instance, error=repr(error))
            return Response(status_code=500)
        return None if answer is None else Response(answer.body, answer.status, media_type=answer.content_type)


def _make_request(request: Request, path: str, visit: HookVisit, body: bytes) -> HookRequest:
    return HookRequest(
        method=request.method,
        path=path,
        query=dict(QueryParams(request.scope["query_string"])),
        headers=list_headers(request.headers),
        body=body,
        admit=visit.admit,
    )


async def read_body(
    request: Request, largest: int, pace: Callable[[int, int], Awaitable[None]] | None = None
) -> bytes | None:
    """None if it is too large. The announced length is not believed: what comes is counted. `pace`: waits before more
    is read, given the bytes that came and all that did so far."""
    parts = bytearray()
    async for chunk in request.stream():
        parts += chunk
        if len(parts) > largest:
            return None
        if pace is not None:
            await pace(len(chunk), len(parts))
    return bytes(parts)


def list_headers(headers: Headers) -> dict[str, str]:
    """Return the headers without those that come twice: a signature must not depend on which one is read."""
    names = headers.keys()
    return {name: headers[name] for name in set(names) - HIDDEN if len(headers.getlist(name)) == 1}


def render_wait(status: int, seconds: float) -> Response:
    return Response(status_code=status, headers={"retry-after": str(max(1, math.ceil(seconds)))})


def _render_busy(error: HookBusy) -> Response:
    return render_wait(429, error.retry_after or 0.0)
