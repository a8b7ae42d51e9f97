"""What an agent did, in the order in which it was seen: rows that are never changed. A cursor is (epoch, seq)."""

import json
from dataclasses import dataclass
from typing import Any

from gatepost.store.port import Db

COLUMNS = "seq, at, turn_id, kind, data"
KINDS = ("user_message", "assistant_message", "tool_call", "permission", "error", "status", "agent_finished")


@dataclass(frozen=True, slots=True)
class Entry:
    seq: int
    at: int
    turn_id: str
    kind: str
    data: dict[str, Any]


def add(db: Db, session_id: str, turn_id: str, kind: str, data: dict[str, Any], now: int) -> int:
    rows = db.rows(
        "INSERT INTO timeline (session_id, seq, at, turn_id, kind, data)"
        " SELECT ?, COALESCE(MAX(seq), 0) + 1, ?, ?, ?, ? FROM timeline WHERE session_id = ? RETURNING seq",
        (session_id, now, turn_id, kind, json.dumps(data, ensure_ascii=False), session_id),
    )
    return int(rows[0][0])


def last(db: Db, session_id: str, limit: int, before: int = 2**62) -> list[Entry]:
    """The newest before a cursor, oldest first."""
    sql = f"SELECT {COLUMNS} FROM timeline WHERE session_id = ? AND seq < ? ORDER BY seq DESC LIMIT ?"
    return [_entry(row) for row in reversed(db.rows(sql, (session_id, before, limit)))]


def after(db: Db, session_id: str, seq: int, limit: int) -> list[Entry]:
    sql = f"SELECT {COLUMNS} FROM timeline WHERE session_id = ? AND seq > ? ORDER BY seq LIMIT ?"
    return [_entry(row) for row in db.rows(sql, (session_id, seq, limit))]


def newest(db: Db, session_id: str) -> int:
    row = db.row("SELECT COALESCE(MAX(seq), 0) FROM timeline WHERE session_id = ?", (session_id,))
    return int(row[0]) if row else 0


def _entry(row: tuple[Any, ...]) -> Entry:
    seq, at, turn_id, kind, data = row
    return Entry(seq, at, turn_id, kind, json.loads(data))
