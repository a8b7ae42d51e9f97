"""Errands: pieces of work that one agent gave to another, and how they return.

    open → done · failed          open → stopping → cancelled

This table and `origins` hold who asked, where the result goes and how many steps lie behind it. Only the gateway writes
them. The work is done in a session of the target that belongs to the asking session. That session has a room without
people, and each errand is a thread of it: what a turn says there is part of that errand's result.
"""

from collections.abc import Sequence
from enum import StrEnum
from typing import Any

from msgspec import Struct

from gatepost.core import ids
from gatepost.messages.outbound import MESSAGES as OPS_OF_MESSAGES
from gatepost.messages.outbound import Op
from gatepost.store.engine.table import Table, make_row_parser
from gatepost.store.messages import inbox
from gatepost.store.messages.inbox import InboxState
from gatepost.store.messages.messages import marks
from gatepost.store.port import Db
from gatepost.store.sessions import sessions
from gatepost.store.sessions.sessions import Session, SessionMode

INSTANCE = PLATFORM = "errands"
LONGEST_RESULT = 100_000  # characters of a result that return; the ledger has all of it
MOST_SAID, MOST_FILES = 500, 100  # messages and files of one result
REMOVED = "the group {} was removed"
WITHDRAWN = "what was asked is not there any more"
CUT = "[… what it said before this is left out]"


class ErrandState(StrEnum):
    OPEN = "open"
    STOPPING = "stopping"  # somebody ended it; what runs of it ends next
    DONE = "done"
    FAILED = "failed"
    CANCELLED = "cancelled"


class NewErrand(Struct, frozen=True):
    """Facts of an errand when it is given out. They never change, but for the turn if that is tried again."""

    id: str
    call_key: str
    parent: str
    caller_folder: str
    caller_session: str
    caller_turn: str
    rights: str
    instance: str
    address: str
    thread: str
    folder: str
    session_id: str
    room: str
    message_id: int


class Errand(NewErrand, frozen=True):
    state: ErrandState
    reason: str
    result_id: int | None
    created_at: int
    ended_at: int | None


ERRANDS = Table("errands", Errand)


def make_id() -> str:
    return ids.new("e")


def find_or_add_session(db: Db, caller_session: str, folder: str, name: str, now: int) -> Session:
    """The conversation in which a group works for that session. `name`: of one beside the usual one."""
    address = f"{PLATFORM}:{caller_session}/{folder}" + (f"#{name}" if name else "")
    return sessions.find_or_add(db, SessionMode.SHARED, folder, INSTANCE, address, "", now)


def count_named_sessions(db: Db, caller_session: str, folder: str, but: str, most: int) -> int:
    """How many conversations beside the usual one, and beside the one named `but`, a session has with a group, so many
    at most."""
    usual = f"{PLATFORM}:{caller_session}/{folder}#"
    rows = db.rows(
        "SELECT id FROM sessions WHERE address >= ? AND address < ? AND address <> ? AND closed_at IS NULL LIMIT ?",
        (usual, f"{usual[:-1]}$", f"{usual}{but}", most),
    )
    return len(rows)


def add(db: Db, new: NewErrand, now: int) -> Errand:
    return ERRANDS.put(db, "", new, state=ErrandState.OPEN, created_at=now)


def move_to_turn(db: Db, earlier: str, turn_id: str) -> None:
    """Have open errands of a turn be those of another one, which tries its messages again."""
    own = "caller_session = (SELECT session_id FROM turns WHERE id = ?) AND caller_turn = ? AND ended_at IS NULL"
    db.run(f"UPDATE errands SET caller_turn = ? WHERE {own}", (turn_id, earlier, earlier))


def get(db: Db, errand_id: str) -> Errand | None:
    return ERRANDS.get(db, "WHERE id = ?", errand_id)


def find_by_call(db: Db, call_key: str) -> Errand | None:
    return ERRANDS.get(db, "WHERE call_key = ?", call_key)


def list_page(db: Db, folder: str, before: str, most: int, *, only_open: bool = False) -> list[Errand]:
    """The newest first. `folder`: only those that this group or one below it gave out or has to do; '': all."""
    wanted, params = ["1 = 1"], list[str | int]()
    if folder:
        within = "({0} = ? OR ({0} >= ? AND {0} < ?))"
        wanted.append(f"({within.format('folder')} OR {within.format('caller_folder')})")
        params += [folder, f"{folder}/", f"{folder}0"] * 2
    if before:
        wanted.append("id < ?")
        params.append(before)
    if only_open:
        wanted.append("ended_at IS NULL")
    return ERRANDS.list(db, f"WHERE {' AND '.join(wanted)} ORDER BY id DESC LIMIT ?", *params, most)


def list_ids_below(db: Db, errand_id: str, most: int) -> list[str]:
    """Those that were given out for an errand, also those that have returned, by age."""
    rows = db.rows("SELECT id FROM errands WHERE parent = ? AND parent <> '' ORDER BY id LIMIT ?", (errand_id, most))
    return [str(row[0]) for row in rows]


def sum_costs(db: Db, errand: Errand, now: int) -> int:
    """Return what its own turns cost, in millionths."""
    row = db.row(
        "SELECT COALESCE(SUM(c.micro), 0) FROM costs c JOIN turns t ON t.id = c.turn_id"
        " WHERE c.session_id = ? AND c.at >= ? AND c.at <= ? AND t.thread = ?",
        (errand.session_id, errand.created_at, errand.ended_at or now, errand.id),
    )
    return int(row[0]) if row else 0


def count_open(db: Db, caller_session: str) -> int:
    """Those that a session gave out."""
    return _count(db, "caller_session = ?", caller_session)


def count_open_for_group(db: Db, folder: str) -> int:
    """Those that a group has to do."""
    return _count(db, "folder = ?", folder)


def count_all_open(db: Db) -> int:
    return _count(db, "1 = ?", 1)


def _count(db: Db, which: str, value: str | int) -> int:
    row = db.row(f"SELECT COUNT(*) FROM errands WHERE ended_at IS NULL AND {which}", (value,))
    return int(row[0]) if row else 0


# Their end.

# No row of its thread is worked on or waits, nothing that it said is still to be put away, nobody has to decide about
# a call of it, and what it gave out itself has returned.
_FINISHED = (
    "e.ended_at IS NULL AND e.state = 'open'"
    " AND NOT EXISTS (SELECT 1 FROM errands c WHERE c.parent = e.id AND c.ended_at IS NULL)"
    " AND NOT EXISTS (SELECT 1 FROM inbox i JOIN messages m ON m.id = i.message_id"
    f" WHERE i.session_id = e.session_id AND {inbox.OPEN_I} AND m.thread = e.id)"
    f" AND NOT EXISTS (SELECT 1 FROM outbox o WHERE o.instance = '{INSTANCE}' AND o.address = e.room"
    " AND o.state IN ('pending', 'sending') AND o.thread = e.id)"
    " AND NOT EXISTS (SELECT 1 FROM requests q WHERE q.session_id = e.session_id AND q.notified_at IS NULL"
    " AND q.thread = e.id)"
)


def list_finished(db: Db, rooms: Sequence[str] | None, most: int) -> list[Errand]:
    """Those whose work is over, by age. `rooms`: only of these."""
    where, params = ("", ()) if rooms is None else (f" AND e.room IN ({marks(rooms)})", tuple(rooms))
    rows = db.rows(
        f"SELECT {ERRANDS.columns_of('e')} FROM errands e WHERE {_FINISHED}{where} ORDER BY e.id LIMIT ?",
        (*params, most),
    )
    return [ERRANDS.parse(row) for row in rows]


def is_finished(db: Db, errand_id: str) -> bool:
    return db.row(f"SELECT 1 FROM errands e WHERE e.id = ? AND {_FINISHED}", (errand_id,)) is not None


class ResultFile(Struct, frozen=True):
    """A file of a result, by the effect that it was given away with and its place among those."""

    key: str
    place: int
    name: str
    mime: str
    size: int


class ErrandOutcome(Struct, frozen=True):
    """The outcome of an errand. `reason`: why it failed."""

    state: ErrandState
    text: str = ""
    reason: str = ""
    files: tuple[ResultFile, ...] = ()


def get_outcome(db: Db, errand: Errand) -> ErrandOutcome:
    """Return the outcome of an errand whose work is over."""
    if sessions.get(db, errand.session_id) is None:
        return ErrandOutcome(ErrandState.FAILED, reason=REMOVED.format(errand.folder))
    said = _list_effects(db, errand)
    text, files = _join_texts(said), _list_files(said)
    failed = _find_failure(db, errand)
    return ErrandOutcome(ErrandState.FAILED if failed else ErrandState.DONE, text, failed, files)


class _ResultEffect(Struct, frozen=True):
    key: str
    op: Op
    payload: dict[str, Any]
    text: str


_parse_said = make_row_parser(_ResultEffect)


def _list_effects(db: Db, errand: Errand) -> list[_ResultEffect]:
    """Return the texts and files that its own turns sent to its room, oldest first; only the last ones if there are
    many. Effects of another conversation are no part of it, whatever thread they name."""
    rows = db.rows(
        "SELECT o.key, o.op, o.payload, SUBSTR(m.text, 1, CAST(? AS INTEGER))"
        " FROM messages m JOIN outbox o ON o.message_id = m.id"
        " WHERE m.instance = ? AND m.address = ? AND m.id > ? AND m.direction = 'out' AND m.thread = ?"
        " AND o.session_id = ? AND o.origin IN ('result', 'tool')"
        " AND o.state NOT IN ('superseded', 'cancelled', 'failed')"
        " ORDER BY m.id DESC LIMIT ?",
        (LONGEST_RESULT + 1, INSTANCE, errand.room, errand.message_id, errand.id, errand.session_id, MOST_SAID),
    )
    return [each for each in map(_parse_said, reversed(rows)) if each.op in OPS_OF_MESSAGES]


def _join_texts(said: Sequence[_ResultEffect]) -> str:
    texts: list[str] = []
    left = LONGEST_RESULT
    for each in reversed(said):
        if each.text and len(each.text) > left:
            return "\n\n".join([f"{CUT} {each.text[len(each.text) - left :]}" if left else CUT, *reversed(texts)])
        if each.text:
            texts.append(each.text)
            left -= len(each.text)
    return "\n\n".join(reversed(texts))


def _list_files(said: Sequence[_ResultEffect]) -> tuple[ResultFile, ...]:
    found = [
        ResultFile(each.key, place, str(file["name"]), str(file["mime"]), int(file["size"]))
        for each in said
        for place, file in enumerate(each.payload.get("files") or ())
    ]
    return tuple(found[:MOST_FILES])


def _find_failure(db: Db, errand: Errand) -> str:
    """Return why the last message of its thread was not worked on to the end; '' if it was. The gateway's own notes to
    a continued turn do not count."""
    rows = db.rows(
        "SELECT i.state, i.reason, m.platform_id FROM messages m JOIN inbox i ON i.message_id = m.id"
        " WHERE m.instance = ? AND m.address = ? AND m.id >= ? AND m.direction = 'in' AND m.thread = ?"
        " AND i.session_id = ? ORDER BY m.id DESC LIMIT 100",
        (INSTANCE, errand.room, errand.message_id, errand.id, errand.session_id),
    )
    for state, reason, key in rows:
        if not (key or "").startswith(("continue:", "history:")):
            return (reason or state) if state in _FAILURES else ""
    return WITHDRAWN


_FAILURES = (InboxState.FAILED, InboxState.CANCELLED, InboxState.REFUSED)


def finish(db: Db, errand_id: str, outcome: ErrandOutcome, result_id: int | None, now: int) -> bool:
    """Once. `result_id` None: there is nobody left whom it could be told."""
    return bool(
        db.run(
            "UPDATE errands SET state = ?, reason = ?, result_id = ?, ended_at = ? WHERE id = ? AND state = 'open'",
            (outcome.state, outcome.reason, result_id, now, errand_id),
        )
    )


# The end of the conversations they were done in.


class IdleLimits(Struct, frozen=True):
    """A conversation that was last used before the moment of its kind is idle."""

    usual: int
    named: int


# Nothing of it is under way: no errand that it gave out, no message, turn, effect or request.
_AT_REST = (
    "s.closed_at IS NULL"
    " AND NOT EXISTS (SELECT 1 FROM errands c WHERE c.caller_session = s.id AND c.ended_at IS NULL)"
    f" AND NOT EXISTS (SELECT 1 FROM inbox i WHERE i.session_id = s.id AND {inbox.OPEN_I})"
    " AND NOT EXISTS (SELECT 1 FROM turns t WHERE t.session_id = s.id AND t.ended_at IS NULL)"
    " AND NOT EXISTS (SELECT 1 FROM outbox o WHERE o.session_id = s.id AND o.state IN ('pending', 'sending'))"
    " AND NOT EXISTS (SELECT 1 FROM requests q WHERE q.session_id = s.id AND q.notified_at IS NULL)"
)
_IDLE = (
    f"s.instance = '{INSTANCE}'"
    " AND s.active_at < CASE WHEN REPLACE(s.address, '#', '') = s.address THEN ? ELSE ? END"
    " AND NOT EXISTS (SELECT 1 FROM errands e WHERE e.room = s.address AND e.ended_at IS NULL)"
    f" AND {_AT_REST}"
)
# The key of a single run of a task, by which the live ones are found.
_ENDED_RUN = f"s.key >= '{SessionMode.ISOLATED}|' AND s.key < '{SessionMode.ISOLATED}}}' AND {_AT_REST}"


def list_ended_runs(db: Db, most: int) -> list[str]:
    """Conversations of single runs that stayed open for what they had given out, and have nothing to wait for now."""
    rows = db.rows(f"SELECT s.id FROM sessions s WHERE {_ENDED_RUN} ORDER BY s.key LIMIT ?", (most,))
    return [str(row[0]) for row in rows]


def close_ended_run(db: Db, session_id: str, now: int) -> bool:
    """Judged again, as above."""
    found = db.row(f"SELECT 1 FROM sessions s WHERE s.id = ? AND {_ENDED_RUN}", (session_id,))
    return found is not None and sessions.close(db, session_id, now)


def list_idle_sessions(db: Db, limits: IdleLimits, most: int) -> list[str]:
    """Those that are to be closed, the longest unused first."""
    rows = db.rows(
        f"SELECT s.id FROM sessions s WHERE s.active_at < ? AND {_IDLE} ORDER BY s.active_at LIMIT ?",
        (max(limits.usual, limits.named), limits.usual, limits.named, most),
    )
    return [str(row[0]) for row in rows]


def close_idle_session(db: Db, session_id: str, limits: IdleLimits, now: int) -> bool:
    """Judged again: something may have come meanwhile."""
    found = db.row(f"SELECT 1 FROM sessions s WHERE s.id = ? AND {_IDLE}", (session_id, limits.usual, limits.named))
    return found is not None and sessions.close(db, session_id, now)


def list_closed_sessions(db: Db, session_ids: Sequence[str]) -> list[str]:
    """Those of these that errands were done in, and that are closed."""
    rows = db.rows(
        f"SELECT id FROM sessions WHERE id IN ({marks(session_ids)}) AND instance = ? AND closed_at IS NOT NULL",
        (*session_ids, INSTANCE),
    )
    return [str(row[0]) for row in rows]


# Stopping.


def list_given_out(db: Db, caller_session: str) -> list[Errand]:
    """The open ones of a session."""
    return ERRANDS.list(db, "WHERE caller_session = ? AND ended_at IS NULL AND state = 'open'", caller_session)


def list_lately_given_out(db: Db, caller_session: str, most: int) -> list[Errand]:
    """Those of a session among the newest `most` of all, also those that have returned; the newest first."""
    newest = f"SELECT {ERRANDS.columns} FROM errands ORDER BY id DESC LIMIT ?"
    rows = db.rows(
        f"SELECT {ERRANDS.columns} FROM ({newest}) AS newest WHERE caller_session = ?", (most, caller_session)
    )
    return [ERRANDS.parse(row) for row in rows]


def list_children(db: Db, errand_id: str) -> list[Errand]:
    """The open ones that were given out for an errand."""
    return ERRANDS.list(db, "WHERE parent = ? AND ended_at IS NULL AND state = 'open'", errand_id)


def mark_stopping(db: Db, found: Sequence[Errand], reason: str) -> None:
    for each in found:
        db.run("UPDATE errands SET state = 'stopping', reason = ? WHERE id = ? AND state = 'open'", (reason, each.id))


def list_stopping(db: Db, most: int) -> list[Errand]:
    return ERRANDS.list(db, "WHERE ended_at IS NULL AND state = 'stopping' ORDER BY id LIMIT ?", most)


def cancel(db: Db, errand_id: str, now: int) -> None:
    db.run("UPDATE errands SET state = 'cancelled', ended_at = ? WHERE id = ? AND state = 'stopping'", (now, errand_id))
