"""The timeline of the turn that a runner works on: reports on its agent's doings, written behind, in order, and cut to
what somebody would read."""

import json
from typing import Any

from gatepost.flow.sessions.session_deps import SessionDeps
from gatepost.mailbox.runner_frames import EventFrame, EventKind
from gatepost.messages.text import clean
from gatepost.messages.text_size import TextUnit, measure
from gatepost.store.sessions import timeline
from gatepost.store.sessions.sessions import Session
from gatepost.store.sessions.timeline import TimelineKind, ToolCallStatus
from gatepost.store.sessions.turns import Turn

LONGEST = 20_000  # characters of one text in an entry
LONGEST_NAME = 200
DEEPEST = 8
MOST_ITEMS = 100  # of one list or object
MOST_EVENTS, MOST_BYTES = 5000, 16 * 1024 * 1024  # of a turn
LARGEST = 64 * 1024  # bytes of JSON of one input, as it is kept
# Longest text, most items: what is tried to fit it. The first keeps a whole file, for somebody to read and agree to.
SMALLER = ((60_000, MOST_ITEMS), (LONGEST, MOST_ITEMS), (2000, 50), (200, 20), (50, 8))
UNTOLD = "This turn does more than is told here: the rest of what it does is left out."


class TimelineQuota:
    """The amount that one turn has told and asked."""

    def __init__(self) -> None:
        self._events = self._bytes = 0

    def count(self, data: dict[str, Any]) -> bool:
        """Count one more entry. Return True if that was the last."""
        self._events += 1
        self._bytes += measure(json.dumps(data, ensure_ascii=False), TextUnit.BYTES)
        return self.is_full()

    def is_full(self) -> bool:
        return self._events >= MOST_EVENTS or self._bytes >= MOST_BYTES


class TurnTimeline:
    def __init__(self, deps: SessionDeps, session: Session) -> None:
        self._deps, self._session = deps, session
        self._at = ("", 0)  # turn and epoch that the quota is of
        self._quota = TimelineQuota()

    def get_quota(self, turn: Turn) -> TimelineQuota:
        """Return the quota of this attempt of a turn."""
        if (turn.id, turn.epoch) != self._at:
            self._at, self._quota = (turn.id, turn.epoch), TimelineQuota()
        return self._quota

    def add_event(self, turn: Turn, event: EventFrame) -> None:
        entry = make_timeline_entry(event)
        if entry is not None:
            self.add(turn, *entry)

    def add(self, turn: Turn, kind: TimelineKind, data: dict[str, Any]) -> None:
        quota = self.get_quota(turn)
        if quota.is_full():
            return
        if quota.count(data):
            kind, data = TimelineKind.STATUS, {"text": UNTOLD}
        now, own = self._deps.clock.now(), self._session.id
        self._deps.store.post(timeline.add, own, turn.id, kind, data, now, lane=own)
        self._deps.events.change(turn.instance, turn.address)


def make_timeline_entry(event: EventFrame) -> tuple[TimelineKind, dict[str, Any]] | None:
    """Return kind and data; None for what is of no interest here. A tool call is told twice, under one id."""
    data = event.data
    if event.kind == EventKind.TOOL_USE:
        return TimelineKind.TOOL_CALL, {
            "callId": _name(data.get("id")),
            "name": _name(data.get("tool")),
            "status": ToolCallStatus.RUNNING,
            "input": excerpt(data.get("input"))[0],
        }
    if event.kind == EventKind.TOOL_RESULT:
        failed = bool(data.get("error"))
        return TimelineKind.TOOL_CALL, {
            "callId": _name(data.get("id")),
            "status": ToolCallStatus.FAILED if failed else ToolCallStatus.COMPLETED,
            "output": clean_value(data.get("text")),
        }
    return None


def clean_value(value: Any, depth: int = 0, longest: int = LONGEST, most: int = MOST_ITEMS) -> Any:
    """Return what came from inside, cleaned and within bounds."""
    if isinstance(value, str):
        return clean(value)[:longest]
    if isinstance(value, dict):
        kept = list(value.items())[:most] if depth < DEEPEST else []
        return {_name(key): clean_value(each, depth + 1, longest, most) for key, each in kept}
    if isinstance(value, list):
        return [clean_value(each, depth + 1, longest, most) for each in value[:most]] if depth < DEEPEST else []
    return value if isinstance(value, int | float | bool) or value is None else _name(value)


def excerpt(value: Any) -> tuple[Any, bool]:
    """Return as much of it as is kept, and True if that is less than all."""
    for longest, most in SMALLER:
        kept = clean_value(value, 0, longest, most)
        text = json.dumps(kept, ensure_ascii=False)
        if measure(text, TextUnit.BYTES) <= LARGEST:
            return kept, kept != value
    return {"excerpt": text[: LARGEST // 8]}, True


def _name(value: object) -> str:
    return clean(str(value))[:LONGEST_NAME]
