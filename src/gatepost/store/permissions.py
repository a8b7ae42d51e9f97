"""What a provider asked before it acted, and what somebody answered. A request waits here until then, whatever ends.

An answer holds for what was asked: the same name with anything else behind it is another request."""

import json
from collections.abc import Collection
from enum import StrEnum
from typing import Any

from msgspec import Struct
from msgspec.structs import asdict

from gatepost.core import ids
from gatepost.store.port import Db, quick
from gatepost.store.table import Table


class PermissionKind(StrEnum):
    TOOL = "tool"
    PLAN = "plan"
    QUESTION = "question"
    MODE = "mode"
    OTHER = "other"


class PermissionState(StrEnum):
    PENDING = "pending"
    ALLOWED = "allowed"
    DENIED = "denied"
    OVER = "over"  # nobody waits for the answer any more


class NewPermission(Struct, frozen=True, kw_only=True):
    """What a provider asks. An approved plan sets the mode to `next_mode`, and `follow_up` is then the next prompt."""

    request: str  # as the provider named it
    kind: PermissionKind = PermissionKind.TOOL
    tool: str = ""
    input: dict[str, Any]
    follow_up: str = ""
    next_mode: str = ""
    digest: str = ""  # of everything that is asked, also of what is not kept here
    cut: bool = False  # `input` is an excerpt


class Permission(Struct, frozen=True):
    id: str
    session_id: str
    turn_id: str
    request: str  # as the provider named it
    kind: PermissionKind
    tool: str
    input: dict[str, Any]
    answer: dict[str, Any]  # what it may use instead of its input
    follow_up: str
    next_mode: str
    state: PermissionState
    reason: str
    asked_at: int
    answered_at: int | None
    answered_by: str
    cut: bool = False  # `input` is an excerpt; the provider holds the whole


PERMISSIONS = Table("permissions", Permission)


def find(db: Db, session_id: str, turn_id: str, wish: NewPermission, others: Collection[str] = ()) -> Permission | None:
    """The same thing asked before in this turn, under the same name; or one that still waits and says the same, left by
    an attempt that is gone: from now on it has this name. `others`: names that somebody waits for as it is."""
    same = "WHERE session_id = ? AND turn_id = ? AND request = ? AND digest = ?"
    if found := PERMISSIONS.get(db, same, session_id, turn_id, wish.request, wish.digest):
        return found
    for number, named in db.rows(
        "SELECT id, request FROM permissions WHERE session_id = ? AND turn_id = ? AND digest = ? AND state = 'pending'"
        " ORDER BY asked_at, id",
        (session_id, turn_id, wish.digest),
    ):
        if named not in others:
            db.run("UPDATE permissions SET request = ? WHERE id = ?", (wish.request, number))
            return get(db, number)
    return None


def add(db: Db, session_id: str, turn_id: str, wish: NewPermission, now: int) -> Permission:
    """Asked twice, it is one request. Nobody waits any more for what had its name and said something else."""
    db.run(
        "UPDATE permissions SET state = 'over', reason = 'something else was asked in its place', answered_at = ?"
        " WHERE session_id = ? AND turn_id = ? AND request = ? AND digest <> ? AND state = 'pending'",
        (now, session_id, turn_id, wish.request, wish.digest),
    )
    return PERMISSIONS.put(
        db,
        "ON CONFLICT (session_id, turn_id, request, digest) DO UPDATE SET"
        " state = CASE permissions.state WHEN 'over' THEN 'pending' ELSE permissions.state END",
        id=ids.new("p"),
        session_id=session_id,
        turn_id=turn_id,
        state=PermissionState.PENDING,
        asked_at=now,
        **asdict(wish) | {"input": _json(wish.input)},
    )


def record_answer(
    db: Db, permission_id: str, state: PermissionState, reason: str, given: dict[str, Any], by: str, now: int
) -> Permission | None:
    """None if it does not wait: answered before, or over. `given`: what it may use instead of its input."""
    rows = db.rows(
        "UPDATE permissions SET state = ?, reason = ?, answer = ?, answered_at = ?, answered_by = ?"
        f" WHERE id = ? AND state = 'pending' RETURNING {PERMISSIONS.columns}",
        (state, reason, _json(given), now, by, permission_id),
    )
    return PERMISSIONS.parse(rows[0]) if rows else None


def expire_others(db: Db, turn_id: str, others: Collection[str], now: int) -> None:
    """A new attempt asks for something, so what only the one before it waited for is over. If that is asked again after
    all, it waits again."""
    for number, named in db.rows(
        "SELECT id, request FROM permissions WHERE turn_id = ? AND state = 'pending'", (turn_id,)
    ):
        if named not in others:
            db.run(
                "UPDATE permissions SET state = 'over', reason = 'who asked it was started anew', answered_at = ?"
                " WHERE id = ?",
                (now, number),
            )


def expire_for_turn(db: Db, turn_id: str, reason: str, now: int) -> int:
    """Nobody waits for these answers any more."""
    return db.run(
        "UPDATE permissions SET state = 'over', reason = ?, answered_at = ? WHERE turn_id = ? AND state = 'pending'",
        (reason, now, turn_id),
    )


@quick
def get(db: Db, permission_id: str) -> Permission | None:
    return PERMISSIONS.get(db, "WHERE id = ?", permission_id)


def count_waiting(db: Db, session_id: str) -> int:
    """How many of a session's wait."""
    row = db.row("SELECT COUNT(*) FROM permissions WHERE state = 'pending' AND session_id = ?", (session_id,))
    return int(row[0]) if row else 0


def is_turn_waiting(db: Db, turn_id: str) -> bool:
    """Whether a turn waits for somebody."""
    return db.row("SELECT 1 FROM permissions WHERE state = 'pending' AND turn_id = ? LIMIT 1", (turn_id,)) is not None


def list_ids_by_prefix(db: Db, beginning: str) -> list[str]:
    """The ids of those that wait, by how they begin."""
    rows = db.rows("SELECT id FROM permissions WHERE state = 'pending' ORDER BY asked_at, id")
    return [number for (number,) in rows if number.startswith(beginning)]


def list_pending(db: Db, session_id: str | None = None) -> list[Permission]:
    """The oldest first; of one session, or all."""
    pending = "WHERE state = 'pending' AND session_id = COALESCE(?, session_id) ORDER BY asked_at, id"
    return PERMISSIONS.list(db, pending, session_id)


def _json(value: dict[str, Any]) -> str:
    return json.dumps(value, ensure_ascii=False)
