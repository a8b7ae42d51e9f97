"""Sessions: wakes those that have work, within the places there are, watches them, and lets them rest.

A bell wakes at once; a look every few seconds finds what no bell was heard for, retries that are due, and turns to be
continued. Rows that wait here are looked at, so they are never overdue.
"""

import asyncio
import math
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any

from gatepost.core import log
from gatepost.core.clock import SECOND
from gatepost.core.errors import GatepostError, Unavailable
from gatepost.core.files.untrusted_files import open_untrusted
from gatepost.core.process.wake_loop import WakeLoop
from gatepost.flow.reports import PanicResult
from gatepost.flow.sessions import turn_settlement
from gatepost.flow.sessions.awake_session import AwakeSession
from gatepost.flow.sessions.deferred_writes import DeferredWrites
from gatepost.flow.sessions.host.host_limits import HostLimits
from gatepost.flow.sessions.sandbox.effective_group import is_affected_by, load_effective_group
from gatepost.flow.sessions.session_deps import LOOK_S, MOST_AWAKE, SessionDeps
from gatepost.flow.sessions.session_ending import Ending, SessionVerdict, check_timeouts
from gatepost.flow.sessions.wake_limits import SessionSlots, WakeLimits
from gatepost.store.port import Db
from gatepost.store.rights import switches
from gatepost.store.rights.switches import Switch
from gatepost.store.schedule import firings
from gatepost.store.sessions import due_sessions, sessions
from gatepost.store.sessions.groups import Group
from gatepost.store.sessions.sessions import Session, SessionMode
from gatepost.store.sessions.turn_failures import FailureCause
from gatepost.store.sessions.turns import TurnState

LOOKED_AT = 10 * SECOND


async def poll_waiting_work(
    deps: SessionDeps, request_wake: Callable[[str], None], is_halted: Callable[[], bool]
) -> None:
    """Until cancelled. `is_halted`: nothing may wake, so what is due is looked at later."""

    async def poll() -> float:
        now = deps.clock.now()
        if is_halted():
            await deps.store.write(due_sessions.defer_all_due, now, now + LOOKED_AT, durable=False)
        found, next_due = await deps.store.read(due_sessions.find_work, now, deps.claims.gateway)
        due = await deps.claims.list_here(found)
        for session_id, _, _ in due:
            request_wake(session_id)
        if due:
            seen = [each for each, _, _ in due]
            await deps.store.write(_defer, seen, now + LOOKED_AT, durable=False)
            next_due = await deps.store.read(due_sessions.get_next_due)
        return _get_pause(now, next_due, deps.config[LOOK_S])

    await WakeLoop(_log.error, "waiting work cannot be looked at", pause_s=deps.config[LOOK_S]).run(poll)


def _get_pause(now: int, due: int | None, longest: float) -> float:
    """Not longer than until the next row is due: a retry starts on time."""
    if due is None or due <= now:
        return longest
    return min(longest, (due - now) / SECOND + 0.001)


def _defer(db: Db, session_ids: list[str], until: int) -> None:
    for session_id in session_ids:
        due_sessions.defer_session_due(db, session_id, until)


HALTED_TURNS = "turns that a panic ended"  # as something to be written
CHANGED = "it was changed"  # why a session starts anew
DRAINED = "the gateway ends"
NO_PLACE_S = 10.0  # after which somebody who waits for a place is told
FILLED_S = 30.0  # between two tries to wake an agent that filled the disk
GONE_S = 2.0  # what the kernel has to end a killed sandbox

_log = log.get("sessions")


class SessionSupervisor:
    def __init__(self, deps: SessionDeps) -> None:
        self.deps = deps
        self._slots = SessionSlots(deps.config[MOST_AWAKE])
        self._live: dict[str, AwakeSession] = {}
        self._folders: dict[str, str] = {}
        self._wanted: dict[str, None] = {}  # in the order in which they came
        self._others: list[Callable[[], None]] = []
        self._kept_asleep: set[str] = set()
        self._outdated: set[str] = set()  # changed while they started
        self._is_crowded = False  # some of them stand in line
        self._unplaced: dict[str, float] = {}  # since when people wait for a place; inf: they were told
        self._bell = asyncio.Event()
        self._tasks: asyncio.TaskGroup | None = None
        self._stopping = False
        self.halted = False  # the operator has stopped everything
        self._halting = False  # … which is not written down yet
        self.host_limits = HostLimits(deps, lambda: self.awake, self._end_others)
        self._owed = DeferredWrites()  # by session: what ended there, and is not woken before that is written
        self.limits = WakeLimits(deps, self._slots, self.host_limits, lambda: self.awake)
        deps.events.on_session(self.request_wake)
        deps.events.on_tools(self._tools_changed)
        deps.events.on_group(self._group_changed)

    @property
    def awake(self) -> list[AwakeSession]:
        return list(self._live.values())

    def is_awake(self, session_id: str) -> bool:
        return session_id in self._live

    def is_at_rest(self, session_id: str) -> bool:
        """Return True if it is neither awake nor about to be claimed. One that stands in line is at rest."""
        return session_id not in self._live and not self._slots.has_place(session_id)

    @property
    def pressed(self) -> str:
        """The reason why no further sandbox is woken; '' if there is room."""
        return self.limits.pressed

    @property
    def held_back(self) -> str:
        """The reason why nothing further starts, where the store does not say it; '' if something may."""
        unwritten = "everything is stopped (`gatepost panic`), which is not written down yet"
        return unwritten if switches.PANIC in self._owed else self.pressed

    @property
    def waiting(self) -> int:
        return self._slots.waiting

    def request_wake(self, session_id: str) -> None:
        """Wake a session that has work."""
        live = self._live.get(session_id)
        if live is not None and not live.ending:
            live.ring()
            return
        self._wanted[session_id] = None
        self._bell.set()

    @contextmanager
    def adopt(self, live: AwakeSession) -> Iterator[None]:
        """A session that somebody else runs is one of ours meanwhile: watched, ended with the rest, not woken twice."""
        if self.halted:
            live.kill(Ending.by_person(turn_settlement.HALTED))  # before it has started anything
        self._live[live.session.id] = live
        try:
            yield
        finally:
            self._live.pop(live.session.id, None)

    @contextmanager
    def keep_asleep(self, session_id: str) -> Iterator[bool]:
        """Within the block nothing of a session is woken. False: it is awake, or about to be."""
        if session_id in self._live or session_id in self._slots or session_id in self._kept_asleep:
            yield False
            return
        self._kept_asleep.add(session_id)
        try:
            yield True
        finally:
            self._kept_asleep.discard(session_id)
            self._bell.set()

    async def run(self) -> None:
        """Until cancelled; then every sandbox is ended and its turn settled."""
        try:
            async with asyncio.TaskGroup() as tasks:
                self._tasks = tasks
                tasks.create_task(self._watch())
                tasks.create_task(self.host_limits.run())
                tasks.create_task(poll_waiting_work(self.deps, self.request_wake, lambda: self.halted))
                while True:
                    await self._bell.wait()
                    self._bell.clear()
                    await self._admit()
        finally:
            self._tasks = None
            self._owed.close()

    async def stop_all(self, reason: str) -> None:
        """The gateway goes down: sandboxes end now, their turns are continued by the next one."""
        self._stopping = True  # what ends here is not woken again, which would use up its one continuation
        for live in self.awake:
            live.kill(Ending.by_gateway(reason))
        for end in self._others:
            end()
        for _ in range(100):
            if not self._live:
                return
            await asyncio.sleep(0.05)

    async def drain(self, within: float) -> None:
        """Wake nothing any more. A session that works may finish its turn, for so many seconds."""
        self._stopping = True
        until = asyncio.get_running_loop().time() + within
        while self._live and asyncio.get_running_loop().time() < until:
            for live in self.awake:  # some were about to start
                live.end_after_turn(DRAINED)
            await asyncio.sleep(0.05)

    async def end_all(self, ending: Ending) -> None:
        """End all: nothing runs here any more when this returns. A session that may wake is woken again."""
        ended = self.awake
        for live in ended:
            live.kill(ending)
        for end in self._others:
            end()
        await _until_gone(ended)

    def set_frozen(self, frozen: bool) -> None:
        """While nobody here may act, nothing that runs in a sandbox goes on."""
        if self.deps.freezer.set_frozen(frozen):
            self._bell.set()

    async def stop(self, session_id: str, by: str) -> bool:
        """A person ends the running turn now, and what waits behind it. True if there was anything. People are told
        once nothing of it runs any more, or after a while in which the kernel would not let go of it."""
        live = self._live.get(session_id)
        self.kill(session_id, by)
        stop = partial(self.deps.store.write, turn_settlement.stop_turn, self.deps, session_id, by, lane=session_id)
        try:
            room = await self._owed.write_or_defer(session_id, stop, self._ring)
        except Unavailable:
            return live is not None  # it is written when the store is back
        self.deps.events.requests()  # what the turn asked people is withdrawn
        self.deps.events.errands()  # what it gave to others ends, too
        if live is not None:
            await _until_gone([live])
        if room is None:  # nothing ran, or the order itself has ended it
            return False
        self._ring(room)
        return True

    def kill(self, session_id: str, by: str) -> None:
        """The part of a stop that needs no store: whatever runs for this session is gone. `stop` writes it down."""
        if (live := self._live.get(session_id)) is not None:
            live.kill(Ending.by_person(f"stopped by {by}"))

    def _ring(self, room: tuple[str, str] | None) -> None:
        if room is not None:
            self.deps.events.room(*room)

    def list_asking(self) -> list[str]:
        """The sessions whose runner waits for somebody's answer."""
        return [live.session.id for live in self.awake if live.runner.requests.awaited and not live.ending]

    def is_awaited(self, session_id: str, request: str) -> bool:
        """Return True if a runner waits for the answer to this."""
        live = self._live.get(session_id)
        return live is not None and not live.ending and request in live.runner.requests.awaited

    def answer(self, session_id: str, request: str, verdict: str, given: dict[str, Any]) -> bool:
        """Pass on what somebody answered to a provider's request. False: nobody waits for it any more."""
        if not self.is_awaited(session_id, request):
            return False
        self._live[session_id].runner.requests.answer(request, verdict, given)
        return True

    async def end(self, session_id: str, reason: str) -> None:
        """Nothing of a session runs any more when this returns; what it was given waits."""
        self.deps.events.errands()
        if (live := self._live.get(session_id)) is not None:
            live.kill(Ending.by_gateway(reason))
            await _until_gone([live])

    def on_end_all(self, end: Callable[[], None]) -> None:
        """Something else that runs in sandboxes: called when all of them are to end."""
        self._others.append(end)

    def renew(self, session_id: str) -> None:
        """Start a session anew, after its turn if one runs: what it is told when it wakes has changed."""
        if (live := self._live.get(session_id)) is not None:
            live.end_after_turn(CHANGED)
        elif session_id in self._slots:
            self._outdated.add(session_id)  # it starts, perhaps by the old word

    async def apply_switches(self) -> int:
        """Do as the switches say: in a panic everything ends and nothing starts. Return the number of ended ones."""
        switch = await self.deps.store.read(switches.get, switches.PANIC)
        was, self.halted = self.halted, switch is not None
        if switch is None:
            self._owed.drop(switches.PANIC)
            for session_id in await self.deps.store.read(due_sessions.list_waiting_sessions) if was else ():
                self.request_wake(session_id)
            return 0
        ended = self._kill_all()
        rooms = await self.deps.store.write(turn_settlement.cancel_all_turns, self.deps, switch)
        await _until_gone(ended)
        for room in rooms:
            self.deps.events.room(*room)
        return len(ended)

    def follows(self, panic: Switch | None) -> bool:
        """Return True if it is done here as the switch says. An order that was just given here, and is not written,
        counts."""
        return (panic is not None) == self.halted or self._halting or switches.PANIC in self._owed

    async def halt(self, turn_on: Callable[[], Awaitable[bool]]) -> PanicResult:
        """A panic: everything ends and nothing starts, at once and in memory; then it is written down. A store that is
        away or does not answer is not waited for: it is written when that is back, unless it was turned off before."""
        self.halted = self._halting = True
        ended = self._kill_all()

        async def settle_turns() -> None:
            await self.apply_switches()

        changed, why = True, ""
        try:
            changed = await self._owed.write_or_defer(
                switches.PANIC, turn_on, lambda _: self._owed.put(HALTED_TURNS, settle_turns)
            )
            await self._owed.write_or_defer(HALTED_TURNS, settle_turns)
        except Unavailable as error:
            why = str(error) if switches.PANIC in self._owed else ""
        finally:
            self._halting = False
        await _until_gone(ended)
        return PanicResult(len(ended), changed, why)

    def _kill_all(self) -> list[AwakeSession]:
        for live in self.awake:
            live.kill(Ending.by_person(turn_settlement.HALTED))
        for end in self._others:
            end()
        return self.awake

    # Waking.

    async def _admit(self) -> None:
        if self._stopping or self.halted or self.deps.freezer.is_frozen:
            return
        wanted, self._wanted = self._wanted, {}
        for session_id in wanted:
            if session_id in self._kept_asleep:
                self._wanted[session_id] = None  # again, when it may wake
                continue
            in_background = self._slots.is_in_background(session_id)
            if session_id in self._slots and session_id not in self._live and not in_background:
                continue  # it stands in line, or starts
            session = await self.deps.store.read(sessions.get, session_id)
            if session is None or session.closed_at is not None or session_id in self._owed:
                continue
            if await self.deps.store.read(switches.find_stop, session.folder) is not None:
                continue  # the look finds it when it may work again
            if await self.deps.claims.is_elsewhere(session):
                continue  # whoever runs it hears of it, too
            if await self.deps.store.read(due_sessions.get_retry_time, session_id, self.deps.clock.now()) is not None:
                continue  # the look finds it when its next try is due; arrivals lead to none before
            live = self._live.get(session_id)
            if live is not None:
                if live.ending:
                    self._wanted[session_id] = None  # again, when it is gone
                else:
                    live.ring()
                continue
            background = await self.deps.store.read(due_sessions.has_only_tasks, session_id)
            self._slots.request_wake(session_id, session.folder, background=background)
        for live in self.awake:
            if live.runner.claimed:
                turn = live.runner.turn
                self._slots.set_background(live.session.id, turn is not None and turn.rights == firings.RIGHTS)
        self.limits.make_room()
        while (folder := self._slots.next_group()) is not None:
            if not (self.limits.may_start(folder) and self.limits.has_room()):
                break
            next_one = self._slots.pop()
            assert next_one is not None and self._tasks is not None
            self.limits.record_start(next_one)
            self._tasks.create_task(self._wake(next_one))
        self._is_crowded = self._slots.waiting > 0

    def _wake_next(self) -> None:
        """A session has started, or has done its work: another that waits may start, or take its place."""
        if self._is_crowded:
            self._bell.set()

    async def _wake(self, session_id: str) -> None:
        claimed = False
        try:
            session = await self.deps.store.read(sessions.get, session_id)
            claimed = session is not None and await self.deps.claims.claim(session)
            if claimed:
                await self._run_session(session_id)
        except* Exception as trouble:  # noqa: BLE001  one session's trouble must not end the others
            await turn_settlement.record_failed_wake(self.deps, session_id, trouble)
        finally:
            self._live.pop(session_id, None)
            self.limits.record_end(session_id)
            self._slots.release(session_id)
            self._bell.set()
        if not claimed:
            return
        with suppress(Unavailable):  # then the next look finds it
            await self.deps.claims.release(session_id)
            if await self.deps.store.read(due_sessions.has_work, session_id, self.deps.clock.now()):
                if self._stopping:
                    self.deps.events.session(session_id)  # another gateway may wake it
                else:
                    self.request_wake(session_id)

    async def _run_session(self, session_id: str) -> None:
        self._outdated.discard(session_id)
        session = await self.deps.store.read(sessions.get, session_id)
        group = await self.deps.store.read(self._group_of, session) if session else None
        if session is None or group is None:
            return
        orphan = await turn_settlement.open_turn(self.deps, session)
        if orphan is not None and orphan.state in (TurnState.CLAIMED, TurnState.BEGUN):
            await turn_settlement.settle_broken_turn(
                self.deps, session, orphan, FailureCause(reason="the agent's sandbox is gone")
            )
        if self.halted or session_id in self._owed:
            return
        if await self.deps.store.read(switches.find_stop, session.folder) is not None:
            return
        if why := self.host_limits.find_why_asleep(session.folder):
            raise Unavailable("the agent", why, retry_after=FILLED_S)
        live = self._live[session_id] = AwakeSession(
            self.deps,
            session,
            group,
            group.provider,
            self._wake_next,
            self._wake_next,
            yields=self.limits.must_yield(session.folder),
        )
        if session_id in self._outdated:
            live.end_after_turn(CHANGED)
        await live.run()
        await _remove_ended_run(self.deps, session_id)

    def _group_of(self, db: Db, session: Session) -> Group | None:
        return load_effective_group(db, self.deps.config, session.folder, session.provider)

    # Watching.

    def _end_others(self) -> None:
        for end in self._others:
            end()

    async def _watch(self) -> None:
        while True:
            await asyncio.sleep(0.5)
            if self.limits.has_room() and self._slots.waiting:
                self._bell.set()
            await self._notify_unplaced()
            if self.deps.freezer.is_frozen:
                continue  # nobody in there could say anything: that time is counted against nobody
            now = self.deps.listening.tick()
            for session_id, live in list(self._live.items()):
                if live.ending:
                    continue
                verdict = check_timeouts(live.timing(now, session_id in self._wanted), live.patience)
                if verdict is SessionVerdict.REST:
                    assert self._tasks is not None
                    self._tasks.create_task(live.rest("idle"))
                elif verdict is SessionVerdict.SLEEP:
                    live.kill(Ending.to_sleep())
                elif verdict is SessionVerdict.LOST:
                    live.kill(Ending("the agent went silent"))
                elif verdict is SessionVerdict.WRAP_UP:
                    live.warn(now)
                elif verdict is SessionVerdict.TIME_UP:
                    live.runner.interrupt()
                elif verdict is SessionVerdict.OVERTIME:
                    live.kill(Ending("the agent took too long"))

    async def _notify_unplaced(self) -> None:
        """Tell people who wait for a free place, once for each time that they wait."""
        now, waiting = asyncio.get_running_loop().time(), self._slots.list_waiting_people() if self._slots.awake else ()
        self._unplaced = {each: self._unplaced.get(each, now) for each in waiting}
        for session_id in [each for each, since in self._unplaced.items() if now - since >= NO_PLACE_S]:
            self._unplaced[session_id] = math.inf
            with suppress(Unavailable):
                tell = turn_settlement.add_place_notice
                self._ring(await self.deps.store.write(tell, self.deps, session_id, lane=session_id))

    def _group_changed(self, folder: str) -> None:
        """Its sandboxes start anew by the new word: at once if they rest, else after their turn."""
        for live in self.awake:
            if is_affected_by(self.deps.config, live.session.folder, folder):
                live.end_after_turn("its group was changed")

    def _tools_changed(self, folder: str | None) -> None:
        for live in self.awake:
            if folder is None or live.session.folder == folder:
                live.tools_changed()


async def _until_gone(killed: list[AwakeSession]) -> None:
    with suppress(TimeoutError):
        async with asyncio.timeout(GONE_S):
            for live in killed:
                await live.gone.wait()


async def _remove_ended_run(deps: SessionDeps, session_id: str) -> None:
    """Remove the files of a single run that is over: nobody goes on with it, and a task has as many as it has times.
    Nothing of it runs any more. A file that cannot be removed now is left to retention."""
    session = await deps.store.read(sessions.get, session_id)
    if session is None or session.mode is not SessionMode.ISOLATED or session.closed_at is None:
        return

    def remove() -> None:
        with open_untrusted(deps.home.sessions) as root:
            root.remove_tree(session_id)

    with suppress(GatepostError, OSError):
        await asyncio.to_thread(remove)
