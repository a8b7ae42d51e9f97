"""A real agent finds a tool that its turn did not start with, and uses it: API models within the same turn."""

from pathlib import Path
from typing import Any

import pytest
from tests.agents import every

from gatepost_testing.agent_profiles import PATIENCE, AgentProfile, run_agent_gateway
from gatepost_testing.channel import FakeChannel
from gatepost_testing.models import ModelEndpoint

SCRIPT: dict[str, Any] = {
    "tools": True,
    "turns": [
        {
            "when": "note plums",
            "do": [
                {"call": "find_tools", "with": {"query": "keep notes on my work"}},
                {"call": "set_work", "with": {"content": "plums"}},
                {"say": "noted"},
            ],
        },
    ],
}
FOLLOWS = {"anthropic", "openai", "claude"}  # changes of the list; the others use call_tool


@pytest.mark.parametrize("agent", every())
async def test_an_agent_finds_a_tool_and_uses_it(agent: AgentProfile, tmp_path: Path) -> None:
    channel = FakeChannel()
    async with (
        ModelEndpoint(SCRIPT) as endpoint,
        run_agent_gateway(agent, tmp_path / "h", channel, endpoint) as gateway,
    ):
        await channel.say("note plums")
        await channel.wait_for(1, timeout=PATIENCE)
        assert channel.texts() == ["noted"]
        assert (gateway.home.group("home") / "work.md").read_text() == "plums"
    wanted = agent.tool.format("set_work")
    offered = [wanted in call.tools for call in endpoint.calls if call.tools]
    assert not offered[0]
    if agent.provider in FOLLOWS:
        assert offered[-1]
