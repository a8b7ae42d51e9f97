"""iMessage through an emulated BlueBubbles server: rows of a database, woken by a webhook that nobody believes."""

from collections.abc import Iterator

import pytest

from gatepost.channels.contract import ChannelEnded, EndReason, HookRequest, MemoryCursor
from gatepost.channels.imessage import adapter, wire
from gatepost.channels.imessage.adapter import BlueBubblesMac
from gatepost.core.errors import NotFound, Unavailable, Unsupported
from gatepost.messages import address
from gatepost.messages.inbound import Verb
from gatepost.messages.outbound import Op, Outbound
from gatepost.testing.platforms.base import GivenFile, PlatformFault
from gatepost.testing.platforms.imessage import SECRET, BlueBubblesPlatform
from gatepost.testing.platforms.wiring import ReceivedEvents, listening, make_channel
from gatepost.testing.waiting import until

NEVER = 3600.0  # for tests in which the webhook alone makes it ask


@pytest.fixture
def platform() -> Iterator[BlueBubblesPlatform]:
    with BlueBubblesPlatform() as running:
        assert isinstance(running, BlueBubblesPlatform)
        yield running


def make(platform: BlueBubblesPlatform, **more: object) -> BlueBubblesMac:
    channel, _ = make_channel(platform, **more)  # type: ignore[arg-type]
    assert isinstance(channel, BlueBubblesMac)
    return channel


async def begun(cursor: MemoryCursor) -> None:
    await until(lambda: "" in cursor.saved)


async def test_the_webhook_makes_it_ask_and_people_are_received(platform: BlueBubblesPlatform) -> None:
    cursor = MemoryCursor()
    platform.send("before the bot came")
    async with listening(make(platform, cursor=cursor, poll_s=NEVER)) as received:
        await begun(cursor)
        first = platform.send("hello", files=[GivenFile("a.png", b"x" * 90_000, "image/png")])
        platform.send("an answer", reply_to=first, sender="bob")
        platform.react("team", first, "👎", sender="bob")
        platform.send("between us", room="direct:ann")
        events = await received.wait_for(4)
        (file,) = next(each for each in events if each.text == "hello").attachments
        assert file.open is not None and (file.name, file.kind) == ("a.png", "image")
        assert b"".join([chunk async for chunk in file.open()]) == b"x" * 90_000

    team = [each for each in events if each.address == platform.get_address("team")]
    assert [(each.text, each.verb) for each in team[:2]] == [("hello", Verb.MESSAGE), ("an answer", Verb.REPLY)]
    assert team[1].reply_to is not None and team[1].reply_to.platform_id == first
    bob = platform.get_sender("bob")
    assert (team[2].platform_id, team[2].event) == (first, f"reaction:👎:{bob}")
    private = next(each for each in events if each.direct)
    assert (private.address, private.sender) == (platform.get_address("direct:ann"), platform.get_sender("ann"))
    assert all(address.parse(each.address) and address.parse(each.sender) for each in events)


async def test_what_came_late_under_an_early_date_is_not_missed(
    platform: BlueBubblesPlatform, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A phone without a network sends later what it dated before; several pages come by their dates."""
    monkeypatch.setattr(adapter, "PAGE", 2)
    cursor, received = MemoryCursor(), ReceivedEvents()
    async with listening(make(platform, cursor=cursor), received):
        await begun(cursor)
        platform.send("first")
        await received.wait_for(1)
    for number in range(5):
        platform.send(f"while it was down {number}")
    platform._messages[-1]["dateCreated"] -= 3_600_000
    async with listening(make(platform, cursor=cursor), received):
        events = await received.wait_for(6)
    assert {each.text for each in events} == {"first", *(f"while it was down {number}" for number in range(5))}


async def test_our_own_words_are_flagged_and_the_key_goes_along(platform: BlueBubblesPlatform) -> None:
    cursor = MemoryCursor()
    channel = make(platform, cursor=cursor)
    async with listening(channel) as received:
        await begun(cursor)
        sent = await channel.send(platform.get_address("team"), Outbound(key="k", text="hi"))
        platform.send("theirs")
        assert [each.text for each in await received.wait_for(1)] == ["theirs"]
    (shown,) = platform.list_shown("team")
    assert (shown.id, shown.text, shown.key) == (sent, "hi", wire.get_temporary_id("k"))


async def test_a_lost_answer_is_uncertain(platform: BlueBubblesPlatform) -> None:
    channel = make(platform)
    platform.fault(PlatformFault.NO_ANSWER)
    with pytest.raises(Unavailable) as caught:
        await channel.send(platform.get_address("team"), Outbound(key="k", text="hi"))
    assert caught.value.uncertain
    with pytest.raises(Unsupported):
        await channel.send(platform.get_address("team"), Outbound(key="k", op=Op.EDIT, target="x", text="y"))
    await channel.close()


async def test_a_webhook_without_the_secret_wakes_nobody(platform: BlueBubblesPlatform) -> None:
    channel = make(platform)
    for query in ({}, {"token": ""}, {"token": "wrong"}):
        assert (await channel.answer_hook(HookRequest(method="POST", query=query))).status == 403
    assert (await channel.answer_hook(HookRequest(method="POST", query={"token": SECRET}))).status == 200
    unset = make(platform, secrets={"password": "x"})
    assert (await unset.answer_hook(HookRequest(method="POST", query={"token": ""}))).status == 403


@pytest.mark.parametrize(
    "room", ["imessage:chat/x", "imessage:chat/iMessage;-;../x", "imessage:chat/iMessage;-;", "a:b"]
)
async def test_other_addresses_are_no_rooms(platform: BlueBubblesPlatform, room: str) -> None:
    with pytest.raises(NotFound):
        await make(platform).send(room, Outbound(key="k", text="x"))


async def test_the_check_names_the_account_and_what_is_missing(platform: BlueBubblesPlatform) -> None:
    channel = make(platform)
    assert (await channel.check()).name == "bot@icloud.test (BlueBubbles 1.9.9, macOS 15.1)"
    await channel.close()
    for more, reason in (({"secrets": {}}, EndReason.TOKEN), ({"api_url": ""}, EndReason.SETTING)):
        broken = make(platform, **more)  # type: ignore[arg-type]
        with pytest.raises(ChannelEnded) as caught:
            await broken.check()
        assert caught.value.reason is reason


@pytest.mark.parametrize(
    "changed",
    [
        {"chats": []},
        {"chats": [{"guid": "x y"}]},
        {"handle": {"address": "a b"}},
        {"handle": None},
        {"guid": "../x"},
        {"itemType": 1},
        {"associatedMessageGuid": "p:0/ABC", "associatedMessageType": "-like"},
        {"associatedMessageGuid": "p:0/../x", "associatedMessageType": "like"},
    ],
)
def test_strange_rows_are_no_events(platform: BlueBubblesPlatform, changed: dict[str, object]) -> None:
    platform.send("hello")
    row = platform._messages[-1]

    def refuse(number: str) -> None:
        raise AssertionError(number)

    assert wire.read_message(row, refuse) is not None  # type: ignore[arg-type]
    assert wire.read_message({**row, **changed}, refuse) is None  # type: ignore[arg-type]
