"""How far a channel has received: one row for each stream that it reads."""

from collections.abc import Callable

from msgspec import Struct

from gatepost.store.engine.table import Table
from gatepost.store.port import Db, LockKind


class CursorRow(Struct, frozen=True):
    instance: str
    name: str
    received: str
    acknowledged: str
    updated_at: int


CURSORS = Table("channel_cursors", CursorRow)

# Names under which channels keep what they know of their platform, which is no position in a stream. A name that begins
# with FACT is such a one, too.
FACT = "fact:"
FACTS = ("sends", "services", "moved", "buttons", "reports")


def get(db: Db, instance: str, name: str) -> CursorRow | None:
    return CURSORS.get(db, "WHERE instance = ? AND name = ?", instance, name)


def list_all(db: Db) -> list[CursorRow]:
    return CURSORS.list(db, "ORDER BY instance, name")


def put(db: Db, instance: str, name: str, received: str, acknowledged: bool, now: int) -> None:
    """`acknowledged`: the platform was told so, too; else what it was told before stays."""
    more = ", acknowledged = excluded.acknowledged" if acknowledged else ""
    row = CursorRow(instance, name, received, received if acknowledged else "", now)
    CURSORS.insert(
        db,
        "ON CONFLICT (instance, name) DO UPDATE SET received = excluded.received,"
        f" updated_at = excluded.updated_at{more}",
        row,
    )


def update(db: Db, instance: str, name: str, change: Callable[[str], str], now: int) -> str:
    """Change a cursor and return its new value. Gateways that change it at once wait for each other, so that no change
    is lost."""
    db.lock(LockKind.CURSOR, instance, name)
    row = get(db, instance, name)
    before = row.received if row is not None else ""
    after = change(before)
    if after != before:
        put(db, instance, name, after, False, now)
    return after


def remove(db: Db, instance: str) -> int:
    return db.run("DELETE FROM channel_cursors WHERE instance = ?", (instance,))


def remove_positions(db: Db) -> int:
    """Every channel receives from now on, as at its first start. Facts about its platform stay."""
    return db.run(
        f"DELETE FROM channel_cursors WHERE name NOT IN ({', '.join('?' * len(FACTS))})"
        f" AND SUBSTR(name, 1, {len(FACT)}) <> ?",
        (*FACTS, FACT),
    )
