"""The pump: what is committed to the outbox goes out.

One lane per room, strictly in order: a row that has to wait holds back the later ones of its room and nobody else's.
Lanes run beside each other, so many per channel instance at most, so that one slow platform delays no other. A lane is
started by the bell, and by a look at the store every few seconds. In steady state a message costs one durable
transaction: it settles the last row and takes the next.
"""

import asyncio
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

import anyio

from gatepost.channels.contract import Channel
from gatepost.core import log
from gatepost.core.bells import Bells
from gatepost.core.clock import SECOND, Clock, seconds
from gatepost.core.errors import Unavailable
from gatepost.core.settings import Config, setting
from gatepost.flow.delivery import record
from gatepost.flow.delivery.outgoing import Reach
from gatepost.flow.delivery.record import Lane, Later, Terms
from gatepost.flow.delivery.retry import policy_of
from gatepost.flow.delivery.sending import Job, Outcome, Sender
from gatepost.messages.outbound import Feature
from gatepost.store import outbox
from gatepost.store.port import Db, Store

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
FRESH = 20 * SECOND  # rows in a queue are marked as looked at this often


class Pump:
    def __init__(
        self,
        store: Store,
        clock: Clock,
        config: Config,
        channels: Mapping[str, Channel],
        reach: Reach,
        bells: Bells,
        owner: str,
    ) -> None:
        self._store, self._clock = store, clock
        timeout, policy = config[TIMEOUT_S], policy_of(config)
        self._terms = Terms(owner=owner, lease=seconds(2 * timeout) + FRESH, policy=policy, reach=reach)
        self._sender = Sender(channels, reach, clock, policy, timeout)
        self._most, self._look = max(config[LANES], 1), config[LOOK_S]
        self._busy: dict[Lane, bool] = {}  # True: rung again while it ran
        self._waiting: dict[str, dict[Lane, None]] = {}  # for a free place, by instance, first come first served
        self._running: dict[str, int] = {}
        self._asleep: dict[Lane, asyncio.TimerHandle] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._look_up_at: dict[int, int] = {}
        self._sent: list[Callable[[str, str, str], None]] = []
        self._open = False
        bells.on_room(self._heard)

    def on_sent(self, hear: Callable[[str, str, str], None]) -> None:
        """Be told (instance, address, thread) of everything that was sent."""
        self._sent.append(hear)

    async def write(self, instance: str, address: str, fn: Callable[[Db], T], *, lane: str = "") -> T:
        """Write down what goes to a room. If its lane is at rest, the first row is taken in the same transaction and
        goes out one commit sooner; else the lane is rung."""
        place = self._reserve(instance, address)
        if place is None:
            answer = await self._store.write(fn, lane=lane)
            self._heard(instance, address)
            return answer
        now, oldest = self._clock.now(), self._clock.ago(self._terms.policy.most_age)

        def both(db: Db) -> tuple[T, Job | Later | None]:
            return fn(db), record.advance(db, self._terms, place, None, self._look_up_at, now, oldest)

        writing = asyncio.ensure_future(self._store.write(both, lane=lane))
        writing.add_done_callback(lambda done: self._written(place, done))  # also if the caller is cancelled meanwhile
        answer, _ = await asyncio.shield(writing)
        return answer

    def _reserve(self, instance: str, address: str) -> Lane | None:
        """A lane that is at rest, which is then the caller's; None if it is at work, or there is no room."""
        lane = Lane(instance, address)
        at_rest = lane not in self._busy and lane not in self._asleep and lane not in self._waiting.get(instance, {})
        if not self._open or not at_rest or self._running.get(instance, 0) >= self._most:
            return None
        self._busy[lane] = False
        self._running[instance] = self._running.get(instance, 0) + 1
        return lane

    def _written(self, lane: Lane, done: "asyncio.Future[tuple[T, Job | Later | None]]") -> None:
        failed = done.cancelled() or done.exception() is not None
        self._send_off(lane, None if failed else done.result()[1])

    def _send_off(self, lane: Lane, first: Job | Later | None) -> None:
        task = asyncio.create_task(self._run_lane(lane, first))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def run(self) -> None:
        """Until cancelled. Then a send in flight is still recorded, within bounds."""
        self._open = True
        for instance in list(self._waiting):
            self._start(instance)
        try:
            while True:
                await self._look_around()
                await asyncio.sleep(self._look)
        finally:
            self._open = False
            with anyio.CancelScope(shield=True):
                await self._finish()

    async def _look_around(self) -> None:
        try:
            lanes = await self._store.read(outbox.lanes)
            for instance, address in lanes:
                lane = Lane(instance, address)
                if lane not in self._busy and lane not in self._asleep:
                    self._queue(lane)
            if lanes:
                now = self._clock.now()
                await self._store.write(outbox.looked_at, now, now - FRESH, durable=False)
        except Unavailable as error:
            LOG.warning("the outbox cannot be looked at", error=str(error))

    async def _finish(self) -> None:
        for timer in self._asleep.values():
            timer.cancel()
        self._asleep.clear()
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=LAST_WORDS_S)
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _heard(self, instance: str, address: str) -> None:
        self._queue(Lane(instance, address))

    def _queue(self, lane: Lane) -> None:
        timer = self._asleep.pop(lane, None)
        if timer is not None:
            timer.cancel()
        if lane in self._busy:
            self._busy[lane] = True
            return
        self._waiting.setdefault(lane.instance, {})[lane] = None
        self._start(lane.instance)

    def _start(self, instance: str) -> None:
        waiting = self._waiting.get(instance, {})
        while self._open and waiting and self._running.get(instance, 0) < self._most:
            lane = next(iter(waiting))
            del waiting[lane]
            self._busy[lane] = False
            self._running[instance] = self._running.get(instance, 0) + 1
            self._send_off(lane, None)

    async def _run_lane(self, lane: Lane, first: Job | Later | None) -> None:
        try:
            await self._empty(lane, first)
        except Exception as error:  # noqa: BLE001  a lane that breaks is started again by the next look
            LOG.error("a room's delivery broke off", instance=lane.instance, address=lane.address, error=repr(error))
        finally:
            self._running[lane.instance] -= 1
            if self._busy.pop(lane):
                self._waiting.setdefault(lane.instance, {})[lane] = None
            self._start(lane.instance)

    async def _empty(self, lane: Lane, first: Job | Later | None) -> None:
        """Send what is in the lane, one after another."""
        outcome: Outcome | None = None
        count = 0
        while True:
            self._busy[lane] = False  # rung from here on: there may be more than this look sees
            if outcome is not None and (not self._open or (count >= FAIR_SHARE and self._waiting.get(lane.instance))):
                await self._write_last(outcome)
                self._busy[lane] = True
                return
            job, first = first or await self._advance(lane, outcome), None
            outcome = None
            if isinstance(job, Job):
                outcome = await self._sender.send(job)
                count += 1
            else:
                if isinstance(job, Later):
                    self._sleep(lane, job.at)
                return

    async def _advance(self, lane: Lane, outcome: Outcome | None) -> Job | Later | None:
        if outcome is not None and outcome.state == "sending":
            self._look_up_at[outcome.effect.id] = outcome.next_at or 0
        while True:
            now, oldest = self._clock.now(), self._clock.ago(self._terms.policy.most_age)
            durable = self._durable(lane)
            try:
                job = await self._store.write(
                    record.advance,
                    self._terms,
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
                    return Later(now + seconds(STORE_PAUSE_S))
                await self._wait_for_store(error)
            else:
                if outcome is not None and outcome.ended:
                    await self._ended(outcome)
                return job

    def _durable(self, lane: Lane) -> bool:
        """Whether "sending" must be on the disk before the channel is called. Where a repeated send is one effect, or
        can be looked up, a power cut that forgets the state harms nobody."""
        return not self._terms.reach.features(lane.instance) & {Feature.KEYED, Feature.LOOKUP}

    async def _write_last(self, outcome: Outcome) -> None:
        """Record without taking the next."""
        while True:
            try:
                await self._store.write(record.settle, outcome, self._clock.now())
            except Unavailable as error:
                await self._wait_for_store(error)
            else:
                if outcome.ended:
                    await self._ended(outcome)
                return

    async def _wait_for_store(self, error: Unavailable) -> None:
        """What was sent and is not recorded would be sent again: nothing else may happen in this room before."""
        LOG.warning("what was sent cannot be recorded yet", error=str(error))
        await asyncio.sleep(STORE_PAUSE_S)

    async def _ended(self, outcome: Outcome) -> None:
        effect = outcome.effect
        self._look_up_at.pop(effect.id, None)
        if outcome.state == "sent":
            for hear in self._sent:
                hear(effect.instance, effect.address, effect.thread)
        elif effect.origin != "status":
            LOG.warning(
                "not delivered", instance=effect.instance, key=effect.key, state=outcome.state, reason=outcome.reason
            )
        files = effect.payload.get("files")
        if files:
            await asyncio.to_thread(_remove, [Path(file["path"]) for file in files])

    def _sleep(self, lane: Lane, at: int) -> None:
        if not self._open:
            return
        delay = min(max((at - self._clock.now()) / SECOND, 0.0), LONGEST_SLEEP_S)
        self._asleep[lane] = asyncio.get_running_loop().call_later(delay, self._queue, lane)


def _remove(paths: list[Path]) -> None:
    """A delivery's own copies. What cannot be removed is left: it must never cause a second send."""
    for path in paths:
        with suppress(OSError):
            path.unlink(missing_ok=True)
    for folder in {path.parent for path in paths}:
        with suppress(OSError):
            folder.rmdir()
