"""Signal's words and ours: envelopes become events, messages become parameters of calls. No I/O.

Signal knows a message by its author and the millisecond at which it was sent; ours is `<timestamp>.<author>`.
"""

import base64
import binascii
import re
from collections.abc import AsyncIterator, Callable
from typing import Any, TypeGuard

from msgspec import Struct

from gatepost.channels.kit.json_values import list_objects, read_object, read_text
from gatepost.messages.inbound import Attachment, AttachmentKind, Inbound, OpenFile, Quote, Verb
from gatepost.messages.markdown.markup import render_styles
from gatepost.messages.outbound import Op, Outbound

MILLISECOND = 1000  # microseconds
PLACEHOLDER = "\ufffc"  # stands in a text for each mention
MOST_ATTACHMENTS = 32
LONGEST_EMOJI = 64
UNREAD = ("payment", "giftBadge", "storyContext")  # which have nothing that can be shown in words
_PERSON = re.compile(r"(?:[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}|\+[1-9][0-9]{5,18})\Z")
_GROUP = re.compile(r"[A-Za-z0-9_-]{20,100}\Z")
_FILE = re.compile(r"[A-Za-z0-9._-]{1,200}\Z")

OpenAttachment = Callable[[str, str], OpenFile]  # (the attachment's id, the room)


class SignalMessage(Struct, frozen=True):
    timestamp: int
    author: str


class OwnAccount(Struct, frozen=True):
    """`account`: as the setting has it; `names`: all that it is called."""

    account: str
    names: frozenset[str]

    def is_ours(self, *names: Any) -> bool:
        return any(name in self.names for name in names if name)

    def find_author(self, uuid: Any, number: Any) -> str:
        """Return the author of a message by one name: ours is that of the setting, as `send` gives it."""
        return self.account if self.is_ours(uuid, number) else read_text(uuid) or read_text(number)


def is_person(name: str) -> bool:
    return bool(_PERSON.match(name))


def parse_message_id(text: str) -> SignalMessage | None:
    stamp, _, author = text.partition(".")
    if not stamp.isascii() or not stamp.isdecimal() or len(stamp) > 16 or not is_person(author):
        return None
    return SignalMessage(int(stamp), author)


def render_message_id(timestamp: int, author: str) -> str:
    return f"{timestamp}.{author}"


def render_room(address: str) -> dict[str, Any] | None:
    """The parameters that name a room; None if it is none of ours."""
    kind, _, rest = address.removeprefix("signal:").partition("/")
    if address.startswith("signal:") and kind == "user" and is_person(rest):
        return {"recipient": [rest]}
    if address.startswith("signal:") and kind == "group" and _GROUP.match(rest):
        try:
            raw = base64.urlsafe_b64decode(rest + "=" * (-len(rest) % 4))
        except (binascii.Error, ValueError):
            return None
        return {"groupId": base64.b64encode(raw).decode()}
    return None


def get_group_address(group: str) -> str | None:
    """Make the address of a group from its id in base64, some of whose signs an address cannot have."""
    name = group.replace("+", "-").replace("/", "_").rstrip("=")
    return f"signal:group/{name}" if _GROUP.match(name) else None


def read_event(params: dict[str, Any], own: OwnAccount, open_attachment: OpenAttachment) -> Inbound | None:
    """Return what an envelope brings; None if nobody said anything (receipts, typing, our own other devices)."""
    envelope = read_object(params.get("envelope"))
    sender = read_text(envelope.get("sourceUuid")) or read_text(envelope.get("sourceNumber"))
    if not is_person(sender) or own.is_ours(envelope.get("sourceUuid"), envelope.get("sourceNumber")):
        return None
    edit = read_object(envelope.get("editMessage"))
    data = read_object(edit.get("dataMessage") if edit else envelope.get("dataMessage"))
    stamp, target = data.get("timestamp"), edit.get("targetSentTimestamp")
    group = read_object(data.get("groupInfo"))
    room = get_group_address(read_text(group.get("groupId"))) if group else f"signal:user/{sender}"
    if not _is_stamp(stamp) or room is None or (edit and not _is_stamp(target)):
        return None
    name = read_text(envelope.get("sourceName")) or read_text(envelope.get("sourceNumber"))
    base: dict[str, Any] = {
        "address": room,
        "sender": f"signal:user/{sender}",
        "sender_name": name,
        "room_name": read_text(group.get("groupName")) if group else name,
        "direct": not group,
        "at": stamp * MILLISECOND,
    }
    if "reaction" in data:
        return _read_reaction(read_object(data["reaction"]), own, base)
    if "remoteDelete" in data:
        deleted = read_object(data["remoteDelete"]).get("timestamp")
        if not _is_stamp(deleted):
            return None
        identity = render_message_id(deleted, sender)
        return Inbound(platform_id=identity, event="delete", verb=Verb.DELETE, text="", **base)
    return _read_message(data, sender, target if edit else None, own, open_attachment, base)


def _read_message(
    data: dict[str, Any],
    sender: str,
    edited: int | None,
    own: OwnAccount,
    open_attachment: OpenAttachment,
    base: dict[str, Any],
) -> Inbound | None:
    text, mentioned = _read_text(data, own)
    files = _read_attachments(data, base["address"], open_attachment)
    if not text and not files:
        return None
    quote = _read_quote(data.get("quote"), own)
    verb = Verb.MENTION if mentioned else Verb.REPLY if quote else Verb.MESSAGE
    stamp = data["timestamp"]
    return Inbound(
        platform_id=render_message_id(stamp if edited is None else edited, sender),
        event="message" if edited is None else f"edit:{stamp}",
        verb=verb if edited is None else Verb.EDIT,
        text=text,
        reply_to=quote,
        attachments=files,
        **base,
    )


def _read_reaction(reaction: dict[str, Any], own: OwnAccount, base: dict[str, Any]) -> Inbound | None:
    author = own.find_author(reaction.get("targetAuthorUuid"), reaction.get("targetAuthorNumber"))
    emoji, stamp = read_text(reaction.get("emoji"))[:LONGEST_EMOJI], reaction.get("targetSentTimestamp")
    if reaction.get("isRemove") or not emoji or not is_person(author) or not _is_stamp(stamp):
        return None
    event = f"reaction:{emoji}:{base['sender']}"
    return Inbound(platform_id=render_message_id(stamp, author), event=event, text=emoji, **base)


def _read_text(data: dict[str, Any], own: OwnAccount) -> tuple[str, bool]:
    """The words, with a name in the place of each mention, and whether one is ours. Places count UTF-16 units."""
    raw = read_text(data.get("message")).encode("utf-16-le", "surrogatepass")
    mentions = [each for each in list_objects(data.get("mentions")) if _is_count(each.get("start"))]
    ours = any(own.is_ours(each.get("uuid"), each.get("number")) for each in mentions)
    parts, end = [], 0
    for each in sorted(mentions, key=lambda mention: int(mention["start"])):
        start, length = 2 * each["start"], each.get("length")
        if start < end or start > len(raw) or not _is_count(length):
            continue
        name = read_text(each.get("name")) or read_text(each.get("number")) or read_text(each.get("uuid"))
        parts += [raw[end:start], f"@{name}".encode("utf-16-le")]
        end = min(start + 2 * int(length or 0), len(raw))
    text = b"".join([*parts, raw[end:]]).decode("utf-16-le", "replace").replace(PLACEHOLDER, "")
    if not text and (sticker := read_object(data.get("sticker"))):
        return f"[sticker {read_text(sticker.get('emoji'))}]".replace(" ]", "]"), ours
    return text or _describe(data), ours


def _describe(data: dict[str, Any]) -> str:
    """A line for what is neither words nor a file; '' if nobody said anything."""
    lines = []
    for each in list_objects(data.get("contacts"))[:20]:
        name = read_object(each.get("name"))
        shown = (
            read_text(name.get("display")) or f"{read_text(name.get('given'))} {read_text(name.get('family'))}".strip()
        )
        numbers = ", ".join(read_text(phone.get("value"))[:40] for phone in list_objects(each.get("phone"))[:5])
        lines.append(f"[contact: {shown[:100]}, {numbers}]")
    if poll := read_object(data.get("pollCreate")):
        options = poll.get("options")
        named = " / ".join(str(each)[:100] for each in options[:20]) if isinstance(options, list) else ""
        lines.append(f"[poll: {read_text(poll.get('question'))[:300]} — {named}]")
    lines += [f"[a message of a kind that is not understood here: {each}]" for each in UNREAD if data.get(each)]
    return "\n".join(lines)


def _read_attachments(data: dict[str, Any], room: str, open_attachment: OpenAttachment) -> tuple[Attachment, ...]:
    found = []
    for each in list_objects(data.get("attachments"))[:MOST_ATTACHMENTS]:
        identity, size = read_text(each.get("id")), each.get("size")
        if not _FILE.match(identity):
            continue
        mime = read_text(each.get("contentType")) or "application/octet-stream"
        family = mime.partition("/")[0]
        kind = AttachmentKind(family) if family in ("image", "audio", "video") else AttachmentKind.FILE
        found.append(
            Attachment(
                name=read_text(each.get("filename")) or identity,
                mime=mime,
                kind=kind,
                open=open_attachment(identity, room),
                size=size if _is_count(size) else None,
            )
        )
    return tuple(found)


def _read_quote(raw: Any, own: OwnAccount) -> Quote | None:
    quote = read_object(raw)
    author = own.find_author(quote.get("authorUuid"), quote.get("authorNumber"))
    if not _is_stamp(quote.get("id")) or not is_person(author):
        return None
    return Quote(
        platform_id=render_message_id(quote["id"], author),
        sender=f"signal:user/{author}",
        text=read_text(quote.get("text")),
    )


def render_send(message: Outbound, room: dict[str, Any]) -> dict[str, Any]:
    """The parameters of `send`, but for the files."""
    plain, styles = render_styles(message.text)
    params = {**room, "message": plain}
    if styles:
        params["textStyle"] = [f"{each.start}:{each.length}:{each.style}" for each in styles]
    target = parse_message_id(message.target) if message.op is Op.EDIT else None
    if target is not None:
        params["editTimestamp"] = target.timestamp
    quoted = parse_message_id(message.reply_to)
    if quoted is not None:
        params |= {"quoteTimestamp": quoted.timestamp, "quoteAuthor": quoted.author}
    return params


async def decode_attachment(chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """The bytes of the answer to `getAttachment`, `{"result":{"data":"<base64>"}…}`, without holding it whole. Nothing
    if there is no such text in it."""
    begin, pending, inside = b'"data":"', b"", False
    async for chunk in chunks:
        pending += chunk
        if not inside:
            at = pending.find(begin)
            if at < 0:
                pending = pending[-256:]
                continue
            pending, inside = pending[at + len(begin) :], True
        end = pending.find(b'"')
        ready = pending if end < 0 else pending[:end]
        whole = len(ready) - len(ready) % 4
        if whole:
            yield base64.b64decode(ready[:whole], validate=True)
        if end >= 0:
            return
        pending = ready[whole:]


def _is_stamp(value: Any) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool) and 0 < value < 10**15


def _is_count(value: Any) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**40
