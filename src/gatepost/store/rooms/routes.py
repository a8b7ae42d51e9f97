"""Routes: which group gets a message. Ordered rows; what a match means is decided in `flow/intake/routing.py`."""

from msgspec import Struct
from msgspec.structs import asdict

from gatepost.store.engine.table import Table
from gatepost.store.port import Db, inline_read
from gatepost.store.sessions.sessions import SessionMode

DEFAULT_SEQ = 100
NEVER_ENDS = -1  # as `ttl_s`: who was spoken to by the route stays in the conversation


class Route(Struct, frozen=True):
    match: str
    target: str
    created_by: str
    created_at: int
    id: int = 0  # 0: not written yet
    seq: int = DEFAULT_SEQ
    folder: str | None = None
    mode: SessionMode = SessionMode.PER_THREAD
    also: bool = False
    window_messages: int | None = None
    window_chars: int | None = None
    ttl_s: int | None = None


ROUTES = Table("routes", Route)


@inline_read
def list_all(db: Db) -> list[Route]:
    return ROUTES.list(db, "ORDER BY seq, id")


@inline_read
def get(db: Db, route_id: int) -> Route | None:
    return ROUTES.get(db, "WHERE id = ?", route_id)


def add(db: Db, new: Route) -> Route:
    """Insert a row that was already judged well-formed, and return it with its id. The foreign key refuses a ghost."""
    values = asdict(new)
    del values["id"]
    return ROUTES.put(db, **values)


def remove(db: Db, route_id: int) -> bool:
    return bool(db.run("DELETE FROM routes WHERE id = ?", (route_id,)))


def set_seq(db: Db, route_id: int, seq: int) -> None:
    db.run("UPDATE routes SET seq = ? WHERE id = ?", (seq, route_id))
