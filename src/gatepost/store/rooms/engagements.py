"""Engagements: which groups are in a conversation of a room, and until when. `flow/intake/engagement.py` decides their
effect on a message. A row whose time is over stays for a while: a late reply of its turn may extend it.

Sticky choices: the group and the topic that somebody chose for their messages in one thread of a room.
`flow/intake/target_decision.py` decides if a choice still leads anywhere.
"""

from msgspec import Struct

from gatepost.core.clock import DAY
from gatepost.store.engine.table import Table
from gatepost.store.port import Db, inline_read

KEPT = DAY  # how long a row stays after its end
MOST_REMOVED = 100  # rows that one transaction removes


class Engagement(Struct, frozen=True):
    instance: str
    address: str
    thread: str
    folder: str
    route_id: int | None  # the route by which somebody spoke to the group; it ends with it
    until: int | None  # None: it never ends
    ttl: int
    engaged_at: int

    def is_on(self, now: int) -> bool:
        return self.until is None or self.until > now

    def is_fresh(self, now: int) -> bool:
        """Return True if more than half of its time is left: it need not be extended yet."""
        return self.until is None or self.until - self.ttl // 2 > now


ENGAGEMENTS = Table("engagements", Engagement)
_AT = "WHERE instance = ? AND address = ? AND thread = ?"


@inline_read
def has_any(db: Db) -> bool:
    return db.row("SELECT 1 FROM engagements LIMIT 1") is not None


@inline_read
def list_at(db: Db, instance: str, address: str, thread: str) -> list[Engagement]:
    """Those of a room and thread, also those that are over."""
    return ENGAGEMENTS.list(db, f"{_AT} ORDER BY folder", instance, address, thread)


@inline_read
def get(db: Db, instance: str, address: str, thread: str, folder: str) -> Engagement | None:
    return ENGAGEMENTS.get(db, f"{_AT} AND folder = ?", instance, address, thread, folder)


def count(db: Db, instance: str, address: str, folder: str, most: int) -> int:
    """Count the engagements of a group in all threads of a room, up to `most`. Those that are over count, too."""
    there = "SELECT thread FROM engagements WHERE instance = ? AND address = ? AND folder = ? LIMIT ?"
    return len(db.rows(there, (instance, address, folder, most)))


def put(db: Db, new: Engagement) -> None:
    ENGAGEMENTS.insert(
        db,
        "ON CONFLICT (instance, address, thread, folder) DO UPDATE SET route_id = excluded.route_id,"
        " until = excluded.until, ttl = excluded.ttl, engaged_at = excluded.engaged_at",
        new,
    )


def extend(db: Db, instance: str, address: str, thread: str, folder: str, since: int, now: int) -> bool:
    """Extend an engagement because the group said something there, in a turn that began at `since`. One that was over
    by then stays over."""
    return bool(
        db.run(
            f"UPDATE engagements SET until = ? + ttl {_AT} AND folder = ? AND until >= ?",
            (now, instance, address, thread, folder, since),
        )
    )


def remove(db: Db, instance: str, address: str, thread: str, folder: str) -> bool:
    return bool(db.run(f"DELETE FROM engagements {_AT} AND folder = ?", (instance, address, thread, folder)))


def remove_over(db: Db, now: int) -> int:
    """Some of those that ended long ago."""
    rows = db.rows(
        "SELECT instance, address, thread, folder FROM engagements WHERE until < ? ORDER BY until LIMIT ?",
        (now - KEPT, MOST_REMOVED),
    )
    for row in rows:
        remove(db, *row)
    return len(rows)


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
_OF_SENDER = "WHERE instance = ? AND address = ? AND thread = ? AND sender = ?"


@inline_read
def has_any_choice(db: Db) -> bool:
    return db.row("SELECT 1 FROM sticky_choices LIMIT 1") is not None


@inline_read
def get_choice(db: Db, instance: str, address: str, thread: str, sender: str) -> StickyChoice | None:
    return STICKY_CHOICES.get(db, _OF_SENDER, instance, address, thread, sender)


def put_choice(db: Db, new: StickyChoice) -> None:
    """A choice of nothing is none."""
    if not (new.folder or new.topic):
        db.run(f"DELETE FROM sticky_choices {_OF_SENDER}", (new.instance, new.address, new.thread, new.sender))
        return
    STICKY_CHOICES.insert(
        db,
        "ON CONFLICT (instance, address, thread, sender) DO UPDATE SET folder = excluded.folder,"
        " topic = excluded.topic, chosen_at = excluded.chosen_at",
        new,
    )
