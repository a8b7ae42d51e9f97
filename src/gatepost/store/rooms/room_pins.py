"""Messages that people pinned in a room of the page, so that everybody there finds them again."""

from msgspec import Struct

from gatepost.store.engine.table import Table
from gatepost.store.port import Db

MOST_IN_ROOM = 50


class RoomPin(Struct, frozen=True):
    message_id: int
    instance: str
    address: str
    pinned_by: str
    pinned_at: int


ROOM_PINS = Table("room_pins", RoomPin)


def add(db: Db, pin: RoomPin) -> bool:
    """Pinned twice is pinned once. False if the room has too many."""
    if get(db, pin.message_id) is not None:
        return True
    row = db.row("SELECT COUNT(*) FROM room_pins WHERE instance = ? AND address = ?", (pin.instance, pin.address))
    if row is not None and int(row[0]) >= MOST_IN_ROOM:
        return False
    ROOM_PINS.insert(db, "ON CONFLICT (message_id) DO NOTHING", pin)
    return True


def get(db: Db, message_id: int) -> RoomPin | None:
    return ROOM_PINS.get(db, "WHERE message_id = ?", message_id)


def remove(db: Db, message_id: int) -> bool:
    return bool(db.run("DELETE FROM room_pins WHERE message_id = ?", (message_id,)))


def list_in_room(db: Db, instance: str, address: str) -> list[RoomPin]:
    """The latest first."""
    return ROOM_PINS.list(
        db,
        "WHERE instance = ? AND address = ? ORDER BY pinned_at DESC, message_id DESC LIMIT ?",
        instance,
        address,
        MOST_IN_ROOM,
    )
