"""Turns: one batch of messages in, one run of the agent, its results out.

    claimed → begun → done · failed          begun → interrupted → claimed (the next attempt)

`claimed`: the runner has it; a failure here is retried. `begun`: the provider has it; a failure here is continued, at
most once (`store/sessions/turn_failures.py`): what it had said stays said, and the next attempt is told of it. `epoch`
fences: what an old attempt still says under its epoch is not believed.
"""

from collections.abc import Collection
from enum import StrEnum

from msgspec import Struct

from gatepost.messages.inbound import MessageKind
from gatepost.messages.outbound import Op
from gatepost.store.engine.table import Table
from gatepost.store.messages import inbox, mailbox_rows, message_steps, outbox
from gatepost.store.messages.inbox import InboxState
from gatepost.store.messages.messages import SYSTEM, Message
from gatepost.store.messages.outbox import EffectOrigin, EffectState, NewEffect, OutboxEffect
from gatepost.store.port import Db, inline_read
from gatepost.store.rights import requests
from gatepost.store.sessions import agents, sessions, tool_calls
from gatepost.store.sessions.sessions import SessionState

GATEWAY_STOPPED = "the gateway was stopped"  # why a turn broke off that is continued after a clean `down`
TRANSIENT = "transient"  # in the payload of a line that is deleted when its turn ends
_SHOWN = (EffectState.PENDING, EffectState.SENDING, EffectState.SENT)
CONTINUATION = "continue:"  # how the platform ids of messages begin that list for an agent what it has done


class TurnState(StrEnum):
    CLAIMED = "claimed"
    BEGUN = "begun"
    INTERRUPTED = "interrupted"
    DONE = "done"
    FAILED = "failed"


class Turn(Struct, frozen=True):
    id: str
    session_id: str
    folder: str
    provider: str
    instance: str
    address: str
    thread: str
    rights: str
    attempt: int
    spared: int
    state: TurnState
    conversation: str
    error: str
    usage: str
    next_at: int
    owner: str
    lease_until: int
    epoch: int
    started_at: int
    begun_at: int | None
    ended_at: int | None
    said_bytes: int = 0  # of its results so far
    topic: str = ""  # of the messages that it answers, if it is not their thread


TURNS = Table("turns", Turn)


# The end of a turn that went well, and what there is still to do: whether it said or did anything, has messages that
# its provider never had, context that is shown no more, calls, requests of its session, interim lines.
_FINISH = (
    "UPDATE turns SET state = 'done', error = '', usage = ?, ended_at = ?, next_at = ? WHERE id = ? AND epoch = ?"
    f" AND ended_at IS NULL AND begun_at IS NOT NULL RETURNING {TURNS.columns},"
    f" EXISTS (SELECT 1 FROM outbox o WHERE o.turn_id = turns.id AND {outbox.DONE}),"
    " EXISTS (SELECT 1 FROM inbox i WHERE i.turn_id = turns.id AND i.state = 'working' AND i.given = 0),"
    " EXISTS (SELECT 1 FROM inbox i WHERE i.session_id = turns.session_id AND i.mode = 'observe' AND i.given = 0),"
    " EXISTS (SELECT 1 FROM calls c WHERE c.turn_id = turns.id),"
    " EXISTS (SELECT 1 FROM requests q WHERE q.session_id = turns.session_id AND q.notified_at IS NULL),"
    " EXISTS (SELECT 1 FROM outbox o WHERE o.turn_id = turns.id AND o.origin = 'status')"
)


@inline_read
def get(db: Db, turn_id: str) -> Turn | None:
    return TURNS.get(db, "WHERE id = ?", turn_id)


@inline_read
def find_open(db: Db, session_id: str) -> Turn | None:
    """The session's turn that has not ended; there is at most one."""
    return TURNS.get(db, "WHERE session_id = ? AND ended_at IS NULL", session_id)


def list_for_session(db: Db, session_id: str, before: int, limit: int) -> list[Turn]:
    """The newest that began before a moment, oldest first."""
    newest = "WHERE session_id = ? AND started_at < ? ORDER BY started_at DESC LIMIT ?"
    return TURNS.list(db, newest, session_id, before, limit)[::-1]


def get_last_error(db: Db, session_id: str) -> str:
    """Why a turn of this session failed last; '' if none did."""
    row = db.row(
        "SELECT error FROM turns WHERE session_id = ? AND error <> '' ORDER BY started_at DESC LIMIT 1", (session_id,)
    )
    return str(row[0]) if row else ""


def has_rights_beyond(db: Db, session_id: str, rights: Collection[str]) -> bool:
    """Return True if a turn of this session was asked for by somebody with other rights than these."""
    marks = ", ".join("?" * len(rights))
    sql = f"SELECT 1 FROM turns WHERE session_id = ? AND rights NOT IN ('', {marks}) LIMIT 1"
    return db.row(sql, (session_id, *rights)) is not None


def list_open(db: Db) -> list[Turn]:
    return TURNS.list(db, "WHERE ended_at IS NULL ORDER BY started_at")


def has_run_since(db: Db, instance: str, address: str, since: int) -> bool:
    """Return True if a turn of a room has not ended, or did so from that moment on."""
    ran = "SELECT 1 FROM turns WHERE instance = ? AND address = ? AND (ended_at IS NULL OR ended_at >= ?) LIMIT 1"
    return db.row(ran, (instance, address, since)) is not None


def list_open_of(db: Db, owner: str) -> list[Turn]:
    return TURNS.list(db, "WHERE ended_at IS NULL AND owner = ? ORDER BY started_at", owner)


def is_continuation(message: Message) -> bool:
    """Return True if a message lists for an agent what it has done. Platforms choose ids, and not who says it."""
    own = message.kind is MessageKind.SYSTEM and message.sender == SYSTEM
    return own and (message.platform_id or "").startswith(CONTINUATION)


def begin(db: Db, turn_id: str, epoch: int, rows: tuple[int, ...], now: int) -> bool:
    """The provider is about to have these rows. Durable before it does: from here on nothing is sent in again.

    False also if none of them is the turn's own. A turn that had begun with none could end at once, over and over, and
    its messages would go to ever new turns without a try being counted.
    """
    named = set(rows)  # by the runner, which may name whatever it likes, and as often
    own = db.rows("SELECT id, given FROM inbox WHERE turn_id = ? ORDER BY id", (turn_id,))
    begun = [(int(row_id), bool(given)) for row_id, given in own if int(row_id) in named]
    if not begun:
        return False
    changed = db.run(
        "UPDATE turns SET state = 'begun', begun_at = COALESCE(begun_at, ?) WHERE id = ? AND epoch = ?"
        " AND state IN ('claimed', 'begun')",
        (now, turn_id, epoch),
    )
    if not changed:
        return False
    for row_id in [each for each, given in begun if not given]:
        found = db.rows("UPDATE inbox SET given = 1, updated_at = ? WHERE id = ? RETURNING message_id", (now, row_id))
        message_steps.add(db, int(found[0][0]), row_id, now, "given", "the provider has it")
    return True


def set_conversation(db: Db, turn_id: str, epoch: int, conversation: str, now: int, known: bool = False) -> bool:
    """The provider has named its conversation: it will hold this turn's messages from now on. `known`: the session's
    last turn was in the same. One that has ended names none: its conversation may have been given up with it."""
    changed = db.row(
        "UPDATE turns SET conversation = ? WHERE id = ? AND epoch = ? AND ended_at IS NULL"
        " RETURNING session_id, provider",
        (conversation, turn_id, epoch),
    )
    if changed is None:
        return False
    if not known:
        session_id, provider = changed
        sessions.set_conversation(db, session_id, provider, conversation, now)
    return True


# When a reply of the turn is to extend its group's engagement; NULL: there is none, or it never ends.
_EXTENDS_AT = (
    "(SELECT e.until - e.ttl / 2 FROM engagements e WHERE e.instance = turns.instance AND e.address = turns.address"
    " AND e.thread = turns.thread AND e.folder = turns.folder AND e.until >= turns.started_at)"
)


def claim_bytes(
    db: Db, turn_id: str, epoch: int, size: int, most: int, *, session_id: str, attempt: int
) -> tuple[Turn, int | None] | None:
    """Count so many more bytes of an open turn. Return the turn, and when this extends the engagement of its group
    there. Return None if the session has no such turn at that attempt and epoch, or the turn would exceed `most`."""
    row = db.row(
        "UPDATE turns SET said_bytes = said_bytes + ? WHERE id = ? AND epoch = ? AND ended_at IS NULL"
        " AND session_id = ? AND attempt = ? AND said_bytes + ? <= ?"
        f" RETURNING {TURNS.columns}, {_EXTENDS_AT}",
        (size, turn_id, epoch, session_id, attempt, size, most),
    )
    return (TURNS.parse(row[:-1]), row[-1]) if row else None


def return_bytes(db: Db, turn_id: str, size: int) -> None:
    """They were not said after all."""
    db.execute_later("UPDATE turns SET said_bytes = said_bytes - ? WHERE id = ?", (size, turn_id))


def messages_of(db: Db, turn_id: str) -> list[tuple[int, int]]:
    """(inbox row, message) of everything that a turn works on, without their texts."""
    rows = db.rows("SELECT id, message_id FROM inbox WHERE turn_id = ? ORDER BY seq", (turn_id,))
    return [(int(row[0]), int(row[1])) for row in rows]


def renew_lease(db: Db, turn_id: str, epoch: int, now: int, lease: int) -> bool:
    """Somebody is still at work on it."""
    changed = db.run(
        "UPDATE turns SET lease_until = ?, next_at = ? WHERE id = ? AND epoch = ? AND ended_at IS NULL",
        (now + lease, now + lease, turn_id, epoch),
    )
    if changed:
        db.execute_later(
            "UPDATE inbox SET lease_until = ?, next_at = ? WHERE turn_id = ? AND state = 'working'",
            (now + lease, now + lease, turn_id),
        )
    return bool(changed)


def finish(db: Db, turn_id: str, epoch: int, usage: str, now: int, withheld: str = "") -> bool:
    """The turn ended well: its rows are answered if it said anything to anybody, silent otherwise. Idempotent.
    False also if nobody ever looked at them: then it did not end well, whatever the runner says. `withheld`: why the
    agent said nothing, as its runner tells it."""
    row = db.row(_FINISH, (usage, now, now, turn_id, epoch))
    if row is None:
        return False
    *columns, spoke, has_more, has_context, has_calls, has_requests, has_status = row
    turn = TURNS.parse(tuple(columns))
    if has_context:
        mailbox_rows.mark_context_shown(db, turn.session_id, turn_id)
    state, reason = (InboxState.ANSWERED, "") if spoke else (InboxState.SILENT, render_silence(withheld))
    inbox.end_given(db, turn_id, state, reason, now)
    if has_more:  # claimed as follow-ups, and the turn ended before the provider had them
        for entry, message in inbox.list_for_turn(db, turn_id):
            if entry.state == InboxState.WORKING:
                requeue(db, entry, message, "the turn ended before it was its turn", now)
    _record_end(db, turn, TurnState.DONE, "", now, has_calls=bool(has_calls), has_requests=bool(has_requests))
    if has_status:
        _remove_interim_lines(db, turn_id, turn.folder, now)
    return True


def render_silence(withheld: str) -> str:
    return f"the agent chose silence: {withheld}" if withheld else "the agent chose silence"


def requeue(db: Db, entry: inbox.InboxEntry, message: Message, reason: str, now: int) -> None:
    """To the queue, as if no turn had taken it. Notes of what a turn did are over: the next claim makes its own."""
    if is_continuation(message):
        inbox.set_state(db, entry.id, InboxState.CANCELLED, reason, None, now)
        return
    inbox.set_state(db, entry.id, InboxState.QUEUED, reason, now, now)
    db.execute_later("UPDATE inbox SET turn_id = NULL, given = 0 WHERE id = ?", (entry.id,))


def cancel(db: Db, turn_id: str, reason: str, now: int) -> bool:
    """Stopped by a person: nothing is retried, what was not sent is withdrawn."""
    turn = get(db, turn_id)
    if turn is None or turn.ended_at is not None:
        return False
    outbox.cancel_results(db, turn_id, reason, now)
    requests.withdraw_calls(db, turn_id, reason, now)
    for entry, _ in inbox.list_for_turn(db, turn_id):
        if entry.state == InboxState.WORKING:
            inbox.set_state(db, entry.id, InboxState.CANCELLED, reason, None, now)
    fail(db, turn, reason, now)
    sessions.set_state(db, turn.session_id, SessionState.IDLE, now)  # as asked: nothing is wrong with it
    return True


def fail(db: Db, turn: Turn, reason: str, now: int) -> None:
    """The turn is over for good. People see no more of it than what it said."""
    end(db, turn, TurnState.FAILED, reason, "{}", now)
    _remove_interim_lines(db, turn.id, turn.folder, now)


def end(db: Db, turn: Turn, state: TurnState, error: str, usage: str, now: int) -> None:
    db.execute_later(
        "UPDATE turns SET state = ?, error = ?, usage = ?, ended_at = ?, next_at = ? WHERE id = ?",
        (state, error, usage, now, now, turn.id),
    )
    _record_end(db, turn, state, error, now)


def _record_end(
    db: Db,
    turn: Turn,
    state: TurnState,
    error: str,
    now: int,
    *,
    has_calls: bool = True,
    has_requests: bool = True,
) -> None:
    if has_calls:
        tool_calls.remove_for_turn(db, turn.id)
    if has_requests:
        requests.withdraw_for_turn(db, turn.session_id, turn.id, "the turn has ended", now)
    sessions.set_state(db, turn.session_id, SessionState.IDLE if state == TurnState.DONE else SessionState.ERROR, now)
    if turn.instance == agents.INSTANCE:
        agents.record_turn_end(db, turn, state, error, now)


def find_interim_lines(db: Db, turn_id: str) -> OutboxEffect | None:
    """Return the message that shows the interim lines of a turn, None if there is none."""
    return outbox.find_by_key(db, f"{turn_id}/status")


def _remove_interim_lines(db: Db, turn_id: str, folder: str, now: int) -> None:
    """Delete the interim lines of a turn that has ended, where the channel can. Effects that wait are sent first: after
    a power cut, one may be sent already and recorded as waiting."""
    shown = find_interim_lines(db, turn_id)
    if shown is None or not shown.payload.get(TRANSIENT) or shown.state not in _SHOWN:
        return
    outbox.supersede_edits(db, turn_id, EffectOrigin.STATUS, now)
    outbox.add(
        db,
        NewEffect(
            key=f"{turn_id}/status/end",
            op=Op.DELETE,
            origin=EffectOrigin.STATUS,
            instance=shown.instance,
            address=shown.address,
            thread=shown.thread,
            payload={},
            folder=folder,
            session_id=shown.session_id,
            turn_id=turn_id,
            attempt=shown.attempt,
            target_id=shown.message_id,
        ),
        now,
    )
