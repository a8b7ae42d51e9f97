"""Interim lines of a turn: one message that is edited, where the channel can do that, and deleted when the turn ends,
where nothing shows that it was. Some may be lost. On channels that the gateway itself is, the page folds them.
"""

from gatepost.core.clock import SECOND
from gatepost.flow.delivery.outgoing_messages import ChannelInstances
from gatepost.flow.sessions.session_deps import SessionDeps
from gatepost.messages.outbound import Feature, Op
from gatepost.store.messages import interim_lines, outbox
from gatepost.store.messages.outbox import EffectOrigin, NewEffect
from gatepost.store.port import Db
from gatepost.store.sessions import turns
from gatepost.store.sessions.sessions import Session
from gatepost.store.sessions.turns import Turn

MOST_STATUSES, STATUS_PAUSE = 200, SECOND // 4  # interim lines of a turn, and the time between two


class StatusLines:
    def __init__(self, parts: SessionDeps, session: Session) -> None:
        self._parts, self._session = parts, session
        self.shown_in = ("", 0)  # the last turn that had some, and its epoch
        self._shown = self._next_at = 0

    async def show(self, turn: Turn, text: str) -> None:
        reach = self._parts.reach
        if Feature.EDIT not in reach.get_kind(turn.instance).features:
            return
        now, moment = self._parts.clock.now(), self._parts.clock.monotonic()
        place = (turn.id, turn.epoch)
        shown = self._shown if place == self.shown_in else 0
        if shown >= MOST_STATUSES or moment < self._next_at:
            return  # the next one says more
        self.shown_in, self._shown, self._next_at = place, shown + 1, moment + STATUS_PAUSE
        given = (reach, turn.id, turn.epoch, text, self._shown, now)
        room = await self._parts.store.write(record_status, *given, durable=False, lane=self._session.id)
        if room is not None:
            self._parts.bells.room(*room)


def record_status(
    db: Db, reach: ChannelInstances, turn_id: str, epoch: int, text: str, number: int, now: int
) -> tuple[str, str] | None:
    """Add an interim line: the first is a message, and later ones edit it. One that was not shown yet gives way to the
    newer. Return the room to ring, None if the turn is over."""
    turn = turns.get(db, turn_id)
    if turn is None or turn.epoch != epoch or turn.ended_at is not None:
        return None
    first = interim_lines.find(db, turn_id)
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
            hidden={interim_lines.TRANSIENT: True} if reach.deletes_unseen(turn.instance) else {},
            folder=turn.folder,
            session_id=turn.session_id,
            turn_id=turn_id,
            attempt=turn.attempt,
            target_id=None if first is None else first.message_id,
        ),
        now,
    )
    return turn.instance, turn.address
