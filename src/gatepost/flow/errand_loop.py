"""Changes of errands by themselves: those that are over return, those that were stopped end, and conversations that
nobody went on with are closed.

An event names the room in which something has changed; a look every few seconds finds what no event was seen for. All
that is to be done stands in the store, so a gateway that was killed goes on with it.

A conversation is closed when nothing of it is under way and it was not used for a while. So is that of a single run of
a task which gave out an errand, once the results are worked on. Its messages stay in the ledger; its sandbox ends and
its files go. The row is closed first, judged in the transaction that closes it. Files that a kill has left are removed
at the next start.
"""

import asyncio
from contextlib import AbstractContextManager, suppress
from typing import Protocol

from gatepost.core import log
from gatepost.core.clock import Clock, to_microseconds
from gatepost.core.errors import GatepostError
from gatepost.core.event_bus import EventBus
from gatepost.core.files.untrusted_files import open_untrusted
from gatepost.core.home import Home
from gatepost.core.process.wake_loop import WakeLoop
from gatepost.core.settings import Config, Setting, setting
from gatepost.flow.errands import return_result
from gatepost.store.messages import inbox
from gatepost.store.port import Db, Store
from gatepost.store.sessions import errands, turns
from gatepost.store.sessions.errands import Errand, IdleLimits

AT_ONCE = 50  # errands that one look finds
MOST_RUNG = 100  # rooms that are remembered; more: all are looked at
AGAIN_S = 1.0

_log = log.get("errands")
IDLE_S = setting(
    "errands.close_after_s",
    3600.0,
    help="A conversation in which an agent works for another is closed after this long without an errand; 0: never.",
)
NAMED_IDLE_S = setting(
    "errands.close_named_after_s",
    604800.0,
    help="The same for a conversation that has a name (`session` of send_to_agent); 0: never.",
)
LOOK_S = 30.0
NEVER = -1
NAMES = 200  # folders of sessions that one read asks about
MOST_FOLDERS = 1_000_000
REASON = "nobody went on with this errand"


class SessionEnder(Protocol):
    async def end(self, session_id: str, reason: str) -> None:
        """Nothing of a session runs any more when this returns."""


class ErrandLoop:
    def __init__(self, store: Store, clock: Clock, events: EventBus, sessions: SessionEnder, look_s: float) -> None:
        self._store, self._clock, self._events, self._sessions = store, clock, events, sessions
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
            self._events.session(woken)
            self._events.change(errand.instance, errand.address)
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


class SessionSleep(Protocol):
    async def end(self, session_id: str, reason: str) -> None:
        """Nothing of a session runs any more when this returns."""

    def keep_asleep(self, session_id: str) -> AbstractContextManager[bool]:
        """Within the block nothing of a session is woken. False: it is awake."""


class ErrandSessionCloser:
    def __init__(self, home: Home, store: Store, clock: Clock, config: Config, sleep: SessionSleep) -> None:
        self._home, self._store, self._clock, self._config, self._sleep = home, store, clock, config, sleep
        self._left: set[str] = set()  # closed ones whose files are still there
        self._has_started = False

    async def run(self) -> None:
        """Until cancelled."""
        wanted = [self._config[each] for each in (IDLE_S, NAMED_IDLE_S) if self._config[each] > 0]
        loop = WakeLoop(
            _log.warning,
            "conversations of errands wait to be closed",
            pause_s=min((LOOK_S, *wanted)),
            errors=(GatepostError, OSError),  # a store that is away: the next look does it
        )
        await loop.run(self._close_all)

    async def _close_all(self) -> None:
        if not self._has_started:
            self._has_started = True  # first: folders that cannot be listed must not keep anything from being closed
            await self._find_leftovers()
        await self.close_idle()

    async def close_idle(self) -> None:
        """All that are due, and remove the files of those that are closed."""
        now = self._clock.now()
        limits = IdleLimits(self._find_limit(IDLE_S, now), self._find_limit(NAMED_IDLE_S, now))
        while found := await self._store.read(errands.list_idle_sessions, limits, AT_ONCE):
            for each in found:
                if await self._store.write(errands.close_idle_session, each, limits, now, lane=each):
                    await self._end(each)
            if len(found) < AT_ONCE:
                break
        for each in await self._store.read(errands.list_ended_runs, AT_ONCE):
            if await self._store.write(errands.close_ended_run, each, now, lane=each):
                await self._end(each)
        for each in sorted(self._left):
            await self._remove_files(each)

    async def _end(self, session_id: str) -> None:
        _log.info("a conversation of errands was closed", session=session_id)
        self._left.add(session_id)
        await self._sleep.end(session_id, REASON)

    def _find_limit(self, wanted: Setting[float], now: int) -> int:
        """Return the moment before which a conversation must have been used last to be closed."""
        return now - to_microseconds(self._config[wanted]) if self._config[wanted] > 0 else NEVER

    async def _find_leftovers(self) -> None:
        """Find sessions that an earlier gateway closed without removing their files, because it was killed."""
        names = await asyncio.to_thread(_list_folders, self._home)
        for start in range(0, len(names), NAMES):
            self._left.update(await self._store.read(errands.list_closed_sessions, names[start : start + NAMES]))

    async def _remove_files(self, session_id: str) -> None:
        """Once nothing of it runs: a closed one is not woken any more."""
        with self._sleep.keep_asleep(session_id) as asleep:
            if asleep:
                await asyncio.to_thread(_remove_folder, self._home, session_id)
                self._left.discard(session_id)


def _list_folders(home: Home) -> list[str]:
    """The host alone makes names here, so their number is that of its sessions."""
    with open_untrusted(home.sessions) as root:
        return [each for each in root.list(most=MOST_FOLDERS) if each.startswith("s-")]


def _remove_folder(home: Home, session_id: str) -> None:
    """Remove a session's folder. Retention removes what cannot be removed now."""
    with suppress(GatepostError, OSError), open_untrusted(home.sessions) as root:
        root.remove_tree(session_id)
