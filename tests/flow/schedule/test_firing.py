"""What one look fires is written together, and each firing is judged by itself."""

import pytest
from tests.flow.schedule.conftest import INSTANCE, ROOM, TaskDesk

from gatepost.core.clock import HOUR
from gatepost.core.errors import Unavailable
from gatepost.core.settings import Config
from gatepost.flow.schedule.firing import fire_plans
from gatepost.flow.schedule.queued_prompts import LARGEST_WAITING, MOST_WAITING, check_load
from gatepost.flow.schedule.task_changes import MOST_LATE, MOST_TASKS, pause_task
from gatepost.flow.schedule.task_loop import AT_ONCE, plan_due
from gatepost.store.engine.sqlite_store import SqliteStore
from gatepost.store.engine.table import MOST_ROWS
from gatepost.store.messages import destinations, message_steps
from gatepost.store.messages.inbox import WaitingLoad
from gatepost.store.port import Db
from gatepost.store.rights import acl
from gatepost.store.rights.acl import AclEffect, AclRow
from gatepost.store.rooms import origins
from gatepost.store.rooms.origins import Origin
from gatepost.store.schedule import firings, tasks
from gatepost.store.schedule.firings import FiringState
from gatepost.store.sessions import agents, groups, sessions
from gatepost.store.sessions.agents import NewAgent
from gatepost.store.sessions.sessions import SessionMode, SessionState
from gatepost_testing.counting import CountingDb


async def test_firings_of_one_look_have_their_own_numbers_in_a_conversation(desk: TaskDesk) -> None:
    for number in range(4):
        await desk.add("1h", prompt=f"part {number}")
    desk.clock.advance(3600)
    await desk.tick()
    pairs = await desk.queued()
    assert sorted(entry.seq for entry, _ in pairs) == [1, 2, 3, 4]
    assert len({entry.session_id for entry, _ in pairs}) == 1 == len(desk.woken)
    [session] = await desk.store.read(sessions.list_in_room, ROOM)
    assert session.next_seq == 5
    for entry, message in pairs:
        steps = await desk.store.read(message_steps.list_for_message, message.id)
        assert [(each.row_id, each.step, each.detail) for each in steps] == [(entry.id, "queued", f"acme #{entry.seq}")]


async def test_more_late_runs_than_one_statement_takes_are_all_fired(desk: TaskDesk) -> None:
    task = await desk.add("1h", missed="all", context="isolated")
    count = MOST_ROWS + 10
    desk.clock.advance(count * 3600)
    await desk.tick()
    log = await desk.log(task)
    assert [each.due_at for each in log] == [task.created_at + number * HOUR for number in range(1, count + 1)]
    assert {each.state for each in log} == {FiringState.QUEUED}
    pairs = await desk.queued()
    assert {(entry.session_id, message.id) for entry, message in pairs} == {
        (each.session_id, each.message_id) for each in log
    }
    assert len({each.session_id for each in log}) == count and (await desk.task(task)).runs == count


async def test_each_firing_of_a_look_is_judged_by_its_own_rights_and_room(desk: TaskDesk) -> None:
    ann, bob = Origin("fake:user/ann", INSTANCE, ROOM), Origin("fake:user/bob", INSTANCE, ROOM)

    def prepare(db: Db) -> None:
        destinations.add_room(db, "acme", "hall", INSTANCE, "fake:room/hall", "", 1)
        deny = AclRow(id=0, principal=ann.person, action="interact", scope="acme", effect=AclEffect.DENY)
        acl.put(db, deny, 1)

    await desk.store.write(prepare)
    denied = await desk.add("1h", prompt="for ann", origins=(bob, ann))
    fine = await desk.add("1h", prompt="for bob", origins=(bob,))
    lost = await desk.add("1h", prompt="in the hall", address="fake:room/hall")
    fresh = await desk.add("1h", prompt="alone", context="isolated", origins=(bob,))
    said = await desk.add("1h", text="the hour")
    await desk.store.write(destinations.remove, "acme", "hall")
    desk.clock.advance(3600)
    await desk.tick()
    logs = [await desk.log(each) for each in (denied, fine, lost, fresh, said)]
    assert [[each.state for each in log] for log in logs] == [["failed"], ["queued"], ["failed"], ["queued"], ["sent"]]
    assert "may not speak to acme any more" in logs[0][0].reason and "no way to its room" in logs[2][0].reason
    after = [await desk.task(each) for each in (denied, fine, lost, fresh, said)]
    assert [each.runs for each in after] == [0, 1, 0, 1, 1]
    assert [each.state for each in after] == ["paused", "active", "paused", "active", "active"]
    chains = [await desk.store.read(origins.get_for_row, entry.id) for entry, _ in await desk.queued()]
    assert [each.origins for each in chains] == [(bob,), (bob,)]


async def test_a_task_that_was_moved_meanwhile_is_left_out_and_the_others_fire(desk: TaskDesk) -> None:
    moved, other = await desk.add("1h", prompt="one"), await desk.add("1h", prompt="two", context="isolated")
    desk.clock.advance(3600)
    now = desk.clock.now()
    plans = await desk.store.read(plan_due, now, AT_ONCE, 100)
    await desk.store.write(pause_task, moved.id, "me", now)
    fired = await desk.store.write(fire_plans, desk.channels, plans, 100, now)
    assert fired.ran == 1 and await desk.log(moved) == []
    assert [each.state for each in await desk.log(other)] == ["queued"]
    assert (await desk.task(moved)).runs == 0


async def test_a_time_that_has_its_row_is_not_fired_again_and_the_task_goes_on(desk: TaskDesk) -> None:
    task = await desk.add("1h", prompt="look")
    assert task.next_at is not None
    await desk.store.write(firings.add, task.id, task.next_at, 1, FiringState.SILENT)
    desk.clock.advance(3600)
    await desk.tick()
    assert [each.state for each in await desk.log(task)] == ["silent"] and await desk.queued() == []
    after = await desk.task(task)
    assert (after.runs, after.next_at) == (0, task.next_at + HOUR)


async def test_of_two_who_write_one_time_the_second_writes_nothing_at_all(desk: TaskDesk) -> None:
    """As on an engine with several writers: the row is there though it was not when the second looked."""
    task, other = await desk.add("1h", prompt="one"), await desk.add("1h", prompt="two")

    class LateRow:
        """The row comes when everything was read."""

        def __init__(self, db: Db) -> None:
            self._db = db

        def __getattr__(self, name: str) -> object:
            return getattr(self._db, name)

        def rows(self, sql: str, params: tuple[object, ...] = ()) -> list[tuple[object, ...]]:
            if sql.startswith("UPDATE tasks"):
                assert task.next_at is not None
                firings.add(self._db, task.id, task.next_at, 1, FiringState.SILENT)
            return self._db.rows(sql, params)

    desk.clock.advance(3600)
    now = desk.clock.now()
    plans = await desk.store.read(plan_due, now, AT_ONCE, 100)
    with pytest.raises(Unavailable, match="somebody else fires"):
        await desk.store.write(lambda db: fire_plans(LateRow(db), desk.channels, plans, 100, now))  # type: ignore[arg-type]
    assert await desk.queued() == [] and await desk.log(other) == [] and (await desk.task(other)).runs == 0
    await desk.tick()
    assert [each.state for each in await desk.log(other)] == ["queued"]


async def test_a_look_has_as_many_statements_for_twenty_prompts_as_for_two(store: SqliteStore) -> None:
    desk = await TaskDesk(store, Config({MOST_TASKS.name: 50})).prepare()

    async def count(prompts: int) -> int:
        for number in range(prompts):
            await desk.add("in 1 hour", prompt=f"look {number}", context=("group", "isolated")[number % 2])
        desk.clock.advance(3600)

        def look(db: Db, now: int) -> int:
            counted = CountingDb(db)
            fired = fire_plans(counted, desk.channels, plan_due(counted, now, AT_ONCE, 100), 100, now)
            assert fired.ran == prompts
            return counted.statements

        return await desk.store.write(look, desk.clock.now())

    assert await count(2) == await count(AT_ONCE) <= 18


async def test_a_prompt_goes_on_with_the_conversation_of_its_own_thread_and_instance(desk: TaskDesk) -> None:
    def prepare(db: Db) -> dict[str, str]:
        groups.add(db, "acme/sales", "Sales", "", 1)
        places = {"thread": (INSTANCE, "7"), "other": (INSTANCE, "8"), "twin": ("fake2", "7")}
        return {
            name: sessions.find_or_add(db, SessionMode.PER_THREAD, "acme/sales", instance, ROOM, thread, 1).id
            for name, (instance, thread) in places.items()
        }

    made = await desk.store.write(prepare)
    for instance in (INSTANCE, "fake2"):
        await desk.add("1h", folder="acme/sales", instance=instance, thread="7", prompt="look", created_by="operator")
    desk.clock.advance(3600)
    await desk.tick()
    assert sorted(desk.woken) == sorted((made["thread"], made["twin"]))


async def test_a_prompt_opens_a_conversation_where_its_group_has_none(desk: TaskDesk) -> None:
    await desk.store.write(destinations.add_room, "acme", "hall", INSTANCE, "fake:room/hall", "", 1)
    for number in range(2):
        await desk.add("1h", prompt=f"look {number}", address="fake:room/hall")
    desk.clock.advance(3600)
    await desk.tick()
    [session] = await desk.store.read(sessions.list_in_room, "fake:room/hall")
    assert desk.woken == [session.id] and session.next_seq == 3


async def test_a_conversation_takes_only_so_many_firings_that_wait(store: SqliteStore) -> None:
    desk = await TaskDesk(store, Config({MOST_LATE.name: MOST_WAITING + 5})).prepare()
    task = await desk.add("1h", missed="all")
    desk.clock.advance((MOST_WAITING + 2) * 3600)
    await desk.tick()
    states = [each.state for each in await desk.log(task)]
    assert states == ["queued"] * MOST_WAITING + ["failed"] * 2
    assert "which is the most" in (await desk.log(task))[-1].reason


def test_prompts_that_wait_may_have_so_many_characters_together() -> None:
    assert check_load(WaitingLoad(3, LARGEST_WAITING - 10), 10) == ""
    assert "characters together" in check_load(WaitingLoad(3, LARGEST_WAITING - 10), 11)


async def test_a_task_of_an_archived_agent_brings_it_back_as_a_prompt_does(desk: TaskDesk) -> None:
    agent = await desk.store.write(agents.create, NewAgent(folder="acme", provider="scripted"), desk.clock.now())
    await desk.add("1h", instance=agents.INSTANCE, address=agent.address, prompt="go on")

    def put_away(db: Db) -> None:
        sessions.set_state(db, agent.id, SessionState.ERROR, 1)
        agents.archive(db, agent.id, 1)

    await desk.store.write(put_away)
    desk.clock.advance(3600)
    await desk.tick()
    back = await desk.store.read(agents.get, agent.id)
    assert back is not None and (back.archived_at, back.state) == (None, SessionState.IDLE)
    assert [each.id for each in await desk.store.read(agents.list_all)] == [agent.id]
    assert desk.woken == [agent.id] and await desk.store.read(tasks.count_active) == 1
