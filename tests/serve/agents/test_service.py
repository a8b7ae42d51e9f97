"""Agents as a service, on a whole gateway with the scripted provider: the checks of part D, in memory."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from gatepost.app import Gateway
from gatepost.serve.agents.servers import MANAGER
from gatepost.store import audit, groups, ledger
from gatepost.testing.gateway import running_gateway, settled

SCRIPT = {
    "turns": [
        {
            "when": "ask first",
            "do": [{"ask": {"permission": "Bash", "input": {"command": "ls"}}}, {"say": "I did it."}],
        },
        {"when": "hold on", "do": [{"wait": 600}, {"say": "at last"}]},
        {"when": "fall over", "do": [{"error": {"message": "it broke", "kind": "fatal"}}]},
        {"kind": "system", "do": [{"say": "done: heard of it"}]},
        {"when": "(.*)", "do": [{"say": "done: {1}"}]},
    ]
}


class Desk:
    """Somebody who manages agents through the server's tools, in memory."""

    def __init__(self, gateway: Gateway) -> None:
        self.gateway, self.service = gateway, gateway.agents
        self._calls = 0

    async def __call__(self, name: str, **arguments: Any) -> dict[str, Any]:
        answer = await self.ask(name, **arguments)
        assert not answer[1], answer[0]
        found: dict[str, Any] = json.loads(answer[0])
        return found

    async def ask(self, name: str, **arguments: Any) -> tuple[str, bool]:
        self._calls += 1
        raw = json.dumps(arguments).encode()
        answer = await self.gateway.management.call(MANAGER, name, raw, f"c{self._calls}")
        return answer.text, answer.failed or bool(answer.code)


@asynccontextmanager
async def a_desk(path: Path, **given: Any) -> AsyncIterator[Desk]:
    async with running_gateway(path, **given) as gateway:
        script = gateway.home.group("agents")
        script.mkdir(parents=True, exist_ok=True)
        (script / "script.json").write_text(json.dumps(SCRIPT))
        yield Desk(gateway)


@pytest.fixture
async def desk(tmp_path: Path) -> AsyncIterator[Desk]:
    async with a_desk(tmp_path / "h") as made:
        yield made


async def test_check_16_an_agent_made_in_the_foreground_is_idle_with_its_answer(desk: Desk) -> None:
    made = await desk("create_agent", initialPrompt="sweep the floor", title="Sweeper", labels={"room": "hall"})
    assert (made["status"], made["lastMessage"]) == ("idle", "done: sweep the floor")
    assert made["type"] == "scripted" and made["folder"] == "agents"
    shown = (await desk("get_agent_status", agentId=made["agentId"]))["snapshot"]
    assert (shown["title"], shown["labels"], shown["status"]) == ("Sweeper", {"room": "hall"}, "idle")
    assert (await settled(desk.gateway)).unaccounted == 0


async def test_check_17_in_the_background_it_is_told_to_run_at_once(desk: Desk) -> None:
    made = await desk("create_agent", initialPrompt="sweep", background=True)
    assert made["status"] in ("initializing", "running")
    ended = await desk("wait_for_agent", agentId=made["agentId"])
    assert (ended["status"], ended["lastMessage"]) == ("idle", "done: sweep")


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"title": "x" * 61}, "1 to 60 characters"),
        ({"agentType": "nobody"}, "there is no provider 'nobody'"),
        ({"folder": "ghost"}, "no group named 'ghost'"),
        ({"initialMode": "sideways"}, "has no mode 'sideways'"),
        ({"parentAgentId": "s-nope"}, "no agent named 's-nope'"),
        ({"labels": {"": "x"}}, "each with a name"),
    ],
)
async def test_check_18_what_cannot_be_is_named_and_nothing_is_made(
    desk: Desk, given: dict[str, Any], said: str
) -> None:
    text, failed = await desk.ask("create_agent", initialPrompt="hi", **given)
    assert failed and said in text
    assert (await desk("list_agents"))["agents"] == []


async def test_check_19_a_permission_waits_is_listed_and_answered_once(desk: Desk) -> None:
    made = await desk("create_agent", initialPrompt="ask first")
    assert made["permission"]["name"] == "Bash" and made["permission"]["input"] == {"command": "ls"}
    (waiting,) = (await desk("list_pending_permissions"))["permissions"]
    assert waiting["agentId"] == made["agentId"] and waiting["status"] == "running"

    request = waiting["request"]["id"]
    answer = {"agentId": made["agentId"], "requestId": request, "response": {"behavior": "allow"}}
    await desk("respond_to_permission", **answer)
    ended = await desk("wait_for_agent", agentId=made["agentId"])
    assert (ended["status"], ended["lastMessage"]) == ("idle", "I did it.")
    text, failed = await desk.ask("respond_to_permission", **answer)
    assert failed and "does not wait any more" in text
    assert (await desk("list_pending_permissions"))["permissions"] == []


async def test_check_19_a_denial_that_interrupts_ends_the_turn(desk: Desk) -> None:
    made = await desk("create_agent", initialPrompt="ask first")
    response = {"behavior": "deny", "message": "no", "interrupt": True}
    request = made["permission"]["id"]
    await desk("respond_to_permission", agentId=made["agentId"], requestId=request, response=response)
    ended = await desk("wait_for_agent", agentId=made["agentId"])
    assert ended["status"] == "idle" and ended["lastMessage"] is None


async def test_check_20_waiting_ends_before_the_limit_and_the_agent_runs_on(tmp_path: Path) -> None:
    async with a_desk(tmp_path / "h", agents__wait_s=0.3) as desk:
        made = await desk("create_agent", initialPrompt="hold on")
        assert made["status"] in ("running", "initializing") and "still running" in made["lastMessage"]
        assert await desk.service.cancel(made["agentId"], "test")


async def test_check_21_two_who_wait_return_when_a_third_cancels(desk: Desk) -> None:
    made = await desk("create_agent", initialPrompt="hold on", background=True)
    waits = [asyncio.create_task(desk("wait_for_agent", agentId=made["agentId"])) for _ in range(2)]
    await asyncio.sleep(0)
    assert (await desk("cancel_agent", agentId=made["agentId"]))["success"] is True
    async with asyncio.timeout(20):
        ended = await asyncio.gather(*waits)
    assert [each["status"] for each in ended] == ["idle", "idle"]
    assert (await desk("cancel_agent", agentId=made["agentId"]))["success"] is False


async def test_check_22_prompts_are_queued_and_answered_each_in_a_turn_of_its_own(desk: Desk) -> None:
    made = await desk("create_agent", initialPrompt="first", background=True)
    for text in ("second", "third"):
        await desk("send_agent_prompt", agentId=made["agentId"], prompt=text, background=True)
    ended = await desk("wait_for_agent", agentId=made["agentId"])
    activity = await desk("get_agent_activity", agentId=made["agentId"])

    assert (ended["status"], ended["lastMessage"]) == ("idle", "done: third")
    said = [line for line in activity["content"].splitlines() if line.startswith("done")]
    assert said == ["done: first", "done: second", "done: third"]


async def test_check_22_an_interrupt_takes_the_place_of_what_ran(desk: Desk) -> None:
    made = await desk("create_agent", initialPrompt="hold on", background=True)
    ended = await desk("send_agent_prompt", agentId=made["agentId"], prompt="instead", policy="interrupt")
    assert (ended["status"], ended["lastMessage"]) == ("idle", "done: instead")
    assert "at last" not in (await desk("get_agent_activity", agentId=made["agentId"]))["content"]


async def test_check_24_a_killed_agent_is_closed_and_takes_no_prompt(desk: Desk) -> None:
    made = await desk("create_agent", initialPrompt="sweep")
    await desk("kill_agent", agentId=made["agentId"])
    assert (await desk("get_agent_status", agentId=made["agentId"]))["status"] == "closed"
    text, failed = await desk.ask("send_agent_prompt", agentId=made["agentId"], prompt="more")
    assert failed and "ended for good" in text
    assert "done: sweep" in (await desk("get_agent_activity", agentId=made["agentId"]))["content"]


async def test_an_archived_agent_leaves_the_list_and_a_prompt_brings_it_back(desk: Desk) -> None:
    made = await desk("create_agent", initialPrompt="sweep")
    for _ in range(2):
        assert (await desk("archive_agent", agentId=made["agentId"]))["success"]
    assert (await desk("list_agents"))["agents"] == []
    assert len((await desk("list_agents", includeArchived=True))["agents"]) == 1
    await desk("send_agent_prompt", agentId=made["agentId"], prompt="again")
    assert len((await desk("list_agents"))["agents"]) == 1


async def test_check_25_after_a_restart_everything_is_as_it_was_and_the_conversation_goes_on(tmp_path: Path) -> None:
    async with a_desk(tmp_path / "h") as desk:
        made = await desk("create_agent", initialPrompt="sweep", title="Sweeper", labels={"a": "b"})
        before = (await desk("get_agent_status", agentId=made["agentId"]))["snapshot"]
        told = (await desk("get_agent_activity", agentId=made["agentId"]))["content"]
        await settled(desk.gateway)
    async with a_desk(tmp_path / "h") as desk:
        assert (await desk("get_agent_status", agentId=made["agentId"]))["snapshot"] == before
        assert (await desk("get_agent_activity", agentId=made["agentId"]))["content"] == told
        ended = await desk("send_agent_prompt", agentId="Sweeper", prompt="mop")
        assert ended["lastMessage"] == "done: mop"


async def test_check_27_a_parent_hears_once_of_its_childs_end_and_is_not_interrupted(desk: Desk) -> None:
    parent = await desk("create_agent", initialPrompt="lead", title="Lead")
    child = await desk("create_agent", initialPrompt="sweep", parentAgentId="Lead", notifyOnFinish=True, title="Child")
    assert child["status"] == "idle"
    await settled(desk.gateway)
    activity = (await desk("get_agent_activity", agentId=parent["agentId"]))["content"]
    assert activity.count("done:") == 2  # its own, and what it said to the news
    await desk("send_agent_prompt", agentId="Child", prompt="again")
    await settled(desk.gateway)
    assert (await desk("get_agent_activity", agentId=parent["agentId"]))["content"] == activity


async def test_an_agent_that_fails_says_why_and_takes_a_new_prompt(desk: Desk) -> None:
    made = await desk("create_agent", initialPrompt="fall over")
    shown = (await desk("get_agent_status", agentId=made["agentId"]))["snapshot"]
    assert shown["status"] == "error" and "it broke" in shown["lastError"]
    assert "[Error]" in (await desk("get_agent_activity", agentId=made["agentId"]))["content"]
    assert (await desk("send_agent_prompt", agentId=made["agentId"], prompt="again"))["status"] == "idle"


async def test_a_title_that_means_two_agents_is_refused(desk: Desk) -> None:
    for _ in range(2):
        await desk("create_agent", initialPrompt="x", title="Twin")
    text, failed = await desk.ask("get_agent_status", agentId="Twin")
    assert failed and "means several agents" in text


async def test_what_is_done_is_audited_and_accounted_for(desk: Desk) -> None:
    made = await desk("create_agent", initialPrompt="sweep")
    await desk("update_agent", agentId=made["agentId"], title="New")
    rows = await desk.gateway.store.read(audit.latest, 50)
    assert {"agent.create", "agent.update"} <= {row[3] for row in rows}
    assert await desk.gateway.store.read(groups.get, "agents") is not None
    assert (await desk.gateway.store.read(ledger.check, desk.gateway.clock.now())).unaccounted == 0
