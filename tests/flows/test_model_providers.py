"""anthropic and openai on a whole gateway, beyond what every provider keeps (`gatepost_testing.agent_suite`): with an
endpoint of the group's own, without a key, and at the worst moment."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from gatepost.app import Gateway
from gatepost.flow.sessions.session_ending import Ending
from gatepost.store.messages import inbox
from gatepost.store.sessions import groups
from gatepost_testing.channel import FakeChannel
from gatepost_testing.gateway import open_room, running_gateway, wait_until_settled
from gatepost_testing.models import ModelEndpoint
from gatepost_testing.waiting import PATIENCE_S

ROOM = "fake:room/1"
SCRIPT: dict[str, Any] = {
    "turns": [
        {"when": "which word", "recall": r"remember the word (\w+)", "do": [{"say": "The word is {1}."}]},
        {
            "when": r"remember the word (\w+)",
            "do": [{"call": "set_work", "with": {"content": "word: {1}"}}, {"say": "I will remember {1}."}],
        },
    ]
}


@pytest.fixture(params=["anthropic", "openai"])
def provider(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def channel() -> FakeChannel:
    return FakeChannel()


@asynccontextmanager
async def a_gateway(
    path: Path,
    channel: FakeChannel,
    provider: str,
    endpoint: ModelEndpoint,
    model: str = "small-1",
    **options: object,
) -> AsyncIterator[Gateway]:
    """One whose group `home` talks to that endpoint."""
    async with running_gateway(path, {"fake": (channel.kind, channel)}, sessions__provider=provider) as gateway:
        base = endpoint.anthropic if provider == "anthropic" else endpoint.openai
        values = {"model": model, "options": {"base_url": base, **options}}
        await gateway.store.write(groups.update, "home", values)
        await open_room(gateway, "fake", ROOM)
        yield gateway


def texts(channel: FakeChannel) -> list[str]:
    return [sent.message.text for sent in channel.sent]


def work(gateway: Gateway) -> str:
    return (gateway.home.group("home") / "work.md").read_text()


@pytest.mark.slow
async def test_a_word_is_remembered_a_tool_is_used_and_the_answer_comes(
    tmp_path: Path, channel: FakeChannel, provider: str
) -> None:
    async with ModelEndpoint(SCRIPT) as endpoint, a_gateway(tmp_path / "h", channel, provider, endpoint) as gateway:
        (gateway.home.group("home") / "PERSONA.md").write_text("You like plums.")
        await channel.say("please remember the word plum")
        await channel.wait_for(1)
        await channel.say("which word was it?")
        await channel.wait_for(2)
        account = await wait_until_settled(gateway)

        assert texts(channel) == ["I will remember plum.", "The word is plum."]
        assert work(gateway) == "word: plum"
        assert account.unaccounted == 0
    first, last = endpoint.calls[0], endpoint.calls[-1]
    assert {"remember", "find_tools", "reply"} <= set(first.tools)
    assert b"You like plums." in first.raw and b"How you are reached" in first.raw
    assert first.body["model"] == "small-1"
    assert last.count_text("remember the word plum") == 1
    assert "x-api-key" not in first.headers and "authorization" not in first.headers


@pytest.mark.slow
async def test_a_call_whose_answer_was_lost_is_not_made_again_unless_that_changes_nothing(
    tmp_path: Path, channel: FakeChannel, provider: str
) -> None:
    """The worst moment: the effect is in the ledger, and the conversation does not know."""
    script = {
        "turns": [
            {"when": "broke off", "do": [{"say": "and the rest"}]},
            {"when": "go", "do": [{"call": "send", "with": {"text": "told"}}, {"hold": True, "say": "never heard"}]},
        ]
    }
    async with ModelEndpoint(script) as endpoint, a_gateway(tmp_path / "h", channel, provider, endpoint) as gateway:
        await channel.say("go to it")
        await endpoint.wait_for(2)
        (live,) = gateway.sessions.awake
        (lines,) = (gateway.home.session(live.session.id) / "state" / provider).glob("*.jsonl")
        live.kill(Ending("the test pulls the plug"))
        kept = [line for line in lines.read_bytes().splitlines(keepends=True) if b'"type":"used"' not in line]
        lines.write_bytes(b"".join(kept) + b'{"type":"used","tu')
        await channel.wait_for(2)
        await wait_until_settled(gateway)

        assert texts(channel) == ["told", "and the rest"]
    last = endpoint.calls[-1]
    assert last.count_text("go to it") == 1
    assert (
        last.count_text("its result was lost", "tool") == 1 and last.count_text("told") == 1
    )  # in the note of what was done


@pytest.mark.slow
async def test_a_follow_up_joins_the_turn_between_two_requests(
    tmp_path: Path, channel: FakeChannel, provider: str
) -> None:
    script = {
        "turns": [
            {"when": "and this", "do": [{"say": "both done"}]},
            {"when": "first", "do": [{"hold": True, "say": "first done"}]},
        ]
    }
    async with ModelEndpoint(script) as endpoint, a_gateway(tmp_path / "h", channel, provider, endpoint) as gateway:
        receipt = await channel.say("first")
        await endpoint.wait_for(1)
        later = await channel.say("and this")
        async with asyncio.timeout(PATIENCE_S):
            while True:
                (entry,) = await gateway.store.read(inbox.list_for_message, later.message_id)
                if entry.given:
                    break
                await asyncio.sleep(0.01)
        endpoint.release()
        await channel.wait_for(2)
        await wait_until_settled(gateway)

        assert texts(channel) == ["first done", "both done"]
        (before,) = await gateway.store.read(inbox.list_for_message, receipt.message_id)
        assert before.turn_id == entry.turn_id
    last = endpoint.calls[-1]
    assert [line.role for line in last.lines if line.role != "system"] == ["user", "assistant", "user"]


@pytest.mark.slow
async def test_without_a_key_the_sender_is_told_what_is_missing_and_no_vendor_is_asked(
    tmp_path: Path, channel: FakeChannel, provider: str
) -> None:
    """No endpoint of its own: the way out that every sandbox has, which wants a key for a vendor's."""
    model = {"anthropic": "claude-sonnet-4-5", "openai": "gpt-5-mini"}[provider]
    async with (
        ModelEndpoint() as endpoint,
        a_gateway(tmp_path / "h", channel, provider, endpoint, base_url=None, model=model) as gateway,
    ):
        await channel.say("hello")
        await channel.wait_for(1)
        await wait_until_settled(gateway)

        (notice,) = texts(channel)
        assert "account was not accepted" in notice and "key" in notice
