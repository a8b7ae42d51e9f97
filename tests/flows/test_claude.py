"""claude on a whole gateway: Claude Code in bubblewrap, without a network and without a key, against the scripted
model."""

import asyncio
import importlib.util
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from gatepost.access.budgets import parse_usd
from gatepost.app import Gateway
from gatepost.core.keyring import Keyring
from gatepost.core.periods import Period
from gatepost.sandboxes.bubblewrap import find_bwrap
from gatepost.store import audit, budgets, costs, groups, inbox, secrets
from gatepost.store.budgets import BudgetScope
from gatepost.testing.channel import FakeChannel
from gatepost.testing.gateway import open_room, running_gateway, wait_until_settled
from gatepost.testing.models import ModelEndpoint

ROOM = "fake:room/1"
KEY = "sk-very-secret-000"
PATIENCE = 60.0
SCRIPT: dict[str, Any] = {
    "tools": True,
    "turns": [
        {"when": "which word", "recall": r"remember the word (\w+)", "do": [{"say": "The word is {1}."}]},
        {
            "when": r"remember the word (\w+)",
            "do": [{"call": "set_work", "with": {"content": "word: {1}"}}, {"say": "I will remember {1}."}],
        },
        {"when": "hello", "do": [{"say": "here"}]},
    ],
}

pytestmark = [
    pytest.mark.skipif(find_bwrap() is None, reason="bubblewrap is not installed"),
    pytest.mark.skipif(
        importlib.util.find_spec("claude_agent_sdk") is None,
        reason="claude-agent-sdk is not installed: pip install '.[claude]'",
    ),
]


@pytest.fixture
def channel() -> FakeChannel:
    return FakeChannel()


@asynccontextmanager
async def a_gateway(
    path: Path, channel: FakeChannel, endpoint: ModelEndpoint, sandbox: str = "bubblewrap", **options: Any
) -> AsyncIterator[Gateway]:
    path.parent.chmod(0o711)
    given = {
        "sandbox__kind": sandbox,
        "sessions__provider": "claude",
        "anthropic__base_url": endpoint.anthropic,
    }
    async with running_gateway(path, {"fake": (channel.kind, channel)}, **given) as gateway:
        await gateway.store.write(groups.update, "home", {"model": "claude-sonnet-4-5", **options})
        keyring, now = Keyring(gateway.home), gateway.clock.now()
        await gateway.store.write(secrets.put, keyring, secrets.SecretOwner(), secrets.ANTHROPIC_API_KEY, KEY, now)
        await open_room(gateway, "fake", ROOM)
        yield gateway


def texts(channel: FakeChannel) -> list[str]:
    return [sent.message.text for sent in channel.sent]


async def until_given(gateway: Gateway, message: int) -> inbox.InboxEntry:
    async with asyncio.timeout(PATIENCE):
        while True:
            (entry,) = await gateway.store.read(inbox.list_for_message, message)
            if entry.given:
                return entry
            await asyncio.sleep(0.01)


@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed: apt install curl")
async def test_a_shell_command_to_a_host_that_is_not_allowed_is_told_why(tmp_path: Path, channel: FakeChannel) -> None:
    look = {"call": "Bash", "with": {"command": "curl -sSi https://example.com; curl -sS http://example.com"}}
    script = {"tools": True, "turns": [{"when": "look", "do": [look, {"say": "looked"}]}]}
    async with ModelEndpoint(script) as endpoint, a_gateway(tmp_path / "h", channel, endpoint) as gateway:
        await channel.say("look around")
        await channel.wait_for(1, timeout=PATIENCE)
        await wait_until_settled(gateway)
        rows = [row for row in await gateway.store.read(audit.list_latest, 20) if row[3] == "egress"]

        assert len(rows) == 2  # one for each port
    last = endpoint.calls[-1]
    assert last.count_text("example.com:443 is not allowed for home", "tool")
    assert last.count_text("example.com:80 is not allowed for home", "tool")


@pytest.mark.slow
async def test_a_follow_up_that_comes_with_the_last_word_is_answered_in_the_same_turn(
    tmp_path: Path, channel: FakeChannel
) -> None:
    script = {
        "tools": True,
        "turns": [
            {"when": "plus pears", "do": [{"say": "second done"}]},
            {"when": "first", "do": [{"hold": True, "say": "first done"}]},
        ],
    }
    async with ModelEndpoint(script) as endpoint, a_gateway(tmp_path / "h", channel, endpoint) as gateway:
        await channel.say("first")
        await endpoint.wait_for(1, timeout=PATIENCE)
        later = await channel.say("plus pears")
        await until_given(gateway, later.message_id)
        endpoint.release()
        await channel.wait_for(2, timeout=PATIENCE)
        account = await wait_until_settled(gateway)

        assert texts(channel) == ["first done", "second done"]
        assert account.unaccounted == 0


async def test_a_model_without_a_price_sends_nobody_to_look_for_a_key(tmp_path: Path, channel: FakeChannel) -> None:
    async with (
        ModelEndpoint(SCRIPT) as endpoint,
        a_gateway(tmp_path / "h", channel, endpoint, model="nosuchmodel", retries=1) as gateway,
    ):
        await channel.say("hello")
        await channel.wait_for(1, timeout=PATIENCE)
        await wait_until_settled(gateway)

        (notice,) = texts(channel)
        assert "the gateway does not pass this on: 'nosuchmodel' has no price" in notice
        assert "authenticate" not in notice and "account" not in notice
    assert endpoint.calls == []


async def test_a_budget_that_the_bytes_of_the_prompt_do_not_fit_is_used_all_the_same(
    tmp_path: Path, channel: FakeChannel
) -> None:
    async with ModelEndpoint(SCRIPT) as endpoint, a_gateway(tmp_path / "h", channel, endpoint) as gateway:
        now, limit = gateway.clock.now(), parse_usd("0.30", "")
        await gateway.store.write(budgets.put, BudgetScope("group", "home"), Period.DAY, limit, "test", now)
        await channel.say("hello")
        await channel.wait_for(1, timeout=PATIENCE)
        await wait_until_settled(gateway)

        assert texts(channel) == ["here"]
        assert 0 < sum(each.micro for each in await gateway.store.read(costs.list_sums, "group")) <= limit
    assert [request for request in endpoint.requests if "count_tokens" in request.path]
    assert len(endpoint.calls[-1].raw) * 6 > limit


async def test_what_does_not_fit_the_budget_is_not_asked_and_told_in_plain_words(
    tmp_path: Path, channel: FakeChannel
) -> None:
    async with ModelEndpoint(SCRIPT) as endpoint, a_gateway(tmp_path / "h", channel, endpoint) as gateway:
        now = gateway.clock.now()
        await gateway.store.write(
            budgets.put, BudgetScope("group", "home"), Period.DAY, parse_usd("0.01", ""), "test", now
        )
        for _ in range(2):
            receipt = await channel.say("hello")
            await wait_until_settled(gateway, PATIENCE)

            (entry,) = await gateway.store.read(inbox.list_for_message, receipt.message_id)
            assert entry.state == "failed" and "has no room for this call" in entry.reason
        notices = [text for text in texts(channel) if text.startswith("Today's budget of home is too small")]
        sorry = [text for text in texts(channel) if text.startswith("Sorry")]
        assert len(notices) == 1 and len(sorry) == 2 and "today's budget of home has no room" in sorry[0]
        assert await gateway.store.read(costs.list_sums, "group") == []
    assert endpoint.calls == []


@pytest.mark.slow
async def test_a_model_that_failed_is_left_with_the_next_message(tmp_path: Path, channel: FakeChannel) -> None:
    """An empty model is the provider's own, also for a conversation that goes on."""
    async with ModelEndpoint(SCRIPT) as endpoint, a_gateway(tmp_path / "h", channel, endpoint) as gateway:
        for number, model in enumerate(("claude-sonnet-4-5", "nosuchmodel", ""), 1):
            await gateway.store.write(groups.update, "home", {"model": model})
            gateway.bells.group("home")
            await channel.say("hello", platform_id=f"m-{number}")
            await channel.wait_for(number, timeout=PATIENCE)
            await wait_until_settled(gateway)

        first, refused, last = texts(channel)
    asked = [call.body["model"] for call in endpoint.calls]
    assert (first, last) == ("here", "here") and "nosuchmodel" in refused
    assert asked[0] == "claude-sonnet-4-5" and "nosuchmodel" not in asked and asked[-1].startswith("claude-")
