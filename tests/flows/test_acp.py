"""acp on a whole gateway: an agent that speaks the protocol (`opencode acp`) in bubblewrap, without a network and
without a key, against the scripted model. The words to which a script answers must not stand in what the agent is told
about itself."""

import json
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from gatepost.app import Gateway
from gatepost.core.keyring import Keyring
from gatepost.store import costs, groups, inbox, reservations, secrets, turns
from gatepost.testing import programs
from gatepost.testing.channel import FakeChannel
from gatepost.testing.gateway import open_room, running_gateway, settled
from gatepost.testing.models import ModelEndpoint

ROOM = "fake:room/1"
KEY = "sk-very-secret-000"
PATIENCE = 120.0
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

CONFIG = {
    "model": "gateway/gpt-4o",
    "provider": {
        "gateway": {
            "npm": "@ai-sdk/openai-compatible",
            "options": {"baseURL": "{env:OPENAI_BASE_URL}", "apiKey": "{env:OPENAI_API_KEY}"},
            "models": {"gpt-4o": {}},
        }
    },
}
OPTIONS = {"command": "opencode acp", "env": {"OPENCODE_CONFIG_CONTENT": json.dumps(CONFIG)}}

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(shutil.which("bwrap") is None, reason="bubblewrap is not installed"),
    pytest.mark.skipif(programs.find("opencode") is None, reason="opencode is not installed: make test-all does it"),
]


@pytest.fixture
def channel() -> FakeChannel:
    return FakeChannel()


@asynccontextmanager
async def a_gateway(
    path: Path, channel: FakeChannel, endpoint: ModelEndpoint, **options: Any
) -> AsyncIterator[Gateway]:
    path.parent.chmod(0o711)
    given: dict[str, Any] = {
        "sandbox__kind": "bubblewrap",
        "sessions__provider": "acp",
        "openai__base_url": endpoint.openai,
        "programs": [f"opencode={programs.find('opencode')}"],
    }
    async with running_gateway(path, {"fake": (channel.kind, channel)}, **given) as gateway:
        await gateway.store.write(groups.change, "home", {**OPTIONS, **options})
        keyring, now = Keyring(gateway.home), gateway.clock.now()
        await gateway.store.write(secrets.put, keyring, secrets.Place(), secrets.OPENAI_API_KEY, KEY, now)
        await open_room(gateway, "fake", ROOM)
        yield gateway


def texts(channel: FakeChannel) -> list[str]:
    return [sent.message.text for sent in channel.sent]


async def test_a_word_is_remembered_a_tool_is_used_and_no_key_is_inside(tmp_path: Path, channel: FakeChannel) -> None:
    async with ModelEndpoint(SCRIPT) as endpoint, a_gateway(tmp_path / "h", channel, endpoint) as gateway:
        (gateway.home.group("home") / "PERSONA.md").write_text("You like plums.")
        await channel.say("please remember the word plum")
        await channel.wait_for(1, timeout=PATIENCE)
        await channel.say("which word was it?")
        await channel.wait_for(2, timeout=PATIENCE)
        account = await settled(gateway)
        (live,) = gateway.sessions.awake
        sums = await gateway.store.read(costs.sums, "group")

        assert texts(channel) == ["I will remember plum.", "The word is plum."]
        assert (gateway.home.group("home") / "work.md").read_text() == "word: plum"
        assert account.unaccounted == 0
        assert sum(each.micro for each in sums) > 0
        assert await gateway.store.read(reservations.in_flight) == 0
        for folder in (gateway.home.session(live.session.id), gateway.home.group("home")):
            assert not [path for path in folder.rglob("*") if path.is_file() and KEY.encode() in path.read_bytes()]
    first = next(call for call in endpoint.calls if call.tools)
    last = endpoint.calls[-1]
    assert first.headers.get("authorization") == f"Bearer {KEY}"
    assert {"gatepost_set_work", "gatepost_reply", "bash"} <= set(first.tools)
    assert last.said("You like plums.") == last.said("How you are reached") == 1
    assert last.said("remember the word plum") == 1


async def test_what_runs_inside_finds_no_key(tmp_path: Path, channel: FakeChannel) -> None:
    command = "env; cat /proc/[0-9]*/environ | tr '\\0' '\\n'"
    look = {"call": "bash", "with": {"command": command, "description": "Looks around"}}
    script = {"tools": True, "turns": [{"when": "look", "do": [look, {"say": "looked"}]}]}
    async with ModelEndpoint(script) as endpoint, a_gateway(tmp_path / "h", channel, endpoint, env=None) as gateway:
        (gateway.home.group("home") / "opencode.json").write_text(json.dumps(CONFIG))  # as docs/providers.md has it
        await channel.say("look around")
        await channel.wait_for(1, timeout=PATIENCE)
        await settled(gateway)

        assert texts(channel) == ["looked"]
    last = endpoint.calls[-1]
    assert last.said("OPENAI_API_KEY=gatepost", "tool") > 1
    assert KEY.encode() not in last.raw


async def test_two_turns_with_a_restart_between_them_are_one_conversation(tmp_path: Path, channel: FakeChannel) -> None:
    async with ModelEndpoint(SCRIPT) as endpoint:
        async with a_gateway(tmp_path / "h", channel, endpoint) as gateway:
            await channel.say("remember the word plum")
            await channel.wait_for(1, timeout=PATIENCE)
            await settled(gateway)
        later = FakeChannel()
        async with a_gateway(tmp_path / "h", later, endpoint) as gateway:
            (gateway.home.group("home") / "PERSONA.md").write_text("You like pears now.")
            await later.say("which word was it?", platform_id="later-1")
            await later.wait_for(1, timeout=PATIENCE)
            await settled(gateway)

            assert texts(later) == ["The word is plum."]
    last = endpoint.calls[-1]
    assert last.said("remember the word plum") == 1
    assert b"You like pears now." in last.raw


async def test_a_killed_turn_is_continued_without_its_prompt_twice_and_its_tool_has_one_effect(
    tmp_path: Path, channel: FakeChannel
) -> None:
    script = {
        "tools": True,
        "turns": [
            {"when": "broke off", "do": [{"say": "and the rest"}]},
            {"when": "go", "do": [{"call": "send", "with": {"text": "told"}}, {"hold": True, "say": "never heard"}]},
        ],
    }
    async with ModelEndpoint(script) as endpoint, a_gateway(tmp_path / "h", channel, endpoint) as gateway:
        receipt = await channel.say("go to it")
        await channel.wait_for(1, timeout=PATIENCE)
        await endpoint.wait_for(2, timeout=PATIENCE)  # the tool's answer is on its way to the model
        (live,) = gateway.sessions.awake
        live.kill("the test pulls the plug")
        await channel.wait_for(2, timeout=PATIENCE)
        account = await settled(gateway)

        assert texts(channel) == ["told", "and the rest"]
        (entry,) = await gateway.store.read(inbox.of_message, receipt.message_id)
        turn = await gateway.store.read(turns.get, entry.turn_id or "")
        assert entry.state == "answered" and turn is not None and turn.attempt == 2
        assert account.unaccounted == 0
    last = endpoint.calls[-1]
    assert last.said("go to it") == 1 and last.said("broke off") == 1


async def test_stop_ends_a_request_that_hangs_and_the_next_turn_goes_on(tmp_path: Path, channel: FakeChannel) -> None:
    hang = {"when": "hang", "do": [{"fault": "hang", "times": -1}]}
    script = {"tools": True, "turns": [SCRIPT["turns"][2], hang]}
    async with ModelEndpoint(script) as endpoint, a_gateway(tmp_path / "h", channel, endpoint) as gateway:
        await channel.say("hang")
        await endpoint.wait_for(1, timeout=PATIENCE)
        (live,) = gateway.sessions.awake
        await gateway.sessions.stop(live.session.id, "test")
        await channel.wait_for(1, timeout=PATIENCE)
        await channel.say("hello")
        await channel.wait_for(2, timeout=PATIENCE)
        await settled(gateway)

        assert texts(channel) == ["Stopped.", "here"]


async def test_a_key_that_is_not_accepted_is_told_in_plain_words(tmp_path: Path, channel: FakeChannel) -> None:
    async with (
        ModelEndpoint(SCRIPT, key="another") as endpoint,
        a_gateway(tmp_path / "h", channel, endpoint) as gateway,
    ):
        await channel.say("hello")
        await channel.wait_for(1, timeout=PATIENCE)
        await settled(gateway)

        (notice,) = texts(channel)
        assert notice.startswith("Sorry, I could not answer your message: the agent's account was not accepted.")
