"""Removal of rows over their age, a small portion at a time, so that nobody waits long for the writer.

A portion looks at the oldest rows behind a cursor and ends at the first that is young: rows stand in the order in which
they were written. Rows that an open row needs stay at any age: a message with a row in flight, its steps, and the turn
of such a row. The newest turn of a session stays, and so does its last timeline entry, whose number goes on from there.
"""

from collections.abc import Iterable, Sequence
from itertools import takewhile
from typing import Generic, TypeVar

from msgspec import Struct

from gatepost.store import search
from gatepost.store.messages import inbox
from gatepost.store.money.budgets import BudgetScopeKind
from gatepost.store.port import Db
from gatepost.store.rights import audit
from gatepost.store.rights.audit import AuditRecord
from gatepost.store.sessions import timeline

C = TypeVar("C", int, str)

ACTOR = "gatepost"
_OPEN_OUT = "state IN ('pending', 'sending')"
_IN_FLIGHT = (
    f"(EXISTS (SELECT 1 FROM inbox i WHERE i.message_id = {{id}} AND {inbox.OPEN_I})"
    f" OR EXISTS (SELECT 1 FROM outbox o WHERE o.message_id = {{id}} AND o.{_OPEN_OUT})"
    " OR EXISTS (SELECT 1 FROM errands e WHERE e.message_id = {id} AND e.ended_at IS NULL))"
)


class RetentionCounts(Struct, frozen=True):
    """How much of each kind a sweep removed."""

    messages: int = 0
    steps: int = 0
    turns: int = 0
    timeline: int = 0
    costs: int = 0
    audit: int = 0
    refused: int = 0  # texts of messages that were refused
    media: int = 0
    sessions: int = 0


class RemovalBatch(Struct, Generic[C], frozen=True):
    """The rows that one step removed, where the next begins, and whether there may be more."""

    removed: int
    after: C
    more: bool


def _list_old(rows: Iterable[tuple[C, int]], before: int) -> list[C]:
    return [key for key, _ in takewhile(lambda row: row[1] < before, rows)]


def remove_messages(db: Db, after: int, before: int, most: int) -> RemovalBatch[int]:
    """Messages that were accepted before a moment, with everything that tells of them."""
    rows = db.rows("SELECT id, accepted_at FROM messages WHERE id > ? ORDER BY id LIMIT ?", (after, most))
    old, removed = _list_old(rows, before), 0
    for message_id in old:
        targeted = f"target_id = ? AND {_OPEN_OUT}"
        if db.row(f"SELECT 1 FROM outbox WHERE {targeted} LIMIT 1", (message_id,)) is not None:
            continue
        flying = _IN_FLIGHT.format(id="messages.id")
        if db.row(f"SELECT 1 FROM messages WHERE id = ? AND {flying}", (message_id,)) is not None:
            continue
        removed += remove_message(db, message_id)
    return _make_batch(old, removed, after, most)


# A message of somebody who may not speak: all that became of it is that it was refused. `{m}` is its row.
_REFUSED = (
    "{m}.direction = 'in' AND {m}.content <> '{{}}' AND EXISTS (SELECT 1 FROM inbox i WHERE i.message_id = {m}.id)"
    " AND NOT EXISTS (SELECT 1 FROM inbox i WHERE i.message_id = {m}.id AND NOT (i.state = 'refused'"
    " AND (i.rights = 'guest' OR i.reason = 'denied_by_the_access_list')))"
)


class RefusedTexts(Struct, frozen=True):
    messages: tuple[int, ...]
    after: int  # where the next look begins: everything before it was looked at
    more: bool


def find_refused_texts(db: Db, after: int, before: int, most: int) -> RefusedTexts:
    """Among the next `most` messages, those of refused strangers that were accepted before a moment and have a text."""
    rows = db.rows("SELECT id, accepted_at FROM messages WHERE id > ? ORDER BY id LIMIT ?", (after, most))
    old: list[int] = _list_old(rows, before)
    if not old:
        return RefusedTexts((), after, False)
    found = db.rows(
        f"SELECT m.id FROM messages m WHERE m.id > ? AND m.id <= ? AND {_REFUSED.format(m='m')} ORDER BY m.id",
        (after, old[-1]),
    )
    return RefusedTexts(tuple(row[0] for row in found), old[-1], len(old) == most)


def remove_refused_texts(db: Db, message_ids: Sequence[int]) -> int:
    """That they came, from whom and why they were refused, stays."""
    removed = 0
    for each in message_ids:
        removed += db.run("UPDATE messages SET text = '', content = '{}', sender_name = '' WHERE id = ?", (each,))
        search.renew(db, each)
    return removed


def remove_refused_requests(db: Db, after: str, before: int, most: int) -> RemovalBatch[str]:
    """Return what the requests about such senders and their rooms, and the cards of these, repeat of their words."""
    rows = db.rows("SELECT id, asked_at FROM requests WHERE id > ? ORDER BY id LIMIT ?", (after, most))
    old: list[str] = _list_old(rows, before)
    removed = 0
    for request_id in old:
        blanked = db.run(
            "UPDATE requests SET input = '{}' WHERE id = ? AND kind IN ('sender', 'room') AND input <> '{}'"
            " AND state IN ('denied', 'expired', 'withdrawn') AND notified_at IS NOT NULL",
            (request_id,),
        )
        if blanked:
            remove_cards(db, request_id)
        removed += blanked
    return _make_batch(old, removed, after, most)


def remove_cards(db: Db, request_id: str) -> None:
    """The cards of a request, and what these said in the ledger."""
    shown = [row[0] for row in db.rows("SELECT message_id FROM request_cards WHERE request_id = ?", (request_id,))]
    said = db.rows(
        "SELECT message_id FROM outbox WHERE key >= ? AND key < ?", (f"request:{request_id}:", f"request:{request_id};")
    )
    db.run("DELETE FROM request_cards WHERE request_id = ?", (request_id,))
    for message_id in {*shown, *(row[0] for row in said)}:
        remove_message(db, message_id)


def remove_message(db: Db, message_id: int) -> int:
    """With all that tells of it; whatever replied to it stays."""
    db.run("UPDATE outbox SET target_id = NULL WHERE target_id = ?", (message_id,))
    return db.run("DELETE FROM messages WHERE id = ?", (message_id,))


def remove_steps(db: Db, after: int, before: int, most: int) -> RemovalBatch[int]:
    old = _list_old(db.rows("SELECT id, at FROM steps WHERE id > ? ORDER BY id LIMIT ?", (after, most)), before)
    removed = 0
    if old:
        flying = _IN_FLIGHT.format(id="steps.message_id")
        removed = db.run(f"DELETE FROM steps WHERE id > ? AND id <= ? AND NOT {flying}", (after, old[-1]))
    return _make_batch(old, removed, after, most)


def remove_turns(db: Db, after: str, before: int, most: int) -> RemovalBatch[str]:
    """Ended turns, but for the newest of each session. Their ids begin with their time."""
    rows = db.rows("SELECT id, started_at FROM turns WHERE id > ? ORDER BY id LIMIT ?", (after, most))
    old: list[str] = _list_old(rows, before)
    removed = sum(
        db.run(
            "DELETE FROM turns WHERE id = ? AND ended_at < ?"
            " AND EXISTS (SELECT 1 FROM turns n WHERE n.session_id = turns.session_id"
            " AND n.started_at > turns.started_at)"
            f" AND NOT EXISTS (SELECT 1 FROM inbox i WHERE i.turn_id = turns.id AND {inbox.OPEN_I})"
            f" AND NOT EXISTS (SELECT 1 FROM outbox o WHERE o.turn_id = turns.id AND o.{_OPEN_OUT})",
            (turn_id, before),
        )
        for turn_id in old
    )
    return _make_batch(old, removed, after, most)


def remove_spending(db: Db, after: str, before: int, most: int, *, kind: BudgetScopeKind) -> RemovalBatch[str]:
    """Remove the spending of turns or conversations that are there no more."""
    table = {BudgetScopeKind.TURN: "turns", BudgetScopeKind.SESSION: "sessions"}[kind]
    rows = db.rows(
        f"SELECT s.name, (SELECT 1 FROM {table} t WHERE t.id = s.name) FROM spending s"
        " WHERE s.kind = ? AND s.name > ? ORDER BY s.name LIMIT ?",
        (kind, after, most),
    )
    gone = [str(name) for name, there in rows if there is None]
    for name in gone:
        db.run("DELETE FROM spending WHERE kind = ? AND name = ?", (kind, name))
    return RemovalBatch(len(gone), str(rows[-1][0]) if rows else after, len(rows) == most)


def remove_timeline(db: Db, after: str, before: int, most: int) -> RemovalBatch[str]:
    """Remove old timeline entries of the next session behind the cursor. Its last entry stays."""
    found = db.row("SELECT session_id FROM timeline WHERE session_id > ? ORDER BY session_id LIMIT 1", (after,))
    if found is None:
        return RemovalBatch(0, after, False)
    session_id = str(found[0])
    rows = db.rows(
        "SELECT seq, at FROM timeline WHERE session_id = ? AND seq < ? ORDER BY seq LIMIT ?",
        (session_id, timeline.get_newest_seq(db, session_id), most),
    )
    old = _list_old(rows, before)
    if old:
        db.run("DELETE FROM timeline WHERE session_id = ? AND seq <= ?", (session_id, old[-1]))
    return RemovalBatch(len(old), after if len(old) == most else session_id, True)


def remove_requests(db: Db, after: str, before: int, most: int) -> RemovalBatch[str]:
    """Requests that were decided and told, with their cards. One that holds for a session stays with it. Their ids
    begin with their time."""
    rows = db.rows("SELECT id, asked_at FROM requests WHERE id > ? ORDER BY id LIMIT ?", (after, most))
    old: list[str] = _list_old(rows, before)
    removed = sum(
        db.run(
            "DELETE FROM requests WHERE id = ? AND state <> 'pending' AND notified_at IS NOT NULL"
            " AND NOT (state = 'allowed' AND lasts = 'session')",
            (request_id,),
        )
        for request_id in old
    )
    return _make_batch(old, removed, after, most)


def remove_costs(db: Db, after: int, before: int, most: int) -> RemovalBatch[int]:
    """Single bookings; what a group or person spent in a day or month is kept apart from them."""
    old = [int(row[0]) for row in db.rows("SELECT id FROM costs WHERE at < ? ORDER BY at LIMIT ?", (before, most))]
    for cost_id in old:
        db.run("DELETE FROM costs WHERE id = ?", (cost_id,))
    return RemovalBatch(len(old), after, len(old) == most)


def remove_firings(db: Db, after: int, before: int, most: int) -> RemovalBatch[int]:
    """Runs of tasks that have ended."""
    rows = db.rows("SELECT id, fired_at FROM firings WHERE id > ? ORDER BY id LIMIT ?", (after, most))
    old = _list_old(rows, before)
    removed = 0
    if old:
        removed = db.run("DELETE FROM firings WHERE id > ? AND id <= ? AND state <> 'queued'", (after, old[-1]))
    return _make_batch(old, removed, after, most)


def remove_tasks(db: Db, after: str, before: int, most: int) -> RemovalBatch[str]:
    """Tasks that are over, and have no run left in the log. Their ids begin with their time."""
    rows = db.rows("SELECT id, created_at FROM tasks WHERE id > ? ORDER BY id LIMIT ?", (after, most))
    old: list[str] = _list_old(rows, before)
    removed = sum(
        db.run(
            "DELETE FROM tasks WHERE id = ? AND state IN ('completed', 'cancelled') AND updated_at < ?"
            " AND NOT EXISTS (SELECT 1 FROM firings f WHERE f.task_id = tasks.id)",
            (task_id, before),
        )
        for task_id in old
    )
    return _make_batch(old, removed, after, most)


def remove_isolated_sessions(db: Db, after: str, before: int, most: int) -> RemovalBatch[str]:
    """Sessions of single runs, which would become as many as there were times. Their ids begin with their time."""
    rows = db.rows("SELECT id, created_at FROM sessions WHERE id > ? ORDER BY id LIMIT ?", (after, most))
    old: list[str] = _list_old(rows, before)
    removed = 0
    for session_id in old:
        if not _is_open(db, session_id):
            over = "DELETE FROM sessions WHERE id = ? AND mode = 'isolated' AND closed_at < ?"
            removed += db.run(over, (session_id, before))
    return _make_batch(old, removed, after, most)


def remove_secret_uses(db: Db, after: int, before: int, most: int) -> RemovalBatch[int]:
    old = _list_old(db.rows("SELECT id, at FROM secret_uses WHERE id > ? ORDER BY id LIMIT ?", (after, most)), before)
    if old:
        db.run("DELETE FROM secret_uses WHERE id > ? AND id <= ?", (after, old[-1]))
    return _make_batch(old, len(old), after, most)


def truncate_audit(db: Db, before: int, now: int) -> int:
    """Let each chain begin later: its new start is kept as its anchor, and a row at the end of this gateway's vouches
    for it. `remove_cut` then removes the rows before it. Return the row up to which it was cut, 0 if nothing is old
    enough."""
    through = min(audit.find_first_since(db, before), audit.get_newest(db)) - 1
    if through <= _get_truncated(db):
        return 0
    cut = [(each, *found) for each in audit.list_chains(db) if (found := audit.find_until(db, each, through))]
    if not cut:
        return 0
    vouchers = (audit.make_voucher(number, chained, gateway) for gateway, number, chained in cut)
    audit.append(db, *(AuditRecord(now, ACTOR, audit.CUT, "done", each) for each in vouchers))
    for gateway, number, chained in cut:
        db.run(
            "INSERT INTO audit_anchors (gateway, seq, number, hash, at) VALUES (?, ?, ?, ?, ?) ON CONFLICT (gateway)"
            " DO UPDATE SET seq = excluded.seq, number = excluded.number, hash = excluded.hash, at = excluded.at",
            (gateway, through, number, chained, now),
        )
    return through


def _get_truncated(db: Db) -> int:
    """The row up to which chains were cut."""
    row = db.row("SELECT COALESCE(MAX(seq), 0) FROM audit_anchors")
    return int(row[0]) if row else 0


def remove_truncated(db: Db, after: int, most: int) -> RemovalBatch[int]:
    """Rows before the anchors."""
    through = _get_truncated(db)
    old = [int(row[0]) for row in db.rows("SELECT seq FROM audit WHERE seq <= ? ORDER BY seq LIMIT ?", (through, most))]
    if old:
        db.run("DELETE FROM audit WHERE seq <= ?", (old[-1],))
    return RemovalBatch(len(old), after, len(old) == most)


def _make_batch(old: list[C], removed: int, after: C, most: int) -> RemovalBatch[C]:
    return RemovalBatch(removed, old[-1] if old else after, len(old) == most)


def list_files_in_use(db: Db) -> list[str]:
    """Return what open rows say of their files, as it is stored: contents of messages, payloads of effects, and what
    held calls give away."""
    came = db.rows(f"SELECT m.content FROM inbox i JOIN messages m ON m.id = i.message_id WHERE {inbox.OPEN_I}")
    goes = db.rows(f"SELECT payload FROM outbox WHERE {_OPEN_OUT}")
    held = db.rows("SELECT bound FROM requests WHERE notified_at IS NULL AND bound <> '{}'")
    return [str(row[0]) for row in (*came, *goes, *held)]


class DormantSession(Struct, frozen=True):
    """A session that nobody has used for long."""

    id: str
    closed: bool


def list_dormant_sessions(db: Db, after: str, before: int, most: int) -> tuple[list[DormantSession], str]:
    """Return those of the next `most` sessions that were closed or last used before a moment and have nothing in
    flight. Also return the cursor, '' at the end."""
    rows = db.rows("SELECT id, closed_at, active_at FROM sessions WHERE id > ? ORDER BY id LIMIT ?", (after, most))
    found = [
        DormantSession(session_id, closed_at is not None)
        for session_id, closed_at, active_at in rows
        if (active_at if closed_at is None else closed_at) < before and not _is_open(db, session_id)
    ]
    return found, rows[-1][0] if len(rows) == most else ""


def is_dormant(db: Db, session_id: str, before: int) -> bool:
    row = db.row("SELECT COALESCE(closed_at, active_at) FROM sessions WHERE id = ?", (session_id,))
    return row is not None and row[0] < before and not _is_open(db, session_id)


def _is_open(db: Db, session_id: str) -> bool:
    for sql in (
        f"SELECT 1 FROM inbox WHERE session_id = ? AND {inbox.OPEN} LIMIT 1",
        f"SELECT 1 FROM outbox WHERE session_id = ? AND {_OPEN_OUT} LIMIT 1",
        "SELECT 1 FROM turns WHERE session_id = ? AND ended_at IS NULL LIMIT 1",
    ):
        if db.row(sql, (session_id,)) is not None:
            return True
    return False


def list_unknown_sessions(db: Db, names: list[str]) -> list[str]:
    """Those of the names that no session has."""
    return [name for name in names if db.row("SELECT 1 FROM sessions WHERE id = ?", (name,)) is None]


def merge_search_index(db: Db, pages: int) -> None:
    """Merge so many pages of the search index, which lets go of what was deleted."""
    search.merge(db, pages)


def can_shrink(db: Db) -> bool:
    """Return True if freed space is given back to the disk."""
    return db.upkeep.can_shrink()


def release_pages(db: Db, pages: int) -> int:
    """Give so many free pages back to the disk; how many are left."""
    return db.upkeep.release_pages(pages)


class RetentionStats(Struct, frozen=True):
    """How much there is of something, and since when."""

    rows: int
    oldest: int | None
    over_age: int


TABLES = {
    "messages": ("messages", "accepted_at"),
    "steps": ("steps", "at"),
    "turns": ("turns", "started_at"),
    "timeline": ("timeline", "at"),
    "costs": ("costs", "at"),
    "audit": ("audit", "at"),
    "refused": (f"(SELECT m.accepted_at FROM messages m WHERE {_REFUSED.format(m='m')}) r", "accepted_at"),
}


def count(db: Db, what: str, before: int) -> RetentionStats:
    """For the operator: it reads the whole table."""
    table, moment = TABLES[what]
    row = db.row(
        f"SELECT COUNT(*), MIN({moment}), COALESCE(SUM(CASE WHEN {moment} < ? THEN 1 ELSE 0 END), 0) FROM {table}",
        (before,),
    )
    assert row is not None
    return RetentionStats(int(row[0]), row[1], int(row[2]))
