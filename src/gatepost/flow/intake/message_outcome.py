"""The outcome that a message would have, in one word for people who ask."""

from enum import StrEnum


class MessageOutcome(StrEnum):
    """The outcome of a message, or of it in one group."""

    WAKES = "wakes"
    OBSERVES = "observes"
    HELD = "held"  # somebody is asked about its sender, or its room
    REFUSED = "refused"
    CHOSEN = "chosen"  # it only says whom its sender speaks to from now on
    ANSWERED = "answered"  # a command that the gateway itself answers
