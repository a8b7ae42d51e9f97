"""Destinations: names that a group may send to. The row is also the permission."""

from enum import StrEnum
from typing import Annotated

from msgspec import Struct

from gatepost.core.record_fields import ShownAs, shown
from gatepost.store.engine.table import Table
from gatepost.store.port import Db, inline_read


class DestinationKind(StrEnum):
    ROOM = "room"
    GROUP = "group"


class Destination(Struct, frozen=True):
    folder: str
    name: Annotated[str, shown("Name")]
    kind: Annotated[DestinationKind, shown("Kind")]
    instance: str
    address: Annotated[str, shown("Where", ShownAs.CODE)]
    thread: Annotated[str, shown("Thread", ShownAs.CODE)]
    target_folder: Annotated[str, shown("Group", ShownAs.CODE, head="group")]
    created_at: Annotated[int, shown("Since", ShownAs.MOMENT, head="since")]


DESTINATIONS = Table("destinations", Destination)


def list_for_group(db: Db, folder: str) -> list[Destination]:
    return DESTINATIONS.list(db, "WHERE folder = ? ORDER BY name", folder)


def find_by_room(db: Db, folder: str, instance: str, address: str) -> Destination | None:
    """The name under which a group knows a room, the first if it has several."""
    first = "WHERE folder = ? AND instance = ? AND address = ? ORDER BY name LIMIT 1"
    return DESTINATIONS.get(db, first, folder, instance, address)


def count(db: Db, folder: str) -> int:
    row = db.row("SELECT COUNT(*) FROM destinations WHERE folder = ?", (folder,))
    return int(row[0]) if row else 0


@inline_read
def get(db: Db, folder: str, name: str) -> Destination | None:
    return DESTINATIONS.get(db, "WHERE folder = ? AND name = ?", folder, name)


def add_room(db: Db, folder: str, name: str, instance: str, address: str, thread: str, now: int) -> None:
    _put(
        db,
        folder=folder,
        name=name,
        kind=DestinationKind.ROOM,
        instance=instance,
        address=address,
        thread=thread,
        created_at=now,
    )


def add_group(db: Db, folder: str, name: str, target_folder: str, now: int) -> None:
    _put(db, folder=folder, name=name, kind=DestinationKind.GROUP, target_folder=target_folder, created_at=now)


def _put(db: Db, **values: str | int) -> None:
    DESTINATIONS.insert(
        db,
        "ON CONFLICT (folder, name) DO UPDATE SET kind = excluded.kind, instance = excluded.instance,"
        " address = excluded.address, thread = excluded.thread, target_folder = excluded.target_folder",
        **values,
    )


def remove(db: Db, folder: str, name: str) -> bool:
    return bool(db.run("DELETE FROM destinations WHERE folder = ? AND name = ?", (folder, name)))
