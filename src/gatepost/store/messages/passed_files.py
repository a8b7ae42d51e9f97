"""Files on their way from one gateway to another, in pieces. They are here until they have arrived.

A file that came with a message is named by its path in the media folder (`in/…`). A file to be sent is named by its
path on the gateway of its sender (`/…`).
"""

from gatepost.core.clock import DAY
from gatepost.store.messages.inbox import OPEN
from gatepost.store.port import Db

CHUNK = 1024 * 1024
LONGEST_DELIVERY = 7 * DAY  # what waits for longer is not sent any more


def put(db: Db, name: str, number: int, data: bytes, now: int) -> None:
    """A piece; handed over twice, it is one."""
    db.run(
        "INSERT INTO passed_files (name, number, data, message_id, at) VALUES (?, ?, ?, NULL, ?)"
        " ON CONFLICT (name, number) DO UPDATE SET data = excluded.data, at = excluded.at",
        (name, number, data, now),
    )


def set_message(db: Db, names: list[str], message_id: int) -> None:
    """The message that they came with: they stay while anybody is to get it."""
    for name in names:
        db.run("UPDATE passed_files SET message_id = ? WHERE name = ?", (message_id, name))


def get(db: Db, name: str, number: int) -> bytes | None:
    row = db.row("SELECT data FROM passed_files WHERE name = ? AND number = ?", (name, number))
    return bytes(row[0]) if row else None


def remove(db: Db, names: list[str]) -> None:
    for name in names:
        db.run("DELETE FROM passed_files WHERE name = ?", (name,))


def remove_arrived(db: Db, now: int) -> int:
    """Those of messages that nobody is to get any more, and what was left behind. A message that somebody only
    observes is shown with the next turn, for which nobody waits longer than a day."""
    removed = db.run(
        "DELETE FROM passed_files WHERE message_id IS NOT NULL AND NOT EXISTS (SELECT 1 FROM inbox i"
        f" WHERE i.message_id = passed_files.message_id AND (i.{OPEN}"
        " OR (i.mode = 'observe' AND i.given = 0 AND passed_files.at > ?)))",
        (now - DAY,),
    )
    return removed + db.run(
        "DELETE FROM passed_files WHERE message_id IS NULL AND at < CASE WHEN name >= 'in/' THEN ? ELSE ? END",
        (now - DAY, now - LONGEST_DELIVERY),
    )
