"""What every agent keeps on a whole gateway: in bubblewrap, without a network and without a key, against the scripted
model. The words to which a script answers must not stand in what an agent says about itself."""

import asyncio
import pkgutil
from pathlib import Path
from typing import Any

import pytest

from gatepost.app import Gateway
from gatepost.flow.notices import INTERRUPTED
from gatepost.flow.sessions.session_ending import Ending
from gatepost.inside import providers
from gatepost.store.messages import inbox
from gatepost.store.money import costs, reservations
from gatepost.store.sessions import turns
from gatepost_testing.agent_profiles import AGENTS, KEY, PATIENCE, AgentProfile, run_agent_gateway
from gatepost_testing.channel import FakeChannel
from gatepost_testing.gateway import wait_until_settled
from gatepost_testing.models import ModelEndpoint

SCRIPT: dict[str, Any] = {
    "tools": True,
    "turns": [
        {"when": "which word", "recall": r"remember the word (\w+)", "do": [{"say": "The word is {1}."}]},
        {
            "when": r"remember the word (\w+)",
            "do": [{"call": "set_work", "with": {"content": "word: {1}"}}, {"say": "I will remember {1}."}],
        },
        {"when": "hello you", "do": [{"say": "here"}]},
    ],
}


def every(*, pushes: bool = False, shell: bool = False, later: tuple[str, ...] = ()) -> list[Any]:
    """As parameters of a test: named, skipped with the reason, slow where it is. `later`: slow, too, because another
    test of every day shows the same with them."""
    return [
        pytest.param(
            each,
            id=each.provider,
            marks=[
                pytest.mark.skipif(bool(each.missing), reason=each.missing or "it is there"),
                *([pytest.mark.slow] if each.slow or each.provider in later else []),
            ],
        )
        for each in AGENTS.values()
        if (each.pushes or not pushes) and (each.shell or not shell)
    ]


@pytest.fixture
def channel() -> FakeChannel:
    return FakeChannel()


async def until_given(gateway: Gateway, message: int) -> inbox.InboxEntry:
    async with asyncio.timeout(PATIENCE):
        while True:
            (entry,) = await gateway.store.read(inbox.list_for_message, message)
            if entry.given:
                return entry
            await asyncio.sleep(0.01)


def test_every_provider_that_asks_a_model_is_among_them() -> None:
    """But for those whose programs are not here: an emulator stands in for them in test_providers.py."""
    others = {"contract", "demo", "scripted", "gemini", "goose"}
    assert set(AGENTS) == {info.name for info in pkgutil.iter_modules(providers.__path__)} - others


@pytest.mark.parametrize("agent", every())
async def test_a_word_is_remembered_a_tool_is_used_and_no_key_is_inside(
    agent: AgentProfile, tmp_path: Path, channel: FakeChannel
) -> None:
    async with (
        ModelEndpoint(SCRIPT) as endpoint,
        run_agent_gateway(agent, tmp_path / "h", channel, endpoint) as gateway,
    ):
        (gateway.home.group("home") / "PERSONA.md").write_text("You like plums.")
        await channel.say("please remember the word plum")
        await channel.wait_for(1, timeout=PATIENCE)
        await channel.say("which word was it?")
        await channel.wait_for(2, timeout=PATIENCE)
        account = await wait_until_settled(gateway)
        (live,) = gateway.sessions.awake
        sums = await gateway.store.read(costs.list_sums, "group")

        assert channel.texts() == ["I will remember plum.", "The word is plum."]
        assert (gateway.home.group("home") / "work.md").read_text() == "word: plum"
        assert account.unaccounted == 0
        assert sum(each.micro for each in sums) > 0
        assert await gateway.store.read(reservations.sum_reserved) == 0
        for folder in (gateway.home.session(live.session.id), gateway.home.group("home")):
            assert not [path for path in folder.rglob("*") if path.is_file() and KEY.encode() in path.read_bytes()]
    first = next(call for call in endpoint.calls if call.tools)  # not what names a conversation
    last = endpoint.calls[-1]
    assert KEY in (first.headers.get("x-api-key"), first.headers.get("authorization", "").removeprefix("Bearer "))
    offered = {name.rpartition("__")[2].removeprefix("gatepost_") for name in first.tools}
    assert {"find_tools", "call_tool", "reply"} <= offered and "set_work" not in offered
    assert b"You like plums." in first.raw and b"How you are reached" in first.raw
    assert last.count_text("remember the word plum") == 1


@pytest.mark.slow
@pytest.mark.parametrize("agent", every(shell=True))
async def test_what_runs_inside_finds_no_key(agent: AgentProfile, tmp_path: Path, channel: FakeChannel) -> None:
    assert agent.shell is not None
    name, argument = agent.shell
    look = {argument: "env; cat /proc/[0-9]*/environ | tr '\\0' '\\n'", "description": "look"}
    if agent.provider == "codex":
        del look["description"]
    script = {
        "tools": True,
        "turns": [{"when": "look around", "do": [{"call": name, "with": look}, {"say": "looked"}]}],
    }
    async with (
        ModelEndpoint(script) as endpoint,
        run_agent_gateway(agent, tmp_path / "h", channel, endpoint) as gateway,
    ):
        await channel.say("look around")
        await channel.wait_for(1, timeout=PATIENCE)
        await wait_until_settled(gateway)

        assert channel.texts() == ["looked"]
    last = endpoint.calls[-1]
    assert last.count_text("_API_KEY=gatepost", "tool") > 0
    assert KEY.encode() not in last.raw


@pytest.mark.slow
@pytest.mark.parametrize("agent", every())
async def test_two_turns_with_a_restart_between_them_are_one_conversation(
    agent: AgentProfile, tmp_path: Path, channel: FakeChannel
) -> None:
    async with ModelEndpoint(SCRIPT) as endpoint:
        async with run_agent_gateway(agent, tmp_path / "h", channel, endpoint) as gateway:
            await channel.say("remember the word plum")
            await channel.wait_for(1, timeout=PATIENCE)
            await wait_until_settled(gateway)
        later = FakeChannel()
        async with run_agent_gateway(agent, tmp_path / "h", later, endpoint) as gateway:
            (gateway.home.group("home") / "PERSONA.md").write_text("You like pears now.")
            await later.say("which word was it?", platform_id="later-1")
            await later.wait_for(1, timeout=PATIENCE)
            await wait_until_settled(gateway)

            assert later.texts() == ["The word is plum."]
    last = endpoint.calls[-1]
    assert last.count_text("remember the word plum") == 1
    assert b"You like pears now." in last.raw


@pytest.mark.slow
@pytest.mark.parametrize("agent", every())
async def test_a_killed_turn_is_continued_without_its_prompt_twice_and_its_tool_has_one_effect(
    agent: AgentProfile, tmp_path: Path, channel: FakeChannel
) -> None:
    script = {
        "tools": True,
        "turns": [
            {"when": "broke off", "do": [{"say": "and the rest"}]},
            {
                "when": "go to it",
                "do": [{"call": "send", "with": {"text": "told"}}, {"hold": True, "say": "never heard"}],
            },
        ],
    }
    async with (
        ModelEndpoint(script) as endpoint,
        run_agent_gateway(agent, tmp_path / "h", channel, endpoint) as gateway,
    ):
        receipt = await channel.say("go to it")
        await channel.wait_for(1, timeout=PATIENCE)
        await endpoint.wait_for(2, timeout=PATIENCE)  # the tool's answer is on its way to the model
        (live,) = gateway.sessions.awake
        live.kill(Ending("the test pulls the plug"))
        await channel.wait_for(lambda sent: "and the rest" in channel.texts(), timeout=PATIENCE)
        account = await wait_until_settled(gateway)

        # On a slow machine the person has waited long enough to be told.
        assert [text for text in channel.texts() if text != INTERRUPTED] == ["told", "and the rest"]
        (entry,) = await gateway.store.read(inbox.list_for_message, receipt.message_id)
        turn = await gateway.store.read(turns.get, entry.turn_id or "")
        assert entry.state == "answered" and turn is not None and turn.attempt == 2
        assert account.unaccounted == 0
    last = endpoint.calls[-1]
    assert last.count_text("go to it") == 1 and last.count_text("broke off") == 1


@pytest.mark.slow
@pytest.mark.parametrize("agent", every(pushes=True, later=("claude",)))
async def test_a_follow_up_joins_a_turn_that_runs(agent: AgentProfile, tmp_path: Path, channel: FakeChannel) -> None:
    """Whether an agent then goes on with the first plan or the new one is its own affair; both are answered."""
    script = {
        "tools": True,
        "turns": [
            {"when": "plus pears", "do": [{"say": "both done"}]},
            {"when": "start with plums", "do": [{"hold": True, "call": "get_work"}, {"say": "both done"}]},
        ],
    }
    async with (
        ModelEndpoint(script) as endpoint,
        run_agent_gateway(agent, tmp_path / "h", channel, endpoint) as gateway,
    ):
        receipt = await channel.say("start with plums")
        await endpoint.wait_for(1, timeout=PATIENCE)
        later = await channel.say("plus pears")
        entry = await until_given(gateway, later.message_id)
        endpoint.release()
        await channel.wait_for(1, timeout=PATIENCE)
        account = await wait_until_settled(gateway)

        assert channel.texts()[-1] == "both done"
        (before,) = await gateway.store.read(inbox.list_for_message, receipt.message_id)
        assert before.turn_id == entry.turn_id
        assert account.unaccounted == 0
    assert endpoint.calls[-1].raw.count(b"plus pears") == 1


@pytest.mark.slow
@pytest.mark.parametrize("agent", every(later=("claude",)))
async def test_stop_ends_a_request_that_hangs_and_the_next_turn_goes_on(
    agent: AgentProfile, tmp_path: Path, channel: FakeChannel
) -> None:
    hang = {"when": "hang on", "do": [{"fault": "hang", "times": -1}]}
    script = {"tools": True, "turns": [SCRIPT["turns"][2], hang]}
    async with (
        ModelEndpoint(script) as endpoint,
        run_agent_gateway(agent, tmp_path / "h", channel, endpoint) as gateway,
    ):
        await channel.say("hang on")
        await endpoint.wait_for(1, timeout=PATIENCE)
        (live,) = gateway.sessions.awake
        await gateway.sessions.stop(live.session.id, "test")
        await channel.wait_for(1, timeout=PATIENCE)
        await channel.say("hello you")
        await channel.wait_for(2, timeout=PATIENCE)
        await wait_until_settled(gateway)

        assert channel.texts() == ["Stopped.", "here"]


@pytest.mark.slow
@pytest.mark.parametrize("agent", every())
async def test_a_key_that_is_not_accepted_is_told_in_plain_words(
    agent: AgentProfile, tmp_path: Path, channel: FakeChannel
) -> None:
    async with (
        ModelEndpoint(SCRIPT, key="another") as endpoint,
        run_agent_gateway(agent, tmp_path / "h", channel, endpoint, retries=1) as gateway,
    ):
        await channel.say("hello you")
        await channel.wait_for(1, timeout=PATIENCE)
        await wait_until_settled(gateway)

        (notice,) = channel.texts()
        assert notice.startswith("Sorry, I could not answer your message: the agent's account was not accepted.")
