"""opencode beyond what every agent keeps (`gatepost_testing.agent_suite`): its three ways to ask a model, and how it is
set up for `acp`."""

import json
from pathlib import Path
from typing import Any

import pytest

from gatepost.store.messages import inbox
from gatepost.store.rights import egress
from gatepost_testing.agent_profiles import AGENTS, OPENCODE, PATIENCE, run_agent_gateway
from gatepost_testing.channel import FakeChannel
from gatepost_testing.gateway import wait_until_settled
from gatepost_testing.models import ModelEndpoint

SCRIPT: dict[str, Any] = {
    "tools": True,
    "turns": [{"when": "see what is in hand", "do": [{"call": "get_work", "with": {}}, {"say": "Nothing is."}]}],
}
MISSING = AGENTS["opencode"].missing

pytestmark = [pytest.mark.slow, pytest.mark.skipif(bool(MISSING), reason=MISSING or "it is there")]


@pytest.fixture
def channel() -> FakeChannel:
    return FakeChannel()


@pytest.mark.parametrize(
    ("model", "path"),
    [("gpt-5", "/v1/responses"), ("claude-sonnet-4-5", "/v1/messages"), ("gpt-4o", "/v1/chat/completions")],
)
async def test_it_asks_a_model_in_the_way_of_its_vendor_and_fetches_nothing(
    tmp_path: Path, channel: FakeChannel, model: str, path: str
) -> None:
    more: dict[str, Any] = {"api": "chat"} if "chat" in path else {}
    async with (
        ModelEndpoint(SCRIPT) as endpoint,
        run_agent_gateway(AGENTS["opencode"], tmp_path / "h", channel, endpoint, model=model, **more) as gateway,
    ):
        await channel.say("see what is in hand")
        await channel.wait_for(1, timeout=PATIENCE)
        await wait_until_settled(gateway)

        assert channel.texts() == ["Nothing is."]
        assert await gateway.store.read(egress.list_attempts, 10, "", "denied") == []
    assert [call.path.partition("?")[0] for call in endpoint.calls] == [path] * 2
    assert "question" in endpoint.calls[0].tools  # people can be asked


async def test_a_follow_up_that_comes_with_the_last_word_is_answered_in_the_same_turn(
    tmp_path: Path, channel: FakeChannel
) -> None:
    script = {
        "tools": True,
        "turns": [
            {"when": "plus pears", "do": [{"say": "second done"}]},
            {"when": "start with plums", "do": [{"hold": True, "say": "first done"}]},
        ],
    }
    async with (
        ModelEndpoint(script) as endpoint,
        run_agent_gateway(AGENTS["opencode"], tmp_path / "h", channel, endpoint) as gateway,
    ):
        first = await channel.say("start with plums")
        await endpoint.wait_for(1, timeout=PATIENCE)
        second = await channel.say("plus pears")
        endpoint.release()
        await channel.wait_for(2, timeout=PATIENCE)
        account = await wait_until_settled(gateway)

        assert channel.texts() == ["first done", "second done"]
        for receipt in (first, second):
            (entry,) = await gateway.store.read(inbox.list_for_message, receipt.message_id)
            assert entry.state == "answered"
        assert account.unaccounted == 0


async def test_as_an_acp_agent_it_takes_its_setup_from_the_groups_folder_as_the_docs_say(
    tmp_path: Path, channel: FakeChannel
) -> None:
    async with (
        ModelEndpoint(SCRIPT) as endpoint,
        run_agent_gateway(AGENTS["acp"], tmp_path / "h", channel, endpoint, env=None) as gateway,
    ):
        (gateway.home.group("home") / "opencode.json").write_text(json.dumps(OPENCODE))
        await channel.say("see what is in hand")
        await channel.wait_for(1, timeout=PATIENCE)
        await wait_until_settled(gateway)

        assert channel.texts() == ["Nothing is."]
