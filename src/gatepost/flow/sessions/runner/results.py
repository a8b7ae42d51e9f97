"""From what a runner hands over to rows of the ledger: one function on a transaction, judged by the ledger alone."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeVar

from msgspec import Struct

from gatepost.core.clock import SECOND
from gatepost.core.errors import Refused
from gatepost.flow.delivery.outgoing_messages import (
    ChannelInstances,
    OutgoingMessage,
    find_or_add,
    find_parts,
)
from gatepost.flow.intake.engagement import extend_by_reply
from gatepost.flow.requests.ask_approver import AskedRequest, AskingRules
from gatepost.flow.sessions.runner.result_rights import SEND, ResultRights
from gatepost.flow.sessions.session_deps import SessionDeps
from gatepost.mailbox import runner_frames
from gatepost.messages.outbound import Feature, Op, OutboundFile
from gatepost.messages.text_size import TextUnit, measure
from gatepost.store.messages import destinations, message_steps, outbox
from gatepost.store.messages.destinations import Destination, DestinationKind
from gatepost.store.messages.outbox import EffectOrigin, NewEffect, OutboxEffect
from gatepost.store.port import Db
from gatepost.store.sessions import agents, replays, turns
from gatepost.store.sessions.sessions import Session
from gatepost.store.sessions.turns import Turn

T = TypeVar("T")

DROPPED = "dropped"
MOST_AT_ONCE, LARGEST_AT_ONCE = 20, 64 * 1024  # results, and characters of them, that one transaction takes
MOST_STATUSES, STATUS_PAUSE = 200, SECOND // 4  # interim lines of a turn, and the time between two


class ResultLimits(Struct, frozen=True):
    """The limits of one turn: how many messages it may say, and how many bytes they may have together."""

    messages: int
    bytes: int

    def too_many_bytes(self) -> str:
        return f"the agent said more than {self.bytes:,} bytes in one turn"


class RecordedResults(Struct, frozen=True):
    """The outcome of the results: an answer for each, and the rooms to ring. `exceeded`: the turn must end."""

    answers: tuple[runner_frames.AckFrame, ...]
    rooms: tuple[tuple[str, str], ...]
    exceeded: str = ""  # the turn that said too many bytes
    asked: bool = False  # people are asked about a part of it


class _RecordedResult(Struct, frozen=True):
    """The outcome of one result."""

    answer: runner_frames.AckFrame
    effects: Sequence[OutboxEffect] = ()
    asked: AskedRequest | None = None


def split_batches(frames: Iterable[T]) -> Iterator[T | list[runner_frames.ResultFrame]]:
    """Return frames in order, and results among them that came together as one transaction each should take them:
    everybody's writes wait for it."""
    some: list[runner_frames.ResultFrame] = []
    size = 0
    for frame in frames:
        if not isinstance(frame, runner_frames.ResultFrame):
            if some:
                yield some
            some, size = [], 0
            yield frame
            continue
        if some and (len(some) >= MOST_AT_ONCE or size + len(frame.text) > LARGEST_AT_ONCE):
            yield some
            some, size = [], 0
        some.append(frame)
        size += len(frame.text)
    if some:
        yield some


def record_results(
    db: Db,
    channels: ChannelInstances,
    session_id: str,
    results: list[tuple[runner_frames.ResultFrame, tuple[OutboundFile, ...]]],
    limits: ResultLimits,
    now: int,
    asking: Callable[[], AskingRules] | None = None,
) -> RecordedResults:
    """Put results on their way. Idempotent: the key is (turn, attempt, part). The word of an old epoch or
    another session is not believed; what is over the limit is not taken. `asking`: None, if nobody can be asked about
    what a rule holds."""
    done: list[_RecordedResult] = []
    exceeded = ""
    rights: dict[str, ResultRights] = {}  # by turn, of those that do more than answer
    for frame, files in results:
        claimed = None
        if frame.part < limits.messages:  # one statement: nearly every result is what it should be
            size, attempt = measure(frame.text, TextUnit.BYTES), frame.attempt
            claimed = turns.claim_bytes(
                db, frame.turn, frame.epoch, size, limits.bytes, session_id=session_id, attempt=attempt
            )
        if claimed is not None:
            turn, extends_at = claimed
            recorded = _record_result(db, channels, turn, frame, files, now, rights, asking)
            if recorded.effects and not frame.to and extends_at is not None and extends_at <= now:
                extend_by_reply(db, turn, now)
        else:
            answer, effects, over = _explain_refusal(db, session_id, frame, limits, now)
            recorded, exceeded = _RecordedResult(answer, effects), over or exceeded
        done.append(recorded)
    rooms = {(effect.instance, effect.address) for each in done for effect in each.effects}
    rooms |= {room for each in done if each.asked is not None for room in each.asked.rooms}
    asked = any(each.asked is not None for each in done)
    return RecordedResults(tuple(each.answer for each in done), tuple(rooms), exceeded, asked)


def _explain_refusal(
    db: Db, session_id: str, frame: runner_frames.ResultFrame, limits: ResultLimits, now: int
) -> tuple[runner_frames.AckFrame, list[OutboxEffect], str]:
    """Return why a turn may not say this, or what it was confirmed as before; and the turn that said too many bytes."""
    turn = turns.get(db, frame.turn)
    exceeded = ""
    if turn is None or turn.session_id != session_id or turn.epoch != frame.epoch:
        error = "this turn is not yours"
    elif turn.ended_at is not None and outbox.find_by_key(db, key_of(frame)) is None:
        _note_dropped(db, turn, now)
        error = "this turn has ended"
    elif frame.attempt != turn.attempt or frame.part >= limits.messages:
        error = f"a turn may say {limits.messages} messages at most"
    elif earlier := find_parts(db, key_of(frame)):
        return runner_frames.AckFrame(id=frame.id, seq=earlier[0].seq), earlier, ""
    else:
        error, exceeded = limits.too_many_bytes(), turn.id
    return runner_frames.AckFrame(id=frame.id, ok=False, error=error), [], exceeded


def _note_dropped(db: Db, turn: Turn, now: int) -> None:
    """A turn that was stopped, or has ended otherwise, is not added to. That there was more is written down, once: the
    first message tells whether it was."""
    for row_id, message_id in turns.messages_of(db, turn.id):
        if any(step.step == DROPPED for step in message_steps.list_for_message(db, message_id)):
            return
        message_steps.add(db, message_id, row_id, now, DROPPED, "what the agent said and could not hand over in time")


def key_of(frame: runner_frames.ResultFrame) -> str:
    """Return the key of the effect that a result becomes."""
    return f"{frame.turn}/{frame.attempt}/{frame.part}"


def _record_result(
    db: Db,
    channels: ChannelInstances,
    turn: Turn,
    frame: runner_frames.ResultFrame,
    files: tuple[OutboundFile, ...],
    now: int,
    rights: dict[str, ResultRights],
    asking: Callable[[], AskingRules] | None,
) -> _RecordedResult:
    """`turn` has counted its bytes; they are given back if it says nothing new."""
    where = (turn.instance, turn.address, turn.thread)
    replayed = turn.instance == replays.INSTANCE  # it speaks to nobody, whoever it names
    if frame.to and not replayed:
        found = destinations.get(db, turn.folder, frame.to)
        if found is None or found.kind != DestinationKind.ROOM:
            known = ", ".join(
                each.name for each in destinations.list_for_group(db, turn.folder) if each.kind == DestinationKind.ROOM
            )
            return _refuse(db, turn, frame, f"no destination is named {frame.to!r}; there are: {known or 'none'}")
        where = (found.instance, found.address, found.thread)
        if where[:2] != (turn.instance, turn.address) and outbox.find_by_key(db, key_of(frame)) is None:
            judged = _find_rights(db, channels, turn, now, rights)
            stopped = _judge_block(judged, channels, frame, found, files, asking)
            if stopped is not None:
                return _refuse(db, turn, frame, *stopped)
    if (
        files
        and not replayed
        and not _find_rights(db, channels, turn, now, rights).may_give_files(frame.text, where[1])
    ):
        files = ()
    new = OutgoingMessage(
        key=key_of(frame),
        origin=EffectOrigin.RESULT,
        instance=where[0],
        address=where[1],
        thread=where[2],
        topic=turn.topic if where[:2] == (turn.instance, turn.address) else "",
        text=frame.text,
        folder=turn.folder,
        session_id=turn.session_id,
        turn_id=turn.id,
        attempt=frame.attempt,
        reply_to_id=None,
        in_reply_to=frame.in_reply_to,
        files=files,
        grows=not frame.to and channels.get_kind(turn.instance).drafts,
    )
    effects, added = find_or_add(db, channels, new, now)
    if not added:  # handed over before, or said by this turn already
        turns.return_bytes(db, turn.id, measure(frame.text, TextUnit.BYTES))
    elif not frame.to and turn.instance == agents.INSTANCE:
        agents.record_text(db, turn, frame.text, now)
    return _RecordedResult(runner_frames.AckFrame(id=frame.id, seq=effects[0].seq if effects else 0), effects)


def _refuse(
    db: Db, turn: Turn, frame: runner_frames.ResultFrame, why: str, asked: AskedRequest | None = None
) -> _RecordedResult:
    """The runner tells its agent; the rest of the turn is well."""
    turns.return_bytes(db, turn.id, measure(frame.text, TextUnit.BYTES))
    return _RecordedResult(runner_frames.AckFrame(id=frame.id, error=why[: runner_frames.LONGEST_ERROR]), asked=asked)


def _find_rights(
    db: Db, channels: ChannelInstances, turn: Turn, now: int, rights: dict[str, ResultRights]
) -> ResultRights:
    if turn.id not in rights:
        rights[turn.id] = ResultRights(db, channels, turn, now)
    return rights[turn.id]


def _judge_block(
    rights: ResultRights,
    channels: ChannelInstances,
    frame: runner_frames.ResultFrame,
    place: Destination,
    files: Sequence[OutboundFile],
    asking: Callable[[], AskingRules] | None,
) -> tuple[str, AskedRequest | None] | None:
    """Why a block is not said in its room now, and who is asked about it; None: it may be said."""
    if why := rights.find_refusal(SEND, frame.text, place.address):
        return why, None
    holds = rights.list_holds(SEND, frame.text, place.address)
    if not holds:
        return None
    if files or asking is None:
        return "a person must agree to it; use send, or send_file for files", None
    try:
        asked = rights.hold(channels, asking(), key_of(frame), frame.text, place, holds)
    except Refused as error:
        return str(error), None
    if asked is None:
        return None
    return f"it waits for a person's decision (request {asked.request.id}); what becomes of it is told later", asked


class StatusLines:
    """Interim lines of a turn: one message that is edited, where the channel can do that, and deleted when the turn
    ends, where nothing shows that it was. Some may be lost. On channels that the gateway itself is, the page folds
    them."""

    def __init__(self, deps: SessionDeps, session: Session) -> None:
        self._deps, self._session = deps, session
        self.shown_in = ("", 0)  # the last turn that had some, and its epoch
        self._shown = self._next_at = 0

    async def show(self, turn: Turn, text: str) -> None:
        channels = self._deps.channels
        if Feature.EDIT not in channels.get_kind(turn.instance).features:
            return
        now, moment = self._deps.clock.now(), self._deps.clock.monotonic()
        place = (turn.id, turn.epoch)
        shown = self._shown if place == self.shown_in else 0
        if shown >= MOST_STATUSES or moment < self._next_at:
            return  # the next one says more
        self.shown_in, self._shown, self._next_at = place, shown + 1, moment + STATUS_PAUSE
        given = (channels, turn.id, turn.epoch, text, self._shown, now)
        room = await self._deps.store.write(record_status, *given, durable=False, lane=self._session.id)
        if room is not None:
            self._deps.events.room(*room)


def record_status(
    db: Db, channels: ChannelInstances, turn_id: str, epoch: int, text: str, number: int, now: int
) -> tuple[str, str] | None:
    """Add an interim line: the first is a message, and later ones edit it. One that was not shown yet gives way to the
    newer. Return the room to ring, None if the turn is over."""
    turn = turns.get(db, turn_id)
    if turn is None or turn.epoch != epoch or turn.ended_at is not None:
        return None
    first = turns.find_interim_lines(db, turn_id)
    if first is not None:
        outbox.supersede_edits(db, turn_id, EffectOrigin.STATUS, now)
    outbox.add(
        db,
        NewEffect(
            key=f"{turn_id}/status" if first is None else f"{turn_id}/status/{epoch}/{number}",
            op=Op.SEND if first is None else Op.EDIT,
            origin=EffectOrigin.STATUS,
            instance=turn.instance,
            address=turn.address,
            thread=turn.thread,
            text=text,
            payload={"text": text},
            hidden={turns.TRANSIENT: True} if channels.deletes_unseen(turn.instance) else {},
            folder=turn.folder,
            session_id=turn.session_id,
            turn_id=turn_id,
            attempt=turn.attempt,
            target_id=None if first is None else first.message_id,
        ),
        now,
    )
    return turn.instance, turn.address
