"""One gateway among several: it keeps its lease, takes over from those who lost theirs, and takes its share of duties.

By its own clock it stops acting before others may judge it dead. When somebody has taken over from it, its sandboxes
are ended, and it begins a new life.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from typing import Protocol

from msgspec import Struct

from gatepost.core import log
from gatepost.core.errors import SetupError, Unavailable
from gatepost.core.event_bus import Bell, EventBus
from gatepost.core.process.keeper_process import read_clock
from gatepost.core.process.wake_loop import WakeLoop
from gatepost.flow.gateways.duties import (
    LOOPS,
    Duties,
    DutyElsewhere,
    DutyHealth,
    DutyView,
    parse_health,
    plan_duties,
)
from gatepost.flow.gateways.keeper import Keeper
from gatepost.flow.sessions import turn_settlement
from gatepost.flow.sessions.crash_recovery import make_restart_cause
from gatepost.flow.sessions.session_deps import SessionDeps
from gatepost.flow.sessions.session_ending import Ending
from gatepost.flow.sessions.session_supervisor import SessionSupervisor
from gatepost.store.gateways import commands, gateways
from gatepost.store.gateways.gateways import DutyPause, DutyRow, GatewayIdentity, GatewayState, encode_duty
from gatepost.store.money import ledger, reservations
from gatepost.store.port import Db, Store
from gatepost.store.rights import audit
from gatepost.store.rights.audit import AuditRecord
from gatepost.store.sessions import due_sessions, sessions, sleeping_turns, turns
from gatepost.store.sessions.turns import TurnState

LOST = "another gateway has taken over from this one"

HELLO = "hello"
HEARD_S = 4.5  # for which one that was heard is there, whether or not the last beat has found it

EndLife = Callable[[Db, str, int], bool]
Notice = tuple[str, ...]

_log = log.get("gateways")


class NoticePort(Protocol):
    """The place where gateways leave words for each other."""

    def post(self, notice: Notice) -> None: ...
    def start(self) -> None: ...
    async def stop(self) -> None: ...


class EventRelay:
    """Rings the bells of this gateway at the others, unless they concern it alone.

    A gateway that is alone sends nothing, since each notice costs the database a transaction. A gateway that starts
    announces itself.
    """

    def __init__(
        self,
        events: EventBus,
        is_here: Callable[[str], bool],
        look: Callable[[], None],
        yield_s: float = 0.0,
        is_alone: Callable[[], bool] = lambda: False,
    ) -> None:
        """`is_here`: whether a session is awake on this gateway. `look`: called when words may have been missed.
        `yield_s`: for so long a session that sleeps is left to who rang. `is_alone`: by the last beat."""
        self._events, self._is_here, self._look, self._yield_s = events, is_here, look, yield_s
        self._is_alone, self._heard_until = is_alone, 0.0
        self.exchange: NoticePort | None = None
        events.on_any(self._relay)

    @asynccontextmanager
    async def running(
        self, open_exchange: Callable[[Callable[[list[Notice]], None]], NoticePort]
    ) -> AsyncIterator[None]:
        self.exchange = open_exchange(self.receive)
        self.exchange.start()
        try:
            yield
        finally:
            exchange, self.exchange = self.exchange, None
            await exchange.stop()

    def _relay(self, bell: Bell, *args: str) -> None:
        if self.exchange is None or (bell is Bell.SESSION and self._is_here(args[0])):
            return
        if not self._is_alone() or time.monotonic() < self._heard_until:
            self.exchange.post((bell, *args))

    def receive(self, notices: list[Notice]) -> None:
        """Ring the bells that others rang. Runs on the loop."""
        if notices:
            self._heard_until = time.monotonic() + HEARD_S
        else:
            if self.exchange is not None:
                self.exchange.post((HELLO,))
            self._look()
        for name, *args in notices:
            if name == Bell.SESSION and self._yield_s and not self._is_here(*args):
                asyncio.get_running_loop().call_later(self._yield_s, self._events.receive, Bell.SESSION, *args)
            elif name in Bell.__members__.values():
                self._events.receive(Bell(name), *args)


class Lease(Protocol):
    """The lease that a store for several gateways gives each of them."""

    @property
    def identity(self) -> GatewayIdentity: ...
    @property
    def name(self) -> str: ...
    @property
    def epoch(self) -> int: ...
    @property
    def in_contact(self) -> bool: ...
    @property
    def stops_at(self) -> float: ...
    @property
    def is_over(self) -> bool: ...
    @property
    def dead(self) -> tuple[tuple[str, int], ...]: ...
    @property
    def must_leave(self) -> str: ...
    @property
    def is_alone(self) -> bool: ...
    @property
    def companions(self) -> tuple[str, ...]: ...

    def begin(self) -> None: ...
    def start(self, on_change: Callable[[], None]) -> None: ...
    def stop(self) -> None: ...
    def end_life(self, db: Db, name: str, epoch: int) -> bool: ...
    def end_connections(self, name: str) -> None: ...
    def open_exchange(self, hear: Callable[[list[Notice]], None]) -> NoticePort: ...


class DutyWork(Struct, frozen=True, kw_only=True):
    """A gateway's part in the duties, by their names: here those of its channels."""

    list_wanted: Callable[[], Iterable[str]]  # that it can do
    list_platforms: Callable[[], Iterable[str]]  # that keep a connection to a platform
    list_bound: Callable[[], Iterable[str]]  # that keep keys of a device on this machine
    list_failing: Callable[[], Mapping[str, float]]  # for how many seconds
    list_made: Callable[[], Mapping[str, int]]
    list_health: Callable[[], Mapping[str, DutyHealth]]
    is_busy: Callable[[str], bool]  # something of it is under way
    give_up_s: float


class GatewayMembership:
    def __init__(
        self,
        lease: Lease,
        store: Store,
        sessions: SessionSupervisor,
        duties: Duties,
        work: DutyWork,
        keeper: Keeper,
    ) -> None:
        self._lease, self._store, self._sessions, self._duties = lease, store, sessions, duties
        self._work, self._keeper = work, keeper
        self._leaving: dict[str, DutyPause | None] = {}  # given up, once nothing of it is under way
        self._came_back: dict[str, frozenset[str]] = {}  # left to these gateways once, in vain or not
        self._loop = WakeLoop(_log.warning, "the gateways cannot be looked at", errors=(Unavailable, SetupError))
        self._contact_loop = WakeLoop(_log.warning, "the contact cannot be watched")
        deps = sessions.deps
        self._relay = EventRelay(
            deps.events, sessions.is_awake, self._refresh, deps.claims.yield_s, lambda: lease.is_alone
        )
        self.takeovers = 0
        self.is_draining = False
        self.on_order: Callable[[str], None] = lambda reason: None  # it must end, and why
        self._ordered = self._has_news = False
        sessions.deps.events.on_gateways(self._receive_news)

    async def recover(self) -> None:
        """At the start: what an earlier life of this gateway left, and what commands beside it did."""
        deps, name = self._sessions.deps, self._lease.name
        await self._store.write(_release_all, deps, name)
        for earlier in await self._store.write(_absorb_earlier, deps, self._lease.identity.home):
            _log.warning("this home had another name, and takes its groups along", was=earlier, gateway=name)
        await self._store.write(reservations.settle_leftovers, deps.clock.now())

    def start(self) -> None:
        """Before anything that takes long: a gateway that starts slowly is not taken for dead meanwhile."""
        loop = asyncio.get_running_loop()

        def wake() -> None:
            self._update_keeper()
            loop.call_soon_threadsafe(self._loop.wake)
            loop.call_soon_threadsafe(self._contact_loop.wake)

        self._update_keeper()
        self._lease.start(wake)

    async def run(self) -> None:
        """Until cancelled. After `start`."""
        watching = asyncio.create_task(self._contact_loop.run(self._follow_contact))
        try:
            async with self._relay.running(self._lease.open_exchange):
                await self._loop.run(self._step)
        finally:
            watching.cancel()
            await asyncio.to_thread(self._lease.stop)

    def _receive_news(self) -> None:
        """Another has given something up: it is looked at now, not at the next beat."""
        self._has_news = True
        self._loop.wake()

    def close(self) -> None:
        """Take nothing new, and begin nothing for all."""
        self.is_draining = True
        self._duties.set_held(())

    async def release_duties(self) -> None:
        """Once nothing of them is under way: others have them from now on."""
        await self._store.write(self._release_duties)
        self._sessions.deps.events.gateways()

    def _release_duties(self, db: Db) -> None:
        gateways.release_duties(db, self._lease.name, self._sessions.deps.clock.now())
        gateways.set_state(db, self._lease.name, self._lease.epoch, gateways.GatewayState.DRAINING)

    async def leave(self) -> None:
        """Everything that this gateway has is anybody's, at once. After its sandboxes have ended."""
        await self._store.write(self._leave)
        self._sessions.deps.events.gateways()

    def _leave(self, db: Db) -> None:
        name = self._lease.name
        _release_all(db, self._sessions.deps, name)
        gateways.set_state(db, name, self._lease.epoch, gateways.GatewayState.GONE)

    async def _step(self) -> None:
        if self._lease.must_leave and not self._ordered:
            self._ordered = True
            self.on_order(self._lease.must_leave)
        if self._lease.is_over:
            await self._begin_again()
        if not self._lease.in_contact:
            return
        for name, epoch in self._lease.dead:
            await self._recover_from(name, epoch)
        if not self.is_draining:
            await self._share_duties()
            await self._wake_given_up()

    async def _follow_contact(self) -> float | None:
        """Let nothing in a sandbox go on while this gateway may not act, whatever else it waits for. Return the seconds
        until that may change by itself."""
        in_contact = self._lease.in_contact
        self._sessions.set_frozen(not in_contact)
        return max(0.0, self._lease.stops_at - read_clock()) if in_contact else None

    def _update_keeper(self) -> None:
        """Tell the keeper until when the lease holds. May run in any thread. A gateway out of contact sends nothing, so
        the keeper acts when the time is over."""
        if self._lease.in_contact:
            self._keeper.set_time(self._lease.stops_at, self._lease.epoch)

    def _refresh(self) -> None:
        """Words of others may have been missed: everybody looks by themselves, but for those who keep something."""
        self._sessions.deps.events.receive(Bell.TOOLS)
        self._sessions.deps.events.receive(Bell.COMMANDS, self._lease.name)

    async def _begin_again(self) -> None:
        self._duties.set_held(())
        self._leaving.clear()
        await self._sessions.end_all(Ending.by_gateway(LOST))
        await asyncio.to_thread(self._lease.begin)
        self._update_keeper()
        _log.warning("this gateway begins anew", gateway=self._lease.name, epoch=self._lease.epoch)
        await self.recover()

    async def _recover_from(self, name: str, epoch: int) -> None:
        await asyncio.to_thread(self._lease.end_connections, name)
        deps = self._sessions.deps
        done: Takeover | None = await self._store.write(_recover_from, deps, name, epoch, self._lease.end_life)
        if done is None:
            return
        self.takeovers += 1
        _log.warning("took over from a gateway", gateway=name, epoch=epoch, sessions=len(done.sessions))
        for room in done.rooms:
            deps.events.room(*room)
        deps.events.gateways()
        for session_id in await self._store.read(due_sessions.list_waiting_sessions):
            self._sessions.request_wake(session_id)

    async def _wake_given_up(self) -> None:
        if self._has_news:
            self._has_news = False
            for session_id in await self._store.read(due_sessions.list_waiting_sessions):
                self._sessions.request_wake(session_id)

    async def _share_duties(self) -> None:
        """One read for each beat, however many gateways there are; none while this one is alone and has all."""
        work = self._work
        wanted = frozenset((*LOOPS, *work.list_wanted()))
        if self._lease.is_alone and not self._leaving and wanted <= self._duties.list_held():
            return
        now, own = self._sessions.deps.clock.now(), self._lease.name
        rows = {each.name: each for each in await self._store.read(gateways.list_duty_rows)}
        self._duties.set_elsewhere({name: DutyElsewhere(row.gateway, parse_health(row)) for name, row in rows.items()})
        await self._record_health(rows)
        if self._leaving:
            await self._finish_leaving(rows, now)
            return
        others = frozenset(self._lease.companions)
        self._came_back = {name: seen for name, seen in self._came_back.items() if seen == others}
        plan = plan_duties(
            DutyView(
                own=own,
                others=others,
                rows=rows,
                wanted=wanted,
                platforms=frozenset(work.list_platforms()),
                failing=work.list_failing(),
                made=work.list_made(),
                fixed=frozenset((*work.list_bound(), *self._came_back)),
                now=now,
                give_up_s=work.give_up_s,
            )
        )
        if plan.claim:
            held = await self._store.write(gateways.claim_duties, plan.claim, own, now, durable=False)
            if not self.is_draining:  # else they are given up with the rest
                self._duties.set_held(held)
        elif plan.leave:
            self._leave_duty(plan.leave, plan.pause, others)

    def _leave_duty(self, name: str, pause: DutyPause | None, others: frozenset[str]) -> None:
        """Begin nothing more of it. The next beats give it up, once nothing of it is under way."""
        self._leaving[name] = pause
        if pause is None:
            self._came_back[name] = others  # if nobody takes it, it is not left to the same ones again
        else:
            _log.warning("a channel does not work here and is left to another gateway", duty=name)
        self._duties.set_held(self._duties.list_held() - {name})

    async def _finish_leaving(self, rows: dict[str, DutyRow], now: int) -> None:
        own = self._lease.name
        for name, pause in list(self._leaving.items()):
            if self._work.is_busy(name):
                continue
            row = rows.get(name)
            pauses = row.pauses if row is not None else {}
            paused = encode_duty({**pauses, own: pause}).decode() if pause is not None else row.paused if row else ""
            await self._store.write(gateways.release_duty, name, own, paused, now)
            del self._leaving[name]
            self._sessions.deps.events.gateways()

    async def _record_health(self, rows: dict[str, DutyRow]) -> None:
        """As the other gateways are to see it; written when it has changed."""
        own = self._lease.name
        for name, health in self._work.list_health().items():
            row = rows.get(name)
            if row is None or row.gateway != own:
                continue
            encoded, works = encode_duty(health).decode(), name not in self._work.list_failing()
            pauses = {each: pause for each, pause in row.pauses.items() if not (works and each == own)}
            paused = encode_duty(pauses).decode() if pauses else ""
            if (encoded, paused) != (row.health, row.paused):
                await self._store.write(gateways.set_duty_health, name, own, encoded, paused, durable=False)


class Takeover(Struct, frozen=True):
    """The outcome of a takeover from a dead gateway: one transaction, by the gateway that notices first.

    Its sessions become free for any gateway, and its turns are continued as after a restart. Its reservations for model
    calls are booked in full, and its duties are free. The next sender to a room looks up the messages that it was
    sending; those that cannot be found become uncertain.
    """

    sessions: tuple[str, ...]
    rooms: tuple[tuple[str, str], ...]  # where somebody is told something
    turns: int
    reservations: int


def _recover_from(db: Db, deps: SessionDeps, name: str, epoch: int, end_life: EndLife) -> Takeover | None:
    """None: it lives after all, or another was first."""
    if not end_life(db, name, epoch):
        return None
    return _release_and_seal(db, deps, name, epoch)


def _absorb_earlier(db: Db, deps: SessionDeps, home: str) -> list[str]:
    """Take over what this gateway's home left under other names, and forget these."""
    earlier = [each for each in gateways.list_earlier(db, home, deps.owner) if each.state is GatewayState.GONE]
    for each in earlier:
        _release_and_seal(db, deps, each.name, each.epoch)
        gateways.remove(db, each.name)
    return [each.name for each in earlier]


def _release_and_seal(db: Db, deps: SessionDeps, name: str, epoch: int) -> Takeover:
    done, seal = _release_all(db, deps, name), audit.make_seal(db, name)
    details = {"gateway": name, "epoch": epoch, "turns": done.turns, "sessions": len(done.sessions), "seal": seal}
    audit.append(db, AuditRecord(deps.clock.now(), f"gateway:{deps.owner}", audit.SEAL, "done", details))
    return done


def _release_all(db: Db, deps: SessionDeps, name: str) -> Takeover:
    """The same for an earlier life of a gateway, when it starts."""
    now, rooms, count = deps.clock.now(), list[tuple[str, str]](), 0
    ledger.reset_due_times(db, now)
    sleeping_turns.defer_sleeping(db, now)
    for turn in turns.list_open_of(db, name):
        session = sessions.get(db, turn.session_id)
        if session is None or turn.state == TurnState.INTERRUPTED:
            continue
        count += 1
        room = turn_settlement.record_broken_turn(db, deps, session, turn, make_restart_cause(db, deps, turn))
        rooms += [room] if room is not None else []
    booked = reservations.settle_leftovers(db, now, name)
    released = gateways.release_sessions(db, name)
    gateways.release_duties(db, name, now)
    commands.free_commands(db, name, now)
    return Takeover(tuple(released), tuple(rooms), count, booked)
