"""Outgoing effects: each on one room, rendered for no platform yet. The channel gets it already degraded."""

from collections.abc import Mapping
from enum import StrEnum

from msgspec import Struct

from gatepost.messages.card import Card


class Op(StrEnum):
    """The operation of an outbox row."""

    SEND = "send"
    EDIT = "edit"
    DELETE = "delete"
    REACT = "react"
    FILE = "file"
    PIN = "pin"
    UNPIN = "unpin"
    UNPIN_ALL = "unpin_all"
    CARD = "card"
    STATUS = "status"
    POST = "post"  # a contribution of its own on a feed, answering nobody
    VOICE = "voice"  # spoken words: one file of sound, and the words as text
    FORWARD = "forward"  # `target`, which lies in the room `source`, again in this room, under its author's name
    QUOTE = "quote"  # the same on one's own feed, with words of one's own
    REPOST = "repost"  # the same without any
    PROMPTS = "prompts"  # buttons below the conversation, shown with the next message
    TITLE = "title"  # of the conversation, shown with the next message


class Feature(StrEnum):
    """An ability of a channel. Content degrades where one is missing; verbs do not."""

    EDIT = "edit"
    DELETE = "delete"
    REACT = "react"
    REPLY = "reply"
    FILES = "files"
    THREADS = "threads"
    MARKDOWN = "markdown"
    TYPING = "typing"
    PIN = "pin"
    UNPIN_ALL = "unpin_all"
    CARDS = "cards"
    POST = "post"
    VOICE = "voice"
    FORWARD = "forward"
    QUOTE = "quote"
    REPOST = "repost"
    PANE = "pane"  # prompts and a title beside a conversation
    LOOKUP = "lookup"  # can tell whether a key was delivered
    KEYED = "keyed"  # the platform itself deduplicates by our key
    DIRECT = "direct"  # can open a private room with somebody
    HISTORY = "history"  # can be asked what was said earlier
    SUBSCRIBE = "subscribe"  # can be asked to follow a thread


NEEDS: Mapping[Op, Feature] = {  # verbs: without the feature the operation cannot be done at all
    Op.EDIT: Feature.EDIT,
    Op.DELETE: Feature.DELETE,
    Op.REACT: Feature.REACT,
    Op.PIN: Feature.PIN,
    Op.UNPIN: Feature.PIN,
    Op.UNPIN_ALL: Feature.UNPIN_ALL,
    Op.POST: Feature.POST,
    Op.FORWARD: Feature.FORWARD,
    Op.QUOTE: Feature.QUOTE,
    Op.REPOST: Feature.REPOST,
    Op.PROMPTS: Feature.PANE,
    Op.TITLE: Feature.PANE,
}
MESSAGES = frozenset(  # operations that make a message, with a platform id by which it is named from then on
    {Op.SEND, Op.FILE, Op.CARD, Op.POST, Op.VOICE, Op.FORWARD, Op.QUOTE, Op.REPOST}
)
TARGETED = frozenset({Op.EDIT, Op.DELETE, Op.REACT, Op.PIN, Op.UNPIN, Op.FORWARD, Op.QUOTE, Op.REPOST})
REPEATABLE = frozenset(  # done twice, they are done once
    {Op.EDIT, Op.DELETE, Op.REACT, Op.PIN, Op.UNPIN, Op.UNPIN_ALL, Op.PROMPTS, Op.TITLE}
)


class OutboundFile(Struct, frozen=True, kw_only=True):
    """A file on its way out: the delivery's own copy, which no sandbox can reach."""

    name: str
    mime: str
    path: str
    size: int


class PassedMessage(Struct, frozen=True, kw_only=True):
    """A message that is passed on, as the ledger has it: for platforms that cannot be asked for it. `lost`: the names
    of those of its files that nobody has any more."""

    author: str  # one line for people: whose words they are
    own: bool = False  # this bot wrote it, so its text is markdown; else it is somebody's plain words
    text: str = ""
    files: tuple[OutboundFile, ...] = ()
    lost: tuple[str, ...] = ()


class PromptButton(Struct, frozen=True):
    """A button: what stands on it, and what the person says by pressing it."""

    title: str
    message: str


class Outbound(Struct, frozen=True, kw_only=True):
    """One effect. `key` is its identity: a platform that deduplicates is given it."""

    key: str
    op: Op = Op.SEND
    text: str = ""
    thread: str = ""
    reply_to: str = ""  # platform id of the message answered
    target: str = ""  # platform id of the message edited, deleted, reacted to, pinned, forwarded, quoted
    source: str = ""  # the room in which the message forwarded or quoted lies
    reaction: str = ""
    files: tuple[OutboundFile, ...] = ()
    prompts: tuple[PromptButton, ...] = ()
    card: Card | None = None
    passed: PassedMessage | None = None  # of a forward: the message `target`; None if there is nothing of it to show
    refusal: str = ""  # why the platform did not deliver it, after it had accepted it under this key


class Draft(Struct, frozen=True, kw_only=True):
    """The next message of one session while it is written; without text, there is nothing any more. For whoever watches
    its room: it is in no ledger, and nobody keeps it."""

    session: str
    instance: str
    address: str
    thread: str
    agent: str  # its group's name, as its messages have it
    text: str
