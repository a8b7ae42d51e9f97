"""What a provider asked before it acted, and what somebody answered. A request waits here until then, whatever ends."""

import json
from dataclasses import dataclass
from typing import Any

from gatepost.core import ids
from gatepost.store.port import Db, quick

COLUMNS = "id, session_id, turn_id, request, kind, tool, input, state, reason, asked_at, answered_at, answered_by"


@dataclass(frozen=True, slots=True)
class Permission:
    """`state`: pending, allowed, denied or over (nobody waits for the answer any more)."""

    id: str
    session_id: str
    turn_id: str
    request: str  # as the provider named it
    kind: str  # tool | plan | question
    tool: str
    input: dict[str, Any]
    state: str
    reason: str
    asked_at: int
    answered_at: int | None
    answered_by: str


def ask(
    db: Db, session_id: str, turn_id: str, request: str, kind: str, tool: str, input: dict[str, Any], now: int
) -> Permission:
    """Asked twice, it is one request."""
    db.run(
        "INSERT INTO permissions (id, session_id, turn_id, request, kind, tool, input, state, asked_at)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, 'pending', ?) ON CONFLICT (session_id, turn_id, request) DO NOTHING",
        (ids.new("p"), session_id, turn_id, request, kind, tool, json.dumps(input, ensure_ascii=False), now),
    )
    row = db.row(
        f"SELECT {COLUMNS} FROM permissions WHERE session_id = ? AND turn_id = ? AND request = ?",
        (session_id, turn_id, request),
    )
    assert row is not None
    return _permission(row)


def answer(db: Db, permission_id: str, state: str, reason: str, by: str, now: int) -> Permission | None:
    """None if it does not wait: answered before, or over."""
    rows = db.rows(
        "UPDATE permissions SET state = ?, reason = ?, answered_at = ?, answered_by = ?"
        f" WHERE id = ? AND state = 'pending' RETURNING {COLUMNS}",
        (state, reason, now, by, permission_id),
    )
    return _permission(rows[0]) if rows else None


def end_turn(db: Db, turn_id: str, reason: str, now: int) -> int:
    """Nobody waits for these answers any more."""
    return db.run(
        "UPDATE permissions SET state = 'over', reason = ?, answered_at = ? WHERE turn_id = ? AND state = 'pending'",
        (reason, now, turn_id),
    )


@quick
def get(db: Db, permission_id: str) -> Permission | None:
    row = db.row(f"SELECT {COLUMNS} FROM permissions WHERE id = ?", (permission_id,))
    return _permission(row) if row else None


def pending(db: Db, session_id: str | None = None) -> list[Permission]:
    """The oldest first; of one session, or all."""
    rows = db.rows(
        f"SELECT {COLUMNS} FROM permissions WHERE state = 'pending' AND session_id = COALESCE(?, session_id)"
        " ORDER BY asked_at, id",
        (session_id,),
    )
    return [_permission(row) for row in rows]


def _permission(row: tuple[Any, ...]) -> Permission:
    number, session_id, turn_id, request, kind, tool, given, *rest = row
    return Permission(number, session_id, turn_id, request, kind, tool, json.loads(given), *rest)
