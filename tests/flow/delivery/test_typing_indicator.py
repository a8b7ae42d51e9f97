"""The sign that somebody is at work."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from gatepost.flow.delivery import typing_indicator
from gatepost.flow.delivery.outgoing_messages import ChannelInstances
from gatepost.flow.delivery.typing_indicator import TypingIndicator
from gatepost.messages.outbound import Feature
from gatepost_testing.channel import EVERYTHING, FakeChannel

ROOM = "fake:room/1"


class Deaf(FakeChannel):
    async def typing(self, address: str, thread: str, on: bool) -> None:
        raise RuntimeError("no")


@pytest.fixture
def channel() -> FakeChannel:
    return FakeChannel()


@pytest.fixture
async def shown(channel: FakeChannel) -> AsyncIterator[TypingIndicator]:
    deaf, mute = Deaf(), FakeChannel(features=EVERYTHING - {Feature.TYPING})
    channels = {"fake": channel, "deaf": deaf, "mute": mute}
    sign = TypingIndicator(channels, ChannelInstances({name: each.kind for name, each in channels.items()}))
    task = asyncio.create_task(sign.run())
    yield sign
    assert mute.typed == []
    assert not task.done()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def typed(channel: FakeChannel, count: int) -> list[bool]:
    await channel.wait_for(lambda _: len(channel.typed) >= count)
    return [on for _, _, on in channel.typed]


async def test_it_is_shown_while_a_turn_runs(shown: TypingIndicator, channel: FakeChannel) -> None:
    shown.start("fake", ROOM, "t")
    assert await typed(channel, 1) == [True]
    shown.stop("fake", ROOM, "t")

    assert await typed(channel, 2) == [True, False]
    assert channel.typed[0] == (ROOM, "t", True)


async def test_it_is_refreshed(shown: TypingIndicator, channel: FakeChannel, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(typing_indicator, "REFRESH_S", 0.01)
    sign = TypingIndicator({"fake": channel}, ChannelInstances({"fake": channel.kind}))
    task = asyncio.create_task(sign.run())
    sign.start("fake", ROOM, "")

    assert set(await typed(channel, 4)) == {True}  # a fifth may have come before we look

    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def test_it_pauses_after_a_delivery_until_the_next_event(shown: TypingIndicator, channel: FakeChannel) -> None:
    shown.start("fake", ROOM, "")
    await typed(channel, 1)
    shown.delivered("fake", ROOM, "")
    assert await typed(channel, 2) == [True, False]
    shown.start("fake", ROOM, "")

    assert await typed(channel, 3) == [True, False, True]


async def test_what_is_already_shown_is_not_told_again_and_a_stop_without_a_start_is_nothing(
    shown: TypingIndicator, channel: FakeChannel
) -> None:
    shown.stop("fake", ROOM, "")
    shown.delivered("fake", ROOM, "")
    shown.start("fake", ROOM, "")
    await typed(channel, 1)
    shown.start("fake", ROOM, "")
    shown.start("fake", "fake:room/2", "")

    await typed(channel, 2)

    assert [address for address, _, _ in channel.typed] == [ROOM, "fake:room/2"]


async def test_a_channel_that_fails_or_has_no_sign_disturbs_nobody(
    shown: TypingIndicator, channel: FakeChannel
) -> None:
    shown.start("deaf", ROOM, "")
    shown.start("mute", ROOM, "")
    shown.start("gone", ROOM, "")
    shown.start("fake", ROOM, "")

    assert await typed(channel, 1) == [True]
