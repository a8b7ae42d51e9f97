"""Files of a conversation: which messages have files that lie in a session's folder, within its share of the disk.

A file keeps its path for as long as it is kept. Its folder is named after the inbox row that it came with first, and a
fork or a replay uses the same name. The oldest make way for new ones; the row that needed their space tells so.
"""

from collections.abc import Iterable, Mapping, Sequence, Set
from typing import Any

import msgspec
from msgspec import Struct, field

from gatepost.store.engine.table import Table
from gatepost.store.messages.messages import Message
from gatepost.store.port import Db

FIELDS = frozenset({"attachments", "observed", "replyTo"})  # of a message's content, that may name files
MOST = 1000  # messages with files that one conversation keeps


class ConversationFile(Struct, frozen=True):
    """One file: its name in the folder of its row, and where it lies below the media folder."""

    name: str
    path: str
    size: int = 0


class SessionFiles(Struct, frozen=True):
    """The files that came with one row of a session. `files`: JSON."""

    session_id: str
    row_id: int
    message_id: int
    files: str
    bytes: int
    dropped_for: int | None

    @property
    def listed(self) -> list[ConversationFile]:
        return msgspec.json.decode(self.files, type=list[ConversationFile])


SESSION_FILES = Table("session_files", SessionFiles)


class ConversationFiles(Struct, frozen=True):
    """The content of a session's file folder. `rows`: by the inbox row, which names the folder of each. `dropped`: the
    names that had to make way for a row. `quoted`: the row of the message that a row quotes."""

    rows: dict[int, list[ConversationFile]] = field(default_factory=dict)
    dropped: dict[int, list[str]] = field(default_factory=dict)
    quoted: dict[int, int] = field(default_factory=dict)


def list_files(content: Mapping[str, Any]) -> list[ConversationFile]:
    """Return the files of a message, and of what it carries as context."""
    carried = [each.get("content") for each in _list(content.get("observed")) if isinstance(each, dict)]
    found = [*_list(content.get("attachments"))]
    found += [file for each in carried if isinstance(each, dict) for file in _list(each.get("attachments"))]
    return [made for each in found if (made := _read(each)) is not None]


def get_quoted_message(content: Mapping[str, Any]) -> int:
    """Return the id of the message with files that this one quotes, 0 if it quotes none."""
    quote = content.get("replyTo")
    found = quote.get("message") if isinstance(quote, dict) else None
    return found if isinstance(found, int) else 0


def _read(file: Any) -> ConversationFile | None:
    if not isinstance(file, dict) or not file.get("name") or not file.get("path"):
        return None
    size = file.get("size")
    return ConversationFile(str(file["name"]), str(file["path"]), size if isinstance(size, int) else 0)


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def keep(db: Db, session_id: str, rows: Sequence[tuple[int, Message]], share: int) -> None:
    """Record that these rows bring files, or quote a message that did. The oldest are dropped if all together take
    more than `share` bytes."""
    for row_id, message in rows:
        wanted = {row_id}
        if found := list_files(message.content):
            SESSION_FILES.insert(
                db,
                "ON CONFLICT (session_id, row_id) DO NOTHING",
                session_id=session_id,
                row_id=row_id,
                message_id=message.id,
                files=msgspec.json.encode(found).decode(),
                bytes=sum(each.size for each in found),
            )
        if quoted := get_quoted_message(message.content):
            again = (
                "UPDATE session_files SET dropped_for = NULL WHERE session_id = ? AND message_id = ? RETURNING row_id"
            )
            wanted |= {int(row[0]) for row in db.rows(again, (session_id, quoted))}
        _make_room(db, session_id, row_id, wanted, share)


def _make_room(db: Db, session_id: str, row_id: int, wanted: Set[int], share: int) -> None:
    kept = db.rows(
        "SELECT row_id, bytes FROM session_files WHERE session_id = ? AND dropped_for IS NULL ORDER BY row_id DESC",
        (session_id,),
    )
    left, dropped = share - sum(size for each, size in kept if each in wanted), False
    for place, (each, size) in enumerate(row for row in kept if row[0] not in wanted):
        left -= size
        if left < 0 or place >= MOST:
            drop = "UPDATE session_files SET dropped_for = ? WHERE session_id = ? AND row_id = ?"
            dropped = bool(db.run(drop, (row_id, session_id, each)))
    if dropped:  # what was dropped long ago is not told any more: each look would cost as much as all of it
        db.run(
            "DELETE FROM session_files WHERE session_id = ? AND dropped_for IS NOT NULL AND row_id <= (SELECT row_id"
            " FROM session_files WHERE session_id = ? ORDER BY row_id DESC LIMIT 1 OFFSET ?)",
            (session_id, session_id, 2 * MOST),
        )


def load(db: Db, session_id: str, rows: Iterable[tuple[int, Message]] = ()) -> ConversationFiles:
    """Read which files a session's folder holds. `rows`: those that its mailbox holds."""
    files, by_message = ConversationFiles(), dict[int, int]()
    for each in SESSION_FILES.list(db, "WHERE session_id = ? ORDER BY row_id", session_id):
        if each.dropped_for is None:
            files.rows[each.row_id] = each.listed
            by_message[each.message_id] = each.row_id
        else:
            files.dropped.setdefault(each.dropped_for, []).extend(file.name for file in each.listed)
    for row_id, message in rows:
        if (found := by_message.get(get_quoted_message(message.content))) is not None:
            files.quoted[row_id] = found
    return files


def inherit(db: Db, parent_id: str, child_id: str) -> None:
    """Give a session the files of the one that it was forked from or repeats, at the same paths."""
    db.run(
        "INSERT INTO session_files (session_id, row_id, message_id, files, bytes)"
        " SELECT ?, row_id, message_id, files, bytes FROM session_files WHERE session_id = ? AND dropped_for IS NULL",
        (child_id, parent_id),
    )
