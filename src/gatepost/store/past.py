"""Looking back at rooms: what was said in one, by when it was said; what a platform remembers; what failed; who spoke.

A row that was fetched from a platform is in an end state from its first moment: it is never new input for anybody.
"""

from dataclasses import dataclass

from gatepost.store import inbox, messages, search, steps
from gatepost.store.messages import Message, NewMessage
from gatepost.store.port import Db
from gatepost.store.search import READABLE, SEEN, Part

HISTORY = "history"  # the reason of rows that were fetched
_COLUMNS = ", ".join(f"m.{name.strip()}" for name in messages.COLUMNS.split(","))


@dataclass(frozen=True, slots=True)
class Cursor:
    """Strictly before this: a moment, and among what was said in it an id."""

    at: int = 2**62
    id: int = 0


@dataclass(frozen=True, slots=True)
class Failed:
    """What failed in one room, of one part of the tree."""

    instance: str
    address: str
    folder: str
    count: int
    newest: int
    reason: str  # of the newest


@dataclass(frozen=True, slots=True)
class Seen:
    """A message of a room: its number in the conversation of who looks, if it has one there, and what became of it."""

    seq: int | None
    state: str
    message: Message


def in_room(
    db: Db, instance: str, address: str, thread: str | None, before: Cursor, limit: int, part: Part, session_id: str
) -> list[Seen]:
    """The newest before the cursor, oldest first. `thread`: only its messages."""
    only, params = ("AND m.thread = ?", [thread]) if thread is not None else ("", [])
    rows = db.rows(
        "SELECT COALESCE((SELECT seq FROM inbox WHERE message_id = m.id AND session_id = ?),"
        " (SELECT seq FROM outbox WHERE message_id = m.id AND session_id = ? AND seq > 0)),"
        " COALESCE((SELECT state FROM inbox WHERE message_id = m.id AND COALESCE(session_id, ?) = ? LIMIT 1),"
        " (SELECT state FROM outbox WHERE message_id = m.id ORDER BY id DESC LIMIT 1), ''),"
        f" {_COLUMNS} FROM messages m WHERE m.instance = ? AND m.address = ? AND (m.at, m.id) < (?, ?) {only}"
        f" AND ({SEEN}) ORDER BY m.at DESC, m.id DESC LIMIT ?",
        (*[session_id] * 4, instance, address, before.at, before.id, *params, *part.range, limit),
    )
    return [Seen(row[0], row[1], messages.of_row(row[2:])) for row in reversed(rows)]


def keep(db: Db, new: NewMessage, folder: str, now: int) -> bool:
    """Write down what a platform remembers, in a state that wakes nobody; False if it is known. What we said ourselves
    stays ours."""
    if new.platform_id and messages.find(db, new.instance, new.address, "out", new.platform_id, new.event) is not None:
        return False
    message_id = messages.accept(db, new, now)
    if message_id is None:
        return False
    if new.direction == "in":
        inbox.refuse(db, message_id, folder, "guest", HISTORY, now, state="observed")
        return True
    db.run(
        "INSERT INTO outbox (key, message_id, origin, op, instance, address, thread, payload, state, reason,"
        " created_at, updated_at) VALUES (?, ?, 'history', 'send', ?, ?, ?, '{}', 'sent', ?, ?, ?)",
        (f"{HISTORY}:{message_id}", message_id, new.instance, new.address, new.thread, HISTORY, now, now),
    )
    steps.add(db, message_id, None, now, "sent", HISTORY)
    return True


def failed(db: Db, part: Part, limit: int) -> list[Failed]:
    """Rooms with rows that came to nothing, the newest first."""
    rows = db.rows(
        "SELECT m.instance, m.address, i.folder, COUNT(*), MAX(i.updated_at), i.reason FROM inbox i"
        " JOIN messages m ON m.id = i.message_id WHERE i.state = 'failed'"
        " AND (i.folder = ? OR (i.folder >= ? AND i.folder < ?))"
        " GROUP BY m.instance, m.address, i.folder ORDER BY 5 DESC LIMIT ?",
        (*part.range, limit),
    )
    return [Failed(*row) for row in rows]


def has_spoken(db: Db, part: Part, sender: str) -> bool:
    """Whether somebody wrote in a room of that part of the tree."""
    row = db.row(
        f"WITH readable (instance, address) AS MATERIALIZED ({READABLE})"
        " SELECT 1 FROM search f JOIN messages m ON m.id = f.rowid WHERE f.search MATCH ? AND m.sender = ?"
        f" AND (m.instance, m.address) IN readable AND ({SEEN}) LIMIT 1",
        (*part.range, *part.range, f"marks : {search.mark('s', sender)}", sender, *part.range),
    )
    return row is not None
