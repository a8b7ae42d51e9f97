"""A stop as one unit of the store: the open turn ends, what waits behind it is cancelled, and the notice is written.

This runs in the transaction that accepts the order. So an accepted stop is carried out whatever
happens to this process afterwards; the sandbox is killed next, and nothing that it still says is taken.
"""

from msgspec import Struct

from gatepost.core.clock import SECOND
from gatepost.flow import notices
from gatepost.flow.delivery.growing_messages import keep_draft
from gatepost.flow.delivery.outgoing_messages import ChannelInstances, OutgoingMessage, add_outgoing_message
from gatepost.messages.inbound import MessageKind
from gatepost.store.messages import inbox, messages, outbox
from gatepost.store.messages.inbox import InboxState
from gatepost.store.messages.outbox import EffectOrigin, OutboxEffect
from gatepost.store.money import costs
from gatepost.store.port import Db
from gatepost.store.sessions import errands, sessions, turns
from gatepost.store.sessions.sessions import Session
from gatepost.store.sessions.turns import Turn

DECISIONS = (messages.APPROVAL, messages.QUESTION)
KILL_TIME = 2 * SECOND  # what the kernel has to end a killed sandbox


def stop_session(
    db: Db,
    channels: ChannelInstances,
    session_id: str,
    by: str,
    now: int,
    *,
    hold: int = 0,
    drop_decisions: bool = False,
) -> OutboxEffect | None:
    """End what a session does now. The notice to people, None if there was nothing to stop. `hold`: it is not sent
    before so many microseconds have passed, or `outbox.release` was called: first the sandbox must be gone. Decisions
    and answers of people are told to the agent all the same, or nobody would: `drop_decisions` takes them along."""
    session, turn = sessions.get(db, session_id), turns.find_open(db, session_id)
    if session is None:
        return None
    ended = turn is not None and turns.cancel(db, turn.id, f"stopped by {by}", now)
    if turn is not None and ended:
        keep_draft(db, channels, turn, channels.get_draft(session_id), now)
    keep = () if drop_decisions else DECISIONS
    waiting = inbox.cancel_waiting(db, session_id, f"stopped by {by}", now, keep=keep)
    given_out = errands.list_given_out(db, session_id)
    errands.mark_stopping(db, given_out, f"stopped by {by}")
    if not ended and not waiting and not given_out:
        return None
    return _add_notice(db, channels, session, turn, now, hold)


class OwnStop(Struct, frozen=True):
    """The outcome of a stop by somebody who may end only what is done for themselves."""

    notice: OutboxEffect | None = None  # to people, if their turn was running
    withdrawn: int = 0  # messages of theirs that waited, and work that was given to other agents for them
    busy: bool = False  # a turn for somebody else goes on


def stop_own_work(
    db: Db, channels: ChannelInstances, session_id: str, names: tuple[str, ...], by: str, now: int, *, hold: int = 0
) -> OwnStop:
    """End the turn if it works for this person, and withdraw what they have waiting. `names`: all of their identities,
    the person first. Messages of others go on waiting. Messages that others said into the turn are given back, unless
    the turn has spoken already: then somebody may have an answer, and nobody is answered twice."""
    session, turn = sessions.get(db, session_id), turns.find_open(db, session_id)
    if session is None:
        return OwnStop()
    own, reason = turn is not None and works_for(db, turn, names), f"stopped by {by}"
    if turn is not None and own:
        _give_back(db, turn, names, reason, now)
        own = turns.cancel(db, turn.id, reason, now)
        keep_draft(db, channels, turn, channels.get_draft(session_id), now)
    waiting = inbox.cancel_waiting(db, session_id, reason, now, names)
    given_out = [
        each for each in errands.list_given_out(db, session_id) if costs.find_payer(db, each.caller_turn) == names[0]
    ]
    errands.mark_stopping(db, given_out, reason)
    notice = _add_notice(db, channels, session, turn, now, hold) if own else None
    return OwnStop(notice, waiting + len(given_out), busy=turn is not None and not own)


def works_for(db: Db, turn: Turn, names: tuple[str, ...]) -> bool:
    """Return True if a turn answers this person: who asked first, and so pays for it. Somebody who joined it later
    cannot end it."""
    return costs.find_payer(db, turn.id) == names[0]


def _give_back(db: Db, turn: Turn, names: tuple[str, ...], reason: str, now: int) -> None:
    if outbox.has_done_any(db, turn.id):
        return
    for entry, message in inbox.list_for_turn(db, turn.id):
        others = message.kind == MessageKind.CHAT and message.sender not in names
        if others and entry.state == InboxState.WORKING:
            turns.requeue(db, entry, message, reason, now)


def _add_notice(
    db: Db, channels: ChannelInstances, session: Session, turn: Turn | None, now: int, hold: int
) -> OutboxEffect:
    where = turn or session
    notice = OutgoingMessage(
        key=f"notice/stopped/{session.id}/{now}",
        origin=EffectOrigin.NOTICE,
        instance=where.instance,
        address=where.address,
        thread=where.thread,
        text=notices.STOPPED,
        session_id=session.id,
    )
    effect = add_outgoing_message(db, channels, notice, now)[0]
    if hold:
        outbox.set_send_time(db, [effect.id], now + hold)
    return effect
