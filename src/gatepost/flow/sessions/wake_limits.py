"""How many sandboxes may start now: by the places, the processors and the memory there are. Who rests makes way."""

import asyncio
import os
from collections.abc import Callable, Sequence

from gatepost.core import log
from gatepost.core.clock import SECOND
from gatepost.core.records import replace
from gatepost.flow.sessions.awake_session import AwakeSession
from gatepost.flow.sessions.ending import Ending
from gatepost.flow.sessions.host import memory_pressure
from gatepost.flow.sessions.host.host_limits import HostLimits
from gatepost.flow.sessions.session_deps import SessionDeps
from gatepost.flow.sessions.slots import IdleSession, SessionSlots

JUST_NOW = SECOND  # who had something to do within this time is at work
RESTED_LONG = 30 * SECOND  # after that a place at rest is anybody's, however few its group has
PROCESSORS = max(2, os.cpu_count() or 1)
START_S = 2.0  # a start that takes longer is not counted any more
PATIENCE_S = 0.5  # once the line has stood so long, one more for each processor may start

_log = log.get("sessions")


class WakeLimits:
    def __init__(
        self,
        parts: SessionDeps,
        slots: SessionSlots,
        host_limits: HostLimits,
        list_awake: Callable[[], Sequence[AwakeSession]],
    ) -> None:
        self._slots, self._host_limits, self._list_awake = slots, host_limits, list_awake
        self._least_free = parts.config[memory_pressure.LEAST_FREE_MB]
        self.read_memory = parts.memory
        self._starting: dict[str, float] = {}  # since when
        self._waiting_since: float | None = None  # when somebody came to stand in line, and nobody stood there before
        self.pressed = ""  # why no further sandbox is woken, '' if there is room

    def record_start(self, session_id: str) -> None:
        self._starting[session_id] = asyncio.get_running_loop().time()

    def record_end(self, session_id: str) -> None:
        self._starting.pop(session_id, None)

    def make_room(self) -> None:
        """More want to wake than there are places: some of those at rest make way, no more than can start soon. Who
        ends for a place that nobody takes yet has to be started again."""
        awake = {live.session.id: live for live in self._list_awake()}
        ending = sum(1 for live in awake.values() if live.ending)
        soon = PROCESSORS * (3 if self._is_line_long(asyncio.get_running_loop().time()) else 2)
        needed = min(self._slots.waiting, soon) - self._slots.free - ending
        if needed <= 0 or not (idle := self._list_idle()):
            return
        for session_id in self._slots.pick_evictions(idle, ending)[:needed]:
            awake[session_id].kill(Ending.by_gateway("made way for another session"))

    def _list_idle(self) -> list[IdleSession]:
        idle = ((live.session.id, live.idle_for) for live in self._list_awake() if live.is_idle)
        return [IdleSession(session_id, since, since > RESTED_LONG) for session_id, since in idle]

    def may_start(self) -> bool:
        """Starts beyond what the processors can do at once delay every session that is awake. One processor is left to
        them where several groups are at work; one group by itself starts twice as many as there are processors. If
        others stand in line for long, there are more: those awake must not keep all the time for themselves. A start
        that takes long (a slow provider, a container) holds up nobody."""
        now = asyncio.get_running_loop().time()
        awake = {live.session.id: live for live in self._list_awake()}
        for session_id, since in list(self._starting.items()):
            live = awake.get(session_id)
            if now - since > START_S or (live is not None and live.runner.claimed):
                del self._starting[session_id]
        working = {live.session.folder for live in awake.values() if not live.is_idle or live.idle_for < JUST_NOW}
        usual = max(1, PROCESSORS - 1) if len(working) > 1 else 2 * PROCESSORS
        return len(self._starting) < usual + (PROCESSORS if self._is_line_long(now) else 0)

    def _is_line_long(self, now: float) -> bool:
        """Return True if there was always somebody in line for a while."""
        if not self._slots.waiting:
            self._waiting_since = None
            return False
        if self._waiting_since is None:
            self._waiting_since = now
        return now - self._waiting_since >= PATIENCE_S

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
