"""Host uids: which number the sandboxes of a world run as where the gateway is root. A number is never given twice."""

from gatepost.core.errors import SetupError
from gatepost.store.port import Db, LockKind, inline_read


@inline_read
def get(db: Db, world: str) -> int | None:
    row = db.row("SELECT uid FROM uids WHERE world = ?", (world,))
    return int(row[0]) if row else None


def assign(db: Db, world: str, first: int, last: int, now: int) -> int:
    """The world's uid. It gets the next one of the range if it has none, or one from outside the range."""
    db.lock(LockKind.RULES, "uids")
    known = get(db, world)
    if known is not None and first <= known <= last:
        return known
    row = db.row("SELECT MAX(uid) FROM uids WHERE uid >= ? AND uid <= ?", (first, last))
    found = first if row is None or row[0] is None else int(row[0]) + 1
    if found > last:
        raise SetupError(f"every uid of sandbox.uids = {first}-{last} is in use; widen the range")
    db.run(
        "INSERT INTO uids (world, uid, assigned_at) VALUES (?, ?, ?)"
        " ON CONFLICT (world) DO UPDATE SET uid = excluded.uid, assigned_at = excluded.assigned_at",
        (world, found, now),
    )
    return found
