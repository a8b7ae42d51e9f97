"""Telegram's messages, read into our words. Pure: whatever a person could put into an update is checked here."""

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from msgspec import Struct

from gatepost.channels.telegram.wordless import describe, describe_file, is_moving
from gatepost.core.clock import SECOND
from gatepost.messages.inbound import CLICK, Attachment, AttachmentKind, Inbound, OpenFile, Quote, Verb

Payload = Mapping[str, Any]
OpenTelegramFile = Callable[[str, int], OpenFile]  # the platform's id of a file, and its size

LONGEST_NAME = 100
MOST_ENTITIES = 100
MOST_JOINED = 20
LONGEST_CLICK = 64
ELSEWHERE = "[a message in another chat]"
UPDATES = (
    "message",
    "edited_message",
    "channel_post",
    "edited_channel_post",
    "callback_query",
    "message_reaction",
)
_ROOM = re.compile(r"telegram:(?:group|user|channel)/(-?[0-9]{1,20})\Z")
_PERSON = re.compile(r"telegram:user/([0-9]{1,20})\Z")
_MEDIA = {  # field: what people call it, the end of its name, and its type if the platform does not tell
    "voice": (AttachmentKind.AUDIO, ".ogg", "audio/ogg"),
    "audio": (AttachmentKind.AUDIO, ".mp3", "audio/mpeg"),
    "video": (AttachmentKind.VIDEO, ".mp4", "video/mp4"),
    "video_note": (AttachmentKind.VIDEO, ".mp4", "video/mp4"),
    "animation": (AttachmentKind.VIDEO, ".mp4", "video/mp4"),
    "document": (AttachmentKind.FILE, "", "application/octet-stream"),
    "sticker": (AttachmentKind.IMAGE, ".webp", "image/webp"),
}


class TelegramSelf(Struct, frozen=True):
    id: int = 0
    username: str = ""
    name: str = ""
    reads_all: bool = True  # in groups, not only what is meant for it
    joins_groups: bool = True


class TelegramRoom(Struct, frozen=True):
    address: str
    name: str
    direct: bool
    thread: str = ""


def read_self(user: Payload) -> TelegramSelf:
    return TelegramSelf(
        int(user["id"]),
        str(user.get("username") or ""),
        str(user.get("first_name") or ""),
        bool(user.get("can_read_all_group_messages", True)),
        bool(user.get("can_join_groups", True)),
    )


def parse_room(address: str) -> int | None:
    found = _ROOM.match(address)
    return int(found[1]) if found else None


def parse_person(sender: str) -> int | None:
    found = _PERSON.match(sender)
    return int(found[1]) if found else None


def read_room(chat: Payload, message: Payload, moved: Mapping[int, int]) -> TelegramRoom | None:
    """`moved`: groups that became supergroups keep the address by which they are known here."""
    ident, kind = chat.get("id"), chat.get("type")
    if not isinstance(ident, int) or isinstance(ident, bool):
        return None
    direct = kind == "private"
    place = "user" if direct else "channel" if kind == "channel" else "group"
    # A reply in an ordinary group has a thread's id, too; only that of a topic is a place of its own.
    thread = message.get("message_thread_id") if message.get("is_topic_message") else None
    return TelegramRoom(
        f"telegram:{place}/{moved.get(ident, ident)}",
        read_name(chat),
        direct,
        str(thread) if isinstance(thread, int) else "",
    )


def read_name(user: Payload) -> str:
    """Read the name of a person or a chat."""
    full = " ".join(str(user.get(each) or "") for each in ("first_name", "last_name")).strip()
    return (str(user.get("title") or "") or full or str(user.get("username") or ""))[:LONGEST_NAME]


def read_sender(message: Payload) -> tuple[str, str]:
    """(address, name). A chat that speaks (an anonymous administrator, a channel) stands in its own name."""
    chat = message.get("sender_chat") or message.get("actor_chat")
    if chat and isinstance(chat.get("id"), int):
        return f"telegram:chat/{chat['id']}", read_name(chat)
    user = message.get("from") or message.get("user") or {}
    return f"telegram:user/{int(user.get('id') or 0)}", read_name(user)


def read_update(
    update: Payload, me: TelegramSelf, moved: Mapping[int, int], open_file: OpenTelegramFile
) -> list[Inbound]:
    """The events of one update; none for what nobody wrote, and for a click (`read_click`)."""
    number = int(update.get("update_id") or 0)
    for name in ("message", "channel_post"):
        if message := update.get(name):
            return list(_read_message(message, me, moved, open_file))
    for name in ("edited_message", "edited_channel_post"):
        if message := update.get(name):
            return list(_read_edit(message, number, me, moved, open_file))
    if reaction := update.get("message_reaction"):
        return list(_read_reactions(reaction, me, moved))
    return []


def _read_message(
    message: Payload, me: TelegramSelf, moved: Mapping[int, int], open_file: OpenTelegramFile
) -> Iterator[Inbound]:
    if joined := message.get("new_chat_members"):
        yield from _read_joins(message, joined, me, moved)
        return
    found = _read_words(message, me, moved, open_file)
    if found is not None:
        yield found


def _read_words(
    message: Payload, me: TelegramSelf, moved: Mapping[int, int], open_file: OpenTelegramFile
) -> Inbound | None:
    room = read_room(message.get("chat") or {}, message, moved)
    text, files = read_text(message), _read_files(message, open_file)
    if room is None or not isinstance(message.get("message_id"), int) or not (text or files):
        return None
    sender, name = read_sender(message)
    origin = message.get("forward_origin")
    return Inbound(
        address=room.address,
        platform_id=str(message["message_id"]),
        sender=sender,
        sender_name=name,
        text=text,
        verb=_read_verb(message, me),
        thread=room.thread,
        direct=room.direct,
        own=_is_own(message, me),
        room_name=room.name,
        at=int(message.get("date") or 0) * SECOND or None,
        reply_to=_read_quote(message),
        attachments=files,
        forwarded=bool(origin),
        forward_from=_read_origin(origin) if isinstance(origin, dict) else "",
    )


def _read_origin(origin: Payload) -> str:
    """A name for whom a forwarded message is from. People may hide who they are, but not their name."""
    chat = origin.get("sender_user") or origin.get("sender_chat") or origin.get("chat") or {}
    named = read_name(chat) or str(origin.get("sender_user_name") or "")
    return named[:LONGEST_NAME]


def _read_edit(
    message: Payload, number: int, me: TelegramSelf, moved: Mapping[int, int], open_file: OpenTelegramFile
) -> Iterator[Inbound]:
    found = _read_words(message, me, moved, open_file)
    if found is None or not found.text:
        return
    if is_moving(message):
        return  # each step of a place that is shared would wake somebody
    revision = f"{int(message.get('edit_date') or 0)}-{number}"  # several edits may be of one second
    yield Inbound(
        **{
            **{name: getattr(found, name) for name in found.__struct_fields__},
            "event": f"edit:{revision}",
            "verb": Verb.EDIT,
            "at": int(message.get("edit_date") or 0) * SECOND or found.at,
            "attachments": (),
        }
    )


def _read_joins(
    message: Payload, joined: list[Payload], me: TelegramSelf, moved: Mapping[int, int]
) -> Iterator[Inbound]:
    room = read_room(message.get("chat") or {}, message, moved)
    if room is None or not isinstance(message.get("message_id"), int):
        return
    for at, member in enumerate(joined[:MOST_JOINED]):
        sender, name = read_sender({"from": member})
        yield Inbound(
            address=room.address,
            platform_id=str(message["message_id"]),
            sender=sender,
            sender_name=name,
            text="",
            event=f"join:{sender}" if at else "message",
            verb=Verb.JOIN,
            thread=room.thread,
            direct=room.direct,
            own=member.get("id") == me.id,
            room_name=room.name,
            at=int(message.get("date") or 0) * SECOND or None,
        )


def _read_reactions(reaction: Payload, me: TelegramSelf, moved: Mapping[int, int]) -> Iterator[Inbound]:
    """Yield what was added. Emoji that only one chat has carry no meaning for others, and are left out."""
    room = read_room(reaction.get("chat") or {}, {}, moved)
    if room is None or not isinstance(reaction.get("message_id"), int):
        return
    before = {each.get("emoji") for each in reaction.get("old_reaction") or ()}
    sender, name = read_sender(reaction)
    for each in (reaction.get("new_reaction") or ())[:MOST_JOINED]:
        emoji = str(each.get("emoji") or "")[:16]
        if not emoji or emoji in before:
            continue
        yield Inbound(
            address=room.address,
            platform_id=str(reaction["message_id"]),
            sender=sender,
            sender_name=name,
            text="",
            event=f"reaction:{emoji}:{sender}",
            verb=Verb.DISLIKE if emoji.startswith("👎") else Verb.LIKE,
            direct=room.direct,
            own=(reaction.get("user") or {}).get("id") == me.id,
            room_name=room.name,
            at=int(reaction.get("date") or 0) * SECOND or None,
        )


def read_click(query: Payload, moved: Mapping[int, int]) -> Inbound | None:
    message, data = query.get("message") or {}, query.get("data")
    room = read_room(message.get("chat") or {}, message, moved)
    if room is None or not isinstance(data, str) or not query.get("id"):
        return None
    sender, name = read_sender({"from": query.get("from") or {}})
    return Inbound(
        address=room.address,
        platform_id=str(query["id"])[:LONGEST_NAME],
        sender=sender,
        sender_name=name,
        text="",
        event=CLICK,
        click=data[:LONGEST_CLICK],
        thread=room.thread,
        direct=room.direct,
        room_name=room.name,
    )


def read_text(message: Payload) -> str:
    """The words, with the address of a link behind its words; a line for what has no words."""
    text = str(message.get("text") or message.get("caption") or "")
    if text:
        return _add_addresses(text, message.get("entities") or message.get("caption_entities") or ())
    return describe(message)


def _add_addresses(text: str, entities: Any) -> str:
    """Entities are counted in UTF-16."""
    links = [each for each in entities[:MOST_ENTITIES] if each.get("type") == "text_link" and each.get("url")]
    if not links:
        return text
    units, out, done = text.encode("utf-16-le"), list[bytes](), 0
    for each in sorted(links, key=lambda link: int(link["offset"])):
        end = 2 * (int(each["offset"]) + int(each["length"]))
        if done <= end <= len(units):
            out += [units[done:end], f" ({each['url']})".encode("utf-16-le")]
            done = end
    return b"".join([*out, units[done:]]).decode("utf-16-le", "replace")


def _is_own(message: Payload, me: TelegramSelf) -> bool:
    return bool(me.id) and (message.get("from") or {}).get("id") == me.id


def _read_verb(message: Payload, me: TelegramSelf) -> Verb:
    if _names_me(message, me):
        return Verb.MENTION
    origin = (message.get("external_reply") or {}).get("origin") or {}
    answered = message.get("reply_to_message") or {"from": origin.get("sender_user")}
    return Verb.REPLY if _is_own(answered, me) else Verb.MESSAGE


def _names_me(message: Payload, me: TelegramSelf) -> bool:
    text = str(message.get("text") or message.get("caption") or "")
    entities = (message.get("entities") or message.get("caption_entities") or ())[:MOST_ENTITIES]
    if not any(each.get("type") in ("mention", "text_mention", "bot_command") for each in entities):
        return False
    units = text.encode("utf-16-le")
    for each in entities:
        if each.get("type") == "text_mention" and (each.get("user") or {}).get("id") == me.id:
            return True
        start = 2 * int(each.get("offset") or 0)
        words = units[start : start + 2 * int(each.get("length") or 0)].decode("utf-16-le", "replace").lower()
        named = f"@{me.username.lower()}"
        if each.get("type") == "mention" and words == named:
            return True
        if each.get("type") == "bot_command" and words.endswith(named):
            return True
    return False


def _read_quote(message: Payload) -> Quote | None:
    """Return what is answered. In a topic everything answers the notice that began it: that is no quote."""
    answered = message.get("reply_to_message") or {}
    ident = answered.get("message_id")
    if not answered and (message.get("external_reply") or message.get("quote")):
        return _read_external_quote(message)
    if not isinstance(ident, int) or answered.get("forum_topic_created"):
        return None
    if message.get("is_topic_message") and ident == message.get("message_thread_id"):
        return None
    part = (message.get("quote") or {}).get("text")
    text = str(part or read_text(answered) or describe_file(answered))
    return Quote(platform_id=str(ident), sender=read_sender(answered)[0], text=text)


def _read_external_quote(message: Payload) -> Quote:
    """Read a quote of a message in another chat or topic. Its number counts there, so it names no message here."""
    external = message.get("external_reply") or {}
    origin, chat = external.get("origin") or {}, external.get("chat") or {}
    spoken = {"sender_chat": origin.get("sender_chat") or origin.get("chat"), "from": origin.get("sender_user")}
    sender = read_sender(spoken)[0] if any(spoken.values()) else str(origin.get("sender_user_name") or "")
    text = str((message.get("quote") or {}).get("text") or "") or read_text(external) or ELSEWHERE
    place = f"elsewhere/{chat.get('id', 'unknown')}/{external.get('message_id', 'unknown')}"
    return Quote(platform_id=place, sender=sender[:LONGEST_NAME], text=text)


def _read_files(message: Payload, open_file: OpenTelegramFile) -> tuple[Attachment, ...]:
    sizes = message.get("photo") or ()
    if sizes:
        largest = max(sizes[:MOST_JOINED], key=lambda size: int(size.get("width") or 0) * int(size.get("height") or 0))
        return (_make_file(largest, "photo", AttachmentKind.IMAGE, ".jpg", "image/jpeg", open_file),)
    for field, (kind, end, mime) in _MEDIA.items():
        if found := message.get(field):
            return (_make_file(found, field, kind, end, mime, open_file),)
    return ()


def _make_file(
    found: Payload, field: str, kind: AttachmentKind, end: str, mime: str, open_file: OpenTelegramFile
) -> Attachment:
    given = str(found.get("mime_type") or mime)[:LONGEST_NAME]
    known = {"image": AttachmentKind.IMAGE, "audio": AttachmentKind.AUDIO, "video": AttachmentKind.VIDEO}
    size = found.get("file_size")
    return Attachment(
        name=str(found.get("file_name") or f"{field}-{str(found.get('file_unique_id') or '')[:40]}{end}")[:255],
        mime=given,
        kind=known.get(given.partition("/")[0], kind) if kind is AttachmentKind.FILE else kind,
        open=open_file(str(found.get("file_id") or ""), size if isinstance(size, int) else 0),
        size=size if isinstance(size, int) else None,
    )
