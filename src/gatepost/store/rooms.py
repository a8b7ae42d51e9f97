"""Rooms: chats that have an address, each seen by one channel instance."""

from msgspec import Struct

from gatepost.store.port import Db, quick

COLUMNS = "id, instance, address, name, direct, policy, created_at"


class Room(Struct, frozen=True):
    id: int
    instance: str
    address: str
    name: str
    direct: bool
    policy: str
    created_at: int


@quick
def get(db: Db, instance: str, address: str) -> Room | None:
    row = db.row(f"SELECT {COLUMNS} FROM rooms WHERE instance = ? AND address = ?", (instance, address))
    return Room(*row) if row else None


def add(db: Db, instance: str, address: str, name: str, direct: bool, policy: str, now: int) -> Room:
    """The room of that address, made if it is new."""
    found = get(db, instance, address)
    if found is not None:
        return found
    db.run(
        "INSERT INTO rooms (instance, address, name, direct, policy, created_at) VALUES (?, ?, ?, ?, ?, ?)"
        " ON CONFLICT (instance, address) DO NOTHING",
        (instance, address, name, int(direct), policy, now),
    )
    made = get(db, instance, address)
    assert made is not None
    return made


def list_instances(db: Db, address: str) -> list[str]:
    """Which channel instances know this address."""
    return [row[0] for row in db.rows("SELECT instance FROM rooms WHERE address = ? ORDER BY id", (address,))]


def set_policy(db: Db, instance: str, address: str, policy: str) -> bool:
    return bool(db.run("UPDATE rooms SET policy = ? WHERE instance = ? AND address = ?", (policy, instance, address)))


def list_all(db: Db) -> list[Room]:
    return [Room(*row) for row in db.rows(f"SELECT {COLUMNS} FROM rooms ORDER BY id")]
