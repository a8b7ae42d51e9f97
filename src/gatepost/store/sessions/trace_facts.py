"""Facts of one message's life in the ledger, for traces: ids, sizes, kinds, moments and costs. No text is kept.

A page of steps tells which messages may be over. A cursor over steps needs no state of its own: the step that ends a
message's life is the one that finds it whole.
"""

from collections import Counter
from collections.abc import Iterator, Sequence

from msgspec import Struct
from msgspec.structs import replace

from gatepost.messages.inbound import Direction, MessageKind
from gatepost.messages.outbound import Op
from gatepost.store.engine.table import make_row_parser
from gatepost.store.messages.inbox import END as INBOX_END
from gatepost.store.messages.inbox import InboxMode, InboxState
from gatepost.store.messages.outbox import END as OUTBOX_END
from gatepost.store.messages.outbox import EffectOrigin, EffectState
from gatepost.store.port import Db, Row
from gatepost.store.rights import audit
from gatepost.store.sessions import timeline
from gatepost.store.sessions.timeline import TimelineToolCall
from gatepost.store.sessions.turns import TurnState

MOST_STEPS, MOST_ENTRIES, MOST_EFFECTS, MOST_CALLS, MOST_LINKS = 100, 20, 100, 200, 20  # of one message
MOST_AUDITED = 5000  # rows of the audit that a page looks at
MOST_TOLD = 200  # entries of a session's timeline that it looks at
_NOTES = ("continue:", "history:")  # how the keys of what the gateway tells a turn that goes on begin
_RESULT = "errand:"  # how the key of the message that returns an errand's result begins
_ENDS = frozenset((*INBOX_END, *OUTBOX_END, "kept"))


class TracedMessage(Struct, frozen=True):
    id: int
    instance: str
    direction: Direction
    kind: MessageKind
    verb: str
    chars: int
    accepted_at: int
    platform_id: str


class TracedEntry(Struct, frozen=True):
    """The outcome of a message in one session."""

    id: int
    folder: str
    session_id: str | None
    seq: int
    mode: InboxMode
    rights: str
    turn_id: str | None
    state: InboxState
    tries: int
    created_at: int
    updated_at: int


class TracedStep(Struct, frozen=True):
    row_id: int | None
    at: int
    step: str


class TracedTurn(Struct, frozen=True):
    id: str
    provider: str
    attempt: int
    state: TurnState
    started_at: int
    ended_at: int | None


class TracedModelCall(Struct, frozen=True):
    id: int
    at: int
    booked_at: int
    model: str
    input: int
    output: int
    micro: int
    measured: bool


class TracedToolCall(Struct, frozen=True):
    """`ended_at`: None if it is not known."""

    at: int
    tool: str
    verdict: str
    ended_at: int | None = None


class TracedEffect(Struct, frozen=True):
    id: int
    message_id: int
    op: Op
    origin: EffectOrigin
    instance: str
    state: EffectState
    tries: int
    chars: int
    created_at: int
    updated_at: int


class TracedDelivery(Struct, frozen=True):
    effect: TracedEffect
    steps: tuple[TracedStep, ...]


class TracedCause(Struct, frozen=True):
    """A turn that worked on another message, which has a trace of its own. '': the whole message."""

    message_id: int
    accepted_at: int
    turn_id: str


class TracedWork(Struct, frozen=True):
    """One turn with all that it asked of models and tools. `beside`: the other messages that it worked on."""

    turn: TracedTurn
    models: tuple[TracedModelCall, ...]
    tools: tuple[TracedToolCall, ...]
    beside: tuple[TracedCause, ...]


class TraceFacts(Struct, frozen=True):
    message: TracedMessage
    entries: tuple[TracedEntry, ...]
    steps: tuple[TracedStep, ...]
    work: tuple[TracedWork, ...]
    deliveries: tuple[TracedDelivery, ...]
    causes: tuple[TracedCause, ...]


class TracePage(Struct, frozen=True):
    """`cursor`: all steps up to this one are dealt with."""

    cursor: int
    facts: tuple[TraceFacts, ...]


_parse_message = make_row_parser(TracedMessage)
_parse_entry = make_row_parser(TracedEntry)
_parse_turn = make_row_parser(TracedTurn)
_parse_call = make_row_parser(TracedModelCall)
_parse_effect = make_row_parser(TracedEffect)


def find_newest_step(db: Db) -> int:
    row = db.row("SELECT COALESCE(MAX(id), 0) FROM steps")
    return int(row[0]) if row else 0


def read_page(db: Db, after: int, until: int, most: int) -> TracePage:
    """The messages whose life ended with one of the next `most` steps, none after `until`."""
    rows = db.rows(
        "SELECT id, message_id, step FROM steps WHERE id > ? AND id <= ? ORDER BY id LIMIT ?", (after, until, most)
    )
    ended = dict.fromkeys(int(message_id) for _, message_id, step in rows if step in _ENDS)
    wanted = dict.fromkeys(root for each in ended for root in _list_roots(db, each))
    found = [facts for each in wanted if (facts := _read_life(db, each)) is not None]
    cursor = int(rows[-1][0]) if len(rows) == most else until
    return TracePage(cursor, tuple(_add_tool_calls(db, found)))


def _list_roots(db: Db, message_id: int) -> list[int]:
    """The messages whose trace this one belongs to: those that its turn worked on, or itself."""
    rows = db.rows(
        "SELECT i.message_id FROM outbox o JOIN inbox i ON i.turn_id = o.turn_id"
        " WHERE o.message_id = ? AND o.turn_id IS NOT NULL AND i.mode <> 'observe' ORDER BY i.seq",
        (message_id,),
    )
    return [int(row[0]) for row in rows] or [message_id]


def _read_life(db: Db, message_id: int) -> TraceFacts | None:
    """None: it is not over yet, it is gone, or it is only a note of the gateway to a turn."""
    row = db.row(
        "SELECT id, instance, direction, kind, verb, LENGTH(text), accepted_at, COALESCE(platform_id, '')"
        " FROM messages WHERE id = ?",
        (message_id,),
    )
    if row is None:
        return None
    message = _parse_message(row)
    if message.kind is MessageKind.SYSTEM and message.platform_id.startswith(_NOTES):
        return None
    entries = _list_entries(db, message_id)
    worked = [each for each in entries if each.turn_id is not None and each.mode is not InboxMode.OBSERVE]
    deliveries = _list_own_deliveries(db, message_id)
    for entry in worked:
        deliveries += _list_turn_deliveries(db, entry)
    if any(each.state not in INBOX_END for each in entries):
        return None
    if any(each.effect.state not in OUTBOX_END for each in deliveries):
        return None
    return TraceFacts(
        message=message,
        entries=entries,
        steps=_list_steps(db, message_id),
        work=tuple(work for each in worked if (work := _read_work(db, message_id, each)) is not None),
        deliveries=tuple(deliveries[:MOST_EFFECTS]),
        causes=tuple(_list_causes(db, message)),
    )


def _list_entries(db: Db, message_id: int) -> tuple[TracedEntry, ...]:
    rows = db.rows(
        "SELECT id, folder, session_id, seq, mode, rights, turn_id, state, tries, created_at, updated_at FROM inbox"
        " WHERE message_id = ? ORDER BY id LIMIT ?",
        (message_id, MOST_ENTRIES),
    )
    return tuple(map(_parse_entry, rows))


def _list_steps(db: Db, message_id: int) -> tuple[TracedStep, ...]:
    rows = db.rows(
        "SELECT row_id, at, step FROM steps WHERE message_id = ? ORDER BY id LIMIT ?", (message_id, MOST_STEPS)
    )
    return tuple(TracedStep(*row) for row in rows)


_EFFECTS = (
    "SELECT o.id, o.message_id, o.op, o.origin, o.instance, o.state, o.tries, LENGTH(m.text), o.created_at,"
    " o.updated_at FROM outbox o JOIN messages m ON m.id = o.message_id"
)


def _list_own_deliveries(db: Db, message_id: int) -> list[TracedDelivery]:
    return _parse_deliveries(db, db.rows(f"{_EFFECTS} WHERE o.message_id = ? ORDER BY o.id LIMIT 1", (message_id,)))


def _list_turn_deliveries(db: Db, entry: TracedEntry) -> list[TracedDelivery]:
    """Return what answers this message, or nobody in particular. Those that are not over come first: one of them is
    enough."""
    rows = db.rows(
        f"{_EFFECTS} WHERE o.turn_id = ? AND (o.answers IS NULL OR o.answers = ?)"
        " ORDER BY CASE WHEN o.state IN ('pending', 'sending') THEN 0 ELSE 1 END, o.id LIMIT ?",
        (entry.turn_id, entry.seq, MOST_EFFECTS),
    )
    return _parse_deliveries(db, rows)


def _parse_deliveries(db: Db, rows: Sequence[Row]) -> list[TracedDelivery]:
    effects = map(_parse_effect, rows)
    return [TracedDelivery(each, _list_steps(db, each.message_id)) for each in effects]


def _read_work(db: Db, message_id: int, entry: TracedEntry) -> TracedWork | None:
    row = db.row("SELECT id, provider, attempt, state, started_at, ended_at FROM turns WHERE id = ?", (entry.turn_id,))
    if row is None:
        return None
    turn = _parse_turn(row)
    calls = db.rows(
        "SELECT id, at, booked_at, model, input + cache_read + cache_write, output, micro, measured FROM costs"
        " WHERE session_id = ? AND at >= ? AND turn_id = ? ORDER BY at, id LIMIT ?",
        (entry.session_id, turn.started_at, turn.id, MOST_CALLS),
    )
    beside = tuple(each for each in _list_turn_messages(db, turn.id) if each.message_id != message_id)
    return TracedWork(turn, tuple(map(_parse_call, calls)), (), beside)


def _list_turn_messages(db: Db, turn_id: str) -> list[TracedCause]:
    """Return what a turn worked on, oldest first; notes of the gateway left out."""
    rows = db.rows(
        "SELECT m.id, m.accepted_at, COALESCE(m.platform_id, '') FROM inbox i JOIN messages m ON m.id = i.message_id"
        " WHERE i.turn_id = ? AND i.mode <> 'observe' ORDER BY i.seq LIMIT ?",
        (turn_id, MOST_LINKS),
    )
    return [TracedCause(int(row[0]), int(row[1]), turn_id) for row in rows if not str(row[2]).startswith(_NOTES)]


def _list_causes(db: Db, message: TracedMessage) -> list[TracedCause]:
    """An errand comes from the turn that gave it out, and its result from the errand."""
    found: list[TracedCause] = []
    given = db.row("SELECT caller_turn FROM errands WHERE message_id = ?", (message.id,))
    if given is not None and given[0]:
        found += _list_turn_messages(db, str(given[0]))[:1]
    if message.kind is MessageKind.SYSTEM and message.platform_id.startswith(_RESULT):
        asked = db.row(
            "SELECT m.id, m.accepted_at FROM errands e JOIN messages m ON m.id = e.message_id WHERE e.id = ?",
            (message.platform_id.removeprefix(_RESULT),),
        )
        if asked is not None:
            found.append(TracedCause(int(asked[0]), int(asked[1]), ""))
    return found


def _add_tool_calls(db: Db, found: Sequence[TraceFacts]) -> Iterator[TraceFacts]:
    """The audit has no index by turn: one look at it serves the whole page."""
    turns = {work.turn.id: work.turn for facts in found for work in facts.work}
    if not turns:
        yield from found
        return
    since = min(each.started_at for each in turns.values())
    until = max(each.ended_at or each.started_at for each in turns.values())
    audited = audit.list_for_turns(db, turns, since, until, MOST_AUDITED)
    calls = {
        turn: [TracedToolCall(at, tool, verdict) for at, _, tool, verdict in rows[:MOST_CALLS]]
        for turn, rows in audited.items()
    }
    sessions = {str(entry.session_id) for facts in found for entry in facts.entries if calls.get(entry.turn_id or "")}
    listed: dict[str, list[TimelineToolCall]] = {turn: [] for turn in calls}
    for name in sessions:
        for each in timeline.list_tool_calls(db, name, since, MOST_TOLD):
            listed.get(each.turn_id, []).append(each)
    calls = {turn: find_ends(some, listed[turn]) for turn, some in calls.items()}
    for facts in found:
        work = tuple(replace(each, tools=tuple(calls.get(each.turn.id, ()))) for each in facts.work)
        yield replace(facts, work=work)


def find_ends(calls: Sequence[TracedToolCall], listed: Sequence[TimelineToolCall]) -> list[TracedToolCall]:
    """The audit has the beginning of a call, the timeline its end. No id is in both: the first of a name is the first,
    if both know of as many."""
    ends: dict[str, list[int | None]] = {}
    for each in listed:
        ends.setdefault(each.name, []).append(each.ended_at)
    counts, seen = Counter(each.tool for each in calls), Counter[str]()
    found = []
    for call in calls:
        known = ends.get(call.tool, [])
        end = known[seen[call.tool]] if len(known) == counts[call.tool] else None
        seen[call.tool] += 1
        found.append(replace(call, ended_at=end))
    return found
