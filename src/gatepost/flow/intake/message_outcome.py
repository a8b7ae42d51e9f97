"""The outcome of a message, and by what its targets were decided."""

from enum import StrEnum


class MessageOutcome(StrEnum):
    """The outcome of a message, or of it in one group."""

    WAKES = "wakes"
    OBSERVES = "observes"
    HELD = "held"  # somebody is asked about its sender, or its room
    REFUSED = "refused"
    CHOSEN = "chosen"  # it only says whom its sender speaks to from now on
    ANSWERED = "answered"  # a command that the gateway itself answers


class DecidedBy(StrEnum):
    """The reason why a message goes to its groups."""

    REPLY = "reply"
    CHILD = "child"
    CHOICE = "choice"
    ENGAGEMENT = "engagement"
    ROUTE = "route"
