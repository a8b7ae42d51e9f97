"""What goes out: one effect on one room, rendered for no platform yet. The channel gets it already degraded."""

from dataclasses import dataclass
from enum import StrEnum


class Op(StrEnum):
    """The operation of an outbox row."""

    SEND = "send"
    EDIT = "edit"
    DELETE = "delete"
    REACT = "react"
    FILE = "file"
    PIN = "pin"
    UNPIN = "unpin"
    CARD = "card"
    STATUS = "status"


class Feature(StrEnum):
    """What a channel can do. Content degrades where one is missing; verbs do not."""

    EDIT = "edit"
    DELETE = "delete"
    REACT = "react"
    REPLY = "reply"
    FILES = "files"
    THREADS = "threads"
    MARKDOWN = "markdown"
    TYPING = "typing"
    PIN = "pin"
    CARDS = "cards"
    LOOKUP = "lookup"  # can tell whether a key was delivered
    KEYED = "keyed"  # the platform itself deduplicates by our key


@dataclass(frozen=True, slots=True, kw_only=True)
class File:
    """A file on its way out: the delivery's own copy, which no sandbox can reach."""

    name: str
    mime: str
    path: str
    size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Outbound:
    """One effect. `key` is its identity: a platform that deduplicates is given it."""

    key: str
    op: Op = Op.SEND
    text: str = ""
    thread: str = ""
    reply_to: str = ""  # platform id of the message answered
    target: str = ""  # platform id of the message edited, deleted, reacted to
    reaction: str = ""
    files: tuple[File, ...] = ()
