"""Inbox: what became of each accepted message, one row per target.

    queued → working → answered · silent · observed · refused · cancelled · failed      waiting: held, retry

Every row that is not in an end state has `next_at`, the moment by which somebody must have looked at it again.
"""

from collections.abc import Collection, Iterator
from enum import StrEnum

from msgspec import Struct

from gatepost.store import firings, message_steps, messages, sessions
from gatepost.store.messages import MESSAGES, Message
from gatepost.store.port import Db, Row, quick
from gatepost.store.table import Table


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
_END_SQL = "(" + ", ".join(f"'{state}'" for state in END) + ")"
# Every question about waiting rows says this, even where it names the states it wants: the partial indexes of open
# rows serve no other. Without it SQLite reads all that a session ever got.
OPEN = f"state NOT IN {_END_SQL}"
WATCHED = "watched "  # what the reason of a row says before the group that its own one watches
PAGE = 50  # rows that one statement reads


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
    """A message that wakes its session. Due at once. `seq`: its number, if the caller has claimed it."""
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
    """A message that is context only: shown with the next turn, answered by nobody. `watched`: the group that it went
    to, if this one only watches that."""
    state, reason = InboxState.OBSERVED, f"{WATCHED}{watched}" if watched else ""
    return _insert(db, message_id, session_id, folder, InboxMode.OBSERVE, rights, state, reason, None, now, seq)


def remove_watched(db: Db, folder: str, source: str) -> int:
    """What a group has from watching another, and was not shown yet: it is not shown, and not found by searching. Each
    of these messages keeps the row of the group that it went to."""
    return db.run(
        "DELETE FROM inbox WHERE mode = 'observe' AND given = 0 AND reason = ?"
        " AND session_id IN (SELECT id FROM sessions WHERE folder = ? AND closed_at IS NULL)",
        (f"{WATCHED}{source}", folder),
    )


def refuse(
    db: Db, message_id: int, folder: str, rights: str, reason: str, now: int, state: InboxState = InboxState.REFUSED
) -> int:
    """A message that reached no session, with the reason."""
    return _insert(db, message_id, None, folder, InboxMode.TRIGGER, rights, state, reason, None, now)


def hold(db: Db, message_id: int, folder: str, rights: str, request_id: str, until: int, now: int) -> int:
    """A message that waits for somebody to decide about its sender."""
    state = InboxState.HELD
    return _insert(db, message_id, None, folder, InboxMode.TRIGGER, rights, state, request_id, until, now)


def list_held(db: Db, folder: str, sender: str) -> list[tuple[InboxEntry, Message]]:
    """What is held of somebody for a group, in the order of its arrival."""
    rows = db.rows(
        f"{_PAIRS} WHERE i.{OPEN} AND i.state = 'held' AND i.folder = ? AND m.sender = ? ORDER BY i.id",
        (folder, sender),
    )
    return [_parse_pair(row) for row in rows]


def count_held(db: Db, folder: str, sender: str) -> int:
    row = db.row(
        "SELECT COUNT(*) FROM inbox i JOIN messages m ON m.id = i.message_id"
        f" WHERE i.{OPEN} AND i.state = 'held' AND i.folder = ? AND m.sender = ?",
        (folder, sender),
    )
    return int(row[0]) if row else 0


def list_held_for_request(db: Db, folder: str, request_id: str) -> list[tuple[InboxEntry, Message]]:
    """What is held until this request is decided, in the order of its arrival."""
    rows = db.rows(
        f"{_PAIRS} WHERE i.{OPEN} AND i.state = 'held' AND i.folder = ? AND i.reason = ? ORDER BY i.id",
        (folder, request_id),
    )
    return [_parse_pair(row) for row in rows]


def release(db: Db, entry_id: int, session_id: str, folder: str, rights: str, now: int) -> None:
    """A held message goes to its session, as if it had just arrived."""
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


@quick
def get(db: Db, row_id: int) -> InboxEntry | None:
    return INBOX.get(db, "WHERE id = ?", row_id)


def list_for_message(db: Db, message_id: int) -> list[InboxEntry]:
    return INBOX.list(db, "WHERE message_id = ? ORDER BY id", message_id)


class ProjectionLimits(Struct, frozen=True):
    """How much of a session its mailbox holds. `observed`, `chars`: messages of context and their characters together,
    where the session says nothing of it. `most_…`: the same at most, whatever a session says. `rows`, `size`: messages
    that wait, and their characters together."""

    observed: int
    chars: int
    rows: int
    size: int
    most_observed: int = 2**31
    most_chars: int = 2**31


class ToProject(Struct, frozen=True):
    pairs: list[tuple[InboxEntry, Message]]  # by seq
    rules_version: str  # the state that rules are in, among them the names that the group may send to


_CONTEXT = (
    "SELECT 'context' AS part, i.id AS id, i.seq AS seq, LENGTH(m.text) AS length, '' AS name"
    " FROM inbox i JOIN messages m ON m.id = i.message_id"
    " WHERE i.session_id = ? AND i.mode = 'observe' AND i.given = 0 AND i.seq < ? ORDER BY i.seq DESC LIMIT ?"
)
_TO_PROJECT = (
    f"SELECT * FROM ({_CONTEXT}) AS context UNION ALL SELECT * FROM (SELECT 'next', i.id, i.seq, LENGTH(m.content), ''"
    f" FROM inbox i JOIN messages m ON m.id = i.message_id WHERE i.session_id = ? AND i.{OPEN} AND i.state <> 'working'"
    " AND i.mode <> 'task' ORDER BY i.seq LIMIT ?) AS waiting"
    " UNION ALL SELECT * FROM (SELECT 'next', i.id, i.seq, LENGTH(m.content), ''"
    f" FROM inbox i JOIN messages m ON m.id = i.message_id WHERE i.session_id = ? AND i.{OPEN} AND i.state <> 'working'"
    " AND i.mode = 'task' ORDER BY i.seq LIMIT 1) AS task"
    f" UNION ALL SELECT 'working', id, seq, 0, '' FROM inbox WHERE session_id = ? AND {OPEN} AND state = 'working'"
    " UNION ALL SELECT 'window', 0, window_messages, window_chars, '' FROM sessions WHERE id = ?"
    " UNION ALL SELECT 'rules', 0, 0, 0, name FROM rule_state"
)


@quick
def list_to_project(db: Db, session_id: str, limits: ProjectionLimits) -> ToProject:
    """What a session's mailbox must hold: every row that is worked on; of those that wait the next that a turn can
    claim and that fit, the first in any case; of the context that no turn has shown yet, the newest that fits."""
    first = min(limits.observed, PAGE)
    parts: dict[str, list[Row]] = {"context": [], "next": [], "working": [], "window": [], "rules": []}
    given = (session_id, 2**62, first, session_id, limits.rows, session_id, session_id, session_id)
    for row in db.rows(_TO_PROJECT, given):
        parts[row[0]].append(row)
    chosen = [row[1] for row in parts["working"]]
    chosen += messages.within([(row[1], row[3]) for row in parts["next"]], limits.size)
    observed, chars = parts["window"][0][2:4] if parts["window"] else (None, None)
    observed = min(limits.observed if observed is None else observed, limits.most_observed)
    chars = min(limits.chars if chars is None else chars, limits.most_chars)
    chosen += _list_context(db, session_id, parts["context"], first, observed, chars)
    pairs = (pair for some in _pages(chosen) for pair in _pairs(db, some))
    state = parts["rules"][0][4] if parts["rules"] else ""
    return ToProject(sorted(pairs, key=lambda pair: pair[0].seq), state)


def _list_context(db: Db, session_id: str, page: list[Row], asked: int, observed: int, chars: int) -> list[int]:
    """The ids of what fits, newest first; `page`: the first of them, of which so many were asked for. Page by page: a
    window may be wide, and what does not fit is not read."""
    chosen: list[int] = []
    before = 2**62
    while True:
        for _, row_id, seq, length, _ in page[:observed]:
            chars, before = chars - length, seq
            if chars < 0:
                return chosen
            chosen.append(row_id)
        observed -= asked
        if observed <= 0 or len(page) < asked:
            return chosen
        asked = min(observed, PAGE)
        page = db.rows(_CONTEXT, (session_id, before, asked))


def list_open(db: Db, session_id: str) -> list[tuple[InboxEntry, Message]]:
    """Everything of a session that is not in an end state, by seq."""
    rows = db.rows(f"{_PAIRS} WHERE i.session_id = ? AND i.{OPEN} ORDER BY i.seq", (session_id,))
    return [_parse_pair(row) for row in rows]


def has_open(db: Db, session_id: str) -> bool:
    """Whether anything of a session is not in an end state."""
    return db.row(f"SELECT 1 FROM inbox WHERE session_id = ? AND {OPEN} LIMIT 1", (session_id,)) is not None


def count_by_turn(db: Db, turn_ids: list[str]) -> dict[str, int]:
    """How many rows each of these turns has."""
    rows = db.rows(
        f"SELECT turn_id, COUNT(*) FROM inbox WHERE turn_id IN ({messages.marks(turn_ids)}) GROUP BY turn_id", turn_ids
    )
    return {str(turn_id): int(count) for turn_id, count in rows}


def _pages(ids: list[int]) -> Iterator[list[int]]:
    return (ids[at : at + PAGE] for at in range(0, len(ids), PAGE))


def _pairs(db: Db, ids: list[int]) -> list[tuple[InboxEntry, Message]]:
    return [_parse_pair(row) for row in db.rows(f"{_PAIRS} WHERE i.id IN ({messages.marks(ids)})", ids)]


def check_room(db: Db, session_id: str, rights: str, more: int, rows: int, chars: int) -> str:
    """Why a further message of so many characters does not fit into what waits in a session under these rights; '' if
    it does. What is worked on counts: a turn that takes in what it says to itself has no end otherwise."""
    found = db.rows(
        "SELECT LENGTH(m.text) FROM inbox i JOIN messages m ON m.id = i.message_id"
        f" WHERE i.session_id = ? AND i.{OPEN} AND i.rights = ? ORDER BY i.seq LIMIT ?",
        (session_id, rights, rows),
    )
    if len(found) >= rows:
        return f"{rows} such messages wait there or are worked on, which is the most"
    if sum(row[0] for row in found) + more > chars:
        return f"such messages that wait there or are worked on may have {chars} characters together at most"
    return ""


def mark_context_shown(db: Db, session_id: str, turn_id: str) -> None:
    """Context up to a turn's last message was shown with it, or did not fit: it is not shown again."""
    row = db.row("SELECT MAX(seq) FROM inbox WHERE turn_id = ?", (turn_id,))
    if row is not None and row[0] is not None:
        db.run(
            "UPDATE inbox SET given = 1 WHERE session_id = ? AND mode = 'observe' AND given = 0 AND seq < ?",
            (session_id, row[0]),
        )


def end_given(db: Db, turn_id: str, state: InboxState, reason: str, now: int) -> None:
    """The messages of a turn that its provider had are done with."""
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
    """(message, seq) of the last that somebody wrote among what a turn works on."""
    row = db.row(
        "SELECT m.id, i.seq FROM inbox i JOIN messages m ON m.id = i.message_id WHERE i.turn_id = ?"
        " AND m.kind = 'chat' AND m.platform_id <> '' ORDER BY i.seq DESC LIMIT 1",
        (turn_id,),
    )
    return (int(row[0]), int(row[1])) if row else None


@quick
def list_senders(db: Db, turn_id: str) -> list[str]:
    """Everybody whose words a turn works on."""
    rows = db.rows(
        "SELECT DISTINCT m.sender FROM inbox i JOIN messages m ON m.id = i.message_id"
        " WHERE i.turn_id = ? AND m.kind = 'chat' ORDER BY m.sender",
        (turn_id,),
    )
    return [row[0] for row in rows]


def count_waiting(db: Db, session_id: str) -> int:
    """Messages that no turn has taken yet."""
    row = db.row(
        f"SELECT COUNT(*) FROM inbox WHERE session_id = ? AND {OPEN} AND state IN ('queued', 'retry')", (session_id,)
    )
    return int(row[0]) if row else 0


def list_sessions_with_work(db: Db, now: int) -> list[tuple[str, str, int]]:
    """(session, folder, first due) of every live session that has a row due."""
    rows = db.rows(
        f"SELECT i.session_id, i.folder, MIN(i.next_at) FROM inbox i WHERE i.state NOT IN {_END_SQL}"
        " AND i.next_at <= ? AND i.session_id IS NOT NULL GROUP BY i.session_id, i.folder ORDER BY 3",
        (now,),
    )
    return [(row[0], row[1], row[2]) for row in rows]


def has_only_tasks(db: Db, session_id: str) -> bool:
    """Whether nothing but firings is open in this session: nobody waits for an answer."""
    other = f"SELECT 1 FROM inbox WHERE session_id = ? AND {OPEN} AND mode <> 'task' LIMIT 1"
    return db.row(other, (session_id,)) is None


def list_waiting_sessions(db: Db) -> list[str]:
    """Every session with a row that is not in an end state, by who came first."""
    rows = db.rows(
        f"SELECT session_id FROM inbox WHERE state NOT IN {_END_SQL} AND session_id IS NOT NULL"
        " GROUP BY session_id ORDER BY MIN(id)"
    )
    return [row[0] for row in rows]


def list_waiting_rooms(db: Db) -> list[tuple[str, str, str]]:
    """(instance, address, thread) of every row that is not in an end state."""
    rows = db.rows(
        "SELECT DISTINCT m.instance, m.address, m.thread FROM inbox i JOIN messages m ON m.id = i.message_id"
        f" WHERE i.state NOT IN {_END_SQL} ORDER BY 1, 2, 3"
    )
    return [(row[0], row[1], row[2]) for row in rows]


def defer_all_due(db: Db, now: int, until: int) -> None:
    """Nothing is worked on for the time being, and somebody knows: what is due is not overdue before `until`."""
    db.run(f"UPDATE inbox SET next_at = ? WHERE state NOT IN {_END_SQL} AND next_at <= ?", (until, now))


def has_work(db: Db, session_id: str, now: int) -> bool:
    """Whether anything of this session can be worked on now; whoever looked at a queued row last does not matter."""
    row = db.row(
        f"SELECT 1 FROM inbox WHERE session_id = ? AND {OPEN} AND (state = 'queued' OR (state IN ('retry', 'working')"
        " AND next_at <= ?)) LIMIT 1",
        (session_id, now),
    )
    return row is not None and get_retry_time(db, session_id, now) is None


@quick
def get_retry_time(db: Db, session_id: str, now: int) -> int | None:
    """When the next try of this session is due, if it has to wait for that; None: it may be woken. What arrives
    meanwhile waits with the first row: only time leads to a try, so that a burst of arrivals uses up none."""
    turn = db.row(
        "SELECT next_at FROM turns WHERE session_id = ? AND ended_at IS NULL AND state = 'interrupted'", (session_id,)
    )
    if turn is not None:
        return int(turn[0]) if turn[0] > now else None
    first = (
        f"SELECT state, next_at FROM inbox WHERE session_id = ? AND state NOT IN {_END_SQL}"
        " AND state IN ('queued', 'retry') AND mode"
    )
    head = db.row(f"{first} <> 'task' ORDER BY seq LIMIT 1", (session_id,))
    head = head or db.row(f"{first} = 'task' ORDER BY seq LIMIT 1", (session_id,))
    return int(head[1]) if head is not None and head[0] == "retry" and head[1] > now else None


def get_next_due(db: Db) -> int | None:
    row = db.row(f"SELECT MIN(next_at) FROM inbox WHERE state NOT IN {_END_SQL}")
    return row[0] if row else None


def defer_session_due(db: Db, session_id: str, until: int) -> None:
    """Somebody takes care of this session's waiting rows: they are not overdue before `until`. Rows that are worked on
    are kept alive by their turn alone."""
    db.run(
        f"UPDATE inbox SET next_at = ? WHERE session_id = ? AND {OPEN} AND state = 'queued' AND next_at < ?",
        (until, session_id, until),
    )


def set_state(
    db: Db, entry_id: int, state: InboxState, reason: str, next_at: int | None, now: int, tries: int | None = None
) -> None:
    """Change one row's state and note the step."""
    rows = db.rows(
        "UPDATE inbox SET state = ?, reason = ?, next_at = ?, tries = COALESCE(?, tries), updated_at = ?"
        f" WHERE id = ? AND state NOT IN {_END_SQL} RETURNING message_id, mode, turn_id",
        (state, reason, next_at, tries, now, entry_id),
    )
    if rows:
        message_id, mode, turn_id = rows[0]
        message_steps.add(db, int(message_id), entry_id, now, state, reason)
        if mode == InboxMode.TASK and state in END:
            firings.record_end(db, message_id, state, reason, turn_id, now)


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
        f" WHERE i.session_id = ? AND i.{OPEN} AND i.state IN ('queued', 'retry', 'held'){whose}{where}"
        " ORDER BY i.seq",
        (session_id, *(senders or ()), *((thread,) if thread is not None else ())),
    )
    ended = [row[0] for row in rows if row[1] != messages.SYSTEM or row[2].partition(":")[0] not in keep]
    for row_id in ended:
        set_state(db, row_id, InboxState.CANCELLED, reason, None, now)
    return len(ended)


def list_contents_only_for(db: Db, folder: str) -> list[str]:
    """The contents of messages that this group alone was sent."""
    rows = db.rows(
        "SELECT messages.content FROM messages JOIN inbox ON inbox.message_id = messages.id WHERE inbox.folder = ?"
        " AND NOT EXISTS (SELECT 1 FROM inbox AS other WHERE other.message_id = messages.id AND other.folder <> ?)",
        (folder, folder),
    )
    return [str(row[0]) for row in rows]
