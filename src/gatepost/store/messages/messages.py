"""Messages: the fact of everything that came in or went out. Edits and deletions are rows of their own; the text of
the row that they are about is what people see now."""

import json
from collections.abc import Callable, Collection, Sequence
from enum import StrEnum
from typing import Annotated, Any, Protocol

from msgspec import Struct
from msgspec.structs import astuple

from gatepost.core.record_fields import ShownAs, shown
from gatepost.messages.inbound import Direction, MessageKind
from gatepost.store import search
from gatepost.store.engine.full_text import IndexedText
from gatepost.store.engine.table import Table
from gatepost.store.port import Db, LockKind, Row, inline_read

NEWEST = 1000  # messages of a room among which the beginning of a thread is looked for
PAGE = 20  # rows whose lengths one statement reads
SYSTEM = "gatepost:system"  # who speaks, when it is the gateway itself
APPROVAL, QUESTION = "approval", "question"  # how the keys begin by which it tells what people decided and answered


class Revision(StrEnum):
    """The change of a message after it was written."""

    NONE = ""
    EDITED = "edited"
    DELETED = "deleted"
    SHOWN = "shown"  # an edit or a deletion itself, which its message shows


class Message(Struct, frozen=True):
    id: int
    instance: Annotated[str, shown("Channel")]
    address: Annotated[str, shown("Room")]
    thread: Annotated[str, shown("Topic")]
    direction: Annotated[Direction, shown("Way")]
    platform_id: Annotated[str | None, shown("The platform's id")]
    event: str
    kind: MessageKind
    verb: Annotated[str, shown("Verb")]
    sender: Annotated[str, shown("Who")]
    sender_name: Annotated[str, shown("Name")]
    text: Annotated[str, shown("Text", ShownAs.LONG)]
    content: dict[str, Any]
    reply_to: Annotated[str, shown("Answer to")]
    folder: Annotated[str, shown("Group")]
    at: Annotated[int, shown("Said", ShownAs.MOMENT)]
    accepted_at: Annotated[int, shown("Accepted", ShownAs.MOMENT)]
    topic: str = ""
    revision: Annotated[Revision, shown("Changed")] = Revision.NONE
    forward_from: Annotated[str | None, shown("Forwarded from")] = None  # None: the sender's own words


MESSAGES = Table("messages", Message)
_FILES = '%"attachments"%'

# The columns of a row `m` for who shows it: without the content, and of the text only so many characters (a parameter).
SHOWN = ", ".join(
    {"text": "SUBSTR(m.text, 1, CAST(? AS INTEGER))", "content": "'{}'"}.get(name, f"m.{name}")
    for name in MESSAGES.names
)


class NewMessage(Struct, frozen=True, kw_only=True):
    instance: str
    address: str
    direction: Direction
    sender: str
    text: str
    at: int
    kind: MessageKind = MessageKind.CHAT
    platform_id: str | None = None
    event: str = "message"
    verb: str = "message"
    thread: str = ""
    sender_name: str = ""
    content: str = "{}"
    reply_to: str = ""
    folder: str = ""
    topic: str = ""
    forward_from: str | None = None


class NewPrompt(Struct, frozen=True, kw_only=True):
    """A message that a task puts in: the fields of `NewMessage` in which two of them may differ."""

    instance: str
    address: str
    thread: str
    platform_id: str
    sender: str
    text: str
    content: str
    folder: str
    at: int


class HasRoom(Protocol):
    """A session, or a turn of one: both know their room."""

    @property
    def instance(self) -> str: ...

    @property
    def address(self) -> str: ...

    @property
    def thread(self) -> str: ...


def add_system(db: Db, where: HasRoom, key: str, content: dict[str, Any], now: int, text: str = "") -> int | None:
    """Add the gateway's own word to an agent, which people do not see. Return None if it was said before, by its
    key."""
    return accept(
        db,
        NewMessage(
            instance=where.instance,
            address=where.address,
            thread=where.thread,
            direction=Direction.IN,
            platform_id=key,
            event="system",
            kind=MessageKind.SYSTEM,
            sender=SYSTEM,
            text=text,
            content=json.dumps(content),
            at=now,
        ),
        now,
    )


def accept(db: Db, new: NewMessage, now: int) -> int | None:
    """Insert the fact; None if the platform told us before."""
    once = "ON CONFLICT (instance, address, direction, platform_id, event) DO NOTHING RETURNING id"
    db.lock(LockKind.ROOM, new.instance, new.address)
    row = MESSAGES.insert(db, once, new, accepted_at=now)
    if row is None:
        return None
    message_id = int(row[0])
    if not db.full_text.sees_new:
        search.add(db, [_make_indexed(message_id, new)])
    if message_id % search.EVERY == 0:
        search.index(db)
    return message_id


def accept_prompts(db: Db, new: Sequence[NewPrompt], now: int) -> dict[str, int]:
    """Insert several prompts, each with a `platform_id` that no other has. Return the ids of those that are new, by
    that."""
    for room in sorted({(each.instance, each.address) for each in new}):
        db.lock(LockKind.ROOM, *room)
    rows = MESSAGES.insert_rows(
        db,
        "ON CONFLICT (instance, address, direction, platform_id, event) DO NOTHING RETURNING platform_id, id",
        NewPrompt.__struct_fields__,
        [*map(astuple, new)],
        direction=Direction.IN,
        event="task",
        kind=MessageKind.TASK,
        accepted_at=now,
    )
    found: dict[str, int] = dict(rows)
    search.add(db, [_make_indexed(found[each.platform_id], each) for each in new if each.platform_id in found])
    if 0 in {row[1] % search.EVERY for row in rows}:
        search.index(db)
    return found


def _make_indexed(message_id: int, new: NewMessage | NewPrompt) -> IndexedText:
    return IndexedText(message_id, new.instance, new.address, new.sender, new.text)


@inline_read
def get(db: Db, message_id: int) -> Message | None:
    return MESSAGES.get(db, "WHERE id = ?", message_id)


@inline_read
def find(
    db: Db, instance: str, address: str, direction: Direction, platform_id: str, event: str = "message"
) -> Message | None:
    identity = "WHERE instance = ? AND address = ? AND direction = ? AND platform_id = ? AND event = ?"
    return MESSAGES.get(db, identity, instance, address, direction, platform_id, event)


def find_last_edit(db: Db, message: Message) -> Message | None:
    """Return the newest words of a message that was edited, on its platform by its author or by a tool of ours. An edit
    that the platform did not take changed nothing."""
    taken = "state NOT IN ('failed', 'superseded', 'cancelled')"
    ours = f"WHERE id = (SELECT MAX(message_id) FROM outbox WHERE target_id = ? AND op = 'edit' AND {taken})"
    if message.direction is Direction.OUT:
        return MESSAGES.get(db, ours, message.id)
    edits = "platform_id = ? AND event >= 'edit:' AND event < 'edit;' ORDER BY id DESC LIMIT 1"
    place = (message.instance, message.address, message.direction, message.platform_id)
    return MESSAGES.get(db, f"WHERE instance = ? AND address = ? AND direction = ? AND {edits}", *place)


def revise(db: Db, message_id: int, by: int, text: str | None) -> None:
    """Have a message say what people see of it now, by the edit or the deletion (`text` is None) that is the message
    `by`. Later edits of what was deleted change nothing."""
    revision = Revision.DELETED if text is None else Revision.EDITED
    changed = db.run(
        "UPDATE messages SET text = ?, revision = ? WHERE id = ? AND revision <> 'deleted'",
        (text or "", revision, message_id),
    )
    db.run("UPDATE messages SET revision = 'shown' WHERE id = ?", (by,))
    if changed:
        search.renew(db, message_id)


def is_thread_begun(db: Db, instance: str, address: str, thread: str) -> bool:
    """Return True if somebody who may speak said something in a thread, among the newest of its room."""
    row = db.row(
        "SELECT 1 FROM (SELECT id, thread, direction FROM messages WHERE instance = ? AND address = ?"
        " ORDER BY id DESC LIMIT ?) newest WHERE thread = ? AND direction = 'in' AND EXISTS (SELECT 1 FROM inbox i"
        " WHERE i.message_id = newest.id AND i.state NOT IN ('refused', 'held')) LIMIT 1",
        (instance, address, NEWEST, thread),
    )
    return row is not None


@inline_read
def find_by_seq(db: Db, session_id: str, seq: int) -> Message | None:
    """Return the message that an agent names by its number, whichever way it went."""
    columns = MESSAGES.columns_of("m")
    row = db.row(
        f"SELECT {columns} FROM inbox i JOIN messages m ON m.id = i.message_id WHERE i.session_id = ? AND i.seq = ?"
        f" UNION ALL SELECT {columns} FROM outbox o JOIN messages m ON m.id = o.message_id"
        " WHERE o.session_id = ? AND o.seq = ?",
        (session_id, seq, session_id, seq),
    )
    return MESSAGES.parse(row) if row else None


def list_for_session(
    db: Db, session_id: str, before: int, limit: int, chars: int = 2**31
) -> tuple[list[tuple[int, Message, int]], bool]:
    """(seq, message, length of its text) of a conversation in both directions, the newest before a number, newest
    first, and whether there are older ones. The texts are bounded as in `past.in_room`."""
    sql = (
        "SELECT i.message_id, LENGTH(m.text), i.seq FROM inbox i JOIN messages m ON m.id = i.message_id"
        " WHERE i.session_id = ? AND i.seq < ?"
        " UNION ALL SELECT o.message_id, LENGTH(m.text), o.seq FROM outbox o JOIN messages m ON m.id = o.message_id"
        " WHERE o.session_id = ? AND o.seq > 0 AND o.seq < ? AND o.op IN ('send', 'file') AND o.origin <> 'status'"
        " ORDER BY 3 DESC LIMIT ?"
    )

    def page(last: Row | None, most: int) -> list[Row]:
        seq = last[2] if last else before
        return db.rows(sql, (session_id, seq, session_id, seq, most))

    found = measured(page, limit + 1, chars)
    lengths = within([(row[0], row[1]) for row in found[:limit]], chars)
    rows = db.rows(f"SELECT {SHOWN} FROM messages m WHERE m.id IN ({marks(lengths)})", (chars, *lengths))
    by_id = {row[0]: MESSAGES.parse(row) for row in rows}
    shown = [(row[2], by_id[row[0]], row[1]) for row in found[:limit] if row[0] in by_id]
    return shown, len(found) > len(shown)


def count_for_session(db: Db, session_id: str) -> tuple[int, int]:
    """Return how many messages a session got, and how many it sent."""
    received = db.row("SELECT COUNT(*) FROM inbox WHERE session_id = ?", (session_id,))
    sent = db.row(
        "SELECT COUNT(*) FROM outbox WHERE session_id = ? AND seq > 0 AND op IN ('send', 'file')"
        " AND origin <> 'status'",
        (session_id,),
    )
    assert received is not None and sent is not None
    return int(received[0]), int(sent[0])


def measured(page: Callable[[Row | None, int], list[Row]], most: int, chars: int) -> list[Row]:
    """Return rows (id, length, …), at most so many, read page by page (after a row, so many). It ends once they have
    more characters than are wanted: to know how long a text is, SQLite reads all of it."""
    found: list[Row] = []
    while len(found) < most and chars >= 0:
        asked = min(PAGE, most - len(found))
        some = page(found[-1] if found else None, asked)
        found += some
        chars -= sum(row[1] for row in some)
        if len(some) < asked:
            break
    return found


def within(lengths: Sequence[tuple[int, int]], chars: int) -> dict[int, int]:
    """Return the first of these (id, length) that have at most so many characters together, and the first one in any
    case."""
    taken: dict[int, int] = {}
    for number, length in lengths:
        chars -= length
        if taken and chars < 0:
            break
        taken[number] = length
    return taken


def marks(values: Collection[object]) -> str:
    return ", ".join("?" * len(values)) or "NULL"


def set_content(db: Db, message_id: int, content: dict[str, Any]) -> None:
    """Set the content that the agent gets. The text stays as it was written."""
    db.execute_later(
        "UPDATE messages SET content = ? WHERE id = ?", (json.dumps(content, ensure_ascii=False), message_id)
    )


def set_topic(db: Db, message_id: int, topic: str) -> None:
    """Note the topic of the conversation that a message went to, which its platform knows nothing of."""
    db.execute_later("UPDATE messages SET topic = ? WHERE id = ? AND thread <> ?", (topic, message_id, topic))


def set_platform_id(db: Db, message_id: int, platform_id: str) -> None:
    """Set the id once, when it was sent. A platform that gives one id twice is not believed the second time."""
    db.execute_later(
        "UPDATE messages SET platform_id = ? WHERE id = ? AND platform_id IS NULL AND NOT EXISTS ("
        " SELECT 1 FROM messages twin WHERE twin.instance = messages.instance AND twin.address = messages.address"
        " AND twin.direction = messages.direction AND twin.platform_id = ? AND twin.event = messages.event)",
        (platform_id, message_id, platform_id),
    )


def clear_platform_id(db: Db, message_id: int) -> None:
    """Forget the platform's id of something said: the platform no longer has it under this message."""
    db.run("UPDATE messages SET platform_id = NULL WHERE id = ? AND direction = ?", (message_id, Direction.OUT))


def list_in_room(db: Db, instance: str, address: str, after: int, limit: int) -> list[Message]:
    """Return what happened in a room after a cursor, oldest first."""
    page = "WHERE instance = ? AND address = ? AND id > ? ORDER BY id LIMIT ?"
    return MESSAGES.list(db, page, instance, address, after, limit)


def list_beginnings(db: Db, message_ids: Sequence[int], chars: int) -> dict[int, str]:
    """Return how the texts of these messages begin, by their ids."""
    which = ", ".join("?" * len(message_ids)) or "NULL"
    rows = db.rows(
        f"SELECT id, SUBSTR(text, 1, CAST(? AS INTEGER)) FROM messages WHERE id IN ({which})", (chars, *message_ids)
    )
    return {int(row[0]): str(row[1]) for row in rows}


def has_outgoing_after(db: Db, instance: str, address: str, message_id: int) -> bool:
    """Return True if anything was said by us in a room after a message."""
    later = "SELECT 1 FROM messages WHERE instance = ? AND address = ? AND id > ? AND direction = 'out' LIMIT 1"
    return db.row(later, (instance, address, message_id)) is not None


def ids_in_room(db: Db, instance: str, address: str, after: int, limit: int) -> list[int]:
    """Return their ids without reading any of the texts."""
    rows = db.rows(
        "SELECT id FROM messages WHERE instance = ? AND address = ? AND id > ? ORDER BY id LIMIT ?",
        (instance, address, after, limit),
    )
    return [int(row[0]) for row in rows]


def list_latest_in_room(db: Db, instance: str, address: str, before: int | None, limit: int) -> list[Message]:
    """Return the newest messages of a room, oldest first."""
    page = "WHERE instance = ? AND address = ? AND id < ? ORDER BY id DESC LIMIT ?"
    return MESSAGES.list(db, page, instance, address, before if before is not None else 2**62, limit)[::-1]


def list_with_files(db: Db, session_id: str, most: int) -> list[Message]:
    """Return those with files among the newest messages that a session was given, the newest first."""
    given = "SELECT message_id FROM inbox WHERE session_id = ? ORDER BY seq DESC LIMIT ?"
    return MESSAGES.list(db, f"WHERE id IN ({given}) AND content LIKE ? ORDER BY id DESC", session_id, most, _FILES)


def remove_files(db: Db, message: Message) -> tuple[str, ...]:
    """Take its files from a message. Return where they lie, below the media folder."""
    files = message.content.get("attachments")
    if not isinstance(files, list) or not files:
        return ()
    left = {name: value for name, value in message.content.items() if name != "attachments"}
    db.execute_later("UPDATE messages SET content = ? WHERE id = ?", (json.dumps(left, ensure_ascii=False), message.id))
    return tuple(str(each["path"]) for each in files if isinstance(each, dict) and each.get("path"))


def list_contents(db: Db, after: int, limit: int) -> list[tuple[int, str]]:
    """Return (id, content as it is stored) of what came in, a page by id."""
    rows = db.rows(
        "SELECT id, content FROM messages WHERE direction = 'in' AND id > ? ORDER BY id LIMIT ?", (after, limit)
    )
    return [(row[0], row[1]) for row in rows]
