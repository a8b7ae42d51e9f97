"""The signs of a turn, as people see them: that a message was read, and that somebody is at work."""

from pathlib import Path

import pytest
from msgspec.structs import replace

from gatepost.app import Gateway
from gatepost.messages.inbound import Verb
from gatepost_testing.channel import FakeChannel
from gatepost_testing.gateway import open_room, running_gateway, wait_until_settled
from gatepost_testing.provider import ScriptBuilder
from gatepost_testing.waiting import until

from .conftest import ROOM, add_route

STRICT = "fake:room/of-strangers"


async def prepare(gateway: Gateway, script: ScriptBuilder) -> None:
    await open_room(gateway, "fake", ROOM)
    await add_route(gateway, f"chat_jid={ROOM}", "home")
    script.write(gateway.home.group("home")).chmod(0o644)


async def test_a_message_is_marked_as_read_when_an_agent_takes_it_and_an_ignored_one_never(tmp_path: Path) -> None:
    channel = FakeChannel()
    script = ScriptBuilder().turn("hello").say("good day")
    async with running_gateway(tmp_path, {"fake": (replace(channel.kind, read_marks=True), channel)}) as gateway:
        await prepare(gateway, script)
        await channel.say("let me in", address=STRICT, sender="fake:user/stranger", platform_id="refused")
        await channel.say("hello", platform_id="taken")
        await until(lambda: channel.marked == [(ROOM, "taken")], "the read mark")
        await wait_until_settled(gateway)
        await channel.say("👍", verb=Verb.LIKE, event="reaction:1", platform_id="taken")
        await channel.say("hello again", platform_id="next")
        await until(lambda: len(channel.marked) > 1, "the next read mark")
        assert channel.marked == [(ROOM, "taken"), (ROOM, "next")]


async def test_without_the_option_nothing_is_marked_as_read(tmp_path: Path) -> None:
    channel = FakeChannel()
    async with running_gateway(tmp_path, {"fake": (channel.kind, channel)}) as gateway:
        await prepare(gateway, ScriptBuilder().turn("hello").say("good day"))
        await channel.say("hello")
        await wait_until_settled(gateway)
        assert channel.marked == []


ENDS = {
    "answer": ScriptBuilder().turn("play").wait_for("go").say("done"),
    "failure": ScriptBuilder().turn("play").wait_for("go").error("no money is left", kind="budget"),
    "stop": ScriptBuilder().turn("play").wait_for("never"),
}


@pytest.mark.slow
@pytest.mark.parametrize("end", ENDS)
async def test_typing_ends_with_the_answer_with_a_stop_and_with_a_failure(tmp_path: Path, end: str) -> None:
    channel = FakeChannel()
    async with running_gateway(tmp_path, {"fake": (channel.kind, channel)}) as gateway:
        await prepare(gateway, ENDS[end])
        await channel.say("play")
        await until(lambda: channel.typed == [(ROOM, "", True)], "the sign")
        if end == "stop":
            await channel.say("/stop")
        else:
            (gateway.home.group("home") / "go").touch()
        await wait_until_settled(gateway)
        await until(lambda: channel.typed[-1] == (ROOM, "", False), "the end of the sign")
