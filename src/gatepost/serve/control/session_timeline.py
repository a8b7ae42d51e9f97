"""One conversation as a time line: what was said, its turns, and what was done and asked in them. Every amount has a
bound: a page asks for it again with each change."""

from collections.abc import Iterator, Sequence

from msgspec import Struct

from gatepost.messages.inbound import Direction, MessageKind
from gatepost.serve.control.arguments.sessions import SessionEvent, SessionEventKind
from gatepost.store.messages import messages
from gatepost.store.money import costs
from gatepost.store.port import Db
from gatepost.store.rights import audit, requests
from gatepost.store.sessions import errands, forks, replays, turns
from gatepost.store.sessions.sessions import Session
from gatepost.store.sessions.turns import Turn

MOST_TURNS, MOST_CALLS, MOST_REQUESTS, MOST_COPIES = 60, 100, 20, 50  # that are shown; calls and requests: of a turn
MOST_AUDIT_ROWS = 2000  # that are searched for calls of tools
MOST_ERRANDS = 1000  # that are searched for those of this conversation
LONGEST_SHOWN = 4000  # characters of one text
LARGEST_SHOWN = 60_000  # and of all messages
NEVER = 2**62


class SessionTimeline(Struct, frozen=True):
    """`older`: the number before which there is more; 0 if there is nothing."""

    events: list[SessionEvent]
    older: int


class _Window(Struct, frozen=True):
    """From when until when the shown messages lie."""

    since: int
    until: int

    def has(self, at: int) -> bool:
        return self.since <= at < self.until


def read_timeline(db: Db, session: Session, before: int, limit: int) -> SessionTimeline:
    """The newest messages before a number, and what happened between them; oldest first."""
    rows, more = messages.list_for_session(db, session.id, before or NEVER, limit, LARGEST_SHOWN)
    oldest = rows[-1] if rows else None
    last = messages.find_by_seq(db, session.id, before) if before else None
    window = _Window(
        oldest[1].accepted_at if oldest is not None and more else 0, last.accepted_at if last is not None else NEVER
    )
    said = [_make_message(message) for _, message, _ in rows if message.text]
    events = [*said, *_list_turns(db, session, window), *_list_copies(db, session, window)]
    older = oldest[0] if oldest is not None and more else 0
    return SessionTimeline(sorted(events, key=lambda each: each.at), older)


def _make_message(message: messages.Message) -> SessionEvent:
    kind = SessionEventKind.MESSAGE if message.direction == Direction.IN else SessionEventKind.ANSWER
    return SessionEvent(
        at=message.accepted_at,
        kind=SessionEventKind.NOTE if message.kind == MessageKind.SYSTEM else kind,
        who=(message.sender_name or message.sender) if message.direction == Direction.IN else "",
        text=message.text[:LONGEST_SHOWN],
        ref=str(message.id),
    )


def _list_turns(db: Db, session: Session, window: _Window) -> Iterator[SessionEvent]:
    shown = [
        each
        for each in turns.list_for_session(db, session.id, window.until, MOST_TURNS)
        if (each.ended_at or NEVER) >= window.since
    ]
    if not shown:
        return
    since = min(each.started_at for each in shown)
    spent = costs.sum_for_turns(db, session.id, since)
    called = audit.list_for_turns(db, [each.id for each in shown], since, None, MOST_AUDIT_ROWS)
    for turn in shown:
        yield SessionEvent(
            at=turn.started_at,
            kind=SessionEventKind.TURN,
            who=turn.provider,
            text=turn.error[:LONGEST_SHOWN],
            state=turn.state,
            ref=turn.id,
            cost=spent.get(turn.id, 0),
        )
        for at, _, action, verdict in called[turn.id][-MOST_CALLS:]:
            yield SessionEvent(at=at, kind=SessionEventKind.CALL, text=action, state=verdict, ref=turn.id)
    yield from _list_asked(db, session, shown)


def _list_asked(db: Db, session: Session, shown: Sequence[Turn]) -> Iterator[SessionEvent]:
    for each in requests.list_for_turns(db, session.id, [turn.id for turn in shown], MOST_REQUESTS):
        yield SessionEvent(
            at=each.asked_at,
            kind=SessionEventKind.REQUEST,
            who=each.answered_by,
            text=f"{each.kind} {each.tool or each.name}"[:LONGEST_SHOWN],
            state=each.state,
            ref=each.id,
        )


def _list_copies(db: Db, session: Session, window: _Window) -> Iterator[SessionEvent]:
    """Yield what was given to others, and what began with what this conversation knows."""
    for errand in errands.list_lately_given_out(db, session.id, MOST_ERRANDS):
        if window.has(errand.created_at):
            yield SessionEvent(
                at=errand.created_at,
                kind=SessionEventKind.ERRAND,
                who=errand.folder,
                text=errand.reason[:LONGEST_SHOWN],
                state=errand.state,
                ref=errand.id,
            )
    for fork in forks.list_children(db, session.id, MOST_COPIES):
        if window.has(fork.created_at):
            yield SessionEvent(
                at=fork.created_at, kind=SessionEventKind.FORK, who=fork.provider, state=fork.how, ref=fork.child_id
            )
    for replay in replays.list_of_source(db, session.id, MOST_COPIES):
        if window.has(replay.created_at):
            changed = ", ".join(f"{name}: {value}" for name, value in replay.changes.items())
            yield SessionEvent(
                at=replay.created_at,
                kind=SessionEventKind.REPLAY,
                who=replay.created_by,
                text=changed[:LONGEST_SHOWN],
                ref=replay.session_id,
            )
