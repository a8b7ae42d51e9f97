"""A group is given another provider: what was said before is known to it, and so is what was said meanwhile when the
first one comes back."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from gatepost.app import Gateway
from gatepost.store.sessions import groups, sessions
from gatepost_testing.channel import FakeChannel
from gatepost_testing.gateway import open_room, running_gateway, wait_until_settled
from gatepost_testing.models import ModelEndpoint

ROOM = "fake:room/1"
SCRIPT: dict[str, Any] = {
    "turns": [
        {"when": "which word", "recall": r"remember the word (\w+)", "do": [{"say": "The word is {1}."}]},
        {"when": "which word", "do": [{"say": "I know no word."}]},
        {
            "when": r"remember the word (\w+)",
            "do": [{"call": "set_work", "with": {"content": "word: {1}"}}, {"say": "I will remember {1}."}],
        },
    ]
}


@asynccontextmanager
async def a_gateway(path: Path, channel: FakeChannel, endpoint: ModelEndpoint) -> AsyncIterator[Gateway]:
    async with running_gateway(path, {"fake": (channel.kind, channel)}) as gateway:
        await switch(gateway, "anthropic", endpoint)
        await open_room(gateway, "fake", ROOM)
        yield gateway


async def switch(gateway: Gateway, provider: str, endpoint: ModelEndpoint) -> None:
    base = endpoint.anthropic if provider == "anthropic" else endpoint.openai
    values = {"provider": provider, "model": "small-1", "options": {"base_url": base}}
    await gateway.store.write(groups.update, "home", values)
    gateway.events.group("home")


async def ask(gateway: Gateway, channel: FakeChannel, text: str) -> str:
    before = len(channel.sent)
    await channel.say(text)
    await channel.wait_for(before + 1)
    await wait_until_settled(gateway)
    return channel.sent[-1].message.text


@pytest.mark.slow
async def test_another_provider_knows_what_was_said_and_what_is_being_done(tmp_path: Path) -> None:
    channel = FakeChannel()
    async with ModelEndpoint(SCRIPT) as endpoint, a_gateway(tmp_path / "h", channel, endpoint) as gateway:
        await ask(gateway, channel, "remember the word plum")
        await switch(gateway, "openai", endpoint)

        assert await ask(gateway, channel, "which word was it?") == "The word is plum."
        assert (gateway.home.group("home") / "work.md").read_text() == "word: plum"
        assert len(await gateway.store.read(sessions.list_open, "home")) == 1
    first = endpoint.calls[-1]
    assert first.path.endswith("/chat/completions")
    assert first.count_text("<history>") == 1 and first.count_text("I will remember plum.") == 1


@pytest.mark.slow
async def test_it_is_told_once_and_the_first_provider_hears_only_what_it_missed(tmp_path: Path) -> None:
    channel = FakeChannel()
    async with ModelEndpoint(SCRIPT) as endpoint, a_gateway(tmp_path / "h", channel, endpoint) as gateway:
        await ask(gateway, channel, "remember the word plum")
        await switch(gateway, "openai", endpoint)
        await ask(gateway, channel, "remember the word pear")
        await ask(gateway, channel, "which word was it?")
        told = endpoint.calls[-1]
        await switch(gateway, "anthropic", endpoint)

        assert await ask(gateway, channel, "which word was it?") == "The word is pear."
    last = endpoint.calls[-1]
    assert told.count_text("<history>") == 1
    assert last.count_text("<history>") == 1 and last.count_text("remember the word plum") == 1
    assert last.count_text("remember the word pear") == 1


@pytest.mark.slow
async def test_a_fresh_start_is_one_for_every_provider(tmp_path: Path) -> None:
    channel = FakeChannel()
    async with ModelEndpoint(SCRIPT) as endpoint, a_gateway(tmp_path / "h", channel, endpoint) as gateway:
        await ask(gateway, channel, "remember the word plum")
        (session,) = await gateway.store.read(sessions.list_open, "home")
        await gateway.store.write(sessions.remove_conversations, session.id, gateway.clock.now())
        await switch(gateway, "openai", endpoint)

        assert await ask(gateway, channel, "which word was it?") == "I know no word."
    assert endpoint.calls[-1].count_text("<history>") == 0


LONG = "and what else was said about the plums " * 40
TALK: dict[str, Any] = {
    "tools": True,
    "side": "SUMMARY: the word is plum.",
    "turns": [{"when": "which word", "recall": r"the word is (\w+)", "do": [{"say": "The word is {1}."}]}],
    "default": [{"say": "I see."}],
}


@pytest.mark.slow
@pytest.mark.parametrize(("first", "second"), [("anthropic", "openai"), ("openai", "anthropic")])
async def test_a_long_conversation_goes_on_with_another_provider_of_a_smaller_window_and_back(
    tmp_path: Path, first: str, second: str
) -> None:
    channel = FakeChannel()
    async with ModelEndpoint(TALK) as endpoint, a_gateway(tmp_path / "h", channel, endpoint) as gateway:
        await switch(gateway, first, endpoint)
        await ask(gateway, channel, "the word is plum")
        for _ in range(20):
            await ask(gateway, channel, LONG)
        endpoint.window = 40_000  # the gateway's own tools need most of that
        await switch(gateway, second, endpoint)
        for _ in range(3):
            await ask(gateway, channel, LONG)
        await switch(gateway, first, endpoint)
        await ask(gateway, channel, "which word was it?")

        texts = channel.texts()
        assert texts.count("I see.") == 24 and "The word is plum." in texts
        assert not any(text.startswith("Sorry") for text in texts)
