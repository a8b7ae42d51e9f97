"""Pinned rules outlive the compaction that a real agent makes by itself, without a word to the gateway."""

from pathlib import Path
from typing import Any

import pytest

from gatepost.store.sessions import pinned_rules
from gatepost_testing.agent_profiles import AGENTS, PATIENCE, run_agent_gateway
from gatepost_testing.channel import FakeChannel
from gatepost_testing.gateway import wait_until_settled
from gatepost_testing.models import ModelEndpoint

RULE = "Never give a price."
FULL = {"input": 1_900_000, "output": 10}  # so that the agent thinks its conversation nearly too long
SCRIPT: dict[str, Any] = {
    "tools": False,
    "turns": [
        {"when": "the word is plum", "do": [{"say": "I will remember it.", "usage": FULL}]},
        {"when": "and now", "do": [{"say": "here"}]},
    ],
    "default": [{"say": "They spoke of a plum."}],
}


@pytest.mark.slow
@pytest.mark.parametrize("name", ["codex", "opencode"])
async def test_pinned_rules_are_there_after_an_agent_has_compacted_by_itself(tmp_path: Path, name: str) -> None:
    profile, channel = AGENTS[name], FakeChannel()
    if profile.missing:
        pytest.skip(profile.missing)
    async with (
        ModelEndpoint(SCRIPT) as endpoint,
        run_agent_gateway(profile, tmp_path / "h", channel, endpoint) as gateway,
    ):
        await gateway.store.write(pinned_rules.add, "home", "", RULE, "operator", 1)
        await channel.say("the word is plum")
        await channel.wait_for(1, timeout=PATIENCE)
        await wait_until_settled(gateway, PATIENCE)
        await channel.say("and now?")
        await channel.wait_for(2, timeout=PATIENCE)
        await wait_until_settled(gateway, PATIENCE)

    assert len(endpoint.calls) > 2, "two words are two requests: it has not compacted"
    assert RULE.encode() in endpoint.calls[0].raw
    assert RULE.encode() in endpoint.calls[-1].raw
    assert endpoint.calls[-1].raw.count(b"the word is plum") < 2
