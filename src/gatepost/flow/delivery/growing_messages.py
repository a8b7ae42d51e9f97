"""Answers that grow on platforms: a message that is edited while its text is written, and becomes the answer.

Drafts are rows of the outbox like any other. This module decides when: the first draft after a second, further ones at
the pace of the platform, as long as the runner writes.
"""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from gatepost.core import log
from gatepost.core.clock import Clock
from gatepost.core.errors import Unavailable
from gatepost.core.event_bus import EventBus
from gatepost.flow.delivery.outgoing_messages import ChannelInstances, OutgoingMessage, find_or_add
from gatepost.messages.outbound import Draft, Feature
from gatepost.messages.text_size import ELLIPSIS, shorten
from gatepost.store.messages import growing_drafts
from gatepost.store.messages.outbox import EffectOrigin
from gatepost.store.port import Db, Store
from gatepost.store.sessions import turns
from gatepost.store.sessions.turns import Turn, TurnState

FIRST_S = 1.0
STOPPED_MARK = "(stopped)"  # below what was written of an answer that was cut off
LONGEST = 3000  # characters of a draft: what is longer no longer grows, where the platform has no smaller limit

_log = log.get("delivery")


class _GrowingText:
    def __init__(self, draft: Draft) -> None:
        self.draft = draft
        self.shown = ""
        self.timer: asyncio.TimerHandle | None = None


class GrowingMessages:
    """One for the gateway, for all rooms of channels whose option `drafts` is on (`ShowsDrafts`)."""

    def __init__(self, store: Store, clock: Clock, channels: ChannelInstances, events: EventBus) -> None:
        self._store, self._clock, self._channels, self._events = store, clock, channels, events
        self._texts: dict[str, _GrowingText] = {}  # by session
        self._tasks: set[asyncio.Task[None]] = set()

    def is_watched(self, address: str) -> bool:
        return True

    def on_watch(self, listener: Callable[[], None]) -> None:
        """Nobody begins or ceases: people on a platform always see it."""

    def show_draft(self, draft: Draft) -> None:
        if not draft.text.strip():
            self.stop(draft.session)
            return
        known = self._texts.get(draft.session)
        if known is None:
            known = self._texts[draft.session] = _GrowingText(draft)
            self._plan(known, FIRST_S)
        known.draft = draft

    def stop(self, session_id: str) -> None:
        """End a text that is a message now, or never will be. Nothing that is given to the store later shows it."""
        known = self._texts.pop(session_id, None)
        if known is not None and known.timer is not None:
            known.timer.cancel()

    def end(self, session_id: str, turn_id: str, text: str) -> None:
        """A turn is over, or its sandbox is. `text`: what people saw last, and became no message."""
        self.stop(session_id)
        self._start(self._close(session_id, turn_id, text))

    def _plan(self, known: _GrowingText, seconds: float) -> None:
        known.timer = asyncio.get_running_loop().call_later(seconds, self._show_later, known)

    def _show_later(self, known: _GrowingText) -> None:
        growing = sum(each.draft.instance == known.draft.instance for each in self._texts.values())
        pace = self._channels.get_kind(known.draft.instance).pace
        self._plan(known, pace.get_draft_interval(known.draft.address, growing))
        if known.draft.text != known.shown:
            known.shown = known.draft.text
            self._start(self._show(known))

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _show(self, known: _GrowingText) -> None:
        draft = known.draft
        if self._texts.get(draft.session) is not known:  # it was stopped before this task began
            return
        await self._write(draft.session, lambda db: record_draft(db, self._channels, draft, self._clock.now()))

    async def _close(self, session_id: str, turn_id: str, text: str) -> None:
        await self._write(session_id, lambda db: close_draft(db, self._channels, turn_id, text, self._clock.now()))

    async def _write(self, session_id: str, fn: Callable[[Db], tuple[str, str] | None]) -> None:
        """In the session's lane: what was given to it first is written first. A draft that is lost harms nobody."""
        try:
            room = await self._store.write(fn, durable=False, lane=session_id)
        except Unavailable as error:
            _log.warning("a draft could not be written", why=str(error))
            return
        if room is not None:
            self._events.room(*room)


def record_draft(db: Db, channels: ChannelInstances, draft: Draft, now: int) -> tuple[str, str] | None:
    """The room to ring; None: there is nothing to send. The turn that the ledger has open says where it is shown."""
    turn = turns.find_open(db, draft.session)
    if turn is None or turn.state is not TurnState.BEGUN or not channels.shows_drafts(turn.instance):
        return None
    if (turn.address, turn.thread) != (draft.address, draft.thread):
        return None
    limit = min(channels.get_kind(turn.instance).max_text or LONGEST, LONGEST)
    text = shorten(draft.text, limit, channels.get_kind(turn.instance).text_unit)
    return (turn.instance, turn.address) if growing_drafts.record(db, turn, text, now) else None


def close_draft(db: Db, channels: ChannelInstances, turn_id: str, text: str, now: int) -> tuple[str, str] | None:
    """Remove the draft of a turn that has ended, or keep it if its answer was cut off. A turn that is continued keeps
    its draft for the answer that comes then. Return the room to ring, None if there is nothing to send."""
    turn = turns.get(db, turn_id)
    if turn is None or turn.ended_at is None:
        return None
    if turn.state is TurnState.FAILED:
        changed = keep_draft(db, channels, turn, text, now)
    else:
        deletes = Feature.DELETE in channels.get_kind(turn.instance).features
        changed = growing_drafts.withdraw(db, turn, deletes=deletes, now=now)
    return (turn.instance, turn.address) if changed else None


def keep_draft(db: Db, channels: ChannelInstances, turn: Turn, text: str, now: int) -> bool:
    """Leave what people saw of an answer that was cut off as a message of the agent, once. Where answers grow it takes
    the place of the draft, and is marked. Elsewhere the notice right below it says the same. Where nothing was on the
    screen, nothing is added. Return True if there is something to send."""
    grows = channels.shows_drafts(turn.instance)
    if grows and (seen := growing_drafts.find_text(db, turn.id)):
        text = text if text.startswith(seen.rstrip(ELLIPSIS)) else seen
    elif grows:
        return False
    if not text.strip() or growing_drafts.is_message_already(db, turn, text):
        return False
    kept = OutgoingMessage(
        key=f"{turn.id}/stopped",
        origin=EffectOrigin.RESULT,
        instance=turn.instance,
        address=turn.address,
        thread=turn.thread,
        topic=turn.topic,
        text=f"{text.rstrip()}\n\n{STOPPED_MARK}" if grows else text.rstrip(),
        folder=turn.folder,
        session_id=turn.session_id,
        turn_id=turn.id,
        attempt=turn.attempt,
        grows=grows,
    )
    return find_or_add(db, channels, kept, now)[1]
