"""A message as BlueBubbles gives it becomes an event. No I/O."""

import re
from typing import Any

from msgspec import Struct

from gatepost.messages.inbound import Inbound, Quote, Verb

_CHAT = re.compile(r"[A-Za-z]{1,16};[-+];[A-Za-z0-9+@._-]{1,200}\Z")
_PERSON = re.compile(r"[A-Za-z0-9+@._-]{1,200}\Z")
_GUID = re.compile(r"[A-Za-z0-9._:/-]{1,128}\Z")
REACTIONS = {"love": "❤️", "like": "👍", "dislike": "👎", "laugh": "😂", "emphasize": "‼️", "question": "❓"}
MOST_FILES = 20
LATEST_MS = 1 << 50


class AppleFile(Struct, frozen=True):
    guid: str
    name: str
    mime: str
    size: int | None


class AppleMessage(Struct, frozen=True):
    """`row`: its number in the Mac's database, which grows."""

    row: int
    inbound: Inbound | None = None  # None: nothing that a person said
    files: tuple[AppleFile, ...] = ()


def parse_chat(address: str) -> str | None:
    platform, _, chat = address.partition(":")
    return chat if platform == "imessage" and _CHAT.match(chat) else None


def read_messages(answer: Any) -> list[AppleMessage]:
    """In the order of their rows, whatever the server's order."""
    given = answer.get("data") if isinstance(answer, dict) else None
    found = [read_message(each) for each in given or () if isinstance(each, dict)]
    return sorted((each for each in found if each is not None), key=lambda each: each.row)


def read_message(given: dict[str, Any]) -> AppleMessage | None:
    row, guid = given.get("originalROWID"), _get_text(given, "guid")
    if not isinstance(row, int) or row < 0:
        return None
    chats, handle = given.get("chats"), given.get("handle")
    chat = chats[0] if isinstance(chats, list) and chats and isinstance(chats[0], dict) else {}
    room = _get_text(chat, "guid")
    own = given.get("isFromMe") is True
    person = "me" if own else _get_text(handle, "address") if isinstance(handle, dict) else ""
    if given.get("itemType") or not (_GUID.match(guid) and _CHAT.match(room) and _PERSON.match(person)):
        return AppleMessage(row)  # a renamed group, somebody who left, or an id that we do not know
    at, quoted = given.get("dateCreated"), _get_text(given, "threadOriginatorGuid")
    said = Inbound(
        address=f"imessage:{room}",
        platform_id=guid,
        sender=f"imessage:user/{person}",
        sender_name=person,
        text=_get_text(given, "text").replace("\ufffc", "").strip(),  # the sign that stands for a file
        direct=";-;" in room,
        own=own,
        room_name=_get_text(chat, "displayName")[:200],
        at=at * 1000 if isinstance(at, int) and 0 < at < LATEST_MS else None,
        reply_to=Quote(platform_id=quoted) if _GUID.match(quoted) else None,
    )
    kind = given.get("associatedMessageType")
    if kind:
        return AppleMessage(row, _read_reaction(given, said, str(kind)))
    return AppleMessage(row, said, _read_files(given.get("attachments")))


def _read_reaction(given: dict[str, Any], said: Inbound, kind: str) -> Inbound | None:
    """One that is taken back is none."""
    emoji = REACTIONS.get(kind)
    target = re.sub(r"\A(?:p:\d+/|bp:)", "", _get_text(given, "associatedMessageGuid"))
    if emoji is None or not _GUID.match(target):
        return None
    return Inbound(
        address=said.address,
        platform_id=target,
        sender=said.sender,
        sender_name=said.sender_name,
        text=emoji,
        event=f"reaction:{emoji}:{said.sender}",
        verb=Verb.DISLIKE if kind == "dislike" else Verb.LIKE,
        direct=said.direct,
        own=said.own,
        room_name=said.room_name,
        at=said.at,
    )


def _read_files(given: Any) -> tuple[AppleFile, ...]:
    found = []
    for each in given if isinstance(given, list) else ():
        guid = _get_text(each, "guid") if isinstance(each, dict) else ""
        if _GUID.match(guid):
            size, mime = each.get("totalBytes"), _get_text(each, "mimeType")[:100]
            name = _get_text(each, "transferName")[:200] or "file"
            whole = size if isinstance(size, int) else None
            found.append(AppleFile(guid, name, mime or "application/octet-stream", whole))
    return tuple(found[:MOST_FILES])


def render_query(after: int, until: int) -> dict[str, Any]:
    """All messages of these rows, which are fewer than a page."""
    return {
        "limit": 1000,
        "sort": "ASC",
        "with": ["chat", "attachment"],
        "where": [
            {"statement": "message.ROWID > :startRowId", "args": {"startRowId": after}},
            {"statement": "message.ROWID <= :endRowId", "args": {"endRowId": until}},
        ],
    }


def read_guid(answer: Any) -> str | None:
    data = answer.get("data") if isinstance(answer, dict) else None
    guid = _get_text(data, "guid") if isinstance(data, dict) else ""
    return guid if _GUID.match(guid) else None


def _get_text(given: dict[str, Any], name: str) -> str:
    value = given.get(name)
    return value if isinstance(value, str) else ""
