"""The timeline of the turn that a runner works on: written behind, in order, and bounded."""

from typing import Any

from gatepost.flow.sessions.session_deps import SessionDeps
from gatepost.flow.sessions.timeline_events import TimelineQuota, make_timeline_entry
from gatepost.mailbox.runner_frames import EventFrame
from gatepost.store import timeline
from gatepost.store.sessions import Session
from gatepost.store.timeline import TimelineKind
from gatepost.store.turns import Turn

UNTOLD = "This turn does more than is told here: the rest of what it does is left out."


class TurnTimeline:
    def __init__(self, parts: SessionDeps, session: Session) -> None:
        self._parts, self._session = parts, session
        self.quota = TimelineQuota()

    def start_turn(self) -> None:
        self.quota = TimelineQuota()

    def add_event(self, turn: Turn, event: EventFrame) -> None:
        entry = make_timeline_entry(event)
        if entry is not None:
            self.add(turn, *entry)

    def add(self, turn: Turn, kind: TimelineKind, data: dict[str, Any]) -> None:
        if self.quota.is_full():
            return
        if self.quota.count(data):
            kind, data = TimelineKind.STATUS, {"text": UNTOLD}
        now, own = self._parts.clock.now(), self._session.id
        self._parts.store.post(timeline.add, own, turn.id, kind, data, now, lane=own)
        self._parts.bells.change(turn.instance, turn.address)
