"""Rooms: chats that have an address, each seen by one channel instance. Pins: messages that people find there again."""

from enum import StrEnum
from typing import Annotated

from msgspec import Struct

from gatepost.core.record_fields import ShownAs, shown
from gatepost.store.engine.table import Table
from gatepost.store.port import Db, inline_read

MOST_PINS = 50  # of one room


class RoomPolicy(StrEnum):
    """The treatment of somebody unknown who writes there."""

    STRICT = "strict"
    REQUEST_APPROVAL = "request_approval"
    PUBLIC = "public"


class Room(Struct, frozen=True):
    id: int
    name: Annotated[str, shown("Name")]
    address: Annotated[str, shown("Address", ShownAs.CODE)]
    instance: Annotated[str, shown("Channel", head="channel")]
    direct: Annotated[bool, shown("Direct", ShownAs.FLAG, word="direct")]
    policy: Annotated[RoomPolicy, shown("Who may write", head="policy")]
    created_at: Annotated[int, shown("Known since", ShownAs.MOMENT, head="known since")]


ROOMS = Table("rooms", Room)


@inline_read
def get(db: Db, instance: str, address: str) -> Room | None:
    return ROOMS.get(db, "WHERE instance = ? AND address = ?", instance, address)


def add(db: Db, instance: str, address: str, name: str, direct: bool, policy: RoomPolicy, now: int) -> Room:
    """The room of that address, made if it is new."""
    found = get(db, instance, address)
    if found is not None:
        return found
    return ROOMS.put(
        db,
        "ON CONFLICT (instance, address) DO UPDATE SET address = excluded.address",
        instance=instance,
        address=address,
        name=name,
        direct=direct,
        policy=policy,
        created_at=now,
    )


def list_instances(db: Db, address: str) -> list[str]:
    """Which channel instances know this address."""
    return [row[0] for row in db.rows("SELECT instance FROM rooms WHERE address = ? ORDER BY id", (address,))]


def set_policy(db: Db, instance: str, address: str, policy: RoomPolicy) -> bool:
    return bool(db.run("UPDATE rooms SET policy = ? WHERE instance = ? AND address = ?", (policy, instance, address)))


def list_all(db: Db) -> list[Room]:
    return ROOMS.list(db, "ORDER BY id")


def list_first(db: Db, most: int) -> list[Room]:
    """The oldest ones."""
    return ROOMS.list(db, "ORDER BY id LIMIT ?", most)


def list_public(db: Db, most: int) -> list[Room]:
    """The oldest ones in which anybody may speak."""
    return ROOMS.list(db, "WHERE policy = 'public' ORDER BY id LIMIT ?", most)


class RoomPin(Struct, frozen=True):
    message_id: int
    instance: str
    address: str
    pinned_by: str
    pinned_at: int


ROOM_PINS = Table("room_pins", RoomPin)


def add_pin(db: Db, pin: RoomPin) -> bool:
    """Pinned twice is pinned once. False if the room has too many."""
    if get_pin(db, pin.message_id) is not None:
        return True
    row = db.row("SELECT COUNT(*) FROM room_pins WHERE instance = ? AND address = ?", (pin.instance, pin.address))
    if row is not None and int(row[0]) >= MOST_PINS:
        return False
    ROOM_PINS.insert(db, "ON CONFLICT (message_id) DO NOTHING", pin)
    return True


def get_pin(db: Db, message_id: int) -> RoomPin | None:
    return ROOM_PINS.get(db, "WHERE message_id = ?", message_id)


def remove_pin(db: Db, message_id: int) -> bool:
    return bool(db.run("DELETE FROM room_pins WHERE message_id = ?", (message_id,)))


def list_pins(db: Db, instance: str, address: str) -> list[RoomPin]:
    """The latest first."""
    return ROOM_PINS.list(
        db,
        "WHERE instance = ? AND address = ? ORDER BY pinned_at DESC, message_id DESC LIMIT ?",
        instance,
        address,
        MOST_PINS,
    )
