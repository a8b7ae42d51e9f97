"""What the group's folder says reaches every agent once, in its own way: persona, AGENTS.md, and each skill by name."""

from pathlib import Path
from typing import Any

import pytest

from gatepost.app import Gateway
from gatepost_testing.agent_profiles import AGENTS, PATIENCE, AgentProfile, run_agent_gateway
from gatepost_testing.agreed_skills import agree_to_skill
from gatepost_testing.channel import FakeChannel
from gatepost_testing.gateway import wait_until_settled
from gatepost_testing.models import ModelEndpoint

pytestmark = pytest.mark.slow  # real clients and processes, again and again

SKILL = "---\nname: plums\ndescription: How plums-are-dried, when somebody asks.\n---\nSlowly, in-the-sun.\n"
DRAFT = "---\nname: pears\ndescription: How pears-are-peeled, says the agent.\n---\n"
MARKS = (b"mark-of-the-persona", b"mark-of-the-agents-file", b"plums-are-dried", b"skills/plums/SKILL.md")


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


async def write_guidance(gateway: Gateway) -> None:
    folder = gateway.home.group("home")
    (folder / "PERSONA.md").write_text("You have the mark-of-the-persona.")
    (folder / "AGENTS.md").write_text("You have the mark-of-the-agents-file.")
    await agree_to_skill(gateway.store, "home", "plums", SKILL)
    draft = folder / "skills" / "pears"
    draft.mkdir(parents=True)
    (draft / "SKILL.md").write_text(DRAFT)


@pytest.mark.parametrize("agent", every())
async def test_each_word_of_the_groups_folder_is_told_once(agent: AgentProfile, tmp_path: Path) -> None:
    channel = FakeChannel()
    async with (
        ModelEndpoint({"tools": True, "default": [{"say": "here"}]}) as endpoint,
        run_agent_gateway(agent, tmp_path / "h", channel, endpoint) as gateway,
    ):
        await write_guidance(gateway)
        assert (gateway.home.group("home") / "CLAUDE.md").is_symlink()
        for number, text in enumerate(("hello you", "hello again"), start=1):
            await channel.say(text)
            await channel.wait_for(number, timeout=PATIENCE)
            await wait_until_settled(gateway)
    for call in endpoint.calls:
        if call.tools:  # not what names a conversation
            assert [call.raw.count(mark) for mark in MARKS] == [1, 1, 1, 1]
            assert b"in-the-sun" not in call.raw  # a skill is read when it is needed
            assert b"pears-are-peeled" not in call.raw  # nobody agreed to it
