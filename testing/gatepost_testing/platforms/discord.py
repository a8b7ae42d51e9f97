"""An emulated Discord: one server, its channels and threads, direct messages, the gateway and REST, version 10.

It covers what the channel uses: messages with files, replies, embeds and components, edits, deletions, reactions, pins,
typing, clicks, threads, nonces, history, sessions that are resumed or lost. It does not cover: permissions per channel
(the fault FORBIDDEN aside), roles, custom emoji, commands of one server, voice, shards, compression, real rate limits.
There is no second poller on Discord, so the fault CONFLICT changes nothing. FORGOTTEN loses the sessions at the next
resume: Discord has nothing nearer to an acknowledgement. A nonce is remembered for `nonce_window_s`.
"""

import json
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from starlette.applications import Starlette
from starlette.routing import WebSocketRoute

from gatepost_testing.platforms import pings
from gatepost_testing.platforms.base import Asgi, EmulatedPlatform, GivenFile, GivenMessage, PlatformFault, ShownMessage
from gatepost_testing.platforms.wire.discord_gateway import EmulatedGateway
from gatepost_testing.platforms.wire.discord_payloads import MEMBER, list_labels, make_guild, make_ready, read_words

EPOCH_MS = 1420070400000
API = "/api/v10"
TOKEN = "emulated-bot-token"
SENDING = (
    PlatformFault.FORBIDDEN,
    PlatformFault.RATE_LIMIT,
    PlatformFault.BUSY,
    PlatformFault.NO_ANSWER,
)
DISTURBING = (PlatformFault.DUPLICATE, PlatformFault.REORDER)


class DiscordPlatform(EmulatedPlatform):
    kind = "discord"
    ping_rule = pings.DISCORD
    nonce_window_s = 300.0

    def __init__(self) -> None:
        super().__init__()
        self._last_id = 0
        self.guild = self._make_id()
        self.bot = self._make_user("gatepost", bot=True)
        self.people: dict[str, dict[str, Any]] = {}
        self.channels: dict[str, dict[str, Any]] = {}  # by id
        self.messages: dict[str, dict[str, Any]] = {}  # by id, as the API gives them
        self.files: dict[str, GivenFile] = {}
        self.nonces: dict[str, tuple[float, str]] = {}
        self.typings: list[str] = []
        self.answered: list[str] = []  # clicks that the bot answered in time
        self.commands: dict[str, dict[str, Any]] = {}  # of the application, by name
        self.given: dict[str, float] = {}  # commands that wait for an answer: since when
        self.receipts: list[dict[str, Any]] = []  # what people were answered to commands
        self.global_limit = False  # whether the next rate limit is of the whole bot
        self.application_flags = 1 << 19
        self.connections_left = 999  # for today
        self._delayed: tuple[str, Any] | None = None
        self.gateway = EmulatedGateway(
            TOKEN,
            self._list_ready,
            lambda: self.is_faulty(PlatformFault.HELD_POLL),
            lambda: self.is_faulty(PlatformFault.UNAUTHORIZED),
            lambda: self.claim_fault(PlatformFault.FORGOTTEN) is not None,
            self.notify,
        )
        self.find_channel("team")

    def get_settings(self) -> dict[str, Any]:
        return {"api_url": self.url + API}

    def get_secrets(self) -> dict[str, str]:
        return {"token": TOKEN}

    def get_address(self, room: str) -> str:
        channel = self.find_channel(room)["id"]
        return f"discord:dm/{channel}" if room.startswith("direct:") else f"discord:{self.guild}/channel/{channel}"

    def get_sender(self, person: str) -> str:
        return f"discord:user/{self.find_person(person)['id']}"

    # Contents.

    def _make_id(self) -> str:
        self._last_id = max(self._last_id + 1, (int(time.time() * 1000) - EPOCH_MS) << 22)
        return str(self._last_id)

    def _make_user(self, name: str, *, bot: bool = False) -> dict[str, Any]:
        made = {"id": self._make_id(), "username": name, "discriminator": "0", "global_name": None, "avatar": None}
        return {**made, "bot": True} if bot else made

    def find_person(self, name: str) -> dict[str, Any]:
        with self.changed:
            if name not in self.people:
                self.people[name] = self._make_user(name)
            return self.people[name]

    def find_channel(self, room: str) -> dict[str, Any]:
        with self.changed:
            for each in self.channels.values():
                if each["room"] == room and each["type"] in (0, 1):
                    return each
            made: dict[str, Any] = {"id": self._make_id(), "room": room, "last_message_id": None}
            if room.startswith("direct:"):
                person = self.find_person(room.partition(":")[2])
                made |= {"type": 1, "recipients": [person]}
            else:
                made |= {"type": 0, "name": room, "guild_id": self.guild, "parent_id": None, "position": 0}
                made |= {"permission_overwrites": [], "nsfw": False, "topic": None}
            self.channels[made["id"]] = made
            if made["type"] == 0:
                self._emit("CHANNEL_CREATE", made)
            return made

    def _find_thread(self, room: str, thread: str) -> dict[str, Any]:
        if thread in self.channels:
            return self.channels[thread]
        parent = self.find_channel(room)
        made = {
            "id": thread,
            "type": 11,
            "room": room,
            "name": "thread",
            "guild_id": self.guild,
            "parent_id": parent["id"],
            "owner_id": self.bot["id"],
            "last_message_id": None,
            "message_count": 0,
            "member_count": 1,
            "thread_metadata": {
                "archived": False,
                "auto_archive_duration": 1440,
                "locked": False,
                "archive_timestamp": _now(),
            },
        }
        self.channels[thread] = made
        self._emit("THREAD_CREATE", made)
        return made

    def _list_ready(self, session: str) -> list[tuple[str, Any]]:
        with self.changed:
            channels = [each for each in self.channels.values() if each["type"] == 0]
            threads = [each for each in self.channels.values() if each["type"] == 11]
            guild = make_guild(self.guild, channels, threads, self.bot)
            ready = make_ready(session, self.bot, self.guild, self.url.replace("http", "ws"), self.application_flags)
            return [("READY", ready), ("GUILD_CREATE", guild)]

    def _emit(self, name: str, data: Any) -> None:
        """To every session, in the order of the calls. Faults of order are of what people do, not of the bot's echo."""
        copied = json.loads(json.dumps(data))
        with self.changed:
            actor = data.get("user_id") or (data.get("author") or {}).get("id")
            by_bot = actor == self.bot["id"] or name in ("CHANNEL_CREATE", "THREAD_CREATE")
            fault = None if by_bot else self.claim_fault(*DISTURBING)
            frames = [(name, copied)]
            if fault is PlatformFault.REORDER:
                self._delayed = frames.pop()
            elif self._delayed is not None and not by_bot:
                frames.append(self._delayed)
                self._delayed = None
            if fault is PlatformFault.DUPLICATE:
                frames *= 2
            if self.port:
                for each in frames:
                    self.call_soon(self.gateway.deliver, *each)
            self.changed.notify_all()

    def fault(self, *faults: PlatformFault) -> None:
        super().fault(*faults)
        if PlatformFault.UNAUTHORIZED in faults:
            self.call_soon(self.gateway.close_all, 4004)

    # Actions of people.

    def receive(self, given: GivenMessage) -> str:
        with self.changed:
            channel = self._find_thread(given.room, given.thread) if given.thread else self.find_channel(given.room)
            content = given.render_named(f"<@{self.bot['id']}>")
            body: dict[str, Any] = {"content": content, "mentions": [self.bot] if given.mention else []}
            if given.reply_to:
                body["message_reference"] = {"message_id": given.reply_to}
            made = self.add_message(channel, self.find_person(given.sender), body, given.files)
            return str(made["id"])

    def send_as_webhook(self, text: str, room: str = "team") -> str:
        with self.changed:
            author = self._make_user("build", bot=True)
            body = {"content": text, "webhook_id": author["id"]}
            return str(self.add_message(self.find_channel(room), author, body)["id"])

    def edit(self, room: str, message: str, text: str, *, sender: str = "ann") -> str:
        with self.changed:
            self.change_message(message, {"content": text})
        return message

    def delete(self, room: str, message: str, *, sender: str = "ann") -> str:
        with self.changed:
            self.remove_message(message)
        return message

    def react(self, room: str, message: str, emoji: str, *, sender: str = "ann") -> str:
        with self.changed:
            self.add_reaction(message, emoji, self.find_person(sender), sender)
        return message

    def join(self, room: str, *, sender: str = "ann") -> str:
        with self.changed:
            made = self.add_message(self.find_channel(room), self.find_person(sender), {"content": "", "type": 7})
            return str(made["id"])

    def give_command(self, name: str, text: str = "", *, room: str = "team", sender: str = "ann") -> str:
        """Somebody picks a command of the menu, which offers what was registered and no other."""
        with self.changed:
            (field, *_), channel = self.commands[name].get("options") or [None], self.find_channel(room)
            assert bool(text) <= (field is not None) and (text or field is None or not field["required"])
            ident = self._make_id()
            options = [{"type": 3, "name": field["name"], "value": text}] if field is not None and text else []
            data = {"id": self.commands[name]["id"], "name": name, "type": 1, "options": options}
            self.given[ident] = time.monotonic()
            self._emit("INTERACTION_CREATE", self._make_interaction(ident, 2, data, channel, sender))
            return ident

    def click(self, room: str, message: str, label: str, *, sender: str = "ann") -> str:
        return self.choose(room, message, [label], sender=sender)

    def choose(self, room: str, message: str, labels: Sequence[str], *, sender: str = "ann") -> str:
        """The same for several entries of a menu."""
        with self.changed:
            shown = self.messages[message]
            parts = [part for row in shown["components"] for part in row["components"]]
            pressed = [part for part in parts if part["type"] == 2 and part["label"] == labels[0]]
            menus = [part for part in parts if part["type"] == 3]
            if pressed:
                data = {"component_type": 2, "custom_id": pressed[0]["custom_id"]}
            else:
                values = [each["value"] for each in menus[0]["options"] if each["label"] in labels]
                data = {"component_type": 3, "custom_id": menus[0]["custom_id"], "values": values}
            channel = self.channels[shown["channel_id"]]
            event = self._make_interaction(self._make_id(), 3, data, channel, sender)
            self._emit("INTERACTION_CREATE", {**event, "message": shown})
            return message

    def _make_interaction(
        self, ident: str, kind: int, data: dict[str, Any], channel: dict[str, Any], sender: str
    ) -> dict[str, Any]:
        person = self.find_person(sender)
        who = (
            {"user": person}
            if channel["type"] == 1
            else {"member": {**MEMBER, "user": person, "permissions": "0"}, "guild_id": self.guild}
        )
        return {
            "id": ident,
            "application_id": self.bot["id"],
            "type": kind,
            "token": "click-token",
            "version": 1,
            "data": data,
            "channel_id": channel["id"],
            "channel": channel,
            "attachment_size_limit": 10 * 1024 * 1024,
            "app_permissions": "0",
            "entitlements": [],
            "authorizing_integration_owners": {},
            "locale": "en-US",
            **who,
        }

    # Changes of messages, by anybody.

    def add_message(
        self, channel: dict[str, Any], author: dict[str, Any], body: dict[str, Any], files: Sequence[GivenFile] = ()
    ) -> dict[str, Any]:
        ident, reference = self._make_id(), body.get("message_reference")
        made: dict[str, Any] = {
            "id": ident,
            "channel_id": channel["id"],
            "author": author,
            "content": body.get("content") or "",
            "timestamp": _now(),
            "edited_timestamp": None,
            "tts": False,
            "mention_everyone": False,
            "mentions": body.get("mentions") or [],
            "mention_roles": [],
            "attachments": [self._add_file(ident, at, each) for at, each in enumerate(files)],
            "embeds": body.get("embeds") or [],
            "components": body.get("components") or [],
            "flags": body.get("flags") or 0,
            "pinned": False,
            "type": body.get("type") or (19 if reference else 0),
        }
        if body.get("webhook_id"):
            made["webhook_id"] = body["webhook_id"]
        if reference:
            answered = self.messages.get(str(reference.get("message_id")))
            made["message_reference"] = {**reference, "channel_id": channel["id"]}
            made["referenced_message"] = answered and {**answered, "referenced_message": None}
        if channel["type"] != 1:
            made["guild_id"] = self.guild
            made["member"] = MEMBER
        self.messages[ident] = made
        channel["last_message_id"] = ident
        self.record.append(self._show(made, channel, body, files))
        nonce = {"nonce": body["nonce"]} if body.get("nonce") else {}
        self._emit("MESSAGE_CREATE", {**made, **nonce})
        return {**made, **nonce}

    def _show(
        self, made: dict[str, Any], channel: dict[str, Any], body: dict[str, Any], files: Sequence[GivenFile]
    ) -> ShownMessage:
        name = next((name for name, each in self.people.items() if each is made["author"]), made["author"]["username"])
        return ShownMessage(
            id=made["id"],
            room=channel["room"],
            sender="bot" if made["author"] is self.bot else name,
            text=read_words(made),
            raw=body,
            thread=channel["id"] if channel["type"] == 11 else "",
            reply_to=str((body.get("message_reference") or {}).get("message_id") or ""),
            files=list(files),
            buttons=list_labels(made),
            voice=bool(made["flags"] & (1 << 13)),
            key=str(body.get("nonce") or ""),
        )

    def _add_file(self, message: str, at: int, file: GivenFile) -> dict[str, Any]:
        ident = f"{message}-{at}"
        self.files[ident] = file
        url = f"{self.url}/cdn/{ident}/{file.name}"
        made = {"id": self._make_id(), "filename": file.name, "size": len(file.data), "content_type": file.mime}
        return {**made, "url": url, "proxy_url": url}

    def change_message(self, ident: str, body: dict[str, Any]) -> dict[str, Any]:
        made, shown = self.messages[ident], self.find(ident)
        made |= {name: body[name] for name in ("content", "embeds", "components") if name in body}
        made["edited_timestamp"] = _now()
        shown.text, shown.buttons, shown.raw = read_words(made), list_labels(made), body
        shown.edits += 1
        self._emit("MESSAGE_UPDATE", made)
        return made

    def remove_message(self, ident: str) -> None:
        made = self.messages.pop(ident)
        self.find(ident).deleted = True
        guild = {"guild_id": made["guild_id"]} if "guild_id" in made else {}
        self._emit("MESSAGE_DELETE", {"id": ident, "channel_id": made["channel_id"], **guild})

    def add_reaction(self, ident: str, emoji: str, user: dict[str, Any], who: str) -> None:
        made, shown = self.messages[ident], self.find(ident)
        if (emoji, who) not in shown.reactions:
            shown.reactions = [*shown.reactions, (emoji, who)]
        event = {
            "user_id": user["id"],
            "channel_id": made["channel_id"],
            "message_id": ident,
            "type": 0,
            "burst": False,
        }
        event |= {"emoji": {"id": None, "name": emoji}, "message_author_id": made["author"]["id"]}
        if "guild_id" in made:
            event |= {"guild_id": self.guild, "member": {**MEMBER, "user": user}}
        self._emit("MESSAGE_REACTION_ADD", event)

    def get_typing(self) -> list[str]:
        with self.changed:
            return list(self.typings)

    def make_app(self) -> Asgi:
        from gatepost_testing.platforms.wire.discord_rest import list_routes

        return Starlette(routes=[*list_routes(self), WebSocketRoute("/", self.gateway.serve)])


def _now() -> str:
    return datetime.now(UTC).isoformat()
