"""What goes wrong with one task is its own trouble: the others are fired, and whoever made it is told."""

import asyncio

import pytest
from tests.flow.schedule.conftest import TaskDesk

from gatepost.core.errors import Invalid
from gatepost.core.settings import Config
from gatepost.flow.schedule.firing import fire_plans
from gatepost.flow.schedule.task_changes import (
    MOST_LATE,
    TaskChange,
    read_rules,
    resume_task,
    update_task,
)
from gatepost.flow.schedule.task_loop import AT_ONCE, plan_due, split_plans
from gatepost.store.engine.sqlite_store import SqliteStore
from gatepost.store.port import Db
from gatepost.store.schedule import tasks
from gatepost.store.schedule.tasks import TaskState
from gatepost_testing.waiting import PATIENCE_S, until


def _refuse_poison(db: Db) -> None:
    """The store cannot take this word: stands for any mistake of ours that one task brings out."""
    for table in ("messages", "outbox"):
        column = "text" if table == "messages" else "payload"
        db.run(
            f"CREATE TRIGGER poison_{table} BEFORE INSERT ON {table} WHEN instr(NEW.{column}, 'poison') > 0"
            " BEGIN SELECT RAISE(ABORT, 'poison'); END"
        )


@pytest.mark.sqlite  # its trigger refuses a row
async def test_a_task_that_cannot_be_written_spoils_no_other_and_is_paused(desk: TaskDesk) -> None:
    await desk.store.write(_refuse_poison)
    before = await desk.add("1h", text="first")
    bad = await desk.add("1h", text="poison", title="bread")
    asked = await desk.add("1h", prompt="poison", title="news")
    behind = await desk.add("1h", prompt="last")
    desk.clock.advance(3600)
    await desk.tick()
    assert [(await desk.task(each)).state for each in (before, bad, asked, behind)] == [
        *("active", "paused", "paused", "active")
    ]
    assert "which its log describes" in (await desk.task(bad)).reason
    assert [[each.state for each in await desk.log(one)] for one in (before, bad, asked, behind)] == [
        *(["sent"], ["failed"], ["failed"], ["queued"])
    ]
    said = [each.payload["text"] for each in await desk.said()]
    assert said[0] == "first" and [bad.id in each for each in said] == [False, True, False]
    assert not await desk.loop.fire_due()


@pytest.mark.sqlite
async def test_a_task_whose_owner_cannot_be_told_either_is_paused(desk: TaskDesk) -> None:
    await desk.store.write(_refuse_poison)
    bad, good = await desk.add("1h", text="poison"), await desk.add("1h", text="fine")
    desk.clock.advance(3600)
    await desk.tick()
    assert [(await desk.task(each)).state for each in (bad, good)] == ["paused", "active"]
    assert [each.payload["text"] for each in await desk.said()] == ["fine"]


async def test_a_zone_that_is_not_known_any_more_keeps_back_nobody(desk: TaskDesk) -> None:
    bad = await desk.add("2h", text="by interval", zone="Europe/Berlin")
    daily = await desk.add("0 9 * * *", text="by cron", zone="Europe/Berlin")
    good = await desk.add("1h", text="fine")
    await desk.store.write(lambda db: db.run("UPDATE tasks SET zone = 'Mars/Olympus' WHERE zone <> 'UTC'"))
    desk.clock.advance(26 * 3600 + 600)
    await desk.tick()
    said = {each.key.split("/")[-2]: each.payload["text"] for each in await desk.said()}
    assert said[bad.id] == "by interval\n(late: it was due at 10:00 UTC)"
    assert "fine" in said[good.id] and "cannot be read" in said[daily.id]
    with pytest.raises(Invalid, match=r"cannot be read.*update its schedule or its time zone, then resume it"):
        await desk.store.write(resume_task, daily.id, desk.clock.now())
    rules = read_rules(desk.config)
    await desk.store.write(update_task, daily.id, TaskChange(zone="UTC"), rules, desk.clock.now())
    resumed = await desk.store.write(resume_task, daily.id, desk.clock.now())
    assert resumed.state is TaskState.ACTIVE


async def test_long_texts_that_are_late_are_no_more_messages_than_may_wait(store: SqliteStore) -> None:
    desk = await TaskDesk(store, Config({MOST_LATE.name: 10}), max_text=400).prepare()
    task = await desk.add("1h", text="word " * 400, missed="all")
    desk.clock.advance(10 * 3600)
    await desk.tick()
    states = [each.state for each in await desk.log(task)]
    assert states == ["sent", "sent", *["skipped"] * 8]
    assert len(await desk.said()) <= 10 + 6


async def test_long_texts_of_several_tasks_are_written_apart(store: SqliteStore) -> None:
    desk = await TaskDesk(store, Config(), max_text=400).prepare()
    for number in range(4):
        await desk.add("1h", text=f"{number} " + "word " * 6000)
        desk.clock.advance(1)  # what is due at the same time comes in any order
    short = [await desk.add("1h", text=f"short {number}") for number in range(3)]
    desk.clock.advance(3600)
    plans = await store.read(plan_due, desk.clock.now(), AT_ONCE, 100)
    split = split_plans(desk.channels, plans, 100)
    assert [len(each) for each in split] == [1, 1, 1, 1 + len(short)]


async def test_who_changed_a_task_while_it_was_looked_at_is_obeyed(desk: TaskDesk) -> None:
    task = await desk.add("1h", text="old words")
    desk.clock.advance(3600)
    now = desk.clock.now()
    plans = await desk.store.read(plan_due, now, AT_ONCE, 100)
    await desk.store.write(update_task, task.id, TaskChange(text="new words"), read_rules(desk.config), now)
    await desk.store.write(fire_plans, desk.channels, plans, 100, now)
    assert await desk.said() == [] and (await desk.task(task)).next_at == task.next_at
    await desk.tick()
    assert [each.payload["text"] for each in await desk.said()] == ["new words"]


@pytest.mark.slow
async def test_many_late_times_that_nobody_can_be_given_are_told_as_often_as_it_takes_to_pause(desk: TaskDesk) -> None:
    for number in range(3):  # two fill what may wait in the conversation
        last = await desk.add("1h", prompt=f"part {number}", missed="all")
        desk.clock.advance(1)  # what is due at the same time comes in any order
    desk.clock.advance(100 * 3600)
    await desk.tick()
    said = [each.payload["text"] for each in await desk.said()]
    assert len(said) == tasks.MOST_FAILURES and "is paused" in said[-1]
    assert (await desk.task(last)).state is TaskState.PAUSED


async def test_a_row_that_cannot_be_read_does_not_end_the_gateway(
    desk: TaskDesk, caplog: pytest.LogCaptureFixture
) -> None:
    task = await desk.add("in 2 minutes", text="x")
    desk.clock.advance(120)
    set_policy = "UPDATE tasks SET missed = ? WHERE id = ?"
    await desk.store.write(lambda db: db.run(set_policy, ("bogus", task.id)))
    done = asyncio.Event()
    desk.events.on_room(lambda instance, address: done.set())
    running = asyncio.create_task(desk.loop.run())
    try:
        await until(lambda: "tasks could not be looked at" in caplog.text, "the error")
        await desk.store.write(lambda db: db.run(set_policy, ("once", task.id)))
        desk.events.tasks()
        async with asyncio.timeout(PATIENCE_S):
            await done.wait()
    finally:
        running.cancel()
