"""The pump: what is committed to the outbox goes out.

One lane per room, strictly in order: a row that has to wait holds back the later ones of its room and nobody else's.
Lanes run beside each other, so many per channel instance at most, so that one slow platform delays no other. A lane is
started by the bell, and by a look at the store every few seconds. In steady state a message costs one durable
transaction: it settles the last row and takes the next.
"""

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import anyio

from gatepost.channels.contract import Channel, ChannelEnded, LateFailure
from gatepost.core import log
from gatepost.core.clock import SECOND, Clock, to_microseconds
from gatepost.core.durations import AnsweredTurn, Durations, TimedStep
from gatepost.core.errors import Unavailable
from gatepost.core.event_bus import EventBus
from gatepost.core.fair_queue import FairQueue
from gatepost.core.process.fencing import FenceCheck
from gatepost.core.process.wake_loop import WakeLoop
from gatepost.core.settings import Config, setting
from gatepost.flow.delivery import outbox_claims
from gatepost.flow.delivery.channel_sender import ChannelSender, SendJob, SendOutcome
from gatepost.flow.delivery.outbox_claims import DeliveryContext, DeliveryLane, WaitUntil
from gatepost.flow.delivery.outgoing_messages import ChannelInstances
from gatepost.flow.delivery.pace import DeliveryPace
from gatepost.flow.delivery.retry import load_retry_policy
from gatepost.flow.gateways.duties import Duties
from gatepost.flow.requests.card_delivery import KEY as CARD_KEY
from gatepost.gate.eager_task import run_eagerly
from gatepost.messages.outbound import Feature
from gatepost.store.messages import outbox
from gatepost.store.messages.file_passing import FilePassing
from gatepost.store.messages.outbox import END, EffectOrigin, EffectState
from gatepost.store.port import Db, Store
from gatepost.store.sessions import sessions

T = TypeVar("T")

LANES = setting("delivery.lanes", 64, help="How many rooms of one channel may be sent to at the same time.")
TIMEOUT_S = setting(
    "delivery.timeout_s", 30.0, help="A channel that has not sent a message after this may have sent it."
)
LOOK_S = setting("delivery.look_s", 3.0, help="How often to look for messages that no bell was heard for.")

LOG = log.get("delivery")
LAST_WORDS_S = 4.0  # for a send in flight when the gateway stops, within what the gateway waits for us
LONGEST_SLEEP_S = 30.0  # a lane that waits looks again after this, should the clock have jumped
FAIR_SHARE = 64  # messages, before a lane makes room for one that waits
STORE_PAUSE_S = 1.0
FIRST_PART = 1  # of the results of a turn, by which a runner counts them
FRESH = 20 * SECOND  # rows in a queue are marked as looked at this often


class DeliveryLoop:
    def __init__(
        self,
        store: Store,
        clock: Clock,
        config: Config,
        adapters: Mapping[str, Channel],
        channels: ChannelInstances,
        events: EventBus,
        owner: str,
        duties: Duties | None = None,
    ) -> None:
        self._store, self._clock = store, clock
        self._duties = duties or Duties()
        self._duties.on_change(self._duties_changed)
        timeout, policy = config[TIMEOUT_S], load_retry_policy(config)
        self._context = DeliveryContext(
            owner=owner, lease=to_microseconds(2 * timeout) + FRESH, policy=policy, channels=channels
        )
        self._pace = DeliveryPace(channels, clock, policy.most_age)
        self._sender = ChannelSender(adapters, channels, clock, policy, timeout, self._pace)
        self._most = max(config[LANES], 1)
        self._loop = WakeLoop(LOG.warning, "the outbox cannot be looked at", pause_s=config[LOOK_S])
        self._busy: dict[DeliveryLane, bool] = {}  # True: rung again while it ran
        self._waiting: dict[str, FairQueue[DeliveryLane]] = {}  # for a free place, by instance; none is empty
        self._asking: set[DeliveryLane] = set()  # will wait, once it is known for which group
        self._running: dict[str, int] = {}
        self._asleep: dict[DeliveryLane, asyncio.TimerHandle] = {}
        self._held_up: dict[str, asyncio.TimerHandle] = {}  # instances none of whose rooms may be sent to yet
        self._tasks: set[asyncio.Task[None]] = set()
        self._look_up_at: dict[int, int] = {}
        self._sent: list[Callable[[str, str, str], None]] = []
        self._open = False
        self.durations = Durations()
        self._events = events
        events.on_room(self._room_changed)

    def on_sent(self, hear: Callable[[str, str, str], None]) -> None:
        """Be told (instance, address, thread) of everything that was sent."""
        self._sent.append(hear)

    def on_channel_ended(self, report: Callable[[str, ChannelEnded], None], why_away: Callable[[str], str]) -> None:
        """`report` is told of a channel that cannot send until somebody acts, `why_away` asked about one that is not
        there."""
        self._sender.on_ended, self._sender.why_away = report, why_away

    @property
    def may_act(self) -> FenceCheck:
        return self._sender.may_act

    @may_act.setter
    def may_act(self, ask: FenceCheck) -> None:
        """Asked before a platform is called."""
        self._sender.may_act = ask

    def set_files(self, media: Path, passing: FilePassing | None) -> None:
        """`media`: the folder of files that came in. `passing`: of files that another gateway has."""
        self._sender.media, self._sender.passing = media, passing

    def is_sending(self, instance: str) -> bool:
        """Return True if a lane of this channel is at work."""
        return self._running.get(instance, 0) > 0

    async def write(self, instance: str, address: str, fn: Callable[[Db], T], *, lane: str = "") -> T:
        """Write down what goes to a room. If its lane is at rest, the first row is taken in the same transaction and
        goes out one commit sooner; else the lane is rung."""
        place = self._reserve(instance, address)
        if place is None:
            answer = await self._store.write(fn, lane=lane)
            self._room_changed(instance, address)
            return answer
        now, oldest = self._clock.now(), self._clock.ago(self._context.policy.most_age)

        def both(db: Db) -> tuple[T, SendJob | WaitUntil | None]:
            return fn(db), outbox_claims.settle_and_claim(db, self._context, place, None, self._look_up_at, now, oldest)

        writing = asyncio.ensure_future(self._store.write(both, lane=lane))
        writing.add_done_callback(partial(self._written, place))  # also if the caller is cancelled meanwhile
        answer, _ = await asyncio.shield(writing)
        return answer

    def _reserve(self, instance: str, address: str) -> DeliveryLane | None:
        """Return a lane that is at rest, which is then the caller's; None if it is at work, or there is no room."""
        lane = DeliveryLane(instance, address)
        if not self._duties.sends_to(instance):
            return None
        at_work = lane in self._busy or lane in self._asleep or lane in self._asking
        waits = (waiting := self._waiting.get(instance)) is not None and lane in waiting
        if not self._open or at_work or waits or self._running.get(instance, 0) >= self._most:
            return None
        if self._pace.claim(instance, address):
            return None
        self._busy[lane] = False
        self._running[instance] = self._running.get(instance, 0) + 1
        return lane

    def _written(self, lane: DeliveryLane, done: "asyncio.Future[tuple[T, SendJob | WaitUntil | None]]") -> None:
        failed = done.cancelled() or done.exception() is not None
        self._add_task(self._run_lane(lane, None if failed else done.result()[1]))

    def _add_task(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def run(self) -> None:
        """Until cancelled. Then a send in flight is still recorded, within bounds."""
        self._open = True
        for instance in list(self._waiting):
            self._start(instance)
        try:
            await self._loop.run(self._poll_outbox)
        finally:
            self._open = False
            with anyio.CancelScope(shield=True):
                await self._finish()

    async def _poll_outbox(self) -> None:
        lanes = await self._store.read(outbox.list_pending_rooms)
        for instance, address in lanes:
            lane = DeliveryLane(instance, address)
            if lane not in self._busy and lane not in self._asleep and self._duties.sends_to(instance):
                self._queue(lane)
        if lanes:
            now = self._clock.now()
            await self._store.write(outbox.defer_overdue, now, now - FRESH, durable=False)

    async def _finish(self) -> None:
        for timer in (*self._asleep.values(), *self._held_up.values()):
            timer.cancel()
        self._asleep.clear()
        self._held_up.clear()
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=LAST_WORDS_S)
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _room_changed(self, instance: str, address: str) -> None:
        if self._duties.sends_to(instance):  # else whoever does hears of it, too
            self._queue(DeliveryLane(instance, address))

    def _duties_changed(self) -> None:
        """Another sends there from now on, or this gateway does: what waits is looked at now."""
        for lane in [each for each in self._asleep if not self._duties.sends_to(each.instance)]:
            self._asleep.pop(lane).cancel()
        self._loop.wake()

    def _queue(self, lane: DeliveryLane) -> None:
        timer = self._asleep.pop(lane, None)
        if timer is not None:
            timer.cancel()
        if lane in self._busy:
            self._busy[lane] = True
            return
        if lane not in self._asking:
            self._wait(lane)
            self._start(lane.instance)

    def _wait(self, lane: DeliveryLane) -> None:
        """Stand in line. Groups take turns: one that writes to a hundred rooms delays no other's. A room's group is
        asked for only if there is somebody to wait for."""
        if self._open and (lane.instance in self._waiting or self._running.get(lane.instance, 0) >= self._most):
            self._asking.add(lane)
            if (rest := run_eagerly(self._wait_by_group(lane))) is not None:
                self._add_task(rest)
        else:
            self._waiting.setdefault(lane.instance, FairQueue()).add(lane, "")

    async def _wait_by_group(self, lane: DeliveryLane) -> None:
        group = ""
        try:
            with suppress(Unavailable):
                group = await self._store.read(sessions.find_group_in_room, lane.address)
        finally:
            self._asking.discard(lane)
            if lane in self._busy:  # it stood in the queue already, and its turn came meanwhile
                self._busy[lane] = True
            elif lane not in self._asleep:
                self._waiting.setdefault(lane.instance, FairQueue()).add(lane, group)
        self._start(lane.instance)

    def _start(self, instance: str) -> None:
        while self._open and self._running.get(instance, 0) < self._most:
            waiting = self._waiting.get(instance)
            if waiting is None or (group := waiting.next_group()) is None:
                return
            if wait := self._pace.get_wait(instance):  # one timer, however many rooms wait
                self._hold_up(instance, wait)
                return
            lane = waiting.pop(group)
            if not waiting:
                del self._waiting[instance]
            if wait := self._pace.claim(*lane):
                self._sleep_for(lane, wait)
                continue
            self._busy[lane] = False
            self._running[instance] = self._running.get(instance, 0) + 1
            self._add_task(self._run_lane(lane, None))

    def _hold_up(self, instance: str, wait: int) -> None:
        if (timer := self._held_up.pop(instance, None)) is not None:
            timer.cancel()
        self._held_up[instance] = asyncio.get_running_loop().call_later(_to_delay(wait), self._go_on, instance)

    def _go_on(self, instance: str) -> None:
        self._held_up.pop(instance, None)
        self._start(instance)

    async def _run_lane(self, lane: DeliveryLane, first: SendJob | WaitUntil | None) -> None:
        try:
            await self._send_all(lane, first)
        except Exception as error:  # noqa: BLE001  a lane that breaks is started again by the next look
            LOG.error("a room's delivery broke off", instance=lane.instance, address=lane.address, error=repr(error))
        finally:
            self._running[lane.instance] -= 1
            if self._busy.pop(lane):
                self._wait(lane)
            if lane.instance in self._waiting:
                self._start(lane.instance)

    async def _send_all(self, lane: DeliveryLane, first: SendJob | WaitUntil | None) -> None:
        """Send what is in the lane, one after another. The pace has let the first one through."""
        outcome: SendOutcome | None = None
        count = 0
        while True:
            self._busy[lane] = False  # rung from here on: there may be more than this look sees
            if outcome is not None and (
                not self._open
                or not self._duties.sends_to(lane.instance)
                or (count >= FAIR_SHARE and lane.instance in self._waiting)
                or self._pace.claim(*lane)
            ):
                await self._write_last(outcome)
                self._busy[lane] = True
                return
            job, first = first or await self._advance(lane, outcome), None
            outcome = None
            if isinstance(job, SendJob):
                outcome = await self._sender.send(job)
                count += 1
                if outcome.state is EffectState.SENT and job.effect.origin is not EffectOrigin.STATUS:
                    now = self._clock.now()
                    self.durations.note((TimedStep.DELIVERY, lane.instance, now - job.effect.created_at))
                    turn_id = job.effect.turn_id
                    if turn_id is not None and job.effect.key == f"{turn_id}/{job.effect.attempt}/{FIRST_PART}":
                        self.durations.answered.append(AnsweredTurn(lane.instance, turn_id, now))
            else:
                self._pace.give_back(*lane)
                if isinstance(job, WaitUntil):
                    self._sleep(lane, job.at)
                return

    async def _advance(self, lane: DeliveryLane, outcome: SendOutcome | None) -> SendJob | WaitUntil | None:
        if outcome is not None and outcome.state == EffectState.SENDING:
            self._look_up_at[outcome.effect.id] = outcome.next_at or 0
        while True:
            now, oldest = self._clock.now(), self._clock.ago(self._context.policy.most_age)
            # "sending" must be on the disk before the channel is called. Where a repeated send is one effect, or can be
            # looked up, a power cut that forgets the state harms nobody.
            durable = not self._context.channels.get_kind(lane.instance).features & {Feature.KEYED, Feature.LOOKUP}
            try:
                job = await self._store.write(
                    outbox_claims.settle_and_claim,
                    self._context,
                    lane,
                    outcome,
                    self._look_up_at,
                    now,
                    oldest,
                    durable=durable,
                    lane=f"{lane.instance} {lane.address}",
                )
            except Unavailable as error:
                if outcome is None:
                    return WaitUntil(now + to_microseconds(STORE_PAUSE_S))
                await self._wait_for_store(error)
            else:
                if outcome is not None and outcome.state in END:
                    await self._ended(outcome)
                return job

    async def _write_last(self, outcome: SendOutcome) -> None:
        """Record without taking the next."""
        while True:
            try:
                await self._store.write(outbox_claims.settle_effect, self._context.channels, outcome, self._clock.now())
            except Unavailable as error:
                await self._wait_for_store(error)
            else:
                if outcome.state in END:
                    await self._ended(outcome)
                return

    async def _wait_for_store(self, error: Unavailable) -> None:
        """Wait: a message that was sent and is not recorded would be sent again. Nothing else happens in this room."""
        LOG.warning("what was sent cannot be recorded yet", error=str(error))
        await asyncio.sleep(STORE_PAUSE_S)

    async def _ended(self, outcome: SendOutcome) -> None:
        effect = outcome.effect
        self._look_up_at.pop(effect.id, None)
        if outcome.state == EffectState.SENT:
            for hear in self._sent:
                hear(effect.instance, effect.address, effect.thread)
            self._events.change(effect.instance, effect.address)
        elif effect.origin != EffectOrigin.STATUS:
            LOG.warning(
                "not delivered", instance=effect.instance, key=effect.key, state=outcome.state, reason=outcome.reason
            )
            if effect.key.startswith(CARD_KEY):  # somebody else is asked
                self._events.requests()
        files = effect.payload.get("files")
        if files:
            paths = [file["path"] for file in files]
            await asyncio.to_thread(_remove, [Path(path) for path in paths])
            if self._sender.passing is not None:
                with suppress(Unavailable):  # then they go when they are old
                    await self._sender.passing.remove_sent(paths)

    async def record_late_failure(self, instance: str, failure: LateFailure) -> None:
        """Take back a message that the platform accepted and did not deliver. Raise Unavailable if that cannot be
        recorded yet, so that the platform reports it again."""
        channels, now = self._context.channels, self._clock.now()
        address = await self._store.write(outbox_claims.settle_late_failure, channels, instance, failure, now)
        LOG.warning("not delivered after all", instance=instance, key=failure.key, reason=failure.why)
        if address:
            self._events.room(instance, address)
        elif failure.key.startswith(CARD_KEY):  # somebody else is asked
            self._events.requests()

    def _sleep(self, lane: DeliveryLane, at: int) -> None:
        if self._open:
            self._sleep_for(lane, at - self._clock.now())

    def _sleep_for(self, lane: DeliveryLane, wait: int) -> None:
        self._asleep[lane] = asyncio.get_running_loop().call_later(_to_delay(wait), self._queue, lane)


def _to_delay(wait: int) -> float:
    return min(max(wait / SECOND, 0.0), LONGEST_SLEEP_S)


def _remove(paths: list[Path]) -> None:
    """Remove a delivery's own copies. One that cannot be removed is left: it must never cause a second send."""
    for path in paths:
        with suppress(OSError):
            path.unlink(missing_ok=True)
    for folder in {path.parent for path in paths}:
        with suppress(OSError):
            folder.rmdir()
