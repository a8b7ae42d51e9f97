"""Interim lines of a turn: one message that is edited, where the channel can do that. Some may be lost."""

from gatepost.core.clock import SECOND
from gatepost.flow.sessions import results
from gatepost.flow.sessions.session_deps import SessionDeps
from gatepost.messages.outbound import Feature
from gatepost.store.sessions import Session
from gatepost.store.turns import Turn

MOST_STATUSES, STATUS_PAUSE = 200, SECOND // 4  # interim lines of a turn, and the time between two


class StatusLines:
    def __init__(self, parts: SessionDeps, session: Session) -> None:
        self._parts, self._session = parts, session
        self._shown = self._next_at = 0

    def start_turn(self) -> None:
        self._shown = 0

    async def show(self, turn: Turn, text: str) -> None:
        if Feature.EDIT not in self._parts.reach.features(turn.instance):
            return
        now, moment = self._parts.clock.now(), self._parts.clock.monotonic()
        if self._shown >= MOST_STATUSES or moment < self._next_at:
            return  # the next one says more
        self._shown, self._next_at = self._shown + 1, moment + STATUS_PAUSE
        given = (turn.id, turn.epoch, text, self._shown, now)
        room = await self._parts.store.write(results.record_status, *given, durable=False, lane=self._session.id)
        if room is not None:
            self._parts.bells.room(*room)
