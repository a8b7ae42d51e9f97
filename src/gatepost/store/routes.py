"""Routes: which group gets a message. Ordered rows; what a match means is decided in `flow/intake/routing.py`."""

from functools import lru_cache
from typing import Any

from msgspec import Struct

from gatepost.store.port import Db, quick

DEFAULT_SEQ = 100


class Route(Struct, frozen=True, kw_only=True):
    """Fields are columns, in their order."""

    id: int = 0  # 0: not written yet
    seq: int = DEFAULT_SEQ
    match: str
    target: str
    folder: str | None = None
    mode: str = "per-thread"
    also: bool = False
    window_messages: int | None = None
    window_chars: int | None = None
    ttl_s: int | None = None
    created_by: str
    created_at: int


COLUMNS = ", ".join(Route.__struct_fields__)
_NEW = [name for name in Route.__struct_fields__ if name != "id"]
_INSERT = f"INSERT INTO routes ({', '.join(_NEW)}) VALUES ({', '.join('?' * len(_NEW))}) RETURNING {COLUMNS}"


@lru_cache(maxsize=4096)  # read with every message that comes in, changed rarely
def _parse_row(row: tuple[Any, ...]) -> Route:
    found = dict(zip(Route.__struct_fields__, row, strict=True))
    return Route(**{**found, "also": bool(found["also"])})


@quick
def list_all(db: Db) -> list[Route]:
    return [_parse_row(row) for row in db.rows(f"SELECT {COLUMNS} FROM routes ORDER BY seq, id")]


@quick
def get(db: Db, route_id: int) -> Route | None:
    row = db.row(f"SELECT {COLUMNS} FROM routes WHERE id = ?", (route_id,))
    return _parse_row(row) if row else None


def add(db: Db, new: Route) -> Route:
    """Insert a row that was already judged well-formed, and return it with its id. The foreign key refuses a ghost."""
    (row,) = db.rows(_INSERT, tuple(getattr(new, name) for name in _NEW))
    return _parse_row(row)


def remove(db: Db, route_id: int) -> bool:
    return bool(db.run("DELETE FROM routes WHERE id = ?", (route_id,)))
