"""The fake fails exactly as it was told to."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from gatepost.core.errors import Refused, Unavailable, Unsupported
from gatepost.messages.inbound import Inbound, Receipt
from gatepost.messages.outbound import Feature, Op, Outbound
from gatepost_testing.channel import EVERYTHING, FakeChannel, SendFault

ROOM = "fake:room/1"
A_MOMENT_S = 0.01


@pytest.fixture
def channel() -> FakeChannel:
    return FakeChannel()


def hello(key: str = "k") -> Outbound:
    return Outbound(key=key, text="hello")


async def test_what_is_sent_can_be_seen_and_looked_up(channel: FakeChannel) -> None:
    platform_id = await channel.send(ROOM, hello())

    (sent,) = await channel.wait_for(1)
    assert (sent.address, sent.message.text, sent.platform_id) == (ROOM, "hello", platform_id)
    assert await channel.look_up(ROOM, "k") == platform_id
    assert await channel.look_up(ROOM, "other") is None


async def test_lost_says_that_it_was_sent_and_nobody_sees_it(channel: FakeChannel) -> None:
    channel.script(SendFault.LOSE)

    assert await channel.send(ROOM, hello())
    assert channel.texts() == []
    assert len(channel.tried) == 1


async def test_faults_come_in_order_and_then_end(channel: FakeChannel) -> None:
    channel.script(SendFault.REFUSE, SendFault.UNAVAILABLE, SendFault.BREAK, retry_after=7)

    with pytest.raises(Refused):
        await channel.send(ROOM, hello())
    with pytest.raises(Unavailable) as caught:
        await channel.send(ROOM, hello())
    assert (caught.value.retry_after, caught.value.uncertain) == (7, False)
    with pytest.raises(RuntimeError):
        await channel.send(ROOM, hello())
    await channel.send(ROOM, hello())
    assert channel.texts() == ["hello"]


@pytest.mark.parametrize(("fault", "seen"), [(SendFault.UNCERTAIN, ["hello"]), (SendFault.UNCERTAIN_LOST, [])])
async def test_uncertain_may_have_happened_or_not(channel: FakeChannel, fault: SendFault, seen: list[str]) -> None:
    channel.script(fault)

    with pytest.raises(Unavailable) as caught:
        await channel.send(ROOM, hello())

    assert caught.value.uncertain
    assert channel.texts() == seen


async def test_timed_out_after_accepting_happens_and_never_answers(channel: FakeChannel) -> None:
    channel.script(SendFault.TIMEOUT_AFTER)
    sending = asyncio.create_task(channel.send(ROOM, hello()))

    await channel.wait_for(1)

    assert not sending.done()
    sending.cancel()


async def test_delayed_waits_to_be_released(channel: FakeChannel) -> None:
    channel.script(SendFault.DELAY)
    sending = asyncio.create_task(channel.send(ROOM, hello()))
    await channel.wait_for(lambda _: bool(channel.tried))
    assert channel.texts() == []

    channel.release()

    assert await sending
    assert channel.texts() == ["hello"]


async def test_one_key_is_one_effect_where_the_platform_deduplicates() -> None:
    channel = FakeChannel(features=EVERYTHING | {Feature.KEYED})

    assert await channel.send(ROOM, hello()) == await channel.send(ROOM, hello())
    assert channel.texts() == ["hello"]


async def test_a_verb_that_it_was_not_given_is_unsupported() -> None:
    channel = FakeChannel(features=frozenset())

    with pytest.raises(Unsupported):
        await channel.send(ROOM, Outbound(key="k", op=Op.EDIT, target="m1", text="x"))


async def test_waiting_in_vain_says_what_was_sent(channel: FakeChannel) -> None:
    await channel.send(ROOM, hello())

    with pytest.raises(AssertionError, match="hello"):
        await channel.wait_for(2, timeout=A_MOMENT_S)


class Ear:
    """What the channel hands in."""

    def __init__(self) -> None:
        self.heard: list[Inbound] = []

    async def receive(self, inbound: Inbound) -> Receipt:
        new = all(inbound.platform_id != known.platform_id for known in self.heard)
        self.heard.append(inbound)
        return Receipt(message_id=len(self.heard), new=new, state="queued")


@pytest.fixture
async def ear(channel: FakeChannel) -> AsyncIterator[Ear]:
    ear = Ear()
    task = asyncio.create_task(channel.listen(ear.receive))
    yield ear
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def test_what_somebody_says_is_handed_in(channel: FakeChannel, ear: Ear) -> None:
    receipt = await channel.say("hello", sender="fake:user/ann")
    await channel.say("again")

    assert receipt.new
    first, second = ear.heard
    assert (first.text, first.address, first.sender, first.sender_name) == ("hello", ROOM, "fake:user/ann", "ann")
    assert first.platform_id != second.platform_id


async def test_a_platform_that_delivers_twice_hands_in_the_same_event_twice(channel: FakeChannel, ear: Ear) -> None:
    await channel.say("hello", times=2)

    assert ear.heard[0] == ear.heard[1]
    assert [receipt.new for receipt in channel.receipts] == [True, False]
