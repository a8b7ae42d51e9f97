"""Messages of one moment: whatever the clock says, each reaches the agent once."""

from pathlib import Path

import pytest

from gatepost.store.port import Db
from gatepost_testing.channel import FakeChannel
from gatepost_testing.clock import FixedClock
from gatepost_testing.gateway import open_room, running_gateway, wait_until_settled
from gatepost_testing.provider import ScriptBuilder

ROOM = "fake:room/1"


def list_moments(db: Db) -> list[tuple[int, str]]:
    rows = db.rows("SELECT m.at, i.state FROM inbox i JOIN messages m ON m.id = i.message_id ORDER BY i.id")
    return [(row[0], row[1]) for row in rows]


@pytest.mark.parametrize("restarted", [False, True])
async def test_arizuko_40_of_two_messages_of_one_moment_the_later_one_is_not_lost(
    tmp_path: Path, channel: FakeChannel, restarted: bool
) -> None:
    """The second is stored after the first was answered, at the same microsecond; perhaps by another process."""
    clock = FixedClock()
    channels = {"fake": (channel.kind, channel)}
    async with running_gateway(tmp_path / "h", channels, clock=clock) as gateway:
        await open_room(gateway, "fake", ROOM)
        ScriptBuilder().turn("number (.*)").say("got {1}").write(gateway.home.group("home")).chmod(0o644)
        await channel.say("number 1")
        await channel.wait_for(lambda sent: any(each.message.text == "got 1" for each in sent))
        await wait_until_settled(gateway)
        if not restarted:
            await channel.say("number 2")
            await channel.wait_for(lambda sent: any(each.message.text == "got 2" for each in sent))
            await wait_until_settled(gateway)
    async with running_gateway(tmp_path / "h", channels, clock=clock) as gateway:
        if restarted:
            await channel.say("number 2")
            await channel.wait_for(lambda sent: any(each.message.text == "got 2" for each in sent))
        await wait_until_settled(gateway)
        assert channel.texts(ROOM) == ["got 1", "got 2"]
        assert await gateway.store.read(list_moments) == [(clock.now(), "answered")] * 2
