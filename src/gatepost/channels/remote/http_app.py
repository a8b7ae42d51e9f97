"""The protocol over HTTP, below `/channels/<instance>`: who asks is proved first, then everything is bounded.

A program can do these things and no others: post events and files, take effects and report their outcome.
"""

import asyncio
import json
import math
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import TYPE_CHECKING, Any

from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import FileResponse, JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from gatepost.channels.contract import ADMIT
from gatepost.channels.remote import wire
from gatepost.channels.remote.active_program import ProgramReplaced
from gatepost.channels.remote.exchange import RemoteEffect
from gatepost.channels.remote.uploads import FileTooLarge
from gatepost.channels.remote.wire import PostedBatch, PostedOutcome
from gatepost.core.errors import GatepostError, Invalid, NotFound, Refused, Unavailable

if TYPE_CHECKING:
    from gatepost.channels.remote.adapter import RemoteProgram

PROGRAM = "x-gatepost-program"
LARGEST_BODY = 1024 * 1024
BODY_S, FILE_S = 10.0, 120.0
LONGEST_WAIT_S = 30.0
KEEPALIVE_S = 15.0
RECEIVE_S = 30.0
RETRY_AFTER_S = 2.0
LONGEST_TOKEN = 200
_PROGRAM = re.compile(r"[A-Za-z0-9_.-]{1,64}\Z")
STATUS: tuple[tuple[type[GatepostError], int, str], ...] = (  # the first that fits
    (ProgramReplaced, 409, "replaced"),
    (FileTooLarge, 413, "too_large"),
    (Invalid, 400, "invalid"),
    (Refused, 401, "token"),
    (NotFound, 404, "not_found"),
    (Unavailable, 503, "unavailable"),
)

Handler = Callable[["RemoteProgram", Request, str], Awaitable[Response]]


def make_app(channel: "RemoteProgram") -> Starlette:
    """`channel` is called back; the routes are all that there is."""

    def route(path: str, method: str, handler: Handler, *, late: bool = False) -> Route:
        async def answer(request: Request) -> Response:
            try:
                return await handler(channel, request, await _enter(channel, request, late))
            except GatepostError as error:
                return _render_error(error)
            except TimeoutError:
                return _render_error(Unavailable("the gateway", "this took too long", retry_after=RETRY_AFTER_S))
            except ClientDisconnect:
                return Response(status_code=400)

        return Route(path, answer, methods=[method])

    return Starlette(
        routes=[
            route("/", "GET", _show),
            route("/beat", "POST", _beat),
            route("/events", "POST", _post_events),
            route("/effects", "GET", _get_effects),
            route("/effects/{id}", "POST", _post_outcome, late=True),
            route("/files", "POST", _post_file),
            route("/files/{id}", "GET", _get_file),
        ]
    )


async def _enter(channel: "RemoteProgram", request: Request, late: bool) -> str:
    """The program's name. `late`: one that was replaced may still say what became of what it took."""
    scheme, _, token = request.headers.get("authorization", "").partition(" ")
    shown = token.strip()
    if scheme.lower() != "bearer" or not 0 < len(shown) <= LONGEST_TOKEN or not await channel.check_token(shown):
        raise Refused("the program", "call", why="the token is wrong; `gatepost channel token` makes a new one")
    request.scope[ADMIT]()
    program = request.headers.get(PROGRAM, "")
    if not _PROGRAM.match(program):
        raise Invalid(PROGRAM, "a name that each start of the program makes anew: letters, digits, . _ -, at most 64")
    if not (late and channel.exchange.has_claimed(request.path_params.get("id", ""), program)):
        channel.enter(program)
    return program


async def _show(channel: "RemoteProgram", request: Request, program: str) -> Response:
    return JSONResponse(
        {
            "platform": channel.platform,
            "features": sorted(channel.features),
            "largest_file": channel.largest_file,
            "largest_body": LARGEST_BODY,
            "most_events": wire.MOST_EVENTS,
            "longest_wait": LONGEST_WAIT_S,
        }
    )


async def _beat(channel: "RemoteProgram", request: Request, program: str) -> Response:
    return Response(status_code=204)


async def _post_events(channel: "RemoteProgram", request: Request, program: str) -> Response:
    body = await _read_body(request)
    events = wire.read_events(body, channel.platform, channel.uploads.find)
    receipts = []
    async with asyncio.timeout(RECEIVE_S):
        for event in events:
            receipt = await channel.receive_event(event)
            receipts.append(wire.render_receipt(event, receipt.new, receipt.state, receipt.reason))
    batch = wire.parse_body(body, PostedBatch)
    channel.uploads.release([file.file for event in batch.events for file in event.attachments])
    return JSONResponse({"receipts": receipts})


async def _get_effects(channel: "RemoteProgram", request: Request, program: str) -> Response:
    if "text/event-stream" in request.headers.get("accept", ""):
        return StreamingResponse(_stream_effects(channel, request, program), media_type="text/event-stream")
    wait_s = _parse_wait(request.query_params.get("wait", "0"))
    poll = channel.begin_poll()
    gone = asyncio.create_task(_wait_until_gone(request))
    polling = asyncio.create_task(channel.poll(program, poll, wait_s))
    try:
        # A program that hung up takes nothing: the effects stay for the next poll.
        await asyncio.wait({gone, polling}, return_when=asyncio.FIRST_COMPLETED)
        if not polling.done():
            raise ClientDisconnect
        found = polling.result()
    finally:
        gone.cancel()
        polling.cancel()
    return JSONResponse({"effects": [each.render() for each in found]})


async def _wait_until_gone(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


async def _stream_effects(channel: "RemoteProgram", request: Request, program: str) -> AsyncIterator[str]:
    """Until the program goes, another one comes, a newer poll begins or the token is taken back."""
    token = request.headers["authorization"].partition(" ")[2].strip()
    poll = channel.begin_poll()
    yield ": here\n\n"
    while channel.active_program.is_newest(poll):
        try:
            found = await channel.poll(program, poll, KEEPALIVE_S)
        except ProgramReplaced as error:
            yield f"event: replaced\ndata: {json.dumps({'error': str(error), 'code': 'replaced'})}\n\n"
            return
        if not found and not await channel.check_token(token):
            return
        yield "".join(_render_event(each) for each in found) or ": still here\n\n"


def _render_event(effect: RemoteEffect) -> str:
    return f"event: effect\ndata: {json.dumps(effect.render())}\n\n"


def _parse_wait(text: str) -> float:
    try:
        wait = float(text)
    except ValueError:
        wait = math.nan
    if not 0 <= wait <= LONGEST_WAIT_S:
        raise Invalid("wait", f"0 to {LONGEST_WAIT_S:g} seconds")
    return wait


async def _post_outcome(channel: "RemoteProgram", request: Request, program: str) -> Response:
    outcome = wire.parse_body(await _read_body(request), PostedOutcome)
    if not channel.exchange.settle(request.path_params["id"], outcome):
        why = "nobody waits for it any more: it was answered, it was too late, or the gateway was started anew"
        raise NotFound("effect", request.path_params["id"][:80], why)
    return Response(status_code=204)


async def _post_file(channel: "RemoteProgram", request: Request, program: str) -> Response:
    name = request.query_params.get("name", "")[: wire.LONGEST_NAME] or "file"
    mime = request.headers.get("content-type", "")[: wire.LONGEST_NAME] or "application/octet-stream"
    async with asyncio.timeout(FILE_S):
        identity, size = await channel.uploads.add(name, mime, request.stream())
    return JSONResponse({"file": identity, "size": size}, 201)


async def _get_file(channel: "RemoteProgram", request: Request, program: str) -> Response:
    effect, _, number = request.path_params["id"].rpartition("-")
    taken = channel.exchange.find_claimed(effect)
    files = taken.message.files if taken is not None and taken.message is not None else ()
    if not number.isascii() or not number.isdecimal() or int(number[:3]) >= len(files):
        raise NotFound("file", request.path_params["id"][:80], "it can be read until its effect is answered")
    file = files[int(number[:3])]
    return FileResponse(file.path, media_type="application/octet-stream")


async def _read_body(request: Request) -> bytes:
    parts = bytearray()
    async with asyncio.timeout(BODY_S):
        async for chunk in request.stream():
            parts += chunk
            if len(parts) > LARGEST_BODY:
                raise FileTooLarge("body", f"it has more than {LARGEST_BODY} bytes")
    return bytes(parts)


def _render_error(error: GatepostError) -> Response:
    status, code = next(((status, code) for kind, status, code in STATUS if isinstance(error, kind)), (500, "error"))
    headers: dict[str, Any] = {}
    if isinstance(error, Unavailable):
        after = RETRY_AFTER_S if error.retry_after is None else error.retry_after
        headers["retry-after"] = str(max(1, math.ceil(after)))
    return JSONResponse({"error": str(error), "code": code}, status, headers=headers)
