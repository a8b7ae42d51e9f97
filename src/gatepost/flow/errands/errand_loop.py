"""Changes of errands by themselves: those that are over return, those that were stopped end.

A bell names the room in which something has changed; a look every few seconds finds what no bell was heard for. All
that is to be done stands in the store, so a gateway that was killed goes on with it.
"""

from typing import Protocol

from gatepost.core import log
from gatepost.core.clock import Clock
from gatepost.core.event_bus import EventBus
from gatepost.core.process.wake_loop import WakeLoop
from gatepost.flow.errands.finish import return_result
from gatepost.store.messages import inbox
from gatepost.store.port import Db, Store
from gatepost.store.sessions import errands, turns
from gatepost.store.sessions.errands import Errand

AT_ONCE = 50  # errands that one look finds
MOST_RUNG = 100  # rooms that are remembered; more: all are looked at
AGAIN_S = 1.0

_log = log.get("errands")


class SessionEnder(Protocol):
    async def end(self, session_id: str, reason: str) -> None:
        """Nothing of a session runs any more when this returns."""


class ErrandLoop:
    def __init__(self, store: Store, clock: Clock, events: EventBus, sessions: SessionEnder, look_s: float) -> None:
        self._store, self._clock, self._bells, self._sessions = store, clock, events, sessions
        self._loop = WakeLoop(_log.warning, "errands wait for the store", pause_s=look_s, retry_s=AGAIN_S)
        self._rooms: set[str] = set()
        self._has_missed = True  # rooms of which nobody knows any more
        events.on_change(self._receive_change, errands.INSTANCE)
        events.on_errands(self._loop.wake)

    def _receive_change(self, instance: str, address: str) -> None:
        self._rooms.add(address)
        self._loop.wake()

    async def run(self) -> None:
        """Until cancelled."""
        await self._loop.run(self._change)

    async def _change(self) -> None:
        rooms, self._rooms = self._rooms, set()
        everywhere = self._has_missed or not self._loop.was_woken or len(rooms) > MOST_RUNG
        self._has_missed = True
        wanted = None if everywhere else sorted(rooms)
        if await self._store.read(_has_work, wanted):
            await self._stop_marked()
            await self._return_finished(wanted)
        self._has_missed = False

    async def _stop_marked(self) -> None:
        while found := await self._store.read(errands.list_stopping, AT_ONCE):
            for each in found:
                running = await self._store.write(stop_errand, each, self._clock.now(), lane=each.session_id)
                _log.info("an errand was stopped", errand=each.id, folder=each.folder)
                if running:
                    await self._sessions.end(each.session_id, each.reason)

    async def _return_finished(self, rooms: list[str] | None) -> None:
        if rooms == []:
            return
        while found := await self._store.read(errands.list_finished, rooms, AT_ONCE):
            returned = [await self._return(each) for each in found]
            if not any(returned) or len(found) < AT_ONCE:
                return

    async def _return(self, errand: Errand) -> bool:
        woken = await self._store.write(return_result, errand, self._clock.now(), lane=errand.caller_session)
        if woken is not None:
            _log.info("an errand returned", errand=errand.id, folder=errand.folder)
            self._bells.session(woken)
            self._bells.change(errand.instance, errand.address)
        return woken is not None


def _has_work(db: Db, rooms: list[str] | None) -> bool:
    """One look, for it is mostly in vain."""
    return bool(errands.list_stopping(db, 1)) or (rooms != [] and bool(errands.list_finished(db, rooms, 1)))


def stop_errand(db: Db, errand: Errand, now: int) -> bool:
    """End the work for an errand whose caller was stopped, and mark the errands that it gave out itself. Return True if
    its turn was running: then its sandbox is to be ended. The next level is only marked, so that a unit of the writer
    stays small however far errands reach."""
    turn = turns.find_open(db, errand.session_id)
    own = turn is not None and (turn.instance, turn.thread) == (errands.INSTANCE, errand.id)
    ended = turn is not None and own and turns.cancel(db, turn.id, errand.reason, now)
    inbox.cancel_waiting(db, errand.session_id, errand.reason, now, thread=errand.id)
    errands.mark_stopping(db, errands.list_children(db, errand.id), errand.reason)
    errands.cancel(db, errand.id, now)
    return ended
