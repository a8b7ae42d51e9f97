"""An emulated Slack: one workspace, its channels and direct messages, the Web API, Socket Mode, and signed hooks.

It covers messages with threads, blocks and metadata, edits, deletions, reactions, pins and files in three steps. It has
clicks and ticked boxes, the assistant's pane, history, names and scopes, too. An envelope that was not acknowledged
comes again with the next connection, and at once if its acknowledgement was lost; the real platform waits longer. It
does not cover: other workspaces, user tokens, modals, slash commands, unfurling, search and rate limits. People do not
quote here: an answer to a message is an answer in its thread.
"""

import json
import time
from collections.abc import Sequence
from typing import Any

from starlette.applications import Starlette
from starlette.routing import WebSocketRoute

from gatepost.channels.slack.wire import read_emoji, render_emoji
from gatepost_testing.platform_rules.slack import check_slash_commands
from gatepost_testing.platforms import pings
from gatepost_testing.platforms.base import Asgi, EmulatedPlatform, GivenFile, GivenMessage, PlatformFault, ShownMessage
from gatepost_testing.platforms.wire.slack_socket import EmulatedSocketMode
from gatepost_testing.platforms.wire.slack_text import list_labels, read_words

BOT_TOKEN, APP_TOKEN, SIGNING_SECRET = "xoxb-emulated", "xapp-emulated", "emulated-signing-secret"
SENDING = (
    PlatformFault.FORBIDDEN,
    PlatformFault.RATE_LIMIT,
    PlatformFault.BUSY,
    PlatformFault.NO_ANSWER,
)
SCOPES = (
    "chat:write,channels:history,groups:history,im:history,mpim:history,im:write,channels:read,groups:read,mpim:read,"
    "users:read,"
    "reactions:read,reactions:write,files:read,files:write,pins:read,pins:write,assistant:write,commands"
)


class SlackPlatform(EmulatedPlatform):
    kind = "slack"
    hook_secret = SIGNING_SECRET
    ping_rule = pings.SLACK
    team = "T0EMULATED"

    def __init__(self) -> None:
        super().__init__()
        self._last_ts = 0
        self._count = 0
        self.bot = {"id": "U0BOT", "name": "gatepost", "real_name": "The Gate Post", "bot_id": "B0BOT"}
        self.own_emoji = {"our_logo"}  # of this workspace
        self.people: dict[str, str] = {}  # id by short name
        self.channels: dict[str, str] = {}  # room by id
        self.messages: dict[tuple[str, str], dict[str, Any]] = {}  # by channel and ts, as the API gives them
        self.files: dict[str, dict[str, Any]] = {}
        self.contents: dict[str, GivenFile] = {}
        self.typings: list[str] = []
        self.commands: set[str] = set()  # of its manifest, with their slashes
        self.unpinned: set[tuple[str, str]] = set()  # channel and ts of what was pinned once
        self.panes: set[str] = set()  # threads of the assistant
        self.titles: dict[str, str] = {}  # by thread
        self.prompts: dict[str, list[dict[str, str]]] = {}
        self.granted, self.app_granted = SCOPES, "connections:write"
        self.lacking = ""  # a scope without which the next send is refused
        self.moving = False  # the workspace, into an organization
        self.socket = EmulatedSocketMode(self.claim_fault, self.is_faulty, self.notify, self.list_connections)
        self.find_channel("team")

    def get_settings(self) -> dict[str, Any]:
        return {"api_url": f"{self.url}/api/", "ping_s": 0.3}

    def get_secrets(self) -> dict[str, str]:
        return {"token": BOT_TOKEN, "app_token": APP_TOKEN, "signing_secret": self.hook_secret}

    def get_address(self, room: str) -> str:
        return f"slack:{self.team}/channel/{self.find_channel(room)}"

    def get_sender(self, person: str) -> str:
        return f"slack:{self.team}/user/{self.find_person(person)}"

    # Contents.

    def make_ts(self) -> str:
        self._last_ts = max(self._last_ts + 1, int(time.time() * 1_000_000))
        return f"{self._last_ts // 1_000_000}.{self._last_ts % 1_000_000:06d}"

    def make_id(self, kind: str) -> str:
        self._count += 1
        return f"{kind}{self._count:08d}"

    def find_person(self, name: str) -> str:
        with self.changed:
            if name not in self.people:
                self.people[name] = self.make_id("U")
            return self.people[name]

    def find_name(self, ident: str) -> str:
        return next((name for name, each in self.people.items() if each == ident), "bot")

    def find_channel(self, room: str) -> str:
        with self.changed:
            for ident, name in self.channels.items():
                if name == room:
                    return ident
            made = self.make_id("D" if room.startswith("direct:") else "C")
            self.channels[made] = room
            return made

    def find_message(self, ident: str) -> dict[str, Any]:
        return next(each for (_, ts), each in self.messages.items() if ts == ident)

    def emit(self, event: dict[str, Any], kind: str = "events_api") -> None:
        """To the bot, if it listens; else when it comes back."""
        payload = self.wrap(event) if kind == "events_api" else event
        actor = event.get("user") if kind == "events_api" else None
        by_bot = actor == self.bot["id"] or (event.get("message") or {}).get("user") == self.bot["id"]
        with self.changed:
            if self.port:
                self.call_soon(self.socket.deliver, kind, json.loads(json.dumps(payload)), by_bot)
            self.changed.notify_all()

    def wrap(self, event: dict[str, Any]) -> dict[str, Any]:
        """As both ways deliver it."""
        return {
            "token": "unused",
            "team_id": self.team,
            "api_app_id": "A0EMULATED",
            "event": {**event, "event_ts": event.get("event_ts") or event.get("ts") or self.make_ts()},
            "type": "event_callback",
            "event_id": self.make_id("Ev"),
            "event_time": int(time.time()),
            "authorizations": [{"team_id": self.team, "user_id": self.bot["id"], "is_bot": True}],
        }

    def fault(self, *faults: PlatformFault) -> None:
        super().fault(*faults)
        self.call_soon(self.socket.set_held, PlatformFault.HELD_POLL in self._lasting)
        if PlatformFault.UNAUTHORIZED in faults or PlatformFault.CONFLICT in faults:
            self.call_soon(self.socket.close_all)

    def heal(self) -> None:
        super().heal()
        self.call_soon(self.socket.set_held, False)

    # Actions of people.

    def receive(self, given: GivenMessage) -> str:
        with self.changed:
            channel, written = self.find_channel(given.room), escape(given.text)
            body: dict[str, Any] = {"text": f"<@{self.bot['id']}> {written}" if given.mention else written}
            if given.files:
                body |= {"subtype": "file_share", "files": [self.add_file(each) for each in given.files]}
            if given.thread or given.reply_to:
                body["thread_ts"] = given.thread or given.reply_to
            made = self.add_message(channel, self.find_person(given.sender), body)
            if given.mention:
                self.emit({**made, "type": "app_mention", "channel": channel})
            return str(made["ts"])

    def edit(self, room: str, message: str, text: str, *, sender: str = "ann") -> str:
        with self.changed:
            self.change_message(self.find_channel(room), message, {"text": escape(text)})
        return message

    def delete(self, room: str, message: str, *, sender: str = "ann") -> str:
        with self.changed:
            self.remove_message(self.find_channel(room), message)
        return message

    def react(self, room: str, message: str, emoji: str, *, sender: str = "ann") -> str:
        with self.changed:
            channel = self.find_channel(room)
            self.add_reaction(channel, message, render_emoji(emoji), self.find_person(sender), sender)
        return message

    def join(self, room: str, *, sender: str = "ann") -> str:
        with self.changed:
            person = self.find_person(sender)
            body = {"subtype": "channel_join", "text": f"<@{person}> has joined the channel"}
            return str(self.add_message(self.find_channel(room), person, body)["ts"])

    def install(self, slash_commands: Sequence[dict[str, Any]]) -> None:
        """The app with these `features.slash_commands` in its manifest. It refuses what Slack refuses there."""
        check_slash_commands(slash_commands)
        self.commands = {each["command"] for each in slash_commands}

    def give_command(self, command: str, text: str = "", *, room: str = "team", sender: str = "ann") -> str:
        """Somebody gives a slash command of the app; the id of its trigger. It makes no message in the room."""
        with self.changed:
            made = self.make_command(command, text, room=room, sender=sender)
            self.emit(made, "slash_commands")
            return str(made["trigger_id"])

    def make_command(self, command: str, text: str = "", *, room: str = "team", sender: str = "ann") -> dict[str, Any]:
        """Return a slash command as the platform sends it, in a form or in an envelope."""
        assert command in self.commands, "the manifest does not have it"
        return {
            "token": "unused",
            "team_id": self.team,
            "team_domain": "emulated",
            "channel_id": self.find_channel(room),
            "channel_name": room,
            "user_id": self.find_person(sender),
            "user_name": sender,
            "command": command,
            "text": text,
            "api_app_id": "A0EMULATED",
            "is_enterprise_install": "false",
            "response_url": f"{self.url}/commands/unused",
            "trigger_id": f"{self.make_id('1')}.2.3ab",
        }

    def get_title(self, thread: str) -> str:
        with self.changed:
            return str(self.titles.get(thread, ""))

    def open_pane(self, person: str = "ann") -> str:
        """Somebody opens the assistant; the thread that begins."""
        with self.changed:
            channel, ts = self.find_channel(f"direct:{person}"), self.make_ts()
            self.panes.add(ts)
            pane = {"user_id": self.find_person(person), "channel_id": channel, "thread_ts": ts, "context": {}}
            self.emit({"type": "assistant_thread_started", "assistant_thread": pane})
            return ts

    def click(self, room: str, message: str, label: str, *, sender: str = "ann") -> str:
        return self.choose(room, message, [label], sender=sender)

    def choose(self, room: str, message: str, labels: Sequence[str], *, sender: str = "ann") -> str:
        """The same for several boxes, and the button below them."""
        with self.changed:
            self.emit(self.make_click(room, message, labels, sender), "interactive")
        return message

    def make_click(self, room: str, message: str, labels: Sequence[str], sender: str = "ann") -> dict[str, Any]:
        """Return what the platform says of it."""
        channel, shown = self.find_channel(room), self.find_message(message)
        parts = [part for block in shown.get("blocks") or () for part in block.get("elements") or ()]
        boxes = [part for part in parts if part["type"] == "checkboxes"]
        buttons = [part for part in parts if part["type"] == "button"]
        state: dict[str, Any] = {"values": {}}
        if boxes:
            chosen = [each for each in boxes[0]["options"] if each["text"]["text"] in labels]
            state["values"] = {"choices": {"boxes": {"type": "checkboxes", "selected_options": chosen}}}
            pressed = buttons[0]
        else:
            pressed = next(each for each in buttons if each["text"]["text"] == labels[0])
        person = self.find_person(sender)
        return {
            "type": "block_actions",
            "team": {"id": self.team},
            "user": {"id": person, "username": sender, "name": sender, "team_id": self.team},
            "container": {"type": "message", "message_ts": message, "channel_id": channel, "is_ephemeral": False},
            "channel": {"id": channel, "name": room},
            "trigger_id": self.make_id("trigger"),
            "message": shown,
            "state": state,
            "actions": [{**pressed, "action_ts": self.make_ts()}],
        }

    # Changes of messages, by anybody.

    def add_message(self, channel: str, user: str, body: dict[str, Any]) -> dict[str, Any]:
        ts, room = self.make_ts(), self.channels[channel]
        made: dict[str, Any] = {"type": "message", "user": user, "team": self.team, "ts": ts}
        made |= {name: value for name, value in body.items() if name not in ("channel", "token")}
        if user == self.bot["id"]:
            made |= {"bot_id": self.bot["bot_id"], "app_id": "A0EMULATED"}
        root = self.messages.get((channel, str(made.get("thread_ts"))))
        if root is not None:
            made["parent_user_id"] = root["user"]
        self.messages[channel, ts] = made
        files = [self.contents[each["id"]] for each in made.get("files") or ()]
        self.record.append(
            ShownMessage(
                id=ts,
                room=room,
                sender="bot" if user == self.bot["id"] else self.find_name(user),
                text=read_words(made),
                raw=body,
                thread=str(made.get("thread_ts") or ""),
                files=files,
                buttons=list_labels(made),
                key=str(((made.get("metadata") or {}).get("event_payload") or {}).get("key") or ""),
            )
        )
        event = {name: value for name, value in made.items() if name != "metadata"}
        self.emit({**event, "channel": channel, "channel_type": "im" if channel[0] == "D" else "channel"})
        return made

    def add_file(self, file: GivenFile) -> dict[str, Any]:
        ident = self.make_id("F")
        self.contents[ident] = file
        url = f"{self.url}/files-pri/{ident}/{file.name}"
        made = {"id": ident, "name": file.name, "title": file.name, "mimetype": file.mime, "size": len(file.data)}
        self.files[ident] = {**made, "url_private": url, "url_private_download": url, "shares": {}}
        return self.files[ident]

    def change_message(self, channel: str, ts: str, body: dict[str, Any]) -> dict[str, Any]:
        made = self.messages[channel, ts]
        before, shown = dict(made), self.find(ts)
        made |= {name: body[name] for name in ("text", "blocks", "metadata") if name in body}
        made["edited"] = {"user": made["user"], "ts": self.make_ts()}
        shown.text, shown.buttons, shown.raw = read_words(made), list_labels(made), body
        shown.edits += 1
        event = {"type": "message", "subtype": "message_changed", "hidden": True, "channel": channel}
        event |= {"ts": self.make_ts(), "message": dict(made), "previous_message": before}
        self.emit({**event, "channel_type": "im" if channel[0] == "D" else "channel"})
        return made

    def remove_message(self, channel: str, ts: str) -> None:
        before = self.messages.pop((channel, ts))
        self.find(ts).deleted = True
        event = {"type": "message", "subtype": "message_deleted", "hidden": True, "channel": channel, "deleted_ts": ts}
        self.emit({**event, "ts": self.make_ts(), "previous_message": before})

    def add_reaction(self, channel: str, ts: str, name: str, user: str, who: str) -> bool:
        shown = self.find(ts)
        emoji = read_emoji(name)
        if (emoji, who) in shown.reactions:
            return False
        shown.reactions = [*shown.reactions, (emoji, who)]
        item = {"type": "message", "channel": channel, "ts": ts}
        event = {"type": "reaction_added", "user": user, "reaction": name, "item": item}
        self.emit({**event, "item_user": self.messages[channel, ts]["user"], "event_ts": self.make_ts()})
        return True

    def get_typing(self) -> list[str]:
        with self.changed:
            return list(self.typings)

    def make_app(self) -> Asgi:
        from gatepost_testing.platforms.wire.slack_api import list_routes

        return Starlette(routes=[*list_routes(self), WebSocketRoute("/link", self.socket.serve)])


def escape(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
