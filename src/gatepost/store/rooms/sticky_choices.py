"""Sticky choices: the group and the topic that somebody chose for what they write in one thread of a room.
`flow/intake/target_decision.py` decides if a choice still leads anywhere."""

from msgspec import Struct

from gatepost.store.engine.table import Table
from gatepost.store.port import Db, inline_read


class StickyChoice(Struct, frozen=True):
    """`folder`, `topic`: '' is what routes say."""

    instance: str
    address: str
    thread: str
    sender: str
    folder: str = ""
    topic: str = ""
    chosen_at: int = 0


STICKY_CHOICES = Table("sticky_choices", StickyChoice)
_OF = "WHERE instance = ? AND address = ? AND thread = ? AND sender = ?"


@inline_read
def has_any(db: Db) -> bool:
    return db.row("SELECT 1 FROM sticky_choices LIMIT 1") is not None


@inline_read
def get(db: Db, instance: str, address: str, thread: str, sender: str) -> StickyChoice | None:
    return STICKY_CHOICES.get(db, _OF, instance, address, thread, sender)


def put(db: Db, new: StickyChoice) -> None:
    """A choice of nothing is none."""
    if not (new.folder or new.topic):
        db.run(f"DELETE FROM sticky_choices {_OF}", (new.instance, new.address, new.thread, new.sender))
        return
    STICKY_CHOICES.insert(
        db,
        "ON CONFLICT (instance, address, thread, sender) DO UPDATE SET folder = excluded.folder,"
        " topic = excluded.topic, chosen_at = excluded.chosen_at",
        new,
    )
