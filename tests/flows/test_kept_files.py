"""Files that people send stay for the conversation, at the path that the prompt named."""

import re
from pathlib import Path
from typing import Any

import pytest

from gatepost.app import Gateway
from gatepost.messages.inbound import Attachment, Quote
from gatepost.store.people import users
from gatepost.store.sessions import sessions
from gatepost.tools.call import ReplayWish
from gatepost_testing.agent_profiles import AGENTS, PATIENCE, run_agent_gateway
from gatepost_testing.channel import FakeChannel
from gatepost_testing.gateway import wait_until_settled
from gatepost_testing.models import ModelEndpoint
from gatepost_testing.waiting import until

CSV = Attachment(name="a.csv", mime="text/csv", data=b"day,sold\n1,41\n")
AGENT = AGENTS["anthropic"]
GOT_IT: dict[str, Any] = {"tools": True, "default": [{"say": "got it"}]}


def script_reading(path: str) -> dict[str, Any]:
    read = {"when": "plot", "do": [{"call": "read_file", "with": {"path": path}}, {"say": "plotted"}]}
    return {"tools": True, "turns": [read], "default": [{"say": "got it"}]}


def find_path(endpoint: ModelEndpoint) -> str:
    found = re.search(rb"a\.csv, saved as ([^\]]+)\]", endpoint.calls[-1].raw)
    assert found is not None
    return found[1].decode()


async def show_then_ask(channel: FakeChannel, gateway: Gateway, endpoint: ModelEndpoint) -> None:
    """A file comes with one message; the next one needs it."""
    await channel.say("here is a.csv", attachments=(CSV,))
    await channel.wait_for(1, timeout=PATIENCE)
    await wait_until_settled(gateway)
    endpoint.play(script_reading(find_path(endpoint)))
    await channel.say("now plot it")
    await channel.wait_for(2, timeout=PATIENCE)
    await wait_until_settled(gateway)


async def test_a_file_is_there_when_its_turn_has_ended(tmp_path: Path) -> None:
    channel = FakeChannel()
    async with (
        ModelEndpoint(GOT_IT) as endpoint,
        run_agent_gateway(AGENT, tmp_path / "h", channel, endpoint) as gateway,
    ):
        await show_then_ask(channel, gateway, endpoint)

    assert endpoint.calls[-1].raw.count(b"1,41") == 1
    assert channel.texts() == ["got it", "plotted"]


@pytest.mark.slow
async def test_a_file_is_there_after_a_restart_and_in_a_fork(tmp_path: Path) -> None:
    channel = FakeChannel()
    async with ModelEndpoint(GOT_IT) as endpoint:
        async with run_agent_gateway(AGENT, tmp_path / "h", channel, endpoint) as gateway:
            await gateway.store.write(users.add, "fake:user/1", "Ada", 1)
            await gateway.store.write(users.add_member, "fake:user/1", "home", "test", 1)
            await channel.say("here is a.csv", attachments=(CSV,))
            await channel.wait_for(1, timeout=PATIENCE)
            await wait_until_settled(gateway)
            await channel.say("/fork side")
            await channel.wait_for(2, timeout=PATIENCE)
            await wait_until_settled(gateway)
        endpoint.play(script_reading(find_path(endpoint)))
        async with run_agent_gateway(AGENT, tmp_path / "h", channel, endpoint) as gateway:
            for number, thread in ((3, ""), (4, "side")):
                await channel.say("now plot it", thread=thread)
                await channel.wait_for(number, timeout=PATIENCE)
                await wait_until_settled(gateway)
                assert endpoint.calls[-1].raw.count(b"1,41") == 1


@pytest.mark.slow
@pytest.mark.parametrize("turns", [1, 2])
async def test_a_file_is_at_its_path_in_a_replay(tmp_path: Path, turns: int) -> None:
    channel = FakeChannel()
    async with (
        ModelEndpoint(GOT_IT) as endpoint,
        run_agent_gateway(AGENT, tmp_path / "h", channel, endpoint) as gateway,
    ):
        await show_then_ask(channel, gateway, endpoint)
        (session,) = await gateway.store.read(sessions.list_in_room, "fake:room/1")
        await gateway.replayer.start(session.id, ReplayWish(turns=turns), "operator", gateway.store.write)
        await until(lambda: len(endpoint.calls) == 4 + turns)
        await wait_until_settled(gateway)

    assert endpoint.calls[-1].raw.count(b"1,41") == 1


async def test_a_reply_to_a_message_with_a_file_names_its_path_again(tmp_path: Path) -> None:
    channel = FakeChannel()
    async with (
        ModelEndpoint(GOT_IT) as endpoint,
        run_agent_gateway(AGENT, tmp_path / "h", channel, endpoint) as gateway,
    ):
        await channel.say("here is a.csv", attachments=(CSV,), platform_id="m1")
        await channel.wait_for(1, timeout=PATIENCE)
        await wait_until_settled(gateway)
        path = find_path(endpoint)
        await channel.say("what is in this?", reply_to=Quote(platform_id="m1", text="here is a.csv"))
        await channel.wait_for(2, timeout=PATIENCE)
        await wait_until_settled(gateway)

    assert endpoint.calls[-1].count_text(f"[file: a.csv, saved as {path}]</quoted_message>") == 1
    assert endpoint.calls[-1].count_text(f"a.csv, saved as {path}]") == 2
