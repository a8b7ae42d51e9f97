"""An emulated BlueBubbles server: chats, a database that is asked by its rows, attachments, tapbacks, a webhook.

It keeps to the REST API for what our channel uses. It does not have: the private API (edits, replies, tapbacks of the
bot), uploads, contacts, delivery reports, sockets, changes of groups, and any condition but one on the row.
"""

import itertools
import json
import time
from collections.abc import Sequence
from typing import Any, ClassVar

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from gatepost.testing.platforms.base import Asgi, GivenFile, NotOffered, PlatformFault, ShownMessage
from gatepost.testing.platforms.hooked import Event, HookedPlatform
from gatepost.testing.platforms.rest import RestPlatform, make_id

PASSWORD, SECRET = "the-macs-password", "wake-up"
TAPBACKS = {"👍": "like", "👎": "dislike", "❤️": "love", "😂": "laugh"}
STATEMENT = "message.ROWID > :row"


class BlueBubblesPlatform(HookedPlatform, RestPlatform):
    kind = "imessage"
    cannot: ClassVar[frozenset[str]] = frozenset({"edit", "delete", "join", "click"})
    redelivers = False
    hook_query = f"?token={SECRET}"
    faults = RestPlatform.faults - {PlatformFault.DUPLICATE}

    def __init__(self) -> None:
        super().__init__()
        self._rows = itertools.count(101)
        self._messages: list[dict[str, Any]] = []
        self._chats: dict[str, str] = {}  # id -> room
        self._files: dict[str, GivenFile] = {}

    def get_settings(self) -> dict[str, Any]:
        return {"api_url": self.url, "poll_s": 0.2}

    def get_secrets(self) -> dict[str, str]:
        return {"password": PASSWORD, "webhook_secret": SECRET}

    def get_chat(self, room: str) -> str:
        direct = room.startswith("direct:")
        person = room.partition(":")[2]
        chat = f"iMessage;-;{self.get_number(person)}" if direct else f"iMessage;+;chat{make_id(room, length=12)}"
        with self.changed:
            self._chats[chat] = room
        return chat

    def get_number(self, person: str) -> str:
        return f"+1555{int(make_id(person, length=6), 16):08d}"

    def get_address(self, room: str) -> str:
        return f"imessage:chat/{self.get_chat(room)}"

    def get_sender(self, person: str) -> str:
        return f"imessage:user/{self.get_number(person)}"

    def is_authorized(self, request: Request) -> bool:
        return request.query_params.get("password") == PASSWORD

    # What people do.

    def send(
        self,
        text: str,
        *,
        room: str = "team",
        sender: str = "ann",
        thread: str = "",
        reply_to: str = "",
        files: Sequence[GivenFile] = (),
        mention: bool = False,
    ) -> str:
        listed = []
        for file in files:
            number = make_id(length=20)
            self._files[number] = file
            listed.append({"guid": number, "mimeType": file.mime, "transferName": file.name, "hideAttachment": False})
        return self._add(room, sender, text, {"threadOriginatorGuid": reply_to or None, "attachments": listed})

    def react(self, room: str, message: str, emoji: str, *, sender: str = "ann") -> str:
        if emoji not in TAPBACKS:
            raise NotOffered
        with self.changed:
            shown = self.find(message)
            shown.reactions = [*shown.reactions, (emoji, sender)]
            about = {"associatedMessageGuid": f"p:0/{message}", "associatedMessageType": TAPBACKS[emoji]}
            self._add(room, sender, "Liked a message", about, shown=False)
        return message

    def _add(self, room: str, sender: str, text: str, more: dict[str, Any], *, shown: bool = True) -> str:
        number, chat = make_id(length=32).upper(), self.get_chat(room)
        message = {
            "originalROWID": next(self._rows),
            "guid": number,
            "text": text,
            "handle": None if sender == "bot" else {"address": self.get_number(sender), "service": "iMessage"},
            "isFromMe": sender == "bot",
            "dateCreated": int(time.time() * 1000),
            "itemType": 0,
            "error": 0,
            "chats": [{"guid": chat, "displayName": "" if room.startswith("direct:") else room}],
            "attachments": [],
            **more,
        }
        with self.changed:
            self._messages.append(message)
            if shown:
                reply = more.get("threadOriginatorGuid") or ""
                self.record.append(ShownMessage(id=number, room=room, sender=sender, text=text, reply_to=reply))
            self.emit({"type": "new-message", "data": message})
        return number

    def render_delivery(self, event: Event) -> tuple[dict[str, str], bytes]:
        return {"content-type": "application/json"}, json.dumps(event).encode()

    # The API.

    def make_app(self) -> Asgi:
        routes = [
            self.route("GET", "/api/v1/server/info", self._get_info),
            self.route("POST", "/api/v1/message/query", self._query),
            self.route("POST", "/api/v1/message/text", self._create, sends=True),
            self.route("GET", "/api/v1/attachment/{number}/download", self._download),
        ]
        return Starlette(routes=routes)

    def render_error(self, status: int, words: str, headers: dict[str, str] | None = None) -> Response:
        told = {"status": status, "message": words, "error": {"type": "Error", "message": words}}
        return JSONResponse(told, status, headers)

    async def _get_info(self, request: Request) -> Response:
        facts = {"os_version": "15.1", "server_version": "1.9.9", "detected_imessage": "bot@icloud.test"}
        return JSONResponse({"status": 200, "message": "Success", "data": facts})

    async def _query(self, request: Request) -> Response:
        asked = await request.json()
        row = 0
        for each in asked.get("where", ()):
            if each["statement"] != STATEMENT:
                return self.render_error(400, "this emulator knows one condition")
            row = each["args"]["row"]
        with self.changed:
            found = [each for each in self._messages if each["originalROWID"] > row]
        found.sort(key=lambda each: each["dateCreated"], reverse=asked.get("sort") != "ASC")
        offset = asked.get("offset", 0)
        return JSONResponse({"status": 200, "data": found[offset : offset + asked.get("limit", 100)]})

    async def _create(self, request: Request) -> Response:
        asked = await request.json()
        with self.changed:
            room = self._chats.get(asked["chatGuid"])
        if not asked.get("tempGuid") or not asked.get("message"):
            return self.render_error(400, "A 'tempGuid' and a 'message' are required")
        if room is None:
            return self.render_error(500, "Message Send Error")
        number = self._add(room, "bot", asked["message"], {})
        self.find(number).key = asked["tempGuid"]
        return JSONResponse({"status": 200, "message": "Message sent!", "data": {"guid": number, "error": 0}})

    async def _download(self, request: Request) -> Response:
        file = self._files.get(request.path_params["number"])
        return Response(file.data, media_type=file.mime) if file else self.render_error(404, "no such attachment")
