"""The web page of an emulated platform, by the interface of `EmulatedPlatform`: people write, the bot's words appear.

It is for one person on this machine: loopback alone, and a write must come from the page itself.
"""

import asyncio
from collections.abc import Awaitable, Callable
from enum import StrEnum
from pathlib import Path
from typing import Any

from msgspec import Struct, ValidationError, json
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import UploadFile
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import FileResponse, JSONResponse, Response
from starlette.routing import Route

from gatepost.core.process.listen_address import parse
from gatepost.serve.http import HttpServer, bind, get_bound_address
from gatepost.serve.web.browser_security import BrowserSecurityMiddleware
from gatepost_testing.platforms.base import (
    LASTING,
    EmulatedPlatform,
    GivenFile,
    NotOffered,
    PlatformFault,
    ShownMessage,
)

STATIC = Path(__file__).parent / "static"
HOST = "127.0.0.1"
PEOPLE = ("ann", "bob")
MOST_SHOWN = 300
LARGEST_UPLOAD = 64 * 1024 * 1024
FILES = {"/": "page.html", "/page.js": "page.js", "/page.css": "page.css"}


class PageVerb(StrEnum):
    SEND = "send"
    EDIT = "edit"
    DELETE = "delete"
    REACT = "react"
    JOIN = "join"
    CLICK = "click"
    FAULT = "fault"
    HEAL = "heal"


class PageAction(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An act of somebody on the page."""

    verb: PageVerb
    room: str = "team"
    sender: str = "ann"
    message: str = ""
    text: str = ""
    thread: str = ""
    reply_to: str = ""
    mention: bool = False


class EmulationPage:
    """`lines`: how the channel is added, as the page shows it."""

    def __init__(self, platform: EmulatedPlatform, lines: list[str]) -> None:
        self._platform, self._lines = platform, lines

    def make_app(self) -> Starlette:
        routes = [
            *(Route(path, _serve(name), methods=["GET"]) for path, name in FILES.items()),
            Route("/state", self._state, methods=["GET"]),
            Route("/act", self._act, methods=["POST"]),
            Route("/upload", self._upload, methods=["POST"]),
            Route("/files/{message:path}/{number:int}", self._download, methods=["GET"]),
        ]
        return Starlette(routes=routes, middleware=[Middleware(BrowserSecurityMiddleware, listens=HOST, further=())])

    async def _state(self, request: Request) -> Response:
        return JSONResponse(await run_in_threadpool(self._describe))

    def _describe(self) -> dict[str, Any]:
        platform = self._platform
        with platform.changed:
            shown = [each for each in platform.record if not each.deleted][-MOST_SHOWN:]
            rooms = dict.fromkeys([*(["team"] if platform.has_groups else []), *(f"direct:{name}" for name in PEOPLE)])
            rooms |= dict.fromkeys(each.room for each in platform.record)
            try:
                typing = platform.get_typing()
            except NotOffered:
                typing = []
            return {
                "kind": platform.kind,
                "lines": self._lines,
                "cannot": sorted(platform.cannot),
                "rooms": list(rooms),
                "people": list(PEOPLE),
                "messages": [_describe_message(each) for each in shown],
                "typing": len(typing),
                "typing_room": typing[-1] if typing else "",
                "requests": len(platform.requests),
                "faults": [
                    {"name": fault, "lasting": fault in LASTING, "on": fault in LASTING and platform.is_faulty(fault)}
                    for fault in PlatformFault
                ],
            }

    async def _act(self, request: Request) -> Response:
        try:
            action = json.decode(await request.body(), type=PageAction)
        except ValidationError as error:
            return _refuse(400, str(error))
        return await self._try(lambda: self._run(action))

    async def _upload(self, request: Request) -> Response:
        async with request.form(max_files=1, max_part_size=LARGEST_UPLOAD) as form:
            given, room, sender = form.get("file"), str(form.get("room", "team")), str(form.get("sender", "ann"))
            if not isinstance(given, UploadFile):
                return _refuse(400, "there is no file")
            data = await given.read(LARGEST_UPLOAD + 1)
            if len(data) > LARGEST_UPLOAD:
                return _refuse(413, "the file is too large for this page")
            file = GivenFile(given.filename or "file", data, given.content_type or "application/octet-stream")
            text = str(form.get("text", ""))
        return await self._try(lambda: self._platform.send(text, room=room, sender=sender, files=(file,)))

    async def _try(self, act: Callable[[], str]) -> Response:
        """In a thread: an emulator may wait for its own loop."""
        try:
            return JSONResponse({"id": await run_in_threadpool(act)})
        except NotOffered as error:
            return _refuse(409, str(error) or f"people cannot do this on {self._platform.kind}")
        except (StopIteration, LookupError, RuntimeError, ValueError) as error:
            return _refuse(409, f"the emulator does not know this ({type(error).__name__})")

    def _run(self, action: PageAction) -> str:
        platform, room, sender, message = self._platform, action.room, action.sender, action.message
        match action.verb:
            case PageVerb.SEND:
                return platform.send(
                    action.text,
                    room=room,
                    sender=sender,
                    thread=action.thread,
                    reply_to=action.reply_to,
                    mention=action.mention,
                )
            case PageVerb.EDIT:
                return platform.edit(room, message, action.text, sender=sender)
            case PageVerb.DELETE:
                return platform.delete(room, message, sender=sender)
            case PageVerb.REACT:
                return platform.react(room, message, action.text, sender=sender)
            case PageVerb.JOIN:
                return platform.join(room, sender=sender)
            case PageVerb.CLICK:
                return platform.click(room, message, action.text, sender=sender)
            case PageVerb.FAULT:
                platform.fault(PlatformFault(action.text))
            case PageVerb.HEAL:
                platform.heal()
        return ""

    async def _download(self, request: Request) -> Response:
        """As a download, whatever it says that it is."""
        with self._platform.changed:
            wanted = request.path_params["message"]
            files = next((each.files for each in self._platform.record if each.id == wanted), [])
        number = request.path_params["number"]
        if number >= len(files):
            return _refuse(404, "there is no such file")
        headers = {"content-disposition": "attachment"}
        return Response(files[number].data, headers=headers, media_type="application/octet-stream")


def _describe_message(shown: ShownMessage) -> dict[str, Any]:
    return {
        "id": shown.id,
        "room": shown.room,
        "sender": shown.sender,
        "text": shown.text,
        "thread": shown.thread,
        "reply_to": shown.reply_to,
        "files": [{"name": each.name, "size": len(each.data)} for each in shown.files],
        "buttons": shown.buttons,
        "reactions": [list(each) for each in shown.reactions],
        "edits": shown.edits,
        "pinned": shown.pinned,
        "voice": shown.voice,
    }


def _serve(name: str) -> Callable[[Request], Awaitable[Response]]:
    async def answer(request: Request) -> Response:
        return FileResponse(STATIC / name)

    return answer


def _refuse(status: int, error: str) -> Response:
    return JSONResponse({"error": error}, status)


async def serve_page(page: EmulationPage, port: int, ready: Callable[[str], None]) -> None:
    """Until cancelled; `ready` gets the address of the page."""
    listen = parse(f"{HOST}:{port}")
    sock = bind(listen)
    server = HttpServer(page.make_app(), sock)
    running = asyncio.create_task(server.run())
    try:
        ready(get_bound_address(listen, sock).url)
        await asyncio.shield(running)
    finally:
        server.stop()
        await asyncio.wait([running])
