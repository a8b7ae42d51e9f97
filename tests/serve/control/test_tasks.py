"""Operations on tasks: what is asked for is checked, written down once, and shown in the task's own time."""

from pathlib import Path
from typing import Any

import pytest

from gatepost.core.clock import HOUR, MINUTE
from gatepost.core.errors import GatepostError, Invalid, NotFound, Refused
from gatepost.core.event_bus import EventBus
from gatepost.core.home import Home
from gatepost.core.records import replace
from gatepost.core.settings import Config
from gatepost.flow.delivery.outgoing_messages import ChannelInstances
from gatepost.flow.groups import ensure_defaults
from gatepost.serve.control.contract import OPERATIONS, OperationDeps
from gatepost.store.engine.sqlite_store import SqliteStore
from gatepost.store.messages import inbox
from gatepost.store.money import costs
from gatepost.store.money.costs import NewCost
from gatepost.store.port import Db
from gatepost.store.rights import acl, audit
from gatepost.store.rights.acl import AclRow
from gatepost.store.rooms import rooms
from gatepost.store.schedule import firings, tasks
from gatepost.store.sessions import agents, groups, sessions
from gatepost.store.sessions.agents import NewAgent
from gatepost.store.sessions.sessions import SessionMode
from gatepost_testing.clock import FixedClock

NOW = 1_800_000_000_000_000  # 2027-01-15T08:00:00Z
ROOM = "telegram:group/1"


class TaskDesk:
    """An office with a group that has one room."""

    def __init__(self, operation_deps: OperationDeps, woken: list[str]) -> None:
        self.operation_deps, self.woken, self.store = operation_deps, woken, operation_deps.store

    @property
    def clock(self) -> FixedClock:
        assert isinstance(self.operation_deps.clock, FixedClock)
        return self.operation_deps.clock

    async def do(self, name: str, /, **args: Any) -> Any:
        return await OPERATIONS[name](self.operation_deps, args)


@pytest.fixture
async def desk(store: SqliteStore, tmp_path: Path) -> TaskDesk:
    home, clock, events = Home(tmp_path / "home"), FixedClock(NOW), EventBus()
    home.prepare()
    await ensure_defaults(store, home, clock)
    woken: list[str] = []
    events.on_tasks(lambda: woken.append("tasks"))
    events.on_session(woken.append)

    def settle(db: Db) -> None:
        groups.add(db, "acme", "Acme", "", NOW)
        rooms.add(db, "telegram", ROOM, "Team", False, rooms.RoomPolicy.PUBLIC, NOW)
        sessions.find_or_add(db, SessionMode.PER_THREAD, "acme", "telegram", ROOM, "", NOW)

    await store.write(settle)
    channels = ChannelInstances({}, {})
    return TaskDesk(
        OperationDeps(
            home=home, store=store, clock=clock, config=Config(), events=events, extra={"channel_instances": channels}
        ),
        woken,
    )


async def test_a_task_runs_in_the_only_room_of_its_group_and_the_loop_is_rung(desk: TaskDesk) -> None:
    made = await desk.do("task.add", folder="acme", text="Bread!", at="+20m", tz="Europe/Berlin")

    assert (made["instance"], made["address"], made["state"], made["created"]) == ("telegram", ROOM, "active", True)
    assert (made["next_at"], made["next_local"]) == ("2027-01-15T08:20:00.000Z", "2027-01-15T09:20:00.000+01:00")
    assert desk.woken == ["tasks"]
    [row] = await desk.store.read(audit.list_latest, 1)
    assert "task.add" in row and "Bread" not in str(row)


async def test_the_same_task_is_made_once(desk: TaskDesk) -> None:
    first = await desk.do("task.add", folder="acme", prompt="report", cron="0 9 * * *")
    second = await desk.do("task.add", folder="acme", prompt="report", cron="0 9 * * *")
    assert (second["id"], second["created"]) == (first["id"], False)


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"prompt": "x"}, "exactly one of when, at, cron and every"),
        ({"prompt": "x", "at": "+2m", "every": "2h"}, "exactly one of when, at, cron and every"),
        ({"at": "+2m"}, "either a prompt"),
        ({"prompt": "x", "text": "y", "at": "+2m"}, "either a prompt"),
        ({"prompt": "x", "at": "soon"}, "is no time; write it like"),
        ({"prompt": "x", "cron": "2h"}, r"has not five fields.*write it like '0 9 . . 1-5' or @daily; also @hourly"),
        ({"prompt": "x", "every": "0 9 * * *"}, "is no interval"),
        ({"prompt": "x", "every": "5s"}, "^every: .*schedule.least_interval_s"),
        ({"prompt": "x", "at": "+2m", "tz": "Mars/Base"}, "is no time zone"),
        ({"prompt": "x", "at": "+2m", "until": "+1m"}, "^until: .*before its first time"),
        ({"prompt": "x", "at": "+2m", "max_runs": -1}, "max_runs"),
        ({"text": "x", "at": "+2m", "script": "true"}, "a text wakes nobody"),
        ({"prompt": "x", "at": "+2m", "room": "nonsense"}, "room"),
        ({"prompt": "x", "at": "+2m", "room": "telegram:group/404"}, "nobody has written to acme there yet"),
        ({"prompt": "x", "at": "+2m", "room": "terminal:main"}, "nothing that is written there reaches acme"),
        ({"prompt": "x", "at": "+2m", "agent": "s-none"}, "gatepost agent ls"),
        ({"prompt": "x", "at": "+2m", "agent": "s", "room": ROOM}, "a room of its own"),
    ],
)
async def test_what_cannot_be_is_refused_with_the_reason_and_leaves_nothing(
    desk: TaskDesk, given: dict[str, Any], told: str
) -> None:
    with pytest.raises(GatepostError, match=told):
        await desk.do("task.add", folder="acme", **given)
    assert await desk.do("task.list") == [] and desk.woken == []


async def test_a_group_without_a_room_or_with_several_asks_which(desk: TaskDesk) -> None:
    with pytest.raises(
        Invalid, match=r"nobody has written to home yet.*--room ADDRESS; these lead to it: .*terminal:main"
    ):
        await desk.do("task.add", folder="home", text="hi", at="+2m")
    await desk.store.write(rooms.add, "telegram", "telegram:group/2", "", False, rooms.RoomPolicy.PUBLIC, NOW)
    await desk.store.write(sessions.find_or_add, "per-thread", "acme", "telegram", "telegram:group/2", "", NOW)
    with pytest.raises(Invalid, match=f"acme has 2 rooms.*{ROOM}, telegram:group/2"):
        await desk.do("task.add", folder="acme", text="hi", at="+2m")
    with pytest.raises(NotFound, match="gatepost group list"):
        await desk.do("task.add", folder="nobody", text="hi", at="+2m")


async def test_a_room_that_leads_to_the_group_needs_no_message_before(desk: TaskDesk) -> None:
    made = await desk.do("task.add", folder="home", text="hi", at="+2m", room="terminal:main")
    assert (made["instance"], made["address"]) == ("terminal", "terminal:main")
    [session] = await desk.store.read(sessions.list_open, "home")
    assert session.address == "terminal:main"


async def test_a_task_wakes_a_managed_agent_of_its_group_and_no_other(desk: TaskDesk) -> None:
    agent = await desk.store.write(agents.create, NewAgent(folder="acme", provider="scripted", title="Watcher"), NOW)
    made = await desk.do("task.add", folder="acme", prompt="look again", every="1h", agent="Watcher")
    assert (made["instance"], made["address"]) == ("agents", agents.address_of(agent.id))
    with pytest.raises(Invalid, match="it is no agent of home"):
        await desk.do("task.add", folder="home", prompt="look again", every="1h", agent=agent.id)

    await desk.do("task.run", id=made["id"])
    [waiting] = await desk.store.read(inbox.list_open, agent.id)
    assert waiting[0].session_id == agent.id and agent.id in desk.woken


async def test_next_shows_the_times_of_all_tasks_in_their_order_and_ends_with_them(desk: TaskDesk) -> None:
    often = await desk.do("task.add", folder="acme", prompt="often", every="1h", max_runs=3)
    daily = await desk.do(
        "task.add", folder="acme", prompt="daily", cron="30 10 * * *", tz="Europe/Berlin", until="+2d"
    )
    coming = await desk.do("task.next")
    assert [(each["due_at"][8:16], each["local"][11:16], each["what"]) for each in coming] == [
        ("15T09:00", "09:00", "often"),
        ("15T09:30", "10:30", "daily"),
        ("15T10:00", "10:00", "often"),
        ("15T11:00", "11:00", "often"),
        ("16T09:30", "10:30", "daily"),
    ]
    assert [each["id"] for each in await desk.do("task.next", id=daily["id"], limit=1)] == [daily["id"]]
    await desk.do("task.pause", id=often["id"])
    assert {each["id"] for each in await desk.do("task.next")} == {daily["id"]}


async def test_many_tasks_are_walked_no_further_than_they_are_shown(desk: TaskDesk) -> None:
    for number in range(60):
        await desk.do("task.add", folder="acme", prompt=f"p{number}", cron=f"{number} * * * *")
    coming = await desk.do("task.next")
    assert len(coming) == 50
    assert [each["due_at"] for each in coming] == sorted(each["due_at"] for each in coming)


async def test_a_task_is_paused_resumed_and_cancelled(desk: TaskDesk) -> None:
    made = await desk.do("task.add", folder="acme", prompt="p", every="1h")
    assert (await desk.do("task.pause", id=made["id"]))["reason"] == "paused by operator"
    assert (await desk.do("task.resume", id=made["id"]))["state"] == "active"
    assert (await desk.do("task.cancel", id=made["id"]))["state"] == "cancelled"
    assert await desk.do("task.list") == []
    assert [each["state"] for each in await desk.do("task.list", all=True)] == ["cancelled"]
    with pytest.raises(Invalid, match="is over: cancelled by operator"):
        await desk.do("task.resume", id=made["id"])
    with pytest.raises(NotFound, match="gatepost task list --all"):
        await desk.do("task.show", id="task-none")


async def test_the_log_tells_of_each_run(desk: TaskDesk) -> None:
    made = await desk.do("task.add", folder="acme", prompt="p", every="1h", tz="Asia/Tokyo")

    def run(db: Db) -> None:
        firings.add(db, made["id"], NOW - HOUR, NOW, firings.FiringState.FAILED, "the key is wrong")
        firings.add(db, made["id"], NOW, NOW + MINUTE, firings.FiringState.SKIPPED, "too late", 3)

    await desk.store.write(run)
    log = (await desk.do("task.show", id=made["id"]))["log"]
    assert [(each["state"], each["reason"], each["times"]) for each in log] == [
        ("skipped", "too late", 3),
        ("failed", "the key is wrong", 1),
    ]
    assert log[0]["due_local"] == "2027-01-15T17:00:00.000+09:00"
    assert len((await desk.do("task.show", id=made["id"], runs=1))["log"]) == 1


async def test_a_silent_run_with_a_script_is_not_called_the_choice_of_the_agent_alone(desk: TaskDesk) -> None:
    made = await desk.do("task.add", folder="acme", prompt="p", every="1h", script="true")
    await desk.store.write(firings.add, made["id"], NOW, NOW, firings.FiringState.SILENT, "the agent chose silence")
    (run,) = (await desk.do("task.show", id=made["id"]))["log"]
    assert run["reason"] == "the agent, or the script before it, chose silence"


async def test_a_person_makes_tasks_where_she_has_the_right_and_they_are_hers(desk: TaskDesk) -> None:
    hers = replace(desk.operation_deps, caller="telegram:user/9")
    with pytest.raises(Refused, match=r"op:tasks\.write"):
        await OPERATIONS["task.add"](hers, {"folder": "acme", "text": "hi", "at": "+2m"})
    await desk.do("acl.add", principal="telegram:user/9", action="op:tasks.write", scope="acme")
    made = await OPERATIONS["task.add"](hers, {"folder": "acme", "text": "hi", "at": "+2m"})
    assert made["created_by"] == "telegram:user/9"
    [origin] = await desk.store.read(tasks.list_origins, made["id"])
    assert origin.person == "telegram:user/9"
    with pytest.raises(Refused):
        await OPERATIONS["task.add"](hers, {"folder": "home", "text": "hi", "at": "+2m", "room": "terminal:main"})
    with pytest.raises(Refused):  # of all groups
        await OPERATIONS["task.cancel"](hers, {"id": made["id"]})
    assert len(await desk.store.read(acl.list_rows)) == 1


async def test_a_group_that_is_removed_takes_its_tasks_along(desk: TaskDesk) -> None:
    made = await desk.do("task.add", folder="acme", prompt="p", every="1h")
    await desk.do("task.run", id=made["id"])
    gone = await desk.do("group.rm", folder="acme")
    assert gone["removed"]["tasks"] == 1
    assert await desk.store.read(tasks.get, made["id"]) is None
    assert await desk.do("task.list", all=True) == []


async def test_a_task_is_changed_in_what_is_named_and_nothing_else(desk: TaskDesk) -> None:
    made = await desk.do("task.add", folder="acme", prompt="p", cron="@daily", title=" Morning \n brief ", max_runs=5)
    assert made["title"] == "Morning brief"
    desk.woken.clear()
    changed = await desk.do("task.set", id=made["id"], every="2h")
    assert (changed["schedule"], changed["prompt"], changed["title"], changed["max_runs"]) == (
        "2h",
        "p",
        "Morning brief",
        5,
    )
    assert changed["next_local"] == "2027-01-15T10:00:00.000Z" and desk.woken == ["tasks"]
    changed = await desk.do("task.set", id=made["id"], text="hi", tz="Europe/Berlin", max_runs=0, title="")
    assert (changed["prompt"], changed["text"], changed["zone"], changed["max_runs"]) == (
        "",
        "hi",
        "Europe/Berlin",
        None,
    )
    assert changed["title"] == "" and changed["schedule"] == "2h"
    [coming] = await desk.do("task.next", id=made["id"], limit=1)
    assert coming["what"] == "hi"


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({}, "task: say what to change"),
        ({"every": "1s"}, "every: '1s' runs every 1 s"),
        ({"cron": "often"}, "cron: invalid cron"),
        ({"at": "+1h", "cron": "@daily"}, "exactly one of when, at, cron and every"),
        ({"every": ""}, "exactly one of when, at, cron and every"),
        ({"tz": "Mars"}, "tz: 'Mars' is no time zone"),
        ({"prompt": ""}, "either a prompt"),
        ({"max_runs": -3}, "max_runs: -3"),
        ({"until": "+1m"}, "until: "),
        ({"title": "x" * 101}, "title: has 101 characters"),
        ({"room": "telegram:group/4"}, "no room named 'telegram:group/4'"),
    ],
)
async def test_a_change_that_cannot_be_is_refused_by_the_name_of_its_argument(
    desk: TaskDesk, given: dict[str, Any], said: str
) -> None:
    made = await desk.do("task.add", folder="acme", prompt="p", every="2h")
    with pytest.raises(GatepostError) as refused:
        await desk.do("task.set", id=made["id"], **given)
    assert said in str(refused.value)
    assert {**await desk.do("task.show", id=made["id"]), "log": None, "created": True} == {**made, "log": None}


async def test_a_task_moves_to_another_room_that_reaches_its_group(desk: TaskDesk) -> None:
    other = "telegram:group/2"

    def add(db: Db) -> None:
        rooms.add(db, "telegram", other, "Other", False, rooms.RoomPolicy.PUBLIC, NOW)
        sessions.find_or_add(db, SessionMode.PER_THREAD, "acme", "telegram", other, "", NOW)

    made = await desk.do("task.add", folder="acme", prompt="p", every="2h")
    await desk.store.write(add)
    changed = await desk.do("task.set", id=made["id"], room=other)
    assert (changed["instance"], changed["address"]) == ("telegram", other)

    agent = await desk.store.write(agents.create, NewAgent(folder="acme", provider="scripted", title="Report"), NOW)
    woken = await desk.do("task.add", folder="acme", prompt="p", every="2h", agent="Report", title="Look again")
    assert woken["title"] == "Look again" and woken["address"] == agent.address
    with pytest.raises(Invalid, match="has a room of its own"):
        await desk.do("task.set", id=woken["id"], room=other)


async def test_who_changes_a_task_by_a_command_stands_behind_it(desk: TaskDesk) -> None:
    made = await desk.do("task.add", folder="acme", prompt="p", every="2h")
    await desk.do("acl.add", principal="telegram:user/9", action="op:tasks.write", scope="**")
    hers = replace(desk.operation_deps, caller="telegram:user/9")
    await OPERATIONS["task.set"](hers, {"id": made["id"], "prompt": "q"})
    assert [each.person for each in await desk.store.read(tasks.list_origins, made["id"])] == ["telegram:user/9"]
    await desk.do("room.policy", address=ROOM, policy="strict")
    await desk.do("task.run", id=made["id"])  # by her right to tasks; she speaks nowhere
    await desk.do("acl.rm", id=1)
    with pytest.raises(Invalid, match=r"^task: .* did not run: somebody on whose behalf"):
        await desk.do("task.run", id=made["id"])


@pytest.mark.parametrize("name", ["task.run", "task.resume", "task.pause", "task.set"])
async def test_errors_name_the_argument_of_the_command(desk: TaskDesk, name: str) -> None:
    made = await desk.do("task.add", folder="acme", prompt="p", at="+2m")
    await desk.store.write(lambda db: db.run("UPDATE tasks SET state = 'completed', reason = 'it ran at its time'"))
    with pytest.raises(Invalid, match=r"^task: .* is over"):
        await desk.do(name, id=made["id"], **({"title": "x"} if name == "task.set" else {}))


async def test_the_text_that_an_operator_gives_an_agents_task_is_agreed_to(desk: TaskDesk) -> None:
    await desk.store.write(acl.add_rule, "acme", "hold send", "operator", NOW)
    made = await desk.do("task.add", folder="acme", text="buy!", every="2h")
    await desk.store.write(lambda db: db.run("UPDATE tasks SET created_by = 'agent:acme'"))
    await desk.do("task.run", id=made["id"])
    assert [each["state"] for each in (await desk.do("task.show", id=made["id"]))["log"]] == ["queued"]
    await desk.do("task.set", id=made["id"], text="sell!")
    desk.clock.advance(1)
    await desk.do("task.run", id=made["id"])
    assert [each["state"] for each in (await desk.do("task.show", id=made["id"]))["log"]] == ["sent", "cancelled"]


async def test_the_most_that_a_run_may_cost_is_set_and_taken_away(desk: TaskDesk) -> None:
    made = await desk.do("task.add", folder="acme", prompt="Look!", cron="0 9 * * *", max_cost="$0.50")
    assert made["max_cost"] == 500_000
    changed = await desk.do("task.set", id=made["id"], title="Look")
    assert changed["max_cost"] == 500_000
    assert (await desk.do("task.set", id=made["id"], max_cost="none"))["max_cost"] is None
    with pytest.raises(Invalid, match="max_cost: 'much' is not an amount"):
        await desk.do("task.set", id=made["id"], max_cost="much")


async def test_a_task_shows_what_its_last_runs_cost_also_when_it_is_changed(desk: TaskDesk) -> None:
    made = await desk.do("task.add", folder="acme", prompt="Look!", cron="0 9 * * *")
    assert made["last_runs"] == {"runs": 0, "micro": 0, "estimated": 0}

    def run(db: Db) -> None:
        (session,) = sessions.list_open(db, "acme")
        new = firings.make_firing(made["id"], NOW, NOW, firings.FiringState.ANSWERED, session_id=session.id)
        firings.add_all(db, [replace(new, turn_id="t-1", ended_at=NOW + 9)])
        for number, measured in enumerate((True, False)):
            cost = NewCost(
                key=f"k{number}", at=NOW + 1, folder="acme", model="m", micro=100_000, session_id=session.id,
                turn_id="t-1", measured=measured,
            )  # fmt: skip
            costs.add_external(db, cost, NOW)

    await desk.store.write(run)
    for found in (
        await desk.do("task.show", id=made["id"]),
        (await desk.do("task.list"))[0],
        await desk.do("task.set", id=made["id"], title="Look"),
    ):
        assert found["last_runs"] == {"runs": 1, "micro": 200_000, "estimated": 100_000}


async def test_a_preview_says_what_is_understood_and_makes_nothing(desk: TaskDesk) -> None:
    found = await desk.do("task.preview", when="every weekday at 9", tz="Europe/Berlin")
    assert (found["words"], found["exact"], found["zone"]) == ("every weekday at 9:00", "0 9 * * 1-5", "Europe/Berlin")
    assert [each[:16] for each in found["coming"]] == ["2027-01-18T09:00", "2027-01-19T09:00", "2027-01-20T09:00"]
    assert found["text"].startswith("Every weekday at 9:00 (Europe/Berlin): Monday 18 January 2027, 9:00; ")
    once = await desk.do("task.preview", when="tomorrow at 18:00")
    assert once["text"] == "Once (UTC): Saturday 16 January 2027, 18:00."
    assert await desk.do("task.list") == []


async def test_a_preview_of_a_change_is_in_the_zone_of_the_task(desk: TaskDesk) -> None:
    made = await desk.do("task.add", folder="acme", text="Bread!", when="every day at 9", tz="Asia/Tokyo")
    assert (await desk.do("task.preview", id=made["id"], when="every day at 8"))["zone"] == "Asia/Tokyo"
    with pytest.raises(NotFound):
        await desk.do("task.preview", id="task-none", when="every day at 8")


async def test_a_preview_refuses_what_could_not_be_saved(desk: TaskDesk) -> None:
    desk.operation_deps = replace(desk.operation_deps, config=Config({"schedule.least_interval_s": 3600}))
    with pytest.raises(Invalid, match=r"^when: .*the least is 3600 s"):
        await desk.do("task.preview", when="every 30 minutes")
    with pytest.raises(Invalid, match="exactly one of when, at, cron and every"):
        await desk.do("task.preview")


async def test_a_person_previews_where_they_may_read_tasks(desk: TaskDesk) -> None:
    await desk.do("acl.add", principal="telegram:user/9", action="op:tasks.read", scope="acme")
    desk.operation_deps = replace(desk.operation_deps, caller="telegram:user/9")
    assert (await desk.do("task.preview", folder="acme", every="1h"))["words"] == "every hour"
    with pytest.raises(Refused):
        await desk.do("task.preview", every="1h")


async def test_a_task_takes_its_time_in_words(desk: TaskDesk) -> None:
    made = await desk.do("task.add", folder="acme", text="Bread!", when="friday at 9", tz="Europe/Berlin")
    assert (made["kind"], made["next_local"]) == ("once", "2027-01-22T09:00:00.000+01:00")
    changed = await desk.do("task.set", id=made["id"], when="every 30 minutes")
    assert (changed["kind"], changed["schedule"]) == ("every", "30m")


async def test_a_preview_says_nothing_of_a_task_of_another_group(desk: TaskDesk) -> None:
    made = await desk.do("task.add", folder="acme", text="Bread!", at="+20m", tz="Asia/Tokyo")
    eve = "telegram:user/9"

    def settle(db: Db) -> None:
        groups.add(db, "eves", "Eve", "", 1)
        acl.put(db, AclRow(id=0, principal=eve, action="op:tasks.read", scope="eves/**"), 1)

    await desk.store.write(settle)
    asked = {"folder": "eves", "id": made["id"], "when": "tomorrow at 9:00"}
    with pytest.raises(NotFound):
        await OPERATIONS["task.preview"](replace(desk.operation_deps, caller=eve), asked)
