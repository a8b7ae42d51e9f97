"""The ledger's questions: is everything accounted for, what is there, and what was one message's life."""

from collections.abc import Sequence
from typing import Annotated, Any

from msgspec import Struct

from gatepost.core.clock import DAY, SECOND
from gatepost.core.record_fields import ShownAs, shown
from gatepost.messages.inbound import Direction
from gatepost.store.engine.table import make_row_parser
from gatepost.store.gateways import alerts, gateways
from gatepost.store.gateways.gateway_checks import is_living
from gatepost.store.gateways.gateways import GatewayRow, GatewayState
from gatepost.store.messages import inbox, message_steps, messages, outbox
from gatepost.store.messages.messages import Message
from gatepost.store.money import costs
from gatepost.store.port import Db
from gatepost.store.rights import audit, requests
from gatepost.store.sessions import errands, forks, turns

GRACE = 60 * SECOND
LATE = 5 * SECOND  # what became due a moment ago, as all does that waited for a gateway to start, is not overdue yet
FARTHEST = 600 * SECOND  # no open row waits longer than this for its next look
MOST_REQUESTS = 50  # of one turn, in a trace
MOST_NAMED = 500  # turns in one statement
MOST_NEWEST = 1000  # messages among which a measurement looks for those without a row
_OPEN_OUT = "state IN ('pending', 'sending')"


class LedgerStatus(Struct, frozen=True):
    """`unaccounted`: rows for which nobody has a time, and messages without a row. `overdue`: rows whose time is past;
    a busy machine is late, and loses nothing."""

    unaccounted: int
    in_flight: int
    overdue: int
    oldest_s: float


def check(db: Db, now: int, *, running: bool = True, newest: int = 0) -> LedgerStatus:
    """One snapshot. While no daemon is `running` nobody can be late: what waits was due when the last one was heard of,
    or is not late at all. `newest`: messages without a row are looked for among so many; 0: among all."""
    unaccounted = in_flight = overdue = 0
    oldest, due = now, now if running else min(now, _get_last_activity(db))
    for table, condition in (("inbox", inbox.OPEN), ("outbox", _OPEN_OUT)):
        row = db.row(
            "SELECT COUNT(*), COALESCE(SUM(CASE WHEN next_at IS NULL THEN 1 ELSE 0 END), 0),"
            " COALESCE(SUM(CASE WHEN next_at < ? THEN 1 ELSE 0 END), 0), MIN(created_at)"
            f" FROM {table} WHERE {condition}",
            (due - LATE,),
        )
        assert row is not None
        in_flight += row[0]
        unaccounted += row[1]
        overdue += row[2]
        oldest = min(oldest, row[3] if row[3] is not None else now)
    behind = db.row("SELECT COALESCE(MAX(id), 0) - ? FROM messages", (newest,)) if newest else (0,)
    assert behind is not None
    orphans = db.row(
        "SELECT COUNT(*) FROM messages m WHERE m.id > ? AND m.direction = 'in'"
        " AND NOT EXISTS (SELECT 1 FROM inbox i WHERE i.message_id = m.id)",
        (behind[0],),
    )
    speechless = db.row(
        "SELECT COUNT(*) FROM messages m WHERE m.id > ? AND m.direction = 'out'"
        " AND NOT EXISTS (SELECT 1 FROM outbox o WHERE o.message_id = m.id)",
        (behind[0],),
    )
    assert orphans is not None and speechless is not None
    in_flight += errands.count_all_open(db) + forks.count_wanted(db)
    return LedgerStatus(unaccounted + orphans[0] + speechless[0], in_flight, overdue, (now - oldest) / SECOND)


def count_late(db: Db, now: int) -> int:
    """Count open rows that were due long ago or have no time at all. Meant for a running gateway: it looks at no
    finished message."""
    late = 0
    for table, condition in (("inbox", inbox.OPEN), ("outbox", _OPEN_OUT)):
        row = db.row(
            f"SELECT COUNT(*) FROM {table} WHERE {condition} AND (next_at IS NULL OR next_at < ?)", (now - GRACE,)
        )
        late += int(row[0]) if row else 0
    return late


def _get_last_activity(db: Db) -> int:
    """When somebody last did something here."""
    row = db.row("SELECT at FROM steps ORDER BY id DESC LIMIT 1")
    return int(row[0]) if row else 0


class LedgerLine(Struct, frozen=True):
    """A ledger row as people read it."""

    id: Annotated[int, shown("Message", ShownAs.ID)]  # of the message
    direction: Annotated[Direction, shown("Way", head="way")]
    at: Annotated[int, shown("When", ShownAs.MOMENT)]
    instance: str
    address: Annotated[str, shown("Room", head="room")]
    thread: str
    sender: Annotated[str, shown("Who", details=True)]
    text: Annotated[str, shown("Text")]
    event: str
    state: Annotated[str, shown("State", ShownAs.BADGE)]
    reason: Annotated[str, shown("Why")]
    folder: str
    session: str | None
    seq: int
    turn: str | None
    tries: Annotated[int, shown("Tries", ShownAs.NUMBER, details=True)]
    platform_id: str | None
    changed_at: int  # since when it is in its state


_parse_line = make_row_parser(LedgerLine)


def list_lines(
    db: Db, state: str | None, limit: int, before: int = 0, among: Sequence[int] | None = None
) -> list[LedgerLine]:
    """The newest rows, oldest first; `state` may be one of either direction. `before`: only of messages with a smaller
    number. `among`: only of these messages, at most 500."""
    conditions, params = ["message_id IS NOT NULL"], list[str | int]()
    if state:
        conditions.append("state = ?")
        params.append(state)
    if before:
        conditions.append("message_id < ?")
        params.append(before)
    if among is not None:
        conditions.append(f"message_id IN ({messages.marks(among)})")
        params += among
    newest = f"WHERE {' AND '.join(conditions)} ORDER BY message_id DESC, id DESC LIMIT ?"
    rows = db.rows(  # the newest of each direction, so that the others are not looked at
        "SELECT m.id, m.direction, m.accepted_at, m.instance, m.address, m.thread, m.sender, m.text, m.event, x.state,"
        " x.reason, COALESCE(x.folder, m.folder), x.session_id, x.seq, x.turn_id, x.tries, m.platform_id, x.updated_at"
        " FROM ("
        " SELECT * FROM (SELECT id AS row_id, message_id, state, reason, folder, session_id, seq, turn_id, tries,"
        f" updated_at FROM inbox {newest}) a"
        " UNION ALL"
        " SELECT * FROM (SELECT id, message_id, state, reason, NULL, session_id, seq, turn_id, tries,"
        f" updated_at FROM outbox {newest}) b"
        ") x JOIN messages m ON m.id = x.message_id ORDER BY m.id DESC, x.row_id DESC LIMIT ?",
        (*params, limit, *params, limit, limit),
    )
    return [_parse_line(row) for row in reversed(rows)]


class TraceEvent(Struct, frozen=True):
    at: int
    what: str
    detail: str


class MessageTrace(Struct, frozen=True):
    message: Message
    entries: list[inbox.InboxEntry]
    moments: list[TraceEvent]
    effects: list[outbox.OutboxEffect]
    calls: list[costs.ModelCall]  # of models


def trace_message(db: Db, message_id: int) -> MessageTrace | None:
    """Everything that happened to a message and because of it, in order."""
    message = messages.get(db, message_id)
    if message is None:
        return None
    moments = [TraceEvent(message.accepted_at, "accepted", f"{message.instance} {message.address}")]
    moments += [TraceEvent(step.at, step.step, step.detail) for step in message_steps.list_for_message(db, message_id)]
    entries = inbox.list_for_message(db, message_id)
    effects = outbox.list_for_message(db, message_id)
    calls: list[costs.ModelCall] = []
    for entry in entries:
        if entry.turn_id is None:
            continue
        turn = turns.get(db, entry.turn_id)
        if turn is None:
            continue
        moments += [
            TraceEvent(at, f"call {action}", verdict)
            for at, _, action, verdict in audit.list_for_turns(db, [turn.id], turn.started_at, turn.ended_at)[turn.id]
        ]
        calls += costs.list_for_turn(db, turn.id, turn.started_at)
        moments += [
            TraceEvent(each.asked_at, "asks a person", f"{each.id} {each.state}: `gatepost permit show {each.id}`")
            for each in requests.list_for_turns(db, turn.session_id, [turn.id], MOST_REQUESTS)
        ]
        for effect in outbox.list_for_turn(db, turn.id):
            moments += _list_effect_events(db, effect, entry.seq)
            effects.append(effect)
        if gateways.get(db, turn.owner) is not None:
            moments.append(TraceEvent(turn.started_at, "gateway", turn.owner))
        if turn.ended_at is not None:
            moments.append(TraceEvent(turn.ended_at, f"turn {turn.state}", turn.error))
    moments.sort(key=lambda moment: moment.at)
    return MessageTrace(message, entries, moments, effects, calls)


def _list_effect_events(db: Db, effect: outbox.OutboxEffect, seq: int) -> list[TraceEvent]:
    """A turn answers several messages; only what answers this one, or nobody in particular, is part of its life."""
    answers: Any = effect.payload.get("in_reply_to")
    if answers is not None and answers != seq:
        return []
    return [
        TraceEvent(step.at, f"{effect.op} {step.step}", step.detail)
        for step in message_steps.list_for_message(db, effect.message_id)
    ]


def find_message(db: Db, wanted: str) -> int | None:
    """A message by its ledger id or by its platform id."""
    if wanted.isascii() and wanted.isdigit() and len(wanted) < 19:  # what an id can be
        found = messages.get(db, int(wanted))
        if found is not None:
            return found.id
    row = db.row("SELECT id FROM messages WHERE platform_id = ? ORDER BY id DESC LIMIT 1", (wanted,))
    return int(row[0]) if row else None


def was_removed(db: Db, message_id: int) -> bool:
    """Return True if a number lies before all that is kept: its message is gone because of its age."""
    row = db.row("SELECT id FROM messages ORDER BY id LIMIT 1")
    return row is not None and 0 < message_id < row[0]


def reset_due_times(db: Db, now: int) -> None:
    """Nobody looks at anything any more: what was only being waited for is due now. The wall clock may have been set
    back meanwhile: what then seems due in days is looked at soon."""
    db.run(f"UPDATE inbox SET next_at = ? WHERE {inbox.OPEN} AND state = 'queued' AND next_at > ?", (now, now))
    waiting = f"{inbox.OPEN} AND state <> 'held'"  # what waits for a person is looked at when their time is over
    for table, condition in (("inbox", waiting), ("outbox", _OPEN_OUT), ("turns", "ended_at IS NULL")):
        db.run(f"UPDATE {table} SET next_at = ? WHERE {condition} AND next_at > ?", (now + FARTHEST, now + FARTHEST))


class GatewayMeasurement(Struct, frozen=True):
    """`left_s`: how long its lease still lasts."""

    name: str
    state: GatewayState
    left_s: float


class StoreMeasurements(Struct, frozen=True, kw_only=True):
    """Numbers for those who watch a gateway. No names. A large ledger costs no more than a small one.

    `messages`: ever accepted, those that were removed since among them. `cost_micro`: of this day, UTC.
    """

    messages: int
    open_inbound: int
    open_outbound: int
    oldest_open_s: float
    failed_inbound: int
    pending_requests: int
    active_tasks: int
    cost_micro: int
    alerts: dict[str, int]  # that are open, by condition
    unaccounted: int
    overdue: int
    gateways: tuple[GatewayMeasurement, ...] = ()  # of several
    free_duties: int = 0  # that no gateway has


def measure(db: Db, now: int) -> StoreMeasurements:
    inbound, oldest_in = _get_open(db, "inbox", inbox.OPEN)
    outbound, oldest_out = _get_open(db, "outbox", _OPEN_OUT)
    oldest = min(now, oldest_in or now, oldest_out or now)
    status = check(db, now, newest=MOST_NEWEST)
    return StoreMeasurements(
        messages=_get_number(db, "SELECT COALESCE(MAX(id), 0) FROM messages"),
        open_inbound=inbound,
        open_outbound=outbound,
        oldest_open_s=(now - oldest) / SECOND,
        failed_inbound=_get_number(db, "SELECT COUNT(*) FROM inbox WHERE state = 'failed'"),
        pending_requests=_get_number(db, "SELECT COUNT(*) FROM requests WHERE state = 'pending'"),
        active_tasks=_get_number(db, "SELECT COUNT(*) FROM tasks WHERE state = 'active'"),
        cost_micro=_get_number(db, "SELECT COALESCE(SUM(micro), 0) FROM costs WHERE at >= ?", now - now % DAY),
        alerts=alerts.count_open(db),
        unaccounted=status.unaccounted,
        overdue=status.overdue,
        gateways=tuple(_measure_gateway(each, now) for each in gateways.list_all(db)),
        free_duties=sum(not each for each in gateways.list_duties(db).values()),
    )


def _measure_gateway(row: GatewayRow, now: int) -> GatewayMeasurement:
    """One whose lease is over is gone, although nobody may have said so yet."""
    state = row.state if is_living(row, now) else GatewayState.GONE
    return GatewayMeasurement(row.name, state, max(row.until - now, 0) / SECOND if state != GatewayState.GONE else 0.0)


def list_arrivals(db: Db, turn_ids: Sequence[str]) -> dict[str, int]:
    """Return when the first message of each turn came, by turn."""
    found: dict[str, int] = {}
    for at in range(0, len(turn_ids), MOST_NAMED):
        some = turn_ids[at : at + MOST_NAMED]
        rows = db.rows(
            "SELECT i.turn_id, MIN(m.accepted_at) FROM inbox i JOIN messages m ON m.id = i.message_id"
            f" WHERE i.turn_id IN ({', '.join('?' * len(some))}) AND i.mode <> 'observe' GROUP BY i.turn_id",
            tuple(some),
        )
        found |= {str(turn_id): int(accepted_at) for turn_id, accepted_at in rows}
    return found


def check_answers(db: Db) -> int:
    """Return whether the store answers at all."""
    return _get_number(db, "SELECT 1")


def _get_open(db: Db, table: str, condition: str) -> tuple[int, int | None]:
    row = db.row(f"SELECT COUNT(*), MIN(created_at) FROM {table} WHERE {condition}")
    return (int(row[0]), row[1]) if row else (0, None)


def _get_number(db: Db, sql: str, *params: int) -> int:
    row = db.row(sql, params)
    return int(row[0]) if row else 0
