"""The pane beside a conversation."""

import json
from pathlib import Path
from typing import Any

import pytest

from gatepost.access.tiers import Tier
from gatepost.core.registry import load_package
from gatepost.gate.dispatch import INVALID_PARAMS
from gatepost.messages.outbound import Feature, Op, PromptButton
from gatepost.store.engine.sqlite_store import SqliteStore
from gatepost.store.messages import outbox
from gatepost_testing.channel import EVERYTHING, FakeChannel, SendFault
from gatepost_testing.gate_agent import FOLDERS, PLATFORM, ROOM, GateAgent, is_invalid
from gatepost_testing.outbox_harness import OutboxHarness

load_package("gatepost.tools")

GOOD: dict[str, dict[str, Any]] = {
    "pane_set_prompts": {"prompts": [{"title": "More", "message": "tell me more"}]},
    "pane_set_title": {"title": "the build"},
}


@pytest.fixture
async def agent(tmp_path: Path, store: SqliteStore) -> GateAgent:
    return await GateAgent.create(tmp_path, store)


@pytest.mark.parametrize("name", sorted(GOOD))
@pytest.mark.parametrize("tier", list(Tier))
async def test_each_tool_is_there_for_its_tiers_and_for_no_other(
    name: str, tier: Tier, tmp_path: Path, store: SqliteStore
) -> None:
    agent = await GateAgent.create(tmp_path, store, FOLDERS[tier])
    answer = await agent.call(name, **GOOD[name])
    if tier <= Tier.AGENT:
        assert json.loads(answer.text)["ok"] is True
    else:
        assert (answer.code, answer.text) == (INVALID_PARAMS, f"Unknown tool: {name}")
        assert agent.woken == []


@pytest.mark.parametrize("name", sorted(GOOD))
async def test_arizuko_34_a_channel_without_a_pane_is_told_in_two_lines(
    name: str, tmp_path: Path, store: SqliteStore
) -> None:
    agent = await GateAgent.create(tmp_path, store, features=EVERYTHING - {Feature.PANE})
    first, second = (await agent.call(name, **GOOD[name])).text.split("\n")
    assert first == f"unsupported: {name} on {PLATFORM}"
    assert second.startswith("hint: use send")
    assert agent.woken == []


@pytest.mark.parametrize("name", sorted(GOOD))
async def test_arizuko_16_a_room_of_nobodys_is_refused(name: str, agent: GateAgent) -> None:
    answer = await agent.call(name, **GOOD[name], chatJid="fake:room/9")
    assert answer.failed
    assert f"acme/eng may not {name} on fake:room/9" in answer.text


@pytest.mark.parametrize(
    ("name", "given", "why"),
    [
        ("pane_set_prompts", {"prompts": []}, "prompts: has 0 items; 1 to 16 are possible"),
        ("pane_set_prompts", {"prompts": [{"title": "t", "message": "m"}] * 17}, "prompts: has 17 items"),
        ("pane_set_prompts", {"prompts": [{"title": " ", "message": "m"}]}, "prompts: item 1 has an empty title"),
        ("pane_set_prompts", {"prompts": [{"title": "t", "message": ""}]}, "prompts: item 1 has an empty message"),
        ("pane_set_title", {"title": " \n"}, "title: has 0 characters; 1 to 256 are possible"),
        ("pane_set_title", {"title": "x" * 257}, "title: has 257 characters"),
    ],
)
async def test_bad_input_is_named(name: str, given: dict[str, Any], why: str, agent: GateAgent) -> None:
    answer = await agent.call(name, **given)
    assert answer.failed
    assert answer.text.startswith(why)
    assert agent.woken == []


@pytest.mark.parametrize("prompts", ["x", [{"title": "t"}], [{"title": 1, "message": "m"}]])
async def test_prompts_of_another_form_are_no_arguments(prompts: object, agent: GateAgent) -> None:
    answer = await agent.call("pane_set_prompts", prompts=prompts)
    assert is_invalid(answer)
    assert "prompts" in answer.text


async def test_both_are_rows_and_the_audit_keeps_no_words(agent: GateAgent) -> None:
    for name in sorted(GOOD):
        assert not (await agent.call(name, "c." + name, **GOOD[name])).failed
    assert agent.woken == [(PLATFORM, ROOM)] * 2
    assert await agent.audited() == [("pane_set_prompts", "allowed"), ("pane_set_title", "allowed")]


async def test_both_reach_the_channel_and_are_repeated_when_it_is_not_known_whether_they_did(
    store: SqliteStore,
) -> None:
    channel = FakeChannel(features=EVERYTHING - {Feature.LOOKUP})
    channel.script(SendFault.UNCERTAIN_LOST, SendFault.NONE, SendFault.UNCERTAIN_LOST)
    post = OutboxHarness(store, {"fake": channel})
    async with post.running():
        await post.do("p", Op.PROMPTS, None, {"prompts": [{"title": "More", "message": "tell me more"}]})
        await post.tried("p", 1)
        post.advance(1)
        await post.ended("p")
        await post.do("t", Op.TITLE, None, {"text": "the build"})
        await post.tried("t", 1)
        post.advance(1)
        row = await post.ended("t")
    assert row.state in outbox.END
    shown, titled = (sent.message for sent in channel.sent)
    assert (shown.op, shown.prompts) == (Op.PROMPTS, (PromptButton("More", "tell me more"),))
    assert (titled.op, titled.text) == (Op.TITLE, "the build")
