"""A clock that jumps ahead and back, or back and ahead: no time is fired twice, and recurring tasks go on."""

from collections import Counter
from datetime import datetime
from zoneinfo import ZoneInfo

import pytest
from tests.flow.schedule.conftest import TaskDesk

from gatepost.core.clock import DAY, HOUR, MINUTE, SECOND
from gatepost.core.settings import Config
from gatepost.flow.schedule.firing import schedule_of
from gatepost.flow.schedule.task_changes import MOST_TASKS
from gatepost.flow.schedule.task_loop import MARGIN, PAGE, find_recounted, is_behind, plan_recount, recount
from gatepost.flow.schedule.times import list_coming
from gatepost.store.engine.sqlite_store import SqliteStore
from gatepost.store.port import Db
from gatepost.store.schedule.firings import JudgedAhead
from gatepost.store.schedule.tasks import MissedPolicy, Task

YEAR = 365 * DAY
BERLIN = "Europe/Berlin"


def moment(text: str, zone: str = "UTC") -> int:
    return int(datetime.fromisoformat(text).replace(tzinfo=ZoneInfo(zone)).timestamp()) * SECOND


async def look_at(desk: TaskDesk, now: int) -> None:
    """What was said before has arrived."""
    desk.clock.set(now)
    await desk.deliver()
    await desk.tick()


async def pass_hours(desk: TaskDesk, count: int) -> None:
    start = desk.clock.now()
    for number in range(1, count + 1):
        await look_at(desk, start + number * HOUR)


async def list_said(desk: TaskDesk, task: Task) -> list[int]:
    """Due times of what was said, in that order."""
    keys = [each.key.split("/") for each in await desk.said()]
    return [int(key[2]) for key in keys if key[:2] == ["task", task.id]]


@pytest.mark.slow
@pytest.mark.parametrize("policy", list(MissedPolicy))
@pytest.mark.parametrize("when", ["1h", "0 * * * *", "0 */2 * * *", "0 9 * * *"])
async def test_after_a_jump_of_a_year_and_back_a_task_goes_on_from_now(
    desk: TaskDesk, when: str, policy: MissedPolicy
) -> None:
    task = await desk.add(when, text="x", missed=policy, zone=BERLIN)
    await pass_hours(desk, 3)
    true = desk.clock.now()
    await look_at(desk, true + YEAR)
    ahead = await list_said(desk, task)
    assert (await desk.task(task)).next_at > true + YEAR - DAY  # type: ignore[operator]

    await look_at(desk, true + MINUTE)
    coming = list_coming(schedule_of(task), task.next_at or 0, 60)
    assert (await desk.task(task)).next_at == next(each for each in coming if each > true + MINUTE)
    await pass_hours(desk, 26)
    said = await list_said(desk, task)
    wanted = [each for each in coming if true < each <= desk.clock.now()]
    assert said == [*ahead, *(each for each in wanted if each not in ahead)]
    assert max(Counter(said).values()) == 1


async def test_what_was_fired_too_early_is_not_fired_at_its_time(desk: TaskDesk) -> None:
    """Ten hours ahead, a task that makes up for every time has said them all."""
    task = await desk.add("1h", text="x", missed="all")
    true = desk.clock.now()
    await look_at(desk, true + 10 * HOUR)
    await look_at(desk, true + MINUTE)
    await pass_hours(desk, 13)
    assert await list_said(desk, task) == [true + number * HOUR for number in range(1, 14)]


async def test_a_task_that_runs_once_is_neither_repeated_nor_moved(desk: TaskDesk) -> None:
    early, later = await desk.add("in 2 hours", text="x"), await desk.add("in 3 weeks", text="y")
    true = desk.clock.now()
    await look_at(desk, true + DAY)
    await look_at(desk, true + MINUTE)
    await pass_hours(desk, 4)
    assert await list_said(desk, early) == [true + 2 * HOUR]
    assert (await desk.task(later)).next_at == later.next_at and await list_said(desk, later) == []


@pytest.mark.slow
@pytest.mark.parametrize("when", ["1h", "0 * * * *"])
@pytest.mark.parametrize("policy", list(MissedPolicy))
async def test_a_clock_that_is_set_back_and_mended_fires_what_is_left_once(
    desk: TaskDesk, when: str, policy: MissedPolicy
) -> None:
    task = await desk.add(when, text="x", missed=policy)
    await pass_hours(desk, 30)
    true = desk.clock.now()
    await look_at(desk, true - 20 * HOUR)
    await pass_hours(desk, 5)
    assert len(await list_said(desk, task)) == 30
    await look_at(desk, true + HOUR)
    await pass_hours(desk, 2)
    coming = list_coming(schedule_of(task), task.next_at or 0, 33)
    assert await list_said(desk, task) == coming


@pytest.mark.slow
async def test_times_whose_rows_are_gone_are_not_fired_again(desk: TaskDesk) -> None:
    """The log is kept for a while. What it has lost lies before what it has."""
    task = await desk.add("1h", text="x", missed="all")
    await pass_hours(desk, 30)
    true, kept = desk.clock.now(), desk.clock.now() - 5 * HOUR
    await desk.store.write(lambda db: db.run("DELETE FROM firings WHERE fired_at < ?", (kept,)))
    await desk.store.write(lambda db: db.run("DELETE FROM outbox"))
    await look_at(desk, true - 20 * HOUR)
    await pass_hours(desk, 18)
    assert await list_said(desk, task) == []
    await look_at(desk, true)
    await pass_hours(desk, 2)
    assert await list_said(desk, task) == [true + HOUR, true + 2 * HOUR]


async def test_a_machine_that_starts_in_1970_fires_nothing_and_then_what_it_missed(desk: TaskDesk) -> None:
    task = await desk.add("0 * * * *", text="x")
    await pass_hours(desk, 3)
    true = desk.clock.now()
    desk.loop = desk.new_loop()
    await look_at(desk, MINUTE)
    await look_at(desk, 2 * MINUTE)
    assert len(await list_said(desk, task)) == 3
    await look_at(desk, true + 4 * HOUR)
    assert (await list_said(desk, task))[3:] == [true + 4 * HOUR]


async def test_a_gateway_that_was_restarted_in_between_notices_by_its_log(desk: TaskDesk) -> None:
    task = await desk.add("1h", text="x")
    true = desk.clock.now()
    await look_at(desk, true + YEAR)
    desk.loop = desk.new_loop()
    await look_at(desk, true + MINUTE)
    assert (await desk.task(task)).next_at == true + HOUR


async def test_a_small_correction_moves_nothing(desk: TaskDesk) -> None:
    task = await desk.add("0 * * * *", text="x")
    await pass_hours(desk, 1)
    before = (await desk.task(task)).next_at
    await look_at(desk, desk.clock.now() - MARGIN)
    assert (await desk.task(task)).next_at == before
    assert not is_behind(10 * HOUR, 10 * HOUR + MARGIN) and is_behind(10 * HOUR, 10 * HOUR + MARGIN + 1)
    assert not is_behind(10 * HOUR, None)


@pytest.mark.slow
@pytest.mark.parametrize("night", ["2027-03-28", "2027-10-31"])
@pytest.mark.parametrize("when", ["30 2 * * *", "0,30 1-3 * * *", "*/30 * * * *", "30m"])
async def test_both_nights_of_daylight_saving_after_a_jump_and_back(store: SqliteStore, night: str, when: str) -> None:
    desk = await TaskDesk(store, Config()).prepare()
    start = moment(f"{night}T00:00:00", BERLIN) - 2 * HOUR
    desk.clock.set(start)
    task = await desk.add(when, text="x", zone=BERLIN)
    await look_at(desk, start + 200 * DAY)  # the other time of the year
    early = set(await list_said(desk, task))
    await look_at(desk, start + MINUTE)
    for number in range(1, 2 * 30):
        await look_at(desk, start + number * 30 * MINUTE)
    coming = list_coming(schedule_of(task), task.next_at or 0, 80)
    wanted = [each for each in coming if each <= desk.clock.now()]
    assert [each for each in await list_said(desk, task) if each not in early] == wanted


@pytest.mark.slow
async def test_more_tasks_than_a_page_are_counted_again(store: SqliteStore) -> None:
    desk = await TaskDesk(store, Config({MOST_TASKS.name: 2 * PAGE})).prepare()
    made = [await desk.add("1h", text=f"x {number}") for number in range(PAGE + 5)]
    true = desk.clock.now()
    await look_at(desk, true + YEAR)
    await look_at(desk, true + MINUTE)
    assert {(await desk.task(each)).next_at for each in made} == {true + HOUR}


async def test_a_task_that_somebody_moves_meanwhile_is_left_as_it_is(desk: TaskDesk) -> None:
    task = await desk.add("1h", text="x")
    true = desk.clock.now()
    await look_at(desk, true + YEAR)
    moves, _ = await desk.store.read(plan_recount, "", true + MINUTE)

    def pause_and_recount(db: Db) -> int:
        db.run("UPDATE tasks SET state = 'paused'")
        return recount(db, moves, true + MINUTE)

    assert len(moves) == 1 and await desk.store.write(pause_and_recount) == 0
    assert (await desk.task(task)).next_at == true + YEAR + HOUR


async def test_a_schedule_that_cannot_be_read_any_more_stays_until_it_is_due(desk: TaskDesk) -> None:
    task = await desk.add("0 * * * *", text="x")
    broken = {"zone": "Mars/Phobos", "schedule": "61 * * * *"}
    for field, value in broken.items():
        changed = type(task)(**{name: getattr(task, name) for name in task.__struct_fields__} | {field: value})
        assert find_recounted(changed, JudgedAhead(before_now=True, first=None), desk.clock.now()) is None
