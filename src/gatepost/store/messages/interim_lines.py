"""Interim lines of a turn in the outbox: one message that is edited, and deleted when the turn ends."""

from gatepost.messages.outbound import Op
from gatepost.store.messages import outbox
from gatepost.store.messages.outbox import EffectOrigin, EffectState, NewEffect, OutboxEffect
from gatepost.store.port import Db

TRANSIENT = "transient"  # in the payload of a line that is deleted when its turn ends
_SHOWN = (EffectState.PENDING, EffectState.SENDING, EffectState.SENT)


def find(db: Db, turn_id: str) -> OutboxEffect | None:
    """Return the message that shows the interim lines of a turn, None if there is none."""
    return outbox.find_by_key(db, f"{turn_id}/status")


def remove(db: Db, turn_id: str, folder: str, now: int) -> None:
    """Delete the interim lines of a turn that has ended, where the channel can. Effects that wait are sent first: after
    a power cut, one may be sent already and recorded as waiting."""
    shown = find(db, turn_id)
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
