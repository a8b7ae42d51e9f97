"""Routes: which group gets a message. Ordered rows; what a match means is decided in `flow/intake/routing.py`."""

from functools import lru_cache
from typing import Any

from msgspec import Struct

from gatepost.store.port import Db, quick

COLUMNS = "id, seq, match, target, folder, mode, also, window_messages, window_chars, ttl_s, created_by, created_at"


class Route(Struct, frozen=True):
    id: int
    seq: int
    match: str
    target: str
    folder: str | None
    mode: str
    also: bool
    window_messages: int | None
    window_chars: int | None
    ttl_s: int | None
    created_by: str
    created_at: int


@lru_cache(maxsize=4096)  # read with every message that comes in, changed rarely
def _parse_row(row: tuple[Any, ...]) -> Route:
    return Route(*(*row[:6], bool(row[6]), *row[7:]))


@quick
def list_all(db: Db) -> list[Route]:
    return [_parse_row(row) for row in db.rows(f"SELECT {COLUMNS} FROM routes ORDER BY seq, id")]


@quick
def get(db: Db, route_id: int) -> Route | None:
    row = db.row(f"SELECT {COLUMNS} FROM routes WHERE id = ?", (route_id,))
    return _parse_row(row) if row else None


def add(
    db: Db,
    seq: int,
    match: str,
    target: str,
    folder: str | None,
    mode: str,
    also: bool,
    window: tuple[int | None, int | None],
    ttl_s: int | None,
    by: str,
    now: int,
) -> int:
    """Insert a row that was already judged well-formed. The foreign key refuses a ghost."""
    rows = db.rows(
        "INSERT INTO routes (seq, match, target, folder, mode, also, window_messages, window_chars, ttl_s, created_by,"
        " created_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) RETURNING id",
        (seq, match, target, folder, mode, int(also), *window, ttl_s, by, now),
    )
    return int(rows[0][0])


def remove(db: Db, route_id: int) -> bool:
    return bool(db.run("DELETE FROM routes WHERE id = ?", (route_id,)))
