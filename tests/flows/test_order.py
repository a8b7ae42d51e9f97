"""What an agent says and what it does reach people in one order, whichever socket is slower."""

import importlib.util
from pathlib import Path
from typing import Any

import pytest

from gatepost.app import Gateway
from gatepost.core.keyring import Keyring
from gatepost.sandboxes.bubblewrap import find_bwrap
from gatepost.store.rights import secrets
from gatepost.store.rights.secret_rows import SecretOwner
from gatepost.store.sessions import groups
from gatepost_testing.channel import FakeChannel
from gatepost_testing.gateway import open_room, running_gateway, wait_until_settled
from gatepost_testing.models import ModelEndpoint
from gatepost_testing.provider import ScriptBuilder
from gatepost_testing.storms.faults import slow_down

ROOM = "fake:room/1"
ROUNDS = 40
RESULTS = "gatepost.flow.sessions.runner.runner_protocol:RunnerProtocol._record_results"
CALLS = "gatepost.gate.dispatch:Dispatch.call"
MODEL_TURN = {
    "when": r"go (\d+)",
    "do": [{"say": "A{1}", "call": "send", "with": {"text": "M{1}"}}, {"say": "Z{1}"}],
}

# Stands for an agent that is a process of its own: it calls its tools itself, and what it said before is read later.
OUTSIDER = r"""
import asyncio
from gatepost.inside.providers.contract import TurnResult, ConversationStarted, Text, ToolResult, ToolUse, provider
from gatepost.inside.mcp_client import McpClient


@provider("outsider")
class Outsider:
    takes_pushes = False

    def __init__(self, place):
        self.place = place

    async def query(self, batch, resume):
        yield ConversationStarted(resume or "c-1")
        tools = await McpClient.connect(self.place.router)
        for number in range(ROUNDS):
            call = asyncio.create_task(tools.call("send", {"text": f"M{number}"}))
            await asyncio.sleep(0.02)  # the call is at the gateway by now, and nobody has read A
            yield Text(f"A{number}")
            yield ToolUse(f"u-{number}", "send", {"text": f"M{number}"})
            await call
            yield ToolResult(f"u-{number}", "", False)
            yield Text(f"Z{number}")
        await tools.close()
        yield TurnResult()

    async def push(self, batch):
        raise NotImplementedError

    async def interrupt(self):
        pass

    async def close(self):
        pass
"""


def expected(rounds: int) -> list[str]:
    return [f"{letter}{number}" for number in range(rounds) for letter in "AMZ"]


@pytest.mark.slow
@pytest.mark.parametrize("slow", [RESULTS, CALLS])
async def test_stranger_19_a_scripted_agent_is_not_overtaken_by_its_own_tools(
    tmp_path: Path, channel: FakeChannel, slow: str
) -> None:
    script = ScriptBuilder().turn("go")
    for number in range(ROUNDS):
        script.say(f"A{number}").call("send", text=f"M{number}").say(f"Z{number}")
    async with running_gateway(tmp_path / "h", {"fake": (channel.kind, channel)}) as gateway:
        await open_room(gateway, "fake", ROOM)
        script.write(gateway.home.group("home")).chmod(0o644)
        with slow_down(slow, 0.01):
            await channel.say("go")
            await channel.wait_for(3 * ROUNDS, timeout=60)
        assert (await wait_until_settled(gateway)).unaccounted == 0
    assert channel.texts() == expected(ROUNDS)


@pytest.mark.slow
@pytest.mark.parametrize("slow", [RESULTS, CALLS])
async def test_stranger_19_an_agent_that_calls_its_tools_itself_is_not_overtaken_by_them(
    tmp_path: Path, channel: FakeChannel, slow: str
) -> None:
    plugins = tmp_path / "h" / "plugins" / "providers"
    plugins.mkdir(parents=True)
    (plugins / "outsider.py").write_text(OUTSIDER.replace("ROUNDS", str(ROUNDS)))
    given = {"fake": (channel.kind, channel)}
    async with running_gateway(tmp_path / "h", given, sessions__provider="outsider") as gateway:
        await open_room(gateway, "fake", ROOM)
        with slow_down(slow, 0.01):
            await channel.say("go")
            await channel.wait_for(3 * ROUNDS, timeout=60)
        assert (await wait_until_settled(gateway)).unaccounted == 0
    assert channel.texts() == expected(ROUNDS)


@pytest.mark.parametrize("provider", ["anthropic", "openai"])
async def test_stranger_19_a_models_words_are_not_overtaken_by_its_tools(
    tmp_path: Path, channel: FakeChannel, provider: str
) -> None:
    script: dict[str, Any] = {"turns": [MODEL_TURN]}
    given = {"fake": (channel.kind, channel)}
    async with (
        ModelEndpoint(script) as endpoint,
        running_gateway(tmp_path / "h", given, sessions__provider=provider) as gateway,
    ):
        base = endpoint.anthropic if provider == "anthropic" else endpoint.openai
        await gateway.store.write(groups.update, "home", {"model": "small-1", "options": {"base_url": base}})
        await open_room(gateway, "fake", ROOM)
        with slow_down(RESULTS, 0.01):
            for number in range(5):
                await channel.say(f"go {number}")
                await channel.wait_for(3 * (number + 1))
        assert (await wait_until_settled(gateway)).unaccounted == 0
    assert channel.texts() == expected(5)


@pytest.mark.slow
@pytest.mark.skipif(find_bwrap() is None, reason="bubblewrap is not installed")
@pytest.mark.skipif(importlib.util.find_spec("claude_agent_sdk") is None, reason="claude-agent-sdk is not installed")
async def test_stranger_19_claude_codes_words_are_not_overtaken_by_its_tools(
    tmp_path: Path, channel: FakeChannel
) -> None:
    tmp_path.chmod(0o711)
    script: dict[str, Any] = {"tools": True, "turns": [MODEL_TURN]}
    async with ModelEndpoint(script) as endpoint:
        given: dict[str, Any] = {"sandbox__kind": "bubblewrap", "anthropic__base_url": endpoint.anthropic}
        channels = {"fake": (channel.kind, channel)}
        async with running_gateway(tmp_path / "h", channels, sessions__provider="claude", **given) as gateway:
            await ready_for_claude(gateway)
            with slow_down(RESULTS, 0.01):
                for number in range(ROUNDS // 4):
                    await channel.say(f"go {number}")
                    await channel.wait_for(3 * (number + 1), timeout=60)
            assert (await wait_until_settled(gateway)).unaccounted == 0
    assert channel.texts() == expected(ROUNDS // 4)


async def ready_for_claude(gateway: Gateway) -> None:
    await gateway.store.write(groups.update, "home", {"model": "claude-sonnet-4-5"})
    keyring, now = Keyring(gateway.home), gateway.clock.now()
    await gateway.store.write(secrets.put, keyring, SecretOwner(), secrets.ANTHROPIC_API_KEY, "sk-for-tests", now)
    await open_room(gateway, "fake", ROOM)
