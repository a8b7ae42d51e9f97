"""Egress rules and the log of what was tried. What a rule means is decided in `egress/rules.py`."""

from typing import Any

from msgspec import Struct

from gatepost.store.port import Db, quick

COLUMNS = "id, folder, host, port, allow, local, created_by, created_at"
MOST_LOGGED = 100_000  # rows; the oldest go first


class EgressRule(Struct, frozen=True):
    id: int
    folder: str | None  # None: the whole instance
    host: str
    port: int  # 0: the usual ones
    allow: bool
    local: bool
    created_by: str
    created_at: int


class EgressAttempt(Struct, frozen=True):
    id: int
    at: int
    last_at: int
    times: int
    folder: str
    session_id: str
    target: str
    verdict: str
    reason: str


def _parse_row(row: tuple[Any, ...]) -> EgressRule:
    number, folder, host, port, allow, local, by, at = row
    return EgressRule(number, folder, host, port, bool(allow), bool(local), by, at)


@quick
def list_rules(db: Db) -> list[EgressRule]:
    return [_parse_row(row) for row in db.rows(f"SELECT {COLUMNS} FROM egress_rules ORDER BY folder, host, port")]


def put(db: Db, folder: str | None, host: str, port: int, *, allow: bool, local: bool, by: str, now: int) -> EgressRule:
    """One verdict a folder, host and port: a second one replaces the first. The foreign key refuses a ghost."""
    rows = db.rows(
        "INSERT INTO egress_rules (folder, host, port, allow, local, created_by, created_at)"
        " VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT (COALESCE(folder, ''), host, port) DO UPDATE SET"
        " allow = excluded.allow, local = excluded.local, created_by = excluded.created_by,"
        f" created_at = excluded.created_at RETURNING {COLUMNS}",
        (folder, host, port, int(allow), int(local), by, now),
    )
    return _parse_row(rows[0])


def remove(db: Db, rule_id: int) -> EgressRule | None:
    rows = db.rows(f"DELETE FROM egress_rules WHERE id = ? RETURNING {COLUMNS}", (rule_id,))
    return _parse_row(rows[0]) if rows else None


def record_attempt(db: Db, folder: str, session_id: str, target: str, verdict: str, reason: str, now: int) -> bool:
    """Write down one try; the same one again is counted. True if it is a new row."""
    rows = db.rows(
        "INSERT INTO egress_log (at, last_at, folder, session_id, target, verdict, reason) VALUES (?, ?, ?, ?, ?, ?, ?)"
        " ON CONFLICT (session_id, target, verdict, reason) DO UPDATE SET times = times + 1, last_at = excluded.last_at"
        " RETURNING id, times",
        (now, now, folder, session_id, target, verdict, reason),
    )
    number, times = rows[0]
    if times == 1 and number % 1000 == 0:
        db.run("DELETE FROM egress_log WHERE id <= ?", (number - MOST_LOGGED,))
    return bool(times == 1)


def list_attempts(db: Db, limit: int, folder: str = "", verdict: str = "") -> list[EgressAttempt]:
    """The newest first."""
    rows = db.rows(
        "SELECT id, at, last_at, times, folder, session_id, target, verdict, reason FROM egress_log"
        " WHERE (? = '' OR folder = ?) AND (? = '' OR verdict = ?) ORDER BY last_at DESC, id DESC LIMIT ?",
        (folder, folder, verdict, verdict, limit),
    )
    return [EgressAttempt(*row) for row in rows]
