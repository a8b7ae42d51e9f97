"""Stanzas of XMPP as our own words. Pure: a stanza is an element of the tree that the server sent.

The input is untrusted. A JID is checked before it becomes an address, and ids are bounded. In a room the id of a
message is the one that the room gave it (`stanza-id`); in a private chat it is the sender's own.
"""

import re
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any
from urllib.parse import quote, unquote, urlsplit
from xml.etree.ElementTree import Element

from msgspec import Struct

from gatepost.messages.inbound import Attachment, AttachmentKind, Inbound, OpenFile, Quote, Verb

PLATFORM = "xmpp"
CLIENT = "jabber:client"
MUC_USER = "http://jabber.org/protocol/muc#user"
STANZA_ID = "urn:xmpp:sid:0"
CORRECT = "urn:xmpp:message-correct:0"
REPLY = "urn:xmpp:reply:0"
FALLBACK = "urn:xmpp:fallback:0"
REACTIONS = "urn:xmpp:reactions:0"
RETRACT = "urn:xmpp:message-retract:1"
OOB = "jabber:x:oob"
DELAY = "urn:xmpp:delay"
MAM = "urn:xmpp:mam:2"
MARKERS = "urn:xmpp:chat-markers:0"
RECEIPTS = "urn:xmpp:receipts"
FORWARD = "urn:xmpp:forward:0"

JID = re.compile(r"[^\s\"&'/:<>@\x00-\x20]{1,200}@[A-Za-z0-9\u0080-\uffff._-]{1,200}\Z")
ID = re.compile(r"[^\s\x00-\x20\x7f]{1,200}\Z")
LONGEST_NAME = 100
LONGEST_EMOJI = 64
MOST_REACTIONS = 10
MOST_FILES = 10
_KINDS = {"image": AttachmentKind.IMAGE, "audio": AttachmentKind.AUDIO, "video": AttachmentKind.VIDEO}
_ENDINGS = {
    "image": ("png", "jpg", "jpeg", "gif", "webp"),
    "audio": ("ogg", "opus", "mp3", "m4a", "wav"),
    "video": ("mp4", "webm", "mkv", "mov"),
}

OpenUrl = Callable[[str], OpenFile | None]  # None: the file is not fetched from there
FindId = Callable[[str, str], str]  # (sender, id of the sender's own) to the room's id; '' if it is not known


class StanzaFacts(Struct, frozen=True, kw_only=True):
    """Facts that are known when a message is read."""

    own_jid: str  # bare
    rooms: Mapping[str, str]  # those that we are in, with our nickname there
    real_jid: str = ""  # of the sender in a room, as far as the server shows it
    archive_id: str = ""  # of a message from the archive
    at: int | None = None


def split_jid(jid: str) -> tuple[str, str]:
    """The bare JID in lower case, and the resource."""
    bare, _, resource = jid.partition("/")
    return bare.lower(), resource


def is_jid(bare: str) -> bool:
    return JID.match(bare) is not None


def is_id(value: str | None) -> bool:
    return value is not None and ID.match(value) is not None


def get_address(bare: str) -> str:
    return f"{PLATFORM}:{bare}"


def get_occupant_address(room: str, nickname: str) -> str:
    return f"{PLATFORM}:{room}/{quote(nickname, safe='')[:200]}"


def read_address(address: str) -> str:
    """The bare JID of a room or person; '' if it is none."""
    platform, _, bare = address.partition(":")
    return bare if platform == PLATFORM and is_jid(bare) else ""


def find_archive_id(message: Element, archive: str) -> str:
    """The id that this archive gave to the message. One that names another archive proves nothing."""
    for each in message.findall(f"{{{STANZA_ID}}}stanza-id"):
        if (each.get("by") or "").lower() == archive and is_id(each.get("id")):
            return str(each.get("id"))
    return ""


def find_origin(message: Element) -> str:
    """The id that the sender gave to the message."""
    found = message.find(f"{{{STANZA_ID}}}origin-id")
    return (found.get("id") if found is not None else message.get("id")) or ""


def read_time(text: str | None) -> int | None:
    try:
        moment = datetime.fromisoformat((text or "").replace("Z", "+00:00"))
        return round(moment.timestamp() * 1_000_000) if moment.tzinfo else None
    except (ValueError, OverflowError):
        return None


def find_real_jid(stanza: Element) -> str:
    """Return whose nickname it is, as the room says; '' if it does not. Two such elements: one of them is forged."""
    if len(stanza.findall(f"{{{MUC_USER}}}x")) != 1:
        return ""
    item = stanza.find(f"{{{MUC_USER}}}x/{{{MUC_USER}}}item")
    bare = split_jid((item.get("jid") if item is not None else "") or "")[0]
    return bare if is_jid(bare) else ""


def get_body(message: Element) -> str | None:
    body = message.find(f"{{{CLIENT}}}body")
    return None if body is None else (body.text or "")


class MessageOrigin(Struct, frozen=True, kw_only=True):
    """The room in which a message was said, and its author."""

    chat: str  # the bare JID of the room or of the person
    sender: str  # an address
    name: str
    own: bool
    direct: bool
    proved: bool


def find_origin_of(message: Element, facts: StanzaFacts) -> MessageOrigin | None:
    """None for what nobody said in a room or chat of ours."""
    bare, resource = split_jid(message.get("from") or "")
    if message.get("type") == "groupchat":
        nickname = facts.rooms.get(bare)
        if nickname is None or not resource:
            return None
        if resource == nickname:
            return MessageOrigin(
                chat=bare, sender=get_address(facts.own_jid), name=nickname, own=True, direct=False, proved=True
            )
        real = facts.real_jid
        sender = get_address(real) if real else get_occupant_address(bare, resource)
        return MessageOrigin(
            chat=bare, sender=sender, name=resource[:LONGEST_NAME], own=real == facts.own_jid, direct=False,
            proved=bool(real),
        )  # fmt: skip
    if message.get("type") not in (None, "chat", "normal") or not is_jid(bare) or bare in facts.rooms:
        return None  # also private words out of a room, under a nickname
    own = bare == facts.own_jid
    chat = split_jid(message.get("to") or "")[0] if own else bare
    if not is_jid(chat) or chat in facts.rooms:
        return None
    name = bare.partition("@")[0][:LONGEST_NAME]
    return MessageOrigin(chat=chat, sender=get_address(bare), name=name, own=own, direct=True, proved=True)


def read_message(message: Element, facts: StanzaFacts, find_id: FindId, open_url: OpenUrl) -> list[Inbound]:
    """Return what somebody did; nothing for what is not for us to know."""
    origin = find_origin_of(message, facts)
    if origin is None:
        return []
    archive_id = facts.archive_id or find_archive_id(message, facts.own_jid if origin.direct else origin.chat)
    own_id = find_origin(message)
    platform_id = own_id if origin.direct and is_id(own_id) else archive_id or own_id
    if not is_id(platform_id):
        return []
    common: dict[str, Any] = {
        "address": get_address(origin.chat),
        "sender": origin.sender,
        "sender_name": origin.name,
        "direct": origin.direct,
        "own": origin.own,
        "at": facts.at,
    }
    reactions = message.find(f"{{{REACTIONS}}}reactions")
    if reactions is not None:
        return _read_reactions(reactions, common) if origin.proved else []
    retract = message.find(f"{{{RETRACT}}}retract")
    if retract is not None:
        target = retract.get("id")
        known = is_id(target) and origin.proved
        return [Inbound(platform_id=str(target), text="", event="delete", verb=Verb.DELETE, **common)] if known else []
    if get_body(message) is None:
        return []
    replace = message.find(f"{{{CORRECT}}}replace")
    if replace is not None:
        return _read_edit(message, str(replace.get("id")), platform_id, origin, find_id, common)
    return [_read_words(message, platform_id, origin, facts, open_url, common)]


def _read_edit(
    message: Element, target: str, revision: str, origin: MessageOrigin, find_id: FindId, common: dict[str, Any]
) -> list[Inbound]:
    """Only the author's own message can be corrected: it is found by them and by its id."""
    platform_id = target if origin.direct else find_id(origin.sender, target)
    if not is_id(platform_id) or not origin.proved:
        return []
    text = _strip_fallback(message)[0]
    return [Inbound(platform_id=platform_id, text=text, event=f"edit:{revision}", verb=Verb.EDIT, **common)]


def _read_reactions(reactions: Element, common: dict[str, Any]) -> list[Inbound]:
    target = reactions.get("id")
    if not is_id(target):
        return []
    found = [each.text or "" for each in reactions.findall(f"{{{REACTIONS}}}reaction")[:MOST_REACTIONS]]
    emojis = ["".join(each.replace(":", " ").split())[:LONGEST_EMOJI] for each in found]
    return [
        Inbound(
            platform_id=str(target),
            text=emoji,
            event=f"reaction:{emoji}:{common['sender']}",
            verb=Verb.LIKE,
            **common,
        )
        for emoji in dict.fromkeys(emojis)
        if emoji
    ]


def _read_words(
    message: Element,
    platform_id: str,
    origin: MessageOrigin,
    facts: StanzaFacts,
    open_url: OpenUrl,
    common: dict[str, Any],
) -> Inbound:
    text, quoted = _strip_fallback(message)
    attachments, text = _read_files(message, text, open_url)
    reply = message.find(f"{{{REPLY}}}reply")
    answered = None
    if reply is not None and is_id(reply.get("id")):
        answered = Quote(platform_id=str(reply.get("id")), text=quoted)
    verb = Verb.REPLY if answered else Verb.MESSAGE
    if not origin.direct and is_named(text, facts.rooms.get(origin.chat, "")):
        verb = Verb.MENTION
    if not origin.proved:
        verb = Verb.UNTRUSTED
    return Inbound(platform_id=platform_id, text=text, verb=verb, reply_to=answered, attachments=attachments, **common)


def is_named(text: str, nickname: str) -> bool:
    """XMPP has no mark for a mention: people write the nickname."""
    return bool(nickname) and re.search(rf"(?<!\w){re.escape(nickname)}(?!\w)", text, re.IGNORECASE) is not None


def _strip_fallback(message: Element) -> tuple[str, str]:
    """The words without the quotation for programs that know no replies, and that quotation."""
    text = get_body(message) or ""
    for each in message.findall(f"{{{FALLBACK}}}fallback"):
        part = each.find(f"{{{FALLBACK}}}body")
        if each.get("for") != REPLY or part is None:
            continue
        start, end = part.get("start", ""), part.get("end", "")
        if all(re.fullmatch(r"[0-9]{1,7}", value) for value in (start, end)) and int(start) <= int(end):
            quoted = text[int(start) : int(end)]
            lines = [line.removeprefix(">").removeprefix(" ") for line in quoted.splitlines()]
            return text[: int(start)] + text[int(end) :], "\n".join(lines).strip()
    return text, ""


def _read_files(message: Element, text: str, open_url: OpenUrl) -> tuple[tuple[Attachment, ...], str]:
    """Files that we would fetch, and the words without their addresses. Others stay as links in the words."""
    found: list[Attachment] = []
    for each in message.findall(f"{{{OOB}}}x/{{{OOB}}}url")[:MOST_FILES]:
        url = (each.text or "").strip()
        opened = open_url(url)
        if opened is None:
            continue
        name = unquote(urlsplit(url).path.rpartition("/")[2])[:LONGEST_NAME] or "file"
        kind = next((kind for kind, ends in _ENDINGS.items() if name.lower().rpartition(".")[2] in ends), "")
        found.append(Attachment(name=name, kind=_KINDS.get(kind, AttachmentKind.FILE), open=opened))
        text = "\n".join(line for line in text.splitlines() if line.strip() != url)
    return tuple(found), text
