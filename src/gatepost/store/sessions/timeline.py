"""Acts of an agent, in the order in which they were seen: rows that are never changed. A cursor is (epoch, seq)."""

import json
from collections.abc import Iterator
from enum import StrEnum
from typing import Any

import msgspec
from msgspec import Struct

from gatepost.store.engine.table import Table
from gatepost.store.port import Db, LockKind

PAGE, MOST_BYTES = 64, 4 * 1024 * 1024  # rows in one statement; of what one call returns, but always one entry


class TimelineKind(StrEnum):
    USER_MESSAGE = "user_message"
    ASSISTANT_MESSAGE = "assistant_message"
    TOOL_CALL = "tool_call"
    PERMISSION = "permission"
    ERROR = "error"
    STATUS = "status"
    AGENT_FINISHED = "agent_finished"
    WORKTREE_SETUP = "worktree_setup"


class ToolCallStatus(StrEnum):
    """In the data of an entry."""

    RUNNING = "running"
    COMPLETED = "completed"
    FAILED = "failed"


class TimelineEntry(Struct, frozen=True):
    seq: int
    at: int
    turn_id: str
    kind: TimelineKind
    data: dict[str, Any]


TIMELINE = Table("timeline", TimelineEntry)


def add(db: Db, session_id: str, turn_id: str, kind: TimelineKind, data: dict[str, Any], now: int) -> int:
    db.lock(LockKind.SESSION, session_id)
    rows = db.rows(
        "INSERT INTO timeline (session_id, seq, at, turn_id, kind, data)"
        " SELECT ?, COALESCE(MAX(seq), 0) + 1, ?, ?, ?, ? FROM timeline WHERE session_id = ? RETURNING seq",
        (session_id, now, turn_id, kind, json.dumps(data, ensure_ascii=False), session_id),
    )
    return int(rows[0][0])


def list_last(db: Db, session_id: str, limit: int, before: int = 2**62) -> list[TimelineEntry]:
    """The newest before a cursor, oldest first; no more than fit."""
    sql = f"SELECT {TIMELINE.columns} FROM timeline WHERE session_id = ? AND seq < ? ORDER BY seq DESC LIMIT ?"
    return _read_within_limit(db, sql, session_id, before, limit)[::-1]


def list_after(db: Db, session_id: str, seq: int, limit: int) -> list[TimelineEntry]:
    """Those after a cursor; no more than fit."""
    sql = f"SELECT {TIMELINE.columns} FROM timeline WHERE session_id = ? AND seq > ? ORDER BY seq LIMIT ?"
    return _read_within_limit(db, sql, session_id, seq, limit)


class TimelineToolCall(Struct, frozen=True):
    """`status`: of the last that was told of it. `ended_at`: None while it runs, or if nobody told its end."""

    at: int
    turn_id: str
    name: str
    status: ToolCallStatus
    ended_at: int | None = None


class _CallEntry(Struct, frozen=True, rename="camel"):
    """The part of an entry that is read; its input and output may be long."""

    status: ToolCallStatus
    call_id: str = ""
    name: str = ""


def list_tool_calls(db: Db, session_id: str, since: int, most: int) -> list[TimelineToolCall]:
    """The calls that began from a moment on, oldest first: of those that the newest `most` entries tell."""
    sql = f"SELECT {TIMELINE.columns} FROM timeline WHERE session_id = ? AND seq < ? ORDER BY seq DESC LIMIT ?"
    begun, ended = [], dict[tuple[str, str], tuple[ToolCallStatus, int]]()
    for at, turn_id, kind, data in _read_raw(db, sql, session_id, most):
        if at < since:
            break
        if kind != TimelineKind.TOOL_CALL:
            continue
        try:
            call = msgspec.json.decode(data, type=_CallEntry)
        except msgspec.MsgspecError:  # somebody's words were erased from it
            continue
        if call.name:
            status, end = ended.get((turn_id, call.call_id), (call.status, None))
            begun.append(TimelineToolCall(at, turn_id, call.name, status, end))
        else:
            ended[turn_id, call.call_id] = call.status, at
    return begun[::-1]


def _read_raw(db: Db, sql: str, session_id: str, most: int) -> Iterator[tuple[int, str, str, str]]:
    """(at, turn, kind, data), the newest first; no more than fit."""
    cursor, count, size = 2**62, 0, 0
    while (wanted := min(most - count, PAGE)) > 0:
        rows = db.rows(sql, (session_id, cursor, wanted))
        for seq, at, turn_id, kind, data in rows:
            cursor, count, size = seq, count + 1, size + len(data)
            if size > MOST_BYTES:
                return
            yield at, turn_id, kind, data
        if len(rows) < wanted:
            return


def _read_within_limit(db: Db, sql: str, session_id: str, cursor: int, limit: int) -> list[TimelineEntry]:
    found: list[TimelineEntry] = []
    size = 0
    while (wanted := min(limit - len(found), PAGE)) > 0:
        rows = db.rows(sql, (session_id, cursor, wanted))
        for row in rows:
            size += len(row[-1])
            if found and size > MOST_BYTES:
                return found
            found.append(TIMELINE.parse(row))
        if len(rows) < wanted:
            break
        cursor = found[-1].seq
    return found


def get_newest_seq(db: Db, session_id: str) -> int:
    row = db.row("SELECT COALESCE(MAX(seq), 0) FROM timeline WHERE session_id = ?", (session_id,))
    return int(row[0]) if row else 0
