"""Attacks from inside one group, and what its neighbours notice of them: nothing that a step of ours could be blamed
for. The table is open for further rows."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from gatepost.app import Gateway
from gatepost.flow.intake import routing
from gatepost.store.rooms import routes
from gatepost.store.sessions import groups
from gatepost_testing.channel import FakeChannel
from gatepost_testing.gateway import open_room, running_gateway
from gatepost_testing.provider import ScriptBuilder
from gatepost_testing.slow_steps import assert_no_slow_steps

ROOM, NEIGHBOUR = "fake:room/1", "fake:room/2"
HEAVY = "|".join(["**/?a?*[!b-z]*/**"] * 20)
FITS = routing.MOST_CHARACTERS // (len(HEAVY) + 8)
TEXT = "ab" * 2000
ROUTES = {
    "a repetition without end": [{"match": "text=/(?:){4000000000}/", "target": "acme"}],
    "many heavy globs": [{"match": f"room={n}{HEAVY}", "target": "acme"} for n in range(FITS)],
    "too many of them": [{"match": f"room={n}{HEAVY}", "target": "acme"} for n in range(190)],
    "expressions of many states": [{"match": f"text=/(a|b)*a(a|b){{{n}}}c/", "target": "acme"} for n in range(10, 99)],
    "large expressions": [{"match": f"text=/(a{{1,9}}){{1,{n}}}c{n}/", "target": "acme"} for n in range(9, 20)],
}


@pytest.fixture
async def channel() -> FakeChannel:
    return FakeChannel()


@pytest.fixture
async def gateway(tmp_path: Path, channel: FakeChannel) -> AsyncIterator[Gateway]:
    async with running_gateway(tmp_path / "h", {"fake": (channel.kind, channel)}) as gateway:
        await gateway.store.write(groups.add, "acme", "acme", "scripted", 1)
        match = f"chat_jid={ROOM}"
        route = routes.Route(seq=1, match=match, target="acme", folder="acme", created_by="operator", created_at=1)
        await gateway.store.write(routes.add, route)
        for room in (ROOM, NEIGHBOUR):
            await open_room(gateway, "fake", room)
        yield gateway


@pytest.mark.slow
@pytest.mark.parametrize("attack", list(ROUTES))
async def test_stranger_03_what_an_agent_writes_into_routes_holds_nobody_up(
    gateway: Gateway, channel: FakeChannel, attack: str
) -> None:
    ScriptBuilder().turn(when="attack").call("set_routes", routes=ROUTES[attack]).say("tried").write(
        gateway.home.group("acme")
    )
    await channel.say("hello", address=NEIGHBOUR)  # everything is loaded and warm
    await channel.wait_for(1)
    async with assert_no_slow_steps(gateway):
        await channel.say("attack", address=ROOM)
        await channel.wait_for(2)
        await channel.say(TEXT, address=ROOM)  # what was written is asked now, in the transaction
        await channel.say("hello again", address=NEIGHBOUR)
        await channel.wait_for(lambda sent: any(each.message.text == "echo: hello again" for each in sent))
