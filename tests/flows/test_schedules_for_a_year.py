"""Schedules on a fixed clock, in six time zones, with the loop killed at random: every time is fired as its policy
says, and none twice. What should have come is computed here by itself, from dates and wall clocks."""

import asyncio
import random
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from gatepost.core.clock import MINUTE, SECOND
from gatepost.core.event_bus import EventBus
from gatepost.core.settings import Config
from gatepost.flow.delivery.outgoing_messages import ChannelInstances
from gatepost.flow.schedule.firing import FiringPlan, fire_plans
from gatepost.flow.schedule.task_changes import MOST_TASKS, TaskRequest, add_task, make_task, read_rules
from gatepost.flow.schedule.task_loop import TaskLoop
from gatepost.store.port import Db, Store
from gatepost.store.schedule import tasks
from gatepost.store.schedule.tasks import MissedPolicy
from gatepost.store.sessions import groups, sessions
from gatepost.store.sessions.sessions import SessionMode
from gatepost_testing.channel import FakeChannel
from gatepost_testing.clock import FixedClock
from gatepost_testing.empty_database import EmptyDatabase
from gatepost_testing.servers.postgres import PACKAGE, find_programs

needs_postgres = pytest.mark.skipif(
    find_programs() is None, reason=f"PostgreSQL is not installed: apt-get install {PACKAGE}"
)
INSTANCE, ROOM = "fake", "fake:room/1"
ZONES = ("UTC", "Europe/Berlin", "America/New_York", "Australia/Sydney", "Asia/Kolkata", "America/Sao_Paulo")
DOWN_MINUTES = (0, 1, 20, 400, 36 * 60)  # after a kill; fewer times than a task with missed=all makes up for


@dataclass(frozen=True)
class Rule:
    """A schedule as this test understands it. `hours` None: each hour, by elapsed time."""

    zone: str
    policy: MissedPolicy
    minutes: tuple[int, ...]
    hours: tuple[int, ...] | None
    weekdays: tuple[int, ...] | None = None  # Monday is 0
    days: tuple[int, ...] | None = None

    @property
    def cron(self) -> str:
        def listed(numbers: Sequence[int] | None) -> str:
            return "*" if numbers is None else ",".join(map(str, numbers))

        weekdays = None if self.weekdays is None else [(each + 1) % 7 for each in self.weekdays]
        return f"{listed(self.minutes)} {listed(self.hours)} {listed(self.days)} * {listed(weekdays)}"

    def list_times(self, start: int, end: int) -> list[int]:
        found = self._list_elapsed(start, end) if self.hours is None else self._list_by_wall_clock(start, end)
        return sorted({each for each in found if start < each <= end})

    def _fits(self, day: date) -> bool:
        return (self.weekdays is None or day.weekday() in self.weekdays) and (self.days is None or day.day in self.days)

    def _list_elapsed(self, start: int, end: int) -> Iterator[int]:
        zone = ZoneInfo(self.zone)
        for at in range(start - start % (30 * MINUTE), end + 1, 30 * MINUTE):
            local = datetime.fromtimestamp(at // SECOND, zone)
            if local.minute in self.minutes and self._fits(local.date()):
                yield at

    def _list_by_wall_clock(self, start: int, end: int) -> Iterator[int]:
        zone, hours = ZoneInfo(self.zone), self.hours or ()
        day = datetime.fromtimestamp(start // SECOND, UTC).date() - timedelta(days=2)
        last = datetime.fromtimestamp(end // SECOND, UTC).date() + timedelta(days=2)
        while day <= last:
            if self._fits(day):
                for hour in hours:
                    for minute in self.minutes:
                        yield _find_moment(datetime.combine(day, time(hour, minute)), zone)
            day += timedelta(days=1)


def _find_moment(wall: datetime, zone: ZoneInfo) -> int:
    """The first moment at which clocks there show this, or have just jumped over it."""
    while True:
        moment = wall.replace(tzinfo=zone)
        if moment.astimezone(UTC).astimezone(zone).replace(tzinfo=None) == wall:
            return int(moment.timestamp()) * SECOND
        wall += timedelta(minutes=1)


def make_rules(count: int, dice: random.Random) -> list[Rule]:
    rules = []
    for number in range(count):
        policy = list(MissedPolicy)[number % 3]
        zone = ZONES[number // 3 % 6]
        minutes = dice.choice(((0,), (30,), (0, 30)))
        if number % 25 == 0:
            rules.append(Rule(zone, policy, minutes, None, weekdays=(dice.randrange(7),)))
        elif number % 5 == 0:
            rules.append(Rule(zone, policy, (30,), (2,)))  # the hour that nights leave out, or have twice
        elif number % 5 == 1:
            rules.append(Rule(zone, policy, minutes, (dice.randrange(24),), weekdays=(dice.randrange(7), 6)))
        elif number % 5 == 2:
            rules.append(Rule(zone, policy, minutes, (0, 1, 2, 3), days=tuple(sorted(dice.sample(range(1, 29), 4)))))
        elif number % 5 == 3:
            rules.append(Rule(zone, policy, (0,), (dice.randrange(24),), days=(1, 15, 31)))
        else:
            rules.append(Rule(zone, policy, (0,), (1, 2), weekdays=(5, 6)))
    return rules


class Killed(Exception):
    """The process is gone."""


@dataclass
class FragileStore:
    """A store under a gateway that dies: before a transaction, or after it and before anybody hears of it."""

    store: Store
    dies: str = ""  # before | after
    seen: dict[str, list[int]] = field(default_factory=dict)  # by task: the moments at which a look was committed

    async def read(self, fn: Callable[..., Any], *args: Any, **given: Any) -> Any:
        return await self.store.read(fn, *args, **given)

    async def write(self, fn: Callable[..., Any], *args: Any, **given: Any) -> Any:
        if self.dies == "before":
            raise Killed
        answer = await self.store.write(fn, *args, **given)
        if fn is fire_plans:
            plans: Sequence[FiringPlan] = args[1]
            for plan in plans:
                self.seen.setdefault(plan.task.id, []).append(args[3])
        if self.dies == "after":
            raise Killed
        return answer


def expect(rule: Rule, times: Sequence[int], looks: Sequence[int]) -> tuple[set[int], int]:
    """Return what fires, and how many times do not, by the policy: each look is at what came since the one before.
    It is by a gateway that has just started, so that a time before it was missed."""
    fired: set[int] = set()
    skipped, seen = 0, 0
    for look in looks:
        come = max(seen, bisect_right(times, look))
        due = times[seen:come]
        newest = due[-1:] if rule.policy is not MissedPolicy.ALL else due
        if rule.policy is MissedPolicy.SKIP and newest and newest[-1] < look:
            newest = []
        fired.update(newest)
        skipped += len(due) - len(newest)
        seen = come
    return fired, skipped


def deliver_all(db: Db) -> None:
    """The platform takes every text at once: a text that waits there holds up the next one of its task."""
    db.run("UPDATE outbox SET state = 'sent', next_at = NULL WHERE state = 'pending'")


async def simulate(
    stores: Sequence[Store], rules: Sequence[Rule], start: int, end: int, kills: int, seed: int
) -> Counter[str]:
    """Each store has a gateway of its own, and all of them look at the same moments."""
    dice, clock, config = random.Random(seed), FixedClock(start), Config({MOST_TASKS.name: len(rules)})
    channel = FakeChannel(platform=INSTANCE)
    channels = ChannelInstances({INSTANCE: channel.kind}, {INSTANCE: channel})
    store, fragile, counts = stores[0], [FragileStore(each) for each in stores], Counter[str]()

    def prepare(db: Db) -> list[str]:
        groups.add(db, "acme", "Acme", "", start)
        sessions.find_or_add(db, SessionMode.SHARED, "acme", INSTANCE, ROOM, "", start)
        made = []
        for number, rule in enumerate(rules):
            asked = TaskRequest(
                folder="acme",
                instance=INSTANCE,
                address=ROOM,
                text=f"task {number}",
                when=rule.cron,
                zone=rule.zone,
                missed=rule.policy,
                created_by="agent:acme",
            )
            rules_ = read_rules(config)
            made.append(add_task(db, make_task(asked, rules_, start), rules_, start)[0].id)
        return made

    ids = await store.write(prepare)
    deaths = sorted(dice.sample(range(1, 24 * (end - start) // (24 * 60 * MINUTE)), kills))
    while (due := await store.read(tasks.get_next_due)) is not None and due <= end:
        clock.set(max(clock.now(), due))
        await store.write(deliver_all)
        hours = (clock.now() - start) // (60 * MINUTE)
        dies = dice.choice(("before", "after")) if deaths and hours >= deaths[0] else ""
        doomed = fragile if dice.random() < 0.5 else [dice.choice(fragile)]
        for each in fragile:
            each.dies = dies if each in doomed else ""
        alive = await asyncio.gather(*(_fire_all(each, clock, config, channels) for each in fragile))
        if not all(alive):
            counts[f"killed {dies} a transaction"] += 1
            counts["killed, all at once"] += not any(alive)
            deaths.pop(0)
        if not any(alive):
            clock.set(clock.now() + dice.choice(DOWN_MINUTES) * MINUTE)
    for task_id, rule in zip(ids, rules, strict=True):
        looks = sorted(look for each in fragile for look in each.seen.get(task_id, ()))
        await _compare(store, task_id, rule, looks, start, end, counts)
    return counts


async def _fire_all(store: FragileStore, clock: FixedClock, config: Config, channels: ChannelInstances) -> bool:
    """By a gateway that has just started; False: it was killed meanwhile."""
    loop = TaskLoop(store, clock, config, EventBus(), channels)  # type: ignore[arg-type]
    try:
        while await loop.fire_due():
            pass
    except Killed:
        return False
    return True


async def _compare(
    store: Store, task_id: str, rule: Rule, looks: list[int], start: int, end: int, counts: Counter[str]
) -> None:
    def read(db: Db) -> tuple[list[int], int, list[str]]:
        log = db.rows("SELECT due_at, state, times FROM firings WHERE task_id = ?", (task_id,))
        keys = db.rows("SELECT key FROM outbox WHERE key >= ? AND key < ?", (f"task/{task_id}/", f"task/{task_id}0"))
        fired = [row[0] for row in log if row[1] == "sent"]
        return fired, sum(row[2] for row in log if row[1] == "skipped"), [row[0] for row in keys]

    fired, skipped, said = await store.read(read)
    times = rule.list_times(start, max(looks, default=end))
    wanted, left_out = expect(rule, times, looks)
    assert sorted(fired) == sorted(wanted), (rule, task_id)
    assert skipped == left_out, rule
    assert sorted(said) == sorted(f"task/{task_id}/{each}" for each in wanted), "delivered as often as fired"
    assert len(fired) + skipped == len(times), rule
    counts["times"] += len(times)
    counts["fired"] += len(fired)
    counts["skipped"] += skipped
    counts[f"fired with missed={rule.policy}"] += len(fired)


def moment(text: str) -> int:
    return int(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()) * SECOND


async def test_autumn_nights_of_both_halves_of_the_world_with_kills(store: Store) -> None:
    rules = make_rules(24, random.Random(7))
    start, end = moment("2026-10-20T00:00:00"), moment("2026-11-04T00:00:00")
    counts = await simulate([store], rules, start, end, kills=12, seed=1)
    assert counts["killed before a transaction"] + counts["killed after a transaction"] == 12
    assert counts["fired"] > 100


@pytest.fixture
def two_stores(emptied: EmptyDatabase) -> Iterator[tuple[Store, Store]]:
    from gatepost.store.postgres.postgres_store import PostgresStore

    stores = PostgresStore(emptied.url), PostgresStore(emptied.url)
    yield stores
    for each in stores:
        each.close()


@pytest.mark.slow
@needs_postgres
async def test_autumn_nights_with_two_gateways_on_one_database(two_stores: tuple[Store, Store]) -> None:
    rules = make_rules(24, random.Random(7))
    start, end = moment("2026-10-20T00:00:00"), moment("2026-11-04T00:00:00")
    counts = await simulate(two_stores, rules, start, end, kills=12, seed=1)
    assert counts["killed before a transaction"] + counts["killed after a transaction"] == 12
    assert 0 < counts["killed, all at once"] < 12
    assert counts["fired"] > 100


@pytest.mark.slow
async def test_arizuko_d28_a_year_of_200_schedules_with_300_kills(store: Store) -> None:
    await simulate_year([store])


@pytest.mark.slow
@needs_postgres
@pytest.mark.timeout(900)
async def test_a_year_with_two_gateways_on_one_database(two_stores: tuple[Store, Store]) -> None:
    await simulate_year(two_stores)


async def simulate_year(stores: Sequence[Store]) -> None:
    rules = make_rules(200, random.Random(2026))
    start, end = moment("2026-01-01T00:00:00"), moment("2027-01-01T00:00:00")
    counts = await simulate(stores, rules, start, end, kills=300, seed=9)
    print("\n" + "\n".join(f"{name}: {number}" for name, number in sorted(counts.items())))  # noqa: T201
    assert counts["killed before a transaction"] + counts["killed after a transaction"] == 300
    assert counts["fired"] > 10_000
