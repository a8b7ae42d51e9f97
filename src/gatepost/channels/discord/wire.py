"""Discord's messages in our words. Pure: a payload and what is known of its room in, an `Inbound` out.

A room is `discord:<server>/channel/<id>` or `discord:dm/<id>`; a thread is a channel of its own there, and a thread of
its parent here. A person is `discord:user/<id>`, another program `discord:bot/<id>` or `discord:webhook/<id>`.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from msgspec import Struct

from gatepost.channels.contract import MYSELF
from gatepost.channels.kit.native_commands import ShownCommand, render_given
from gatepost.channels.kit.receiving import make_edit
from gatepost.core.clock import SECOND
from gatepost.core.records import replace
from gatepost.messages.card import join_clicks
from gatepost.messages.inbound import CLICK, Attachment, AttachmentKind, Inbound, OpenFile, Quote, Verb

EPOCH_MS = 1420070400000
_ID = re.compile(r"[0-9]{1,20}\Z")
_ROOM = re.compile(r"discord:(?:([0-9]{1,20})/channel|dm)/([0-9]{1,20})\Z")
_COMMAND = re.compile(r"[-_a-z0-9]{1,32}\Z")
_NAMED = re.compile(r"<@!?([0-9]{1,20})>")
WRITTEN = frozenset({0, 19, 20, 23})  # message, reply, and what an application's command said
JOINED = 7
MOST_FILES = 10
MOST_CHOSEN = 25
VOICE_FLAG = 1 << 13

Payload = Mapping[str, Any]
OpenUrl = Callable[[str], OpenFile]


class DiscordRoom(Struct, frozen=True):
    """The place of a channel of Discord for us."""

    address: str
    thread: str = ""
    direct: bool = False
    name: str = ""


class DiscordSelf(Struct, frozen=True):
    """Our own account there."""

    id: str = ""
    name: str = ""


def is_id(value: object) -> bool:
    return isinstance(value, str) and _ID.match(value) is not None


def read_room(channel: Payload, parent: Payload | None = None) -> DiscordRoom | None:
    """None for what is no room of ours (a category, a group of people), or not well-formed."""
    kind, ident = channel.get("type"), channel.get("id")
    if not is_id(ident):
        return None
    if kind == 1:
        return DiscordRoom(f"discord:dm/{ident}", direct=True)
    guild, name = channel.get("guild_id"), str(channel.get("name") or "")[:100]
    if not is_id(guild) or kind in (3, 4):
        return None
    if kind in (10, 11, 12):
        above = channel.get("parent_id")
        named = str((parent or {}).get("name") or name)[:100]
        return DiscordRoom(f"discord:{guild}/channel/{above}", str(ident), name=named) if is_id(above) else None
    return DiscordRoom(f"discord:{guild}/channel/{ident}", name=name)


def parse_room(address: str) -> tuple[str, str] | None:
    """(server or '', channel) of an address; None if it is none of ours."""
    found = _ROOM.match(address)
    return (found[1] or "", found[2]) if found else None


def parse_person(sender: str) -> str:
    """The id of `discord:user/<id>`; '' if it is no such thing."""
    kind, _, ident = sender.partition("/")
    return ident if kind == "discord:user" and is_id(ident) else ""


def to_snowflake(at: int) -> int:
    """The smallest id of a moment (microseconds UTC)."""
    return max(at // 1000 - EPOCH_MS, 0) << 22


def from_snowflake(ident: str) -> int:
    """When it was made, microseconds UTC."""
    return ((int(ident) >> 22) + EPOCH_MS) * 1000


def read_time(text: object) -> int | None:
    try:
        moment = datetime.fromisoformat(str(text))
    except ValueError:
        return None
    return int((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * SECOND)


def read_sender(user: Payload, webhook: object = None) -> tuple[str, str]:
    """(address, name)."""
    name = str(user.get("global_name") or user.get("username") or "")[:100]
    if webhook:
        return f"discord:webhook/{webhook if is_id(webhook) else 'unknown'}", name
    ident = user.get("id")
    kind = "bot" if user.get("bot") else "user"
    return f"discord:{kind}/{ident if is_id(ident) else 'unknown'}", name


def read_message(message: Payload, room: DiscordRoom, me: DiscordSelf, open_url: OpenUrl) -> Inbound | None:
    """A new message, or somebody's joining; None for a notice of the platform."""
    kind, ident = message.get("type", 0), message.get("id")
    if not is_id(ident) or (kind not in WRITTEN and kind != JOINED):
        return None
    author = message.get("author") or {}
    sender, name = read_sender(author, message.get("webhook_id"))
    own = bool(me.id) and author.get("id") == me.id
    member = message.get("member") or {}
    return Inbound(
        address=room.address,
        platform_id=str(ident),
        sender=sender,
        sender_name=str(member.get("nick") or name)[:100],
        text="" if kind == JOINED else read_text(message),
        verb=Verb.JOIN if kind == JOINED else _read_verb(message, me),
        thread=room.thread,
        direct=room.direct,
        own=own,
        room_name=room.name,
        at=from_snowflake(str(ident)),
        reply_to=_read_quote(message, me),
        forwarded=_is_forwarded(message),
        attachments=_read_files(message, open_url),
    )


def read_text(message: Payload) -> str:
    """The words, with people's names in the place of their ids. A forwarded message has its words in a snapshot."""
    text = str(message.get("content") or "")
    snapshots = message.get("message_snapshots") or ()
    if not text and snapshots:
        text = str((snapshots[0].get("message") or {}).get("content") or "")
    if not text and not (message.get("attachments") or snapshots):
        return _describe(message)
    names = {each.get("id"): each.get("global_name") or each.get("username") for each in message.get("mentions") or ()}
    return _NAMED.sub(lambda found: f"@{names[found[1]]}" if names.get(found[1]) else found[0], text)


def _is_forwarded(message: Payload) -> bool:
    """Return True if a message has nothing but a snapshot of another one. The platform does not say whose that was."""
    return bool(message.get("message_snapshots")) and not message.get("content")


def _describe(message: Payload) -> str:
    """A line for what is neither words nor a file; '' if there is nothing."""
    if isinstance(poll := message.get("poll"), dict):
        answers = [str((each.get("poll_media") or {}).get("text") or "") for each in (poll.get("answers") or ())[:10]]
        return f"[poll: {(poll.get('question') or {}).get('text')} — {' / '.join(answers)}]"
    if stickers := message.get("sticker_items"):
        return f"[sticker: {', '.join(str(each.get('name') or '')[:100] for each in stickers[:3])}]"
    kinds = [name for name in ("embeds", "components", "activity", "application") if message.get(name)]
    return f"[a message of a kind that is not understood here: {kinds[0]}]" if kinds else ""


def _read_verb(message: Payload, me: DiscordSelf) -> Verb:
    if any(found == me.id for found in _NAMED.findall(str(message.get("content") or ""))):
        return Verb.MENTION
    answered = message.get("referenced_message") or {}
    return Verb.REPLY if (answered.get("author") or {}).get("id") == me.id else Verb.MESSAGE


def _read_quote(message: Payload, me: DiscordSelf) -> Quote | None:
    reference = message.get("message_reference") or {}
    ident = reference.get("message_id")
    if message.get("type") != 19 or not is_id(ident):
        return None
    answered = message.get("referenced_message") or {}
    author = answered.get("author") or {}
    sender = MYSELF if author.get("id") == me.id else read_sender(author, answered.get("webhook_id"))[0]
    return Quote(platform_id=str(ident), sender=sender if author else "", text=read_text(answered))


def _read_files(message: Payload, open_url: OpenUrl) -> tuple[Attachment, ...]:
    snapshots: Sequence[Payload] = message.get("message_snapshots") or ({},)
    given = message.get("attachments") or (snapshots[0].get("message") or {}).get("attachments") or ()
    return tuple(_read_file(each, open_url) for each in given[:MOST_FILES] if each.get("url"))


def _read_file(file: Payload, open_url: OpenUrl) -> Attachment:
    mime = str(file.get("content_type") or "application/octet-stream").partition(";")[0]
    family = mime.partition("/")[0]
    kind = AttachmentKind(family) if family in ("image", "audio", "video") else AttachmentKind.FILE
    size = file.get("size")
    return Attachment(
        name=str(file.get("filename") or "file")[:200],
        mime=mime,
        kind=kind,
        size=size if isinstance(size, int) else None,
        open=open_url(str(file["url"])),
    )


def read_edit(message: Payload, room: DiscordRoom, me: DiscordSelf, open_url: OpenUrl) -> Inbound | None:
    """None where nobody changed anything: a preview of a link was added."""
    revision = read_time(message.get("edited_timestamp"))
    made = read_message(message, room, me, open_url) if revision is not None and message.get("author") else None
    if made is None or made.verb is Verb.JOIN:
        return None
    return replace(make_edit(made, revision, revision), reply_to=made.reply_to)


def read_delete(ident: object, room: DiscordRoom, author: tuple[str, str, bool] | None) -> Inbound | None:
    """The platform does not say who did it. `author`: who wrote it, as far as that is still known."""
    if not is_id(ident):
        return None
    sender, name, own = author or ("discord:user/unknown", "", False)
    return Inbound(
        address=room.address,
        platform_id=str(ident),
        sender=sender,
        sender_name=name,
        text="",
        event="delete",
        verb=Verb.DELETE,
        thread=room.thread,
        direct=room.direct,
        own=own,
        room_name=room.name,
    )


def read_reaction(event: Payload, room: DiscordRoom, me: DiscordSelf) -> Inbound | None:
    message, user = event.get("message_id"), event.get("user_id")
    emoji = str((event.get("emoji") or {}).get("name") or "")[:64]
    if not is_id(message) or not is_id(user) or not emoji:
        return None
    person = (event.get("member") or {}).get("user") or {"id": user}
    sender, name = read_sender(person)
    return Inbound(
        address=room.address,
        platform_id=str(message),
        sender=sender,
        sender_name=str((event.get("member") or {}).get("nick") or name)[:100],
        text="",
        event=f"reaction:{emoji}:{sender}",
        verb=Verb.LIKE,
        thread=room.thread,
        direct=room.direct,
        own=user == me.id,
        room_name=room.name,
    )


def read_click(event: Payload, room: DiscordRoom) -> Inbound | None:
    """A pressed button, or the choices of a menu."""
    data, ident = event.get("data") or {}, event.get("id")
    if event.get("type") != 3 or not is_id(ident):
        return None
    person = (event.get("member") or {}).get("user") or event.get("user") or {}
    sender, name = read_sender(person)
    chosen = [str(each)[:100] for each in (data.get("values") or ())[:MOST_CHOSEN]]
    click = join_clicks(chosen) if chosen else str(data.get("custom_id") or "")[:100]
    return Inbound(
        address=room.address,
        platform_id=str(ident),
        sender=sender,
        sender_name=str((event.get("member") or {}).get("nick") or name)[:100],
        text="",
        event=CLICK,
        click=click,
        thread=room.thread,
        direct=room.direct,
        room_name=room.name,
        at=from_snowflake(str(ident)),
    )


def is_command(event: Payload) -> bool:
    return event.get("type") == 2 and (event.get("data") or {}).get("type", 1) == 1


def read_command(event: Payload, room: DiscordRoom, commands: Sequence[ShownCommand]) -> Inbound | None:
    """A command of the menu, as its person would have typed it; None if it has no plain name."""
    data, ident = event.get("data") or {}, event.get("id")
    name = str(data.get("name") or "")
    if not is_id(ident) or not _COMMAND.match(name):
        return None
    person = (event.get("member") or {}).get("user") or event.get("user") or {}
    sender, called = read_sender(person)
    words = " ".join(str(each.get("value") or "") for each in (data.get("options") or ())[:MOST_CHOSEN])
    return Inbound(
        address=room.address,
        platform_id=str(ident),
        sender=sender,
        sender_name=str((event.get("member") or {}).get("nick") or called)[:100],
        text=render_given(commands, name, words),
        verb=Verb.MENTION,  # it names this bot
        thread=room.thread,
        direct=room.direct,
        room_name=room.name,
        at=from_snowflake(str(ident)),
    )
