"""Messages of the AT network, read into our words, and ours in its words. Pure."""

import hashlib
import re
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from enum import StrEnum
from typing import Any
from urllib.parse import urlsplit

from msgspec import Struct

from gatepost.core.clock import SECOND
from gatepost.core.errors import NotFound
from gatepost.messages.inbound import Attachment, AttachmentKind, Inbound, OpenFile, Quote, Verb

FEED = "bluesky:feed"
POST, LIKE, REPOST = "app.bsky.feed.post", "app.bsky.feed.like", "app.bsky.feed.repost"
HEART = "❤"
MOST_FACETS = 20
DID = re.compile(r"did:[a-z]{1,20}:[A-Za-z0-9._:%-]{1,200}\Z")
CONVERSATION = re.compile(r"[A-Za-z0-9_-]{1,64}\Z")
_URI = re.compile(
    r"at://(did:[a-z]{1,20}:[A-Za-z0-9._:%-]{1,200})/(app\.bsky\.feed\.(?:post|repost))/([\w.~:-]{1,64})\Z"
)
_LINK = re.compile(r"https?://[^\s<>\"]{1,500}[^\s<>\".,;:!?')\]}]")
_DIGITS = "234567abcdefghijklmnopqrstuvwxyz"
_FIRST_MOMENT, _MOMENTS = 1_672_531_200 * SECOND, 1 << 46  # keys lie in the two years from 2023 on: in the past
LIKES = frozenset({"❤", "♥", "👍", "⭐", "🎉", "🔥", "💯", "🙏", "👏", "✅", "heart", "+1", "like"})


class NoteReason(StrEnum):
    MENTION = "mention"
    REPLY = "reply"
    QUOTE = "quote"
    LIKE = "like"
    FOLLOW = "follow"


POSTS = frozenset({NoteReason.MENTION, NoteReason.REPLY, NoteReason.QUOTE})


class LogType(StrEnum):
    CREATED = "chat.bsky.convo.defs#logCreateMessage"
    DELETED = "chat.bsky.convo.defs#logDeleteMessage"
    REACTED = "chat.bsky.convo.defs#logAddReaction"


class RecordRef(Struct, frozen=True):
    """A record, and the version of it that is meant."""

    uri: str
    cid: str


def explain_reaction(address: str, reaction: str) -> str:
    """Return what to use in place of a reaction that a post does not have, or ''. Messages have every emoji."""
    known = address != FEED or reaction.replace("\ufe0f", "").strip(":").lower() in LIKES
    return "" if known else "posts have only ❤ here; use like with ❤, or reply"


def make_key(key: str) -> str:
    """The name of the record for one effect. The same key gives the same name, shaped as the network's clock does."""
    digest = int.from_bytes(hashlib.sha256(key.encode()).digest()[:8], "big")
    number = ((_FIRST_MOMENT + (digest >> 10) % _MOMENTS) << 10) | (digest & 0x3FF)
    return "".join(_DIGITS[(number >> shift) & 31] for shift in range(60, -1, -5))


def parse_uri(uri: str) -> tuple[str, str, str]:
    """(account, collection, name) of a post, which may come from an agent."""
    found = _URI.match(uri)
    if found is None:
        raise NotFound("message", uri[:80])
    return found[1], found[2], found[3]


def parse_conversation(address: str) -> str:
    """The id of a private conversation; '' for the feed."""
    kind, _, conversation = address.removeprefix("bluesky:").partition("/")
    if address == FEED:
        return ""
    if kind != "direct" or not CONVERSATION.match(conversation):
        raise NotFound("room", address, f"Bluesky's are {FEED} and bluesky:direct/<conversation>")
    return conversation


def get_did(sender: str) -> str:
    did = sender.removeprefix("bluesky:user/")
    if not DID.match(did):
        raise NotFound("person", sender)
    return did


def get_in(value: Any, *path: str) -> Any:
    for name in path:
        value = value.get(name) if isinstance(value, Mapping) else None
    return value


def read_time(raw: Any) -> int:
    """Microseconds; 0 if it is no moment."""
    try:
        moment = datetime.fromisoformat(str(raw))
    except ValueError:
        return 0
    return int((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * SECOND)


def read_ref(raw: Any) -> RecordRef | None:
    uri, cid = str(get_in(raw, "uri") or ""), str(get_in(raw, "cid") or "")
    return RecordRef(uri, cid) if _URI.match(uri) and cid else None


def read_note(
    note: Mapping[str, Any], images: Sequence[tuple[str, str]], open_file: Callable[[str], OpenFile], handle: str
) -> Inbound | None:
    """`images`: (name, address) of the post's pictures."""
    author, reason, uri = note.get("author"), note.get("reason"), str(note.get("uri", ""))
    did = str(get_in(author, "did") or "")
    if not DID.match(did):
        return None
    sender, at = f"bluesky:user/{did}", read_time(note.get("indexedAt")) or None
    name = str(get_in(author, "displayName") or get_in(author, "handle") or "")[:200]
    if reason == NoteReason.FOLLOW:
        key = uri.rpartition("/")[2][:64]
        return Inbound(
            address=FEED, platform_id=f"follow-{key}", sender=sender, sender_name=name, text="", verb=Verb.JOIN, at=at
        )
    if reason == NoteReason.LIKE:
        return _read_like(note, sender, name, at)
    if reason not in POSTS or not _URI.match(uri):
        return None
    root, parent = (str(get_in(note, "record", "reply", each, "uri") or "") for each in ("root", "parent"))
    text = str(get_in(note, "record", "text") or "")
    return Inbound(
        address=FEED,
        platform_id=uri,
        sender=sender,
        sender_name=name,
        text=re.sub(rf"\A@{re.escape(handle)}\s+", "", text, flags=re.IGNORECASE),
        verb=Verb.MENTION,
        thread=root if _URI.match(root) else "",
        reply_to=Quote(platform_id=parent) if _URI.match(parent) else None,
        at=at,
        attachments=tuple(
            Attachment(name=name, mime="image/jpeg", kind=AttachmentKind.IMAGE, open=open_file(url))
            for name, url in images
        ),
    )


def _read_like(note: Mapping[str, Any], sender: str, name: str, at: int | None) -> Inbound | None:
    subject = str(note.get("reasonSubject") or get_in(note, "record", "subject", "uri") or "")
    if not _URI.match(subject):
        return None
    event = f"reaction:{HEART}:{sender}"
    return Inbound(address=FEED, platform_id=subject, sender=sender, sender_name=name, text=HEART, event=event, at=at)


def has_images(note: Mapping[str, Any]) -> bool:
    """Return True if a post has images. Other records are left out: any may have a field of that name."""
    if note.get("reason") not in POSTS or not _URI.match(str(note.get("uri", ""))):
        return False
    return bool(get_in(note, "record", "embed", "images") or get_in(note, "record", "embed", "media", "images"))


def read_images(view: Any) -> list[tuple[str, str]]:
    """(name, address) of a post's pictures, as its server shows them. A description that is a file's name names it."""
    listed = get_in(view, "embed", "images") or get_in(view, "embed", "media", "images")
    found = []
    for number, each in enumerate((listed if isinstance(listed, list) else [])[:4], start=1):
        url, alt = str(get_in(each, "fullsize") or ""), str(get_in(each, "alt") or "")
        name = alt if re.fullmatch(r"[\w -]{1,80}\.\w{2,4}", alt) else f"image-{number}.jpg"
        found += [(name, url)] if urlsplit(url).scheme in ("http", "https") else []
    return found


def read_log(entry: Mapping[str, Any], own: str) -> Inbound | None:
    """An event of a private conversation."""
    name, conversation = entry.get("$type"), str(entry.get("convoId", ""))
    number = str(get_in(entry, "message", "id") or "")
    if not CONVERSATION.match(conversation) or not CONVERSATION.match(number):
        return None
    room = f"bluesky:direct/{conversation}"
    if name == LogType.REACTED:
        who, sign = str(get_in(entry, "reaction", "sender", "did") or ""), str(get_in(entry, "reaction", "value") or "")
        event = f"reaction:{sign[:32]}:bluesky:user/{who}"
        return _make_direct(room, number, who, own, sign[:32], event) if DID.match(who) and sign else None
    did = str(get_in(entry, "message", "sender", "did") or "")
    if not DID.match(did):
        return None
    if name == LogType.DELETED:
        return _make_direct(room, number, did, own, "", "delete", Verb.DELETE)
    if name != LogType.CREATED:
        return None
    at = read_time(get_in(entry, "message", "sentAt"))
    return _make_direct(room, number, did, own, str(get_in(entry, "message", "text") or ""), at=at or None)


def _make_direct(
    room: str,
    number: str,
    did: str,
    own: str,
    text: str,
    event: str = "message",
    verb: Verb = Verb.MENTION,
    at: int | None = None,
) -> Inbound:
    return Inbound(
        address=room,
        platform_id=number,
        sender=f"bluesky:user/{did}",
        text=text,
        event=event,
        verb=verb,
        direct=True,
        own=did == own,
        at=at,
    )


def render_facets(text: str) -> list[dict[str, Any]]:
    """Links are marked by their place, counted in bytes. Names are not: no word of an agent calls anybody."""
    found = []
    for match in list(_LINK.finditer(text))[:MOST_FACETS]:
        start = len(text[: match.start()].encode())
        found.append(
            {
                "index": {"byteStart": start, "byteEnd": start + len(match[0].encode())},
                "features": [{"$type": "app.bsky.richtext.facet#link", "uri": match[0]}],
            }
        )
    return found


def render_reply(target: RecordRef, record: Any) -> dict[str, Any]:
    """An answer names the post answered, and the first of its conversation."""
    root = read_ref(get_in(record, "reply", "root")) or target
    return {
        "root": {"uri": root.uri, "cid": root.cid},
        "parent": {"uri": target.uri, "cid": target.cid},
    }


def read_date(header: str) -> float:
    """Seconds since 1970 of an HTTP date; ValueError if it is none."""
    return parsedate_to_datetime(header).timestamp()
