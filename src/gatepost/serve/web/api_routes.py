"""Requests of programs to the web site: whether it is well, its numbers, and operations by an API token.

A cookie counts for nothing here, and a token for nothing else. So no page of somebody else can make a browser act, and
the checks of a browser's origin are not needed.
"""

import asyncio
import ipaddress
import time
from collections.abc import Awaitable, Callable

import msgspec
from msgspec import Struct
from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.routing import Route

from gatepost.access.operation_rights import includes
from gatepost.core.errors import GatepostError, Refused
from gatepost.core.records import replace
from gatepost.core.registry import Registry
from gatepost.messages.inbound import OPERATOR
from gatepost.serve.auth_throttle import AuthThrottle
from gatepost.serve.control.answers import ApiErrorKind
from gatepost.serve.control.api import (
    error_response,
    read_object,
    render_error,
    render_number_too_large,
    result_response,
)
from gatepost.serve.control.contract import OPERATIONS, Operation, OperationDeps, find_operation
from gatepost.serve.control.openapi import make_openapi
from gatepost.serve.control.rights import ROOT_FOLDER, has_right
from gatepost.serve.metrics import MEDIA_TYPE, MetricsPage
from gatepost.serve.rate_limit import PeerRateLimiter
from gatepost.serve.web.browser_security import LOCAL, host_of
from gatepost.serve.web.dashboard.contract import PREFIX
from gatepost.serve.web.trusted_proxies import ClientAddresses
from gatepost.store.money.ledger import check_answers
from gatepost.store.rights import api_tokens
from gatepost.store.rights.api_tokens import ApiToken

API_PREFIX = "/v1/"
METRICS_RIGHT = "status.read"
READY_S = 2.0  # the store must answer within
READY_KEPT_S = 1.0  # however many ask, the store is asked so often at most
LONGEST_TOKEN = 200
FORWARDED = ("forwarded", "x-forwarded-for", "x-real-ip", "via")  # somebody stands between, and is not who asks


class ApiRouteDeps(Struct, frozen=True, kw_only=True):
    """`metrics` None: a site without a gateway has no numbers. `is_serving`: false while it stops.
    `find_unready`: why nobody should be sent to this gateway now, though it may serve again; '': it serves.
    `pace`: holds whoever shows no token for an operation."""

    operation_deps: OperationDeps
    throttle: AuthThrottle
    pace: PeerRateLimiter
    clients: ClientAddresses
    is_serving: Callable[[], bool]
    is_signed_in: Callable[[Request], Awaitable[bool]]
    metrics: MetricsPage | None = None
    find_unready: Callable[[], str] = str
    operations: Registry[Operation] = OPERATIONS


class ApiRoutes:
    def __init__(self, deps: ApiRouteDeps) -> None:
        self._deps = deps
        self._ready, self._until = False, 0.0
        self._document = b""
        self._lock = asyncio.Lock()

    def routes(self) -> list[Route]:
        return [
            Route("/healthz", self.healthz, methods=["GET"]),
            Route("/readyz", self.readyz, methods=["GET"]),
            Route("/metrics", self.metrics, methods=["GET"]),
            Route("/v1/ops/{name}", self.operate, methods=["POST"]),
            Route("/openapi.json", self.openapi, methods=["GET"]),
            Route("/docs", show_docs, methods=["GET"]),
        ]

    async def healthz(self, request: Request) -> Response:
        """The process lives: its loop answers."""
        return JSONResponse({"status": "ok"})

    async def readyz(self, request: Request) -> Response:
        """It can accept a message: the store reads and writes, and other gateways do not believe it dead."""
        if not self._deps.is_serving():
            return JSONResponse({"status": "stopping"}, 503)
        if why := self._deps.find_unready():
            return JSONResponse({"status": why}, 503, headers={"retry-after": "5"})
        if await self._check_ready():
            return JSONResponse({"status": "ok"})
        return JSONResponse({"status": "the store does not answer"}, 503, headers={"retry-after": "5"})

    async def _check_ready(self) -> bool:
        async with self._lock:
            if time.monotonic() >= self._until:
                self._ready = await self._ask_store()
                self._until = time.monotonic() + READY_KEPT_S
        return self._ready

    async def _ask_store(self) -> bool:
        store = self._deps.operation_deps.store
        try:
            async with asyncio.timeout(READY_S):
                await store.read(check_answers)
                await store.write(check_answers, durable=False)
        except (TimeoutError, GatepostError):
            return False
        return True

    async def metrics(self, request: Request) -> Response:
        """For whoever sits on this machine, or shows a token that may."""
        near = is_local(request) and not self._deps.clients.comes_by_proxy(request.scope)
        if not near and (refusal := await self._refuse_metrics(request)) is not None:
            return refusal
        if self._deps.metrics is None:
            return error_response(ApiErrorKind.NOT_FOUND, "there are no numbers here", 404)
        return Response(await self._deps.metrics.get_text(), media_type=MEDIA_TYPE)

    async def _refuse_metrics(self, request: Request) -> Response | None:
        token = await self._find_token(request)
        if token is None:
            return await self._refusal(request)
        right = f"op:{METRICS_RIGHT}"
        may = token.maker == OPERATOR or await self._deps.operation_deps.store.read(
            has_right, token.maker, right, ROOT_FOLDER
        )
        if not may or not includes(token.scopes, METRICS_RIGHT):
            return error_response(ApiErrorKind.REFUSED, f"the token has no scope {METRICS_RIGHT}", 403)
        return None

    async def operate(self, request: Request) -> Response:
        """Run an operation as the person that the token is for, within its scopes."""
        token = await self._find_token(request)
        if token is None:
            await self._deps.pace.hold(request.scope)
            return await self._refusal(request)
        try:
            operation = await find_operation(self._deps.operations, request.path_params["name"])
            if not includes(token.scopes, operation.info.right):
                hint = f"its scopes do not include {operation.info.right}"
                raise Refused(f"the token {token.id}", operation.info.name, "", hint)
            operation_deps = replace(self._deps.operation_deps, caller=token.maker, via=token.id, scopes=token.scopes)
            return await run_operation(operation_deps, operation, request)
        except GatepostError as error:
            return await render_error(request, error)

    async def openapi(self, request: Request) -> Response:
        """The document of the API, for who is signed in and for programs with any token."""
        if not await self._deps.is_signed_in(request) and await self._find_token(request) is None:
            return await self._refusal(request)
        if not self._document:
            self._document = msgspec.json.encode(make_openapi(self._deps.operations))
        return Response(self._document, media_type="application/json")

    async def _find_token(self, request: Request) -> ApiToken | None:
        """Judged anew with each request: a token that is revoked works no more."""
        shown = read_bearer(request.headers)
        if not shown:
            return None
        store, now = self._deps.operation_deps.store, self._deps.operation_deps.clock.now()
        token = await store.read(api_tokens.find_valid, shown, now)
        if token is None:
            return None
        self._deps.throttle.reset(self._deps.clients.get(request.scope))
        if (token.last_used_at or 0) < now - api_tokens.USED_EVERY:
            store.post(api_tokens.record_use, token.id, now, lane=f"token:{token.id}")
        return token

    async def _refusal(self, request: Request) -> Response:
        """Answer a request without a valid token. After a wrong token it waits, longer each time."""
        shown = "authorization" in request.headers
        if shown and not await self._deps.throttle.strike(self._deps.clients.get(request.scope)):
            return error_response(ApiErrorKind.UNAVAILABLE, "too many wrong tokens came from here; wait a while", 429)
        text = "an API token is missing or not valid; `gatepost token api add` makes one"
        answer = error_response(ApiErrorKind.UNAUTHORIZED, text, 401)
        answer.headers["www-authenticate"] = "Bearer"
        return answer


async def show_docs(request: Request) -> Response:
    """The pages of the API are those of the dashboard."""
    return RedirectResponse(f"{PREFIX}/api", 303)


async def run_operation(operation_deps: OperationDeps, operation: Operation, request: Request) -> Response:
    try:
        return result_response(await operation(operation_deps, await read_object(request)))
    except OverflowError as error:
        return await render_number_too_large(request, error)


def read_bearer(headers: Headers) -> str:
    """The token of an Authorization header; '' if it has none."""
    kind, _, token = headers.get("authorization", "").partition(" ")
    return token.strip()[:LONGEST_TOKEN] if kind.lower() == "bearer" else ""


def is_local(request: Request) -> bool:
    """Return True if who asks is on this machine. A proxy is too, but says that it asks for somebody else."""
    peer = request.client.host if request.client is not None else ""
    try:
        near = ipaddress.ip_address(peer).is_loopback
    except ValueError:
        return False  # a socket file: whoever stands before it
    asked = host_of(request.headers.get("host", ""))
    return near and asked in LOCAL and not any(name in request.headers for name in FORWARDED)
