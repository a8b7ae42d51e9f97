"""What a provider asked before it acted, and what somebody answered. A request waits here until then, whatever ends."""

import json
from dataclasses import dataclass
from typing import Any

from gatepost.core import ids
from gatepost.store.port import Db, quick

COLUMNS = (
    "id, session_id, turn_id, request, kind, tool, input, answer, follow_up, next_mode, state, reason, asked_at,"
    " answered_at, answered_by"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """What a provider asks. An approved plan sets the mode to `next_mode`, and `follow_up` is then the next prompt."""

    request: str  # as the provider named it
    kind: str = "tool"  # tool | plan | question | mode | other
    tool: str = ""
    input: dict[str, Any]
    follow_up: str = ""
    next_mode: str = ""


@dataclass(frozen=True, slots=True)
class Permission:
    """`state`: pending, allowed, denied or over (nobody waits for the answer any more)."""

    id: str
    session_id: str
    turn_id: str
    request: str  # as the provider named it
    kind: str
    tool: str
    input: dict[str, Any]
    answer: dict[str, Any]  # what it may use instead of its input
    follow_up: str
    next_mode: str
    state: str
    reason: str
    asked_at: int
    answered_at: int | None
    answered_by: str


def ask(db: Db, session_id: str, turn_id: str, wish: Wish, now: int) -> Permission:
    """Asked twice, it is one request."""
    about = (wish.request, wish.kind, wish.tool, _json(wish.input), wish.follow_up, wish.next_mode)
    db.run(
        "INSERT INTO permissions (id, session_id, turn_id, request, kind, tool, input, follow_up, next_mode, state,"
        " asked_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, 'pending', ?)"
        " ON CONFLICT (session_id, turn_id, request) DO NOTHING",
        (ids.new("p"), session_id, turn_id, *about, now),
    )
    row = db.row(
        f"SELECT {COLUMNS} FROM permissions WHERE session_id = ? AND turn_id = ? AND request = ?",
        (session_id, turn_id, wish.request),
    )
    assert row is not None
    return _permission(row)


def answer(
    db: Db, permission_id: str, state: str, reason: str, given: dict[str, Any], by: str, now: int
) -> Permission | None:
    """None if it does not wait: answered before, or over. `given`: what it may use instead of its input."""
    rows = db.rows(
        "UPDATE permissions SET state = ?, reason = ?, answer = ?, answered_at = ?, answered_by = ?"
        f" WHERE id = ? AND state = 'pending' RETURNING {COLUMNS}",
        (state, reason, _json(given), now, by, permission_id),
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
    number, session_id, turn_id, request, kind, tool, given, answered, *rest = row
    return Permission(number, session_id, turn_id, request, kind, tool, json.loads(given), json.loads(answered), *rest)


def _json(value: dict[str, Any]) -> str:
    return json.dumps(value, ensure_ascii=False)
