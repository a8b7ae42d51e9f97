"""An answer while it is written. For whoever watches its room: it is in no ledger, and nobody keeps it."""

from msgspec import Struct


class Draft(Struct, frozen=True, kw_only=True):
    """The next message of one session so far. Without text: there is nothing any more."""

    session: str
    instance: str
    address: str
    thread: str
    agent: str  # its group's name, as its messages have it
    text: str
