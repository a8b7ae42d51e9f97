"""Rows of everything that happened, the newest first, in portions: messages, audit, costs and firings.

Each portion is the next so many rows below an id, whatever a filter wants of them. So one look costs the same for a
filter that finds nothing among a hundred thousand rows as for none.
"""

from collections.abc import Sequence

from msgspec import Struct

from gatepost.messages.inbound import Direction, MessageKind
from gatepost.store.engine.table import make_row_parser
from gatepost.store.messages.inbox import InboxMode, InboxState
from gatepost.store.messages.messages import marks
from gatepost.store.messages.outbox import EffectState
from gatepost.store.port import Db
from gatepost.store.schedule.firings import FiringState

LONGEST_TEXT = 300  # characters of a message that are read
LONGEST_DETAILS = 2000  # of an audit row; longer ones are not read


class MessageRow(Struct, frozen=True):
    id: int
    at: int
    direction: Direction
    kind: MessageKind
    verb: str
    instance: str
    address: str
    sender: str
    sender_name: str
    text: str
    folder: str  # of an outgoing one


class AuditRow(Struct, frozen=True):
    id: int
    at: int
    actor: str
    action: str
    verdict: str
    details: str  # JSON; '' once erased, or if it is long


class CostRow(Struct, frozen=True):
    id: int
    at: int
    folder: str
    user: str
    turn: str
    model: str
    micro: int


class FiringRow(Struct, frozen=True):
    id: int
    at: int
    state: FiringState
    reason: str
    task_id: str
    folder: str
    title: str
    message_id: int | None


class MessageTarget(Struct, frozen=True):
    """A group that got a message."""

    message_id: int
    folder: str
    mode: InboxMode
    state: InboxState
    reason: str


_parse_message = make_row_parser(MessageRow)
_parse_audit = make_row_parser(AuditRow)
_parse_cost = make_row_parser(CostRow)
_parse_firing = make_row_parser(FiringRow)
_parse_target = make_row_parser(MessageTarget)


def list_messages(db: Db, below: int, count: int) -> list[MessageRow]:
    rows = db.rows(
        "SELECT id, accepted_at, direction, kind, verb, instance, address, sender, sender_name,"
        f" SUBSTR(text, 1, {LONGEST_TEXT}), folder FROM messages WHERE id < ? ORDER BY id DESC LIMIT ?",
        (below, count),
    )
    return [_parse_message(row) for row in rows]


def list_messages_of(wanted: Sequence[int], db: Db, below: int, count: int) -> list[MessageRow]:
    """The same, of these messages alone."""
    some = [each for each in wanted if each < below][-count:]
    if not some:
        return []
    rows = db.rows(
        "SELECT id, accepted_at, direction, kind, verb, instance, address, sender, sender_name,"
        f" SUBSTR(text, 1, {LONGEST_TEXT}), folder FROM messages WHERE id IN ({marks(some)}) ORDER BY id DESC",
        tuple(some),
    )
    return [_parse_message(row) for row in rows]


def list_audit(db: Db, below: int, count: int) -> list[AuditRow]:
    rows = db.rows(
        "SELECT seq, at, actor, action, verdict,"
        f" CASE WHEN LENGTH(details) <= {LONGEST_DETAILS} THEN details ELSE '' END FROM audit WHERE seq < ?"
        " ORDER BY seq DESC LIMIT ?",
        (below, count),
    )
    return [_parse_audit((*row[:-1], row[-1] or "")) for row in rows]


def list_costs(db: Db, below: int, count: int) -> list[CostRow]:
    rows = db.rows(
        "SELECT id, booked_at, folder, user_id, turn_id, model, micro FROM costs WHERE id < ? ORDER BY id DESC LIMIT ?",
        (below, count),
    )
    return [_parse_cost(row) for row in rows]


def list_firings(db: Db, below: int, count: int) -> list[FiringRow]:
    rows = db.rows(
        "SELECT f.id, f.fired_at, f.state, f.reason, f.task_id, k.folder, CASE WHEN k.title <> '' THEN k.title"
        " WHEN k.prompt <> '' THEN SUBSTR(k.prompt, 1, 80) ELSE SUBSTR(k.text, 1, 80) END, f.message_id"
        " FROM (SELECT * FROM firings WHERE id < ? ORDER BY id DESC LIMIT ?) f JOIN tasks k ON k.id = f.task_id"
        " ORDER BY f.id DESC",
        (below, count),
    )
    return [_parse_firing(row) for row in rows]


def list_targets(db: Db, message_ids: Sequence[int]) -> dict[int, list[MessageTarget]]:
    """Return the groups that got each of these messages."""
    found: dict[int, list[MessageTarget]] = {}
    if message_ids:
        rows = db.rows(
            f"SELECT message_id, folder, mode, state, reason FROM inbox WHERE message_id IN ({marks(message_ids)})"
            " ORDER BY id",
            tuple(message_ids),
        )
        for target in map(_parse_target, rows):
            found.setdefault(target.message_id, []).append(target)
    return found


def list_deliveries(db: Db, message_ids: Sequence[int]) -> dict[int, EffectState]:
    """Return what became of each of these messages that went out."""
    if not message_ids:
        return {}
    rows = db.rows(
        f"SELECT message_id, state FROM outbox WHERE message_id IN ({marks(message_ids)}) ORDER BY id",
        tuple(message_ids),
    )
    return {int(message_id): EffectState(state) for message_id, state in rows}


def list_room_names(db: Db, wanted: Sequence[tuple[str, str]]) -> dict[tuple[str, str], str]:
    """Return the names of these rooms, each (instance, address)."""
    if not wanted:
        return {}
    where = " OR ".join(["(instance = ? AND address = ?)"] * len(wanted))
    rows = db.rows(
        f"SELECT instance, address, name FROM rooms WHERE {where}", tuple(part for each in wanted for part in each)
    )
    return {(str(instance), str(address)): str(name) for instance, address, name in rows}


def list_names(db: Db, table: str, wanted: Sequence[str]) -> dict[str, str]:
    """Return the names of these groups or users, by folder or id."""
    if not wanted:
        return {}
    key = {"groups": "folder", "users": "id"}[table]
    rows = db.rows(f"SELECT {key}, name FROM {table} WHERE {key} IN ({marks(wanted)})", tuple(wanted))
    return {str(each): str(name) for each, name in rows}


_TIMES = {
    "messages": ("id", "accepted_at"),
    "audit": ("seq", "at"),
    "costs": ("id", "booked_at"),
    "firings": ("id", "fired_at"),
}


def find_first_after(db: Db, table: str, moment: int) -> int:
    """Return the id from which on rows are younger than a moment, by halves: ids grow with time."""
    key, at = _TIMES[table]
    low, high = 0, int((db.row(f"SELECT COALESCE(MAX({key}), 0) + 1 FROM {table}") or (1,))[0])
    while low < high:
        middle = (low + high) // 2
        row = db.row(f"SELECT {at} FROM {table} WHERE {key} >= ? ORDER BY {key} LIMIT 1", (middle,))
        if row is None or row[0] > moment:
            high = middle
        else:
            low = middle + 1
    return low
