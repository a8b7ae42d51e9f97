"""Destinations: names that a group may send to. The row is also the permission."""

from msgspec import Struct

from gatepost.store.port import Db, quick

COLUMNS = "folder, name, kind, instance, address, thread, target_folder, created_at"


class Destination(Struct, frozen=True):
    folder: str
    name: str
    kind: str  # room | group
    instance: str
    address: str
    thread: str
    target_folder: str
    created_at: int


def list_for_group(db: Db, folder: str) -> list[Destination]:
    rows = db.rows(f"SELECT {COLUMNS} FROM destinations WHERE folder = ? ORDER BY name", (folder,))
    return [Destination(*row) for row in rows]


def find_by_room(db: Db, folder: str, instance: str, address: str) -> Destination | None:
    """The name under which a group knows a room, the first if it has several."""
    row = db.row(
        f"SELECT {COLUMNS} FROM destinations WHERE folder = ? AND instance = ? AND address = ? ORDER BY name LIMIT 1",
        (folder, instance, address),
    )
    return Destination(*row) if row else None


def count(db: Db, folder: str) -> int:
    row = db.row("SELECT COUNT(*) FROM destinations WHERE folder = ?", (folder,))
    return int(row[0]) if row else 0


@quick
def get(db: Db, folder: str, name: str) -> Destination | None:
    row = db.row(f"SELECT {COLUMNS} FROM destinations WHERE folder = ? AND name = ?", (folder, name))
    return Destination(*row) if row else None


def add_room(db: Db, folder: str, name: str, instance: str, address: str, thread: str, now: int) -> None:
    db.run(
        "INSERT INTO destinations (folder, name, kind, instance, address, thread, created_at)"
        " VALUES (?, ?, 'room', ?, ?, ?, ?) ON CONFLICT (folder, name) DO UPDATE SET kind = 'room',"
        " instance = excluded.instance, address = excluded.address, thread = excluded.thread, target_folder = ''",
        (folder, name, instance, address, thread, now),
    )


def add_group(db: Db, folder: str, name: str, target_folder: str, now: int) -> None:
    db.run(
        "INSERT INTO destinations (folder, name, kind, target_folder, created_at) VALUES (?, ?, 'group', ?, ?)"
        " ON CONFLICT (folder, name) DO UPDATE SET kind = 'group', instance = '', address = '', thread = '',"
        " target_folder = excluded.target_folder",
        (folder, name, target_folder, now),
    )


def remove(db: Db, folder: str, name: str) -> bool:
    return bool(db.run("DELETE FROM destinations WHERE folder = ? AND name = ?", (folder, name)))
