"""Inbox: what became of each accepted message, one row per target.

    queued → working → answered · silent · observed · refused · cancelled · failed      waiting: held, retry

Every row that is not in an end state has `next_at`, the moment by which somebody must have looked at it again.
"""

from collections.abc import Collection, Sequence
from enum import StrEnum

from msgspec import Struct
from msgspec.structs import astuple

from gatepost.store.engine.table import Table
from gatepost.store.messages import message_steps, messages
from gatepost.store.messages.messages import MESSAGES, Message
from gatepost.store.port import Db, Row, inline_read
from gatepost.store.schedule import firings
from gatepost.store.sessions import sessions


class InboxMode(StrEnum):
    TRIGGER = "trigger"
    NEXT = "next"  # a turn of its own, after whatever runs
    COMPACT = "compact"  # the same, and its conversation is made shorter by it
    OBSERVE = "observe"
    TASK = "task"  # a firing: a turn of its own, once nothing else waits


class InboxState(StrEnum):
    """The last six are ends, in the order of the partial indexes."""

    QUEUED = "queued"
    WORKING = "working"
    HELD = "held"
    RETRY = "retry"
    ANSWERED = "answered"
    SILENT = "silent"
    OBSERVED = "observed"
    REFUSED = "refused"
    CANCELLED = "cancelled"
    FAILED = "failed"


END = tuple(InboxState)[4:]


def render_open(row: str = "") -> str:
    """Return the condition that a row is not in an end state. `row`: what it is called in the statement, with its dot.
    It is not one NOT IN: for each index with this predicate SQLite would fill a table with such a list, in every
    statement that writes."""
    return " AND ".join(f"{row}state <> '{state}'" for state in END)


# Every question about waiting rows says this, even where it names the states it wants: the partial indexes of open
# rows serve no other. Without it SQLite reads all that a session ever got.
OPEN, OPEN_I, OPEN_T = render_open(), render_open("i."), render_open("t.")
WATCHED = "watched "  # what the reason of a row says before the group that its own one watches


class InboxEntry(Struct, frozen=True):
    id: int
    message_id: int
    session_id: str | None
    folder: str
    seq: int
    mode: InboxMode
    rights: str
    turn_id: str | None
    given: int
    state: InboxState
    reason: str
    tries: int
    next_at: int | None
    owner: str
    lease_until: int
    epoch: int
    created_at: int
    updated_at: int
    continues: str  # the turns that worked on it before a restore, with a space between their ids


class WaitingLoad(Struct, frozen=True):
    """Work that waits in a session, or goes on there."""

    rows: int = 0
    chars: int = 0


class NewTaskRow(Struct, frozen=True):
    message_id: int
    session_id: str
    folder: str
    seq: int


INBOX = Table("inbox", InboxEntry)
_WIDTH = len(INBOX.names)
_PAIRS = (
    f"SELECT {INBOX.columns_of('i')}, {MESSAGES.columns_of('m')} FROM inbox i JOIN messages m ON m.id = i.message_id"
)


def _parse_pair(row: Row) -> tuple[InboxEntry, Message]:
    return INBOX.parse(row[:_WIDTH]), MESSAGES.parse(row[_WIDTH:])


def enqueue(
    db: Db,
    message_id: int,
    session_id: str,
    folder: str,
    rights: str,
    now: int,
    mode: InboxMode = InboxMode.TRIGGER,
    seq: int | None = None,
) -> int:
    """Add a message that wakes its session, due at once. `seq`: its number, if the caller has claimed it."""
    return _insert(db, message_id, session_id, folder, mode, rights, InboxState.QUEUED, "", now, now, seq)


def observe(
    db: Db,
    message_id: int,
    session_id: str,
    folder: str,
    rights: str,
    now: int,
    seq: int | None = None,
    watched: str = "",
) -> int:
    """Add a message that is context only: shown with the next turn, answered by nobody. `watched`: the group that it
    went to, if this one only watches that."""
    state, reason = InboxState.OBSERVED, f"{WATCHED}{watched}" if watched else ""
    return _insert(db, message_id, session_id, folder, InboxMode.OBSERVE, rights, state, reason, None, now, seq)


def remove_watched(db: Db, folder: str, source: str) -> int:
    """Remove what a group has from watching another and was not shown yet, with its files: it is neither shown nor
    found. Each of these messages keeps the row of the group that it went to."""
    given = (f"{WATCHED}{source}", folder)
    watched = (
        "FROM inbox WHERE mode = 'observe' AND given = 0 AND reason = ?"
        " AND session_id IN (SELECT id FROM sessions WHERE folder = ? AND closed_at IS NULL)"
    )
    db.run(f"DELETE FROM session_files WHERE row_id IN (SELECT id {watched})", given)
    return db.run(f"DELETE {watched}", given)


def refuse(
    db: Db, message_id: int, folder: str, rights: str, reason: str, now: int, state: InboxState = InboxState.REFUSED
) -> int:
    """Record a message that reached no session, with the reason."""
    return _insert(db, message_id, None, folder, InboxMode.TRIGGER, rights, state, reason, None, now)


def hold(db: Db, message_id: int, folder: str, rights: str, request_id: str, until: int, now: int) -> int:
    """Hold a message until somebody decides about its sender."""
    state = InboxState.HELD
    return _insert(db, message_id, None, folder, InboxMode.TRIGGER, rights, state, request_id, until, now)


# A condition on `inbox i`: it waits for a word about its sender, and not for money or for a word about a restore.
_ABOUT_SENDER = "EXISTS (SELECT 1 FROM requests r WHERE r.id = i.reason AND r.kind = 'sender')"


def list_held(db: Db, folder: str, sender: str) -> list[tuple[InboxEntry, Message]]:
    """Return what is held of somebody for a group until it is decided about them, in the order of its arrival."""
    rows = db.rows(
        f"{_PAIRS} WHERE {OPEN_I} AND i.state = 'held' AND i.folder = ? AND m.sender = ? AND {_ABOUT_SENDER}"
        " ORDER BY i.id",
        (folder, sender),
    )
    return [_parse_pair(row) for row in rows]


def count_held(db: Db, folder: str, sender: str) -> int:
    row = db.row(
        "SELECT COUNT(*) FROM inbox i JOIN messages m ON m.id = i.message_id"
        f" WHERE {OPEN_I} AND i.state = 'held' AND i.folder = ? AND m.sender = ? AND {_ABOUT_SENDER}",
        (folder, sender),
    )
    return int(row[0]) if row else 0


def list_held_for_request(db: Db, folder: str, request_id: str) -> list[tuple[InboxEntry, Message]]:
    """Return what is held until this request is decided, in the order of its arrival."""
    rows = db.rows(
        f"{_PAIRS} WHERE {OPEN_I} AND i.state = 'held' AND i.folder = ? AND i.reason = ? ORDER BY i.id",
        (folder, request_id),
    )
    return [_parse_pair(row) for row in rows]


def list_waiting_for(db: Db, request_id: str) -> list[tuple[InboxEntry, Message]]:
    """The same, for whatever groups."""
    rows = db.rows(f"{_PAIRS} WHERE {OPEN_I} AND i.state = 'held' AND i.reason = ? ORDER BY i.id", (request_id,))
    return [_parse_pair(row) for row in rows]


def release(db: Db, entry_id: int, session_id: str, folder: str, rights: str, now: int) -> None:
    """Give a held message to its session, as if it had just arrived."""
    rows = db.rows(
        "UPDATE inbox SET session_id = ?, folder = ?, seq = ?, rights = ?, state = 'queued', reason = '', next_at = ?,"
        " updated_at = ? WHERE id = ? AND state = 'held' RETURNING message_id",
        (session_id, folder, sessions.claim_seq(db, session_id, now), rights, now, now, entry_id),
    )
    for (message_id,) in rows:
        message_steps.add(db, message_id, entry_id, now, InboxState.QUEUED, "let in")


def _insert(
    db: Db,
    message_id: int,
    session_id: str | None,
    folder: str,
    mode: InboxMode,
    rights: str,
    state: InboxState,
    reason: str,
    next_at: int | None,
    now: int,
    seq: int | None = None,
) -> int:
    if seq is None:
        seq = sessions.claim_seq(db, session_id, now) if session_id else 0
    row = INBOX.insert(
        db,
        "RETURNING id",
        message_id=message_id,
        session_id=session_id,
        folder=folder,
        seq=seq,
        mode=mode,
        rights=rights,
        state=state,
        reason=reason,
        next_at=next_at,
        created_at=now,
        updated_at=now,
    )
    assert row is not None
    row_id = int(row[0])
    message_steps.add(db, message_id, row_id, now, state, reason or (f"{folder} #{seq}" if session_id else folder))
    return row_id


@inline_read
def get(db: Db, row_id: int) -> InboxEntry | None:
    return INBOX.get(db, "WHERE id = ?", row_id)


def list_for_message(db: Db, message_id: int) -> list[InboxEntry]:
    return INBOX.list(db, "WHERE message_id = ? ORDER BY id", message_id)


def list_open(db: Db, session_id: str) -> list[tuple[InboxEntry, Message]]:
    """Return everything of a session that is not in an end state, by seq."""
    rows = db.rows(f"{_PAIRS} WHERE i.session_id = ? AND {OPEN_I} ORDER BY i.seq", (session_id,))
    return [_parse_pair(row) for row in rows]


def has_open(db: Db, session_id: str) -> bool:
    """Return True if anything of a session is not in an end state."""
    return db.row(f"SELECT 1 FROM inbox WHERE session_id = ? AND {OPEN} LIMIT 1", (session_id,)) is not None


def count_by_turn(db: Db, turn_ids: list[str]) -> dict[str, int]:
    """Return how many rows each of these turns has."""
    rows = db.rows(
        f"SELECT turn_id, COUNT(*) FROM inbox WHERE turn_id IN ({messages.marks(turn_ids)}) GROUP BY turn_id", turn_ids
    )
    return {str(turn_id): int(count) for turn_id, count in rows}


def list_by_ids(db: Db, ids: list[int]) -> list[tuple[InboxEntry, Message]]:
    return [_parse_pair(row) for row in db.rows(f"{_PAIRS} WHERE i.id IN ({messages.marks(ids)})", ids)]


def check_room(db: Db, session_id: str, rights: str, more: int, rows: int, chars: int) -> str:
    """Return why a further message of so many characters does not fit into what waits in a session under these rights;
    '' if it does. Messages in work count: a turn that takes in its own words would have no end otherwise."""
    found = db.rows(
        "SELECT LENGTH(m.text) FROM inbox i JOIN messages m ON m.id = i.message_id"
        f" WHERE i.session_id = ? AND {OPEN_I} AND i.rights = ? ORDER BY i.seq LIMIT ?",
        (session_id, rights, rows),
    )
    if len(found) >= rows:
        return f"{rows} such messages wait there or are worked on, which is the most"
    if sum(row[0] for row in found) + more > chars:
        return f"such messages that wait there or are worked on may have {chars} characters together at most"
    return ""


def end_given(db: Db, turn_id: str, state: InboxState, reason: str, now: int) -> None:
    """End the messages of a turn that its provider had."""
    rows = db.rows(
        "UPDATE inbox SET state = ?, reason = ?, next_at = NULL, updated_at = ? WHERE turn_id = ? AND state = 'working'"
        " AND given = 1 RETURNING id, message_id, mode",
        (state, reason, now, turn_id),
    )
    for row_id, message_id, mode in sorted(rows):
        message_steps.add(db, message_id, row_id, now, state, reason)
        if mode == InboxMode.TASK:
            firings.record_end(db, message_id, state, reason, turn_id, now)


def list_for_turn(db: Db, turn_id: str) -> list[tuple[InboxEntry, Message]]:
    return [_parse_pair(row) for row in db.rows(f"{_PAIRS} WHERE i.turn_id = ? ORDER BY i.seq", (turn_id,))]


def find_last_of_people(db: Db, turn_id: str) -> tuple[int, int] | None:
    """Return (message, seq) of the last that somebody wrote among what a turn works on."""
    row = db.row(
        "SELECT m.id, i.seq FROM inbox i JOIN messages m ON m.id = i.message_id WHERE i.turn_id = ?"
        " AND m.kind = 'chat' AND m.platform_id <> '' ORDER BY i.seq DESC LIMIT 1",
        (turn_id,),
    )
    return (int(row[0]), int(row[1])) if row else None


@inline_read
def list_senders(db: Db, turn_id: str) -> list[str]:
    """Return everybody whose words a turn works on."""
    rows = db.rows(
        "SELECT DISTINCT m.sender FROM inbox i JOIN messages m ON m.id = i.message_id"
        " WHERE i.turn_id = ? AND m.kind = 'chat' ORDER BY m.sender",
        (turn_id,),
    )
    return [row[0] for row in rows]


def list_people(db: Db, session_id: str, most: int) -> list[str]:
    """Return some of those whose words a session was given, agents among them."""
    rows = db.rows(
        "SELECT DISTINCT m.sender FROM inbox i JOIN messages m ON m.id = i.message_id"
        " WHERE i.session_id = ? AND m.kind = 'chat' AND m.sender <> '' LIMIT ?",
        (session_id, most),
    )
    return [str(row[0]) for row in rows]


def count_waiting(db: Db, session_id: str) -> int:
    """Return the number of messages that no turn has taken yet."""
    row = db.row(
        f"SELECT COUNT(*) FROM inbox WHERE session_id = ? AND {OPEN} AND state IN ('queued', 'retry')", (session_id,)
    )
    return int(row[0]) if row else 0


def count_ahead(db: Db, entry: InboxEntry, most: int) -> int:
    """Return how many messages of the same conversation wait or are worked on before this one, at most so many."""
    row = db.row(
        f"SELECT COUNT(*) FROM (SELECT 1 FROM inbox WHERE session_id = ? AND {OPEN} AND seq < ? LIMIT ?) a",
        (entry.session_id, entry.seq, most),
    )
    return int(row[0]) if row else 0


def list_waiting_rooms(db: Db) -> list[tuple[str, str, str]]:
    """Return (instance, address, thread) of every row that is not in an end state."""
    rows = db.rows(
        "SELECT DISTINCT m.instance, m.address, m.thread FROM inbox i JOIN messages m ON m.id = i.message_id"
        f" WHERE {OPEN_I} ORDER BY 1, 2, 3"
    )
    return [(row[0], row[1], row[2]) for row in rows]


def set_state(
    db: Db, entry_id: int, state: InboxState, reason: str, next_at: int | None, now: int, tries: int | None = None
) -> None:
    """Change one row's state and note the step."""
    rows = db.rows(
        "UPDATE inbox SET state = ?, reason = ?, next_at = ?, tries = COALESCE(?, tries), updated_at = ?"
        f" WHERE id = ? AND {OPEN} RETURNING message_id, mode, turn_id",
        (state, reason, next_at, tries, now, entry_id),
    )
    if rows:
        message_id, mode, turn_id = rows[0]
        message_steps.add(db, int(message_id), entry_id, now, state, reason)
        if mode == InboxMode.TASK and state in END:
            firings.record_end(db, message_id, state, reason, turn_id, now)


def retry_failed(db: Db, entry_id: int, rights: str, now: int) -> bool:
    """Have a message that failed wait for a turn again, under the rights that its sender has now. Return False if it
    did not fail, or somebody else has done this already."""
    rows = db.rows(
        "UPDATE inbox SET state = 'queued', reason = '', turn_id = NULL, given = 0, tries = 0, rights = ?, next_at = ?,"
        " updated_at = ? WHERE id = ? AND state = 'failed' RETURNING message_id",
        (rights, now, now, entry_id),
    )
    for (message_id,) in rows:
        message_steps.add(db, message_id, entry_id, now, InboxState.QUEUED, "given again")
    return bool(rows)


def hold_failed(db: Db, entry_id: int, request_id: str, until: int, now: int) -> bool:
    """Have a message that failed wait for what somebody decides. Return False if it did not fail."""
    rows = db.rows(
        "UPDATE inbox SET state = 'held', reason = ?, session_id = NULL, turn_id = NULL, seq = 0, given = 0, tries = 0,"
        " next_at = ?, updated_at = ? WHERE id = ? AND state = 'failed' RETURNING message_id",
        (request_id, until, now, entry_id),
    )
    for (message_id,) in rows:
        message_steps.add(db, message_id, entry_id, now, InboxState.HELD, request_id)
    return bool(rows)


def cancel_waiting(
    db: Db,
    session_id: str,
    reason: str,
    now: int,
    senders: Collection[str] | None = None,
    keep: Collection[str] = (),
    thread: str | None = None,
) -> int:
    """Withdraw what no turn has taken yet. `senders`: only what these wrote. `keep`: the gateway's own words whose keys
    begin so stay. `thread`: only what belongs to this one."""
    whose = f" AND m.kind = 'chat' AND m.sender IN ({messages.marks(senders)})" if senders is not None else ""
    where = " AND m.thread = ?" if thread is not None else ""
    rows = db.rows(
        "SELECT i.id, m.sender, m.platform_id FROM inbox i JOIN messages m ON m.id = i.message_id"
        f" WHERE i.session_id = ? AND {OPEN_I} AND i.state IN ('queued', 'retry', 'held'){whose}{where}"
        " ORDER BY i.seq",
        (session_id, *(senders or ()), *((thread,) if thread is not None else ())),
    )
    ended = [row[0] for row in rows if row[1] != messages.SYSTEM or row[2].partition(":")[0] not in keep]
    for row_id in ended:
        set_state(db, row_id, InboxState.CANCELLED, reason, None, now)
    return len(ended)


def list_contents_only_for(db: Db, folder: str) -> list[str]:
    """Return the contents of messages that this group alone was sent."""
    rows = db.rows(
        "SELECT messages.content FROM messages JOIN inbox ON inbox.message_id = messages.id WHERE inbox.folder = ?"
        " AND NOT EXISTS (SELECT 1 FROM inbox AS other WHERE other.message_id = messages.id AND other.folder <> ?)",
        (folder, folder),
    )
    return [str(row[0]) for row in rows]


def count_waiting_tasks(db: Db, session_ids: Sequence[str]) -> dict[str, WaitingLoad]:
    """By session: its firings that have not ended, which are as many as a session may have at most."""
    rows = db.rows(
        "SELECT i.session_id, COUNT(*), SUM(LENGTH(m.text)) FROM inbox i JOIN messages m ON m.id = i.message_id"
        f" WHERE i.session_id IN ({', '.join('?' * len(session_ids))}) AND {OPEN_I} AND i.mode = 'task'"
        " GROUP BY i.session_id",
        session_ids,
    )
    return {str(row[0]): WaitingLoad(int(row[1]), int(row[2])) for row in rows}


def enqueue_tasks(db: Db, new: Sequence[NewTaskRow], now: int) -> None:
    """Messages that wake their sessions once nothing else waits there. Due at once."""
    INBOX.add_rows(
        db,
        "",
        NewTaskRow.__struct_fields__,
        [*map(astuple, new)],
        mode=InboxMode.TASK,
        rights=firings.RIGHTS,
        state=InboxState.QUEUED,
        next_at=now,
        created_at=now,
        updated_at=now,
    )
    message_steps.add_queued(db, [each.message_id for each in new], now)
