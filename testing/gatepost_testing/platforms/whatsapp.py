"""WhatsApp's Cloud API, emulated: one business number, private chats, signed hooks.

Covered: messages of text, media, interactive buttons and lists, reactions, templates, read marks with the typing sign.
Media have an upload and a two-step download; statuses have `biz_opaque_callback_data`. The 24-hour window, the limits
of lengths and numbers, hidden numbers, and messages in groups are covered, too. Not covered: flows, catalogues, calls,
the management of groups, templates and numbers, and what a template's own text is. A rate limit names its wait in
Retry-After, which Meta does not promise.

The room `team` is the private chat with ann: a business makes its groups itself, and few have any. A room `group:lab`
is a group. Rules of Meta's pages, read 2026-11-17:
- "Business-scoped user IDs": `user_id` and `from_user_id` are always there; `wa_id` and `from` are left out for people
  with a username; whom no number is known of is written to by `recipient`, not by `to`.
- "Group messaging": `group_id` beside `from`; `recipient_type` is `group`; text, media and templates only.
- "Error codes" and "Status messages": an error comes in the answer, or later by the status `failed`.
"""

import asyncio
import base64
import itertools
import json
import re
import time
from collections.abc import Sequence
from typing import Any

from starlette.applications import Starlette
from starlette.datastructures import UploadFile
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from gatepost.channels.kit.hooks import sign
from gatepost_testing.platform_rules.whatsapp import BY_NAME, TAKEN
from gatepost_testing.platforms.base import Asgi, GivenFile, GivenMessage, NotOffered, PlatformFault, ShownMessage
from gatepost_testing.platforms.hooked import Event, HookedPlatform

TOKEN, APP_SECRET, VERIFY_TOKEN = "EAAtoken", "app-secret", "verify-me"
NUMBER_ID, NUMBER, ACCOUNT = "106540352242922", "15550783881", "102290129340398"
VERSION = "v26.0"
HOLD_S = 0.02
FAULTS = (
    PlatformFault.RATE_LIMIT,
    PlatformFault.BUSY,
    PlatformFault.FORBIDDEN,
    PlatformFault.NO_ANSWER,
)
_MARKS = re.compile(r"```(.+?)```|`([^`\n]+)`|(?<!\w)[*_~](\S(?:[^\n]*?\S)?)[*_~](?!\w)", re.DOTALL)


GROUP = "group:"  # how the names of rooms begin that are groups
OTHER_HOOK = "https://another.example/hook"


class GraphError(Exception):
    """The refusal of a rule."""

    def __init__(self, name: str, headers: dict[str, str] | None = None, *, subcode: int | None = None) -> None:
        code, text = BY_NAME[name].refusal.split(" ", 1)
        super().__init__(text)
        self.rule, self.code, self.text = BY_NAME[name], int(code), text.replace("$number", NUMBER_ID)
        self.headers, self.subcode = headers or {}, subcode


refuse = GraphError


def _exceeds(name: str, size: int) -> bool:
    return size > BY_NAME[name].limit


class WhatsAppPlatform(HookedPlatform):
    kind = "whatsapp"
    hook_secret = APP_SECRET
    cannot = frozenset({"edit", "delete", "join"})
    has_groups = False
    sample_file = ("data.pdf", "application/pdf")

    def __init__(self) -> None:
        super().__init__()
        self.platform_type = "CLOUD_API"
        self.quality = "GREEN"
        self.capable, self.deleted = True, False  # the app; the number
        self.failed: dict[str, str] = {}  # by message, the refusal that came after it was taken
        self._ids = itertools.count(1)
        self._media: dict[str, GivenFile] = {}
        self._typing: list[str] = []
        self.receipts: list[str] = []  # messages that people see as read
        self._closed: set[str] = set()  # rooms whose last message is more than 24 hours old
        self._closed_late: set[str] = set()  # those of which Meta finds that out only after it took a message
        self._people: dict[str, str] = {}  # number or user id -> name
        self._hidden: set[str] = set()  # people who have a username

    # How a channel is pointed at it.

    def get_settings(self) -> dict[str, Any]:
        return {"api_url": f"{self.url}/{VERSION}", "phone_number_id": NUMBER_ID, "check_s": 0.2}

    def get_secrets(self) -> dict[str, str]:
        return {"token": TOKEN, "app_secret": self.hook_secret, "verify_token": VERIFY_TOKEN}

    def get_number(self, person: str) -> str:
        digits = "".join(f"{ord(sign) % 100:02d}" for sign in person)[:10]
        number = f"49{digits:0<9}"
        self._people[number] = person
        return number

    def get_user_id(self, person: str) -> str:
        user_id = f"DE.{self.get_number(person)[::-1]}7"
        self._people[user_id] = person
        return user_id

    def hide_number(self, person: str) -> None:
        """This person takes a username."""
        with self.changed:
            self._hidden.add(person)

    def get_address(self, room: str) -> str:
        if room.startswith(GROUP):
            return f"whatsapp:group/{_get_group_id(room)}"
        return self.get_sender(_get_person(room))

    def get_sender(self, person: str) -> str:
        return f"whatsapp:user/{self.get_user_id(person) if person in self._hidden else self.get_number(person)}"

    def list_shown(self, room: str = "", *, by_bot: bool = True) -> list[ShownMessage]:
        return super().list_shown(room and _get_room(room), by_bot=by_bot)

    # Actions of people.

    def receive(self, given: GivenMessage) -> str:
        """Several files are several messages, as people send them; the words are below the first."""
        if (_get_person(given.room) != given.sender and not given.room.startswith(GROUP)) or given.thread:
            raise NotOffered
        context: dict[str, Any] = {"context": {"from": NUMBER, "id": given.reply_to}} if given.reply_to else {}
        if given.room.startswith(GROUP):
            context["group_id"] = _get_group_id(given.room)
        if not given.files:
            return self._add(given.sender, "text", {"body": given.text}, given.text, context)
        sent = [
            self._send_file(given.sender, each, given.text if not place else "", context)
            for place, each in enumerate(given.files)
        ]
        return sent[0]

    def _send_file(self, sender: str, file: GivenFile, caption: str, context: dict[str, Any]) -> str:
        media = self._add_media(file)
        kind = {"image": "image", "audio": "audio", "video": "video"}.get(file.mime.partition("/")[0], "document")
        body: dict[str, Any] = {"id": media, "mime_type": file.mime, "sha256": "x"}
        if caption and kind != "audio":
            body["caption"] = caption
        if kind == "document":
            body["filename"] = file.name
        return self._add(sender, kind, body, caption, context, files=[file])

    def _add(
        self,
        sender: str,
        kind: str,
        body: dict[str, Any],
        text: str,
        more: dict[str, Any] | None = None,
        *,
        files: Sequence[GivenFile] = (),
        shown: bool = True,
    ) -> str:
        group_id = (more or {}).get("group_id", "")
        message_id, room = self._new_id(), _find_group(group_id) or f"direct:{sender}"
        context = (more or {}).get("context", {})
        with self.changed:
            self._closed.discard(room)
            self._closed_late.discard(room)
            if shown:
                self.record.append(
                    ShownMessage(
                        id=message_id,
                        room=room,
                        sender=sender,
                        text=text,
                        reply_to=context.get("id", ""),
                        files=list(files),
                    )
                )
        user_id = self.get_user_id(sender)
        message = {"id": message_id, "timestamp": str(int(time.time())), "type": kind, kind: body}
        contact: dict[str, Any] = {"profile": {"name": sender.capitalize()}, "user_id": user_id}
        message["from_user_id"] = user_id
        if sender in self._hidden:
            contact["profile"]["username"] = f"the.{sender}"
        else:
            message["from"] = contact["wa_id"] = self.get_number(sender)
        self.emit({"contacts": [contact], "messages": [message | (more or {})]})
        return message_id

    def react(self, room: str, message: str, emoji: str, *, sender: str = "ann") -> str:
        if _get_person(room) != sender:
            raise NotOffered
        with self.changed:
            self.find(message).reactions.append((emoji, sender))
        self._add(sender, "reaction", {"message_id": message, "emoji": emoji}, "", shown=False)
        return message

    def click(self, room: str, message: str, label: str, *, sender: str = "ann") -> str:
        interactive = self.find(message).raw["interactive"]
        for option in _list_options(interactive):
            if label in (option["title"], option.get("description")):
                name = "button_reply" if interactive["type"] == "button" else "list_reply"
                body = {"type": name, name: option}
                more = {"context": {"from": NUMBER, "id": message}}
                return self._add(sender, "interactive", body, option["title"], more)
        raise NotOffered

    def close_window(self, person: str, *, late: bool = False) -> None:
        """A day goes by without a word of this person. `late`: Meta takes a message first, and reports it later."""
        with self.changed:
            (self._closed_late if late else self._closed).add(f"direct:{person}")

    def get_typing(self) -> list[str]:
        with self.changed:
            return list(self._typing)

    # Hooks.

    def render_delivery(self, event: Event) -> tuple[dict[str, str], bytes]:
        value = {
            "messaging_product": "whatsapp",
            "metadata": {"display_phone_number": NUMBER, "phone_number_id": NUMBER_ID},
            **event,
        }
        entry = {"id": ACCOUNT, "changes": [{"value": value, "field": "messages"}]}
        body = json.dumps({"object": "whatsapp_business_account", "entry": [entry]}).encode()
        return {"content-type": "application/json", "x-hub-signature-256": sign(self.hook_secret, body)}, body

    # The API.

    def make_app(self) -> Asgi:
        return Starlette(
            routes=[
                Route(f"/{VERSION}/{NUMBER_ID}", self._answer_number, methods=["GET"]),
                Route(f"/{VERSION}/{NUMBER_ID}/messages", self._answer_message, methods=["POST"]),
                Route(f"/{VERSION}/{NUMBER_ID}/media", self._answer_upload, methods=["POST"]),
                Route(f"/{VERSION}/{{media}}", self._answer_media, methods=["GET"]),
                Route("/files/{media}", self._answer_file, methods=["GET"]),
            ],
            exception_handlers={GraphError: _render_error},
        )

    def _check_token(self, request: Request) -> None:
        with self.changed:
            self.requests.append((request.method, request.url.path))
            self.changed.notify_all()
        given = request.headers.get("authorization")
        if given != f"Bearer {TOKEN}" or self.is_faulty(PlatformFault.UNAUTHORIZED):
            raise refuse("token")
        if not self.capable:
            raise refuse("capability of the app")
        if self.deleted:
            raise refuse("number that is there")

    async def _answer_number(self, request: Request) -> Response:
        self._check_token(request)
        while self.is_faulty(PlatformFault.HELD_POLL):  # noqa: ASYNC110  until heal
            await asyncio.sleep(HOLD_S)
        if self.is_faulty(PlatformFault.NO_RIGHTS):
            raise refuse("right to the number", subcode=33)
        if request.query_params.get("fields") == "webhook_configuration":
            taken = {"phone_number": OTHER_HOOK} if self.is_faulty(PlatformFault.CONFLICT) else {}
            return JSONResponse({"webhook_configuration": {"application": self.hook_url, **taken}, "id": NUMBER_ID})
        return JSONResponse(
            {
                "id": NUMBER_ID,
                "platform_type": self.platform_type,
                "display_phone_number": "+1 555-078-3881",
                "verified_name": "Lucky Shrub",
                "quality_rating": self.quality,
                "status": "CONNECTED",
                "messaging_limit_tier": "TIER_1K",
            }
        )

    async def _answer_media(self, request: Request) -> Response:
        self._check_token(request)
        media = request.path_params["media"]
        file = self._media.get(media)
        if file is None:
            raise refuse("known file")
        url = f"{self.url}/files/{media}"
        return JSONResponse({"id": media, "url": url, "mime_type": file.mime, "file_size": str(len(file.data))})

    async def _answer_file(self, request: Request) -> Response:
        self._check_token(request)
        file = self._media[request.path_params["media"]]
        return Response(file.data, media_type=file.mime)

    async def _answer_upload(self, request: Request) -> Response:
        self._check_token(request)
        async with request.form() as form:
            file, mime = form.get("file"), form.get("type")
            if form.get("messaging_product") != "whatsapp" or not mime or not isinstance(file, UploadFile):
                raise refuse("parts of an upload")
            if str(mime).partition(";")[0] not in TAKEN:
                raise refuse("type of a file")
            media = self._add_media(GivenFile(file.filename or "", await file.read(), str(mime)))
        return JSONResponse({"id": media})

    async def _answer_message(self, request: Request) -> Response:
        self._check_token(request)
        body = await request.json()
        if body.get("status") == "read":
            return self._mark_read(body)
        fault = self.claim_fault(*FAULTS)
        if fault is PlatformFault.RATE_LIMIT:
            wait = {"retry-after": str(self.retry_after)}
            raise refuse("rate of one chat", wait)
        if fault is PlatformFault.BUSY:
            raise refuse("service away")
        if fault is PlatformFault.FORBIDDEN:
            raise refuse("right to send")
        message = self._accept(body)
        self.notify()
        if fault is PlatformFault.NO_ANSWER:
            await self.drop_connections()
            await asyncio.sleep(0)
        given = body.get("to") or body.get("recipient")
        return JSONResponse(
            {
                "messaging_product": "whatsapp",
                "contacts": [{"input": given, **({"wa_id": given} if "to" in body else {"user_id": given})}],
                "messages": [{"id": message}],
            }
        )

    def _mark_read(self, body: dict[str, Any]) -> Response:
        with self.changed:
            found = next((each for each in self.record if each.id == body.get("message_id")), None)
            if found is None or found.sender == "bot":
                raise refuse("message that was read")
            self.receipts.append(found.id)
            if "typing_indicator" in body:
                self._typing.append(found.room)
            self.changed.notify_all()
        return JSONResponse({"success": True})

    def _accept(self, body: dict[str, Any]) -> str:
        kind, room = body.get("type", "text"), self._find_room(body)
        if body.get("messaging_product") != "whatsapp":
            raise refuse("name of the product")
        if not room:
            raise refuse("known person")
        if room.startswith(GROUP) and kind in ("interactive", "reaction"):
            raise refuse("words of a group")
        with self.changed:
            if room in self._closed and kind != "template":
                raise refuse("24 hours")
            if kind == "reaction":
                return self._accept_reaction(body)
            shown = self._render_shown(kind, body, room)
            too_late = room in self._closed_late and kind != "template"
            if not too_late:
                self.record.append(shown)
        self._report(shown.id, body, "24 hours later" if too_late else "")
        return shown.id

    def _report(self, message: str, body: dict[str, Any], broken: str = "") -> None:
        """Meta says what became of a message. `broken`: the rule by which it was not delivered."""
        status: dict[str, Any] = {"id": message, "timestamp": str(int(time.time()))}
        status |= {"recipient_id": body["to"]} if "to" in body else {"recipient_user_id": body["recipient"]}
        status |= {"status": "sent"}
        if broken:
            self.failed[message] = BY_NAME[broken].refusal
            code, title = BY_NAME[broken].refusal.split(" ", 1)
            told = {"code": int(code), "title": title, "message": title, "error_data": {"details": title}}
            status |= {"status": "failed", "errors": [told]}
        key = body.get("biz_opaque_callback_data", "")
        self.emit({"statuses": [status | {"biz_opaque_callback_data": key}]}, faulty=False)

    def _find_room(self, body: dict[str, Any]) -> str:
        """'' if nobody is there. A number or a group stands in `to`, a business-scoped id in `recipient`."""
        to, recipient = str(body.get("to", "")), str(body.get("recipient", ""))
        if body.get("recipient_type") == "group":
            return _find_group(to)
        person = self._people.get(to or recipient, "")
        return f"direct:{person}" if person and ("." in recipient if not to else "." not in to) else ""

    def _accept_reaction(self, body: dict[str, Any]) -> str:
        """One that cannot be shown is taken, and reported as failed."""
        reaction, made = body["reaction"], self._new_id()
        if "context" in body:
            raise refuse("reaction as an answer")
        found = next((each for each in self.record if each.id == reaction["message_id"]), None)
        if found is None:
            self._report(made, body, "message to react to")
            return made
        found.reactions = [each for each in found.reactions if each[1] != "bot"]
        if reaction["emoji"]:
            found.reactions.append((reaction["emoji"], "bot"))
        return made

    def _render_shown(self, kind: str, body: dict[str, Any], room: str) -> ShownMessage:
        content = body[kind]
        shown = ShownMessage(
            id=self._new_id(),
            room=room,
            sender="bot",
            text=_resolve(_check_content(kind, content)),
            raw=body,
            reply_to=body.get("context", {}).get("message_id", ""),
            key=body.get("biz_opaque_callback_data", ""),
            voice=bool(content.get("voice")),
        )
        if _exceeds("length of own data", len(shown.key)):
            raise refuse("length of own data")
        if shown.reply_to and not any(each.id == shown.reply_to for each in self.record):
            raise refuse("answered message")
        if "id" in content and kind in ("image", "audio", "video", "document", "sticker"):
            file = self._media.get(content["id"])
            if file is None:
                raise refuse("known file of a message")
            if kind == "image" and _exceeds("size of a picture", len(file.data)):
                raise refuse("size of a picture")
            shown.files = [GivenFile(content.get("filename", file.name), file.data, file.mime)]
        if kind == "interactive":
            shown.buttons = [each.get("description") or each["title"] for each in _list_options(content)]
        return shown

    def _add_media(self, file: GivenFile) -> str:
        media = f"{next(self._ids) + 2754859441498000}"
        with self.changed:
            self._media[media] = file
        return media

    def _new_id(self) -> str:
        return "wamid." + base64.b64encode(f"message {next(self._ids):010d}".encode()).decode()


def _get_room(room: str) -> str:
    return room if room.startswith(GROUP) else f"direct:{_get_person(room)}"


def _get_group_id(room: str) -> str:
    return base64.urlsafe_b64encode(f"capi_{room}".encode()).decode()


def _find_group(group_id: str) -> str:
    return base64.urlsafe_b64decode(group_id).decode().removeprefix("capi_") if group_id else ""


def _get_person(room: str) -> str:
    return room.removeprefix("direct:") if room.startswith("direct:") else "ann"


def _list_options(interactive: dict[str, Any]) -> list[dict[str, str]]:
    action = interactive["action"]
    if interactive["type"] == "button":
        return [each["reply"] for each in action["buttons"]]
    return [row for section in action["sections"] for row in section["rows"]]


def _check_content(kind: str, content: dict[str, Any]) -> str:
    """Return the text of a message. Refuse a message that Meta would refuse."""
    match kind:
        case "text":
            text, rule = content["body"], "text length" if content["body"] else "empty text"
        case "interactive":
            text, rule = (
                content["body"]["text"],
                "words of buttons" if content["type"] == "button" else "words of a list",
            )
            _check_options(content)
        case "template":
            (body,) = content["components"]
            text, rule = body["parameters"][0]["text"], "words of a template"
            if "\n" in text or "\t" in text or " " * 5 in text:
                raise refuse("line breaks in a template")
        case "audio" if "caption" in content:
            raise refuse("words below a sound")
        case "image" | "audio" | "video" | "document" | "sticker":
            text, rule = content.get("caption", ""), "caption length"
        case _:
            raise refuse("kind of a message")
    if _exceeds(rule, len(text)) or (not text and kind in ("text", "interactive", "template")):
        raise refuse(rule)
    return str(text)


def _check_options(content: dict[str, Any]) -> None:
    options, buttons = _list_options(content), content["type"] == "button"
    number, length = ("number of buttons", "button length") if buttons else ("number of rows", "row length")
    if not options or _exceeds(number, len(options)):
        raise refuse(number)
    for each in options:
        if not each["title"] or _exceeds(length, len(each["title"])):
            raise refuse(length)
        ident = "id of a button" if buttons else "id of a row"
        if _exceeds(ident, len(each["id"])):
            raise refuse(ident)
        if _exceeds("description of a row", len(each.get("description", ""))):
            raise refuse("description of a row")
    names = [each["title"] if buttons else each["id"] for each in options]
    if len(set(names)) < len(names):
        raise refuse("one title for each button" if buttons else "one id for each row")


def _resolve(text: str) -> str:
    return _MARKS.sub(lambda found: found[1] or found[2] or found[3], text)


async def _render_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, GraphError)
    body: dict[str, Any] = {"message": error.text, "type": "OAuthException", "code": error.code}
    body |= {"error_data": {"messaging_product": "whatsapp", "details": error.rule.source}, "fbtrace_id": "Az8or2yhqkZ"}
    if error.subcode is not None:
        body["error_subcode"] = error.subcode
    return JSONResponse({"error": body}, error.rule.status, headers=error.headers)
