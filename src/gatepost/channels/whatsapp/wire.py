"""WhatsApp's words and ours: what Meta sends becomes events, cards and texts become bodies of requests. No I/O."""

import re
from collections.abc import Callable, Iterator, Sequence
from enum import StrEnum
from typing import Any

from msgspec import Struct, structs

from gatepost.channels.kit.forwarded import render_forwarded
from gatepost.channels.kit.json_values import list_objects, read_object, read_text
from gatepost.core import log
from gatepost.core.clock import SECOND
from gatepost.core.errors import Unsupported
from gatepost.flow.delivery.content_fallback import name_files
from gatepost.messages.card import Card, render_text
from gatepost.messages.inbound import CLICK, Attachment, AttachmentKind, Inbound, OpenFile, Quote, Verb
from gatepost.messages.markdown.markup import PLAIN, WHATSAPP, render
from gatepost.messages.outbound import Op, Outbound, OutboundFile

LONGEST_CALLBACK = 512
LONGEST_EMOJI = 64
MOST_BUTTONS, LONGEST_BUTTON, LONGEST_BUTTONS_BODY = 3, 20, 1024
MOST_ROWS, LONGEST_ROW, LONGEST_ABOUT, LONGEST_LIST_BODY = 10, 24, 72, 4096
LONGEST_CAPTION = 1024
LONGEST_TEXT = 4096
LARGEST_IMAGE, LARGEST_SOUND = 5 * 1024 * 1024, 16 * 1024 * 1024
GROUPS = "whatsapp:group/"
VOICE_MIME = "audio/ogg; codecs=opus"
UNREADABLE = "[a message of the kind "  # a line in the place of what Meta does not give us
MEDIA = {
    "image": AttachmentKind.IMAGE,
    "sticker": AttachmentKind.IMAGE,
    "audio": AttachmentKind.AUDIO,
    "video": AttachmentKind.VIDEO,
    "document": AttachmentKind.FILE,
}
IMAGES = frozenset({"image/jpeg", "image/png"})
SOUNDS = frozenset({"audio/aac", "audio/amr", "audio/mpeg", "audio/mp4", VOICE_MIME, "audio/ogg"})
VIDEOS = frozenset({"video/mp4", "video/3gp", "video/3gpp"})
OFFICE = "application/vnd.openxmlformats-officedocument."
# The types that an upload takes, as the API lists them where it refuses one; see testing/platform_rules/whatsapp.py.
DOCUMENTS = frozenset(
    {
        "application/pdf",
        "application/msword",
        "application/vnd.ms-excel",
        "application/vnd.ms-powerpoint",
        f"{OFFICE}wordprocessingml.document",
        f"{OFFICE}presentationml.presentation",
        f"{OFFICE}spreadsheetml.sheet",
    }
)
TEXTS = frozenset({f"application/{each}" for each in ("json", "xml", "yaml", "toml", "sql", "javascript", "x-sh")})
_NUMBER = re.compile(r"[0-9]{5,20}\Z")
# A person within one business, who may hide their number: Meta, "Business-scoped user IDs", read 2026-11-17.
_USER_ID = re.compile(r"[A-Z]{2}\.(?:ENT\.)?[0-9A-Za-z]{1,128}\Z")
_GROUP_ID = re.compile(r"[0-9A-Za-z_=-]{5,200}\Z")
_ID = re.compile(r"[\x21-\x7e]{1,256}\Z")

_log = log.get("whatsapp")
OpenMedia = Callable[[str], OpenFile]


class ReportedStatus(StrEnum):
    """The outcome of a message by Meta's word."""

    SENT = "sent"
    DELIVERED = "delivered"
    READ = "read"
    FAILED = "failed"


class NameReview(StrEnum):
    """Meta's verdict on a number's display name; there are more."""

    APPROVED = "APPROVED"
    DECLINED = "DECLINED"


class Recipient(Struct, frozen=True):
    """The room of a message, as Meta wants it: `field` holds `id`."""

    id: str
    field: str = "to"
    is_group: bool = False

    def render(self) -> dict[str, str]:
        return {"recipient_type": "group" if self.is_group else "individual", self.field: self.id}

    @property
    def address(self) -> str:
        return get_group_address(self.id) if self.is_group else get_address(self.id)


class MessageStatus(Struct, frozen=True):
    """Meta's report of a message of ours. `key`: what we sent along."""

    message: str
    has_failed: bool
    key: str
    code: int = 0
    detail: str = ""


def get_address(wa_id: str) -> str:
    return f"whatsapp:user/{wa_id}"


def get_group_address(group_id: str) -> str:
    return f"{GROUPS}{group_id}"


def parse_recipient(address: str) -> Recipient | None:
    """Return whom a room stands for: a number, a person without one, or a group. None if it is no room of ours."""
    kind, _, given = address.partition("/")
    if kind == "whatsapp:user" and _NUMBER.match(given):
        return Recipient(given)
    if kind == "whatsapp:user" and _USER_ID.match(given):
        return Recipient(given, "recipient")
    return Recipient(given, is_group=True) if kind == "whatsapp:group" and _GROUP_ID.match(given) else None


def explain_reaction(address: str, reaction: str) -> str:
    """Return what to use in place of a reaction, or ''. A group takes text and media of a business alone."""
    return "write a message: groups have no reactions of a business" if address.startswith(GROUPS) else ""


def list_values(payload: dict[str, Any], number_id: str) -> Iterator[dict[str, Any]]:
    """The changes of this number; an app may have several."""
    for entry in list_objects(payload.get("entry")):
        for change in list_objects(entry.get("changes")):
            value = change.get("value")
            if change.get("field") != "messages" or not isinstance(value, dict):
                continue
            if read_object(value.get("metadata")).get("phone_number_id") == number_id:
                yield value


def read_statuses(value: dict[str, Any]) -> Iterator[MessageStatus]:
    for each in list_objects(value.get("statuses")):
        error = next(iter(list_objects(each.get("errors"))), {})
        detail = read_object(error.get("error_data")).get("details") or error.get("title")
        code = error.get("code")
        yield MessageStatus(
            read_text(each.get("id")),
            each.get("status") == ReportedStatus.FAILED,
            read_text(each.get("biz_opaque_callback_data")),
            code if isinstance(code, int) else 0,
            read_text(detail),
        )


def read_messages(value: dict[str, Any], open_media: OpenMedia) -> Iterator[Inbound]:
    """Read the messages of an event. People who hide their number have only a `from_user_id`."""
    names: dict[str, str] = {}
    for contact in list_objects(value.get("contacts")):
        profile = read_object(contact.get("profile"))
        name = read_text(profile.get("name")) or read_text(profile.get("username"))
        names |= {read_text(contact.get(field)): name for field in ("wa_id", "user_id")}
    for message in list_objects(value.get("messages")):
        person, message_id = _read_person(message), read_text(message.get("id"))
        if person and _ID.match(message_id):
            yield _read_message(message, person, message_id, names.get(person, ""), open_media)
        else:
            _log.warning("a message of WhatsApp names no sender and is left out", message=message_id[:100])


def _read_person(message: dict[str, Any]) -> str:
    number, user_id = read_text(message.get("from")), read_text(message.get("from_user_id"))
    if _NUMBER.match(number) or _USER_ID.match(number):
        return number
    return user_id if _USER_ID.match(user_id) else ""


def _read_message(message: dict[str, Any], person: str, message_id: str, name: str, open_media: OpenMedia) -> Inbound:
    kind, group_id = read_text(message.get("type")), read_text(message.get("group_id"))
    body, sender = read_object(message.get(kind)), get_address(person)
    is_group = bool(_GROUP_ID.match(group_id))
    base: dict[str, Any] = {
        "address": get_group_address(group_id) if is_group else sender,
        "sender": sender,
        "sender_name": name,
        "room_name": "" if is_group else name,
        "direct": not is_group,
        "at": _read_time(message.get("timestamp")),
    }
    if kind == "reaction":
        # Without an emoji the reaction was taken back. That is an event of its own, and says nothing to an agent.
        emoji, target = read_text(body.get("emoji"))[:LONGEST_EMOJI], read_text(body.get("message_id"))
        if emoji and _ID.match(target):
            event = f"reaction:{emoji}:{sender}"
            return Inbound(platform_id=target, event=event, text=emoji, **base)
        return Inbound(platform_id=message_id, text="", own=True, **base)
    if kind in ("interactive", "button") and (clicked := _read_click(kind, body)):
        return Inbound(platform_id=message_id, event=CLICK, click=clicked, text="", **base)
    quote, context = _read_quote(message.get("context")), read_object(message.get("context"))
    return Inbound(
        platform_id=message_id,
        text=_read_contacts(message) or _read_text(kind, body),
        verb=Verb.REPLY if quote else Verb.MESSAGE,
        reply_to=quote,
        attachments=_read_media(kind, body, open_media),
        forwarded=bool(context.get("forwarded") or context.get("frequently_forwarded")),
        **base,
    )


def _read_click(kind: str, body: dict[str, Any]) -> str:
    if kind == "button":
        return read_text(body.get("payload"))
    return read_text(read_object(body.get(read_text(body.get("type")))).get("id"))


def _read_contacts(message: dict[str, Any]) -> str:
    lines = []
    for each in list_objects(message.get("contacts"))[:20]:
        numbers = ", ".join(read_text(phone.get("phone"))[:40] for phone in list_objects(each.get("phones"))[:5])
        lines.append(f"[contact: {read_text(read_object(each.get('name')).get('formatted_name'))[:100]}, {numbers}]")
    return "\n".join(lines)


def _read_text(kind: str, body: dict[str, Any]) -> str:
    match kind:
        case "text":
            return read_text(body.get("body"))
        case "location":
            place = " ".join(filter(None, (read_text(body.get("name")), read_text(body.get("address")))))
            return f"[location {body.get('latitude')}, {body.get('longitude')}] {place}".strip()
        case _ if kind in MEDIA:
            return read_text(body.get("caption"))
        case "button":
            return read_text(body.get("text"))
        case _:
            return f"{UNREADABLE}{kind[:40]!r}, which WhatsApp does not pass on whole]"


def _read_media(kind: str, body: dict[str, Any], open_media: OpenMedia) -> tuple[Attachment, ...]:
    media = read_text(body.get("id"))
    if kind not in MEDIA or not media.isascii() or not media.isalnum():
        return ()
    mime = read_text(body.get("mime_type")) or "application/octet-stream"
    name = read_text(body.get("filename")) or f"{kind}.{_guess_ending(mime)}"
    return (Attachment(name=name, mime=mime.partition(";")[0], kind=MEDIA[kind], open=open_media(media)),)


def _guess_ending(mime: str) -> str:
    ending = mime.partition(";")[0].rpartition("/")[2]
    return {"jpeg": "jpg", "mpeg": "mp3"}.get(ending, re.sub(r"[^a-z0-9]", "", ending)[:8] or "bin")


def _read_quote(context: Any) -> Quote | None:
    quoted = read_text(read_object(context).get("id"))
    return Quote(platform_id=quoted) if _ID.match(quoted) else None


def _read_time(raw: Any) -> int | None:
    text = str(raw)
    return int(text) * SECOND if text.isascii() and text.isdecimal() and len(text) <= 11 else None


def render_message(to: Recipient, message: Outbound, media: tuple[str, str] | None = None) -> dict[str, Any]:
    """The body of a request. `media`: the id of an uploaded file, and what kind of message it makes."""
    body: dict[str, Any] = {
        "messaging_product": "whatsapp",
        **to.render(),
        "biz_opaque_callback_data": message.key[:LONGEST_CALLBACK],
    }
    if message.reply_to and message.op is not Op.REACT:
        body["context"] = {"message_id": message.reply_to}
    if message.op is Op.REACT and to.is_group:
        raise Unsupported("react", "whatsapp", explain_reaction(to.address, message.reaction))
    if message.op is Op.REACT:
        return body | {"type": "reaction", "reaction": {"message_id": message.target, "emoji": message.reaction}}
    if media is not None:
        return body | _render_media(message, *media)
    interactive = render_card(message.card) if message.card is not None and not to.is_group else None
    if interactive is not None:
        return body | {"type": "interactive", "interactive": interactive}
    return body | {"type": "text", "text": {"body": render_words(message.text), "preview_url": False}}


def render_forward(message: Outbound) -> Outbound:
    """Return a forward as a message of our own: the API has none, and nobody can ask it for a message. Files are
    uploaded again: Meta's id for a file that came in holds for days only, and is not said to be sendable."""
    passed = message.passed
    if passed is not None and not passed.own and passed.text.startswith(UNREADABLE):
        message = structs.replace(message, passed=None)
    return render_forwarded(message, "whatsapp", WHATSAPP, LONGEST_TEXT, lambda file: bool(find_media_kind(file)[1]))


def render_template(to: Recipient, message: Outbound, name: str, language: str) -> dict[str, Any]:
    """The words as the one parameter of a template. A parameter has no line breaks, tabs or runs of spaces."""
    words = " ".join(message.text.split())
    if message.op is Op.FORWARD:
        words = " ".join(render(message.text, PLAIN).split())
        if message.files or len(words) > LONGEST_CAPTION:
            why = "a template is all that reaches this person now, and has only a few words"
            raise Unsupported("forward", "whatsapp", f"{why}; try again once they have written")
    if message.card is not None and message.card.buttons and len(words) > LONGEST_CAPTION:
        raise Unsupported("card", "whatsapp", "write to the person again once they have written")
    words = words[:LONGEST_CAPTION] or "…"
    return {
        "messaging_product": "whatsapp",
        **to.render(),
        "biz_opaque_callback_data": message.key[:LONGEST_CALLBACK],
        "type": "template",
        "template": {
            "name": name,
            "language": {"code": language},
            "components": [{"type": "body", "parameters": [{"type": "text", "text": words}]}],
        },
    }


def find_media_kind(file: OutboundFile, *, voice: bool = False) -> tuple[str, str]:
    """Return the kind of message that a file makes, and the type for its upload: '' if WhatsApp takes no such file. A
    file that it does not show is a document. A text of whatever kind goes as plain text, and keeps its name."""
    mime = "video/3gpp" if file.mime == "video/3gp" else file.mime.partition(";")[0]
    if voice:
        return "audio", VOICE_MIME
    if mime in IMAGES and file.size <= LARGEST_IMAGE:
        return "image", mime
    if mime in SOUNDS - {"audio/ogg"} and file.size <= LARGEST_SOUND:
        return "audio", mime
    if mime in VIDEOS and file.size <= LARGEST_SOUND:
        return "video", mime
    if mime.startswith("text/") or mime in TEXTS:
        return "document", "text/plain"
    return "document", mime if mime in DOCUMENTS | IMAGES | SOUNDS | VIDEOS else ""


def name_untaken(message: Outbound) -> Outbound:
    """The message with a line in the place of each file whose type WhatsApp refuses."""
    voice = message.op is Op.VOICE
    untaken = [each for each in message.files if not find_media_kind(each, voice=voice)[1]]
    if not untaken:
        return message
    taken = tuple(each for each in message.files if each not in untaken)
    op = message.op if taken else Op.SEND
    return structs.replace(message, op=op, text=name_files(message.text, untaken), files=taken)


def has_caption(kind: str, text: str) -> bool:
    """Return True if the words fit below the file. Sound has none."""
    return kind != "audio" and len(render(text, WHATSAPP)) <= LONGEST_CAPTION


def render_words(text: str) -> str:
    """Return a text as WhatsApp shows it. One that marks would make too long goes as it was written."""
    rendered = render(text, WHATSAPP)
    return rendered if len(rendered) <= LONGEST_TEXT else text


def render_files(to: Recipient, message: Outbound, media: Sequence[tuple[str, str]]) -> list[dict[str, Any]]:
    """A message for each file; the words are below the first, or before it where they do not fit. `media`: of each file
    the id of its upload, and its kind."""
    parts: list[dict[str, Any]] = []
    if message.text and message.op is not Op.VOICE and not has_caption(media[0][1], message.text):
        parts.append(render_message(to, structs.replace(message, files=(), card=None)))
        message = structs.replace(message, text="", reply_to="")
    for file, each in zip(message.files, media, strict=True):
        parts.append(render_message(to, structs.replace(message, files=(file,)), each))
        message = structs.replace(message, text="", reply_to="")
    for place, part in enumerate(parts[:-1]):
        part["biz_opaque_callback_data"] = f"part {place}"
    return parts


def _render_media(message: Outbound, media: str, kind: str) -> dict[str, Any]:
    shown: dict[str, Any] = {"id": media}
    if message.op is Op.VOICE:
        shown["voice"] = True
    elif message.text and has_caption(kind, message.text):
        shown["caption"] = render(message.text, WHATSAPP)
    if kind == "document":
        shown["filename"] = message.files[0].name
    return {"type": kind, kind: shown}


def fits_card(card: Card) -> bool:
    """As buttons or rows; or as a text, where neither can show such a card."""
    if card.many or len(card.buttons) > MOST_ROWS or not card.buttons:
        return len(render(render_text(card), WHATSAPP)) <= LONGEST_TEXT
    shown = render_card(card)
    return shown is not None and all(len(each.about) <= LONGEST_ABOUT for each in card.buttons)


def render_card(card: Card) -> dict[str, Any] | None:
    """Buttons, or a list of rows. None where neither can show the card: then it is text, with numbers to answer."""
    text = "\n\n".join(part for part in (f"*{card.title}*", render(card.text, WHATSAPP), _render_fields(card)) if part)
    if card.many or not 0 < len(card.buttons) <= MOST_ROWS:
        return None
    short = all(len(each.label) <= LONGEST_BUTTON and not each.about for each in card.buttons)
    short = short and len({each.label for each in card.buttons}) == len(card.buttons)  # titles of rows may be the same
    if short and len(card.buttons) <= MOST_BUTTONS and len(text) <= LONGEST_BUTTONS_BODY:
        buttons = [{"type": "reply", "reply": {"id": each.id, "title": each.label}} for each in card.buttons]
        return {"type": "button", "body": {"text": text}, "action": {"buttons": buttons}}
    if len(text) > LONGEST_LIST_BODY:
        return None
    rows = [_render_row(each.id, each.label, each.about) for each in card.buttons]
    action = {"button": "Choose", "sections": [{"title": "Choose", "rows": rows}]}
    return {"type": "list", "body": {"text": text}, "action": action}


def _render_row(row_id: str, label: str, about: str) -> dict[str, str]:
    """A label that does not fit begins in the title and stands whole below it."""
    if len(label) <= LONGEST_ROW:
        return {"id": row_id, "title": label} | ({"description": about[:LONGEST_ABOUT]} if about else {})
    return {"id": row_id, "title": f"{label[: LONGEST_ROW - 1]}…", "description": label[:LONGEST_ABOUT]}


def _render_fields(card: Card) -> str:
    return "\n".join(f"{field.name}: {field.value}" for field in card.fields)
