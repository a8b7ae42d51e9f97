"""Looking back at rooms: what was said in one, by when it was said; what a platform remembers; what failed; who spoke.

A row that was fetched from a platform is in an end state from its first moment: it is never new input for anybody.
"""

from msgspec import Struct

from gatepost.messages.inbound import CLICK, Direction
from gatepost.messages.outbound import Op
from gatepost.store import search
from gatepost.store.engine.full_text import make_mark
from gatepost.store.messages import inbox, message_steps, messages
from gatepost.store.messages.inbox import InboxState
from gatepost.store.messages.messages import MESSAGES, Message, NewMessage
from gatepost.store.messages.outbox import OUTBOX, EffectOrigin, EffectState
from gatepost.store.port import Db, Row
from gatepost.store.search import READABLE, SEEN, Subtree

HISTORY = "history"  # the reason of rows that were fetched


class Cursor(Struct, frozen=True):
    """Strictly before this: a moment, and among what was said in it an id."""

    at: int = 2**62
    id: int = 0


class RoomFailures(Struct, frozen=True):
    """Failures in one room, of one part of the tree."""

    instance: str
    address: str
    folder: str
    count: int
    newest: int
    reason: str  # of the newest


class RoomHistoryEntry(Struct, frozen=True):
    """A message of a room: its number in the conversation of who looks, if it has one there, and what became of it."""

    seq: int | None
    state: str
    message: Message  # without its content
    length: int  # characters of its text, of which the message may have only the first


def list_in_room(
    db: Db,
    instance: str,
    address: str,
    thread: str | None,
    before: Cursor,
    limit: int,
    part: Subtree,
    session_id: str,
    chars: int = 2**31,
) -> tuple[list[RoomHistoryEntry], bool]:
    """The newest before the cursor, newest first, with at most so many characters of text together, and whether there
    are older ones. Pressed buttons are no messages. `thread`: only the messages of it, or of the topic of that name.
    The first is there in any case, with so much of its text."""
    only, params = ("AND ? IN (m.thread, m.topic)", [thread]) if thread else ("", [])
    if thread == "":
        only = "AND m.thread = '' AND m.topic = ''"
    sql = (
        "SELECT m.id, LENGTH(m.text), m.at FROM messages m WHERE m.instance = ? AND m.address = ?"
        f" AND (m.at, m.id) < (?, ?) AND m.event <> '{CLICK}' {only} AND ({SEEN}) ORDER BY m.at DESC, m.id DESC LIMIT ?"
    )

    def page(last: Row | None, most: int) -> list[Row]:
        at, number = (last[2], last[0]) if last else (before.at, before.id)
        return db.rows(sql, (instance, address, at, number, *params, *part.sees, most))

    found = messages.measured(page, limit + 1, chars)
    lengths = messages.within([(row[0], row[1]) for row in found[:limit]], chars)
    rows = db.rows(
        "SELECT COALESCE((SELECT seq FROM inbox WHERE message_id = m.id AND session_id = ?),"
        " (SELECT seq FROM outbox WHERE message_id = m.id AND session_id = ? AND seq > 0)),"
        " COALESCE((SELECT state FROM inbox WHERE message_id = m.id AND COALESCE(session_id, ?) = ? LIMIT 1),"
        " (SELECT state FROM outbox WHERE message_id = m.id ORDER BY id DESC LIMIT 1), ''),"
        f" {messages.SHOWN} FROM messages m WHERE m.id IN ({messages.marks(lengths)})"
        " ORDER BY m.at DESC, m.id DESC",
        (*[session_id] * 4, chars, *lengths),
    )
    seen = [RoomHistoryEntry(row[0], row[1], MESSAGES.parse(row[2:]), lengths[row[2]]) for row in rows]
    return seen, len(found) > len(seen)


def add_fetched(db: Db, new: NewMessage, folder: str, now: int) -> bool:
    """Store a message from a platform's history, in a state that wakes nobody; return False if it is known. Our own
    messages are not stored again."""
    if (
        new.platform_id
        and messages.find(db, new.instance, new.address, Direction.OUT, new.platform_id, new.event) is not None
    ):
        return False
    message_id = messages.accept(db, new, now)
    if message_id is None:
        return _add_for_group(db, new, folder, now)
    if new.direction == Direction.IN:
        inbox.refuse(db, message_id, folder, "guest", HISTORY, now, state=InboxState.OBSERVED)
        return True
    OUTBOX.insert(
        db,
        key=f"{HISTORY}:{message_id}",
        message_id=message_id,
        origin=EffectOrigin.HISTORY,
        op=Op.SEND,
        instance=new.instance,
        address=new.address,
        thread=new.thread,
        payload="{}",
        state=EffectState.SENT,
        reason=HISTORY,
        created_at=now,
        updated_at=now,
    )
    message_steps.add(db, message_id, None, now, "sent", HISTORY)
    return True


def _add_for_group(db: Db, new: NewMessage, folder: str, now: int) -> bool:
    """Give this group a message that was fetched for another part of the tree, now that it looked as well."""
    known = _find_fetched(db, new)
    if known is None or any(entry.folder == folder for entry in inbox.list_for_message(db, known)):
        return False
    inbox.refuse(db, known, folder, "guest", HISTORY, now, state=InboxState.OBSERVED)
    return True


def replace_fetched(db: Db, new: NewMessage) -> int | None:
    """A message that was only ever fetched is told now: it stays one fact, in the words of who tells it, and nobody has
    been given it yet. None if it is no such one."""
    known = _find_fetched(db, new)
    if known is None:
        return None
    db.run("DELETE FROM inbox WHERE message_id = ?", (known,))
    changed = ("thread", "kind", "verb", "sender", "sender_name", "text", "content", "reply_to", "at")
    values = [getattr(new, name) for name in changed]
    db.run(f"UPDATE messages SET {' = ?, '.join(changed)} = ? WHERE id = ?", (*values, known))
    search.renew(db, known)
    return known


def _find_fetched(db: Db, new: NewMessage) -> int | None:
    if new.direction != Direction.IN or not new.platform_id:
        return None
    known = messages.find(db, new.instance, new.address, Direction.IN, new.platform_id, new.event)
    entries = inbox.list_for_message(db, known.id) if known else []
    fetched = bool(entries) and all(each.session_id is None and each.reason == HISTORY for each in entries)
    return known.id if known and fetched else None


def list_failed(db: Db, part: Subtree, limit: int) -> list[RoomFailures]:
    """Rooms with rows that came to nothing, the newest first."""
    rows = db.rows(
        "SELECT instance, address, folder, total, updated_at, reason FROM ("
        "SELECT m.instance, m.address, i.folder, i.updated_at, i.reason,"
        " COUNT(*) OVER (PARTITION BY m.instance, m.address, i.folder) AS total, ROW_NUMBER() OVER"
        " (PARTITION BY m.instance, m.address, i.folder ORDER BY i.updated_at DESC, i.id DESC) AS place"
        " FROM inbox i JOIN messages m ON m.id = i.message_id WHERE i.state = 'failed'"
        " AND (i.folder = ? OR (i.folder >= ? AND i.folder < ?))) rows_of_rooms"
        " WHERE place = 1 ORDER BY updated_at DESC LIMIT ?",
        (*part.range, limit),
    )
    return [RoomFailures(*row) for row in rows]


def has_written(db: Db, part: Subtree, sender: str) -> bool:
    """Return True if somebody wrote in a room of that part of the tree."""
    match = db.full_text.match("", [[make_mark("s", sender)]])
    row = db.row(
        f"WITH readable (instance, address) AS MATERIALIZED ({READABLE})"
        f" SELECT 1 FROM {db.full_text.source} WHERE {match.sql} AND m.sender = ?"
        f" AND (m.instance, m.address) IN (SELECT instance, address FROM readable) AND ({SEEN}) LIMIT 1",
        (*part.range, *part.range, *match.params, sender, *part.sees),
    )
    return row is not None
