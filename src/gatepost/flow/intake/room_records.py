"""Records of a room once somebody was let in there: the room itself, where its people can be reached alone, and the
name by which a group sends to it."""

import re

from msgspec import Struct

from gatepost.messages import address as addresses
from gatepost.messages.address import Address
from gatepost.store.messages import destinations
from gatepost.store.port import Db, LockKind
from gatepost.store.rooms import direct_rooms, rooms
from gatepost.store.rooms.rooms import RoomPolicy
from gatepost.store.sessions.sessions import SessionMode

MOST_ALIKE = 10  # rooms of one name that are numbered one by one


class SeenRoom(Struct, frozen=True):
    """A room as its channel tells of it."""

    instance: str
    address: str
    name: str = ""
    direct: bool = False


def record_let_in(db: Db, room: SeenRoom, policy: RoomPolicy, sender: str, now: int) -> None:
    """Record the room of somebody who was let in, and where they can be reached."""
    rooms.add(db, room.instance, room.address, room.name, room.direct, policy, now)
    if room.direct and direct_rooms.find_address(db, sender, room.instance) != room.address:
        direct_rooms.add(db, sender, room.instance, room.address, now)


def add_destination(db: Db, folder: str, mode: SessionMode, room: SeenRoom, thread: str, now: int) -> None:
    """Give the room a name that the group can send to. A session that spans rooms answers in a room's last thread."""
    thread = thread if mode == SessionMode.AGENT_SHARED else ""
    known = destinations.find_by_room(db, folder, room.instance, room.address)
    if known is None:
        name = _free_name(db, folder, make_room_name(room.name, addresses.parse(room.address)))
        destinations.add_room(db, folder, name, room.instance, room.address, thread, now)
    elif known.thread != thread and mode == SessionMode.AGENT_SHARED:
        destinations.add_room(db, folder, known.name, room.instance, room.address, thread, now)


def make_room_name(given: str, address: Address) -> str:
    """Return a readable name for a room: its own, else the end of its address."""
    for source in (given, address.segments[-1], address.platform):
        slug = re.sub(r"[^a-z0-9]+", "-", source.lower()).strip("-")[:40].strip("-")
        if slug:
            break
    return slug


def _free_name(db: Db, folder: str, wanted: str) -> str:
    """Return the name, with a number if it is taken. Among many rooms of one name a number that is surely free is tried
    soon: nobody looks through a thousand."""
    db.lock(LockKind.RULES, "destinations", folder)
    name, number = wanted, 2
    while destinations.get(db, folder, name) is not None:
        name = f"{wanted}-{number}"
        number = number + 1 if number != MOST_ALIKE else destinations.count(db, folder) + 1
    return name
