"""Messages of ntfy, read into our words, and those that we publish, in its words. Pure."""

import hashlib
import re
from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import Any
from urllib.parse import urlsplit

from gatepost.core.clock import SECOND
from gatepost.core.errors import NotFound
from gatepost.messages.inbound import Attachment, AttachmentKind, Inbound, OpenFile, Verb

ANYBODY = "ntfy:user/anybody"
OWN = "gp-"  # a sequence that begins so is one of a gateway
_TOPIC = re.compile(r"[-_A-Za-z0-9]{1,64}")


class NtfyEvent(StrEnum):
    OPEN = "open"
    MESSAGE = "message"
    DELETED = "message_delete"


def is_topic(name: str) -> bool:
    return _TOPIC.fullmatch(name) is not None


def get_address(topic: str) -> str:
    return f"ntfy:topic/{topic}"


def parse_address(address: str) -> str:
    """The topic. Addresses may come from an agent, so they are checked."""
    topic = address.removeprefix("ntfy:topic/")
    if topic == address or not is_topic(topic):
        raise NotFound("room", address, "a room is ntfy:topic/<name>")
    return topic


def get_sequence(key: str) -> str:
    """One key is one sequence: published twice, it is one notification that was renewed."""
    return OWN + hashlib.sha256(key.encode()).hexdigest()[:24]


def read_sequence(line: Mapping[str, Any]) -> str:
    """By which a message is named from then on: its own id, unless whoever published it said otherwise."""
    for name in ("sequence_id", "id"):
        value = line.get(name)
        if isinstance(value, str) and is_topic(value):
            return value
    return ""


def read_id(line: Mapping[str, Any]) -> str:
    value = line.get("id")
    return value if isinstance(value, str) and is_topic(value) else ""


def read_seconds(line: Mapping[str, Any]) -> int:
    value = line.get("time")
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 < value < 10**11 else 0


def read_line(
    topic: str, line: Mapping[str, Any], *, edited: bool, open_file: Callable[[str], OpenFile | None]
) -> Inbound | None:
    """`edited`: a message of this sequence is known. An edit is as little proved as a message, so its verb says only
    that; a deletion of unproved origin is no event."""
    sequence, number = read_sequence(line), read_id(line)
    if line.get("event") != NtfyEvent.MESSAGE or not sequence or not number:
        return None
    title, text, at = str(line.get("title") or ""), str(line.get("message") or ""), read_seconds(line)
    return Inbound(
        address=get_address(topic),
        platform_id=sequence,
        sender=ANYBODY,
        sender_name=title[:100] or "somebody",
        text=f"{title}\n{text}" if title else text,
        event=f"edit:{number}" if edited else "message",
        verb=Verb.UNTRUSTED,
        own=sequence.startswith(OWN),
        room_name=topic,
        at=at * SECOND if at else None,
        attachments=_read_attachments(line, open_file),
    )


def _read_attachments(line: Mapping[str, Any], open_file: Callable[[str], OpenFile | None]) -> tuple[Attachment, ...]:
    """A file that lies elsewhere is not read: whoever writes in a topic would choose what this machine asks for."""
    found = line.get("attachment")
    if not isinstance(found, Mapping):
        return ()
    reader = open_file(str(found.get("url") or ""))
    if reader is None:
        return ()
    mime, size = str(found.get("type") or "application/octet-stream")[:100], found.get("size")
    family = mime.partition("/")[0]
    return (
        Attachment(
            name=str(found.get("name") or "file")[:200],
            mime=mime,
            kind=AttachmentKind(family) if family in ("image", "audio", "video") else AttachmentKind.FILE,
            open=reader,
            size=size if isinstance(size, int) and size >= 0 else None,
        ),
    )


def is_below(url: str, base: str) -> bool:
    """Return True if a file lies on the server itself."""
    given, known = urlsplit(url), urlsplit(base)
    return (given.scheme, given.netloc) == (known.scheme, known.netloc) and given.path.startswith("/file/")


def render_message(topic: str, sequence: str, text: str) -> dict[str, Any]:
    return {"topic": topic, "message": text, "markdown": True, "sequence_id": sequence}
