"""inbound.db: what a session's runner may read. The host writes it, the sandbox sees it read-only.

It is transport, never truth: every row is a projection of the ledger, written idempotently, and a lost or broken file
is rebuilt with the same numbers. Hence no fsync, and a journal in memory. A host that dies while it writes leaves a
file that nobody reads any more, because each sandbox starts with a new one. The reader opens it for every look: a kept
handle would show old pages on some file shares. Times are integer microseconds UTC.
"""

import os
from collections.abc import Callable, Sequence
from contextlib import closing, suppress
from pathlib import Path
from typing import Any, TypeVar

import apsw
import msgspec
from msgspec.structs import asdict, astuple, replace

T = TypeVar("T")

BUSY_MS = 250
SCHEMA = """
CREATE TABLE IF NOT EXISTS messages_in (
  id INTEGER PRIMARY KEY, seq INTEGER NOT NULL UNIQUE, kind TEXT NOT NULL, timestamp INTEGER NOT NULL,
  status TEXT NOT NULL DEFAULT 'pending',
  tries INTEGER NOT NULL DEFAULT 0, trigger INTEGER NOT NULL DEFAULT 1, platform_id TEXT NOT NULL DEFAULT '',
  channel_type TEXT NOT NULL DEFAULT '', thread_id TEXT NOT NULL DEFAULT '', content TEXT NOT NULL DEFAULT '{}',
  source_session_id TEXT, on_wake INTEGER NOT NULL DEFAULT 0) STRICT;
CREATE TABLE IF NOT EXISTS delivered (
  message_out_id TEXT PRIMARY KEY, platform_message_id TEXT, status TEXT NOT NULL,
  delivered_at INTEGER NOT NULL) STRICT;
CREATE TABLE IF NOT EXISTS destinations (
  name TEXT PRIMARY KEY, display_name TEXT NOT NULL, type TEXT NOT NULL, channel_type TEXT NOT NULL DEFAULT '',
  platform_id TEXT NOT NULL DEFAULT '', agent_group_id TEXT NOT NULL DEFAULT '') STRICT;
CREATE TABLE IF NOT EXISTS session_routing (
  id INTEGER PRIMARY KEY CHECK (id = 1), channel_type TEXT NOT NULL, platform_id TEXT NOT NULL,
  thread_id TEXT NOT NULL) STRICT;
"""


class MailboxLocked(Exception):
    """Not now: somebody holds the file, or it is not there yet. Try again."""


class MailboxCorrupt(Exception):
    """The file is not, or no longer, a mailbox. Move it aside and rebuild it."""


class InboundRow(msgspec.Struct, frozen=True, kw_only=True):
    """One message for the agent. `id` is the inbox row, `seq` its number in the session; both come from the ledger."""

    id: int
    seq: int
    kind: str
    timestamp: int
    content: dict[str, Any]
    status: str = "pending"
    tries: int = 0
    trigger: int = 1  # 0: context only, shown with the next batch
    platform_id: str = ""
    channel_type: str = ""
    thread_id: str = ""
    source_session_id: str | None = None
    on_wake: int = 0


class SessionRouting(msgspec.Struct, frozen=True):
    """The room to which the session's results go by default."""

    channel_type: str
    platform_id: str
    thread_id: str = ""


class MailboxDestination(msgspec.Struct, frozen=True, kw_only=True):
    """A name that the agent may send to. `type`: channel or agent."""

    name: str
    display_name: str = ""
    type: str = "channel"
    channel_type: str = ""
    platform_id: str = ""
    agent_group_id: str = ""


# Each struct has the columns of its table.
_ROW = ", ".join(InboundRow.__struct_fields__)
_DESTINATION = ", ".join(MailboxDestination.__struct_fields__)


def _insert(verb: str, table: str, columns: str) -> str:
    return f"{verb} INTO {table} ({columns}) VALUES ({', '.join('?' * len(columns.split(',')))})"


_ROUTING = "id, channel_type, platform_id, thread_id"
_ADD_ROW = _insert("INSERT OR IGNORE", "messages_in", _ROW)
_ADD_DESTINATION = _insert("INSERT", "destinations", _DESTINATION)
_ADD_ROUTING = _insert("INSERT", "session_routing", _ROUTING)

# SQLite's failures, and that of JSON, as the two that a caller tells apart.
_CORRUPT = (
    apsw.NotADBError,
    apsw.CorruptError,
    apsw.FormatError,
    apsw.SQLError,  # a schema that is not ours, among it a file that was just created and has no table yet
    apsw.ConstraintError,
    apsw.MismatchError,
    msgspec.DecodeError,
)
_LOCKED = (
    apsw.BusyError,
    apsw.LockedError,
    apsw.ReadOnlyError,  # a journal of a writer that died: only the host can roll it back
    apsw.CantOpenError,
    apsw.IOError,
    apsw.FullError,
    apsw.PermissionsError,
)
_FAILURES = (*_CORRUPT, *_LOCKED)


# The host's side.


def move_broken_aside(path: Path) -> None:
    with suppress(FileNotFoundError):
        os.replace(path, path.with_name(path.name + ".broken"))


class InboundWriter:
    """The host's end of one file, kept open between projections: the host is the only writer, so what it remembers of
    the file is true. Opened again if another file lies there. One thread at a time."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._db: apsw.Connection | None = None
        self._identity = (0, 0)
        self._written: tuple[SessionRouting | None, list[MailboxDestination]] | None = None  # beside its rows

    def project(
        self, rows: Sequence[InboundRow], routing: SessionRouting | None, destinations: Sequence[MailboxDestination]
    ) -> None:
        """Make the file hold `rows`, which is every open row of the session; made if it is missing.

        Rows that ended meanwhile are removed. A row newer than all of `rows` stays: this projection may have been
        computed before another one that is already written. Raises Locked or Corrupt."""
        try:
            try:
                found = os.lstat(self._path)
            except FileNotFoundError:
                _create(self._path)
                found = os.lstat(self._path)
            if self._db is None or (found.st_dev, found.st_ino) != self._identity:
                self.close()
                self._db, self._identity = _open(self._path), (found.st_dev, found.st_ino)
            try:
                metadata = (routing, [*destinations])
                if metadata == self._written:
                    _fill(self._db, rows)
                else:
                    _fill(self._db, rows, lambda db: _write_metadata(db, routing, destinations))
                self._written = metadata
            except BaseException:
                self.close()
                raise
        except _FAILURES as error:
            raise _translate_error(self._path, error) from None

    def rebuild(
        self, rows: Sequence[InboundRow], routing: SessionRouting | None, destinations: Sequence[MailboxDestination]
    ) -> None:
        """Put a new file in the place of the one that is there. For a look at a broken one, it is moved aside before:
        `move_broken_aside`."""
        self.close()
        fresh = self._path.with_name(self._path.name + ".new")
        _remove(fresh)
        with closing(InboundWriter(fresh)) as writer:
            writer.project(rows, routing, destinations)
        # A journal that belonged to the old file would be played back into the new one.
        _remove(self._path.with_name(self._path.name + "-journal"))
        os.replace(fresh, self._path)

    def close(self) -> None:
        if self._db is not None:
            self._db.close()
            self._db = self._written = None


def _open(path: Path) -> apsw.Connection:
    db = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READWRITE)
    try:
        db.set_busy_timeout(BUSY_MS)
        db.execute(
            "PRAGMA mmap_size=0; PRAGMA journal_mode=MEMORY; PRAGMA synchronous=OFF"
        ).fetchall()  # or it stops at a row
    except BaseException:
        db.close()
        raise
    return db


def _fill(
    db: apsw.Connection, rows: Sequence[InboundRow], write_rest: Callable[[apsw.Connection], None] | None = None
) -> None:
    db.execute("BEGIN IMMEDIATE")
    try:
        if not db.execute("PRAGMA user_version").fetchall()[0][0]:
            db.execute(SCHEMA)
            db.execute("PRAGMA user_version=1")
        _write_rows(db, rows)
        if write_rest is not None:
            write_rest(db)
        db.execute("COMMIT")
    finally:
        if db.in_transaction:  # something went wrong, the COMMIT perhaps
            db.execute("ROLLBACK")


def _create(path: Path) -> None:
    """With its final mode from the first moment: a sandbox's own user, whose group its folder has, must read it if the
    daemon is root."""
    mode = 0o640 if os.geteuid() == 0 else 0o600
    with suppress(FileExistsError):
        handle = os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW, mode)
        try:
            if os.geteuid() == 0:
                os.fchown(handle, -1, os.stat(path.parent).st_gid)
            os.fchmod(handle, mode)
        finally:
            os.close(handle)


def _write_rows(db: apsw.Connection, rows: Sequence[InboundRow]) -> None:
    newest = max((row.seq for row in rows), default=0)
    keep = {row.id for row in rows}
    there = {row[0]: row[1:] for row in db.execute("SELECT id, seq, status, tries FROM messages_in")}
    gone = [(row_id,) for row_id, (seq, *_) in there.items() if row_id not in keep and seq <= newest]
    db.executemany("DELETE FROM messages_in WHERE id = ?", gone)
    new = [{**asdict(row), "content": msgspec.json.encode(row.content).decode()} for row in rows if row.id not in there]
    db.executemany(_ADD_ROW, [tuple(each.values()) for each in new])
    db.executemany(
        "UPDATE messages_in SET status = ?, tries = ? WHERE id = ?",
        [
            (row.status, row.tries, row.id)
            for row in rows
            if row.id in there and there[row.id][1:] != (row.status, row.tries)
        ],
    )


def _write_metadata(
    db: apsw.Connection,
    routing: SessionRouting | None,
    destinations: Sequence[MailboxDestination],
) -> None:
    one_routing = [] if routing is None else [(1, routing.channel_type, routing.platform_id, routing.thread_id)]
    _replace(db, "session_routing", _ROUTING, _ADD_ROUTING, one_routing)
    named = [astuple(replace(one, display_name=one.display_name or one.name)) for one in destinations]
    _replace(db, "destinations", _DESTINATION, _ADD_DESTINATION, sorted(named))


def _replace(db: apsw.Connection, table: str, columns: str, add: str, wanted: Sequence[tuple[int | str, ...]]) -> None:
    """Make a small table hold these rows. Mostly it does: then nothing is written."""
    if db.execute(f"SELECT {columns} FROM {table} ORDER BY 1").fetchall() == wanted:
        return
    db.execute(f"DELETE FROM {table}")
    db.executemany(add, wanted)


# The runner's side.


def list_pending(path: Path) -> list[InboundRow]:
    """Every row that waits, oldest first, observed ones (trigger 0) among them. Raises Locked or Corrupt."""
    return _query(path, f"SELECT {_ROW} FROM messages_in WHERE status = 'pending' ORDER BY seq", (), _parse_row)


def list_rows(path: Path, ids: Sequence[int]) -> list[InboundRow]:
    """These rows, oldest first, as far as they are there."""
    marks = ", ".join("?" * len(ids))
    return _query(path, f"SELECT {_ROW} FROM messages_in WHERE id IN ({marks}) ORDER BY seq", tuple(ids), _parse_row)


def list_destinations(path: Path) -> list[MailboxDestination]:
    return _query(path, f"SELECT {_DESTINATION} FROM destinations ORDER BY name", (), _parse_destination)


def _parse_row(found: tuple[Any, ...]) -> InboundRow:
    fields = dict(zip(InboundRow.__struct_fields__, found, strict=True))
    content = msgspec.json.decode(fields["content"])
    return InboundRow(**{**fields, "content": content if isinstance(content, dict) else {"text": str(content)}})


def _parse_destination(found: tuple[Any, ...]) -> MailboxDestination:
    return MailboxDestination(**dict(zip(MailboxDestination.__struct_fields__, found, strict=True)))


def _query(path: Path, sql: str, params: tuple[int, ...], make: Callable[[tuple[Any, ...]], T]) -> list[T]:
    """A fresh read-only connection for every look: a kept one would show old pages on some file shares."""
    try:
        db = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
        try:
            db.set_busy_timeout(BUSY_MS)
            db.execute("PRAGMA mmap_size=0").fetchall()
            return [make(row) for row in db.execute(sql, params).fetchall()]
        finally:
            db.close()
    except _FAILURES as error:
        raise _translate_error(path, error) from None


def _translate_error(path: Path, error: Exception) -> MailboxLocked | MailboxCorrupt:
    """Return every failure of SQLite as one of two: try again, or rebuild."""
    if isinstance(error, _LOCKED):
        return MailboxLocked(f"{path.name}: {error}")
    if isinstance(error, msgspec.DecodeError):
        return MailboxCorrupt(f"{path.name} holds content that is not JSON: {error}")
    if isinstance(error, apsw.ConstraintError | apsw.MismatchError):
        return MailboxCorrupt(f"{path.name} contradicts the ledger: {error}")
    if isinstance(error, apsw.SQLError) and _is_empty(path):
        return MailboxLocked(f"{path.name} is not filled yet")
    return MailboxCorrupt(f"{path.name}: {error}")


def _is_empty(path: Path) -> bool:
    try:
        return os.stat(path).st_size == 0
    except FileNotFoundError:
        return True


def _remove(path: Path) -> None:
    with suppress(FileNotFoundError):
        os.unlink(path)
