"""An emulated Telegram: one bot, a supergroup with topics for each room, private chats, and the Bot API.

It covers what the channel uses: long polls with their confirmation, messages with HTML, files, albums, replies, topics,
edits, deletions, reactions, pins, forwards, inline keyboards, joins, groups that move. A second poll ends the first
with a 409, as on Telegram. It does not cover: rights of members, real limits of rate (the fault aside), webhooks,
stickers, polls, payments, business chats, Markdown as parse mode, and thumbnails. People's deletions are not told to
bots.
"""

import asyncio
import time
from collections.abc import Sequence
from typing import Any

from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from gatepost_testing.platforms import pings
from gatepost_testing.platforms.base import Asgi, EmulatedPlatform, GivenFile, GivenMessage, PlatformFault, ShownMessage
from gatepost_testing.platforms.broken_answers import abort_connection
from gatepost_testing.platforms.wire.telegram_api import (
    LARGEST_UPLOAD,
    METHODS,
    UNFAILING,
    BotApiError,
    Params,
    read_params,
    refuse,
)
from gatepost_testing.platforms.wire.telegram_html import count_units

TOKEN = "7000000001:emulated-token-of-a-telegram-bot-aa"
SENDING = (PlatformFault.FORBIDDEN, PlatformFault.RATE_LIMIT, PlatformFault.BUSY, PlatformFault.NO_ANSWER)
UNASKED = frozenset({"message_reaction"})  # told only to bots that ask for it


class TelegramPlatform(EmulatedPlatform):
    kind = "telegram"
    ping_rule = pings.TELEGRAM

    def __init__(self) -> None:
        super().__init__()
        self._last_number = 1000
        self._last_update = 500_000
        self.bot: dict[str, Any] = {
            "id": 7000000001,
            "is_bot": True,
            "first_name": "Gatepost",
            "username": "gatepost_bot",
            "can_join_groups": True,
            "can_read_all_group_messages": True,
            "supports_inline_queries": False,
        }
        self.webhook: str = ""
        self.commands: dict[str, str] = {}  # of its menu: what each is for
        self.people: dict[str, dict[str, Any]] = {}
        self.chats: dict[str, dict[str, Any]] = {}  # by room
        self.moved: dict[int, int] = {}  # the number of a group that became a supergroup: its new one
        self.closed: set[int] = set()  # people who did not press Start
        self.largest_upload = LARGEST_UPLOAD
        self.messages: dict[int, dict[str, Any]] = {}
        self.topics: set[int] = set()
        self.files: dict[str, GivenFile] = {}
        self.updates: list[dict[str, Any]] = []  # not confirmed
        self.clicks: set[str] = set()  # that can be answered
        self.answered: list[tuple[str, str]] = []  # clicks, and what was shown
        self.typings: list[str] = []
        self._asked_for: frozenset[str] = frozenset()
        self._polls = 0
        self._ending = False
        self._arrived = asyncio.Event()
        self._delayed: list[tuple[str, Any]] = []  # what the next event overtakes
        self.find_chat("team")

    def stop(self) -> None:
        """Polls that wait are answered first: cut off, each would be an error in the server's log."""
        self._ending = True
        self.call_soon(self._arrived.set)
        super().stop()

    def get_settings(self) -> dict[str, Any]:
        return {"api_url": self.url, "poll_s": 2}

    def get_secrets(self) -> dict[str, str]:
        return {"token": TOKEN}

    def get_address(self, room: str) -> str:
        ident = self.find_chat(room)["id"]
        first = next((old for old, new in self.moved.items() if new == ident), ident)
        return f"telegram:{'user' if room.startswith('direct:') else 'group'}/{first}"

    def get_sender(self, person: str) -> str:
        return f"telegram:user/{self.find_person(person)['id']}"

    # Contents.

    def make_number(self) -> int:
        """Unique in all chats, as it is among the private chats and small groups of one bot."""
        with self.changed:
            self._last_number += 1
            return self._last_number

    def get_time(self) -> int:
        return int(time.time())

    def find_person(self, name: str) -> dict[str, Any]:
        with self.changed:
            if name not in self.people:
                ident = 100_000_000 + len(self.people)
                self.people[name] = {"id": ident, "is_bot": False, "first_name": name, "username": name}
            return self.people[name]

    def find_chat(self, room: str) -> dict[str, Any]:
        with self.changed:
            if room not in self.chats and room.startswith("direct:"):
                person = self.find_person(room.partition(":")[2])
                self.chats[room] = {"id": person["id"], "type": "private", "first_name": person["first_name"]}
            elif room not in self.chats:
                ident = -1001000000000 - len(self.chats)
                self.chats[room] = {"id": ident, "type": "supergroup", "title": room, "is_forum": True}
            return self.chats[room]

    def find_chat_by_id(self, ident: int) -> dict[str, Any] | None:
        with self.changed:
            for name, person in list(self.people.items()):
                if person["id"] == ident:
                    return self.find_chat(f"direct:{name}")
            return next((each for each in self.chats.values() if each["id"] == ident), None)

    def find_room(self, ident: int) -> str:
        with self.changed:
            return next(room for room, each in self.chats.items() if each["id"] == ident)

    def make_quotable(self, message: dict[str, Any]) -> dict[str, Any]:
        return {name: value for name, value in message.items() if name != "reply_to_message"}

    # Changes of messages, by anybody.

    def add_message(
        self,
        chat: dict[str, Any],
        sender: dict[str, Any],
        content: dict[str, Any],
        *,
        files: Sequence[GivenFile] = (),
        raw: Params | None = None,
    ) -> dict[str, Any]:
        with self.changed:
            made = {"message_id": self.make_number(), "date": self.get_time(), "chat": chat, "from": sender, **content}
            self.messages[made["message_id"]] = made
            name = next((name for name, each in self.people.items() if each is sender), "bot")
            self.record.append(
                ShownMessage(
                    id=str(made["message_id"]),
                    room=self.find_room(chat["id"]),
                    sender=name,
                    text=str(made.get("text") or made.get("caption") or ""),
                    raw=raw,
                    thread=str(made.get("message_thread_id") or ""),
                    reply_to=str((made.get("reply_to_message") or {}).get("message_id") or ""),
                    files=list(files),
                    buttons=_list_labels(made),
                    voice="voice" in made,
                )
            )
            self.changed.notify_all()
            return made

    def add_file(self, field: str, file: GivenFile) -> dict[str, Any]:
        ident = f"file{self.make_number()}"
        with self.changed:
            self.files[ident] = file
        common: dict[str, Any] = {"file_id": ident, "file_unique_id": f"u{ident}", "file_size": len(file.data)}
        if field == "photo":
            small = {"file_id": "small", "file_unique_id": "usmall", "width": 90, "height": 90}
            return {"photo": [small, {**common, "width": 800, "height": 800}]}
        made = {**common, "mime_type": file.mime}
        if field in ("document", "audio", "video", "animation"):
            made["file_name"] = file.name
        if field != "document":
            made["duration"] = 1
        if field in ("video", "animation"):
            made |= {"width": 640, "height": 480}
        return {field: made}

    def change_message(self, message: dict[str, Any], new: dict[str, Any]) -> dict[str, Any]:
        with self.changed:
            for name in ("text", "entities", "caption", "caption_entities", "reply_markup"):
                message.pop(name, None)
            message.update(new, edit_date=self.get_time())
            shown = self.find(str(message["message_id"]))
            shown.text = str(message.get("text") or message.get("caption") or "")
            shown.buttons, shown.edits = _list_labels(message), shown.edits + 1
            self.changed.notify_all()
            return message

    def remove_message(self, message: dict[str, Any]) -> None:
        with self.changed:
            del self.messages[message["message_id"]]
            self.find(str(message["message_id"])).deleted = True
            self.changed.notify_all()

    def set_reactions(self, message: dict[str, Any], who: str, emoji: Sequence[str]) -> None:
        with self.changed:
            shown = self.find(str(message["message_id"]))
            others = [each for each in shown.reactions if each[1] != who]
            shown.reactions = [*others, *((each, who) for each in emoji)]
            self.changed.notify_all()

    # Actions of people.

    def receive(self, given: GivenMessage) -> str:
        """Several files are an album: a message each."""
        with self.changed:
            chat, person = self.find_chat(given.room), self.find_person(given.sender)
            words = given.render_named(f"@{self.bot['username']}")
            place: dict[str, Any] = {}
            if given.thread:
                self.topics.add(int(given.thread))
                place |= {"message_thread_id": int(given.thread), "is_topic_message": True}
            if given.reply_to:
                place["reply_to_message"] = self.make_quotable(self.messages[int(given.reply_to)])
            album = {"media_group_id": str(self.make_number())} if len(given.files) > 1 else {}
            made = []
            for at in range(max(len(given.files), 1)):
                content = {**place, **album}
                if given.files:
                    content |= self.add_file(_pick_field(given.files[at]), given.files[at])
                if at == 0 and words:
                    field = "caption" if given.files else "text"
                    entities = _find_entities(words, f"@{self.bot['username']}")
                    content[field] = words
                    if entities:
                        content["caption_entities" if given.files else "entities"] = entities
                made.append(self.add_message(chat, person, content, files=given.files[at : at + 1]))
                self.deliver("message", made[-1])
            return str(made[0]["message_id"])

    def edit(self, room: str, message: str, text: str, *, sender: str = "ann") -> str:
        with self.changed:
            found = self.messages[int(message)]
            self.deliver("edited_message", self.change_message(found, {"text": text}))
        return message

    def delete(self, room: str, message: str, *, sender: str = "ann") -> str:
        """Bots are not told."""
        self.remove_message(self.messages[int(message)])
        return message

    def react(self, room: str, message: str, emoji: str, *, sender: str = "ann") -> str:
        with self.changed:
            found, person = self.messages[int(message)], self.find_person(sender)
            shown = self.find(message)
            old = [{"type": "emoji", "emoji": each} for each, who in shown.reactions if who == sender]
            self.set_reactions(found, sender, [emoji])
            event = {"chat": found["chat"], "message_id": found["message_id"], "user": person, "date": self.get_time()}
            new = [{"type": "emoji", "emoji": emoji}]
            self.deliver("message_reaction", {**event, "old_reaction": old, "new_reaction": new})
        return message

    def join(self, room: str, *, sender: str = "ann") -> str:
        with self.changed:
            person = self.find_person(sender)
            made = self.add_message(self.find_chat(room), person, {"new_chat_members": [person]})
            self.deliver("message", made)
            return str(made["message_id"])

    def click(self, room: str, message: str, label: str, *, sender: str = "ann") -> str:
        with self.changed:
            found = self.messages[int(message)]
            buttons = [each for row in found["reply_markup"]["inline_keyboard"] for each in row]
            data = next(each["callback_data"] for each in buttons if each["text"] == label)
            ident = str(self.make_number())
            self.clicks.add(ident)
            query = {"id": ident, "from": self.find_person(sender), "message": dict(found)}
            self.deliver("callback_query", {**query, "chat_instance": "1", "data": data})
        return message

    def move_group(self, room: str = "team") -> None:
        """The group becomes a supergroup: another number, and no sending to the old one."""
        with self.changed:
            chat = self.find_chat(room)
            old, new = chat["id"], chat["id"] - 5_000_000
            person = self.find_person("ann")
            gone = {"id": old, "type": "group", "title": room}
            self.chats[room] = {**chat, "id": new}
            self.moved[old] = new
            for each in self.messages.values():
                if each["chat"] is chat:
                    each["chat"] = self.chats[room]
            for place in ({"chat": gone, "migrate_to_chat_id": new}, {"migrate_from_chat_id": old}):
                notice = {"message_id": self.make_number(), "date": self.get_time(), "from": person}
                self.deliver("message", {**notice, "chat": self.chats[room], **place})

    # Updates for the bot.

    def deliver(self, name: str, event: dict[str, Any]) -> None:
        with self.changed:
            if name in UNASKED and name not in self._asked_for:
                return
            fault = self.claim_fault(PlatformFault.DUPLICATE, PlatformFault.REORDER)
            if fault is PlatformFault.REORDER:
                self._delayed.append((name, event))
                return
            self._add_update(name, event)
            if fault is PlatformFault.DUPLICATE:
                self.updates.append(self.updates[-1])
            while self._delayed:
                self._add_update(*self._delayed.pop(0))
            self.changed.notify_all()
        if self.port:
            self.call_soon(self._arrived.set)

    def _add_update(self, name: str, event: dict[str, Any]) -> None:
        self._last_update += 1
        self.updates.append({"update_id": self._last_update, name: dict(event)})

    def heal(self) -> None:
        super().heal()
        if self.port:
            self.call_soon(self._arrived.set)

    def get_typing(self) -> list[str]:
        with self.changed:
            return list(self.typings)

    # The Bot API.

    def make_app(self) -> Asgi:
        return Starlette(
            routes=[
                Route("/bot{token}/{method}", self._serve_method, methods=["GET", "POST"]),
                Route("/file/bot{token}/documents/{ident}", self._serve_file),
            ]
        )

    def _is_token(self, request: Request) -> bool:
        return request.path_params["token"] == TOKEN and not self.is_faulty(PlatformFault.UNAUTHORIZED)

    async def _serve_file(self, request: Request) -> Response:
        file = self.files.get(request.path_params["ident"])
        if not self._is_token(request) or file is None:
            error = refuse("address of a file")
            return JSONResponse(error.render(), error.code)
        return Response(file.data, media_type="application/octet-stream")

    async def _serve_method(self, request: Request) -> Response:
        name = request.path_params["method"].lower()
        with self.changed:
            self.requests.append((request.method, f"/{request.path_params['method']}"))
            self.changed.notify_all()
        try:
            if not self._is_token(request):
                raise refuse("token")
            params = await read_params(request)
            if name == "getupdates":
                return JSONResponse({"ok": True, "result": await self._poll(params)})
            if name not in METHODS:
                raise refuse("known method")
            fault = self.claim_fault(*SENDING) if name not in UNFAILING else None
            self._raise_fault(fault)
            with self.changed:
                result = METHODS[name](self, params)
                answer = JSONResponse({"ok": True, "result": result})
            self.notify()
            if self.answer_s and name not in UNFAILING:
                await asyncio.sleep(self.answer_s)
            return abort_connection(self, request.scope) if fault is PlatformFault.NO_ANSWER else answer
        except BotApiError as error:
            return JSONResponse(error.render(), error.code)
        except ClientDisconnect:
            return Response()  # nobody is there to get it

    def _raise_fault(self, fault: PlatformFault | None) -> None:
        match fault:
            case PlatformFault.FORBIDDEN:
                raise refuse("member of a chat")
            case PlatformFault.RATE_LIMIT:
                wait = self.retry_after
                raise refuse("pace", ("after 1", f"after {wait:g}"), retry_after=wait)
            case PlatformFault.BUSY:
                raise refuse("a server that is busy")

    async def _poll(self, params: Params) -> list[dict[str, Any]]:
        """Waits for updates. Another poll ends this one; what lies before its offset is forgotten."""
        self._polls += 1
        mine, ends = self._polls, self._loop.time() + float(params.get("timeout") or 0)
        self._arrived.set()  # a poll that waits finds out that it is not the last
        offset, limit = int(params.get("offset") or 0), int(params.get("limit") or 100)
        with self.changed:
            if params.get("allowed_updates") is not None:
                self._asked_for = frozenset(params["allowed_updates"])
            confirms = any(each["update_id"] < offset for each in self.updates)
            if not (confirms and self.claim_fault(PlatformFault.FORGOTTEN)):
                self.updates = [each for each in self.updates if each["update_id"] >= offset]
                self.changed.notify_all()
        while True:
            if mine != self._polls or self.is_faulty(PlatformFault.CONFLICT):
                raise refuse("one reader")
            if self.is_faulty(PlatformFault.UNAUTHORIZED):
                raise refuse("token")
            held, left = self.is_faulty(PlatformFault.HELD_POLL), ends - self._loop.time()
            with self.changed:
                found = self.updates[:limit]
            if self._ending or (not held and (found or left <= 0)):
                return found
            self._arrived.clear()
            try:
                async with asyncio.timeout(None if held else left):
                    await self._arrived.wait()
            except TimeoutError:
                continue


def _pick_field(file: GivenFile) -> str:
    kinds = {"image/jpeg": "photo", "image/png": "photo", "audio/ogg": "voice", "video/mp4": "video"}
    return kinds.get(file.mime, "document")


def _find_entities(text: str, name: str) -> list[dict[str, Any]]:
    entities, at = list[dict[str, Any]](), text.find(name)
    if at >= 0:
        entities.append({"type": "mention", "offset": count_units(text[:at]), "length": len(name)})
    if text.startswith("/"):
        entities.append({"type": "bot_command", "offset": 0, "length": count_units(text.split()[0])})
    return entities


def _list_labels(message: dict[str, Any]) -> list[str]:
    rows = (message.get("reply_markup") or {}).get("inline_keyboard") or ()
    return [str(button["text"]) for row in rows for button in row]
