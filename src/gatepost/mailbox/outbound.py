"""outbound.db: the runner's own file. The host never opens it; rows are handed over `runner.sock` one by one.

A result is committed here before it is said to the host, and stays until the host has it in the ledger. If a runner
dies before it could hand a result over, the next one resends it under the same key. No commit waits for the disk: this
file is for surviving the death of a process. Against a power cut, the ledger's own commit is the durable one. A result
that neither has was said to nobody, and its turn is continued. Only one kernel ever opens this file, so it may keep a
write-ahead log. The number of a row comes from the insert itself, so two writers cannot take the same one.
"""

import os
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import apsw
import msgspec

BUSY_MS = 5000  # both writers are our own
LOG_PAGES = 64  # of the log, which stays beside the file of a runner that is killed: there is one for each room
SCHEMA = """
CREATE TABLE IF NOT EXISTS messages_out (
  seq INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL UNIQUE, in_reply_to INTEGER, timestamp INTEGER NOT NULL,
  kind TEXT NOT NULL DEFAULT 'chat', platform_id TEXT NOT NULL DEFAULT '',
  channel_type TEXT NOT NULL DEFAULT '', thread_id TEXT NOT NULL DEFAULT '', content TEXT NOT NULL,
  turn TEXT NOT NULL, epoch INTEGER NOT NULL, attempt INTEGER NOT NULL, part INTEGER NOT NULL,
  acked INTEGER NOT NULL DEFAULT 0) STRICT;
CREATE TABLE IF NOT EXISTS processing_ack (
  message_id INTEGER PRIMARY KEY, status TEXT NOT NULL, status_changed INTEGER NOT NULL) STRICT;
CREATE TABLE IF NOT EXISTS session_state (
  key TEXT PRIMARY KEY, value TEXT NOT NULL, updated_at INTEGER NOT NULL) STRICT;
CREATE TABLE IF NOT EXISTS container_state (
  id INTEGER PRIMARY KEY CHECK (id = 1), current_tool TEXT, tool_declared_timeout_ms INTEGER, tool_started_at INTEGER,
  updated_at INTEGER NOT NULL) STRICT;
"""


class OutboundRow(msgspec.Struct, frozen=True, kw_only=True):
    """One result. (turn, attempt, part) is its identity."""

    turn: str
    epoch: int
    attempt: int
    part: int
    text: str
    to: str = ""  # a destination's name; "" is the room of the turn
    in_reply_to: int | None = None

    @property
    def id(self) -> str:
        return f"{self.turn}/{self.attempt}/{self.part}"


class _Content(msgspec.Struct, omit_defaults=True):
    text: str = ""
    to: str = ""


_read_content = msgspec.json.Decoder(_Content).decode


class OutboundDb:
    """The open file. `trouble` says what was wrong with the one that was there."""

    def __init__(self, path: Path) -> None:
        self.trouble = ""
        try:
            self._db = _open(path)
            self.list_unacked()
            self.list_marked("processing")
        except (
            apsw.NotADBError,
            apsw.CorruptError,
            apsw.FormatError,
            apsw.SQLError,  # tables that are not ours
            msgspec.DecodeError,
        ) as error:
            self.trouble = f"{path.name} was broken ({error}); kept as {path.name}.broken, a new one was made"
            _move_aside(path)
            self._db = _open(path)

    def close(self) -> None:
        """A full disk does not keep it from closing."""
        with suppress(apsw.Error):
            self._db.close()

    # Results.

    def add(self, row: OutboundRow) -> int:
        """Commit a result; its number in this file. The same key again changes nothing."""
        self._run(
            "INSERT OR IGNORE INTO messages_out (id, in_reply_to, timestamp, content, turn, epoch, attempt, part)"
            " VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
            (
                row.id,
                row.in_reply_to,
                now(),
                msgspec.json.encode(_Content(row.text, row.to)).decode(),
                row.turn,
                row.epoch,
                row.attempt,
                row.part,
            ),
        )
        return int(self._rows("SELECT seq FROM messages_out WHERE id = ?", (row.id,))[0][0])

    def list_unacked(self) -> list[OutboundRow]:
        """Return what the host does not have yet, in order."""
        found = self._rows(
            "SELECT turn, epoch, attempt, part, in_reply_to, content FROM messages_out WHERE acked = 0 ORDER BY seq"
        )
        rows = []
        for turn, epoch, attempt, part, in_reply_to, raw in found:
            content = _read_content(raw)
            rows.append(
                OutboundRow(
                    turn=turn,
                    epoch=epoch,
                    attempt=attempt,
                    part=part,
                    text=content.text,
                    to=content.to,
                    in_reply_to=in_reply_to,
                )
            )
        return rows

    def mark_acked(self, ids: Iterable[str]) -> None:
        """The host has them, or does not want them."""
        self._run_many("UPDATE messages_out SET acked = 1 WHERE id = ?", [(one,) for one in ids])

    def prune(self) -> None:
        """Forget what the host has."""
        self._run("DELETE FROM messages_out WHERE acked = 1")

    # Notes to ourselves.

    def mark(self, ids: Iterable[int], status: str) -> None:
        """The fate of these inbound rows here: processing, completed, failed."""
        self._run_many(
            "INSERT INTO processing_ack (message_id, status, status_changed) VALUES (?, ?, ?)"
            " ON CONFLICT (message_id) DO UPDATE SET status = excluded.status,"
            " status_changed = excluded.status_changed",
            [(row_id, status, now()) for row_id in ids],
        )

    def list_marked(self, status: str) -> set[int]:
        return {row[0] for row in self._rows("SELECT message_id FROM processing_ack WHERE status = ?", (status,))}

    def remove_marks(self, status: str, but: Iterable[int] = ()) -> None:
        """Drop the marks of that status, except on rows that are still in the inbound file."""
        keep = set(but)
        gone = [(row_id,) for row_id in self.list_marked(status) if row_id not in keep]
        self._run_many("DELETE FROM processing_ack WHERE message_id = ?", gone)

    def tool(self, name: str, timeout: float) -> None:
        """The tool that runs now, '' for none."""
        moment = now()
        self._run(
            "INSERT OR REPLACE INTO container_state (id, current_tool, tool_declared_timeout_ms, tool_started_at,"
            " updated_at) VALUES (1, ?, ?, ?, ?)",
            (name or None, int(timeout * 1000) or None, moment if name else None, moment),
        )

    def _rows(self, sql: str, params: tuple[int | str, ...] = ()) -> list[tuple[Any, ...]]:
        return self._db.execute(sql, params).fetchall()

    def _run(self, sql: str, params: tuple[int | str | None, ...] = ()) -> None:
        self._run_many(sql, [params])

    def _run_many(self, sql: str, params: Sequence[tuple[int | str | None, ...]]) -> None:
        if not params:
            return
        self._db.execute("BEGIN IMMEDIATE")  # a read that becomes a write could meet the other writer half-way
        try:
            self._db.executemany(sql, params)
            self._db.execute("COMMIT")
        finally:
            if self._db.in_transaction:
                self._db.execute("ROLLBACK")


def now() -> int:
    return time.time_ns() // 1000


def _open(path: Path) -> apsw.Connection:
    is_new = not path.exists() or not path.stat().st_size
    db = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_CREATE)
    try:
        db.set_busy_timeout(BUSY_MS)
        db.execute("PRAGMA mmap_size=0").fetchall()
        # An empty file is not waited for: a machine that dies now leaves one that is made again.
        db.execute(f"PRAGMA synchronous={'OFF' if is_new else 'NORMAL'}")
        _enable_wal(db)
        db.execute(f"PRAGMA wal_autocheckpoint={LOG_PAGES}").fetchall()
        db.execute("PRAGMA journal_size_limit=65536").fetchall()
        db.execute("BEGIN IMMEDIATE")
        db.execute(SCHEMA)
        db.execute("COMMIT")
        db.execute("PRAGMA synchronous=NORMAL")
        found = db.execute("PRAGMA quick_check(1)").fetchall()  # here, and not in a turn; the file is small
        if found != [("ok",)]:
            raise apsw.CorruptError(str(found[0][0]))
    except BaseException:
        db.close()
        raise
    return db


def _enable_wal(db: apsw.Connection) -> None:
    """Switch to a write-ahead log. SQLite does not wait for another process that does the same at this moment."""
    for _ in range(BUSY_MS // 10):
        try:
            db.execute("PRAGMA journal_mode=WAL").fetchall()
            return
        except apsw.BusyError:
            time.sleep(0.01)
    db.execute("PRAGMA journal_mode=WAL").fetchall()


def _move_aside(path: Path) -> None:
    for beside in ("-wal", "-shm", "-journal"):
        with suppress(FileNotFoundError):
            os.unlink(path.with_name(path.name + beside))
    os.replace(path, path.with_name(path.name + ".broken"))
