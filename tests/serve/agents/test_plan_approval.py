"""A plan that was approved is carried out: once, in the mode that it asked for, whatever ends in between."""

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from gatepost.inside.provider_spec import Mode
from gatepost.serve.agents import providers
from gatepost.store.rights import audit
from gatepost_testing.clients.management_client import TRANSPORTS, ManagementClient, open_management_gateway
from gatepost_testing.daemon import DaemonProcess
from gatepost_testing.gateway import wait_until_settled

FOLLOW_UP = "Carry out the plan: sweep, then mop."
ASK = {"plan": "1. sweep\n2. mop", "follow_up": FOLLOW_UP, "next_mode": "default"}
SCRIPT: dict[str, Any] = {
    "turns": [
        {"when": "plan and fall", "do": [{"ask": ASK}, {"crash": "once"}, {"say": "planned: {answer}"}]},
        {"when": "plan by itself", "do": [{"ask": {"plan": "sweep", "next_mode": "default"}}, {"say": "swept"}]},
        {"when": "plan to be root", "do": [{"ask": {**ASK, "next_mode": "root"}}, {"say": "planned: {answer}"}]},
        {"when": "plan it", "do": [{"ask": ASK}, {"say": "planned: {answer}"}]},
        {"when": "just ask", "do": [{"ask": {"permission": "Bash", "input": {}, "follow_up": "sneak"}}]},
        {"when": "(.*)", "do": [{"say": "done: {1}"}]},
    ]
}
ALLOW, DENY = {"behavior": "allow"}, {"behavior": "deny", "message": "not today"}


@pytest.fixture(params=TRANSPORTS)
async def desk(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[ManagementClient]:
    async with open_management_gateway(tmp_path / "h", request.param, SCRIPT) as made:
        yield made


@pytest.fixture
async def inside(tmp_path: Path) -> AsyncIterator[ManagementClient]:
    async with open_management_gateway(tmp_path / "h", "memory", SCRIPT) as made:
        yield made


async def respond(desk: ManagementClient, asked: dict[str, Any], response: dict[str, Any]) -> None:
    request = asked["permission"]["id"]
    await desk("respond_to_permission", agentId=asked["agentId"], requestId=request, response=response)


async def activity(desk: ManagementClient, agent: dict[str, Any]) -> list[str]:
    told = await desk("get_agent_activity", agentId=agent["agentId"])
    return [line for line in told["content"].splitlines() if line]


@pytest.mark.slow
async def test_paseo_26_an_approved_plan_starts_its_follow_up_turn(desk: ManagementClient) -> None:
    made = await desk("create_agent", initialPrompt="plan it")
    asked = made["permission"]
    assert (asked["kind"], asked["input"]) == ("plan", {"plan": ASK["plan"]})
    assert (asked["followUp"], asked["nextModeId"]) == (FOLLOW_UP, "default")

    await respond(desk, made, ALLOW)
    ended = await desk("wait_for_agent", agentId=made["agentId"])

    assert (ended["status"], ended["lastMessage"]) == ("idle", f"done: {FOLLOW_UP}")
    said = await activity(desk, made)
    assert said.count(f"[User] {FOLLOW_UP}") == 1 and said.count(f"done: {FOLLOW_UP}") == 1
    assert "planned: allow" in said
    assert (await wait_until_settled(desk.gateway)).unaccounted == 0


@pytest.mark.slow
async def test_a_plan_that_was_denied_starts_nothing(inside: ManagementClient) -> None:
    made = await inside("create_agent", initialPrompt="plan it")
    await respond(inside, made, DENY)
    ended = await inside("wait_for_agent", agentId=made["agentId"])

    assert (ended["status"], ended["lastMessage"]) == ("idle", "planned: deny")
    await wait_until_settled(inside.gateway)
    assert not [line for line in await activity(inside, made) if FOLLOW_UP in line]


@pytest.mark.slow
async def test_a_plan_that_is_answered_twice_is_carried_out_once(inside: ManagementClient) -> None:
    made = await inside("create_agent", initialPrompt="plan it")
    await respond(inside, made, ALLOW)
    for response in (ALLOW, DENY):
        asked = {"agentId": made["agentId"], "requestId": made["permission"]["id"], "response": response}
        again = await inside.ask("respond_to_permission", **asked)
        assert again.failed and "does not wait any more" in again.text
    await inside("wait_for_agent", agentId=made["agentId"])
    assert (await activity(inside, made)).count(f"done: {FOLLOW_UP}") == 1


@pytest.mark.slow
async def test_a_plan_with_a_mode_that_there_is_not_cannot_be_allowed_only_denied(inside: ManagementClient) -> None:
    made = await inside("create_agent", initialPrompt="plan to be root")
    asked = {"agentId": made["agentId"], "requestId": made["permission"]["id"]}
    answer = await inside.ask("respond_to_permission", **asked, response=ALLOW)
    assert answer.failed and "scripted has no mode 'root'" in answer.text and "denied" in answer.text
    (waits,) = (await inside("list_pending_permissions"))["permissions"]
    assert waits["request"]["id"] == asked["requestId"]

    await respond(inside, made, DENY)
    ended = await inside("wait_for_agent", agentId=made["agentId"])
    assert ended["lastMessage"] == "planned: deny"
    assert not [line for line in await activity(inside, made) if FOLLOW_UP in line]


async def test_only_a_plan_has_a_follow_up(inside: ManagementClient) -> None:
    made = await inside("create_agent", initialPrompt="just ask")
    assert made["permission"]["kind"] == "tool" and made["permission"]["followUp"] is None
    await respond(inside, made, ALLOW)
    await inside("wait_for_agent", agentId=made["agentId"])
    assert not [line for line in await activity(inside, made) if "sneak" in line]


@pytest.mark.slow
async def test_the_mode_changes_with_the_approval_and_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    known = (Mode("plan", "Plan"), Mode("default", "Default"))
    monkeypatch.setattr(providers, "modes_of", lambda home, provider: known)
    async with open_management_gateway(tmp_path / "h", "memory", SCRIPT) as desk:
        made = await desk("create_agent", initialPrompt="plan by itself", initialMode="plan")
        assert (await mode_of(desk, made)) == "plan"
        await respond(desk, made, ALLOW)
        ended = await desk("wait_for_agent", agentId=made["agentId"])
        assert (ended["lastMessage"], await mode_of(desk, made)) == ("swept", "default")
        await wait_until_settled(desk.gateway)
    async with open_management_gateway(tmp_path / "h", "memory", SCRIPT) as desk:
        assert await mode_of(desk, made) == "default"
        rows = await desk.gateway.store.read(audit.list_latest, 50)
        assert "permission.allow" in {row[3] for row in rows}


async def mode_of(desk: ManagementClient, agent: dict[str, Any]) -> str:
    shown = await desk("get_agent_status", agentId=agent["agentId"])
    return str(shown["snapshot"]["currentModeId"])


@pytest.mark.slow
async def test_a_runner_that_dies_after_the_approval_is_told_it_again_and_the_follow_up_starts_once(
    inside: ManagementClient,
) -> None:
    made = await inside("create_agent", initialPrompt="plan and fall")
    await respond(inside, made, ALLOW)
    ended = await inside("wait_for_agent", agentId=made["agentId"])

    assert (ended["status"], ended["lastMessage"]) == ("idle", f"done: {FOLLOW_UP}")
    said = await activity(inside, made)
    assert said.count(f"done: {FOLLOW_UP}") == 1 and said.count("planned: allow") == 1
    assert (await wait_until_settled(inside.gateway)).unaccounted == 0


@pytest.mark.slow
def test_paseo_26_a_daemon_killed_between_the_approval_and_its_follow_up_loses_neither(tmp_path: Path) -> None:
    home = tmp_path / "home"
    script = home / "groups" / "agents" / "script.json"
    script.parent.mkdir(parents=True)
    rest = {"when": "(.*)", "do": [{"say": "done: {1}"}]}
    script.write_text(json.dumps({"turns": [{"when": "plan it", "do": [{"ask": ASK}, {"hang": True}]}, rest]}))
    daemon = DaemonProcess(home, sessions_provider="scripted", sandbox_kind="process", sessions_retry_s="0.05")
    try:
        daemon.start()
        daemon.gatepost("agent", "run", "plan it", "--title", "Planner")
        (asked,) = daemon.json("permit", "ls")
        assert daemon.gatepost("permit", "allow", asked["request"]["id"]).returncode == 0
        daemon.kill()

        script.write_text(json.dumps({"turns": [{"when": "plan it", "do": [{"ask": ASK}]}, rest]}))
        daemon.start()
        assert daemon.gatepost("agent", "wait", "Planner").returncode == 0
        told = daemon.gatepost("agent", "logs", "Planner").stdout
        assert told.count(f"done: {FOLLOW_UP}") == 1 and told.count(f"[User] {FOLLOW_UP}") == 1
        assert daemon.json("permit", "ls") == []
    finally:
        daemon.stop()
