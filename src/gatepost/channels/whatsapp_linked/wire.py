"""The device's words and ours: what it reports becomes events, messages become requests to it. No I/O.

The id of somebody's message in a private chat is `<id>` here, that of this account's own is `<id>.me`. In groups it is
`<id>.<author>`: WhatsApp names a message there by its author, too.
"""

import re
from collections.abc import Callable
from functools import partial

from gatepost.channels.kit.forwarded import render_forwarded
from gatepost.channels.whatsapp_linked.protocol import (
    UNREADABLE,
    Arrived,
    DeviceEvent,
    DeviceFile,
    DeviceMedia,
    MessageKey,
    Request,
    SendFile,
    SendText,
)
from gatepost.core.clock import SECOND
from gatepost.core.records import replace
from gatepost.messages.inbound import Attachment, AttachmentKind, Inbound, OpenFile, Quote, Verb
from gatepost.messages.markdown.markup import WHATSAPP, render
from gatepost.messages.outbound import Op, Outbound, OutboundFile

KIND = "whatsapp_linked"
OWN = "me"
PEOPLE, HIDDEN, GROUPS = "s.whatsapp.net", "lid", "g.us"
LONGEST_EMOJI = 32
LONGEST_CAPTION = 1024
LONGEST_TEXT = 4096
KINDS = {
    DeviceMedia.IMAGE: AttachmentKind.IMAGE,
    DeviceMedia.STICKER: AttachmentKind.IMAGE,
    DeviceMedia.VIDEO: AttachmentKind.VIDEO,
    DeviceMedia.AUDIO: AttachmentKind.AUDIO,
    DeviceMedia.VOICE: AttachmentKind.AUDIO,
    DeviceMedia.DOCUMENT: AttachmentKind.FILE,
}
NAMES = {
    DeviceMedia.IMAGE: "image.jpg",
    DeviceMedia.STICKER: "sticker.webp",
    DeviceMedia.VIDEO: "video.mp4",
    DeviceMedia.AUDIO: "sound.ogg",
    DeviceMedia.VOICE: "voice.ogg",
    DeviceMedia.DOCUMENT: "file",
}
SHOWN = {
    "image/jpeg": DeviceMedia.IMAGE,
    "image/png": DeviceMedia.IMAGE,
    "video/mp4": DeviceMedia.VIDEO,
    "audio/mpeg": DeviceMedia.AUDIO,
    "audio/mp4": DeviceMedia.AUDIO,
    "audio/aac": DeviceMedia.AUDIO,
}
_PERSON = re.compile(r"([0-9]{4,20})@(s\.whatsapp\.net|lid)\Z")
_GROUP = re.compile(r"([0-9]{4,24}(?:-[0-9]{4,24})?)@g\.us\Z")
_ROOM = re.compile(rf"{KIND}:(user|group)/([0-9-]{{4,50}})(\.lid)?\Z")
_ID = re.compile(r"[A-Za-z0-9_-]{1,128}\Z")

OpenMedia = Callable[[DeviceFile], OpenFile]
MakeRequest = Callable[[int], Request]


def get_person_address(person: str) -> str | None:
    """Make the address of a person from their id on WhatsApp; None if it is none. People who hide their number have
    another id."""
    found = _PERSON.match(person)
    if found is None:
        return None
    return f"{KIND}:user/{found[1]}" + (".lid" if found[2] == HIDDEN else "")


def get_room_address(chat: str) -> str | None:
    found = _GROUP.match(chat)
    return f"{KIND}:group/{found[1]}" if found else get_person_address(chat)


def parse_room(address: str) -> str | None:
    """The id of a chat on WhatsApp; None if the address is none of ours."""
    found = _ROOM.match(address)
    if found is None:
        return None
    kind, number, hidden = found.groups()
    if kind == "group":
        chat = f"{number}@{GROUPS}"
        return chat if not hidden and _GROUP.match(chat) else None
    chat = f"{number}@{HIDDEN if hidden else PEOPLE}"
    return chat if _PERSON.match(chat) else None


def render_message_id(key: MessageKey, *, group: bool) -> str | None:
    """None for an id that WhatsApp would not give."""
    if not _ID.match(key.id):
        return None
    if key.own:
        return f"{key.id}.{OWN}"
    if not group:
        return key.id
    return f"{key.id}.{key.author}" if _PERSON.match(key.author) else None


def parse_message_id(text: str) -> MessageKey | None:
    number, _, author = text.partition(".")
    if not _ID.match(number) or not (author in ("", OWN) or _PERSON.match(author)):
        return None
    return MessageKey(number, own=True) if author == OWN else MessageKey(number, author)


def read_event(arrived: Arrived, open_media: OpenMedia) -> Inbound | None:
    """None for what is none of ours: a status, a channel of WhatsApp, an id that is none."""
    room, sender = get_room_address(arrived.chat), get_person_address(arrived.sender)
    message = render_message_id(arrived.message, group=arrived.group)
    if room is None or sender is None or message is None or arrived.group != arrived.chat.endswith(GROUPS):
        return None
    common = partial(
        Inbound,
        address=room,
        platform_id=message,
        sender=sender,
        sender_name=arrived.sender_name,
        direct=not arrived.group,
        own=arrived.own,
        at=arrived.at * SECOND or None,
    )
    match arrived.kind:
        case DeviceEvent.REVOKE:
            return common(text="", event="delete", verb=Verb.DELETE)
        case DeviceEvent.REACTION:
            if not 0 < len(arrived.text) <= LONGEST_EMOJI:
                return None  # '': it was taken back
            return common(text=arrived.text, event=f"reaction:{arrived.text}:{sender}")
        case DeviceEvent.JOIN:
            return common(text="", event="join", verb=Verb.JOIN)
        case DeviceEvent.EDIT:
            if not _ID.match(arrived.id):
                return None
            return common(text=arrived.text, event=f"edit:{arrived.id}", verb=Verb.EDIT)
    quote = _read_quote(arrived)
    verb = Verb.MENTION if arrived.mentioned else Verb.REPLY if quote else Verb.MESSAGE
    files = tuple(_read_file(each, open_media) for each in arrived.files)
    if not arrived.text and not files:
        return None
    return common(text=arrived.text, verb=verb, reply_to=quote, attachments=files, forwarded=arrived.forwarded)


def _read_quote(arrived: Arrived) -> Quote | None:
    if arrived.quoted is None:
        return None
    quoted = render_message_id(arrived.quoted, group=arrived.group)
    if quoted is None:
        return None
    sender = "" if arrived.quoted.own else get_person_address(arrived.quoted.author) or ""
    return Quote(platform_id=quoted, sender=sender, text=arrived.quoted_text)


def _read_file(file: DeviceFile, open_media: OpenMedia) -> Attachment:
    return Attachment(
        name=file.name or NAMES[file.kind],
        mime=file.mime.partition(";")[0].strip() or "application/octet-stream",
        kind=KINDS[file.kind],
        size=file.size or None,
        open=open_media(file),
    )


def find_media_kind(file: OutboundFile, *, voice: bool = False) -> DeviceMedia:
    """Return how a file is shown. A type that WhatsApp does not show is a document."""
    return DeviceMedia.VOICE if voice else SHOWN.get(file.mime, DeviceMedia.DOCUMENT)


def render_text(message: Outbound) -> str:
    return render(message.text, WHATSAPP)


def render_forward(message: Outbound) -> Outbound:
    """Return a forward as a message that says whose words they are: WhatsApp's own label does not."""
    passed = message.passed
    if passed is not None and not passed.own and passed.text.startswith(UNREADABLE):
        message = replace(message, passed=None)
    return render_forwarded(message, KIND, WHATSAPP, LONGEST_TEXT, lambda file: True)


def render_requests(chat: str, message: Outbound, quoted: MessageKey | None) -> list[MakeRequest]:
    """A message for each file; the words are below the first, or before it where they do not fit. The first of them
    answers what was quoted."""
    text, forwarded = render_text(message), message.op is Op.FORWARD

    def make_text(number: int) -> Request:
        return SendText(request=number, chat=chat, text=text, quoted=quoted, forwarded=forwarded)

    if not message.files:
        return [make_text]
    voice = message.op is Op.VOICE
    # Sound of that type that came from WhatsApp is a voice note.
    kinds = [find_media_kind(each, voice=voice or (forwarded and each.mime == "audio/ogg")) for each in message.files]
    made: list[MakeRequest] = []
    sound = kinds[0] in (DeviceMedia.AUDIO, DeviceMedia.VOICE)
    if text and not voice and (sound or len(text) > LONGEST_CAPTION):
        made.append(make_text)
    for file, kind in zip(message.files, kinds, strict=True):
        first = not made
        caption = text if first and not voice else ""
        made.append(partial(_make_file, chat, file, kind, caption, quoted if first else None, forwarded))
    return made


def _make_file(
    chat: str,
    file: OutboundFile,
    kind: DeviceMedia,
    caption: str,
    quoted: MessageKey | None,
    forwarded: bool,
    number: int,
) -> Request:
    return SendFile(
        request=number,
        chat=chat,
        path=file.path,
        kind=kind,
        name=file.name[:255],
        mime=file.mime[:255],
        caption=caption,
        quoted=quoted,
        forwarded=forwarded,
    )
