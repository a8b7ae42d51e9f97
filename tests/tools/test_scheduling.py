"""Tools for tasks: who may schedule what where, and every trap that older systems had."""

import json
from pathlib import Path
from typing import Any

import pytest

from gatepost.access.grants import parse
from gatepost.core.clock import MINUTE
from gatepost.core.registry import load_package
from gatepost.core.settings import Config
from gatepost.flow.schedule.task_changes import MOST_TASKS, pause_task
from gatepost.gate.tool_answers import ToolAnswer
from gatepost.store.engine.sqlite_store import SqliteStore
from gatepost.store.messages import destinations
from gatepost.store.port import Db
from gatepost.store.rooms.origins import Origin
from gatepost.store.schedule import firings, tasks
from gatepost.store.schedule.firings import FiringState
from gatepost.store.schedule.tasks import Task, TaskState
from gatepost.store.sessions import groups, sessions
from gatepost.store.sessions.sessions import SessionMode
from gatepost_testing.clock import FixedClock
from gatepost_testing.gate_agent import ROOM, GateAgent

load_package("gatepost.tools")


def told(answer: ToolAnswer) -> dict[str, Any]:
    assert not answer.failed and not answer.code, answer.text
    assert answer.structured is not None
    found: dict[str, Any] = json.loads(answer.structured)
    return found


async def make_agent(tmp_path: Path, store: SqliteStore, folder: str = "acme", **given: Any) -> GateAgent:
    return await GateAgent.create(tmp_path, store, folder, clock=FixedClock(), **given)


async def add_room(store: SqliteStore, folder: str, address: str) -> None:
    def make(db: Db) -> None:
        groups.add(db, folder, folder, "", 1)
        sessions.find_or_add(db, SessionMode.PER_THREAD, folder, "fake", address, "", 1)

    await store.write(make)


async def get(store: SqliteStore, task_id: str) -> Task:
    found = await store.read(tasks.get, task_id)
    assert found is not None
    return found


async def test_a_task_is_the_groups_of_the_room_and_says_when_it_runs(tmp_path: Path, store: SqliteStore) -> None:
    agent = await make_agent(tmp_path, store)
    woken: list[int] = []
    agent.deps.events.on_tasks(lambda: woken.append(1))
    made = told(
        await agent.call("schedule_task", targetJid=ROOM, prompt="news?", cron="0 9 * * *", timezone="Asia/Tokyo")
    )
    assert (made["created"], made["nextRun"], woken) == (True, "2027-01-16T09:00:00.000+09:00", [1])
    task = await get(store, made["taskId"])
    assert (task.folder, task.address, task.prompt, task.zone) == ("acme", ROOM, "news?", "Asia/Tokyo")
    assert (task.created_by, task.context, task.missed) == ("agent:acme", "group", "once")


async def test_arizuko_28_the_same_task_twice_is_one(tmp_path: Path, store: SqliteStore) -> None:
    agent = await make_agent(tmp_path, store)
    await add_room(store, "acme", "fake:room/2")
    same = {"targetJid": ROOM, "prompt": "news?", "cron": "0 9 * * *"}
    first, second = [told(await agent.call("schedule_task", **same)) for _ in range(2)]
    assert (first["taskId"], second["created"]) == (second["taskId"], False)
    elsewhere = told(await agent.call("schedule_task", **{**same, "targetJid": "fake:room/2"}))
    assert not told(await agent.call("schedule_task", **same, contextMode="whatever"))["created"], "it is the group's"
    isolated = told(await agent.call("schedule_task", **same, contextMode="isolated"))
    assert len({first["taskId"], elsewhere["taskId"], isolated["taskId"]}) == 3
    await agent.call("pause_task", taskId=first["taskId"])
    assert told(await agent.call("schedule_task", **same))["created"]


@pytest.mark.parametrize(
    ("cron", "kind", "every"),
    [("3600000", "every", 3_600_000_000), ("2027-01-16T09:00:00Z", "once", 0), ("0 9 * * *", "cron", 0)],
)
async def test_arizuko_28_milliseconds_a_moment_and_five_fields(
    cron: str, kind: str, every: int, tmp_path: Path, store: SqliteStore
) -> None:
    agent = await make_agent(tmp_path, store)
    made = told(await agent.call("schedule_task", targetJid=ROOM, prompt="news?", cron=cron))
    task = await get(store, made["taskId"])
    assert (task.kind, task.every) == (kind, every)


@pytest.mark.parametrize("when", ["+20m", "in 20 minutes", "in 1200 seconds"])
async def test_a_task_is_scheduled_so_long_from_now_and_ends_so_long_from_now(
    when: str, tmp_path: Path, store: SqliteStore
) -> None:
    agent = await make_agent(tmp_path, store)
    given = {"targetJid": ROOM, "prompt": "news?", "cron": when, "expiresAt": "2h30m"}
    task = await get(store, told(await agent.call("schedule_task", **given))["taskId"])
    assert (task.kind, task.next_at) == ("once", task.created_at + 20 * MINUTE)
    assert task.expires_at == task.created_at + 150 * MINUTE


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"cron": "nonsense"}, "invalid cron"),
        ({"cron": "+20 mintes"}, "or +20m"),
        ({"cron": "1h", "expiresAt": "soon"}, "+20m, 2h30m or 'in 20 minutes'"),
        ({"cron": ""}, "says nothing, so the task would never run"),
        ({}, "says nothing, so the task would never run"),
        ({"cron": "1000"}, "every 1 s; the least is 60 s (schedule.least_interval_s)"),
        ({"cron": "1h", "timezone": "Mars"}, "is no time zone"),
        ({"cron": "1h", "maxRuns": 0}, "maxRuns: 0 is not between"),
        ({"cron": "1h", "expiresAt": "2027-01-15T08:10:00Z"}, "before its first time"),
        ({"cron": "1h", "text": "x"}, "give either a prompt"),
        ({"cron": "1h", "prompt": " "}, "give either a prompt"),
        ({"cron": "1h", "prompt": "", "text": "x", "script": "true"}, "a text wakes nobody"),
        ({"cron": "1h", "prompt": "x" * 100_001}, "the most is 100000"),
    ],
)
async def test_what_would_never_run_or_cannot_is_refused(
    given: dict[str, Any], said: str, tmp_path: Path, store: SqliteStore
) -> None:
    agent = await make_agent(tmp_path, store)
    answer = await agent.call("schedule_task", **{"targetJid": ROOM, "prompt": "news?", **given})
    assert answer.failed and said in answer.text


async def test_a_room_of_another_world_is_out_of_reach(tmp_path: Path, store: SqliteStore) -> None:
    agent = await make_agent(tmp_path, store)
    await add_room(store, "other", "fake:room/9")
    answer = await agent.call("schedule_task", targetJid="fake:room/9", prompt="x", cron="1h")
    assert answer.failed and "fake:room/9" in answer.text


async def test_arizuko_17_a_world_schedules_for_groups_within_it(tmp_path: Path, store: SqliteStore) -> None:
    world = await make_agent(tmp_path, store, "w")
    await add_room(store, "w/a", "fake:room/2")
    below = told(await world.call("schedule_task", targetJid="fake:room/2", prompt="x", cron="1h"))
    assert (await get(store, below["taskId"])).folder == "w/a"


async def test_arizuko_17_an_agent_schedules_for_itself_alone(tmp_path: Path, store: SqliteStore) -> None:
    agent = await make_agent(tmp_path, store, "w/a")
    await add_room(store, "w/a/b", "fake:room/2")
    own = told(await agent.call("schedule_task", targetJid=ROOM, prompt="x", cron="1h"))
    assert (await get(store, own["taskId"])).folder == "w/a"
    below = await agent.call("schedule_task", targetJid="fake:room/2", prompt="x", cron="1h")
    assert below.failed and "a task there would be w/a/b's" in below.text


async def test_arizuko_17_a_worker_schedules_in_its_own_rooms_alone(tmp_path: Path, store: SqliteStore) -> None:
    worker = await make_agent(tmp_path, store, "w/a/b")
    await add_room(store, "w/a", "fake:room/2")
    own = told(await worker.call("schedule_task", prompt="x", cron="1h"))["taskId"]
    assert ((await get(store, own)).folder, (await get(store, own)).address) == ("w/a/b", ROOM)
    assert (await worker.call("schedule_task", targetJid="fake:room/2", prompt="x", cron="1h")).failed
    assert [each["taskId"] for each in told(await worker.call("list_tasks"))["tasks"]] == [own]


async def test_a_task_without_a_room_is_in_the_room_of_the_turn(tmp_path: Path, store: SqliteStore) -> None:
    agent = await make_agent(tmp_path, store)
    made = told(await agent.call("schedule_task", prompt="news?", cron="1h"))
    assert (await get(store, made["taskId"])).address == ROOM


async def test_a_task_of_others_is_as_unknown_as_one_that_is_not_there(tmp_path: Path, store: SqliteStore) -> None:
    theirs = await make_agent(tmp_path / "1", store, "other")
    hidden = told(await theirs.call("schedule_task", targetJid=ROOM, prompt="x", cron="1h"))["taskId"]
    agent = await make_agent(tmp_path / "2", store, "acme")
    for tool in ("pause_task", "resume_task", "cancel_task", "update_task"):
        unknown, foreign = [await agent.call(tool, taskId=each) for each in ("task-none", hidden)]
        assert unknown.failed and foreign.failed
        assert foreign.text == unknown.text.replace("task-none", hidden)
    foreign = await agent.call("inspect_tasks", task_id=hidden)
    assert foreign.failed and "no task named" in foreign.text
    assert told(await agent.call("list_tasks"))["tasks"] == []
    root = await make_agent(tmp_path / "3", store, "root")
    assert [each["taskId"] for each in told(await root.call("list_tasks"))["tasks"]] == [hidden]


async def test_what_people_asked_for_is_behind_the_task(tmp_path: Path, store: SqliteStore) -> None:
    agent = await make_agent(tmp_path, store)
    made = told(await agent.call("schedule_task", targetJid=ROOM, prompt="x", cron="1h"))
    behind = await store.read(tasks.list_origins, made["taskId"])
    assert [each.person for each in behind] == ["fake:user/1"]
    assert (await get(store, made["taskId"])).depth == 1


async def test_a_group_has_so_many_tasks_at_most(tmp_path: Path, store: SqliteStore) -> None:
    agent = await make_agent(tmp_path, store)
    agent.deps = agent.dispatch._deps = _with(agent, {MOST_TASKS.name: 2})
    for number in range(2):
        told(await agent.call("schedule_task", targetJid=ROOM, prompt=f"{number}", cron="1h"))
    answer = await agent.call("schedule_task", targetJid=ROOM, prompt="3", cron="1h")
    assert (
        answer.failed and "acme has 2 tasks, which is the most (schedule.most_tasks); cancel some first" in answer.text
    )


def _with(agent: GateAgent, given: dict[str, Any]) -> Any:
    from msgspec.structs import replace

    return replace(agent.deps, config=Config(given))


async def test_a_task_that_was_paused_beyond_its_time_waits_for_the_next(tmp_path: Path, store: SqliteStore) -> None:
    """Of old it fired at once."""
    agent = await make_agent(tmp_path, store)
    clock = agent.deps.clock
    assert isinstance(clock, FixedClock)
    hourly = told(await agent.call("schedule_task", targetJid=ROOM, prompt="x", cron="1h"))["taskId"]
    once = told(await agent.call("schedule_task", targetJid=ROOM, prompt="x", cron="in 5 minutes"))["taskId"]
    for each in (hourly, once):
        assert told(await agent.call("pause_task", taskId=each))["status"] == "paused"
    first = (await get(store, hourly)).next_at
    assert first is not None
    clock.advance(3 * 3600 + 60)
    resumed = told(await agent.call("resume_task", taskId=hourly))
    assert (resumed["status"], (await get(store, hourly)).next_at) == ("active", first + 3 * 3_600_000_000)
    over = await agent.call("resume_task", taskId=once)
    assert over.failed and "is over; update it with a new one, then resume it" in over.text
    told(await agent.call("update_task", taskId=once, cron="in 5 minutes"))
    assert told(await agent.call("resume_task", taskId=once))["status"] == "active"


async def test_a_task_that_is_over_cannot_be_resumed_and_a_cancelled_one_is_gone(
    tmp_path: Path, store: SqliteStore
) -> None:
    agent = await make_agent(tmp_path, store)
    done = told(await agent.call("schedule_task", targetJid=ROOM, prompt="x", cron="in 5 minutes"))["taskId"]
    await store.write(tasks.set_state, done, TaskState.COMPLETED, "it ran at its time", None, 1)
    answer = await agent.call("resume_task", taskId=done)
    assert answer.failed and "is over: it ran at its time" in answer.text

    gone = told(await agent.call("schedule_task", targetJid=ROOM, prompt="x", cron="1h"))["taskId"]
    assert told(await agent.call("cancel_task", taskId=gone))["ok"]
    answer = await agent.call("cancel_task", taskId=gone)
    assert answer.failed and "no task named" in answer.text
    assert told(await agent.call("list_tasks"))["tasks"] == []


async def test_an_update_changes_what_it_names_and_nothing_else(tmp_path: Path, store: SqliteStore) -> None:
    agent = await make_agent(tmp_path, store)
    made = told(
        await agent.call("schedule_task", targetJid=ROOM, prompt="x", cron="0 9 * * *", maxRuns=3, script="true")
    )["taskId"]
    before = await get(store, made)
    told(await agent.call("update_task", taskId=made, prompt="y", missed="all"))
    changed = await get(store, made)
    assert (changed.prompt, changed.missed, changed.script) == ("y", "all", "true")
    assert (changed.next_at, changed.max_runs, changed.schedule) == (before.next_at, 3, "0 9 * * *")

    told(await agent.call("update_task", taskId=made, timezone="America/New_York"))
    assert (await get(store, made)).next_at == (before.next_at or 0) + 5 * 3_600_000_000
    told(await agent.call("update_task", taskId=made, script="", maxRuns=0))
    assert ((await get(store, made)).script, (await get(store, made)).max_runs) == ("", None)
    bad = await agent.call("update_task", taskId=made, cron="61 * * * *")
    assert bad.failed and "bad minute" in bad.text
    assert (await get(store, made)).schedule == "0 9 * * *"


async def test_runs_are_shown_newest_first_and_get_task_is_an_older_name(tmp_path: Path, store: SqliteStore) -> None:
    agent = await make_agent(tmp_path, store)
    made = told(await agent.call("schedule_task", targetJid=ROOM, prompt="x", cron="1h"))["taskId"]
    for due, state in ((1_000_000, FiringState.SKIPPED), (2_000_000, FiringState.FAILED)):
        await store.write(firings.add, made, due, due, state, f"because {state}")
    listed = told(await agent.call("inspect_tasks"))
    assert ([each["taskId"] for each in listed["tasks"]], listed["runs"]) == ([made], None)
    found = told(await agent.call("get_task", taskId=made, limit=500))
    assert [(each["status"], each["reason"]) for each in found["runs"]] == [
        ("failed", "because failed"),
        ("skipped", "because skipped"),
    ]
    assert (found["tasks"][0]["prompt"], found["runs"][0]["durationMs"], found["runs"][0]["cost"]) == ("x", None, 0)
    newest = told(await agent.call("inspect_tasks", task_id=made, limit=0))
    assert (len(newest["runs"]), newest["more"]) == (1, True)


async def test_the_same_reminder_a_minute_later_is_another(tmp_path: Path, store: SqliteStore) -> None:
    agent = await make_agent(tmp_path, store)
    clock, made = agent.deps.clock, []
    assert isinstance(clock, FixedClock)
    for _ in range(2):
        made.append(told(await agent.call("schedule_task", targetJid=ROOM, text="tea", cron="in 2 minutes"))["taskId"])
        clock.advance(60)
    assert made[0] != made[1]


async def test_a_long_list_comes_in_pages(tmp_path: Path, store: SqliteStore) -> None:
    agent = await make_agent(tmp_path, store)
    made = [
        told(await agent.call("schedule_task", targetJid=ROOM, prompt=f"{number}", cron="1h"))["taskId"]
        for number in range(3)
    ]
    first = told(await agent.call("list_tasks", limit=2))
    rest = told(await agent.call("list_tasks", limit=2, after=first["tasks"][-1]["taskId"]))
    assert (first["more"], rest["more"]) == (True, False)
    assert sorted(each["taskId"] for each in first["tasks"] + rest["tasks"]) == sorted(made)


async def test_a_destination_is_named_as_target(tmp_path: Path, store: SqliteStore) -> None:
    agent = await make_agent(tmp_path, store)
    await store.write(destinations.add_room, "acme", "alerts", "fake", "fake:room/7", "", 1)
    made = told(await agent.call("schedule_task", targetJid="alerts", text="fire drill", cron="@weekly"))
    assert (await get(store, made["taskId"])).address == "fake:room/7"


async def test_who_may_not_send_to_a_room_schedules_no_text_there(tmp_path: Path, store: SqliteStore) -> None:
    agent = await make_agent(tmp_path, store, rules=(parse(f"!send(chatJid={ROOM})"),))
    said = {"targetJid": ROOM, "cron": "in 1 second"}
    refused = await agent.call("schedule_task", **said, text="evil")
    assert refused.failed and "a rule of this gateway forbids send" in refused.text
    assert told(await agent.call("schedule_task", **said, prompt="good"))["created"]


async def test_a_text_where_sending_waits_for_a_person_waits_for_one_too(tmp_path: Path, store: SqliteStore) -> None:
    agent = await make_agent(tmp_path, store, rules=(parse("hold send"),))
    held = await agent.call("schedule_task", targetJid=ROOM, cron="in 1 second", text="evil")
    assert held.failed and "needs a person's approval" in held.text  # nobody can be asked in this test
    assert told(await agent.call("schedule_task", targetJid=ROOM, cron="1h", prompt="good"))["created"]


async def test_who_has_a_task_changed_stands_behind_it_and_pays(tmp_path: Path, store: SqliteStore) -> None:
    agent = await make_agent(tmp_path, store)
    made = told(await agent.call("schedule_task", targetJid=ROOM, prompt="x", cron="1h"))["taskId"]
    [mallory] = await store.read(tasks.list_origins, made)
    assert mallory.person and (await get(store, made)).depth == 1
    alice = Origin("fake:user/alice", "fake", ROOM)
    await store.write(tasks.set_origins, made, [alice], 0)

    told(await agent.call("update_task", taskId=made, prompt="do what mallory may not"))
    assert await store.read(tasks.list_origins, made) == [mallory, alice]
    assert (await get(store, made)).depth == 1


async def test_a_text_that_was_agreed_to_once_is_not_said_at_other_times(tmp_path: Path, store: SqliteStore) -> None:
    agent = await make_agent(tmp_path, store)
    made = told(await agent.call("schedule_task", targetJid=ROOM, text="hi", cron="in 5 minutes"))["taskId"]
    for change in ({"cron": "60000"}, {"timezone": "Asia/Tokyo"}, {"missed": "all"}, {"prompt": ""}):
        answer = await agent.call("update_task", taskId=made, **change)
        assert answer.failed and "cancel it and schedule another" in answer.text
    told(await agent.call("update_task", taskId=made, prompt="say hi", cron="1h"))
    assert ((await get(store, made)).text, (await get(store, made)).prompt) == ("", "say hi")


async def test_what_an_operator_paused_no_agent_resumes(tmp_path: Path, store: SqliteStore) -> None:
    agent = await make_agent(tmp_path, store)
    made = told(await agent.call("schedule_task", targetJid=ROOM, prompt="x", cron="1h"))["taskId"]
    await store.write(pause_task, made, "operator", 1)
    answer = await agent.call("resume_task", taskId=made)
    assert answer.failed and "paused by operator, who alone can resume it" in answer.text
    await agent.call("pause_task", taskId=made)  # does not make it its own
    assert (await agent.call("resume_task", taskId=made)).failed
    assert (await get(store, made)).state == "paused"
