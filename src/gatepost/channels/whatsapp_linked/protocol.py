"""Words between the gateway and the process of the linked device: one JSON object a line, over its pipes.

The gateway begins with `Begin`. Each `Request` has a number and gets one `Answer`. An `Arrived` event comes again after
a new start until it was acknowledged. A line that is too long or malformed ends the process.
"""

from enum import StrEnum
from typing import Annotated, TypeAlias

import msgspec
from msgspec import Meta, Struct

LONGEST_LINE = 512 * 1024
UNREADABLE = "[a message of a kind that is not understood here: "  # a line in the place of what has no words

ShortText = Annotated[str, Meta(max_length=512)]
LongText = Annotated[str, Meta(max_length=128 * 1024)]
MediaToken = Annotated[str, Meta(max_length=64 * 1024)]  # what the library needs to fetch a file, as base64
Count = Annotated[int, Meta(ge=0, lt=2**53)]


class LinkState(StrEnum):
    """A state of the device."""

    NO_LIBRARY = "no_library"  # neonize is not installed
    PAIRING = "pairing"  # somebody must enter the code or scan the picture
    LINKED = "linked"  # the session is, and it was not asked to connect
    CONNECTED = "connected"
    DISCONNECTED = "disconnected"  # it connects again by itself
    LOGGED_OUT = "logged_out"  # the phone has removed it
    REPLACED = "replaced"  # another program uses the same session
    BANNED = "banned"  # for a while
    OUTDATED = "outdated"  # WhatsApp does not accept this version of the library


class AnswerState(StrEnum):
    """The outcome of a request."""

    DONE = "done"
    UNAVAILABLE = "unavailable"  # it did not happen, and may later
    UNCERTAIN = "uncertain"  # it may have happened
    REFUSED = "refused"
    NOT_FOUND = "not_found"


class DeviceEvent(StrEnum):
    """An event that arrived."""

    MESSAGE = "message"
    EDIT = "edit"
    REVOKE = "revoke"
    REACTION = "reaction"
    JOIN = "join"


class DeviceMedia(StrEnum):
    """How WhatsApp shows a file."""

    IMAGE = "image"
    VIDEO = "video"
    AUDIO = "audio"
    VOICE = "voice"
    DOCUMENT = "document"
    STICKER = "sticker"


class MessageKey(Struct, frozen=True):
    """A message in a chat. `author` matters in groups alone; `own`: this account wrote it."""

    id: ShortText
    author: ShortText = ""
    own: bool = False


class DeviceFile(Struct, frozen=True, kw_only=True):
    kind: DeviceMedia
    media: MediaToken
    name: ShortText = ""
    mime: ShortText = ""
    size: Count = 0


# The gateway writes these.


class Begin(Struct, frozen=True, kw_only=True, tag="begin"):
    folder: str  # of the session, of files and of events that nobody has acknowledged
    phone: ShortText = ""  # '': link by a QR code
    largest_file: Count = 0
    connect: bool = True  # False: only say whether the session is linked, from the disk


class Acknowledge(Struct, frozen=True, tag="ack"):
    number: Count


class SendText(Struct, frozen=True, kw_only=True, tag="text"):
    request: Count
    chat: ShortText
    text: LongText
    quoted: MessageKey | None = None
    forwarded: bool = False  # shown with WhatsApp's label
    edits: ShortText = ""  # the id of a message of ours that gets this text


class SendFile(Struct, frozen=True, kw_only=True, tag="file"):
    request: Count
    chat: ShortText
    path: str
    kind: DeviceMedia
    name: ShortText = ""
    mime: ShortText = ""
    caption: LongText = ""
    quoted: MessageKey | None = None
    forwarded: bool = False


class Revoke(Struct, frozen=True, kw_only=True, tag="revoke"):
    request: Count
    chat: ShortText
    message: MessageKey


class React(Struct, frozen=True, kw_only=True, tag="react"):
    request: Count
    chat: ShortText
    message: MessageKey
    emoji: ShortText


class ShowTyping(Struct, frozen=True, kw_only=True, tag="typing"):
    request: Count
    chat: ShortText
    on: bool


class FetchFile(Struct, frozen=True, kw_only=True, tag="fetch"):
    """The file is written to `files/<name>` in the folder."""

    request: Count
    name: ShortText
    media: MediaToken


Request: TypeAlias = SendText | SendFile | Revoke | React | ShowTyping | FetchFile
GatewayLine: TypeAlias = Begin | Acknowledge | Request


# The process of the device writes these.


class Answer(Struct, frozen=True, kw_only=True, tag="answer"):
    request: Count
    state: AnswerState = AnswerState.DONE
    message: ShortText = ""  # the id of what was sent
    detail: ShortText = ""
    retry_after: float = 0.0


class LinkStatus(Struct, frozen=True, kw_only=True, tag="status"):
    state: LinkState
    account: ShortText = ""
    name: ShortText = ""
    code: ShortText = ""  # to enter on the phone
    picture: LongText = ""  # a QR code, drawn with letters
    detail: ShortText = ""


class Alive(Struct, frozen=True, tag="alive"):
    """Now and then, while the device is connected to WhatsApp."""


class Arrived(Struct, frozen=True, kw_only=True, tag="event"):
    number: Count
    kind: DeviceEvent
    chat: ShortText
    message: MessageKey  # that it is, or that it is about
    sender: ShortText
    sender_name: ShortText = ""
    group: bool = False
    own: bool = False  # this account did it, on the phone or on another device
    at: Count = 0  # seconds
    id: ShortText = ""  # of the event itself, where it is not the message
    text: LongText = ""
    mentioned: bool = False
    forwarded: bool = False
    quoted: MessageKey | None = None
    quoted_text: LongText = ""
    files: Annotated[tuple[DeviceFile, ...], Meta(max_length=8)] = ()


DeviceLine: TypeAlias = Answer | LinkStatus | Alive | Arrived

_ENCODER = msgspec.json.Encoder()
_GATEWAY = msgspec.json.Decoder(GatewayLine)
_DEVICE = msgspec.json.Decoder(DeviceLine)


def render_line(line: GatewayLine | DeviceLine) -> bytes:
    return _ENCODER.encode(line) + b"\n"


def parse_gateway_line(line: bytes) -> GatewayLine:
    """Raises msgspec.DecodeError (msgspec.ValidationError is one)."""
    found: GatewayLine = _GATEWAY.decode(line)
    return found


def parse_device_line(line: bytes) -> DeviceLine:
    found: DeviceLine = _DEVICE.decode(line)
    return found
