"""A line of a topic's stream becomes an event, and what is said becomes a publication. No I/O."""

import json
import re
from typing import Any
from urllib.parse import urlsplit

from msgspec import Struct

from gatepost.core.clock import SECOND
from gatepost.messages.inbound import Inbound, Verb
from gatepost.messages.outbound import Outbound

OWN = "gatepost"  # the tag of what a gateway says; without it a bot would answer itself
ANYBODY = "ntfy:user/anybody"
TOPIC = re.compile(r"[A-Za-z0-9_-]{1,64}\Z")
_ID = re.compile(r"[A-Za-z0-9_-]{1,64}\Z")
LATEST_S = 1 << 40


class NtfyFile(Struct, frozen=True):
    name: str
    url: str
    mime: str
    size: int | None


class NtfyMessage(Struct, frozen=True):
    inbound: Inbound
    file: NtfyFile | None


def parse_topic(address: str) -> str | None:
    platform, _, topic = address.partition(":")
    return topic if platform == "ntfy" and TOPIC.match(topic) else None


def read_line(line: bytes, protected: bool, origin: str) -> NtfyMessage | None:
    """None: a sign of life, or nothing that we know. A file that lies elsewhere than on the server stays a link: nobody
    makes us call an address of their choice."""
    try:
        given = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(given, dict) or given.get("event") != "message":
        return None
    topic, identity, at = given.get("topic"), given.get("id"), given.get("time")
    if not isinstance(topic, str) or not TOPIC.match(topic) or not isinstance(identity, str) or not _ID.match(identity):
        return None
    file, link = _read_file(given.get("attachment"), origin)
    title, text = _get_text(given, "title"), _get_text(given, "message")
    tags = given.get("tags")
    inbound = Inbound(
        address=f"ntfy:{topic}",
        platform_id=identity,
        sender=ANYBODY,
        sender_name="somebody",
        text="\n".join(filter(None, (title, text, link))),
        verb=Verb.MESSAGE if protected else Verb.UNTRUSTED,
        own=isinstance(tags, list) and OWN in tags,
        room_name=topic,
        at=at * SECOND if isinstance(at, int) and 0 < at < LATEST_S else None,
    )
    return NtfyMessage(inbound, file)


def _read_file(given: Any, origin: str) -> tuple[NtfyFile | None, str]:
    if not isinstance(given, dict):
        return None, ""
    url, size = _get_text(given, "url"), given.get("size")
    parts, own = urlsplit(url) if url.isascii() else urlsplit(""), urlsplit(origin)
    if (parts.scheme, parts.netloc) != (own.scheme, own.netloc):
        return None, url[:2000]
    mime = _get_text(given, "type")[:100] or "application/octet-stream"
    name = _get_text(given, "name")[:200] or "file"
    return NtfyFile(name, url, mime, size if isinstance(size, int) else None), ""


def _get_text(given: dict[str, Any], name: str) -> str:
    value = given.get(name)
    return value if isinstance(value, str) else ""


def render_publication(topic: str, message: Outbound) -> dict[str, Any]:
    return {"topic": topic, "message": message.text, "tags": [OWN]}


def read_id(answer: Any) -> str | None:
    found = answer.get("id") if isinstance(answer, dict) else None
    return found if isinstance(found, str) and _ID.match(found) else None
