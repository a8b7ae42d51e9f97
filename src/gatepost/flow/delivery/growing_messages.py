"""Answers that grow on platforms: a message that is edited while its text is written, and becomes the answer.

What is sent are rows of the outbox like any other. Here is only when: the first draft after a second, a further one
every two seconds, as long as the runner writes.
"""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from gatepost.core import log
from gatepost.core.clock import Clock
from gatepost.core.errors import Unavailable
from gatepost.core.event_bus import EventBus
from gatepost.flow.delivery.outgoing_messages import ChannelInstances
from gatepost.messages.draft import Draft
from gatepost.messages.outbound import Feature
from gatepost.messages.text_size import shorten
from gatepost.store import growing_drafts, turns
from gatepost.store.port import Db, Store
from gatepost.store.turns import TurnState

FIRST_S, EVERY_S = 1.0, 2.0
LONGEST = 3000  # characters of a draft: what is longer no longer grows, where the platform has no smaller limit

_log = log.get("delivery")


class _GrowingText:
    def __init__(self, draft: Draft) -> None:
        self.draft = draft
        self.shown = ""
        self.timer: asyncio.TimerHandle | None = None


class GrowingMessages:
    """One for the gateway, for all rooms of channels whose option `drafts` is on (`ShowsDrafts`)."""

    def __init__(self, store: Store, clock: Clock, reach: ChannelInstances, bells: EventBus) -> None:
        self._store, self._clock, self._reach, self._bells = store, clock, reach, bells
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
        """What was written is a message now, or never will be. Nothing that is given to the store later shows it."""
        known = self._texts.pop(session_id, None)
        if known is not None and known.timer is not None:
            known.timer.cancel()

    def end(self, session_id: str, turn_id: str) -> None:
        """A turn is over."""
        self.stop(session_id)
        self._start(self._withdraw(session_id, turn_id))

    def _plan(self, known: _GrowingText, seconds: float) -> None:
        known.timer = asyncio.get_running_loop().call_later(seconds, self._show_later, known)

    def _show_later(self, known: _GrowingText) -> None:
        self._plan(known, EVERY_S)
        if known.draft.text != known.shown:
            known.shown = known.draft.text
            self._start(self._show(known.draft))

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _show(self, draft: Draft) -> None:
        if draft.session not in self._texts:  # it was stopped before this task began
            return
        await self._write(draft.session, lambda db: record_draft(db, self._reach, draft, self._clock.now()))

    async def _withdraw(self, session_id: str, turn_id: str) -> None:
        await self._write(session_id, lambda db: withdraw_draft(db, self._reach, turn_id, self._clock.now()))

    async def _write(self, session_id: str, fn: Callable[[Db], tuple[str, str] | None]) -> None:
        """In the session's lane: what was given to it first is written first. A draft that is lost harms nobody."""
        try:
            room = await self._store.write(fn, durable=False, lane=session_id)
        except Unavailable as error:
            _log.warning("a draft could not be written", why=str(error))
            return
        if room is not None:
            self._bells.room(*room)


def record_draft(db: Db, reach: ChannelInstances, draft: Draft, now: int) -> tuple[str, str] | None:
    """The room to ring; None: there is nothing to send. The turn that the ledger has open says where it is shown."""
    turn = turns.find_open(db, draft.session)
    if turn is None or turn.state is not TurnState.BEGUN or not reach.shows_drafts(turn.instance):
        return None
    if (turn.address, turn.thread) != (draft.address, draft.thread):
        return None
    limit = min(reach.max_text(turn.instance) or LONGEST, LONGEST)
    text = shorten(draft.text, limit, reach.text_unit(turn.instance))
    return (turn.instance, turn.address) if growing_drafts.record(db, turn, text, now) else None


def withdraw_draft(db: Db, reach: ChannelInstances, turn_id: str, now: int) -> tuple[str, str] | None:
    """Of a turn that has ended; one that is continued keeps its draft for the answer that comes then."""
    turn = turns.get(db, turn_id)
    if turn is None or turn.ended_at is None:
        return None
    deletes = Feature.DELETE in reach.features(turn.instance)
    return (turn.instance, turn.address) if growing_drafts.withdraw(db, turn, deletes=deletes, now=now) else None
