"""Forks on a whole gateway, with every agent that there is, in its sandbox, against the scripted model: the child knows
what the parent was told, and the parent goes on as if nothing had happened."""

import json
from pathlib import Path
from typing import Any

import pytest

from gatepost.app import Gateway
from gatepost.flow.sessions.forking import ForkRequest
from gatepost.store.people import users
from gatepost.store.rights import audit
from gatepost.store.sessions import forks, sessions
from gatepost.store.sessions.forks import ForkMethod
from gatepost.store.sessions.sessions import Session
from gatepost_testing.agent_profiles import AGENTS, PATIENCE, AgentProfile, run_agent_gateway
from gatepost_testing.channel import FakeChannel
from gatepost_testing.gateway import running_gateway, wait_until_settled
from gatepost_testing.models import ModelEndpoint
from gatepost_testing.provider import ScriptBuilder

SCRIPT: dict[str, Any] = {
    "tools": True,
    "turns": [
        {"when": "which word", "recall": r"remember the word (\w+)", "do": [{"say": "The word is {1}."}]},
        {"when": "which colour", "recall": r"note the colour (\w+)", "do": [{"say": "The colour is {1}."}]},
        {"when": r"remember the word (\w+)", "do": [{"say": "I will remember {1}."}]},
        {"when": r"note the colour (\w+)", "do": [{"say": "I have noted {1}."}]},
        {"when": "branch off", "do": [{"call": "fork_topic", "with": {"child": "side"}}, {"say": "{result}"}]},
    ],
}


def every() -> list[Any]:
    return [
        pytest.param(
            each,
            id=each.provider,
            marks=[
                pytest.mark.skipif(bool(each.missing), reason=each.missing or "it is there"),
                *([pytest.mark.slow] if each.slow else []),
            ],
        )
        for each in AGENTS.values()
    ]


@pytest.fixture
def channel() -> FakeChannel:
    return FakeChannel()


async def find_session(gateway: Gateway, thread: str) -> Session:
    (found,) = [each for each in await gateway.store.read(sessions.list_open, "home") if each.thread == thread]
    return found


async def say(channel: FakeChannel, text: str, thread: str = "") -> str:
    """Return what the agent answers."""
    before = len(channel.sent)
    await channel.say(text, thread=thread)
    await channel.wait_for(before + 1, timeout=PATIENCE)
    return channel.texts()[-1]


def read_result(text: str) -> dict[str, Any]:
    """Agents put words of their own around what a tool answers."""
    found: dict[str, Any] = json.JSONDecoder().raw_decode(text[text.index('{"folder') :])[0]
    return found


def read_tree(folder: Path) -> dict[str, bytes]:
    """Transcripts. What a program keeps in its cache (logs of its own) comes and goes."""
    found = (path for path in folder.rglob("*.jsonl") if path.is_file() and ".cache" not in path.parts)
    return {str(path.relative_to(folder)): path.read_bytes() for path in found}


@pytest.mark.slow
@pytest.mark.parametrize("agent", every())
async def test_a_fork_knows_what_its_parent_was_told_and_the_parent_is_untouched(
    agent: AgentProfile, tmp_path: Path, channel: FakeChannel
) -> None:
    async with (
        ModelEndpoint(SCRIPT) as endpoint,
        run_agent_gateway(agent, tmp_path / "h", channel, endpoint) as gateway,
    ):
        await say(channel, "please remember the word plum")
        told = read_result(await say(channel, "now branch off"))
        await wait_until_settled(gateway)
        parent, child = await find_session(gateway, ""), await find_session(gateway, "side")
        conversation = await gateway.store.read(sessions.get_conversation, parent.id, agent.provider)
        before = read_tree(gateway.home.session(parent.id) / "state")

        assert told == {
            "folder": "home",
            "parent_topic": "",
            "child_topic": "side",
            "session_id": child.id,
            "how": "copied",
        }
        assert await say(channel, "which word was it?", "side") == "The word is plum."
        assert await say(channel, "now note the colour green", "side") == "I have noted green."
        await wait_until_settled(gateway)
        own = await gateway.store.read(sessions.get_conversation, child.id, agent.provider)
        lineage = await gateway.store.read(forks.get, child.id)

        assert conversation == await gateway.store.read(sessions.get_conversation, parent.id, agent.provider)
        assert read_tree(gateway.home.session(parent.id) / "state") == before
        assert lineage is not None and (lineage.parent_id, lineage.how) == (parent.id, ForkMethod.COPIED)
        assert (own != conversation) is (agent.provider != "acp")  # ACP agents go on in the copy itself
        assert await say(channel, "which word was it?") == "The word is plum."
        assert await say(channel, "which colour was it?") != "The colour is green."
        assert await say(channel, "which colour was it?", "side") == "The colour is green."
        account = await wait_until_settled(gateway)
        assert account.unaccounted == 0
    first = next(call for call in endpoint.calls if call.count_text("forked from another one"))
    assert first.count_text("remember the word plum") == 1
    last = next(call for call in reversed(endpoint.calls) if call.count_text("now note the colour green"))
    assert last.count_text("forked from another one") == 1


ONCE = ScriptBuilder().turn("what is it", once=True).say("a plum").turn("what is it").say("a plum, as I said")


async def test_people_fork_a_conversation_with_a_command_and_are_told_what_came_of_it(
    tmp_path: Path, channel: FakeChannel
) -> None:
    """The agent answers a second time only if its conversation holds the first."""
    async with running_gateway(tmp_path / "h", {"fake": (channel.kind, channel)}) as gateway:
        ONCE.write(gateway.home.group("home"))
        await gateway.store.write(users.add, "fake:user/1", "Ada", 1)
        await gateway.store.write(users.add_member, "fake:user/1", "home", "test", 1)
        await say(channel, "what is it")
        told = await say(channel, "/fork #side")
        again = await say(channel, "/fork side")

        assert told == "Forked. What is said in the topic side goes on from here. Write `#side …` to speak there."
        assert again == "This conversation was not forked: there is a conversation 'side'; choose another topic."
        assert await say(channel, "what is it", "side") == "a plum, as I said"
        assert await say(channel, "what is it", "another") == "a plum"
        account = await wait_until_settled(gateway)
        assert account.unaccounted == 0
        rows = [row[3] for row in await gateway.store.read(audit.list_latest, 20)]
        assert rows.count("session.fork") == 1


@pytest.mark.slow
async def test_a_fork_of_a_conversation_without_files_is_told_what_was_said(
    tmp_path: Path, channel: FakeChannel
) -> None:
    async with (
        ModelEndpoint(SCRIPT) as endpoint,
        run_agent_gateway(AGENTS["openai"], tmp_path / "h", channel, endpoint, sandbox="process") as gateway,
    ):
        await say(channel, "please remember the word plum")
        await wait_until_settled(gateway)
        parent = await find_session(gateway, "")
        await gateway.sessions.end(parent.id, "the test moves its files")
        (gateway.home.session(parent.id) / "state" / "openai").rename(tmp_path / "elsewhere")
        wish = ForkRequest(parent_id=parent.id, topic="side")
        made = await gateway.forker.fork(wish, gateway.store.write)

        assert made.how is ForkMethod.TRANSCRIPT
        assert await say(channel, "which word was it?", "side") == "The word is plum."
        assert await say(channel, "now note the colour green", "side") == "I have noted green."
    first, last = endpoint.calls[-2], endpoint.calls[-1]
    assert first.count_text("please remember the word plum") == last.count_text("please remember the word plum") == 1
    assert first.count_text("This was said there, oldest first") == 1
