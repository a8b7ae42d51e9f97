"""Events that a channel hands to intake: each of one person in one room, in our words only.

Some senders' identity is not proven by their platform, such as that of mail without DMARC. Their claim is no address of
a person. It is replaced once, when a message comes in, by an address on a separate platform. So a right of a person, of
a platform or of a pattern of addresses never applies to them.
"""

from collections.abc import AsyncIterator, Callable
from enum import StrEnum
from hashlib import sha256
from typing import Any

from msgspec import Struct, field

from gatepost.core.records import replace
from gatepost.messages.address import LONGEST, is_longer

CLICK = "click"  # the event of somebody who pressed a button of a card
OpenFile = Callable[[], AsyncIterator[bytes]]
UNTRUSTED_PLATFORM = "untrusted"
UNTRUSTED_MARK = " (not proven)"  # behind the name that they give themselves
LONGEST_UNTRUSTED_NAME = 150
_BEGIN = f"{UNTRUSTED_PLATFORM}:"
OPERATOR = "operator"  # whoever may open the control socket, or the home itself: no person of a platform
SYNTHETIC = (
    "agent",
    "gatepost",
    "task",
    UNTRUSTED_PLATFORM,
)  # of senders that are no people; nobody there gives commands


class MessageKind(StrEnum):
    """The role of a message for the agent. There is no second chat kind."""

    CHAT = "chat"
    TASK = "task"
    WEBHOOK = "webhook"
    SYSTEM = "system"
    VERDICT = "verdict"
    CONTROL = "control"


class Direction(StrEnum):
    """The direction of a message, seen from the gateway."""

    IN = "in"
    OUT = "out"


class Verb(StrEnum):
    """The act of a person."""

    MESSAGE = "message"
    MENTION = "mention"
    REPLY = "reply"
    LIKE = "like"
    DISLIKE = "dislike"
    EDIT = "edit"
    DELETE = "delete"
    JOIN = "join"
    POST = "post"
    COMMENT = "comment"
    CLOSE = "close"  # the subject of the room, such as an issue, is done …
    MERGE = "merge"  # … and what it proposed is taken
    REOPEN = "reopen"
    PUSH = "push"  # there is a new version of what is proposed
    UNTRUSTED = "untrusted"  # said under a name that the platform does not prove, such as mail without DMARC


# What somebody did to the subject of a room. It has none of their words, and wakes nobody unless a route names it.
SUBJECT_VERBS = frozenset((Verb.CLOSE, Verb.MERGE, Verb.REOPEN, Verb.PUSH))


class AttachmentKind(StrEnum):
    """How people would call it."""

    IMAGE = "image"
    AUDIO = "audio"
    VIDEO = "video"
    FILE = "file"


class Attachment(Struct, frozen=True, kw_only=True):
    """A file that came with a message. `open` streams its bytes from the platform, and is called only for a message
    that somebody gets; a small file may come as `data`."""

    name: str
    mime: str = "application/octet-stream"
    data: bytes = b""
    kind: AttachmentKind = AttachmentKind.FILE
    open: OpenFile | None = None
    size: int | None = None  # as the platform says, if it does; what `open` brings is counted all the same


class Quote(Struct, frozen=True, kw_only=True):
    """The message that this one answers, as far as the platform tells."""

    platform_id: str
    sender: str = ""
    text: str = ""


class Inbound(Struct, frozen=True, kw_only=True):
    """One event. (address, platform_id, event) is its identity on the platform: sent twice, accepted once."""

    address: str
    platform_id: str
    sender: str  # an address of a person, `telegram:user/9`
    text: str
    event: str = "message"  # message | edit:<rev> | reaction:<emoji>:<sender> | click | close:<when> …
    kind: MessageKind = MessageKind.CHAT
    verb: Verb = Verb.MESSAGE
    sender_name: str = ""
    heading: str = ""  # the subject of a first mail, with which `text` begins
    thread: str = ""
    direct: bool = False  # a private chat with one person
    own: bool = False  # the bot's own words, as its platform repeats them
    room_name: str = ""
    at: int | None = None  # when the platform says it happened, microseconds UTC
    reply_to: Quote | None = None
    forwarded: bool = False  # passed on: somebody else's words and files, never a command, nor an answer
    forward_from: str = ""  # a name of where they are from, as far as the platform tells
    click: str = ""  # the id of the button of a card that the person pressed
    attachments: tuple[Attachment, ...] = ()
    extra: dict[str, Any] = field(default_factory=dict)  # kept in `content`, never read by the core

    @property
    def words(self) -> str:
        """The text below the heading."""
        return self.text.removeprefix(self.heading).lstrip("\n") if self.heading else self.text


class UnrecordedState(StrEnum):
    """The outcome of an event of which nothing is written down."""

    OWN = "own"  # the bot's own words
    INVALID = "invalid"  # it can never be taken: an id that is too long, no address


class Receipt(Struct, frozen=True, kw_only=True):
    """The outcome of a received event, once it is durable."""

    message_id: int
    new: bool  # False: seen before, nothing was done
    state: str  # the inbox state of its first target: queued, observed, refused …, or an `UnrecordedState`
    reason: str = ""


def is_person(sender: str) -> bool:
    """Return True if somebody outside wrote it who is known to be who they say, and not an agent or the gateway
    itself."""
    return sender.partition(":")[0] not in SYNTHETIC


def is_untrusted(sender: str) -> bool:
    return sender.startswith(_BEGIN)


def mark_untrusted(inbound: Inbound) -> Inbound:
    """The event under an address that nobody has rights by, if its platform does not prove who sent it."""
    if inbound.verb is not Verb.UNTRUSTED or is_untrusted(inbound.sender):
        return inbound
    name = (inbound.sender_name or inbound.sender)[:LONGEST_UNTRUSTED_NAME] + UNTRUSTED_MARK
    return replace(inbound, sender=make_untrusted(inbound.sender), sender_name=name)


def make_untrusted(claimed: str) -> str:
    platform, _, rest = claimed.partition(":")
    made = f"{_BEGIN}{platform}/{rest}"
    return made if not is_longer(made, LONGEST) else f"{_BEGIN}{platform}/{sha256(rest.encode()).hexdigest()}"


def get_claimed(sender: str) -> str:
    """The address that an untrusted sender claims; the sender itself if it is none. For what is denied to it, never for
    what is given."""
    if not is_untrusted(sender):
        return sender
    platform, _, rest = sender.removeprefix(_BEGIN).partition("/")
    return f"{platform}:{rest}"
