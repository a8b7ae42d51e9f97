"""The daemon of signal-cli (`daemon --http`), emulated: JSON-RPC calls and the stream of events of one account.

Covered: `send` with styles, quotes, edits and files as data URIs, `sendReaction`, `remoteDelete`, `sendTyping`,
`getAttachment`, `getUserStatus`, `listDevices`, `version`. Events have ids and are replayed after `Last-Event-ID`, as
in newer daemons; there are signs of life. Not covered: registration, linking, group management, receipts, stories,
polls, stickers, payments, several accounts.
"""

import asyncio
import base64
import itertools
import json
import re
import time
import uuid
from collections.abc import AsyncIterator
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from gatepost_testing.platform_rules.signal import BY_NAME, UNKNOWN_GROUP, UNKNOWN_PERSON
from gatepost_testing.platforms.base import Asgi, EmulatedPlatform, GivenFile, GivenMessage, PlatformFault, ShownMessage

ACCOUNT, OWN_ID = "+4915112345678", str(uuid.UUID(int=7))
ALIVE_S = 0.1  # the daemon sends a sign of life every 15 seconds
LOOK_S = 0.005
FAULTS = (PlatformFault.RATE_LIMIT, PlatformFault.FORBIDDEN, PlatformFault.NO_ANSWER, PlatformFault.BUSY)
STYLE = re.compile(r"\d+:\d+:.+")
STYLES = ("BOLD", "ITALIC", "SPOILER", "STRIKETHROUGH", "MONOSPACE")


class RpcError(Exception):
    def __init__(self, code: int, text: str, data: Any = None) -> None:
        super().__init__(text)
        self.code, self.text, self.data = code, text, data


def refuse(name: str, data: Any = None, **values: str) -> RpcError:
    """Return the refusal of a rule. `values` stand in place of those of its own call."""
    code, _, words = BY_NAME[name].refusal.partition(": ")
    for old, new in values.items():
        words = words.replace(old, new)
    return RpcError(int(code), words, data)


class SignalPlatform(EmulatedPlatform):
    kind = "signal"
    cannot = frozenset({"join", "click"})
    retry_after = 1.0  # whole seconds

    def __init__(self) -> None:
        super().__init__()
        self._stamps = itertools.count(int(time.time() * 1000))
        self._run = int(time.time() * 1000)
        self._events: list[dict[str, Any]] = []  # each envelope, in the order in which it is delivered
        self._held: dict[str, Any] | None = None
        self._files: dict[str, GivenFile] = {}
        self._typing: list[str] = []
        self.receipts: list[str] = []  # messages that people see as read, as `<timestamp>.<author>`
        self._names: dict[str, str] = {}  # of rooms and people, by what the daemon calls them
        self.streams = 0  # that were opened

    # How a channel is pointed at it.

    def get_settings(self) -> dict[str, Any]:
        return {"url": self.url, "account": ACCOUNT, "check_s": 0.2}

    def get_secrets(self) -> dict[str, str]:
        return {}

    def get_id(self, person: str) -> str:
        if person == "bot":
            return OWN_ID
        found = str(uuid.uuid5(uuid.NAMESPACE_DNS, person))
        self._names[found] = person
        return found

    def get_group(self, room: str) -> str:
        group = base64.b64encode(uuid.uuid5(uuid.NAMESPACE_URL, room).bytes * 2).decode()
        self._names[group] = room
        return group

    def get_address(self, room: str) -> str:
        if room.startswith("direct:"):
            return self.get_sender(room.removeprefix("direct:"))
        return "signal:group/" + self.get_group(room).replace("+", "-").replace("/", "_").rstrip("=")

    def get_sender(self, person: str) -> str:
        return f"signal:user/{self.get_id(person)}"

    # Actions of people.

    def receive(self, given: GivenMessage) -> str:
        data: dict[str, Any] = {"message": given.text}
        if given.mention:
            data["message"] = f"\ufffc {given.text}"
            data["mentions"] = [{"name": "Gate", "number": ACCOUNT, "uuid": OWN_ID, "start": 0, "length": 1}]
        if given.reply_to:
            stamp, _, author = given.reply_to.partition(".")
            data["quote"] = {
                "id": int(stamp),
                "authorUuid": OWN_ID if author == ACCOUNT else author,
                "text": self.find(given.reply_to).text,
            }
        if given.files:
            data["attachments"] = [self._keep(file) for file in given.files]
        stamp = self._add(data, given.room, given.sender)
        with self.changed:
            shown = ShownMessage(
                id=stamp,
                room=given.room,
                sender=given.sender,
                text=given.text,
                reply_to=given.reply_to,
                files=list(given.files),
            )
            self.record.append(shown)
        return stamp

    def edit(self, room: str, message: str, text: str, *, sender: str = "ann") -> str:
        target = int(message.partition(".")[0])
        with self.changed:
            shown = self.find(message)
            shown.text, shown.edits = text, shown.edits + 1
        self._add({"message": text}, room, sender, edits=target)
        return message

    def delete(self, room: str, message: str, *, sender: str = "ann") -> str:
        with self.changed:
            self.find(message).deleted = True
        self._add({"message": None, "remoteDelete": {"timestamp": int(message.partition(".")[0])}}, room, sender)
        return message

    def react(self, room: str, message: str, emoji: str, *, sender: str = "ann") -> str:
        stamp, _, author = message.partition(".")
        with self.changed:
            self.find(message).reactions.append((emoji, sender))
        reaction = {
            "emoji": emoji,
            "targetAuthorUuid": OWN_ID if author == ACCOUNT else author,
            "targetAuthorNumber": None,
            "targetSentTimestamp": int(stamp),
            "isRemove": False,
        }
        self._add({"message": None, "reaction": reaction}, room, sender)
        return message

    def get_typing(self) -> list[str]:
        with self.changed:
            return list(self._typing)

    def _keep(self, file: GivenFile) -> dict[str, Any]:
        name = f"{uuid.uuid4().hex}.bin"
        self._files[name] = file
        return {"id": name, "contentType": file.mime, "filename": file.name, "size": len(file.data)}

    def _add(self, data: dict[str, Any], room: str, sender: str, *, edits: int | None = None) -> str:
        stamp, author = next(self._stamps), self.get_id(sender)
        data = {"timestamp": stamp, "expiresInSeconds": 0, "viewOnce": False, **data}
        if not room.startswith("direct:"):
            data["groupInfo"] = {"groupId": self.get_group(room), "groupName": room, "revision": 1, "type": "DELIVER"}
        envelope: dict[str, Any] = {
            "source": author,
            "sourceNumber": None,
            "sourceUuid": author,
            "sourceName": sender.capitalize(),
            "sourceDevice": 1,
            "timestamp": stamp,
            "serverReceivedTimestamp": stamp,
            "serverDeliveredTimestamp": stamp,
        }
        body = {"editMessage": {"targetSentTimestamp": edits, "dataMessage": data}} if edits else {"dataMessage": data}
        self._emit(envelope | body)
        return f"{stamp}.{author}"

    def _emit(self, envelope: dict[str, Any]) -> None:
        with self.changed:
            held, self._held = self._held, None
            if self.claim_fault(PlatformFault.REORDER):
                self._held = envelope
            else:
                self._events.append(envelope)
                if self.claim_fault(PlatformFault.DUPLICATE):
                    self._events.append(envelope)
            if held is not None:
                self._events.append(held)

    # The daemon.

    def make_app(self) -> Asgi:
        return Starlette(
            routes=[
                Route("/api/v1/rpc", self._answer_call, methods=["POST"]),
                Route("/api/v1/events", self._answer_events, methods=["GET"]),
                Route("/api/v1/check", lambda request: Response(), methods=["GET"]),
            ]
        )

    async def _answer_events(self, request: Request) -> Response:
        if request.query_params.get("account", ACCOUNT) != ACCOUNT:
            return Response(status_code=BY_NAME["known events"].status)
        after = request.headers.get("last-event-id")
        run, _, number = (after or "").partition("-")
        at = 0 if after else len(self._events)
        if run == str(self._run) and number.isdecimal() and not self.claim_fault(PlatformFault.FORGOTTEN):
            at = int(number)
        with self.changed:
            self.streams += 1
            self.changed.notify_all()
        return StreamingResponse(self._stream(at), media_type="text/event-stream")

    async def _stream(self, at: int) -> AsyncIterator[bytes]:
        """`at`: how many events the client knows."""
        alive = 0.0
        while True:
            if not self.is_faulty(PlatformFault.HELD_POLL):
                while at < len(self._events):
                    at += 1
                    params = {"envelope": self._events[at - 1], "account": ACCOUNT}
                    yield f"id:{self._run}-{at}\nevent:receive\ndata:{json.dumps(params)}\n\n".encode()
                if alive >= ALIVE_S:
                    alive = 0.0
                    yield b":\n"
            await asyncio.sleep(LOOK_S)
            alive += LOOK_S

    async def _answer_call(self, request: Request) -> Response:
        if request.headers.get("content-type", "").partition(";")[0] != "application/json":
            return Response(status_code=BY_NAME["kind of a body"].status)
        call = await request.json()
        with self.changed:
            self.requests.append(("POST", call["method"]))
            self.changed.notify_all()
        answer: dict[str, Any] = {"jsonrpc": "2.0", "id": call.get("id")}
        try:
            params = call.get("params", {})
            if params.get("account", ACCOUNT) != ACCOUNT:
                raise refuse("known account")
            if self.is_faulty(PlatformFault.UNAUTHORIZED) and call["method"] != "version":
                raise refuse("account that Signal knows")
            answer["result"] = await self._run_call(call["method"], params)
        except RpcError as error:
            answer["error"] = {"code": error.code, "message": error.text, "data": error.data}
        return JSONResponse(answer)

    async def _run_call(self, method: str, params: dict[str, Any]) -> Any:
        match method:
            case "version":
                return {"version": "0.14.1"}
            case "listDevices":
                return [{"id": 1, "name": None, "createdTimestamp": 1, "lastSeenTimestamp": 1}]
            case "getUserStatus":
                return [{"recipient": ACCOUNT, "number": ACCOUNT, "uuid": OWN_ID, "isRegistered": True}]
            case "getAttachment":
                if params["id"] not in self._files:
                    raise refuse("known file", none=params["id"])
                return {"data": base64.b64encode(self._files[params["id"]].data).decode()}
            case "sendReceipt":
                return self._accept_receipt(params)
            case "send" | "sendReaction" | "remoteDelete" | "sendTyping":
                return await self._run_effect(method, params)
        raise refuse("known method")

    def _accept_receipt(self, params: dict[str, Any]) -> Any:
        if not params.get("recipient"):
            raise refuse("some recipient")
        with self.changed:
            if params.get("type", "read") == "read":
                self.receipts += [f"{stamp}.{params['recipient']}" for stamp in params["targetTimestamp"]]
            self.changed.notify_all()
        return {"timestamp": next(self._stamps), "results": [{"type": "SUCCESS"}]}

    async def _run_effect(self, method: str, params: dict[str, Any]) -> Any:
        room = self._find_room(params)
        if method == "sendTyping":
            with self.changed:
                if not params.get("stop"):
                    self._typing.append(room)
                self.changed.notify_all()
            return {}
        fault = self.claim_fault(*FAULTS)
        if fault is PlatformFault.RATE_LIMIT:
            results = [{"type": "RATE_LIMIT_FAILURE", "retryAfterSeconds": int(self.retry_after)}]
            raise refuse("pace", {"response": {"results": results}})
        if fault is PlatformFault.FORBIDDEN:
            raise refuse("member of a group", team=room, **{"$team": str(params.get("groupId"))})
        if fault is PlatformFault.BUSY:
            raise refuse("link to Signal's servers")
        if self.is_faulty(PlatformFault.NO_RIGHTS):
            raise refuse("trusted keys")
        stamp = next(self._stamps)
        with self.changed:
            if method == "send":
                self._accept(params, room, stamp)
            else:
                self._change(method, params)
            self.changed.notify_all()
        if fault is PlatformFault.NO_ANSWER:
            await self.drop_connections()
        return {"timestamp": stamp, "results": [{"type": "SUCCESS"}]}

    def _find_room(self, params: dict[str, Any]) -> str:
        group = params.get("groupId")
        known = self._names.get(group or (params.get("recipient") or [""])[0])
        if not group and not params.get("recipient"):
            raise refuse("some recipient")
        if known is None and group:
            raise refuse("known group", **{UNKNOWN_GROUP: group})
        if known is None:
            raise refuse("registered person", **{UNKNOWN_PERSON: params["recipient"][0]})
        return known if group else f"direct:{known}"

    def _accept(self, params: dict[str, Any], room: str, stamp: int) -> None:
        text = params.get("message", "")
        for style in params.get("textStyle", ()):
            if not STYLE.fullmatch(style):
                raise refuse("form of a style", loud=style)
            start, length, name = style.split(":")
            if name not in STYLES:
                raise refuse("known style", LOUD=name)
            assert int(start) + int(length) <= len(text.encode("utf-16-le")) // 2, f"{style} is beyond the text"
        if "editTimestamp" in params:
            for shown in self._list_own(params["editTimestamp"]):
                shown.text, shown.raw, shown.edits = text, params, shown.edits + 1
            return
        files = [_read_data_uri(each) for each in params.get("attachments", ())]
        quoted = ""
        if "quoteTimestamp" in params:
            author = params.get("quoteAuthor")
            if author is None:
                raise refuse("author of a quote")
            quoted = f"{params['quoteTimestamp']}.{author}"
        self.record.append(
            ShownMessage(
                id=f"{stamp}.{ACCOUNT}",
                room=room,
                sender="bot",
                text=text,
                raw=params,
                reply_to=quoted,
                files=files,
            )
        )

    def _change(self, method: str, params: dict[str, Any]) -> None:
        stamp = params["targetTimestamp"]
        if method == "remoteDelete":
            for own in self._list_own(stamp):
                own.deleted = True
            return
        shown = next((each for each in self.record if each.id.startswith(f"{stamp}.")), None)
        if shown is None or shown.id != f"{stamp}.{params['targetAuthor']}":
            return  # Signal does not check what a reaction is about
        shown.reactions = [each for each in shown.reactions if each[1] != "bot"] + [(params["emoji"], "bot")]

    def _list_own(self, stamp: int) -> list[ShownMessage]:
        """Signal does not check whether there is one: people's programs do."""
        return [each for each in self.record if each.id == f"{stamp}.{ACCOUNT}"]


def _read_data_uri(uri: str) -> GivenFile:
    head, _, data = uri.removeprefix("data:").partition(";base64,")
    mime, _, name = head.partition(";filename=")
    return GivenFile(name, base64.b64decode(data, validate=True), mime)
