"""Replays: sessions that are given the messages of another one again, to see what other settings make of them.

A replay has a room of its own without people. An effect there is in its end state from its first moment, so no delivery
ever sees it (`outbox.insert`). Each turn of the source becomes a thread there, so that it is a turn again.
"""

from collections.abc import Sequence

from msgspec import Struct

from gatepost.messages.inbound import Direction
from gatepost.messages.outbound import Op
from gatepost.store.engine.table import Table
from gatepost.store.messages import inbox, outbox
from gatepost.store.messages.inbox import InboxEntry, InboxMode
from gatepost.store.messages.messages import MESSAGES, Message, marks
from gatepost.store.messages.outbox import REPLAY_INSTANCE, EffectOrigin, EffectState
from gatepost.store.money import costs
from gatepost.store.port import Db
from gatepost.store.sessions import turns
from gatepost.store.sessions.turns import TURNS, Turn, TurnState

INSTANCE = PLATFORM = REPLAY_INSTANCE
MOST_SAID = 200  # effects of one turn that are compared
_LEFT_OUT = ("continued", "history")  # what the gateway says of a turn that broke off, or of another provider


class Replay(Struct, frozen=True):
    session_id: str
    source_id: str
    folder: str
    changes: dict[str, str]
    created_by: str
    created_at: int


class ReplayTurn(Struct, frozen=True):
    session_id: str
    number: int
    source_turn: str


class TurnOutcome(Struct, frozen=True):
    """How a turn went. `micro`: what it cost; `took`: how long, both in millionths."""

    state: TurnState
    error: str
    answer: str
    micro: int
    took: int | None


class ReplayedTurn(Struct, frozen=True, kw_only=True):
    """`original`: None if it is not there any more; `replayed`: None if it has not begun."""

    number: int
    input: str
    original: TurnOutcome | None
    replayed: TurnOutcome | None


class StartedReplay(Struct, frozen=True):
    """`session_id`: of the replay, which compare_replay takes as `replayId`; `turns`: how many it repeats."""

    session_id: str
    source_id: str
    folder: str
    turns: int
    replayId: str


REPLAYS = Table("replays", Replay)
REPLAY_TURNS = Table("replay_turns", ReplayTurn)


def get_address(session_id: str) -> str:
    return f"{PLATFORM}:{session_id}"


def add(db: Db, new: Replay, source_turns: Sequence[str], changes: str) -> None:
    REPLAYS.insert(
        db,
        session_id=new.session_id,
        source_id=new.source_id,
        folder=new.folder,
        changes=changes,
        created_by=new.created_by,
        created_at=new.created_at,
    )
    for number, turn_id in enumerate(source_turns, start=1):
        REPLAY_TURNS.insert(db, session_id=new.session_id, number=number, source_turn=turn_id)


def get(db: Db, session_id: str) -> Replay | None:
    return REPLAYS.get(db, "WHERE session_id = ?", session_id)


def list_of_source(db: Db, source_id: str, most: int) -> list[Replay]:
    """The newest first."""
    return REPLAYS.list(db, "WHERE source_id = ? ORDER BY created_at DESC LIMIT ?", source_id, most)


def count_open(db: Db, folder: str) -> int:
    row = db.row(
        "SELECT COUNT(*) FROM replays r JOIN sessions s ON s.id = r.session_id"
        " WHERE r.folder = ? AND s.closed_at IS NULL",
        (folder,),
    )
    return int(row[0]) if row else 0


def list_rooms_about(db: Db, people: Sequence[str]) -> list[tuple[str, str]]:
    """The rooms of replays that repeat what one of these people wrote."""
    rows = db.rows(
        "SELECT r.session_id FROM replays r WHERE EXISTS (SELECT 1 FROM inbox i JOIN messages m ON m.id = i.message_id"
        f" WHERE i.session_id = r.source_id AND m.sender IN ({marks(people)})) ORDER BY r.session_id",
        tuple(people),
    )
    return [(INSTANCE, get_address(str(row[0]))) for row in rows]


def list_inputs(db: Db, turn_id: str) -> list[tuple[InboxEntry, Message]]:
    """Return what a turn was given to answer. A turn that made its conversation shorter has none."""
    pairs = inbox.list_for_turn(db, turn_id)
    if any(entry.mode is InboxMode.COMPACT for entry, _ in pairs):
        return []
    return [
        (entry, message)
        for entry, message in pairs
        if entry.mode is not InboxMode.OBSERVE
        and message.direction == Direction.IN
        and message.content.get("event") not in _LEFT_OUT
    ]


class ContextWindow(Struct, frozen=True):
    """How much observed context a turn was shown at most: messages, and their characters together."""

    messages: int
    chars: int


class ObservedMessage(Struct, frozen=True):
    seq: int
    message: Message


def list_context(db: Db, session_id: str, turn_id: str, window: ContextWindow) -> list[ObservedMessage]:
    """Return what a turn was shown beside its input: observed between the last turn that ended well and its own last
    message, the newest that fit, oldest first."""
    row = db.row("SELECT MIN(seq), MAX(seq) FROM inbox WHERE turn_id = ?", (turn_id,))
    if row is None or row[0] is None:
        return []
    first, last = row
    before = db.row(
        "SELECT i.seq FROM inbox i JOIN turns t ON t.id = i.turn_id WHERE i.session_id = ? AND i.seq < ?"
        " AND t.state = 'done' ORDER BY i.seq DESC LIMIT 1",
        (session_id, first),
    )
    rows = db.rows(
        "SELECT i.seq, LENGTH(m.text), m.id FROM inbox i JOIN messages m ON m.id = i.message_id"
        " WHERE i.session_id = ? AND i.mode = 'observe' AND i.seq > ? AND i.seq < ? ORDER BY i.seq DESC LIMIT ?",
        (session_id, before[0] if before else -1, last, window.messages),
    )
    found: list[ObservedMessage] = []
    left = window.chars
    for seq, length, message_id in rows:
        left -= length
        message = MESSAGES.get(db, "WHERE id = ?", message_id) if left >= 0 else None
        if message is None:
            break
        found.append(ObservedMessage(seq, message))
    return found[::-1]


def compare(db: Db, replay: Replay, longest: int) -> list[ReplayedTurn]:
    """Turn by turn. Each text is cut to so many characters."""
    found = []
    for each in REPLAY_TURNS.list(db, "WHERE session_id = ? ORDER BY number", replay.session_id):
        room = get_address(replay.session_id)
        repeated = TURNS.list(
            db,
            "WHERE session_id = ? AND address = ? AND thread = ? ORDER BY started_at",
            replay.session_id,
            room,
            str(each.number),
        )
        source = turns.get(db, each.source_turn)
        said = "\n\n".join(message.text for _, message in list_inputs(db, each.source_turn))
        found.append(
            ReplayedTurn(
                number=each.number,
                input=said[:longest],
                original=_measure(db, source, longest) if source is not None else None,
                replayed=_measure(db, repeated[-1], longest) if repeated else None,
            )
        )
    return found


def _measure(db: Db, turn: Turn, longest: int) -> TurnOutcome:
    effects = outbox.list_for_turn(db, turn.id)[:MOST_SAID]
    said = [
        str(each.payload.get("text", ""))
        for each in effects
        if each.op is Op.SEND
        and each.origin in (EffectOrigin.RESULT, EffectOrigin.TOOL)
        and each.state not in (EffectState.SUPERSEDED, EffectState.CANCELLED)
    ]
    return TurnOutcome(
        state=turn.state,
        error=turn.error[:longest],
        answer="\n\n".join(said)[:longest],
        micro=sum(each.micro for each in costs.list_for_turn(db, turn.id, turn.started_at)),
        took=None if turn.ended_at is None else turn.ended_at - turn.started_at,
    )
