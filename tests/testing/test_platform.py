"""The emulated platform: what it has on record is what people see."""

import asyncio
from pathlib import Path

import pytest

from gatepost.core.errors import Unavailable
from gatepost.messages.inbound import Inbound, Receipt
from gatepost.messages.outbound import Op, Outbound
from gatepost_testing.platform import Losses, LossyChannel, Platform, PlatformMessage


def channel_of(path: Path) -> LossyChannel:
    made = LossyChannel.__new__(LossyChannel)
    made.path, made._free = str(path), []
    return made


def message(text: str) -> Outbound:
    return Outbound(key=f"k-{text}", op=Op.SEND, text=text)


async def test_an_event_is_delivered_until_it_is_acknowledged(tmp_path: Path) -> None:
    got: list[str] = []

    async def receive(inbound: Inbound) -> Receipt:
        got.append(inbound.text)
        if len(got) == 1:
            raise Unavailable("the store")
        return Receipt(message_id=1, new=True, state="queued", reason="")

    with Platform(tmp_path / "p.sock") as platform:
        listening = asyncio.create_task(channel_of(tmp_path / "p.sock").listen(receive))
        name = platform.say("room/1", "hello")
        assert await asyncio.to_thread(platform.wait_until_accepted, name)
        listening.cancel()
        await asyncio.gather(listening, return_exceptions=True)
    assert len(got) >= 2 and set(got) == {"hello"} and platform.waiting() == 0


async def test_a_message_that_is_accepted_without_an_answer_is_on_record_and_can_be_looked_up(tmp_path: Path) -> None:
    with Platform(tmp_path / "p.sock", losses=Losses(unanswered=1.0)) as platform:
        channel = channel_of(tmp_path / "p.sock")
        with pytest.raises(Unavailable) as raised:
            await channel.send("lossy:room/1", message("hello"))
        assert raised.value.uncertain
        assert platform.record == [PlatformMessage("room/1", "hello", "k-hello", "out-1")]
        assert await channel.look_up("lossy:room/1", "k-hello") == "out-1"
        assert await channel.look_up("lossy:room/1", "k-other") is None


async def test_a_busy_platform_takes_nothing(tmp_path: Path) -> None:
    with Platform(tmp_path / "p.sock", losses=Losses(busy=1.0)) as platform:
        with pytest.raises(Unavailable) as raised:
            await channel_of(tmp_path / "p.sock").send("lossy:room/1", message("hello"))
        assert not raised.value.uncertain and platform.record == []
