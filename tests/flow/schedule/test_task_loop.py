"""Tasks that are due are fired: once each, as their policy says, whatever the clock and the process do."""

import asyncio

import pytest
from tests.flow.schedule.conftest import ROOM, TaskDesk

from gatepost.core.clock import DAY, HOUR, MINUTE, SECOND
from gatepost.core.settings import Config
from gatepost.flow.schedule.firing import fire_plans
from gatepost.flow.schedule.task_changes import (
    MOST_LATE,
    cancel_task,
    read_rules,
    run_task,
)
from gatepost.flow.schedule.task_loop import AGAIN_S, AT_ONCE, plan_due
from gatepost.messages.inbound import MessageKind
from gatepost.store.engine.sqlite_store import SqliteStore
from gatepost.store.port import Db
from gatepost.store.rights import acl, switches
from gatepost.store.rights.acl import AclEffect, AclRow
from gatepost.store.rooms import origins
from gatepost.store.rooms.origins import Origin
from gatepost.store.schedule import tasks
from gatepost.store.schedule.tasks import TaskState
from gatepost.store.sessions import agents, sessions, timeline, turn_claims, turns
from gatepost.store.sessions.agents import NewAgent
from gatepost.store.sessions.sessions import SessionMode
from gatepost_testing.arrivals import add_arrival
from gatepost_testing.counting import CountingDb
from gatepost_testing.waiting import PATIENCE_S


async def test_a_prompt_becomes_a_message_of_the_ledger_that_is_nobodys(desk: TaskDesk) -> None:
    task = await desk.add("in 2 minutes", prompt="/new")
    await desk.tick()
    assert await desk.queued() == []

    desk.clock.advance(120)
    await desk.tick()
    [(entry, message)] = await desk.queued()
    assert (message.kind, message.sender, message.text) == (MessageKind.TASK, f"task:{task.id}", "/new")
    assert (entry.mode, entry.rights, message.content) == ("task", "task", {"prompt": "/new", "task": task.id})
    assert desk.woken == [entry.session_id]


async def test_arizuko_28_a_one_shot_is_completed_when_it_has_fired(desk: TaskDesk) -> None:
    task = await desk.add("in 2 minutes")
    desk.clock.advance(120)
    await desk.tick()
    done = await desk.task(task)
    assert (done.state, done.next_at, done.runs) == (TaskState.COMPLETED, None, 1)


async def test_a_text_is_delivered_and_nobody_is_woken(desk: TaskDesk) -> None:
    task = await desk.add("in 2 minutes", text="Take the bread out.")
    desk.clock.advance(120)
    await desk.tick()
    await desk.tick()
    [effect] = await desk.said()
    assert (effect.payload["text"], effect.address, effect.key) == (
        "Take the bread out.",
        ROOM,
        f"task/{task.id}/{task.next_at}",
    )
    assert await desk.queued() == [] and desk.woken == []
    assert [each.state for each in await desk.log(task)] == ["sent"]


async def test_a_text_that_comes_late_says_so(desk: TaskDesk) -> None:
    await desk.add("in 2 minutes", text="Take the bread out.", zone="Europe/Berlin")
    desk.clock.advance(HOUR / SECOND)
    await desk.tick()
    [effect] = await desk.said()
    assert effect.payload["text"] == "Take the bread out.\n(late: it was due at 09:02 Europe/Berlin)"


async def test_arizuko_29_an_hourly_task_fires_once_after_three_hours_away(desk: TaskDesk) -> None:
    task = await desk.add("1h")
    desk.clock.advance(3 * 3600 + 300)
    await desk.tick()
    fired = await desk.log(task)
    assert [(each.state, each.times) for each in fired] == [("skipped", 2), ("queued", 1)]
    assert fired[1].due_at == task.created_at + 3 * HOUR
    [(_, message)] = await desk.queued()
    assert "(late: it was due at" in message.content["prompt"]
    following = (await desk.task(task)).next_at
    assert following == task.created_at + 4 * HOUR and following > desk.clock.now()


async def test_arizuko_29_two_who_look_at_once_fire_once(desk: TaskDesk) -> None:
    task = await desk.add("1h", missed="all")
    desk.clock.advance(2 * 3600)
    now = desk.clock.now()
    both = [await desk.store.read(plan_due, now, 10, 100) for _ in range(2)]
    for plans in both:
        await desk.store.write(fire_plans, desk.channels, plans, 100, now)
    await asyncio.gather(desk.new_loop().fire_due(), desk.new_loop().fire_due())
    assert [each.due_at for each in await desk.log(task)] == [task.created_at + HOUR, task.created_at + 2 * HOUR]
    assert len(await desk.queued()) == 2


async def test_skip_leaves_out_what_is_late_and_fires_what_is_on_time(desk: TaskDesk) -> None:
    task = await desk.add("1h", missed="skip")
    desk.clock.advance(3 * 3600 + 600)
    await desk.tick()
    assert [(each.state, each.times) for each in await desk.log(task)] == [("skipped", 3)]
    desk.clock.advance(3000)
    await desk.tick()
    assert [each.state for each in await desk.log(task)] == ["skipped", "queued"]


async def test_skip_leaves_out_a_time_when_the_gateway_was_down_however_short_that_was(desk: TaskDesk) -> None:
    task, kept = await desk.add("1h", missed="skip"), await desk.add("1h", prompt="kept")
    await desk.tick()
    desk.clock.advance(3600 + 5)
    desk.loop = desk.new_loop()  # the gateway has started again
    await desk.tick()
    assert [each.state for each in await desk.log(task)] == ["skipped"]
    assert [each.state for each in await desk.log(kept)] == ["queued"]
    desk.clock.advance(3600)
    await desk.tick()
    assert [each.state for each in await desk.log(task)] == ["skipped", "queued"]


async def test_skip_runs_a_time_that_came_while_the_duty_went_from_one_gateway_to_another(desk: TaskDesk) -> None:
    task, other = await desk.add("1h", missed="skip"), desk.new_loop()
    await desk.tick()
    desk.clock.advance(3600 + 3)
    desk.loop = other  # of a gateway that was up all the time
    await desk.tick()
    assert [each.state for each in await desk.log(task)] == ["queued"]


async def test_skip_leaves_out_a_time_when_everything_was_stopped(desk: TaskDesk) -> None:
    task = await desk.add("1h", missed="skip")
    await desk.tick()
    await desk.store.write(switches.turn_on, switches.PANIC, "test", "me", 1)
    desk.clock.advance(3600)
    await desk.tick()
    await desk.loop.seconds_to_next()
    desk.clock.advance(5)
    await desk.store.write(switches.turn_off, switches.PANIC)
    await desk.tick()
    assert [each.state for each in await desk.log(task)] == ["skipped"]


async def test_skip_runs_a_time_that_comes_after_the_end_of_a_stop(desk: TaskDesk) -> None:
    task = await desk.add("1h", missed="skip")
    await desk.tick()
    await desk.store.write(switches.turn_on, switches.PANIC, "test", "me", 1)
    desk.clock.advance(3570)
    await desk.tick()
    await desk.loop.seconds_to_next()  # the next look is at the time of the task
    desk.clock.advance(10)
    await desk.store.write(switches.turn_off, switches.PANIC)
    desk.clock.advance(20.001)
    await desk.tick()
    assert [each.state for each in await desk.log(task)] == ["queued"]


async def test_all_fires_every_time_up_to_a_limit_and_counts_the_rest(store: SqliteStore) -> None:
    desk = await TaskDesk(store, Config({MOST_LATE.name: 5})).prepare()
    task = await desk.add("1h", missed="all", text="on the hour")
    desk.clock.advance(8 * 3600)
    await desk.tick()
    log = await desk.log(task)
    assert [(each.state, each.times) for each in log] == [("skipped", 3), *[("sent", 1)] * 5]
    assert [each.due_at for each in log[1:]] == [task.created_at + number * HOUR for number in range(4, 9)]


async def test_a_run_that_has_not_ended_holds_back_the_next_of_its_task(desk: TaskDesk) -> None:
    task = await desk.add("1h")
    desk.clock.advance(3600)
    await desk.tick()
    desk.clock.advance(3600)
    await desk.tick()
    assert [(each.state, each.reason) for each in await desk.log(task)] == [
        ("queued", ""),
        ("skipped", "the run before has not ended"),
    ]
    [(entry, _)] = await desk.queued()
    await desk.run_turn(str(entry.session_id))
    desk.clock.advance(3600)
    await desk.tick()
    assert len(await desk.queued()) == 1


async def test_runs_of_a_task_with_missed_all_wait_up_to_a_limit(store: SqliteStore) -> None:
    desk = await TaskDesk(store, Config({MOST_LATE.name: 3})).prepare()
    task = await desk.add("1h", missed="all")
    for _ in range(5):
        desk.clock.advance(3600)
        await desk.tick()
    assert [each.state for each in await desk.log(task)] == ["queued"] * 3 + ["skipped"] * 2


async def test_a_task_ends_after_its_runs_and_at_its_end(desk: TaskDesk) -> None:
    twice = await desk.add("1h", max_runs=2, text="twice")
    short = await desk.add("1h", expires_at="2027-01-15T10:30:00Z", text="until half past ten")
    for _ in range(4):
        desk.clock.advance(3600)
        await desk.tick()
        await desk.deliver()
    assert [len(await desk.log(each)) for each in (twice, short)] == [2, 2]
    ended = [await desk.task(each) for each in (twice, short)]
    assert [each.state for each in ended] == ["completed", "completed"]
    assert [each.reason for each in ended] == ["it has run 2 times (maxRuns)", "its time is over (expiresAt)"]


async def test_a_time_that_is_skipped_is_none_of_the_runs_after_which_a_task_ends(desk: TaskDesk) -> None:
    task = await desk.add("1h", max_runs=2)
    for _ in range(3):  # the first run goes on
        desk.clock.advance(3600)
        await desk.tick()
    going = await desk.task(task)
    assert (going.state, going.runs) == (TaskState.ACTIVE, 1)
    await desk.run_turn(desk.woken[0])
    desk.clock.advance(3600)
    await desk.tick()
    done = await desk.task(task)
    assert (done.state, done.runs, done.reason) == (TaskState.COMPLETED, 2, "it has run 2 times (maxRuns)")
    assert [each.state for each in await desk.log(task)] == ["silent", "skipped", "skipped", "queued"]


async def test_a_task_that_was_away_beyond_its_end_does_not_fire_after_it(desk: TaskDesk) -> None:
    task = await desk.add("1h", expires_at="2027-01-15T10:30:00Z", missed="all", text="x")
    desk.clock.advance(DAY / SECOND)
    await desk.tick()
    assert [each.due_at for each in await desk.log(task)] == [task.created_at + HOUR, task.created_at + 2 * HOUR]


async def test_a_clock_that_is_set_back_fires_nothing_twice(desk: TaskDesk) -> None:
    task = await desk.add("1h", text="x")
    desk.clock.advance(3600)
    await desk.tick()
    desk.clock.set(desk.clock.now() - 2 * HOUR)
    await desk.tick()
    for _ in range(4):
        desk.clock.advance(3600)
        await desk.tick()
    log = await desk.log(task)
    assert [each.due_at for each in log] == [task.created_at + number * HOUR for number in (1, 2, 3)]


async def test_isolated_runs_are_fresh_sessions_that_close_and_speak_in_the_room(desk: TaskDesk) -> None:
    task = await desk.add("1h", context="isolated")
    for _ in range(2):
        desk.clock.advance(3600)
        await desk.tick()
        [(entry, message)] = await desk.queued()
        assert (message.address, entry.session_id) == (ROOM, desk.woken[-1])
        await desk.run_turn(str(entry.session_id))
    assert len(set(desk.woken)) == 2
    closed = [await desk.store.read(sessions.get, each) for each in desk.woken]
    assert [each.state for each in closed if each] == ["closed", "closed"]
    assert [each.address for each in closed if each] == [ROOM, ROOM]
    assert [each.mode for each in await desk.store.read(sessions.list_in_room, ROOM)] == ["shared"]
    assert [each.state for each in await desk.log(task)] == ["silent", "silent"]


@pytest.mark.slow
async def test_the_log_has_the_outcome_of_the_turn(desk: TaskDesk) -> None:
    task = await desk.add("1h")
    session_id = ""
    turn_ids = []
    for how in ({"says": "news"}, {}, {"error": "no key"}):
        desk.clock.advance(3600)
        await desk.tick()
        session_id = desk.woken[-1]
        turn_ids.append(await desk.run_turn(session_id, **how))
    log = await desk.log(task)
    assert [(each.state, each.reason) for each in log] == [
        ("answered", ""),
        ("silent", "the agent chose silence"),
        ("failed", "no key"),
    ]
    assert [each.turn_id for each in log] == turn_ids
    assert (await desk.task(task)).failures == 1


async def test_nanoclaw_36_and_d9_a_run_that_fails_for_good_does_not_end_the_series(desk: TaskDesk) -> None:
    task = await desk.add("1h")
    desk.clock.advance(3600)
    await desk.tick()
    await desk.run_turn(desk.woken[-1], error="broken")
    failed = await desk.task(task)
    assert (failed.state, failed.next_at) == ("active", task.created_at + 2 * HOUR)
    desk.clock.advance(3600)
    await desk.tick()
    await desk.run_turn(desk.woken[-1], says="well again")
    assert ((await desk.task(task)).failures, len(await desk.log(task))) == (0, 2)


@pytest.mark.slow
async def test_five_failures_in_a_row_pause_a_task(desk: TaskDesk) -> None:
    task = await desk.add("1h")
    for number in range(1, 6):
        assert (await desk.task(task)).state == "active"
        desk.clock.advance(3600)
        await desk.tick()
        await desk.run_turn(desk.woken[-1], error=f"trouble {number}")
    paused = await desk.task(task)
    assert (paused.state, paused.reason) == ("paused", "5 runs in a row failed; the last: trouble 5")
    desk.clock.advance(3600)
    await desk.tick()
    assert len(await desk.log(task)) == 5


async def test_people_come_before_tasks_that_wait_longer(desk: TaskDesk) -> None:
    await desk.add("1h", missed="all")
    desk.clock.advance(3 * 3600)
    await desk.tick()
    session_id = desk.woken[-1]

    def ask(db: Db) -> int:
        from gatepost.store.messages import inbox

        message_id = add_arrival(db, desk.clock.now(), address=ROOM, at=1, platform_id="p1")
        return inbox.enqueue(db, message_id, session_id, "acme", "member", desk.clock.now())

    row = await desk.store.write(ask)

    def claim(db: Db) -> tuple[int, ...]:
        found = turn_claims.claim(db, session_id, "scripted", "test", desk.clock.now(), MINUTE, 20)
        assert found is not None and found.more
        turns.begin(db, found.turn.id, 1, found.rows, desk.clock.now())
        turns.finish(db, found.turn.id, 1, "{}", desk.clock.now())
        return found.rows

    claims = [await desk.store.write(claim) for _ in range(3)]
    assert claims[0] == (row,)
    assert [len(each) for each in claims] == [1, 1, 1]


async def test_a_group_that_lost_its_way_to_the_room_says_nothing_there(desk: TaskDesk) -> None:
    task = await desk.add("1h", text="secret plans")
    await desk.store.write(lambda db: [sessions.close(db, each.id, 1) for each in sessions.list_open(db)])
    desk.clock.advance(3600)
    await desk.tick()
    assert [(each.state, each.reason) for each in await desk.log(task)] == [
        ("failed", "acme has no way to its room any more")
    ]
    assert not [each for each in await desk.said() if each.payload["text"] == "secret plans"]


async def test_what_people_are_denied_goes_with_their_tasks(desk: TaskDesk) -> None:
    """The firing carries everybody on whose behalf the task was made."""
    asked = Origin("fake:user/7", "fake", ROOM)
    await desk.add("1h", origins=(asked,), depth=3)
    desk.clock.advance(3600)
    await desk.tick()
    [(entry, _)] = await desk.queued()
    chain = await desk.store.read(origins.get_for_row, entry.id)
    assert (chain.origins, chain.depth) == ((asked,), 3)


async def test_a_task_wakes_a_managed_agent_in_its_own_conversation(desk: TaskDesk) -> None:
    agent = await desk.store.write(agents.create, NewAgent(folder="acme", provider="scripted"), desk.clock.now())
    task = await desk.add("1h", instance=agents.INSTANCE, address=agent.address, prompt="go on")
    desk.clock.advance(3600)
    await desk.tick()
    assert desk.woken == [agent.id]
    shown = await desk.store.read(timeline.list_last, agent.id, 5)
    assert [each.data for each in shown] == [{"text": "go on"}]
    await desk.run_turn(agent.id)
    await desk.store.write(sessions.close, agent.id, desk.clock.now())
    desk.clock.advance(3600)
    await desk.tick()
    assert [each.state for each in await desk.log(task)] == ["silent", "failed"]


async def test_nothing_fires_in_a_panic_and_policies_hold_after_it(desk: TaskDesk) -> None:
    task = await desk.add("1h", text="x")
    await desk.store.write(switches.turn_on, switches.PANIC, "test", "me", 1)
    desk.clock.advance(2 * 3600)
    await desk.tick()
    assert await desk.log(task) == []
    await desk.store.write(switches.turn_off, switches.PANIC)
    await desk.tick()
    assert [each.state for each in await desk.log(task)] == ["skipped", "sent"]


async def test_nothing_of_a_group_at_rest_fires_and_others_do_on_time(desk: TaskDesk) -> None:
    task = await desk.add("1h", text="x")
    rests = switches.name_rest(task.folder)
    await desk.store.write(switches.turn_on, rests, "test", "me", 1)
    desk.clock.advance(2 * 3600)
    await desk.tick()
    assert await desk.log(task) == []
    assert await desk.loop.seconds_to_next() > AGAIN_S  # nobody waits for what does not fire
    await desk.store.write(switches.turn_off, rests)
    await desk.tick()
    assert [each.state for each in await desk.log(task)] == ["skipped", "sent"]


@pytest.mark.parametrize(("rested", "fires"), [("acmes", True), ("acme/kitchen", True), ("acme", False), ("acm", True)])
async def test_a_rest_holds_for_the_groups_below_and_for_no_other(desk: TaskDesk, rested: str, fires: bool) -> None:
    task = await desk.add("1h", text="x")
    assert task.folder == "acme"
    await desk.store.write(switches.turn_on, switches.name_rest(rested), "test", "me", 1)
    desk.clock.advance(3600)
    await desk.tick()
    assert bool(await desk.log(task)) is fires
    below = await desk.store.read(switches.find_stop, "acme/kitchen/sink")
    assert (below is not None) is (rested in ("acme", "acme/kitchen"))


async def test_what_is_due_in_a_panic_does_not_make_the_loop_spin(desk: TaskDesk) -> None:
    await desk.add("1h", text="x")
    await desk.store.write(switches.turn_on, switches.PANIC, "test", "me", 1)
    desk.clock.advance(2 * 3600)
    assert not await desk.loop.fire_due()
    assert await desk.loop.seconds_to_next() >= AGAIN_S


async def test_a_schedule_that_cannot_be_read_any_more_pauses_its_task_and_says_so(desk: TaskDesk) -> None:
    task, well = await desk.add("0 * * * *"), await desk.add("1h", text="x")
    await desk.store.write(lambda db: db.run("UPDATE tasks SET zone = 'Mars/Phobos' WHERE id = ?", (task.id,)))
    desk.clock.advance(3600)
    await desk.tick()
    paused = await desk.task(task)
    assert paused.state == "paused" and "Mars/Phobos" in paused.reason
    assert [each.state for each in await desk.log(well)] == ["sent"]


async def test_a_task_is_run_now_besides_its_schedule(desk: TaskDesk) -> None:
    task = await desk.add("1h", text="x")
    await desk.store.write(run_task, desk.channels, task.id, read_rules(desk.config), desk.clock.now())
    assert [each.state for each in await desk.log(task)] == ["sent"]
    assert (await desk.task(task)).next_at == task.next_at


async def test_a_cancelled_task_leaves_its_running_turn_and_withdraws_what_waits(desk: TaskDesk) -> None:
    task = await desk.add("1h", missed="all")
    desk.clock.advance(2 * 3600)
    await desk.tick()
    session_id = desk.woken[-1]
    claim = await desk.store.write(turn_claims.claim, session_id, "scripted", "test", desk.clock.now(), MINUTE, 20)
    assert claim is not None
    await desk.store.write(cancel_task, task.id, "me", desk.clock.now())
    assert [each.state for each in await desk.log(task)] == ["queued", "cancelled"]
    turn = await desk.store.read(turns.get, claim.turn.id)
    assert turn is not None and turn.ended_at is None


async def test_a_bell_moves_the_timer_forward(desk: TaskDesk) -> None:
    running = asyncio.create_task(desk.loop.run())
    try:
        await desk.add("in 2 minutes", text="x")
        desk.clock.advance(120)
        done = asyncio.Event()
        desk.events.on_room(lambda instance, address: done.set())
        desk.events.tasks()
        async with asyncio.timeout(PATIENCE_S):
            await done.wait()
    finally:
        running.cancel()


@pytest.mark.slow
async def test_a_look_costs_the_same_however_many_tasks_and_sessions_there_are(desk: TaskDesk) -> None:
    for number in range(3):
        await desk.add("1h", text=f"x {number}")

    def crowd(db: Db) -> None:
        for number in range(300):
            address = f"fake:room/{number + 2}"
            sessions.find_or_add(db, SessionMode.SHARED, "acme", "fake", address, "", 1)
            db.run(
                "INSERT INTO tasks SELECT id || ?, folder, instance, ?, thread, prompt, text, script, kind, schedule,"
                " every, zone, context, missed, state, reason, next_at + ?, max_runs, expires_at, runs, failures,"
                " created_by, depth, created_at, updated_at, title, max_cost FROM tasks WHERE folder = 'acme'"
                " ORDER BY id LIMIT 1",
                (f"-{number}", address, 10 * DAY),
            )

    def look(db: Db, now: int) -> tuple[int, int]:
        counted = CountingDb(db)
        fire_plans(counted, desk.channels, plan_due(counted, now, AT_ONCE, 100), 100, now)
        tasks.get_next_due(counted)
        return counted.statements, counted.read_rows

    desk.clock.advance(3600)
    alone = await desk.store.write(look, desk.clock.now())
    await desk.store.write(crowd)
    await desk.deliver()
    desk.clock.advance(3600)
    assert await desk.store.write(look, desk.clock.now()) == alone
    assert len(await desk.said()) == 6


async def test_texts_that_cannot_be_delivered_do_not_pile_up(desk: TaskDesk) -> None:
    task, each = await desk.add("1h", text="x" * 1000), await desk.add("1h", text="y", missed="all")
    for _ in range(5):
        desk.clock.advance(3600)
        await desk.tick()
    assert [one.state for one in await desk.log(task)] == ["sent", *["skipped"] * 4]
    assert (await desk.log(task))[-1].reason == "the run before has not been delivered"
    assert [one.state for one in await desk.log(each)] == ["sent"] * 5

    await desk.deliver()
    desk.clock.advance(3600)
    await desk.tick()
    assert (await desk.log(task))[-1].state == "sent"


async def test_late_texts_of_every_time_wait_in_bounded_numbers(store: SqliteStore) -> None:
    desk = await TaskDesk(store, Config({MOST_LATE.name: 3})).prepare()
    task = await desk.add("1h", text="y", missed="all")
    for _ in range(5):
        desk.clock.advance(3600)
        await desk.tick()
    assert [one.state for one in await desk.log(task)] == ["sent"] * 3 + ["skipped"] * 2


@pytest.mark.parametrize("words", [{"prompt": "look"}, {"text": "look"}])
async def test_a_task_does_not_outlive_the_rights_of_whom_it_was_made_for(
    desk: TaskDesk, words: dict[str, str]
) -> None:
    ann = Origin("fake:user/ann", "fake", ROOM)
    task = await desk.add("1h", origins=(ann,), **words)
    deny = AclRow(id=0, principal=ann.person, action="interact", scope="acme", effect=AclEffect.DENY)
    await desk.store.write(acl.put, deny, desk.clock.now())
    desk.clock.advance(3600)
    await desk.tick()
    [firing] = await desk.log(task)
    assert firing.state == "failed" and "may not speak to acme any more" in firing.reason
    assert await desk.queued() == []
    assert [each.origin for each in await desk.said()] == ["notice"]


@pytest.mark.parametrize("by", ["agent:acme", "operator"])
async def test_a_text_is_not_said_once_its_agent_may_not_send_any_more(desk: TaskDesk, by: str) -> None:
    task, other = await desk.add("1h", text="buy!", created_by=by), await desk.add("1h", prompt="look")
    await desk.store.write(acl.add_rule, "acme", "!send", "me", 1)
    desk.clock.advance(3600)
    await desk.tick()
    said = [(each.origin, each.payload["text"]) for each in await desk.said()]
    if by == "operator":
        assert said == [("tool", "buy!")]
        return
    assert (await desk.task(task)).state == "paused" and [one.state for one in await desk.log(task)] == ["failed"]
    assert [origin for origin, _ in said] == ["notice"] and "forbids acme to send there" in said[0][1]
    assert [one.state for one in await desk.log(other)] == ["queued"]


async def test_a_text_is_not_said_for_a_person_who_may_not_have_it_sent_any_more(desk: TaskDesk) -> None:
    ann = Origin("fake:user/ann", "fake", ROOM)
    task = await desk.add("1h", text="buy!", origins=(ann,))
    deny = AclRow(id=0, principal=ann.person, action="mcp:send", scope="acme", effect=AclEffect.DENY)
    await desk.store.write(acl.put, deny, desk.clock.now())
    desk.clock.advance(3600)
    await desk.tick()
    assert (await desk.task(task)).state == "paused"
    assert [each.origin for each in await desk.said()] == ["notice"]
