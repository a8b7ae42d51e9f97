"""Messages of Mattermost, read into our words; ours, written in its words. Pure."""

import json
import re
from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import Any

from msgspec import Struct

from gatepost.channels.kit.receiving import make_deletion, make_edit
from gatepost.channels.mattermost.emoji import get_sign
from gatepost.core.errors import NotFound
from gatepost.messages.inbound import Attachment, AttachmentKind, Inbound, OpenFile, Quote, Verb

ID = re.compile(r"[a-z0-9]{26}\Z")
MILLISECOND = 1000
DIRECT_TYPE = "D"
JOINED = frozenset({"system_join_channel", "system_add_to_channel"})
KEY_PROP = "gatepost_key"
MOST_FILES = 10


class SocketEvent(StrEnum):
    """The part of a websocket's event that is read."""

    HELLO = "hello"
    POSTED = "posted"
    EDITED = "post_edited"
    DELETED = "post_deleted"
    REACTED = "reaction_added"


class MattermostRoom(Struct, frozen=True):
    """A channel, as far as an event needs it."""

    id: str
    is_direct: bool = False
    name: str = ""

    @property
    def address(self) -> str:
        return f"mattermost:{'direct' if self.is_direct else 'channel'}/{self.id}"


class MattermostBot(Struct, frozen=True):
    id: str
    name: str


def read_room(channel: Mapping[str, Any]) -> MattermostRoom | None:
    if not ID.match(str(channel.get("id", ""))):
        return None
    direct = channel.get("type") == DIRECT_TYPE
    return MattermostRoom(channel["id"], direct, "" if direct else str(channel.get("display_name", ""))[:200])


def get_channel_id(address: str) -> str:
    """Addresses may come from an agent, so they are checked."""
    kind, _, channel = address.removeprefix("mattermost:").partition("/")
    if kind not in ("channel", "direct") or not ID.match(channel):
        raise NotFound("room", address, "Mattermost's are mattermost:channel/<id> and mattermost:direct/<id>")
    return channel


def get_user_id(sender: str) -> str:
    user = sender.removeprefix("mattermost:user/")
    if not ID.match(user):
        raise NotFound("person", sender, "Mattermost's are mattermost:user/<id>")
    return user


def check_post_id(text: str) -> str:
    if not ID.match(text):
        raise NotFound("message", text[:40])
    return text


def read_json(raw: Any) -> dict[str, Any]:
    """Posts and reactions are JSON within JSON."""
    try:
        found = json.loads(raw) if isinstance(raw, str) else raw
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def is_named(post: Mapping[str, Any], bot: MattermostBot, mentions: Any = None) -> bool:
    listed = read_list(mentions)
    said = re.search(rf"(?<![\w@])@{re.escape(bot.name)}(?![\w-])", str(post.get("message", "")), re.IGNORECASE)
    return bot.id in listed or bool(said)


def read_list(raw: Any) -> list[Any]:
    try:
        found = json.loads(raw) if isinstance(raw, str) else raw
    except (ValueError, RecursionError):
        return []
    return found if isinstance(found, list) else []


def read_post(
    post: Mapping[str, Any],
    room: MattermostRoom,
    bot: MattermostBot,
    open_file: Callable[[str], OpenFile],
    *,
    name: str = "",
    mentions: Any = None,
) -> Inbound | None:
    """A message or somebody who joined; None for other notes of the server."""
    note = str(post.get("type") or "")
    if not ID.match(str(post.get("id", ""))) or (note and not note.startswith("custom_") and note not in JOINED):
        return None
    if note in JOINED:
        return _read_join(post, room, note)
    root = str(post.get("root_id") or "")
    answers = Quote(platform_id=root) if ID.match(root) else None
    named = is_named(post, bot, mentions)
    given = read_json(post.get("props"))
    integrated = is_integration(given)
    return Inbound(
        address=room.address,
        platform_id=post["id"],
        sender=f"mattermost:{'webhook' if integrated else 'user'}/{post.get('user_id', '')}",
        sender_name=(get_shown_name(given) if integrated else "") or name,
        text=str(post.get("message", "")),
        verb=Verb.MENTION if named else Verb.REPLY if answers else Verb.MESSAGE,
        thread=root if answers else "",
        reply_to=answers,
        direct=room.is_direct,
        own=post.get("user_id") == bot.id,
        room_name=room.name,
        at=read_time(post.get("create_at")),
        attachments=_read_files(post, open_file),
    )


def is_integration(props: Mapping[str, Any]) -> bool:
    """Return True if a program wrote the post under somebody's account: a webhook, a slash command, a plugin. It has
    the `user_id` of whoever made it, and must not have their rights. A bot account has an id of its own."""
    by_plugin = _is_set(props.get("from_plugin")) and not _is_set(props.get("from_bot"))
    return _is_set(props.get("from_webhook")) or by_plugin


def _is_set(value: Any) -> bool:
    return str(value or "").lower() not in ("", "false")


def get_shown_name(props: Mapping[str, Any]) -> str:
    return str(props.get("override_username") or props.get("webhook_display_name") or "")[:200]


def _read_join(post: Mapping[str, Any], room: MattermostRoom, note: str) -> Inbound:
    given = read_json(post.get("props"))
    added = note == "system_add_to_channel"
    user = str(given.get("addedUserId") if added else post.get("user_id"))
    name = str(given.get("addedUsername" if added else "username") or "")
    return Inbound(
        address=room.address,
        platform_id=post["id"],
        sender=f"mattermost:user/{user}",
        sender_name=name[:200],
        text="",
        verb=Verb.JOIN,
        room_name=room.name,
        at=read_time(post.get("create_at")),
    )


def read_time(value: Any) -> int | None:
    return int(value) * MILLISECOND if isinstance(value, int) and value > 0 else None


def _read_files(post: Mapping[str, Any], open_file: Callable[[str], OpenFile]) -> tuple[Attachment, ...]:
    described = {str(each.get("id")): each for each in read_list(read_json(post.get("metadata")).get("files"))}
    ids = [each for each in read_list(post.get("file_ids")) if ID.match(str(each))][:MOST_FILES]
    return tuple(_read_file(each, described.get(each, {}), open_file) for each in ids)


def _read_file(file: str, about: Mapping[str, Any], open_file: Callable[[str], OpenFile]) -> Attachment:
    mime = str(about.get("mime_type") or "application/octet-stream")
    kind = next((each for each in AttachmentKind if mime.startswith(f"{each}/")), AttachmentKind.FILE)
    size = about.get("size")
    return Attachment(
        name=str(about.get("name") or file),
        mime=mime,
        kind=kind,
        open=open_file(file),
        size=size if isinstance(size, int) else None,
    )


def read_edit(read: Inbound, post: Mapping[str, Any]) -> Inbound:
    return make_edit(read, post.get("edit_at") or post.get("update_at"))


def read_reaction(reaction: Mapping[str, Any], room: MattermostRoom, bot: MattermostBot, name: str) -> Inbound | None:
    if not ID.match(str(reaction.get("post_id", ""))):
        return None
    sender = f"mattermost:user/{reaction.get('user_id', '')}"
    sign = get_sign(str(reaction.get("emoji_name", "")))
    return Inbound(
        address=room.address,
        platform_id=reaction["post_id"],
        sender=sender,
        sender_name=name,
        text=sign,
        event=f"reaction:{sign}:{sender}",
        direct=room.is_direct,
        own=reaction.get("user_id") == bot.id,
        room_name=room.name,
        at=read_time(reaction.get("create_at")),
    )


def read_missed(inbound: Inbound, post: Mapping[str, Any], since: int) -> list[Inbound]:
    """Return what a post that changed since a moment (milliseconds) means. It may have been received before the change,
    so a changed one is a message and an edit. A post also changes when somebody answers or reacts, which is neither."""
    if post.get("delete_at"):
        return [make_deletion(inbound)]
    found = [inbound] if int(post.get("create_at") or 0) > since else []
    return [*found, read_edit(inbound, post)] if post.get("edit_at") else found
