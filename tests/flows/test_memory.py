"""Memory through the whole gateway: kept by a tool, told in a later conversation, and never where others read."""

from pathlib import Path
from typing import Any

import pytest

from gatepost.app import Gateway
from gatepost.store.memory import memories, memory_views
from gatepost.store.memory.memories import Memory, MemoryFilter, MemoryScope, MemoryTrust
from gatepost.store.people import users
from gatepost.store.port import Db
from gatepost_testing.agent_profiles import AGENTS, PATIENCE, run_agent_gateway
from gatepost_testing.channel import FakeChannel
from gatepost_testing.gateway import wait_until_settled
from gatepost_testing.models import ModelEndpoint

AGENT = AGENTS["anthropic"]
GOT_IT = [{"say": "got it"}]
PRIVATE, FAMILY = "fake:dm/ann", "fake:room/family"
ANN, BOB = "fake:user/ann", "fake:user/bob"


def script_keeping(text: str) -> dict[str, Any]:
    keep = {"when": "remember", "do": [{"call": "remember", "with": {"text": text}}, {"say": "kept"}]}
    return {"tools": True, "turns": [keep], "default": GOT_IT}


def add_people(db: Db) -> None:
    for person in (ANN, BOB):
        users.add(db, person, "", 1)
        users.add_member(db, person, "home", "test", 1)


async def remembered(gateway: Gateway) -> list[Memory]:
    return await gateway.store.read(memories.list_chosen, MemoryFilter(), gateway.clock.now())


async def ask(channel: FakeChannel, gateway: Gateway, text: str, *, sender: str, address: str, count: int) -> None:
    await channel.say(text, sender=sender, address=address, direct=address == PRIVATE)
    await channel.wait_for(count, timeout=PATIENCE)
    await wait_until_settled(gateway)


async def test_what_ann_said_in_private_comes_up_with_her_after_a_restart_and_not_in_the_family(tmp_path: Path) -> None:
    home = tmp_path / "h"
    async with ModelEndpoint(script_keeping("Ann is allergic to walnuts.")) as endpoint:
        channel = FakeChannel()
        async with run_agent_gateway(AGENT, home, channel, endpoint) as gateway:
            await gateway.store.write(add_people)
            await ask(channel, gateway, "remember: no walnuts", sender=ANN, address=PRIVATE, count=1)
            (kept,) = await remembered(gateway)
            assert (kept.scope, kept.speaker, kept.person) == ("person", ANN, ANN)

        endpoint.play({"tools": True, "default": GOT_IT})
        channel = FakeChannel()
        async with run_agent_gateway(AGENT, home, channel, endpoint) as gateway:
            await ask(channel, gateway, "which walnuts may Ann eat?", sender=BOB, address=FAMILY, count=1)
            assert b"allergic" not in endpoint.calls[-1].raw
            await ask(channel, gateway, "which walnuts may I eat?", sender=ANN, address=FAMILY, count=2)
            assert b"allergic" not in endpoint.calls[-1].raw
            await ask(channel, gateway, "/new", sender=ANN, address=PRIVATE, count=3)
            await ask(channel, gateway, "which walnuts may I eat?", sender=ANN, address=PRIVATE, count=4)
            assert endpoint.calls[-1].raw.count(b"allergic to walnuts") == 1
            await ask(channel, gateway, "and today?", sender=ANN, address=PRIVATE, count=5)
            assert endpoint.calls[-1].raw.count(b"allergic to walnuts") == 1  # it is in the conversation already


@pytest.mark.slow
async def test_memory_md_is_written_before_the_agent_wakes_and_its_wishes_are_never_told(tmp_path: Path) -> None:
    home, channel = tmp_path / "h", FakeChannel()
    async with ModelEndpoint({"tools": True, "default": GOT_IT}) as endpoint:
        async with run_agent_gateway(AGENT, home, channel, endpoint) as gateway:
            await gateway.store.write(add_people)
            wide = {"scope": MemoryScope.AGENT, "trust": MemoryTrust.MEMBER, "created_at": 1}
            await gateway.store.write(memories.add, Memory(folder="home", text="Walnuts are in the pantry.", **wide))
            await gateway.store.write(memory_views.put, "home", {}, 1)
            file = home / "groups" / "home" / "MEMORY.md"
            file.write_text("- Walnuts belong to eve.\n")
            await ask(channel, gateway, "where are the walnuts?", sender=ANN, address=FAMILY, count=1)
            text = file.read_text()

    assert "- Walnuts are in the pantry. <!-- 1 -->" in text and "- Walnuts belong to eve." in text
    assert b"pantry" in endpoint.calls[-1].raw and b"belong to eve" not in endpoint.calls[-1].raw
