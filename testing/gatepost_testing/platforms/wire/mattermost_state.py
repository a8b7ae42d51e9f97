"""The state of an emulated Mattermost server: people, channels, posts, files, reactions, and what people do with
them."""

import json
import time
from collections.abc import Sequence
from typing import Any, ClassVar

from gatepost_testing.platforms import pings
from gatepost_testing.platforms.base import GivenFile, GivenMessage, PlatformFault, ShownMessage
from gatepost_testing.platforms.rest import RestPlatform, make_id

BOT, BOT_NAME = make_id("user", "bot"), "porter"
TEAM = make_id("team")
_EMOJI = {"👍": "+1", "👎": "-1", "🎉": "tada", "❤": "heart", "❤️": "heart", "👀": "eyes", "🔥": "fire"}


class MattermostState(RestPlatform):
    kind = "mattermost"
    ping_rule = pings.MATTERMOST
    cannot: ClassVar[frozenset[str]] = frozenset({"click"})
    reads_markdown: ClassVar[bool] = True
    faults = RestPlatform.faults | {PlatformFault.HELD_POLL, PlatformFault.REORDER, PlatformFault.NO_RIGHTS}

    def __init__(self) -> None:
        super().__init__()
        self._people = {BOT: BOT_NAME}
        self._channels: dict[str, dict[str, Any]] = {}
        self._posts: dict[str, dict[str, Any]] = {}
        self._files: dict[str, GivenFile] = {}
        self._reactions: list[dict[str, Any]] = []
        self._typing: list[str] = []
        self._last_time = 0
        self._get_channel("team")

    def get_settings(self) -> dict[str, Any]:
        return {"api_url": self.url}

    def get_secrets(self) -> dict[str, str]:
        return {"token": self.token}

    def get_address(self, room: str) -> str:
        return f"mattermost:{'direct' if room.startswith('direct:') else 'channel'}/{self._get_channel(room)['id']}"

    def get_sender(self, person: str) -> str:
        return f"mattermost:user/{self._get_user(person)}"

    # Actions of people.

    def receive(self, given: GivenMessage) -> str:
        with self.changed:
            root = given.thread or (self._posts[given.reply_to]["root_id"] or given.reply_to if given.reply_to else "")
            said = given.render_named(f"@{BOT_NAME}")
            ids = [self._add_file(each) for each in given.files]
            return str(self._add_post(given.room, self._get_user(given.sender), said, root, ids)["id"])

    def edit(self, room: str, message: str, text: str, *, sender: str = "ann") -> str:
        with self.changed:
            self._edit_post(self._posts[message], text)
        return message

    def delete(self, room: str, message: str, *, sender: str = "ann") -> str:
        with self.changed:
            self._delete_post(self._posts[message])
        return message

    def react(self, room: str, message: str, emoji: str, *, sender: str = "ann") -> str:
        with self.changed:
            self._add_reaction(self._get_user(sender), message, _EMOJI.get(emoji, emoji))
        return message

    def join(self, room: str, *, sender: str = "ann") -> str:
        with self.changed:
            user = self._get_user(sender)
            channel = self._get_channel(room)
            self.deliver(self._event("user_added", channel, {"user_id": user, "team_id": TEAM}))
            given = {"username": sender}
            post = self._add_post(room, user, f"{sender} joined the channel.", kind="system_join_channel", props=given)
            return str(post["id"])

    @property
    def bot_id(self) -> str:
        return BOT

    def get_typing(self) -> list[str]:
        with self.changed:
            return list(self._typing)

    # Effects on the server. Called with `changed` held.

    def _now(self) -> int:
        self._last_time = max(int(time.time() * 1000), self._last_time + 1)
        return self._last_time

    def _get_user(self, person: str) -> str:
        user = BOT if person == "bot" else make_id("user", person)
        self._people.setdefault(user, person)
        return user

    def _get_channel(self, room: str) -> dict[str, Any]:
        with self.changed:
            if room not in self._channels:
                direct = room.startswith("direct:")
                name = f"{BOT}__{self._get_user(room.partition(':')[2])}" if direct else room
                self._channels[room] = {
                    "id": make_id("channel", room),
                    "type": "D" if direct else "O",
                    "name": name,
                    "display_name": "" if direct else room.title(),
                    "team_id": "" if direct else TEAM,
                    "last_post_at": 0,
                    "total_msg_count": 0,
                    "delete_at": 0,
                }
            return self._channels[room]

    def _find_room(self, channel: str) -> str:
        return next((room for room, each in self._channels.items() if each["id"] == channel), "")

    def _add_file(self, file: GivenFile) -> str:
        made = make_id()
        self._files[made] = file
        return made

    def _describe_file(self, file: str) -> dict[str, Any]:
        given = self._files[file]
        return {
            "id": file,
            "name": given.name,
            "extension": given.name.rpartition(".")[2],
            "size": len(given.data),
            "mime_type": given.mime,
        }

    def _add_post(
        self,
        room: str,
        user: str,
        text: str,
        root: str = "",
        files: Sequence[str] = (),
        *,
        kind: str = "",
        props: dict[str, Any] | None = None,
    ) -> dict[str, Any]:
        channel, now = self._get_channel(room), self._now()
        post: dict[str, Any] = {
            "id": make_id(),
            "create_at": now,
            "update_at": now,
            "edit_at": 0,
            "delete_at": 0,
            "is_pinned": False,
            "user_id": user,
            "channel_id": channel["id"],
            "root_id": root,
            "message": text,
            "type": kind,
            "props": props or {},
            "hashtags": "",
            "file_ids": list(files),
            "metadata": {"files": [self._describe_file(each) for each in files]} if files else {},
        }
        self._posts[post["id"]] = post
        if root in self._posts:
            self._posts[root]["update_at"] = now
        channel["last_post_at"] = now
        channel["total_msg_count"] += 1
        if not kind:
            self._show(room, post)
        self._announce(post, channel, user, text)
        return post

    def _announce(self, post: dict[str, Any], channel: dict[str, Any], user: str, text: str) -> None:
        named = [BOT] if f"@{BOT_NAME}" in text or channel["type"] == "D" else []
        about = {
            "channel_display_name": channel["display_name"],
            "channel_name": channel["name"],
            "channel_type": channel["type"],
            "post": json.dumps(post),
            "sender_name": f"@{self._people[user]}",
            "team_id": TEAM,
            "set_online": True,
            **({"mentions": json.dumps(named)} if named else {}),
        }
        self.deliver(self._event("posted", channel, about))

    def _show(self, room: str, post: dict[str, Any]) -> None:
        self.record.append(
            ShownMessage(
                id=post["id"],
                room=room,
                sender="bot" if post["user_id"] == BOT else self._people[post["user_id"]],
                text=post["message"],
                raw=post,
                thread=post["root_id"],
                files=[self._files[each] for each in post["file_ids"]],
                key=str(post["props"].get("gatepost_key", "")),
            )
        )

    def _edit_post(self, post: dict[str, Any], text: str) -> None:
        post["edit_at"] = post["update_at"] = self._now()
        post["message"] = text
        shown = self.find(post["id"])
        shown.text, shown.edits = text, shown.edits + 1
        self._deliver_post("post_edited", post)

    def _delete_post(self, post: dict[str, Any]) -> None:
        post["delete_at"] = post["update_at"] = self._now()
        self.find(post["id"]).deleted = True
        self._deliver_post("post_deleted", post)

    def _deliver_post(self, name: str, post: dict[str, Any]) -> None:
        channel = self._channels[self._find_room(post["channel_id"])]
        self.deliver(self._event(name, channel, {"post": json.dumps(post)}))

    def _add_reaction(self, user: str, message: str, name: str) -> dict[str, Any]:
        post = self._posts[message]
        made = {"user_id": user, "post_id": message, "emoji_name": name, "create_at": self._now()}
        self._reactions.append(made)
        post["update_at"] = made["create_at"]
        who = "bot" if user == BOT else self._people[user]
        sign = next((sign for sign, each in _EMOJI.items() if each == name), name)
        self.find(message).reactions.append((sign, who))
        channel = self._channels[self._find_room(post["channel_id"])]
        self.deliver(self._event("reaction_added", channel, {"reaction": json.dumps(made)}))
        return made

    def _event(self, name: str, channel: dict[str, Any], data: dict[str, Any]) -> dict[str, Any]:
        about = {"omit_users": None, "user_id": "", "channel_id": channel["id"], "team_id": channel["team_id"]}
        return {"event": name, "data": data, "broadcast": about, "number": make_id()}
