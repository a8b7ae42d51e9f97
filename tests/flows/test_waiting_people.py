"""Somebody who waits for an answer sees why: it was interrupted, or all places are taken."""

from pathlib import Path

import pytest

from gatepost.flow import notices
from gatepost.flow.sessions import session_supervisor, turn_settlement
from gatepost_testing.channel import FakeChannel
from gatepost_testing.gateway import open_room, running_gateway, wait_until_settled
from gatepost_testing.provider import ScriptBuilder

ROOM, OTHER = "fake:room/1", "fake:room/2"


@pytest.mark.slow
@pytest.mark.parametrize(("after", "told"), [(0, [notices.INTERRUPTED]), (60_000_000, [])])
async def test_who_waits_for_an_interrupted_answer_is_told_once_that_it_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, after: int, told: list[str]
) -> None:
    monkeypatch.setattr(turn_settlement, "INTERRUPTED_AFTER", after)
    channel = FakeChannel()
    async with running_gateway(tmp_path / "h", {"fake": (channel.kind, channel)}, sessions__retry_s=0.1) as gateway:
        await open_room(gateway, "fake", ROOM)
        script = ScriptBuilder().turn("work").crash().say("done")
        script.write(gateway.home.group("home")).chmod(0o644)
        await channel.say("work")
        await channel.wait_for(len(told) + 1)
        await wait_until_settled(gateway)
        assert channel.texts() == [*told, "done"]


@pytest.mark.slow
@pytest.mark.parametrize(("after", "told"), [(0, [notices.INTERRUPTED]), (60_000_000, [])])
async def test_who_waits_while_the_gateway_is_away_is_told_once_that_it_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, after: int, told: list[str]
) -> None:
    channel = FakeChannel()
    for start in range(3):
        monkeypatch.setattr(turn_settlement, "INTERRUPTED_AFTER", after if start else 60_000_000)
        async with running_gateway(tmp_path / "h", {"fake": (channel.kind, channel)}) as gateway:
            if not start:
                await open_room(gateway, "fake", ROOM)
                script = ScriptBuilder().turn("work").say("one").wait_for("go").say("done")
                script.write(gateway.home.group("home")).chmod(0o644)
                await channel.say("work")
                await channel.wait_for(1)
            elif start == 2:
                (gateway.home.group("home") / "go").touch()
                await wait_until_settled(gateway)
            else:
                await channel.wait_for(1 + len(told))
    assert channel.texts() == ["one", *told, "done"]


@pytest.mark.slow
async def test_who_waits_for_a_place_sees_it_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session_supervisor, "NO_PLACE_S", 0.0)
    channel = FakeChannel()
    async with running_gateway(tmp_path / "h", {"fake": (channel.kind, channel)}, sessions__most_awake=1) as gateway:
        for room in (ROOM, OTHER):
            await open_room(gateway, "fake", room)
        script = ScriptBuilder().turn("long").say("begun").wait_for("go")
        script.write(gateway.home.group("home")).chmod(0o644)
        await channel.say("long", address=ROOM)
        await channel.wait_for(1)
        await channel.say("hello", address=OTHER)
        await channel.wait_for(2)
        assert channel.texts(OTHER) == [notices.NO_PLACE]
        (gateway.home.group("home") / "go").touch()
        await channel.wait_for(3)
        await wait_until_settled(gateway)
        assert channel.texts(OTHER) == [notices.NO_PLACE, "echo: hello"]
        assert channel.texts(ROOM) == ["begun"]
