"""The control API: HTTP on control.sock, JSON only.

A client that can open the socket is the owner, so no login is asked for (on TCP `token_auth.py` stands before it). MCP
is mounted beside it.

Answers are `{"ok": true, "result": …}` or `{"ok": false, "error": {"kind", "text"}}`; streams are one JSON object a
line. No answer carries a traceback.
"""

import asyncio
import json
import math
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Any

import msgspec
from msgspec import Struct, field
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Mount, Route
from starlette.types import ASGIApp

from gatepost import __version__
from gatepost.channels.local_channel import LocalChannel
from gatepost.core.errors import (
    GatepostError,
    Invalid,
    NotFound,
    Refused,
    SetupError,
    Unavailable,
    Unsupported,
    render_retry_after,
)
from gatepost.core.json_limits import MOST_VALUES, has_few_values
from gatepost.core.records import asdict
from gatepost.core.registry import Registry
from gatepost.serve import room_events
from gatepost.serve.control import terminal_chat
from gatepost.serve.control.answers import ApiErrorKind, to_json
from gatepost.serve.control.contract import OPERATIONS, Operation, OperationDeps, find_operation
from gatepost.serve.control.daemon_status import DaemonStatus
from gatepost.serve.control.openapi import make_openapi

LONGEST_DRAIN_S = 3600
LARGEST_NUMBER = 2**53
LARGEST_BODY = 4 * 1024 * 1024  # bytes of one request
KINDS: tuple[tuple[type[GatepostError], ApiErrorKind, int], ...] = (
    (Invalid, ApiErrorKind.INVALID, 400),
    (Refused, ApiErrorKind.REFUSED, 403),
    (NotFound, ApiErrorKind.NOT_FOUND, 404),
    (Unsupported, ApiErrorKind.UNSUPPORTED, 422),
    (Unavailable, ApiErrorKind.UNAVAILABLE, 503),
    (SetupError, ApiErrorKind.SETUP, 409),
    (GatepostError, ApiErrorKind.ERROR, 400),
)


class ApiDeps(Struct, frozen=True, kw_only=True):
    """Parts of the API: `status` is what the daemon knows of itself, `new_login` makes a one-time address."""

    operation_deps: OperationDeps
    terminal: LocalChannel
    status: Callable[[], Awaitable[DaemonStatus]]
    shutdown: Callable[[], None]
    new_login: Callable[[str], Awaitable[str]]  # of a person; '': the owner
    stopping: asyncio.Event
    operations: Registry[Operation] = OPERATIONS
    mcp: Mapping[str, ASGIApp] = field(default_factory=dict)  # by path
    drain: Callable[[float], None] | None = None  # end turns for so many seconds, then shut down


class BodyTooLarge(Invalid):
    def __init__(self) -> None:
        super().__init__("body", f"larger than {LARGEST_BODY} bytes")


class ChatBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """POST /v1/chat."""

    text: str
    room: str = ""
    thread: str = ""
    sender: str = msgspec.field(name="as", default="")
    id: str = ""


def make_api(deps: ApiDeps) -> Starlette:
    api = ControlApi(deps)
    return Starlette(
        routes=[
            *(Route(path, app) for path, app in deps.mcp.items()),  # a mount alone sends `/mcp/agents` elsewhere first
            *(Mount(path, app) for path, app in deps.mcp.items()),  # first: they are asked the most
            Route("/v1/health", api.health, methods=["GET"]),
            Route("/v1/status", api.status, methods=["GET"]),
            Route("/v1/ops/{name}", api.operate, methods=["POST"]),
            Route("/openapi.json", api.openapi, methods=["GET"]),
            Route("/v1/shutdown", api.shutdown, methods=["POST"]),
            Route("/v1/login", api.login, methods=["POST"]),
            Route("/v1/chat", api.chat, methods=["POST"]),
            Route("/v1/chat/wait", api.chat_wait, methods=["GET"]),
            Route("/v1/chat/stream", api.chat_stream, methods=["GET"]),
        ],
        exception_handlers={
            GatepostError: render_error,
            HTTPException: render_not_found,
            OverflowError: render_number_too_large,
            Exception: render_internal_error,
        },
    )


class ControlApi:
    def __init__(self, deps: ApiDeps) -> None:
        self._deps = deps
        self._openapi: Response | None = None

    async def health(self, request: Request) -> Response:
        return _json({"ok": True, "status": "ok", "version": __version__})

    async def status(self, request: Request) -> Response:
        return result_response(to_json(await self._deps.status()))  # asks for the walls off the loop

    async def operate(self, request: Request) -> Response:
        run = await find_operation(self._deps.operations, request.path_params["name"])
        return result_response(await run(self._deps.operation_deps, await read_object(request)))

    async def openapi(self, request: Request) -> Response:
        self._openapi = self._openapi or _json(make_openapi(self._deps.operations))
        return self._openapi

    async def shutdown(self, request: Request) -> Response:
        body = await read_object(request)
        if "drain_s" in body and self._deps.drain is not None:
            within = body["drain_s"]
            if not isinstance(within, int | float) or not 0 <= within <= LONGEST_DRAIN_S:
                raise Invalid("drain_s", f"is no number of seconds from 0 to {LONGEST_DRAIN_S}")
            self._deps.drain(float(within))
        else:
            self._deps.shutdown()
        return result_response({"stopping": True})

    async def login(self, request: Request) -> Response:
        return result_response({"url": await self._deps.new_login(request.query_params.get("user", ""))})

    async def chat(self, request: Request) -> Response:
        try:
            body = msgspec.convert(await read_object(request), ChatBody)
        except msgspec.ValidationError as error:
            raise Invalid("chat", str(error)) from None
        written = terminal_chat.TerminalMessage(
            text=body.text, room=body.room, thread=body.thread, sender=body.sender, key=body.id
        )
        inbound = terminal_chat.parse_message(written, self._deps.terminal)
        receipt = await self._deps.terminal.submit(inbound)
        return result_response({**asdict(receipt), "room": inbound.address})

    async def chat_wait(self, request: Request) -> Response:
        message_id = int(_read_number(request, "message"))
        answer = await terminal_chat.wait_for_outcome(
            self._deps.operation_deps.store,
            self._deps.terminal,
            message_id,
            _read_number(request, "timeout", terminal_chat.LONGEST_WAIT_S),
            self._deps.stopping,
        )
        return result_response(asdict(answer))

    async def chat_stream(self, request: Request) -> Response:
        room = terminal_chat.parse_room(request.query_params.get("room", ""), self._deps.terminal)
        store, hub = self._deps.operation_deps.store, self._deps.terminal
        after = int(_read_number(request, "after", -1))
        if after < 0:
            after = await store.read(room_events.get_start_cursor, hub, room)
        drafts = request.query_params.get("drafts") == "1"
        news = room_events.follow_room(store, hub, room, after, self._deps.stopping, drafts=drafts)
        return StreamingResponse(_lines(news), media_type="application/x-ndjson")


async def _lines(stream: AsyncIterator[room_events.RoomUpdate]) -> AsyncIterator[bytes]:
    async for news in stream:
        for seen in news.seen:
            files = [{"name": file.name, "mime": file.mime, "size": file.size} for file in seen.files]
            yield _line({"type": "message", **asdict(seen), "files": files})
        for typing in news.typing:
            yield _line({"type": "typing", **asdict(typing)})
        for draft in news.drafts:
            yield _line({"type": "draft", **asdict(draft)})
        if news.looked:
            yield _line({"type": "cursor", "cursor": news.cursor})


def _line(value: dict[str, Any]) -> bytes:
    return json.dumps(value, ensure_ascii=False).encode() + b"\n"


async def read_object(request: Request) -> dict[str, Any]:
    """The body, which must be a JSON object of a bounded size; an empty one is an empty object."""
    raw = bytearray()
    async for chunk in request.stream():
        raw += chunk
        if len(raw) > LARGEST_BODY:
            raise BodyTooLarge()
    if not raw:
        return {}
    if not has_few_values(bytes(raw)):
        raise Invalid("body", f"it holds more than {MOST_VALUES} values")
    if request.headers.get("content-type", "").partition(";")[0].strip() != "application/json":
        raise Invalid("content-type", "only application/json is understood here")
    try:
        value = json.loads(raw)
    except (ValueError, RecursionError):
        raise Invalid("body", "it is not JSON") from None
    if not isinstance(value, dict):
        raise Invalid("body", "it is not a JSON object")
    if rb"\u" in raw and not _is_text(value):
        raise Invalid("body", "it holds half of a character, which is no text")
    return value


def _is_text(value: dict[str, Any]) -> bool:
    """Half a surrogate can be written in JSON, and nowhere else."""
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return False
    return True


def _read_number(request: Request, name: str, default: float | None = None) -> float:
    given = request.query_params.get(name)
    if given is None and default is not None:
        return default
    try:
        number = float(given or "")
    except ValueError:
        number = math.nan
    if not abs(number) <= LARGEST_NUMBER:  # nor NaN
        raise Invalid(name, f"{given!r} is not a number that means anything here")
    return number


def _json(value: Any, status: int = 200) -> Response:
    body = msgspec.json.encode(value, enc_hook=str)  # nine times as fast as the standard library; everybody waits
    return Response(body, status, media_type="application/json")


def result_response(result: Any) -> Response:
    return _json({"ok": True, "result": result})


def error_response(kind: ApiErrorKind, text: str, status: int) -> Response:
    return _json({"ok": False, "error": {"kind": kind, "text": text}}, status)


async def render_error(request: Request, error: Exception) -> Response:
    if isinstance(error, BodyTooLarge):
        return error_response(ApiErrorKind.TOO_LARGE, str(error), 413)
    kind, status = next((kind, status) for cls, kind, status in KINDS if isinstance(error, cls))
    answer = error_response(kind, str(error), status)
    if isinstance(error, Unavailable):
        answer.headers["retry-after"] = render_retry_after(error)
    return answer


async def render_not_found(request: Request, error: Exception) -> Response:
    status = error.status_code if isinstance(error, HTTPException) else 404
    return error_response(ApiErrorKind.NOT_FOUND, f"the control API has no {request.method} {request.url.path}", status)


async def render_number_too_large(request: Request, error: Exception) -> Response:
    """A number that no row can hold."""
    return await render_error(request, Invalid("body", "a number in it is larger than anything here"))


async def render_internal_error(request: Request, error: Exception) -> Response:
    return error_response(ApiErrorKind.INTERNAL, "something went wrong inside; `gatepost logs` has it", 500)
