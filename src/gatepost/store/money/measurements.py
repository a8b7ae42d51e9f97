"""Numbers of the store for those who watch a gateway: how much waits, and what became of it. No names.

Each is counted by an index over what is open or recent, so that a large ledger costs no more than a small one.
"""

from msgspec import Struct

from gatepost.core.clock import DAY, SECOND
from gatepost.store.messages import inbox
from gatepost.store.port import Db

_OPEN_OUT = "state IN ('pending', 'sending')"


class StoreMeasurements(Struct, frozen=True, kw_only=True):
    """`messages`: ever accepted, those that were removed since among them. `cost_micro`: of this day, UTC."""

    messages: int
    open_inbound: int
    open_outbound: int
    oldest_open_s: float
    failed_inbound: int
    pending_requests: int
    active_tasks: int
    cost_micro: int


def measure(db: Db, now: int) -> StoreMeasurements:
    inbound, oldest_in = _get_open(db, "inbox", inbox.OPEN)
    outbound, oldest_out = _get_open(db, "outbox", _OPEN_OUT)
    oldest = min(now, oldest_in or now, oldest_out or now)
    return StoreMeasurements(
        messages=_get_number(db, "SELECT COALESCE(MAX(id), 0) FROM messages"),
        open_inbound=inbound,
        open_outbound=outbound,
        oldest_open_s=(now - oldest) / SECOND,
        failed_inbound=_get_number(db, "SELECT COUNT(*) FROM inbox WHERE state = 'failed'"),
        pending_requests=_get_number(db, "SELECT COUNT(*) FROM requests WHERE state = 'pending'"),
        active_tasks=_get_number(db, "SELECT COUNT(*) FROM tasks WHERE state = 'active'"),
        cost_micro=_get_number(db, "SELECT COALESCE(SUM(micro), 0) FROM costs WHERE at >= ?", now - now % DAY),
    )


def check_answers(db: Db) -> int:
    """Return whether the store answers at all."""
    return _get_number(db, "SELECT 1")


def _get_open(db: Db, table: str, condition: str) -> tuple[int, int | None]:
    row = db.row(f"SELECT COUNT(*), MIN(created_at) FROM {table} WHERE {condition}")
    return (int(row[0]), row[1]) if row else (0, None)


def _get_number(db: Db, sql: str, *params: int) -> int:
    row = db.row(sql, params)
    return int(row[0]) if row else 0
