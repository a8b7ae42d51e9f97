"""Files that agents gave away: the number of bytes by turn and by group, which counts against the limits on them."""

from msgspec import Struct

from gatepost.core.clock import DAY
from gatepost.store.port import Db


class NewSentFiles(Struct, frozen=True, kw_only=True):
    """The files of one effect. `bytes` as they will be on the host, where a hole in a file is filled."""

    key: str
    folder: str
    session_id: str
    turn_id: str  # '': outside of a turn
    bytes: int


def put(db: Db, new: NewSentFiles, now: int) -> None:
    """Record bytes under a key. Recorded twice, the larger number counts: the first may be on its way already. Rows
    older than the group's period are removed."""
    db.run("DELETE FROM given_files WHERE folder = ? AND at < ?", (new.folder, now - DAY))
    db.run(
        "INSERT INTO given_files (key, folder, session_id, turn_id, bytes, at) VALUES (?, ?, ?, ?, ?, ?)"
        " ON CONFLICT (key) DO UPDATE SET at = excluded.at,"
        " bytes = CASE WHEN given_files.bytes > excluded.bytes THEN given_files.bytes ELSE excluded.bytes END",
        (new.key, new.folder, new.session_id, new.turn_id, new.bytes, now),
    )


def remove(db: Db, key: str) -> None:
    """Remove the record of files that were not given away after all. It stays if an effect of this key exists."""
    db.run(
        "DELETE FROM given_files WHERE key = ? AND NOT EXISTS (SELECT 1 FROM outbox WHERE outbox.key = ?)", (key, key)
    )


def count_turn_bytes(db: Db, session_id: str, turn_id: str, without: str = "") -> int:
    """Bytes of a turn; '': of what came outside of one, since the session's last one began."""
    since = 0
    if not turn_id:
        last = db.row("SELECT COALESCE(MAX(started_at), 0) FROM turns WHERE session_id = ?", (session_id,))
        since = int(last[0]) if last else 0
    row = db.row(
        "SELECT COALESCE(SUM(bytes), 0) FROM given_files WHERE session_id = ? AND turn_id = ? AND key <> ? AND at >= ?",
        (session_id, turn_id, without, since),
    )
    return int(row[0]) if row else 0


def count_group_bytes(db: Db, folder: str, now: int, without: str = "") -> int:
    """Bytes of a group's last 24 hours."""
    row = db.row(
        "SELECT COALESCE(SUM(bytes), 0) FROM given_files WHERE folder = ? AND at >= ? AND key <> ?",
        (folder, now - DAY, without),
    )
    return int(row[0]) if row else 0
