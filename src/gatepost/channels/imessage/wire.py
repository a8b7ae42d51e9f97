"""Messages as BlueBubbles lists them, read into our words. Pure."""

import hashlib
import re
from collections.abc import Callable, Mapping
from typing import Any

from gatepost.core.errors import NotFound
from gatepost.messages.inbound import Attachment, AttachmentKind, Inbound, OpenFile, Quote, Verb

_CHAT = re.compile(r"(?:iMessage|SMS|RCS|any);[-+];\+?[A-Za-z0-9][\w.@+-]{0,199}", re.ASCII)
_PERSON = re.compile(r"\+?[A-Za-z0-9][\w.@+-]{0,199}", re.ASCII)
_GUID = re.compile(r"[A-Za-z0-9][\w:.-]{0,99}")
_ABOUT = re.compile(r"(?:p:\d{1,3}/|bp:)?([A-Za-z0-9][\w:.-]{0,99})")
SIGNS = {"love": "❤️", "like": "👍", "dislike": "👎", "laugh": "😂", "emphasize": "‼️", "question": "❓"}
MILLISECOND = 1000  # in microseconds
MOST_FILES = 20
LARGEST_ROW = 2**53


def parse_address(address: str) -> str:
    """The chat's id. Addresses may come from an agent, so they are checked."""
    chat = address.removeprefix("imessage:chat/")
    if chat == address or not _CHAT.fullmatch(chat):
        raise NotFound("room", address, "a room is imessage:chat/<id>, such as imessage:chat/iMessage;-;+15550100")
    return chat


def get_temporary_id(key: str) -> str:
    """By which the server knows a message that it is just sending."""
    return f"gatepost-{hashlib.sha256(key.encode()).hexdigest()[:32]}"


def read_row(message: Mapping[str, Any]) -> int:
    """Its place in the Mac's database: what came later has a larger one, whatever its date says."""
    row = message.get("originalROWID")
    return row if isinstance(row, int) and not isinstance(row, bool) and 0 < row < LARGEST_ROW else 0


def read_message(message: Mapping[str, Any], open_file: Callable[[str], OpenFile]) -> Inbound | None:
    chats, number = message.get("chats"), str(message.get("guid") or "")
    chat = chats[0] if isinstance(chats, list) and chats and isinstance(chats[0], Mapping) else {}
    room = str(chat.get("guid") or "")
    if not _CHAT.fullmatch(room) or not _GUID.fullmatch(number) or message.get("itemType") not in (0, None):
        return None  # another item type is a change of the group
    handle, own = message.get("handle"), message.get("isFromMe") is True
    person = str(handle.get("address") or "") if isinstance(handle, Mapping) else ""
    if not own and not _PERSON.fullmatch(person):
        return None
    at = message.get("dateCreated")
    base: dict[str, Any] = {
        "address": f"imessage:chat/{room}",
        "sender": "imessage:user/me" if own else f"imessage:user/{person}",
        "direct": ";-;" in room,
        "own": own,
        "room_name": str(chat.get("displayName") or "")[:200],
        "at": at * MILLISECOND if isinstance(at, int) and 0 < at < LARGEST_ROW else None,
    }
    if message.get("associatedMessageGuid"):
        return _read_reaction(message, base)
    answered = str(message.get("threadOriginatorGuid") or "")
    quote = Quote(platform_id=answered) if _GUID.fullmatch(answered) else None
    return Inbound(
        platform_id=number,
        text=str(message.get("text") or "").replace("\ufffc", "").strip(),  # where a file stands in the text
        verb=Verb.REPLY if quote else Verb.MESSAGE,
        reply_to=quote,
        attachments=_read_files(message.get("attachments"), open_file),
        **base,
    )


def _read_reaction(message: Mapping[str, Any], base: dict[str, Any]) -> Inbound | None:
    """One that is taken back has a minus before its name."""
    about = _ABOUT.fullmatch(str(message.get("associatedMessageGuid")))
    sign = SIGNS.get(str(message.get("associatedMessageType") or ""))
    if about is None or sign is None:
        return None
    return Inbound(platform_id=about[1], text=sign, event=f"reaction:{sign}:{base['sender']}", **base)


def _read_files(listed: Any, open_file: Callable[[str], OpenFile]) -> tuple[Attachment, ...]:
    found = []
    for each in listed[:MOST_FILES] if isinstance(listed, list) else ():
        number = str(each.get("guid") or "") if isinstance(each, Mapping) else ""
        if not _GUID.fullmatch(number) or each.get("hideAttachment") is True:
            continue
        mime, size = str(each.get("mimeType") or "application/octet-stream")[:100], each.get("totalBytes")
        family = mime.partition("/")[0]
        found.append(
            Attachment(
                name=str(each.get("transferName") or "file")[:200],
                mime=mime,
                kind=AttachmentKind(family) if family in ("image", "audio", "video") else AttachmentKind.FILE,
                open=open_file(number),
                size=size if isinstance(size, int) and size >= 0 else None,
            )
        )
    return tuple(found)
