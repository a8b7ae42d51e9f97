"""Messages of Zulip, read into our words, and addresses and emoji in its words. Pure."""

import re
from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import Any

from msgspec import Struct

from gatepost.core.clock import SECOND
from gatepost.core.errors import Invalid, NotFound
from gatepost.messages.inbound import Attachment, AttachmentKind, Inbound, OpenFile, Verb

ADDED = "add"  # the operation of a reaction that is new
MOST_PEOPLE = 20  # of a group conversation
MOST_FILES = 10
_UPLOAD = re.compile(r"\[([^\[\]\n]{0,300})\]\((/user_uploads/[\w./%~+-]{1,500})\)")
_KINDS = {
    AttachmentKind.IMAGE: ("png", "jpg", "jpeg", "gif", "webp", "svg"),
    AttachmentKind.AUDIO: ("mp3", "ogg", "opus", "wav", "m4a"),
    AttachmentKind.VIDEO: ("mp4", "webm", "mov"),
}
_VARIANT = 0xFE0F


class QueueEvent(StrEnum):
    MESSAGE = "message"
    EDITED = "update_message"
    DELETED = "delete_message"
    REACTED = "reaction"


class ZulipPlace(Struct, frozen=True):
    """The place of a message. `stream` is 0 for a direct one."""

    stream: int = 0
    people: tuple[int, ...] = ()

    @property
    def address(self) -> str:
        if self.stream:
            return f"zulip:stream/{self.stream}"
        kind = "direct" if len(self.people) == 1 else "group"
        return f"zulip:{kind}/{'-'.join(map(str, self.people))}"


class ZulipSeen(Struct, frozen=True):
    """Facts of a message that are remembered, for events that name it by its number alone."""

    address: str
    thread: str
    sender: str
    is_direct: bool


def parse_address(address: str) -> ZulipPlace:
    """Addresses may come from an agent, so they are checked."""
    kind, _, rest = address.removeprefix("zulip:").partition("/")
    people = tuple(read_number(each) for each in rest.split("-", MOST_PEOPLE))
    if all(people):
        if kind == "stream" and len(people) == 1:
            return ZulipPlace(stream=people[0])
        if kind == ("direct" if len(people) == 1 else "group"):
            return ZulipPlace(people=tuple(sorted(people)))
    raise NotFound("room", address, "Zulip's are zulip:stream/<id>, zulip:direct/<user> and zulip:group/<user>-<user>")


def read_number(text: Any) -> int:
    """A positive number, else 0."""
    if isinstance(text, int) and not isinstance(text, bool):
        return max(text, 0)
    return int(text) if isinstance(text, str) and text.isascii() and text.isdecimal() and len(text) <= 18 else 0


def check_message_id(text: str) -> int:
    number = read_number(text)
    if not number:
        raise NotFound("message", text[:40])
    return number


def read_place(message: Mapping[str, Any], me: int) -> ZulipPlace | None:
    stream = read_number(message.get("stream_id"))
    if stream:
        return ZulipPlace(stream=stream)
    listed = message.get("display_recipient")
    if not isinstance(listed, list):
        return None
    found = {read_number(each.get("id")) for each in listed if isinstance(each, Mapping)} - {0, me}
    people = tuple(sorted(found)) or (me,)
    return ZulipPlace(people=people) if len(people) <= MOST_PEOPLE else None


def read_message(
    message: Mapping[str, Any], flags: Any, me: int, open_file: Callable[[str], OpenFile]
) -> Inbound | None:
    number, place = read_number(message.get("id")), read_place(message, me)
    if not number or place is None:
        return None
    sender, at = read_number(message.get("sender_id")), read_number(message.get("timestamp"))
    text, attachments = read_uploads(str(message.get("content") or ""), open_file)
    named = isinstance(flags, list) and "mentioned" in flags
    return Inbound(
        address=place.address,
        platform_id=str(number),
        sender=f"zulip:user/{sender}",
        sender_name=str(message.get("sender_full_name") or "")[:200],
        text=text,
        verb=Verb.MENTION if named else Verb.MESSAGE,
        thread=str(message.get("subject") or "")[:200] if place.stream else "",
        direct=not place.stream and len(place.people) == 1,
        own=sender == me,
        room_name=str(message.get("display_recipient") or "")[:200] if place.stream else "",
        at=at * SECOND if at else None,
        attachments=attachments,
    )


def read_uploads(content: str, open_file: Callable[[str], OpenFile]) -> tuple[str, tuple[Attachment, ...]]:
    """Files are links in the text."""
    found = [(name, path) for name, path in _UPLOAD.findall(content) if ".." not in path][:MOST_FILES]
    return strip_uploads(content) if found else content, tuple(
        Attachment(name=name or path.rpartition("/")[2], kind=_find_kind(path), open=open_file(path))
        for name, path in found
    )


def strip_uploads(content: str) -> str:
    """A link on a line of its own is left out, another stays as its name."""
    lines = [line for line in content.split("\n") if not line.strip() or _UPLOAD.sub("", line).strip()]
    return _UPLOAD.sub(lambda match: match[1], "\n".join(lines)).strip("\n")


def _find_kind(path: str) -> AttachmentKind:
    ending = path.rpartition(".")[2].lower()
    return next((kind for kind, endings in _KINDS.items() if ending in endings), AttachmentKind.FILE)


def read_edit(event: Mapping[str, Any], number: int, seen: ZulipSeen, me: int) -> Inbound:
    """The new text stands in the event: the message itself may be gone by now."""
    text = strip_uploads(str(event.get("content") or ""))
    return Inbound(
        address=seen.address,
        platform_id=str(number),
        sender=seen.sender,
        text=text,
        event=f"edit:{read_number(event.get('edit_timestamp'))}-{read_number(event.get('id'))}",
        verb=Verb.EDIT,
        thread=seen.thread,
        direct=seen.is_direct,
        own=seen.sender == f"zulip:user/{me}",
    )


def read_deletion(number: int, seen: ZulipSeen) -> Inbound:
    return Inbound(
        address=seen.address,
        platform_id=str(number),
        sender=seen.sender,
        text="",
        event="delete",
        verb=Verb.DELETE,
        thread=seen.thread,
        direct=seen.is_direct,
    )


def read_reaction(event: Mapping[str, Any], number: int, seen: ZulipSeen, me: int) -> Inbound:
    user = read_number(event.get("user_id"))
    sender, sign = f"zulip:user/{user}", read_emoji(event)
    return Inbound(
        address=seen.address,
        platform_id=str(number),
        sender=sender,
        text=sign,
        event=f"reaction:{sign}:{sender}",
        thread=seen.thread,
        direct=seen.is_direct,
        own=user == me,
    )


def read_emoji(event: Mapping[str, Any]) -> str:
    """The sign by its code, else the name of an emoji of the organization's own."""
    code, name = str(event.get("emoji_code", ""))[:60], str(event.get("emoji_name", ""))
    try:
        return "".join(chr(int(each, 16)) for each in code.split("-"))
    except (ValueError, OverflowError):
        return name if re.fullmatch(r"[\w+-]{1,64}", name) else "unknown"


def render_code(sign: str) -> str:
    """An emoji as Zulip counts them: code points in hexadecimal."""
    return "-".join(f"{ord(each):04x}" for each in sign if ord(each) != _VARIANT)


def find_emoji_name(reaction: str, names: Mapping[str, Any]) -> str:
    """The name of an emoji by the server's own table, or a name that is one already."""
    known = names.get(render_code(reaction)) if len(reaction) <= 16 else None
    if isinstance(known, list) and known:
        return str(known[0])
    name = reaction.strip(":").lower()
    if not re.fullmatch(r"[a-z0-9_+-]{1,64}", name):
        raise Invalid("reaction", f"Zulip has no emoji {reaction[:20]!r}; use another, or its name, such as :tada:")
    return name
