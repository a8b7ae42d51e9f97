"""An emulated BlueBubbles server: queries of messages by their rows, sends, attachments and who the server is.

It keeps to the REST API for what our channel uses. It does not have: webhooks, the socket, the Private API, sending
files, edits, groups that change, contacts, or conditions of a query other than those on rows.
"""

import re
import time
from collections.abc import Sequence
from typing import Any, ClassVar

from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, PlainTextResponse, Response

from gatepost_testing.platform_rules.imessage import BY_NAME
from gatepost_testing.platforms.base import Asgi, GivenFile, GivenMessage, NotOffered, PlatformFault, ShownMessage
from gatepost_testing.platforms.rest import RestPlatform, make_id

TAPBACKS = {"❤️": "love", "👍": "like", "👎": "dislike", "😂": "laugh", "‼️": "emphasize", "❓": "question"}
UNREACHED = "nobody@example.org"  # to whom Messages delivers nothing
NOT_REGISTERED = 22  # the code of Messages for it
GENERAL = {  # the words above those of an error
    "Authentication Error": "You are not authorized to access this resource",
    "Server Error": "The server has encountered an error",
    "Validation Error": "You've made a bad request! Please check your request params & body",
    "Database Error": "The requested resource was not found",
    "iMessage Error": "Message sent with an error. See attached message",
}
OF_A_STATUS = {401: "password", 403: "right to send", 503: "a server that is busy"}  # of faults of any request


class BlueBubblesPlatform(RestPlatform):
    kind = "imessage"
    cannot: ClassVar[frozenset[str]] = frozenset({"edit", "delete", "join", "click"})
    faults = RestPlatform.faults | {PlatformFault.HELD_POLL}
    token = "the-servers-password"

    def __init__(self) -> None:
        super().__init__()
        self._rows: list[dict[str, Any]] = []
        self._files: dict[str, GivenFile] = {}
        self._next_row = 101
        self.queued: set[str] = set()  # names of sends that are under way

    def get_settings(self) -> dict[str, Any]:
        return {"api_url": self.url, "poll_s": 0.02}

    def get_secrets(self) -> dict[str, str]:
        return {"password": self.token}

    def get_address(self, room: str) -> str:
        return f"imessage:{self._get_chat(room)}"

    def get_sender(self, person: str) -> str:
        return f"imessage:user/{person}@example.org"

    def _get_chat(self, room: str) -> str:
        person = room.removeprefix("direct:")
        return f"iMessage;-;{person}@example.org" if person != room else f"iMessage;+;chat-{room}"

    def _find_room(self, chat: str) -> str:
        end = chat.rpartition(";")[2]
        return f"direct:{end.partition('@')[0]}" if ";-;" in chat else end.removeprefix("chat-")

    # Actions of people.

    def receive(self, given: GivenMessage) -> str:
        if given.thread:
            raise NotOffered
        content = {"text": given.text, "threadOriginatorGuid": given.reply_to or None}
        return str(self._add(given.room, given.sender, content, given.files)["guid"])

    def react(self, room: str, message: str, emoji: str, *, sender: str = "ann") -> str:
        with self.changed:
            self.find(message).reactions.append((emoji, sender))
            kind = TAPBACKS.get(emoji, "like")
            self._add(room, sender, {"associatedMessageGuid": f"p:0/{message}", "associatedMessageType": kind})
        return message

    def _add(self, room: str, sender: str, given: dict[str, Any], files: Sequence[GivenFile] = ()) -> dict[str, Any]:
        with self.changed:
            made: dict[str, Any] = {
                "originalROWID": self._next_row,
                "guid": make_id(length=32).upper(),
                "text": "",
                "handle": None if sender == "bot" else {"address": f"{sender}@example.org"},
                "isFromMe": sender == "bot",
                "itemType": 0,
                "dateCreated": int(time.time() * 1000),
                "associatedMessageGuid": None,
                "associatedMessageType": None,
                "threadOriginatorGuid": None,
                "chats": [{"guid": self._get_chat(room), "displayName": "" if ":" in room else room}],
                "attachments": [self._add_file(each) for each in files],
                **given,
            }
            self._next_row += 1
            if not made["associatedMessageType"]:
                self._show(room, sender, made, files)
            self.deliver(made)
            return made

    def _show(self, room: str, sender: str, made: dict[str, Any], files: Sequence[GivenFile]) -> None:
        reply = made["threadOriginatorGuid"] or ""
        shown = ShownMessage(
            id=made["guid"], room=room, sender=sender, text=made["text"], raw=made, reply_to=reply, files=list(files)
        )
        self.record.append(shown)

    def _add_file(self, file: GivenFile) -> dict[str, Any]:
        guid = make_id(length=32).upper()
        self._files[guid] = file
        return {"guid": guid, "transferName": file.name, "mimeType": file.mime, "totalBytes": len(file.data)}

    def push(self, event: Any) -> None:
        self._rows.append(event)

    # Requests of the bot.

    def make_app(self) -> Asgi:
        return Starlette(
            routes=[
                self.route("GET", "/api/v1/server/info", self._get_info),
                self.route("POST", "/api/v1/message/query", self._query),
                self.route("POST", "/api/v1/message/text", self._send_text, sends=True),
                self.route("GET", "/api/v1/attachment/{guid}/download", self._get_file),
            ]
        )

    def is_authorized(self, request: Request) -> bool:
        return request.query_params.get("password") == self.token

    def render_error(self, status: int, words: str, headers: dict[str, str] | None = None) -> Response:
        if status == 429:
            return PlainTextResponse(BY_NAME["pace"].refusal, BY_NAME["pace"].status, headers)
        return self.refuse(OF_A_STATUS[status])

    def refuse(self, name: str, data: Any = None, **values: str) -> Response:
        """Return the refusal of a rule. `values` stand in place of those of its own call."""
        rule, refusal = BY_NAME[name], BY_NAME[name].refusal
        for old, new in values.items():
            refusal = refusal.replace(old, new)
        kind, _, words = refusal.partition(": ")
        body = {"status": rule.status, "message": GENERAL[kind], "error": {"type": kind, "message": words}}
        return JSONResponse(body | ({"data": data} if data else {}), rule.status)

    def _render(self, data: Any, **more: Any) -> Response:
        return JSONResponse({"status": 200, "message": "Success", "data": data, **more})

    async def _get_info(self, request: Request) -> Response:
        return self._render({"server_version": "1.9.9", "detected_imessage": "bot@example.org", "private_api": False})

    async def _query(self, request: Request) -> Response:
        try:
            given = await request.json()
        except ClientDisconnect:
            return Response()  # which nobody reads
        limit, offset = int(given.get("limit", 100)), int(given.get("offset", 0))
        if limit < 1 or limit > BY_NAME["size of a page"].limit:
            return self.refuse("least size of a page" if limit < 1 else "size of a page")
        if offset < 0:
            return self.refuse("place of a page")
        if given.get("sort", "DESC") not in ("ASC", "DESC"):
            return self.refuse("order of a page")
        least, most = -1, 1 << 60
        for each in given.get("where", ()):
            found = re.match(r"message\.ROWID (>|<=) :(\w+)\Z", each["statement"])
            assert found is not None, f"not emulated: {each['statement']}"
            value = int(each["args"][found[2]])
            least, most = (value, most) if found[1] == ">" else (least, value)
        if self.is_faulty(PlatformFault.HELD_POLL):
            await self.wait_until(lambda: not self.is_faulty(PlatformFault.HELD_POLL), 3600)
        with self.changed:
            rows = [each for each in self._rows if least < each["originalROWID"] <= most]
        rows.sort(key=lambda each: each["dateCreated"], reverse=given.get("sort", "DESC") == "DESC")
        data = rows[offset : offset + limit]
        return self._render(data, metadata={"offset": offset, "limit": limit, "total": len(rows), "count": len(data)})

    async def _send_text(self, request: Request) -> Response:
        given = await request.json()
        if wrong := self._check_text(given):
            return self.refuse(wrong, **{"$queued": str(given.get("tempGuid"))})
        if str(given["chatGuid"]).endswith(f";{UNREACHED}"):
            failed = {"guid": make_id(length=32).upper(), "error": NOT_REGISTERED}
            return self.refuse("message that Messages cannot deliver", failed)
        room = self._find_room(str(given.get("chatGuid", "")))
        made = self._add(room, "bot", {"text": str(given["message"])})
        return self._render({**made, "tempGuid": given["tempGuid"]})

    def _check_text(self, given: dict[str, Any]) -> str:
        """Return the name of the rule that a message breaks, or ''."""
        if not given.get("chatGuid"):
            return "chat of a message"
        if given.get("method", "apple-script") not in ("apple-script", "private-api"):
            return "way of a send"
        if not given.get("tempGuid"):
            return "name of a send"
        if not given.get("message"):
            return "empty text"
        return "a send that is under way" if given["tempGuid"] in self.queued else ""

    async def _get_file(self, request: Request) -> Response:
        with self.changed:
            file = self._files.get(request.path_params["guid"])
        return Response(file.data, media_type=file.mime) if file else self.refuse("known file")
