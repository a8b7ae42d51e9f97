"""Direct rooms: where somebody can be reached alone, one for each channel instance; and who was ever seen in one."""

from msgspec import Struct

from gatepost.store.engine.table import Table
from gatepost.store.port import Db


class DirectRoom(Struct, frozen=True):
    user_id: str  # an identity, or the person where a function says so
    instance: str
    address: str
    seen_at: int


class DirectRoomReader(Struct, frozen=True):
    """Somebody who was seen in a direct room. They read it still when they have gone on to another one."""

    instance: str
    address: str
    identity: str


DIRECT_ROOMS = Table("direct_rooms", DirectRoom)
DIRECT_ROOM_READERS = Table("direct_room_readers", DirectRoomReader)


def add(db: Db, user_id: str, instance: str, address: str, now: int) -> None:
    """The newest counts."""
    DIRECT_ROOMS.insert(
        db,
        "ON CONFLICT (user_id, instance) DO UPDATE SET address = excluded.address, seen_at = excluded.seen_at",
        user_id=user_id,
        instance=instance,
        address=address,
        seen_at=now,
    )
    add_reader(db, user_id, instance, address)


def add_reader(db: Db, identity: str, instance: str, address: str) -> None:
    """Record that somebody was seen in a direct room, whether or not an agent may be told of what they write."""
    DIRECT_ROOM_READERS.insert(db, "ON CONFLICT DO NOTHING", instance=instance, address=address, identity=identity)


def find_address(db: Db, user_id: str, instance: str) -> str | None:
    row = db.row("SELECT address FROM direct_rooms WHERE user_id = ? AND instance = ?", (user_id, instance))
    return str(row[0]) if row else None


def list_for_identity(db: Db, identity: str) -> list[DirectRoom]:
    """Return the direct rooms of this identity alone."""
    return DIRECT_ROOMS.list(db, "WHERE user_id = ? ORDER BY instance", identity)


def list_for_people(db: Db, people: tuple[str, ...]) -> list[DirectRoom]:
    """Return the direct rooms of all identities of these people, named by the person; the newest first."""
    marks = ", ".join("?" * len(people)) or "NULL"
    rows = db.rows(
        "SELECT COALESCE(i.person, d.user_id), d.instance, d.address, d.seen_at FROM direct_rooms d"
        f" LEFT JOIN identities i ON i.identity = d.user_id WHERE d.user_id IN ({marks})"
        f" OR d.user_id IN (SELECT identity FROM identities WHERE person IN ({marks}))"
        " ORDER BY d.seen_at DESC, d.instance",
        (*people, *people),
    )
    return [DIRECT_ROOMS.parse(row) for row in rows]


def list_readers(db: Db, instance: str, address: str) -> list[str]:
    """Return the identities of everybody who was ever seen in a direct room."""
    found = DIRECT_ROOM_READERS.list(db, "WHERE instance = ? AND address = ? ORDER BY identity", instance, address)
    return [each.identity for each in found]


def remove(db: Db, user_id: str) -> int:
    return db.run("DELETE FROM direct_rooms WHERE user_id = ?", (user_id,))
