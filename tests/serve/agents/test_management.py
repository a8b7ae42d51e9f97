"""The management server, over every transport: the checks 16 to 27 of the acceptance list, on a whole gateway whose
agents do as they are told. What a tool answers is the same in memory, over HTTP in both eras, and through the bridge;
its text says what its structure says."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from gatepost.store.rooms import origins
from gatepost.store.sessions import agents, due_sessions, forks, sessions, turns
from gatepost_testing.clients.management_client import TRANSPORTS, ManagementClient
from gatepost_testing.gateway import wait_until_settled
from gatepost_testing.waiting import PATIENCE_S

Opening = Callable[..., AbstractAsyncContextManager[ManagementClient]]

ELEVEN = {
    "create_agent",
    "wait_for_agent",
    "send_agent_prompt",
    "get_agent_status",
    "list_agents",
    "cancel_agent",
    "kill_agent",
    "get_agent_activity",
    "set_agent_mode",
    "list_pending_permissions",
    "respond_to_permission",
}
SCRIPT = {
    "turns": [
        {
            "when": "ask first",
            "do": [{"ask": {"permission": "Bash", "input": {"command": "ls"}}}, {"say": "I did it."}],
        },
        {"when": "be deaf", "do": [{"hang": True}]},
        {"when": "hold on", "do": [{"wait": 600}, {"say": "at last"}]},
        {"when": "only once", "once": True, "do": [{"say": "first"}]},
        {"when": "(.*)", "do": [{"say": "done: {1}"}]},
    ]
}
EARLY = ("memory", "http")
ELSEWHERE = [pytest.param(each, marks=pytest.mark.slow if each not in EARLY else ()) for each in TRANSPORTS]
costly = pytest.mark.parametrize("transport", ELSEWHERE)  # on the others in make test-all


@pytest.fixture
async def desk(opening: Opening, tmp_path: Path) -> AsyncIterator[ManagementClient]:
    async with opening(tmp_path / "h", script=SCRIPT) as made:
        yield made


async def activity(desk: ManagementClient, agent: str) -> list[str]:
    """Return what an agent did and said, line by line."""
    told = (await desk("get_agent_activity", agentId=agent))["content"]
    return [line for line in str(told).splitlines()[1:] if line]


async def ended(desk: ManagementClient, agent: str) -> dict[str, Any]:
    """The end, however often one has to wait for it."""
    while (found := await desk("wait_for_agent", agentId=agent))["waitedOut"]:
        pass
    return found


async def at_work(desk: ManagementClient, agent: str) -> None:
    """Until its turn has begun: what is cancelled or interrupted is more than a row in a queue."""
    async with asyncio.timeout(PATIENCE_S):
        while True:
            turn = await desk.gateway.store.read(turns.find_open, agent)
            if turn is not None and turn.begun_at is not None:
                return
            await asyncio.sleep(0.02)


async def test_the_tools_are_the_same_on_every_transport(desk: ManagementClient) -> None:
    listed = {tool["name"]: tool for tool in await desk.tools()}
    assert set(listed) >= ELEVEN
    assert all(tool["description"] and tool["inputSchema"]["type"] == "object" for tool in listed.values())


@pytest.mark.slow
@costly
async def test_paseo_13_a_prompt_of_a_megabyte_is_accepted(desk: ManagementClient) -> None:
    made = await desk("create_agent")
    sent = await desk("send_agent_prompt", agentId=made["agentId"], prompt="ü" * 500_000, background=True)
    assert sent["success"] is True
    found = await desk("wait_for_agent", agentId=made["agentId"])
    assert (found["status"], found["lastMessage"][:8]) == ("idle", "done: üü")


@pytest.mark.slow
async def test_paseo_16_an_agent_made_in_the_foreground_is_idle_with_its_answer(desk: ManagementClient) -> None:
    made = await desk("create_agent", initialPrompt="sweep the floor", title="Sweeper", labels={"room": "hall"})
    assert (made["status"], made["lastMessage"]) == ("idle", "done: sweep the floor")
    assert made["type"] == "scripted" and made["folder"] == "agents"
    shown = (await desk("get_agent_status", agentId=made["agentId"]))["snapshot"]
    assert (shown["title"], shown["labels"], shown["status"]) == ("Sweeper", {"room": "hall"}, "idle")
    assert (await wait_until_settled(desk.gateway)).unaccounted == 0


@pytest.mark.slow
async def test_paseo_17_in_the_background_it_is_told_to_run_at_once(desk: ManagementClient) -> None:
    made = await desk("create_agent", initialPrompt="sweep", background=True)
    assert made["status"] in ("initializing", "running") and made["lastMessage"] is None
    found = await desk("wait_for_agent", agentId=made["agentId"])
    assert (found["status"], found["lastMessage"]) == ("idle", "done: sweep")


@pytest.mark.slow
async def test_paseo_18_what_cannot_be_is_named_and_nothing_is_made(desk: ManagementClient) -> None:
    wrong: list[tuple[dict[str, Any], str]] = [
        ({"title": "x" * 61}, "1 to 60 characters"),
        ({"agentType": "nobody"}, "there is no provider 'nobody'"),
        ({"folder": "ghost"}, "no group named 'ghost'"),
        ({"initialMode": "sideways"}, "has no mode 'sideways'"),
        ({"parentAgentId": "s-nope"}, "no agent named 's-nope'"),
        ({"labels": {"": "x"}}, "each with a name"),
        ({"cwd": "/no/such/folder"}, "cwd"),
    ]
    for given, said in wrong:
        answer = await desk.ask("create_agent", initialPrompt="hi", **given)
        assert answer.failed and said in answer.text, answer.text
    assert (await desk("list_agents", includeArchived=True))["agents"] == []


@pytest.mark.slow
async def test_paseo_18_an_id_that_is_none_is_told_so(desk: ManagementClient) -> None:
    more: dict[str, dict[str, Any]] = {
        "send_agent_prompt": {"prompt": "hi"},
        "set_agent_mode": {"modeId": "default"},
        "respond_to_permission": {"requestId": "p-none", "response": {"behavior": "allow"}},
    }
    for name in sorted(ELEVEN - {"create_agent", "list_agents", "list_pending_permissions"}):
        for named in ("", "s-nobody", "../../etc/passwd", "s-%", "x" * 10_000):
            answer = await desk.ask(name, agentId=named, **more.get(name, {}))
            assert answer.failed and answer.code == 0 and len(answer.text) < 500
            assert "list_agents" in answer.text or "permit ls" in answer.text


@pytest.mark.slow
async def test_paseo_19_a_permission_waits_is_listed_and_answered_once(desk: ManagementClient) -> None:
    made = await desk("create_agent", initialPrompt="ask first", background=True)
    found = await desk("wait_for_agent", agentId=made["agentId"])
    assert found["permission"]["name"] == "Bash" and found["permission"]["input"] == {"command": "ls"}
    (waiting,) = (await desk("list_pending_permissions"))["permissions"]
    assert waiting == {"agentId": made["agentId"], "status": "running", "request": found["permission"]}

    request = waiting["request"]["id"]
    answer = {"agentId": made["agentId"], "requestId": request, "response": {"behavior": "allow"}}
    await desk("respond_to_permission", **answer)
    found = await desk("wait_for_agent", agentId=made["agentId"])
    assert (found["status"], found["lastMessage"]) == ("idle", "I did it.")
    twice = await desk.ask("respond_to_permission", **answer)
    assert twice.failed and "does not wait any more" in twice.text
    assert (await desk("list_pending_permissions"))["permissions"] == []


@pytest.mark.slow
async def test_paseo_19_a_denial_that_interrupts_ends_the_turn(desk: ManagementClient) -> None:
    made = await desk("create_agent", initialPrompt="ask first")
    response = {"behavior": "deny", "message": "no", "interrupt": True}
    request = made["permission"]["id"]
    await desk("respond_to_permission", agentId=made["agentId"], requestId=request, response=response)
    found = await desk("wait_for_agent", agentId=made["agentId"])
    assert found["status"] == "idle" and found["lastMessage"] is None
    assert "I did it." not in await activity(desk, made["agentId"])


@pytest.mark.slow
@costly
async def test_paseo_20_waiting_ends_before_the_limit_and_the_agent_runs_on(opening: Opening, tmp_path: Path) -> None:
    async with opening(tmp_path / "h", agents__wait_s=0.2) as desk:
        made = await desk("create_agent", initialPrompt="hold the fort", agentType="patient")
        assert made["status"] in ("running", "initializing") and "still running" in made["lastMessage"]
        again = await desk("wait_for_agent", agentId=made["agentId"])
        assert again["waitedOut"] is True and "hold the fort" in again["lastMessage"]
        assert (await desk("get_agent_status", agentId=made["agentId"]))["status"] in ("running", "initializing")
        desk.release_agents()
        found = await ended(desk, made["agentId"])
        assert (found["status"], found["lastMessage"]) == ("idle", "done: hold the fort")


@pytest.mark.slow
@costly
async def test_paseo_21_two_sessions_that_wait_return_when_a_third_cancels(desk: ManagementClient) -> None:
    lead = await desk("create_agent", initialPrompt="lead", agentType="patient")
    child = {"parentAgentId": lead["agentId"], "notifyOnFinish": True, "title": "Child"}
    made = await desk("create_agent", initialPrompt="hold on", background=True, **child)
    async with AsyncExitStack() as stack:
        others = [await stack.enter_async_context(desk.another()) for _ in range(2)]
        await at_work(desk, made["agentId"])
        waits = [asyncio.create_task(other("wait_for_agent", agentId=made["agentId"])) for other in others]
        await asyncio.sleep(0)
        assert (await desk("cancel_agent", agentId=made["agentId"]))["success"] is True
        found = await asyncio.gather(*waits)
    assert [each["status"] for each in found] == ["idle", "idle"]
    assert (await desk("cancel_agent", agentId=made["agentId"]))["success"] is False
    await wait_until_settled(desk.gateway)
    assert "heard of Child: idle" not in await activity(desk, lead["agentId"])  # it did not finish


@pytest.mark.slow
@costly
async def test_paseo_22_prompts_are_queued_and_answered_each_in_a_turn_of_its_own(desk: ManagementClient) -> None:
    made = await desk("create_agent", initialPrompt="first", background=True)
    for text in ("second", "third"):
        await desk("send_agent_prompt", agentId=made["agentId"], prompt=text, background=True)
    found = await desk("wait_for_agent", agentId=made["agentId"])

    assert (found["status"], found["lastMessage"]) == ("idle", "done: third")
    said = [line for line in await activity(desk, made["agentId"]) if line.startswith("done")]
    assert said == ["done: first", "done: second", "done: third"]


@pytest.mark.slow
async def test_paseo_22_an_interrupt_takes_the_place_of_what_ran_and_nobody_sees_it_idle(
    desk: ManagementClient,
) -> None:
    made = await desk("create_agent", initialPrompt="hold on", background=True)
    async with desk.another() as other:
        await at_work(desk, made["agentId"])
        waiting = asyncio.create_task(other("wait_for_agent", agentId=made["agentId"]))
        await asyncio.sleep(0)
        found = await desk("send_agent_prompt", agentId=made["agentId"], prompt="instead", policy="interrupt")
        assert (found["status"], found["lastMessage"]) == ("idle", "done: instead")
        assert (await waiting)["lastMessage"] == "done: instead"
    assert "at last" not in await activity(desk, made["agentId"])


@pytest.mark.slow
@costly
async def test_paseo_23_an_agent_that_ignores_interrupts_is_cancelled_and_takes_a_new_prompt(
    desk: ManagementClient,
) -> None:
    made = await desk("create_agent", initialPrompt="be deaf", background=True)
    await at_work(desk, made["agentId"])
    assert (await desk("cancel_agent", agentId=made["agentId"]))["success"] is True
    found = await desk("send_agent_prompt", agentId=made["agentId"], prompt="sweep")
    assert (found["status"], found["lastMessage"]) == ("idle", "done: sweep")


@pytest.mark.slow
async def test_a_fork_of_an_agent_knows_what_it_knows_and_leaves_it_alone(desk: ManagementClient) -> None:
    """What its script does once, it does not do again in the same conversation."""
    made = await desk("create_agent", initialPrompt="only once", title="First")
    forked = await desk("fork_agent", agentId="First", title="Second")
    found = await desk("send_agent_prompt", agentId="Second", prompt="only once")
    other = await desk("create_agent", initialPrompt="only once")
    lineage = await desk.gateway.store.read(forks.get, forked["snapshot"]["agentId"])

    assert lineage is not None and (lineage.parent_id, lineage.how) == (made["agentId"], "copied")
    assert (made["lastMessage"], found["lastMessage"], other["lastMessage"]) == ("first", "done: only once", "first")
    assert await activity(desk, made["agentId"]) == ["[User] only once", "first"]


@pytest.mark.slow
async def test_paseo_24_a_killed_agent_is_closed_and_takes_no_prompt(desk: ManagementClient) -> None:
    made = await desk("create_agent", initialPrompt="sweep")
    for _ in range(2):
        assert (await desk("kill_agent", agentId=made["agentId"]))["success"] is True
    assert (await desk("get_agent_status", agentId=made["agentId"]))["status"] == "closed"
    for policy in ("queue", "steer", "interrupt"):
        answer = await desk.ask("send_agent_prompt", agentId=made["agentId"], prompt="more", policy=policy)
        assert answer.failed and "ended for good" in answer.text
    assert (await activity(desk, made["agentId"])) == ["[User] sweep", "done: sweep"]


@pytest.mark.slow
@costly
async def test_paseo_25_after_a_restart_everything_is_as_it_was_and_the_conversation_goes_on(
    opening: Opening, tmp_path: Path
) -> None:
    async def seen(desk: ManagementClient) -> list[Any]:
        """All that a client sees of the agents, and the conversation that the provider goes on with."""
        listed = (await desk("list_agents"))["agents"]
        told = [await desk("get_agent_activity", agentId=each["agentId"]) for each in listed]
        return [listed, told, await desk.gateway.store.read(sessions.get_conversation, made["agentId"], "scripted")]

    given = {"anthropic__base_url": "http://127.0.0.1:9"}  # where no key is needed
    async with opening(tmp_path / "h", script=SCRIPT, **given) as desk:
        made = await desk("create_agent", initialPrompt="sweep", title="Sweeper", labels={"a": "b"})
        await desk("create_agent", agentType="claude", initialMode="plan", title="Planner", model="claude-sonnet-4-5")
        await wait_until_settled(desk.gateway)
        before = await seen(desk)
        assert {each["currentModeId"] for each in before[0]} == {"default", "plan"} and before[2]
    async with opening(tmp_path / "h", script=SCRIPT) as desk:
        assert await seen(desk) == before
        found = await desk("send_agent_prompt", agentId="Sweeper", prompt="mop")
        assert (found["status"], found["lastMessage"]) == ("idle", "done: mop")
        assert (await seen(desk))[2] == before[2]


@pytest.mark.slow
@costly
async def test_paseo_27_a_busy_parent_hears_once_of_its_childs_end_and_is_not_interrupted(
    desk: ManagementClient,
) -> None:
    lead = await desk("create_agent", initialPrompt="hold the fort", title="Lead", agentType="patient", background=True)
    await at_work(desk, lead["agentId"])
    child = {"parentAgentId": "Lead", "notifyOnFinish": True, "title": "Child"}
    assert (await desk("create_agent", initialPrompt="sweep", **child))["status"] == "idle"
    assert (await desk("get_agent_status", agentId="Lead"))["status"] == "running"

    desk.release_agents()
    await wait_until_settled(desk.gateway)
    news = "[Agent] Child has finished: done: sweep"
    told = ["[User] hold the fort", news, "done: hold the fort", "heard of Child: idle"]
    assert await activity(desk, lead["agentId"]) == told
    *_, last = await desk.gateway.store.read(turns.list_for_session, lead["agentId"], 2**62, 10)
    assert (await desk.gateway.store.read(origins.get_for_turn, last.id)).depth == 2  # to the child, and back
    await desk("send_agent_prompt", agentId="Child", prompt="again")
    await wait_until_settled(desk.gateway)
    assert (await activity(desk, lead["agentId"])).count("heard of Child: idle") == 1


@pytest.mark.slow
@costly
async def test_paseo_27_the_news_of_an_end_survives_a_restart_in_between(opening: Opening, tmp_path: Path) -> None:
    async with opening(tmp_path / "h", script=SCRIPT) as desk:
        lead = await desk(
            "create_agent", initialPrompt="hold the fort", title="Lead", agentType="patient", background=True
        )
        await at_work(desk, lead["agentId"])
        await desk("create_agent", initialPrompt="sweep", parentAgentId="Lead", notifyOnFinish=True, title="Child")
        assert await desk.gateway.store.read(agents.count_waiting, lead["agentId"]) >= 1
    async with opening(tmp_path / "h", script=SCRIPT) as desk:
        desk.release_agents()
        await wait_until_settled(desk.gateway)
        said = await activity(desk, lead["agentId"])
        assert said.count("heard of Child: idle") == 1 and said.count("done: hold the fort") == 1
        assert await desk.gateway.store.read(due_sessions.list_waiting_sessions) == []
