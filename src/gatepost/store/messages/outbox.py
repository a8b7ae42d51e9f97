"""Outbox: every outward effect, committed before anybody is told that it will happen.

    pending → sending → sent · failed · superseded · cancelled · uncertain

`key` is the effect's identity: handed over twice, it is one row. A room's rows go out one after another, so that a
later one never overtakes an earlier one. Only what is urgent does: a card by which somebody decides must not wait
behind what its agent has queued. Urgent rows keep their own order.
"""

import hashlib
import json
from collections.abc import Sequence
from enum import StrEnum
from typing import Annotated, Any

from msgspec import Struct

from gatepost.core.record_fields import ShownAs, shown
from gatepost.messages.inbound import Direction, MessageKind
from gatepost.messages.outbound import MESSAGES, TARGETED, Op
from gatepost.store.engine.table import Table, make_row_parser
from gatepost.store.messages import message_steps, messages
from gatepost.store.messages.messages import NewMessage
from gatepost.store.port import Db, LockKind, OutdatedDecision, inline_read
from gatepost.store.rights.switches import PANIC
from gatepost.store.sessions import sessions

STUCK = 3  # tries after which a message that waits is told of
MOST_OVERTAKING = 50  # rows behind a stuck file among which words are looked for


class EffectState(StrEnum):
    PENDING = "pending"
    SENDING = "sending"
    SENT = "sent"
    FAILED = "failed"
    SUPERSEDED = "superseded"
    CANCELLED = "cancelled"
    UNCERTAIN = "uncertain"


class EffectOrigin(StrEnum):
    RESULT = "result"
    TOOL = "tool"
    NOTICE = "notice"
    STATUS = "status"
    HISTORY = "history"  # said before the gateway saw the room


END = tuple(EffectState)[2:]
REFUSAL = "refusal"  # in a payload: why the platform did not deliver it
STALE = "stale"  # the reason of what could not be sent in time
REPLAY_INSTANCE = "replay"  # of the rooms of replays, in which nobody is: what is said there is never to be sent


class OutboxEffect(Struct, frozen=True):
    id: int
    key: str
    message_id: int
    session_id: str | None
    seq: int
    turn_id: str | None
    attempt: int
    origin: EffectOrigin
    op: Annotated[Op, shown("What")]
    instance: str
    address: Annotated[str, shown("Where")]
    thread: str
    target_id: int | None
    payload: dict[str, Any]
    state: Annotated[EffectState, shown("State", ShownAs.BADGE)]
    reason: Annotated[str, shown("Why")]
    tries: Annotated[int, shown("Tries", ShownAs.NUMBER)]
    next_at: int | None
    owner: str
    lease_until: int
    epoch: int
    created_at: int
    updated_at: int
    urgent: bool = False


OUTBOX = Table("outbox", OutboxEffect)


class NewEffect(Struct, frozen=True, kw_only=True):
    key: str
    op: Op
    origin: EffectOrigin
    instance: str
    address: str
    thread: str = ""
    text: str = ""
    payload: dict[str, Any]
    hidden: dict[str, Any] = {}  # goes out in the place of the payload's; the ledger, which agents read, has it not
    folder: str = ""
    session_id: str | None = None
    turn_id: str | None = None
    attempt: int = 1
    target_id: int | None = None
    topic: str = ""  # that it is said about, if it is not a thread
    urgent: bool = False  # goes out before what is not, unless that is being sent


def add(db: Db, new: NewEffect, now: int) -> OutboxEffect:
    """The effect of that key: made pending, or the one that was there."""
    db.lock(LockKind.ROOM, new.instance, new.address)
    return find_by_key(db, new.key) or insert(db, new, now)


def insert(db: Db, new: NewEffect, now: int) -> OutboxEffect:
    """Make it pending; the caller has seen in this transaction that its key is free. In a room of a replay it is over
    from its first moment: no delivery ever sees it."""
    kept = new.instance == REPLAY_INSTANCE
    db.lock(LockKind.ROOM, new.instance, new.address)
    get_seq = sessions.ask_seq(db, new.session_id, now) if new.session_id else None
    event = "message" if new.op in MESSAGES else f"{new.op}:{new.key}"
    message_id = messages.accept(
        db,
        NewMessage(
            instance=new.instance,
            address=new.address,
            thread=new.thread,
            direction=Direction.OUT,
            event=event,
            kind=MessageKind.CHAT if new.origin != EffectOrigin.NOTICE else MessageKind.SYSTEM,
            verb=new.op,
            sender=f"agent:{new.folder}" if new.folder else messages.SYSTEM,
            text=new.text,
            content=json.dumps({**new.payload, "target_id": new.target_id}),
            folder=new.folder,
            topic=new.topic,
            at=now,
        ),
        now,
    )
    assert message_id is not None  # platform_id is NULL, so the identity cannot clash
    may_repeat = new.turn_id is not None and new.op == Op.SEND and new.origin != EffectOrigin.STATUS
    made = OUTBOX.put(
        db,
        key=new.key,
        message_id=message_id,
        session_id=new.session_id,
        seq=get_seq() if get_seq is not None else 0,
        turn_id=new.turn_id,
        attempt=new.attempt,
        origin=new.origin,
        op=new.op,
        instance=new.instance,
        address=new.address,
        thread=new.thread,
        target_id=new.target_id,
        payload=json.dumps({**new.payload, **new.hidden}),
        digest=_digest(new.instance, new.address, new.text) if may_repeat else "",
        answers=new.payload.get("in_reply_to"),
        state=EffectState.SENT if kept else EffectState.PENDING,
        next_at=None if kept else now,
        created_at=now,
        updated_at=now,
        urgent=int(new.urgent),
    )
    step = ("kept", "a replay") if kept else ("pending", f"{new.origin} {new.op}")
    message_steps.add(db, message_id, made.id, now, *step)
    return made


def _digest(instance: str, address: str, text: str) -> str:
    """Return the digest of what is said in a room."""
    return hashlib.sha256("\0".join((instance, address, text)).encode("utf-8", "surrogatepass")).hexdigest()


def has_unsent_edit(db: Db, message_id: int) -> bool:
    """Return True if an edit of a message waits to be sent."""
    waiting = "target_id = ? AND op = 'edit' AND state IN ('pending', 'sending')"
    return db.row(f"SELECT 1 FROM outbox WHERE {waiting} LIMIT 1", (message_id,)) is not None


@inline_read
def find_by_key(db: Db, key: str) -> OutboxEffect | None:
    return OUTBOX.get(db, "WHERE key = ?", key)


@inline_read
def get(db: Db, effect_id: int) -> OutboxEffect | None:
    return OUTBOX.get(db, "WHERE id = ?", effect_id)


def list_for_turn(db: Db, turn_id: str) -> list[OutboxEffect]:
    return OUTBOX.list(db, "WHERE turn_id = ? ORDER BY id", turn_id)


class TurnToolEffects(Struct, frozen=True):
    """Return how many effects tools have had in a turn at most, and True if it has failed."""

    effects: int
    failed: bool


def count_by_tools(db: Db, session_id: str, turn_id: str | None, most: int = 0) -> TurnToolEffects:
    """None: outside of a turn, since the session last got something. `most`: a number up to this need not be exact.
    Each effect has a number in its session, so a turn has had no more of them than numbers since its first message.
    """
    if turn_id is not None:
        row = db.row(
            "SELECT (SELECT next_seq FROM sessions WHERE id = ?) - (SELECT MIN(seq) FROM inbox WHERE turn_id = ?),"
            " COALESCE((SELECT state = 'failed' FROM turns WHERE id = ?), FALSE)",
            (session_id, turn_id, turn_id),
        )
        assert row is not None
        if row[0] is None or row[0] > most:
            own = "SELECT COUNT(*) FROM outbox WHERE turn_id = ? AND origin = 'tool'"
            row = (*(db.row(own, (turn_id,)) or (0,)), row[1])
    else:
        row = db.row(
            "SELECT COUNT(*), FALSE FROM outbox WHERE session_id = ? AND origin = 'tool' AND turn_id IS NULL"
            " AND seq > 0 AND seq > COALESCE((SELECT MAX(seq) FROM inbox WHERE session_id = ?), 0)",
            (session_id, session_id),
        )
    assert row is not None
    return TurnToolEffects(int(row[0]), bool(row[1]))


# Something that was said or done, interim lines left out.
DONE = "origin <> 'status' AND state NOT IN ('superseded', 'cancelled')"


class DoneInTurn(Struct, frozen=True):
    """One thing that a turn has said or done; the text may be cut."""

    op: Op
    text: str
    seq: int
    answers: int | None
    state: EffectState


_parse_done = make_row_parser(DoneInTurn)


def has_done_any(db: Db, turn_id: str) -> bool:
    """Return True if a turn has said or done anything, interim lines left out."""
    return db.row(f"SELECT 1 FROM outbox WHERE turn_id = ? AND {DONE} LIMIT 1", (turn_id,)) is not None


def count_done(db: Db, turn_id: str) -> int:
    row = db.row(f"SELECT COUNT(*) FROM outbox WHERE turn_id = ? AND {DONE}", (turn_id,))
    assert row is not None
    return int(row[0])


def list_done_in_turn(db: Db, turn_id: str, most: int, longest: int) -> list[DoneInTurn]:
    """Return the last `most` effects of a turn without its interim lines, oldest first. Each text is cut after
    `longest` characters and one more, which shows that there is more."""
    rows = db.rows(
        "SELECT o.op, SUBSTR(m.text, 1, CAST(? AS INTEGER)), o.seq, o.answers, o.state FROM outbox o JOIN messages m"
        " ON m.id = o.message_id WHERE o.turn_id = ? AND o.origin <> 'status'"
        " AND o.state NOT IN ('superseded', 'cancelled') ORDER BY o.id DESC LIMIT ?",
        (longest + 1, turn_id, most),
    )
    return [_parse_done(row) for row in reversed(rows)]


def answered_in_turn(db: Db, turn_id: str) -> list[int]:
    """The messages that results of a turn answer, by their seq; the one that was answered last comes last."""
    rows = db.rows(
        "SELECT answers, MAX(id) FROM outbox WHERE turn_id = ? AND origin = 'result' AND answers IS NOT NULL"
        " AND state NOT IN ('superseded', 'cancelled', 'failed') GROUP BY answers ORDER BY 2",
        (turn_id,),
    )
    return [int(row[0]) for row in rows]


def list_for_message(db: Db, message_id: int) -> list[OutboxEffect]:
    return OUTBOX.list(db, "WHERE message_id = ? ORDER BY id", message_id)


def list_pending_rooms(db: Db) -> list[tuple[str, str]]:
    """Every (instance, address) that has something to go out."""
    rows = db.rows("SELECT DISTINCT instance, address FROM outbox WHERE state IN ('pending', 'sending')")
    return [(row[0], row[1]) for row in rows]


# In a panic what agents say waits, and so do their texts and calls. What is being sent may have happened. The gateway
# itself goes on, and interim lines go.
_STOPPED = (
    "state = 'pending' AND (origin IN ('result', 'tool') OR (origin = 'status' AND op <> 'delete'))"
    f" AND EXISTS (SELECT 1 FROM switches WHERE name = '{PANIC}')"
)


def get_head(db: Db, instance: str, address: str) -> OutboxEffect | None:
    """The row that the lane sends or is sending. One that is being sent is not overtaken: it may have happened."""
    lane = f"WHERE instance = ? AND address = ? AND state IN ('pending', 'sending') AND NOT ({_STOPPED})"
    first = OUTBOX.get(db, f"{lane} ORDER BY urgent DESC, id LIMIT 1", instance, address)
    if first is None or not first.urgent or first.state == EffectState.SENDING:
        return first
    begun = f"{lane} AND state = 'sending' ORDER BY urgent DESC, id LIMIT 1"
    return OUTBOX.get(db, begun, instance, address) or first


def _may_be_overtaken(effect: OutboxEffect, now: int) -> bool:
    """Return True for a file that could not be sent, or an interim line that could not be deleted, and waits for its
    next try."""
    waits = effect.state == EffectState.PENDING and effect.tries > 0 and (effect.next_at or 0) > now
    return waits and (is_removal(effect) or bool(effect.payload.get("files")))


def is_removal(effect: OutboxEffect) -> bool:
    """Return True for the deletion of an interim line."""
    return effect.origin == EffectOrigin.STATUS and effect.op is Op.DELETE


def _find_overtaking(db: Db, stuck: OutboxEffect, now: int) -> OutboxEffect:
    """Return the row that goes before one that is stuck: the first words behind it, or anything if that one deletes an
    interim line. Words keep their order, and so do files. An edit or a deletion of what has not been sent is not words.
    """
    lane = "WHERE instance = ? AND address = ? AND id > ? AND state IN ('pending', 'sending')"
    lane += f" AND (tries = 0 OR origin <> 'status' OR op <> 'delete' OR next_at <= ?) AND NOT ({_STOPPED})"
    lane += " ORDER BY id LIMIT ?"
    unsent, has_file = {stuck.message_id}, bool(stuck.payload.get("files"))
    for each in OUTBOX.list(db, lane, stuck.instance, stuck.address, stuck.id, now, MOST_OVERTAKING):
        if each.state == EffectState.SENDING:
            return each
        is_file, is_change = bool(each.payload.get("files")), each.op in TARGETED and each.target_id in unsent
        if (has_file and is_file) or is_change or _may_be_overtaken(each, now):
            unsent.add(each.message_id)
            has_file |= is_file
        elif (each.next_at or 0) <= max(now, stuck.next_at or 0):
            return each
        else:
            break  # it waits longer than the file
    return stuck


class StuckMessages(Struct, frozen=True):
    """Messages of one channel that have been tried often and still wait. `reason`: of one of them."""

    instance: str
    count: int
    reason: str


def list_stuck(db: Db) -> list[StuckMessages]:
    """List the channels on which messages wait that were tried `STUCK` times or more."""
    rows = db.rows(
        "SELECT instance, COUNT(*), MAX(reason) FROM outbox WHERE state IN ('pending', 'sending') AND tries >= ?"
        " GROUP BY instance ORDER BY instance",
        (STUCK,),
    )
    return [StuckMessages(*row) for row in rows]


def claim_head(
    db: Db, instance: str, address: str, owner: str, now: int, lease: int, oldest: int = 0
) -> OutboxEffect | None:
    """Claim the lane's first row: mark it `sending` if it is due, and return it as it was before. The caller sees from
    it whether it must wait (`next_at`). A row older than `oldest` is not marked. A row that an earlier owner was
    already sending is ours from here on."""
    first = get_head(db, instance, address)
    if first is None:
        return None
    if first.tries and _may_be_overtaken(first, now):
        first = _find_overtaking(db, first, now)
    due = first.state == EffectState.PENDING and (first.next_at or 0) <= now and first.created_at >= oldest
    if due or first.state == EffectState.SENDING:
        changed = db.run(
            "UPDATE outbox SET state = 'sending', owner = ?, lease_until = ?, next_at = ?, epoch = epoch + 1,"
            " updated_at = ? WHERE id = ? AND state = ?",
            (owner, now + lease, now + lease, now, first.id, first.state),
        )
        if not changed:  # somebody has withdrawn it: it must not go out
            raise OutdatedDecision("the effect was changed meanwhile")
    if due:
        message_steps.add(db, first.message_id, first.id, now, "sending", f"try {first.tries + 1}")
    return first


class SentState(Struct, frozen=True):
    """The outcome of a message, and when it was recorded."""

    state: EffectState
    at: int


_parse_sent = make_row_parser(SentState)


def list_states(db: Db, message_ids: Sequence[int]) -> dict[int, SentState]:
    """Return the outcomes of these messages, by their ids."""
    marks = ", ".join("?" * len(message_ids)) or "NULL"
    rows = db.rows(f"SELECT message_id, state, updated_at FROM outbox WHERE message_id IN ({marks})", message_ids)
    return {int(row[0]): _parse_sent(row[1:]) for row in rows}


class SpokenMessage(Struct, frozen=True):
    """A message of a room, as far as it can have led to an answer."""

    id: int
    sender: str
    accepted_at: int
    said: bool  # a message, not an edit or a reaction
    ours: bool
    by_agent: bool  # or of the gateway and about no request: a notice may carry an agent's words
    waits: bool  # it is still to be sent, or being sent
    shown_at: int  # 0: it was not
    about_request: bool  # a card, a part of one, or what was decided


_parse_spoken = make_row_parser(SpokenMessage)


def list_latest_spoken(db: Db, instance: str, address: str, before: int, most: int) -> list[SpokenMessage]:
    """Return what was said in a room before a message, the newest first. A question is its agent's, though the gateway
    puts it."""
    asks = (
        "EXISTS (SELECT 1 FROM request_cards c JOIN requests r ON r.id = c.request_id"
        " WHERE c.message_id = m.id AND r.kind = 'question')"
    )
    other = "SUBSTR(o.key, 1, 8) <> 'request:'"
    rows = db.rows(
        "SELECT m.id, m.sender, m.accepted_at, CASE WHEN m.event = 'message' THEN 1 ELSE 0 END,"
        " CASE WHEN m.direction = 'out' THEN 1 ELSE 0 END,"
        f" CASE WHEN m.direction = 'out' AND (m.folder <> '' OR {other} OR {asks}) THEN 1 ELSE 0 END,"
        " CASE WHEN o.state IN ('pending', 'sending') THEN 1 ELSE 0 END,"
        " CASE WHEN o.state IN ('sent', 'uncertain') THEN o.updated_at ELSE 0 END,"
        " CASE WHEN SUBSTR(o.key, 1, 8) = 'request:' THEN 1 ELSE 0 END"
        " FROM messages m LEFT JOIN outbox o ON o.message_id = m.id"
        " WHERE m.instance = ? AND m.address = ? AND m.id < ? ORDER BY m.id DESC LIMIT ?",
        (instance, address, before, most),
    )
    return [_parse_spoken(row) for row in rows]


def list_waiting_since(db: Db, instance: str, address: str, before: int) -> list[OutboxEffect]:
    """The lane's rows that were made before this moment and are not being sent."""
    return OUTBOX.list(
        db,
        "WHERE instance = ? AND address = ? AND state IN ('pending', 'sending') AND state = 'pending'"
        " AND created_at < ? ORDER BY id",
        instance,
        address,
        before,
    )


def defer_overdue(db: Db, now: int, before: int) -> int:
    """Rows that wait behind others of their room: still due, and somebody takes care of them."""
    return db.run("UPDATE outbox SET next_at = ? WHERE state IN ('pending', 'sending') AND next_at < ?", (now, before))


def record_outcome(
    db: Db, effect_id: int, state: EffectState, reason: str, now: int, platform_id: str = "", next_at: int | None = None
) -> None:
    """Record the outcome of a try. `pending` with `next_at` means: again, later.

    A gateway that lives, and was taken over from while it sent, may learn later that the platform has it. The gateway
    that took over could only call it uncertain, and sent nothing: that is corrected.
    """
    ends = "'pending', 'sending', 'uncertain'" if state is EffectState.SENT and platform_id else "'pending', 'sending'"
    rows = db.rows(
        "UPDATE outbox SET state = ?, reason = ?, tries = tries + 1, next_at = ?, updated_at = ?"
        f" WHERE id = ? AND state IN ({ends}) RETURNING message_id, op, origin, target_id",
        (state, reason, next_at, now, effect_id),
    )
    if not rows:
        return
    message_id, op, origin, target_id = int(rows[0][0]), *rows[0][1:]
    if state is EffectState.SENT and target_id and origin == EffectOrigin.TOOL and op in (Op.EDIT, Op.DELETE):
        _show_change(db, message_id, op, int(target_id))
    if platform_id:
        messages.set_platform_id(db, message_id, platform_id)
    message_steps.add(db, message_id, effect_id, now, state if state != EffectState.PENDING else "retry", reason)


def _show_change(db: Db, message_id: int, op: str, target_id: int) -> None:
    """Show a message from now on as its agent has edited it, or not at all if it was deleted."""
    change = messages.get(db, message_id)
    if change is not None:
        messages.revise(db, target_id, message_id, change.text if op == Op.EDIT else None)


def retry_ended(db: Db, effect_id: int, now: int) -> bool:
    """Send again, as if it were new, what was not sent, or perhaps not. Return False if it is in no such state, or
    somebody else has done this already."""
    rows = db.rows(
        "UPDATE outbox SET state = 'pending', reason = '', tries = 0, next_at = ?, created_at = ?, updated_at = ?"
        " WHERE id = ? AND state IN ('failed', 'uncertain') RETURNING message_id",
        (now, now, now, effect_id),
    )
    for (message_id,) in rows:
        message_steps.add(db, int(message_id), effect_id, now, EffectState.PENDING, "sent again")
    return bool(rows)


def record_undelivered(db: Db, effect: OutboxEffect, reason: str, *, again: bool, now: int) -> EffectState | None:
    """Record that the platform did not deliver what it had accepted, and return the new state, None if it was recorded
    before. `again`: the text goes out once more, with the reason in its payload; its files are gone by now. A text that
    was refused so before is not tried a third time."""
    again = again and bool(effect.payload.get("text")) and REFUSAL not in effect.payload
    state = EffectState.PENDING if again else EffectState.FAILED
    payload = {name: value for name, value in effect.payload.items() if name != "files"} | {REFUSAL: reason}
    rows = db.rows(
        "UPDATE outbox SET state = ?, reason = ?, payload = ?, tries = 0, next_at = ?, updated_at = ?"
        " WHERE id = ? AND state = 'sent' RETURNING message_id",
        (state, reason, json.dumps(payload), now if again else None, now, effect.id),
    )
    for (message_id,) in rows:
        messages.clear_platform_id(db, int(message_id))
        message_steps.add(db, int(message_id), effect.id, now, state, reason)
    return state if rows else None


def set_send_time(db: Db, effect_ids: Sequence[int], at: int) -> None:
    """These may go out from that moment on, unless somebody sends them already."""
    for effect_id in effect_ids:
        db.execute_later("UPDATE outbox SET next_at = ? WHERE id = ? AND state = 'pending'", (at, effect_id))


def cancel_results(db: Db, turn_id: str, reason: str, now: int) -> int:
    """A person stopped the turn: what it would still have said is not said. Tools' effects stay: they were promised."""
    return _withdraw(db, "turn_id = ? AND origin = 'result'", (turn_id,), EffectState.CANCELLED, reason, now)


def cancel_unsent(db: Db, session_id: str, reason: str, now: int) -> int:
    """Cancel all effects of a session that were not sent yet: nobody is there who could read them."""
    return _withdraw(db, "session_id = ?", (session_id,), EffectState.CANCELLED, reason, now)


def cancel_by_keys(db: Db, keys: Sequence[str], reason: str, now: int) -> int:
    """Those of these that nobody sends yet."""
    marks = ", ".join("?" * len(keys))
    return _withdraw(db, f"key IN ({marks})", tuple(keys), EffectState.CANCELLED, reason, now)


def supersede_edits(db: Db, turn_id: str, origin: EffectOrigin, now: int) -> int:
    """Edits of this origin that were not sent yet: a newer one replaces them."""
    edits = "turn_id = ? AND origin = ? AND op = 'edit'"
    return _withdraw(db, edits, (turn_id, origin), EffectState.SUPERSEDED, "a newer one came", now)


def _withdraw(db: Db, which: str, params: tuple[str, ...], state: EffectState, reason: str, now: int) -> int:
    """End those that nobody sends yet. Return how many there were."""
    rows = db.rows(
        "UPDATE outbox SET state = ?, reason = ?, next_at = NULL, updated_at = ?"
        f" WHERE {which} AND state = 'pending' RETURNING id, message_id",
        (state, reason, now, *params),
    )
    for row_id, message_id in rows:
        message_steps.add(db, message_id, row_id, now, state, reason)
    return len(rows)


def has_effect(db: Db, key: str, turn_id: str, instance: str, address: str, text: str) -> bool:
    """Return True if there is an effect of that key, or one of this turn that says this text in that room. One look at
    two indexes: mostly there is neither."""
    said = _digest(instance, address, text)
    found = "SELECT 1 FROM outbox WHERE key = ? OR (turn_id = ? AND digest = ?) LIMIT 1"
    return db.row(found, (key, turn_id, said)) is not None


def list_texts_in_turn(
    db: Db, turn_id: str, instance: str, address: str, text: str, answers: int | None = None
) -> OutboxEffect | None:
    """The last effect by which this turn has already put this text on its way to that room, if there is one. One that
    answers another message does not count."""
    same = "" if answers is None else " AND (answers IS NULL OR answers = ?)"
    return OUTBOX.get(
        db,
        f"WHERE turn_id = ? AND digest = ?{same}"
        " AND state NOT IN ('superseded', 'cancelled', 'failed') ORDER BY id DESC LIMIT 1",
        turn_id,
        _digest(instance, address, text),
        *(() if answers is None else (answers,)),
    )


def list_with_files(db: Db, folder: str) -> list[tuple[str, str]]:
    """(instance, key) of every effect of this group's that sent files."""
    rows = db.rows(
        "SELECT outbox.instance, outbox.key, outbox.payload FROM outbox"
        " JOIN messages ON messages.id = outbox.message_id WHERE messages.folder = ? ORDER BY outbox.id",
        (folder,),
    )
    return [(row[0], row[1]) for row in rows if json.loads(row[2]).get("files")]
