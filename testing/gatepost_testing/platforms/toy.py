"""Toy: a small made-up platform, for the example in docs/extend/channel.md and for tests of the suite itself.

Its whole API, as JSON over HTTP with `Authorization: Bearer <token>`:

    GET    /me                        {"id", "name"}
    GET    /events?after=N&wait=S     {"events": [{"n", "type", …}]}: those after N; N and all before are then forgotten
    POST   /rooms/ROOM/messages       {"text", "key", "thread", "reply_to", "files", "buttons"} -> {"id"}
    GET    /rooms/ROOM/messages       ?limit=N&before=MICROSECONDS: {"messages": […]}, oldest first
    POST   /rooms/ROOM/typing
    POST   /people/PERSON/room        {"room"}: the private room with somebody
    PATCH  /messages/ID               {"text", "buttons"}
    DELETE /messages/ID
    PUT    /messages/ID/reactions     {"emoji"}
    PUT    /messages/ID/pin           and DELETE
    POST   /files                     a form with one field `file` -> {"id"}
    GET    /files/ID                  the bytes

A text has at most 500 characters and a file 1 MB. A `key` that is sent again gets the id of its first message.
Errors are {"error": "…"}; 429 has a Retry-After header.
"""

import asyncio
import itertools
import json
import time
from collections.abc import Awaitable, Callable
from typing import Any

from starlette.applications import Starlette
from starlette.datastructures import UploadFile
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from gatepost_testing.platforms.base import (
    Asgi,
    EmulatedPlatform,
    GivenFile,
    GivenMessage,
    NotOffered,
    PlatformFault,
    ShownMessage,
)

TOKEN = "toy-token"
LONGEST_TEXT = 500
LARGEST_FILE = 1_000_000
LONGEST_WAIT_S = 30.0
SENDING = (PlatformFault.RATE_LIMIT, PlatformFault.BUSY, PlatformFault.FORBIDDEN, PlatformFault.NO_ANSWER)


class ToyPlatform(EmulatedPlatform):
    kind = "toy"

    def __init__(self) -> None:
        super().__init__()
        self._ids = itertools.count(1)
        self._events: list[dict[str, Any]] = []
        self._acknowledged = 0
        self._held_back: dict[str, Any] | None = None  # the first of two that are reordered
        self._moments: dict[str, int] = {}  # when each message was written, microseconds
        self._files: dict[str, GivenFile] = {}
        self._buttons: dict[str, list[dict[str, str]]] = {}
        self._typing: list[str] = []
        self._wake = asyncio.Event()
        self._closing = False

    def stop(self) -> None:
        self._closing = True
        self.call_soon(self._wake.set)
        super().stop()

    def get_settings(self) -> dict[str, Any]:
        return {"api_url": self.url}

    def get_secrets(self) -> dict[str, str]:
        return {"token": TOKEN}

    def get_address(self, room: str) -> str:
        return f"toy:room/{_get_room_id(room)}"

    def get_sender(self, person: str) -> str:
        return f"toy:user/{person}"

    # Actions of people.

    def receive(self, given: GivenMessage) -> str:
        with self.changed:
            shown = self._add(
                given.room,
                given.sender,
                given.text,
                thread=given.thread,
                reply_to=given.reply_to,
                files=list(given.files),
            )
            self._deliver({"type": "message", **self._describe(shown), "mentions_you": given.mention})
            return shown.id

    def edit(self, room: str, message: str, text: str, *, sender: str = "ann") -> str:
        with self.changed:
            shown = self.find(message)
            shown.text, shown.edits = text, shown.edits + 1
            self._deliver({"type": "edit", **self._describe(shown), "revision": shown.edits})
            return message

    def delete(self, room: str, message: str, *, sender: str = "ann") -> str:
        with self.changed:
            shown = self.find(message)
            shown.deleted = True
            self._deliver({"type": "delete", **self._describe(shown)})
            return message

    def react(self, room: str, message: str, emoji: str, *, sender: str = "ann") -> str:
        with self.changed:
            shown = self.find(message)
            shown.reactions = [*shown.reactions, (emoji, sender)]
            self._deliver({"type": "reaction", **self._describe(shown), "from": sender, "emoji": emoji})
            return message

    def join(self, room: str, *, sender: str = "ann") -> str:
        with self.changed:
            name = f"j{next(self._ids)}"
            self._deliver({"type": "join", "id": name, **_describe_room(room), "from": sender})
            return name

    def click(self, room: str, message: str, label: str, *, sender: str = "ann") -> str:
        with self.changed:
            button = next((each for each in self._buttons.get(message, ()) if each["label"] == label), None)
            if button is None:
                raise NotOffered(f"no button {label!r} below {message}")
            click = {"type": "click", "id": f"c{next(self._ids)}", "message": message, "button": button["id"]}
            self._deliver({**click, **_describe_room(room), "from": sender})
            return message

    def get_typing(self) -> list[str]:
        with self.changed:
            return list(self._typing)

    def heal(self) -> None:
        super().heal()
        with self.changed:
            if self._held_back is not None:
                self._append(self._held_back)
                self._held_back = None
        self.call_soon(self._wake.set)

    # The record and the events.

    def _add(self, room: str, sender: str, text: str, **more: Any) -> ShownMessage:
        shown = ShownMessage(id=f"m{next(self._ids)}", room=room, sender=sender, text=text, **more)
        self._moments[shown.id] = time.time_ns() // 1000
        for file in shown.files:
            self._files.setdefault(f"f{len(self._files) + 1}", file)
        self.record.append(shown)
        self.changed.notify_all()
        return shown

    def _describe(self, shown: ShownMessage) -> dict[str, Any]:
        names = {id(file): name for name, file in self._files.items()}
        files = [
            {"id": names[id(each)], "name": each.name, "mime": each.mime, "size": len(each.data)}
            for each in shown.files
        ]
        return {
            "id": shown.id,
            **_describe_room(shown.room),
            "from": shown.sender,
            "text": shown.text,
            "thread": shown.thread,
            "reply_to": shown.reply_to,
            "files": files,
            "at": self._moments[shown.id],
        }

    def _deliver(self, event: dict[str, Any]) -> None:
        if self._held_back is not None:
            self._append(event)
            self._append(self._held_back)
            self._held_back = None
        elif self.claim_fault(PlatformFault.REORDER):
            self._held_back = event
        else:
            self._append(event)
            if self.claim_fault(PlatformFault.DUPLICATE):
                self._append(event)
        self.changed.notify_all()
        self.call_soon(self._wake.set)

    def _append(self, event: dict[str, Any]) -> None:
        self._events.append({**event, "n": len(self._events) + 1})

    # Requests of the bot.

    def make_app(self) -> Asgi:
        each = self._answer
        return Starlette(
            routes=[
                Route("/me", each(self._me), methods=["GET"]),
                Route("/events", each(self._poll), methods=["GET"]),
                Route("/rooms/{room}/messages", each(self._send, *SENDING), methods=["POST"]),
                Route("/rooms/{room}/messages", each(self._list), methods=["GET"]),
                Route("/rooms/{room}/typing", each(self._type), methods=["POST"]),
                Route("/people/{person}/room", each(self._open_room), methods=["POST"]),
                Route("/messages/{id}", each(self._change, *SENDING), methods=["PATCH", "DELETE"]),
                Route("/messages/{id}/reactions", each(self._react, *SENDING), methods=["PUT"]),
                Route("/messages/{id}/pin", each(self._pin, *SENDING), methods=["PUT", "DELETE"]),
                Route("/files", each(self._upload), methods=["POST"]),
                Route("/files/{id}", each(self._download), methods=["GET"]),
            ]
        )

    def _answer(
        self, answer: Callable[[Request], Awaitable[Response]], *faults: PlatformFault
    ) -> Callable[[Request], Awaitable[Response]]:
        """The token is checked, and what is to go wrong goes wrong."""

        async def handle(request: Request) -> Response:
            with self.changed:
                self.requests.append((request.method, request.url.path))
            token = request.headers.get("authorization")
            if token != f"Bearer {TOKEN}" or self.is_faulty(PlatformFault.UNAUTHORIZED):
                return _refuse(401, "this token is not valid")
            fault = self.claim_fault(*faults) if faults else None
            if fault is PlatformFault.RATE_LIMIT:
                return _refuse(429, "slow down", {"Retry-After": f"{self.retry_after:g}"})
            if fault is PlatformFault.BUSY:
                return _refuse(503, "busy")
            if fault is PlatformFault.FORBIDDEN:
                return _refuse(403, "the bot may not write here")
            answered = await answer(request)
            if fault is PlatformFault.NO_ANSWER:
                self.abort_connection(request.scope)
            return answered

        return handle

    async def _me(self, request: Request) -> Response:
        return JSONResponse({"id": "bot", "name": "toybot"})

    async def _poll(self, request: Request) -> Response:
        if self.is_faulty(PlatformFault.CONFLICT):
            return _refuse(409, "another program reads the events of this bot")
        after, wait = int(request.query_params["after"]), float(request.query_params.get("wait", "0"))
        if not self.claim_fault(PlatformFault.FORGOTTEN):
            self._acknowledged = max(self._acknowledged, after)
        ends = time.monotonic() + min(wait, LONGEST_WAIT_S)
        while True:
            self._wake.clear()
            held = self.is_faulty(PlatformFault.HELD_POLL)
            with self.changed:
                found = [] if held else [each for each in self._events if each["n"] > self._acknowledged]
            if self._closing or (not held and (found or time.monotonic() >= ends)):
                return JSONResponse({"events": found})
            try:
                async with asyncio.timeout(None if held else ends - time.monotonic()):
                    await self._wake.wait()
            except TimeoutError:
                continue

    async def _send(self, request: Request) -> Response:
        given = await request.json()
        room = _get_room_name(request.path_params["room"])
        if room is None:
            return _refuse(404, "no such room")
        if len(given.get("text", "")) > LONGEST_TEXT:
            return _refuse(400, f"a text has at most {LONGEST_TEXT} characters")
        with self.changed:
            key = given.get("key", "")
            for each in self.record:
                if key and each.key == key and each.sender == "bot":
                    return JSONResponse({"id": each.id})
            buttons = given.get("buttons", [])
            shown = self._add(
                room,
                "bot",
                given.get("text", ""),
                raw=given,
                key=key,
                thread=given.get("thread", ""),
                reply_to=given.get("reply_to", ""),
                files=[self._files[name] for name in given.get("files", [])],
                buttons=[each["label"] for each in buttons],
            )
            self._buttons[shown.id] = buttons
            self._deliver({"type": "message", **self._describe(shown)})  # a bot reads its own words, too
            return JSONResponse({"id": shown.id})

    async def _list(self, request: Request) -> Response:
        room, query = _get_room_name(request.path_params["room"]), request.query_params
        before = int(query.get("before", 1 << 62))
        with self.changed:
            found = [
                self._describe(each)
                for each in self.record
                if each.room == room and not each.deleted and self._moments[each.id] < before
            ]
        return JSONResponse({"messages": found[-int(query.get("limit", 50)) :]})

    async def _type(self, request: Request) -> Response:
        with self.changed:
            self._typing.append(_get_room_name(request.path_params["room"]) or "")
            self.changed.notify_all()
        return JSONResponse({})

    async def _open_room(self, request: Request) -> Response:
        person = request.path_params["person"]
        if not person.isalnum():
            return _refuse(404, "nobody has this name")
        return JSONResponse({"room": f"direct-{person}"})

    async def _change(self, request: Request) -> Response:
        given = await request.json() if request.method == "PATCH" else {}
        with self.changed:
            shown = self._find_own(request)
            if shown is None:
                return _refuse(404, "the bot has no such message")
            if request.method == "DELETE":
                shown.deleted = True
            else:
                shown.text, shown.edits = given["text"], shown.edits + 1
                self._buttons[shown.id] = given.get("buttons", [])
                shown.buttons = [each["label"] for each in self._buttons[shown.id]]
            self.changed.notify_all()
        return JSONResponse({"id": shown.id})

    async def _react(self, request: Request) -> Response:
        emoji = (await request.json())["emoji"]
        with self.changed:
            shown = self.find(request.path_params["id"])
            if (emoji, "bot") not in shown.reactions:
                shown.reactions = [*shown.reactions, (emoji, "bot")]
            self.changed.notify_all()
        return JSONResponse({"id": shown.id})

    async def _pin(self, request: Request) -> Response:
        with self.changed:
            shown = self.find(request.path_params["id"])
            shown.pinned = request.method == "PUT"
            self.changed.notify_all()
        return JSONResponse({"id": shown.id})

    async def _upload(self, request: Request) -> Response:
        async with request.form() as form:
            given = form["file"]
            if not isinstance(given, UploadFile):
                return _refuse(400, "there is no file")
            data = await given.read()
        if len(data) > LARGEST_FILE:
            return _refuse(413, f"a file has at most {LARGEST_FILE} bytes")
        with self.changed:
            name = f"f{len(self._files) + 1}"
            self._files[name] = GivenFile(given.filename or "", data, given.content_type or "")
        return JSONResponse({"id": name})

    async def _download(self, request: Request) -> Response:
        file = self._files.get(request.path_params["id"])
        return Response(file.data, media_type=file.mime) if file else _refuse(404, "no such file")

    def _find_own(self, request: Request) -> ShownMessage | None:
        wanted = request.path_params["id"]
        return next((each for each in self.record if each.id == wanted and each.sender == "bot"), None)


def _get_room_id(room: str) -> str:
    return room.replace(":", "-")


def _get_room_name(room: str) -> str | None:
    """The short name of a room that is there: every group, and the private room of anybody."""
    if not room.replace("-", "").isalnum():
        return None
    return room.replace("direct-", "direct:", 1) if room.startswith("direct-") else room


def _describe_room(room: str) -> dict[str, Any]:
    return {"room": _get_room_id(room), "direct": room.startswith("direct:")}


def _refuse(status: int, error: str, headers: dict[str, str] | None = None) -> Response:
    return Response(json.dumps({"error": error}), status, headers, media_type="application/json")
