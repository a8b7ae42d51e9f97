"""The rows that tell of a person: which they are, and how they are erased, a small portion at a time.

A person's is what they wrote, what agents passed on for them (`origins`), and everything in a direct room of theirs. An
answer to them is what a turn said that was given a message of theirs, and what replies to one. Every function can be
run again: the person's messages, by which the others are found, go last, and at the very end their identities.
"""

import json
import re
from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec import Struct

from gatepost.store import search
from gatepost.store.messages import inbox
from gatepost.store.messages.messages import SYSTEM
from gatepost.store.people.person_requests import is_named, remove_request, replace_answerers
from gatepost.store.people.person_scope import FORGOTTEN, PersonScope, make_marks
from gatepost.store.port import Db
from gatepost.store.rights import audit
from gatepost.store.schedule.retention import RemovalBatch, remove_message
from gatepost.store.sessions.timeline import TimelineKind

SILENT = '{"text": ""}'  # the data of an entry of the timeline that says nothing
_VOUCHING = (audit.CUT, audit.ERASED, audit.SEAL)  # rows of the audit log that say nothing of people
_STOPPED = "stopped by "  # what a reason says of whoever ended a turn


def get_newest_message(db: Db) -> int:
    row = db.row("SELECT COALESCE(MAX(id), 0) FROM messages")
    return int(row[0]) if row else 0


class WrittenPlace(Struct, frozen=True):
    """A room in which the person wrote, and as whom."""

    instance: str
    address: str
    sender_name: str
    direct: bool  # a private chat, as its channel says


def list_places(db: Db, names: tuple[str, ...], after: int, through: int) -> list[WrittenPlace]:
    rows = db.rows(
        "SELECT DISTINCT m.instance, m.address, m.sender_name, COALESCE(r.direct, 0) FROM messages m"
        " LEFT JOIN rooms r ON r.instance = m.instance AND r.address = m.address"
        f" WHERE m.id > ? AND m.id <= ? AND m.direction = 'in' AND m.sender IN ({make_marks(names)})",
        (after, through, *names),
    )
    return [WrittenPlace(row[0], row[1], row[2], bool(row[3])) for row in rows]


def list_direct_rooms(db: Db, names: tuple[str, ...]) -> list[tuple[str, str]]:
    sql = f"SELECT DISTINCT instance, address FROM direct_rooms WHERE user_id IN ({make_marks(names)})"
    return [(row[0], row[1]) for row in db.rows(sql, names)]


def has_others(db: Db, names: tuple[str, ...], instance: str, address: str) -> bool:
    """Return True if another person wrote in a room, or can be reached there."""
    marks = make_marks(names)
    wrote = (
        "SELECT 1 FROM messages WHERE instance = ? AND address = ? AND direction = 'in' AND kind = 'chat'"
        f" AND sender NOT IN ({marks}) LIMIT 1"
    )
    reached = f"SELECT 1 FROM direct_rooms WHERE instance = ? AND address = ? AND user_id NOT IN ({marks}) LIMIT 1"
    return any(db.row(sql, (instance, address, *names)) is not None for sql in (wrote, reached))


class WrittenMessage(Struct, frozen=True):
    id: int
    content: str


def list_messages(db: Db, scope: PersonScope, after: int, through: int) -> list[WrittenMessage]:
    theirs, params = scope.condition
    rows = db.rows(
        f"SELECT m.id, m.content FROM messages m WHERE m.id > ? AND m.id <= ? AND {theirs} ORDER BY m.id",
        (after, through, *params),
    )
    return [WrittenMessage(*row) for row in rows]


def list_answers(db: Db, message_ids: Sequence[int], most: int) -> list[int]:
    """Outgoing messages that answer these."""
    marks = make_marks(message_ids)
    rows = db.rows(
        f"SELECT o.message_id FROM inbox i JOIN outbox o ON o.turn_id = i.turn_id WHERE i.message_id IN ({marks})"
        f" UNION SELECT message_id FROM outbox WHERE target_id IN ({marks}) LIMIT ?",
        (*message_ids, *message_ids, most),
    )
    return [int(row[0]) for row in rows if row[0] not in set(message_ids)]


def list_sessions(db: Db, message_ids: Sequence[int]) -> list[str]:
    """Those that were given one of these messages."""
    rows = db.rows(
        f"SELECT DISTINCT session_id FROM inbox WHERE session_id IS NOT NULL AND message_id IN"
        f" ({make_marks(message_ids)})",
        message_ids,
    )
    return [str(row[0]) for row in rows]


def list_room_sessions(db: Db, rooms: Sequence[tuple[str, str]]) -> list[str]:
    found: list[str] = []
    for instance, address in rooms:
        rows = db.rows("SELECT id FROM sessions WHERE address = ? AND instance = ?", (address, instance))
        found += [str(row[0]) for row in rows]
    return found


def list_sent_files(db: Db, message_ids: Sequence[int]) -> list[tuple[str, str]]:
    """(instance, key) of the effects with files that sent these messages."""
    sql = f"SELECT instance, key, payload FROM outbox WHERE message_id IN ({make_marks(message_ids)})"
    return [(row[0], row[1]) for row in db.rows(sql, message_ids) if json.loads(row[2]).get("files")]


class BusyWork(Struct, frozen=True):
    """Work that is under way, and is not cut off."""

    sessions: tuple[str, ...]
    sending: int


def find_busy(db: Db, session_ids: Sequence[str], rooms: Sequence[tuple[str, str]]) -> BusyWork:
    """Turns of these sessions that run, or begin soon because the gateway tells an agent something; and what these say,
    or what goes to these rooms, and is being sent."""
    open_turn = "SELECT 1 FROM turns WHERE session_id = ? AND ended_at IS NULL"
    pending = (
        "SELECT 1 FROM inbox i JOIN messages m ON m.id = i.message_id"
        f" WHERE i.session_id = ? AND {inbox.OPEN_I} AND m.sender = ? LIMIT 1"
    )
    running = tuple(
        each for each in session_ids if db.row(open_turn, (each,)) or db.row(pending, (each, SYSTEM)) is not None
    )
    to_room = "SELECT 1 FROM outbox WHERE instance = ? AND address = ? AND state = 'sending' LIMIT 1"
    of_session = "SELECT 1 FROM outbox WHERE session_id = ? AND state = 'sending' LIMIT 1"
    sending = [db.row(to_room, room) for room in rooms] + [db.row(of_session, (each,)) for each in session_ids]
    return BusyWork(running, sum(1 for row in sending if row is not None))


def is_of_person(db: Db, scope: PersonScope, turn_id: str) -> bool:
    """Return True if a turn was given a message of the person's."""
    theirs, params = scope.condition
    sql = f"SELECT 1 FROM inbox i JOIN messages m ON m.id = i.message_id WHERE i.turn_id = ? AND {theirs} LIMIT 1"
    return bool(turn_id) and db.row(sql, (turn_id, *params)) is not None


# What is erased, in portions.


class RemovedMessages(Struct, frozen=True):
    messages: int = 0
    answers: int = 0
    requests: int = 0
    more: bool = False  # answers are left, and so are the messages


def remove_messages(db: Db, message_ids: Sequence[int], most: int) -> RemovedMessages:
    """Remove messages of the person, with what was asked in their turns. First the answers, `most` at a time."""
    marks = make_marks(message_ids)
    turns = [
        str(row[0])
        for row in db.rows(
            f"SELECT DISTINCT turn_id FROM inbox WHERE message_id IN ({marks}) AND turn_id IS NOT NULL", message_ids
        )
    ]
    db.run(f"UPDATE turns SET error = '' WHERE id IN ({make_marks(turns)})", turns)
    asked = _list_turn_requests(db, turns, most)
    for request_id in asked:
        remove_request(db, request_id)
    answers = list_answers(db, message_ids, most)
    for each in answers:
        remove_message(db, each)
    if len(answers) == most or len(asked) == most:
        return RemovedMessages(answers=len(answers), requests=len(asked), more=True)
    removed = sum(remove_message(db, each) for each in message_ids)
    return RemovedMessages(removed, len(answers), len(asked))


def _list_turn_requests(db: Db, turns: Sequence[str], most: int) -> list[str]:
    rows = db.rows(
        "SELECT r.id FROM turns t JOIN requests r ON r.session_id = t.session_id AND r.turn_id = t.id"
        f" WHERE t.id IN ({make_marks(turns)}) LIMIT ?",
        (*turns, most),
    )
    return [str(row[0]) for row in rows]


def list_system_messages(db: Db, session_id: str, after: int, most: int) -> tuple[list[int], int]:
    """Return what the gateway itself told an agent, among the next `most` messages of its session; and the cursor, 0 at
    the end. It repeats what was said, and it is of no use to a conversation that starts anew."""
    rows = db.rows(
        "SELECT i.seq, m.id, m.sender FROM inbox i JOIN messages m ON m.id = i.message_id"
        " WHERE i.session_id = ? AND i.seq > ? ORDER BY i.seq LIMIT ?",
        (session_id, after, most),
    )
    return [row[1] for row in rows if row[2] == SYSTEM], rows[-1][0] if len(rows) == most else 0


def remove_system_messages(db: Db, message_ids: Sequence[int]) -> int:
    return sum(remove_message(db, each) for each in message_ids)


def cancel_waiting(db: Db, message_ids: Sequence[int], now: int) -> int:
    """Cancel messages that no turn has begun to answer."""
    return db.run(
        f"UPDATE inbox SET state = 'cancelled', reason = ?, next_at = NULL, updated_at = ? WHERE message_id IN"
        f" ({make_marks(message_ids)}) AND {inbox.OPEN} AND turn_id IS NULL",
        (FORGOTTEN, now, *message_ids),
    )


def list_timeline(db: Db, scope: PersonScope, session_id: str, after: int, most: int) -> tuple[list[int], int, bool]:
    """List the entries of the person's turns among the next `most`; the cursor, and whether there is more."""
    rows = db.rows(
        "SELECT seq, turn_id FROM timeline WHERE session_id = ? AND seq > ? ORDER BY seq LIMIT ?",
        (session_id, after, most),
    )
    known = {turn: is_of_person(db, scope, turn) for turn in {row[1] for row in rows}}
    return [row[0] for row in rows if known[row[1]]], rows[-1][0] if rows else after, len(rows) == most


def blank_timeline(db: Db, session_id: str, seqs: Sequence[int]) -> int:
    """They stay in their place, because others are counted from them, and say nothing. How many did."""
    return db.run(
        f"UPDATE timeline SET kind = ?, data = ? WHERE session_id = ? AND seq IN ({make_marks(seqs)}) AND data <> ?",
        (TimelineKind.STATUS, SILENT, session_id, *seqs, SILENT),
    )


def remove_session(db: Db, session_id: str, most: int) -> bool:
    """Remove a conversation in a direct room of the person's. True if it takes another portion."""
    for table, key in (("requests", "id"), ("timeline", "seq"), ("turns", "id")):
        keys = db.rows(f"SELECT {key} FROM {table} WHERE session_id = ? LIMIT ?", (session_id, most))
        if table == "requests":
            for (request_id,) in keys:
                remove_request(db, request_id)
        elif keys:
            marks = make_marks(keys)
            values = (session_id, *(row[0] for row in keys))
            db.run(f"DELETE FROM {table} WHERE session_id = ? AND {key} IN ({marks})", values)
        if len(keys) == most:
            return True
    db.run("DELETE FROM sessions WHERE id = ?", (session_id,))
    return False


def reset_session(db: Db, session_id: str) -> None:
    """A conversation that others go on with, from the beginning: what its agent was told is gone."""
    db.run("DELETE FROM conversations WHERE session_id = ?", (session_id,))
    db.run("DELETE FROM session_notes WHERE session_id = ?", (session_id,))
    db.run("UPDATE sessions SET title = '' WHERE id = ?", (session_id,))
    db.run(  # nobody knows whose words they were
        "DELETE FROM memories WHERE fact_key <> '' AND turn_id IN (SELECT id FROM turns WHERE session_id = ?)",
        (session_id,),
    )


# Quotes: what others' messages repeat of theirs.


QUOTED = ("text", "sender", "files")  # of a message that another quotes


def list_quotes(db: Db, scope: PersonScope, called: frozenset[str], after: int, through: int) -> list[tuple[int, str]]:
    """List (id, content without the quote) of others' messages that quote one of the person's. If the quoted message is
    not stored, the name of its sender decides."""
    rows = db.rows(
        "SELECT m.id, m.content, p.sender, m.sender FROM messages m LEFT JOIN messages p ON p.instance = m.instance"
        " AND p.address = m.address AND p.direction = 'in' AND p.platform_id = m.reply_to AND p.event = 'message'"
        " WHERE m.id > ? AND m.id <= ? AND m.reply_to <> '' ORDER BY m.id",
        (after, through),
    )
    found = []
    for number, text, quoted, sender in rows:
        content = json.loads(text)
        quote = content.get("replyTo")
        if sender in scope.names or not isinstance(quote, dict) or not any(map(quote.get, QUOTED)):
            continue
        if quoted in scope.names or (quoted is None and quote.get("sender") in called):
            content["replyTo"] = {"id": quote.get("id", ""), "text": "", "sender": ""}
            found.append((int(number), json.dumps(content, ensure_ascii=False)))
    return found


def blank_quotes(db: Db, rows: Sequence[tuple[int, str]]) -> int:
    return sum(db.run("UPDATE messages SET content = ? WHERE id = ?", (content, number)) for number, content in rows)


# Columns that name them in rows which stay.


class PersonColumn(Struct, frozen=True):
    table: str
    first: int | str  # a key before all others
    column: str
    prefix: str = ""  # before their name
    value: str = ""  # instead of it
    listed: bool = False  # they may be one of several


COLUMNS = (
    PersonColumn("costs", 0, "user_id"),
    PersonColumn("secret_uses", 0, "user_id"),
    PersonColumn("secret_uses", 0, "scope", "user:", f"user:{FORGOTTEN}"),
    PersonColumn("requests", "", "answered_by", listed=True),
    PersonColumn("inbox", 0, "reason", _STOPPED, f"{_STOPPED}{FORGOTTEN}"),
    PersonColumn("steps", 0, "detail", _STOPPED, f"{_STOPPED}{FORGOTTEN}"),
    PersonColumn("outbox", 0, "reason", _STOPPED, f"{_STOPPED}{FORGOTTEN}"),
    PersonColumn("turns", "", "error", _STOPPED, f"{_STOPPED}{FORGOTTEN}"),
    PersonColumn("errands", "", "reason", _STOPPED, f"{_STOPPED}{FORGOTTEN}"),
)


def replace_names(db: Db, where: PersonColumn, names: tuple[str, ...], after: Any, most: int) -> RemovalBatch[Any]:
    """In the next `most` rows of a table."""
    last = db.row(
        f"SELECT MAX(id), COUNT(*) FROM (SELECT id FROM {where.table} WHERE id > ? ORDER BY id LIMIT ?) w",
        (after, most),
    )
    if last is None or last[0] is None:
        return RemovalBatch(0, after, False)
    if where.listed:
        return RemovalBatch(replace_answerers(db, names, after, last[0]), last[0], int(last[1]) == most)
    values = [f"{where.prefix}{each}" for each in names]
    changed = db.run(
        f"UPDATE {where.table} SET {where.column} = ? WHERE id > ? AND id <= ?"
        f" AND {where.column} IN ({make_marks(values)})",
        (where.value, after, last[0], *values),
    )
    return RemovalBatch(changed, last[0], int(last[1]) == most)


# What the engine keeps besides rows.


def merge_search_index(db: Db, pages: int, *, first: bool) -> bool:
    """Merge so many pages of the search index into one part, which leaves out the words of what was deleted. True if it
    goes on."""
    return search.merge(db, -pages if first else pages)


def remove_statistics(db: Db) -> None:
    db.upkeep.remove_statistics()


class AuditPortion(Struct, frozen=True):
    """Among the next rows: those that the person wrote, those whose details tell of them, and where to go on."""

    own: tuple[int, ...]
    others: tuple[int, ...]
    after: int
    more: bool


def find_audit_rows(
    db: Db, scope: PersonScope, words: re.Pattern[str], after: int, through: int, most: int
) -> AuditPortion:
    """Find the rows of the audit log that tell of a person: as whoever acted, or in the details of what others did.

    Such details hold one of `words`, or are of a call in a turn that was given a message of theirs.
    """
    rows = db.rows(
        "SELECT seq, actor, action, details FROM audit WHERE seq > ? AND seq <= ? ORDER BY seq LIMIT ?",
        (after, through, most),
    )
    turns: dict[str, bool] = {}
    own, others = [], []
    for seq, actor, action, details in rows:
        if action in _VOUCHING:
            continue
        if is_named(actor, scope.names):
            own.append(seq)
        elif details is not None and (words.search(details) or _is_of_their_turn(db, scope, details, turns)):
            others.append(seq)
    return AuditPortion(tuple(own), tuple(others), rows[-1][0] if rows else after, len(rows) == most)


class _Turn(msgspec.Struct):
    turn: object = None


_read_turn = msgspec.json.Decoder(_Turn).decode


def _is_of_their_turn(db: Db, scope: PersonScope, details: str, known: dict[str, bool]) -> bool:
    try:
        turn = _read_turn(details).turn
    except msgspec.MsgspecError:
        return False
    if not isinstance(turn, str):
        return False
    if turn not in known:
        known[turn] = is_of_person(db, scope, turn)
    return known[turn]


def erase_audit_rows(db: Db, own: Sequence[int], others: Sequence[int], stand_in: str, by: str, now: int) -> int:
    """Erase the details of some rows and the actor of others; return how many rows were changed."""
    erased = sum(audit.erase_details(db, seq) for seq in others)
    return erased + audit.erase_actors(db, own, stand_in, by, now)
