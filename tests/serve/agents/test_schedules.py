"""Schedules through the management server: an agent is woken at its time, and what it did is in its log."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from gatepost.store.port import Db, inline_read
from gatepost.store.rooms import rooms
from gatepost.store.schedule import firings
from gatepost_testing.clients.management_client import ManagementClient, open_management_gateway
from gatepost_testing.gateway import wait_until_settled
from gatepost_testing.waiting import until

SCRIPT = {"turns": [{"when": "(.*)", "do": [{"say": "done: {1}"}]}]}


@pytest.fixture
async def desk(tmp_path: Path) -> AsyncIterator[ManagementClient]:
    async with open_management_gateway(tmp_path / "h", script=SCRIPT, transport="memory") as made:
        yield made


@inline_read
def has_run(db: Db, task_id: str) -> bool:
    return any(each.firing.ended_at is not None for each in firings.list_for_task(db, task_id, 1))


async def find_refusal(desk: ManagementClient, **given: Any) -> str:
    answer = await desk.ask("create_schedule", prompt="look again", **given)
    assert answer.failed
    return answer.text


async def make_agent(desk: ManagementClient) -> str:
    return str((await desk("create_agent", initialPrompt="begin", title="Watcher"))["agentId"])


@pytest.mark.slow
async def test_a_schedule_wakes_its_agent_which_answers_as_to_a_prompt(desk: ManagementClient) -> None:
    agent = await make_agent(desk)
    made = (await desk("create_schedule", agentId="Watcher", prompt="look again", at="in 1 second"))["schedule"]
    assert (made["agentId"], made["status"]) == (agent, "active")

    await until(lambda: desk.gateway.store.read_now(has_run, made["id"]), "a run that has ended")  # type: ignore[attr-defined]
    await wait_until_settled(desk.gateway)
    found = await desk("inspect_schedule", id=made["id"])
    assert found["schedule"]["status"] == "completed"
    assert [run["status"] for run in found["runs"]] == ["answered"]
    activity = (await desk("get_agent_activity", agentId=agent))["content"]
    assert "look again" in activity and "done: look again" in activity


async def test_a_schedule_is_listed_paused_resumed_and_deleted(desk: ManagementClient) -> None:
    await make_agent(desk)
    made = await desk("create_schedule", agentId="Watcher", prompt="look again", every="2h", maxRuns=3)
    again = await desk("create_schedule", agentId="Watcher", prompt="look again", every="2h", maxRuns=3)
    assert (made["created"], again["created"]) == (True, False)
    one = made["schedule"]["id"]
    listed = await desk("list_schedules")
    assert ([each["id"] for each in listed["schedules"]], listed["more"]) == ([one], False)

    assert (await desk("pause_schedule", id=one))["status"] == "paused"
    resumed = await desk("resume_schedule", id=one)
    assert (resumed["status"], resumed["nextRunAt"]) == ("active", made["schedule"]["nextRunAt"])
    assert (await desk("delete_schedule", id=one))["status"] == "cancelled"
    assert (await desk("list_schedules"))["schedules"] == []
    ended = (await desk("list_schedules", includeEnded=True))["schedules"]
    assert [each["id"] for each in ended] == [one]


async def test_a_schedule_may_be_for_the_room_of_a_group(desk: ManagementClient) -> None:
    now = desk.gateway.clock.now()
    await desk.gateway.store.write(rooms.add, "fake", "fake:room/1", "", False, rooms.RoomPolicy.PUBLIC, now)
    made = await desk("create_schedule", folder="home", room="fake:room/1", prompt="sum up", cron="0 8 * * *")
    assert (made["schedule"]["agentId"], made["schedule"]["room"]) == (None, "fake:room/1")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"every": "2h"}, "either an agent, or a group's folder"),
        ({"every": "2h", "agentId": "Watcher", "folder": "home"}, "either an agent, or a group's folder"),
        ({"agentId": "Watcher"}, "exactly one of at, cron and every"),
        ({"agentId": "nobody", "every": "2h"}, "list_agents"),
        ({"agentId": "Watcher", "every": "1s"}, "schedule.least_interval_s"),
        ({"folder": "home", "every": "2h"}, "nobody has written to home yet"),
    ],
)
async def test_a_schedule_that_cannot_be_is_refused(desk: ManagementClient, given: dict[str, Any], told: str) -> None:
    await make_agent(desk)
    assert told in await find_refusal(desk, **given)


@pytest.mark.slow
async def test_an_agent_that_is_ended_takes_its_schedules_along_and_is_given_no_other(desk: ManagementClient) -> None:
    agent = await make_agent(desk)
    await desk("create_schedule", agentId=agent, prompt="look again", every="2h")
    await desk("kill_agent", agentId=agent)
    assert (await desk("list_schedules"))["schedules"] == []
    [ended] = (await desk("list_schedules", includeEnded=True))["schedules"]
    assert (ended["status"], ended["reason"]) == ("cancelled", "cancelled by operator")
    assert "was ended" in await find_refusal(desk, agentId=agent, every="2h")
