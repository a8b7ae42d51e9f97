"""A stop as one unit of the store: the open turn ends, what waits behind it is cancelled, and the notice is written.

Whoever orders a stop runs this in the transaction that accepts the order. So an accepted stop is carried out whatever
happens to this process afterwards; the sandbox is killed next, and nothing that it still says is taken.
"""

from gatepost.core.clock import SECOND
from gatepost.flow.delivery.outgoing_messages import ChannelInstances, OutgoingMessage, add_outgoing_message
from gatepost.flow.sessions import notices
from gatepost.store import inbox, outbox, sessions, turns
from gatepost.store.outbox import EffectOrigin, OutboxEffect
from gatepost.store.port import Db

KILL_TIME = 2 * SECOND  # what the kernel has to end a killed sandbox


def stop_session(
    db: Db, reach: ChannelInstances, session_id: str, by: str, now: int, *, hold: int = 0
) -> OutboxEffect | None:
    """End what a session does now. The notice to people, None if there was nothing to stop. `hold`: it is not sent
    before so many microseconds have passed, or `outbox.release` was called: first the sandbox must be gone."""
    session, turn = sessions.get(db, session_id), turns.find_open(db, session_id)
    if session is None:
        return None
    ended = turn is not None and turns.cancel(db, turn.id, f"stopped by {by}", now)
    waiting = inbox.cancel_waiting(db, session_id, f"stopped by {by}", now)
    if not ended and not waiting:
        return None
    where = turn or session
    notice = OutgoingMessage(
        key=f"notice/stopped/{session_id}/{now}",
        origin=EffectOrigin.NOTICE,
        instance=where.instance,
        address=where.address,
        thread=where.thread,
        text=notices.STOPPED,
        session_id=session_id,
    )
    effect = add_outgoing_message(db, reach, notice, now)[0]
    if hold:
        outbox.set_send_time(db, [effect.id], now + hold)
    return effect
