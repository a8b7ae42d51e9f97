"""Agents as a service, in memory: what is not among the checks that every transport passes."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from gatepost.store.money import costs, ledger
from gatepost.store.rights import audit
from gatepost.store.rooms import origins
from gatepost.store.sessions import groups, turns
from gatepost_testing.clients.management_client import ManagementClient, open_management_gateway
from gatepost_testing.gateway import wait_until_settled
from gatepost_testing.waiting import PATIENCE_S

SCRIPT = {
    "turns": [
        {"when": "say and fall over", "do": [{"say": "so far"}, {"error": {"message": "it broke", "kind": "fatal"}}]},
        {"when": "ask first", "do": [{"ask": {"permission": "Bash", "input": {"command": "ls"}}}, {"say": "did it"}]},
        {"when": "hang", "do": [{"hang": True}]},
        {"when": "fall over", "do": [{"error": {"message": "it broke", "kind": "fatal"}}]},
        {"when": "(.*)", "do": [{"say": "done: {1}"}]},
    ]
}


@pytest.fixture
async def desk(tmp_path: Path) -> AsyncIterator[ManagementClient]:
    async with open_management_gateway(tmp_path / "h", script=SCRIPT) as made:
        yield made


@pytest.mark.slow
async def test_an_archived_agent_leaves_the_list_and_a_prompt_brings_it_back(desk: ManagementClient) -> None:
    made = await desk("create_agent", initialPrompt="sweep")
    for _ in range(2):
        assert (await desk("archive_agent", agentId=made["agentId"]))["success"]
    assert (await desk("list_agents"))["agents"] == []
    assert len((await desk("list_agents", includeArchived=True))["agents"]) == 1
    await desk("send_agent_prompt", agentId=made["agentId"], prompt="again")
    assert len((await desk("list_agents"))["agents"]) == 1


@pytest.mark.slow
async def test_a_parent_hears_of_what_took_the_place_of_an_interrupted_turn_and_of_nothing_before(
    desk: ManagementClient,
) -> None:
    lead = await desk("create_agent", initialPrompt="lead", agentType="patient")
    child = {"parentAgentId": lead["agentId"], "notifyOnFinish": True, "title": "Child"}
    await desk("create_agent", initialPrompt="hold it", agentType="patient", background=True, **child)
    async with asyncio.timeout(PATIENCE_S):
        while not await desk.gateway.store.read(turns.list_open):  # noqa: ASYNC110  nothing rings for it
            await asyncio.sleep(0.01)
    ended = await desk("send_agent_prompt", agentId="Child", prompt="instead", policy="interrupt")
    assert ended["lastMessage"] == "done: instead"
    await wait_until_settled(desk.gateway)
    told = (await desk("get_agent_activity", agentId=lead["agentId"]))["content"]
    assert told.count("heard of Child") == told.count("heard of Child: idle") == 1
    assert told.count("[Agent] Child has finished: done: instead") == 1  # and why it was woken stands before
    assert told.index("[Agent] Child") < told.index("heard of Child")


@pytest.mark.slow
async def test_stranger_09_an_agent_that_another_one_makes_works_for_whom_that_one_works(
    desk: ManagementClient,
) -> None:
    store, lead = (
        desk.gateway.store,
        await desk("create_agent", initialPrompt="hold", agentType="patient", background=True),
    )
    async with asyncio.timeout(PATIENCE_S):
        while not await store.read(turns.list_open):  # noqa: ASYNC110  nothing rings for it
            await asyncio.sleep(0.01)
    child = await desk("create_agent", initialPrompt="sweep", parentAgentId=lead["agentId"])
    (own,) = await store.read(turns.list_for_session, lead["agentId"], 2**62, 10)
    (turn,) = await store.read(turns.list_for_session, child["agentId"], 2**62, 10)
    behind, chain = await store.read(origins.get_for_turn, own.id), await store.read(origins.get_for_turn, turn.id)

    assert chain.depth == behind.depth + 1 and set(behind.origins) <= set(chain.origins)
    assert await store.read(costs.find_payer, turn.id) == await store.read(costs.find_payer, own.id)
    desk.release_agents()


@pytest.mark.slow
async def test_an_agent_that_fails_says_why_and_takes_a_new_prompt(desk: ManagementClient) -> None:
    made = await desk("create_agent", initialPrompt="fall over")
    shown = (await desk("get_agent_status", agentId=made["agentId"]))["snapshot"]
    assert shown["status"] == "error" and "it broke" in shown["lastError"]
    assert "[Error]" in (await desk("get_agent_activity", agentId=made["agentId"]))["content"]
    assert (await desk("send_agent_prompt", agentId=made["agentId"], prompt="again"))["status"] == "idle"


@pytest.mark.slow
async def test_whoever_waits_is_told_why_it_failed_besides_what_it_said(desk: ManagementClient) -> None:
    made = await desk("create_agent", initialPrompt="say and fall over")
    sent = await desk("send_agent_prompt", agentId=made["agentId"], prompt="say and fall over")
    waited = await desk("wait_for_agent", agentId=made["agentId"])
    for told in (made, sent, waited):
        assert (told["status"], told["lastMessage"]) == ("error", "so far")
        assert "it broke" in told["lastError"]
    assert (await desk("send_agent_prompt", agentId=made["agentId"], prompt="again"))["lastError"] is None


@pytest.mark.slow
async def test_agents_are_listed_by_who_needs_somebody_and_who_works(desk: ManagementClient) -> None:
    for title, prompt in (("Asks", "ask first"), ("Busy", "hang"), ("Idle", "x"), ("Failed", "fall over")):
        await desk("create_agent", title=title, initialPrompt=prompt, background=title == "Busy")
    await desk("create_agent", title="Over")
    await desk("kill_agent", agentId="Over")
    await desk("create_agent", title="New")
    listed = [each["title"] for each in (await desk("list_agents"))["agents"]]
    assert listed == ["Asks", "Busy", "New", "Idle", "Failed", "Over"]


@pytest.mark.slow
async def test_a_title_that_means_two_agents_is_refused(desk: ManagementClient) -> None:
    for _ in range(2):
        await desk("create_agent", initialPrompt="x", title="Twin")
    answer = await desk.ask("get_agent_status", agentId="Twin")
    assert answer.failed and "means several agents" in answer.text


@pytest.mark.slow
async def test_what_is_done_is_audited_and_accounted_for(desk: ManagementClient) -> None:
    made = await desk("create_agent", initialPrompt="sweep")
    await desk("update_agent", agentId=made["agentId"], title="New")
    rows = await desk.gateway.store.read(audit.list_latest, 50)
    assert {"agent.create", "agent.update"} <= {row[3] for row in rows}
    assert await desk.gateway.store.read(groups.get, "agents") is not None
    assert (await desk.gateway.store.read(ledger.check, desk.gateway.clock.now())).unaccounted == 0


async def test_a_provider_may_be_called_provider(desk: ManagementClient) -> None:
    made = await desk("create_agent", initialPrompt="sweep", provider="patient", background=True)
    assert made["type"] == "patient"
    shown = next(tool for tool in await desk.tools() if tool["name"] == "create_agent")
    assert "provider" not in shown["inputSchema"]["properties"]
