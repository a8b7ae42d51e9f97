"""iMessage by BlueBubbles: what the Mac's rows become, and gaps between them. The suite grades the rest."""

import hashlib
from collections.abc import Iterator
from typing import Any

import pytest

from gatepost.channels.contract import CHANNELS, ChannelEnded, EndReason, MemoryCursor, SupportsCheck
from gatepost.channels.imessage import wire
from gatepost.core import registry
from gatepost.core.errors import NotFound, Refused, Unavailable, Unsupported
from gatepost.messages.inbound import Verb
from gatepost.messages.outbound import Op, Outbound
from gatepost_testing.platforms.base import GivenFile, PlatformFault
from gatepost_testing.platforms.imessage import BlueBubblesPlatform
from gatepost_testing.platforms.wiring import listening, make_channel

ROW = {
    "originalROWID": 7,
    "guid": "A-1",
    "text": "hi",
    "handle": {"address": "+4930123"},
    "isFromMe": False,
    "itemType": 0,
    "dateCreated": 1_700_000_000_000,
    "chats": [{"guid": "iMessage;-;+4930123", "displayName": ""}],
}


@pytest.fixture
def platform() -> Iterator[BlueBubblesPlatform]:
    with BlueBubblesPlatform() as made:
        assert isinstance(made, BlueBubblesPlatform)
        yield made


def read(**changes: Any) -> wire.AppleMessage:
    found = wire.read_message({**ROW, **changes})
    assert found is not None
    return found


def test_a_row_becomes_a_message_of_a_person_in_a_private_chat() -> None:
    event = read(threadOriginatorGuid="A-0").inbound
    assert event is not None and event.direct and not event.own
    assert (event.address, event.sender) == ("imessage:iMessage;-;+4930123", "imessage:user/+4930123")
    assert event.at == 1_700_000_000_000_000
    assert event.reply_to is not None and event.reply_to.platform_id == "A-0"


def test_a_group_is_no_private_chat_and_the_macs_own_words_are_ours() -> None:
    event = read(chats=[{"guid": "iMessage;+;chat1", "displayName": "Team"}], isFromMe=True, handle=None).inbound
    assert event is not None and not event.direct and event.own and event.room_name == "Team"


def test_a_tapback_is_about_its_message_and_one_that_is_taken_back_is_nothing() -> None:
    liked = read(associatedMessageType="like", associatedMessageGuid="p:0/A-0").inbound
    assert liked is not None and (liked.platform_id, liked.verb, liked.text) == ("A-0", Verb.LIKE, "👍")
    assert liked.event == "reaction:👍:imessage:user/+4930123"
    disliked = read(associatedMessageType="dislike", associatedMessageGuid="bp:A-0").inbound
    assert disliked is not None and (disliked.platform_id, disliked.verb) == ("A-0", Verb.DISLIKE)
    assert read(associatedMessageType="-like", associatedMessageGuid="p:0/A-0").inbound is None


@pytest.mark.parametrize(
    "changes",
    [
        {"itemType": 1},
        {"chats": []},
        {"chats": [{"guid": "iMessage;-;a b"}]},
        {"chats": [{"guid": "x"}]},
        {"handle": None},
        {"handle": {"address": "a/../b"}},
        {"guid": "a b"},
        {"guid": 5},
    ],
)
def test_a_row_that_nobody_said_or_with_strange_ids_moves_the_cursor_alone(changes: dict[str, Any]) -> None:
    assert read(**changes) == wire.AppleMessage(7)


@pytest.mark.parametrize("answer", [None, [], {}, {"data": None}, {"data": [5, {}, {"originalROWID": "7"}]}])
def test_an_answer_without_messages_has_none(answer: Any) -> None:
    assert wire.read_messages(answer) == []


@pytest.mark.slow
async def test_what_was_said_before_is_not_its_own_and_gaps_are_passed(platform: BlueBubblesPlatform) -> None:
    platform.send("before")
    cursor = MemoryCursor()
    channel, _ = make_channel(platform, cursor=cursor)
    async with listening(channel) as received:
        await platform.until(lambda: len(platform.requests) > 2)
        with platform.changed:
            platform._next_row += 5000  # as if so many messages had been deleted
        platform.send("after", files=[GivenFile("a.txt", b"abc", "text/plain")])
        (event,) = await received.wait_for(1)
        assert event.text == "after" and event.attachments[0].open is not None
        assert b"".join([chunk async for chunk in event.attachments[0].open()]) == b"abc"
    assert int(cursor.saved[""]) > 5000


async def test_a_lost_answer_is_uncertain_and_is_not_repeated(platform: BlueBubblesPlatform) -> None:
    channel, _ = make_channel(platform)
    platform.fault(PlatformFault.NO_ANSWER)
    with pytest.raises(Unavailable) as raised:
        await channel.send(platform.get_address("team"), Outbound(key="k", text="x"))
    assert raised.value.uncertain and platform.texts("team") == ["x"]


async def test_a_room_that_is_none_and_an_operation_that_it_lacks_are_named(platform: BlueBubblesPlatform) -> None:
    channel, _ = make_channel(platform)
    for address in ("imessage:x", "imessage:iMessage;-;a b", "telegram:iMessage;-;a"):
        with pytest.raises(NotFound):
            await channel.send(address, Outbound(key="k", text="x"))
    with pytest.raises(Unsupported):
        await channel.send(platform.get_address("team"), Outbound(key="k", op=Op.EDIT, target="A-1"))


async def test_a_check_names_the_account_or_what_is_wrong(platform: BlueBubblesPlatform) -> None:
    channel, _ = make_channel(platform)
    assert isinstance(channel, SupportsCheck)
    assert (await channel.check()).name == "bot@example.org (BlueBubbles 1.9.9)"
    for secrets, settings, reason in (
        ({"password": "wrong"}, {}, EndReason.TOKEN),
        ({}, {}, EndReason.TOKEN),
        ({"password": platform.token}, {"api_url": "mac:1234"}, EndReason.SETTING),
    ):
        wrong, _ = make_channel(platform, secrets=secrets, **settings)
        assert isinstance(wrong, SupportsCheck)
        with pytest.raises(ChannelEnded) as raised:
            await wrong.check()
        assert raised.value.reason is reason and "wrong" not in str(raised.value)


def test_it_declares_that_it_was_never_run_against_the_platform() -> None:
    registry.load_package("gatepost.channels")
    assert "never" in CHANNELS["imessage"].tested_against


async def test_a_message_that_messages_cannot_deliver_is_refused_in_its_words(platform: BlueBubblesPlatform) -> None:
    channel, _ = make_channel(platform)
    with pytest.raises(Refused, match="Message failed to send! 22"):
        await channel.send("imessage:iMessage;-;nobody@example.org", Outbound(key="k", text="x"))
    with pytest.raises(Refused, match="A 'message' is required"):
        await channel.send(platform.get_address("team"), Outbound(key="k", text=""))
    await channel.close()  # type: ignore[attr-defined]


async def test_a_message_that_is_under_way_already_is_uncertain(platform: BlueBubblesPlatform) -> None:
    channel, _ = make_channel(platform)
    platform.queued.add("gp-" + hashlib.sha256(b"k").hexdigest()[:32])
    with pytest.raises(Unavailable) as raised:
        await channel.send(platform.get_address("team"), Outbound(key="k", text="x"))
    assert raised.value.uncertain
    await channel.close()  # type: ignore[attr-defined]
