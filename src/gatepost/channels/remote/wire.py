"""The protocol's JSON: what a program posts becomes an event or an outcome, and an effect becomes JSON. No I/O."""

import re
from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import Any, TypeVar

import msgspec
from msgspec import Struct

from gatepost.core.errors import Invalid
from gatepost.core.records import replace
from gatepost.messages.address import parse
from gatepost.messages.inbound import CLICK, Attachment, AttachmentKind, Inbound, Quote, Verb
from gatepost.messages.outbound import Outbound

LONGEST_TEXT = 100_000
LONGEST_ID = 255
LONGEST_NAME = 200
MOST_EVENTS = 100
MOST_ATTACHMENTS = 20
LATEST_MS = 1 << 50
_ID = re.compile(r"[^\x00-\x20\x7f-\x9f\ud800-\udfff]{1,255}\Z")
_EVENT = re.compile(r"[a-z_]{1,32}(?::[^\x00-\x20\x7f-\x9f\ud800-\udfff]{1,600})?\Z")

T = TypeVar("T")
FindFile = Callable[[str], Attachment]


class PostedFile(Struct, frozen=True, forbid_unknown_fields=True):
    """`file`: the id that `POST /files` answered with."""

    file: str
    name: str = ""
    mime: str = ""
    kind: AttachmentKind = AttachmentKind.FILE


class PostedQuote(Struct, frozen=True, forbid_unknown_fields=True):
    platform_id: str
    sender: str = ""
    text: str = ""


class PostedEvent(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    address: str
    platform_id: str
    sender: str
    text: str = ""
    event: str = "message"
    verb: Verb = Verb.MESSAGE
    sender_name: str = ""
    room_name: str = ""
    thread: str = ""
    direct: bool = False
    own: bool = False
    at_ms: int | None = None
    reply_to: PostedQuote | None = None
    forwarded: bool = False
    forward_from: str = ""
    click: str = ""
    attachments: tuple[PostedFile, ...] = ()


class PostedBatch(Struct, frozen=True, forbid_unknown_fields=True):
    events: list[PostedEvent]


class OutcomeStatus(StrEnum):
    """The outcome of an effect."""

    SENT = "sent"  # or found, opened, done: it is so
    NOT_FOUND = "not_found"  # of a look-up: it certainly is not there
    UNAVAILABLE = "unavailable"
    REFUSED = "refused"


class PostedOutcome(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    status: OutcomeStatus
    platform_id: str = ""
    address: str = ""  # of a private room that was opened
    reason: str = ""
    retry_after: float | None = None
    everywhere: bool = False
    uncertain: bool = False


class EffectKind(StrEnum):
    """An act that a program is asked for."""

    SEND = "send"  # `message` says which operation
    LOOK_UP = "look_up"
    TYPING = "typing"
    OPEN_DIRECT = "open_direct"
    SUBSCRIBE = "subscribe"


def parse_body(body: bytes, shape: type[T]) -> T:
    try:
        return msgspec.json.decode(body, type=shape)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise Invalid("body", str(error)[:300] or "it is no JSON") from None


def read_events(body: bytes, platform: str, find_file: FindFile) -> list[Inbound]:
    """All of them, or Invalid with the number of the first that is wrong: a batch is taken whole."""
    batch = parse_body(body, PostedBatch)
    if not 1 <= len(batch.events) <= MOST_EVENTS:
        raise Invalid("events", f"post 1 to {MOST_EVENTS} at once")
    found = []
    for number, each in enumerate(batch.events):
        try:
            found.append(read_event(each, platform, find_file))
        except Invalid as error:
            raise Invalid(f"events[{number}].{error.target}", error.why) from None
    return found


def read_event(given: PostedEvent, platform: str, find_file: FindFile) -> Inbound:
    _check_lengths(given)
    if not _EVENT.match(given.event):
        raise Invalid("event", "message, click, join, delete, edit:<revision> or reaction:<emoji>:<sender>")
    if (given.event == CLICK) != bool(given.click):
        raise Invalid("click", "the event click has the id of a button, and no other has")
    if given.at_ms is not None and not 0 <= given.at_ms < LATEST_MS:
        raise Invalid("at_ms", "milliseconds since 1970")
    if len(given.attachments) > MOST_ATTACHMENTS:
        raise Invalid("attachments", f"at most {MOST_ATTACHMENTS}")
    return Inbound(
        address=check_address(given.address, platform, "address"),
        platform_id=check_id(given.platform_id, "platform_id"),
        sender=check_sender(given.sender, platform),
        sender_name=given.sender_name,
        room_name=given.room_name,
        text=given.text,
        event=given.event,
        verb=given.verb,
        thread=check_id(given.thread, "thread") if given.thread else "",
        direct=given.direct,
        own=given.own,
        at=given.at_ms * 1000 if given.at_ms is not None else None,
        reply_to=_read_quote(given.reply_to, platform) if given.reply_to else None,
        forwarded=given.forwarded or bool(given.forward_from),
        forward_from=given.forward_from,
        click=check_id(given.click, "click") if given.click else "",
        attachments=tuple(_read_file(each, find_file) for each in given.attachments),
    )


def _check_lengths(given: PostedEvent) -> None:
    names = ("sender_name", "room_name", "forward_from")
    for name, most in (("text", LONGEST_TEXT), *((name, LONGEST_NAME) for name in names)):
        if len(getattr(given, name)) > most:
            raise Invalid(name, f"it has more than {most} characters")


def check_address(text: str, platform: str, field: str) -> str:
    """Check that an address is of this program's own platform: it speaks for no other."""
    found = parse(text, field)
    if found.platform != platform:
        raise Invalid(field, f"it begins with {found.platform}:, and this token is for {platform}: alone")
    return str(found)


def check_sender(text: str, platform: str) -> str:
    found = parse(text, "sender")
    if found.platform != platform or not found.rest.startswith("user/") or found.rest == "user/":
        raise Invalid("sender", f"a person is {platform}:user/<id>")
    return str(found)


def check_id(text: str, field: str) -> str:
    if not _ID.match(text):
        raise Invalid(field, f"1 to {LONGEST_ID} visible characters")
    return text


def _read_quote(given: PostedQuote, platform: str) -> Quote:
    if len(given.text) > LONGEST_TEXT:
        raise Invalid("reply_to.text", f"it has more than {LONGEST_TEXT} characters")
    sender = check_sender(given.sender, platform) if given.sender else ""
    return Quote(platform_id=check_id(given.platform_id, "reply_to.platform_id"), sender=sender, text=given.text)


def _read_file(given: PostedFile, find_file: FindFile) -> Attachment:
    if max(len(given.name), len(given.mime)) > LONGEST_NAME:
        raise Invalid("attachments", f"a name has at most {LONGEST_NAME} characters")
    kept = find_file(given.file)
    return Attachment(
        name=given.name or kept.name, mime=given.mime or kept.mime, kind=given.kind, open=kept.open, size=kept.size
    )


def render_message(effect: str, message: Outbound) -> dict[str, Any]:
    """Render a message without its empty fields. A file's path is ours: the program gets an id."""
    shown: dict[str, Any] = msgspec.to_builtins(replace(message, passed=None))
    files = [
        {"id": f"{effect}-{number}", "name": each.name, "mime": each.mime, "size": each.size}
        for number, each in enumerate(message.files)
    ]
    return {**{name: value for name, value in shown.items() if value}, **({"files": files} if files else {})}


def render_receipt(event: Inbound, new: bool, state: str, reason: str) -> Mapping[str, Any]:
    return {"platform_id": event.platform_id, "event": event.event, "new": new, "state": state, "reason": reason}
