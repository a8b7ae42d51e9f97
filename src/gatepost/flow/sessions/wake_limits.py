"""How many sandboxes may start now, by the places, the processors and the memory there are; in which order sessions are
woken, and which make way.

People come before schedules. Groups take turns, and the one with the fewest places comes first; within a group, first
come first served. A group that wants more places takes them from the one that holds the most, itself included. It never
takes the last place at rest of a group that has fewer, unless nobody has used that for a while.
"""

import asyncio
import os
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field

from msgspec import Struct

from gatepost.core import log
from gatepost.core.clock import SECOND
from gatepost.core.fair_queue import FairQueue
from gatepost.core.records import replace
from gatepost.flow.sessions.awake_session import AwakeSession
from gatepost.flow.sessions.host import memory_pressure
from gatepost.flow.sessions.host.host_limits import HostLimits
from gatepost.flow.sessions.session_deps import SessionDeps
from gatepost.flow.sessions.session_ending import Ending

JUST_NOW = SECOND  # who had something to do within this time is at work
RESTED_LONG = 30 * SECOND  # after that a place at rest is anybody's, however few its group has
PROCESSORS = max(2, os.cpu_count() or 1)
START_S = 2.0  # a start that takes longer is not counted any more: no hog keeps all the time for itself
REST_S = 0.5  # the longest rest after a start
_log = log.get("sessions")


class IdleSession(Struct, frozen=True):
    """An awake session with nothing to do."""

    session_id: str
    idle: int  # for so many microseconds
    long: bool = False  # so long that its place is anybody's


@dataclass(slots=True)
class SessionSlots:
    most: int
    _awake: dict[str, str] = field(default_factory=dict)  # session: its group
    _people: FairQueue[str] = field(default_factory=FairQueue)
    _background: FairQueue[str] = field(default_factory=FairQueue)
    _awake_in_background: set[str] = field(default_factory=set)  # of those that hold a place

    def __contains__(self, session_id: str) -> bool:
        """Return True if it holds a place or waits for one."""
        return session_id in self._awake or session_id in self._people or session_id in self._background

    def has_place(self, session_id: str) -> bool:
        return session_id in self._awake

    @property
    def awake(self) -> int:
        return len(self._awake)

    @property
    def waiting(self) -> int:
        return len(self._people) + len(self._background)

    @property
    def free(self) -> int:
        """Places that nobody holds. Fewer than none after a setting was lowered."""
        return self.most - len(self._awake)

    @property
    def full(self) -> bool:
        return self.free <= 0

    @property
    def _background_places(self) -> int:
        """How many more schedules may take. Where there are several, one is left to people: a long run keeps nobody
        out."""
        return max(0, max(1, self.most - 1) - len(self._awake_in_background))

    def request_wake(self, session_id: str, folder: str, *, background: bool = False) -> None:
        """Stand in line, once. A session that stands there for a schedule and is asked by a person goes to the
        people's."""
        if not background:
            self._background.discard(session_id)
        if session_id in self:
            return
        (self._background if background else self._people).add(session_id, folder)

    def is_in_background(self, session_id: str) -> bool:
        """Return True if it waits for a place, and no person for it."""
        return session_id in self._background

    def list_waiting_people(self) -> list[str]:
        """The sessions that wait for a place because a person asked them something."""
        return list(self._people)

    def set_background(self, session_id: str, background: bool) -> None:
        """Note that a session that holds a place works for a schedule now, or no longer."""
        if background and session_id in self._awake:
            self._awake_in_background.add(session_id)
        else:
            self._awake_in_background.discard(session_id)

    def next_group(self) -> str | None:
        """Return the group whose session wakes next; None if nobody waits or all places are taken."""
        found = self._next_line()
        return None if found is None else found[1]

    def pop(self) -> str | None:
        """The next session that may wake, which then holds a place; None if nobody waits or all places are taken."""
        found = self._next_line()
        if found is None:
            return None
        line, folder = found
        session_id = line.pop(folder)
        self._awake[session_id] = folder
        if line is self._background:
            self._awake_in_background.add(session_id)
        return session_id

    def _next_line(self) -> tuple[FairQueue[str], str] | None:
        if self.full:
            return None
        held = Counter(self._awake.values())
        for line in (self._people, self._background):
            folder = line.next_group(held.__getitem__)
            if folder is not None and (line is self._people or self._background_places):
                return line, folder
        return None

    def pick_evictions(self, resting: Collection[IdleSession], ending: int = 0) -> list[str]:
        """Which of those at rest end, so that others that wait get a place. `ending`: places that are about to be
        free."""
        held = Counter(self._awake.values())
        free = self.free + ending
        left, ended = list(resting), list[str]()
        for line in (self._people, self._background):
            waiting = line.sizes()
            places = self._background_places if line is self._background else len(line)
            while waiting and (left or free > 0) and places > 0:
                places -= 1
                folder = min(waiting, key=held.__getitem__)  # as they will be taken
                if free > 0:
                    free -= 1
                elif (victim := self._victim(folder, left, held)) is not None:
                    left.remove(victim)
                    ended.append(victim.session_id)
                    held[self._awake[victim.session_id]] -= 1
                else:
                    del waiting[folder]
                    places += 1
                    continue
                held[folder] += 1
                waiting[folder] -= 1
                if not waiting[folder]:
                    del waiting[folder]
        return ended

    def _victim(self, folder: str, resting: list[IdleSession], held: Counter[str]) -> IdleSession | None:
        """Return the session that rests longest in the group with the most places."""

        def may(each: IdleSession) -> bool:
            owner = self._awake[each.session_id]
            more = held[owner] - held[folder]
            return owner == folder or each.long or more > (1 if held[folder] else 0)  # one more or less is even

        allowed = [each for each in resting if each.session_id in self._awake and may(each)]
        return max(allowed, key=lambda each: (held[self._awake[each.session_id]], each.idle), default=None)

    def pick_memory_eviction(self, resting: Collection[IdleSession]) -> str:
        """The session at rest that ends first when memory is short, '' if there is none."""
        held = Counter(self._awake.values())
        known = [each for each in resting if each.session_id in self._awake]
        first = max(known, key=lambda each: (held[self._awake[each.session_id]], each.idle), default=None)
        return first.session_id if first else ""

    def release(self, session_id: str) -> None:
        self._awake.pop(session_id, None)
        self._awake_in_background.discard(session_id)

    def forget(self, session_id: str) -> None:
        """It no longer wants to wake."""
        self._people.discard(session_id)
        self._background.discard(session_id)


def must_yield(folder: str, working: Collection[str]) -> bool:
    """Decide if a start gives way: its group has a session at work already, and so has another group.

    The first session of a group starts at once: in the time that others leave it would wait long on a busy machine.
    """
    return folder in working and len(working) > 1


class StartPace:
    """How many sandboxes start at once. Starts beyond what the processors can do delay every session that is awake."""

    def __init__(self) -> None:
        self._since: dict[str, float] = {}  # of the sessions that start
        self._rests_until = 0.0  # who gives way starts nothing before

    def record_start(self, session_id: str, now: float) -> None:
        self._since[session_id] = now

    def record_end(self, session_id: str) -> None:
        self._since.pop(session_id, None)

    def may_start(self, yields: bool, started: Collection[str], now: float) -> bool:
        """Decide if one more may start. `started`: the sessions that work by now.

        A group that gives way leaves one processor to those who work, and after each start as much time as that took.
        A start that takes long (a slow provider, a container, processors that others keep busy) holds up nobody.
        """
        for session_id, since in list(self._since.items()):
            if session_id in started or now - since > START_S:
                del self._since[session_id]
                self._rests_until = now + min(now - since, REST_S)
        if yields:
            return len(self._since) < max(1, PROCESSORS - 1) and now >= self._rests_until
        return len(self._since) < 2 * PROCESSORS


class WakeLimits:
    def __init__(
        self,
        deps: SessionDeps,
        slots: SessionSlots,
        host_limits: HostLimits,
        list_awake: Callable[[], Sequence[AwakeSession]],
    ) -> None:
        self._slots, self._host_limits, self._list_awake = slots, host_limits, list_awake
        self._least_free = deps.config[memory_pressure.LEAST_FREE_MB]
        self.read_memory = deps.memory
        self._starts = StartPace()
        self.pressed = ""  # why no further sandbox is woken, '' if there is room

    def record_start(self, session_id: str) -> None:
        self._starts.record_start(session_id, asyncio.get_running_loop().time())

    def record_end(self, session_id: str) -> None:
        self._starts.record_end(session_id)

    def make_room(self) -> None:
        """More want to wake than there are places: some of those at rest make way, no more than can start soon. Who
        ends for a place that nobody takes yet has to be started again."""
        awake = {live.session.id: live for live in self._list_awake()}
        ending = sum(1 for live in awake.values() if live.ending)
        needed = min(self._slots.waiting, 2 * PROCESSORS) - self._slots.free - ending
        if needed <= 0 or not (idle := self._list_idle()):
            return
        for session_id in self._slots.pick_evictions(idle, ending)[:needed]:
            awake[session_id].kill(Ending.by_gateway("made way for another session"))

    def _list_idle(self) -> list[IdleSession]:
        idle = ((live.session.id, live.idle_for) for live in self._list_awake() if live.is_idle)
        return [IdleSession(session_id, since, since > RESTED_LONG) for session_id, since in idle]

    def may_start(self, folder: str) -> bool:
        """Return True if the processors have room for a start of this group."""
        started = {live.session.id for live in self._list_awake() if live.runner.claimed}
        return self._starts.may_start(self.must_yield(folder), started, asyncio.get_running_loop().time())

    def must_yield(self, folder: str) -> bool:
        """Return True if a start of this group gives way to those who work."""
        return must_yield(folder, self._list_working())

    def _list_working(self) -> set[str]:
        """Return the groups that have a session at work, or had one just now."""
        return {each.session.folder for each in self._list_awake() if not each.is_idle or each.idle_for < JUST_NOW}

    def has_room(self) -> bool:
        """Return True if the machine's memory has room for one more; if not, the one that rests longest makes way."""
        first = self._slots.pick_memory_eviction(self._list_idle())
        verdict = memory_pressure.check_memory(
            self.read_memory(), self._least_free, self._slots.awake, [(0, first)] if first else []
        )
        if self._host_limits.low:
            verdict = replace(verdict, wake=False, why=verdict.why or self._host_limits.low)
        if bool(verdict.why) != bool(self.pressed):
            _log.warning("no further sandbox is woken" if verdict.why else "there is room again", why=verdict.why)
        self.pressed = verdict.why
        for live in self._list_awake() if verdict.end else ():
            if live.session.id == verdict.end:
                live.kill(Ending.by_gateway("made way for others: little memory is left"))
        return verdict.wake
