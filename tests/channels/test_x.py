"""X through its emulator: mentions in pages, signed requests, posts that are never made twice."""

from collections.abc import Iterator

import pytest

from gatepost.channels.contract import CHANNELS, ChannelEnded, EndReason, MemoryCursor
from gatepost.channels.x import adapter, wire
from gatepost.channels.x.adapter import XAccount
from gatepost.channels.x.oauth import AccountKeys, sign
from gatepost.core.errors import NotFound, Refused, Unavailable, Unsupported
from gatepost.flow.delivery.content_fallback import split_text
from gatepost.messages.inbound import Verb
from gatepost.messages.outbound import Op, Outbound
from gatepost.messages.text_size import measure
from gatepost_testing.platforms.base import PlatformFault
from gatepost_testing.platforms.wiring import ReceivedEvents, listening, make_channel
from gatepost_testing.platforms.x import XPlatform
from gatepost_testing.waiting import until


@pytest.fixture
def platform() -> Iterator[XPlatform]:
    with XPlatform() as running:
        assert isinstance(running, XPlatform)
        yield running


def make(platform: XPlatform, **more: object) -> XAccount:
    channel, _ = make_channel(platform, **more)  # type: ignore[arg-type]
    assert isinstance(channel, XAccount)
    return channel


async def begun(cursor: MemoryCursor) -> None:
    await until(lambda: "" in cursor.saved)


def test_a_request_is_signed_as_the_platforms_own_example() -> None:
    """The example of X's page on creating a signature."""
    keys = AccountKeys(
        "xvz1evFS4wEEPTGEFPHBog",
        "kAcSOqF21Fu85e7zjz7ZN2U4ZRhfV3WpwPAoE3Z7kBw",
        "370773112-GmHxMAgYyLbNEtIKZeRNFsMKPR9EyMZeS9weJAEb",
        "LswwdoUaIvS8ltyTt5jkRh4J50vUPVVHtR2YPi5kE",
    )
    params = {"status": "Hello Ladies + Gentlemen, a signed OAuth request!", "include_entities": "true"}
    url, nonce = "https://api.twitter.com/1.1/statuses/update.json", "kYjzVBB8Y0ZFabxSWbWovY3uYSQ2pTgmZeNu2VS4cg"
    header = sign("POST", url, params, keys, nonce, 1318622958)
    assert 'oauth_signature="hCtSmYh%2BiHYCEqBWrE7C7hYmtUk%3D"' in header


@pytest.mark.slow
async def test_mentions_come_in_order_also_over_several_pages(
    platform: XPlatform, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(adapter, "PAGE", 5)
    cursor, received = MemoryCursor(), ReceivedEvents()
    platform.send("before the bot came")
    async with listening(make(platform, cursor=cursor), received):
        await begun(cursor)
        root = platform.send("hello & <you>")
        await received.wait_for(1)
    for number in range(7):
        platform.send(f"word {number}", sender="bob", reply_to=root)
    async with listening(make(platform, cursor=cursor), received):
        events = await received.wait_for(8)
    assert [each.text for each in events] == [
        "@porter hello & <you>",
        *(f"@porter word {number}" for number in range(7)),
    ]
    assert {(each.address, each.verb) for each in events} == {(platform.get_address("team"), Verb.MENTION)}
    assert (events[1].sender, events[1].sender_name) == (platform.get_sender("bob"), "bob")
    assert events[1].reply_to is not None and events[1].reply_to.platform_id == root


@pytest.mark.slow
async def test_the_bot_answers_posts_likes_and_deletes(platform: XPlatform) -> None:
    cursor, room = MemoryCursor(), platform.get_address("team")
    channel = make(platform, cursor=cursor)
    async with listening(channel) as received:
        await begun(cursor)
        theirs = platform.send("hello")
        await received.wait_for(1)
        sent = await channel.send(room, Outbound(key="1", text="hi @ann"))
        assert platform.find(sent).reply_to == theirs  # the last mention of the conversation
        assert platform.find(sent).text == "hi @\u200bann"  # calls nobody by name
        news = await channel.send(room, Outbound(key="2", op=Op.POST, text="news"))
        assert (platform.find(news).room, platform.find(news).reply_to) == ("feed", "")
        await channel.send(room, Outbound(key="3", op=Op.REACT, target=theirs, reaction="❤️"))
        await channel.send(room, Outbound(key="4", op=Op.DELETE, target=sent))
        assert platform.find(theirs).reactions == [("❤️", "bot")] and platform.texts("team") == []
        with pytest.raises(Unsupported, match="likes alone"):
            await channel.send(room, Outbound(key="5", op=Op.REACT, target=theirs, reaction="🎉"))
        with pytest.raises(Unsupported):
            await channel.send(room, Outbound(key="6", op=Op.EDIT, target=sent, text="x"))
        with pytest.raises(Refused, match="not authorized"):
            await channel.send(room, Outbound(key="7", op=Op.DELETE, target=theirs))


async def test_what_may_have_been_posted_is_uncertain_and_a_limit_is_for_all(platform: XPlatform) -> None:
    channel, room = make(platform), platform.get_address("team")
    for fault in (PlatformFault.NO_ANSWER, PlatformFault.BUSY):
        platform.fault(fault)
        with pytest.raises(Unavailable) as caught:
            await channel.send(room, Outbound(key="k", text="once"))
        assert caught.value.uncertain
    assert len(platform.texts("team")) == 1
    platform.fault(PlatformFault.RATE_LIMIT)
    with pytest.raises(Unavailable) as caught:
        await channel.send(room, Outbound(key="k", text="once"))
    assert (caught.value.everywhere, caught.value.uncertain) == (True, False)
    await channel.close()


@pytest.mark.parametrize("room", ["x:conversation/../1", "x:conversation/", "x:user/1", "x:conversation/" + "1" * 20])
async def test_other_addresses_are_no_rooms(platform: XPlatform, room: str) -> None:
    with pytest.raises(NotFound):
        await make(platform).send(room, Outbound(key="k", text="x"))


async def test_the_check_names_the_account_and_missing_keys(platform: XPlatform) -> None:
    channel = make(platform)
    found = await channel.check()
    assert (found.name, found.link) == ("@porter", "https://x.com/porter")
    await channel.close()
    with pytest.raises(ChannelEnded) as caught:
        await make(platform, secrets={"token": "t"}).check()
    assert caught.value.reason is EndReason.TOKEN


async def test_an_app_without_a_tier_is_named(platform: XPlatform) -> None:
    platform.is_enrolled = False
    channel = make(platform)
    with pytest.raises(ChannelEnded, match=r"client-not-enrolled.*attach it to a project") as caught:
        await channel.check()
    assert caught.value.reason is EndReason.RIGHTS
    await channel.close()


def test_strange_posts_are_no_events() -> None:
    good = {"id": "5", "author_id": "7", "conversation_id": "5", "text": "x"}
    assert wire.read_mention(good, "900", {}) is not None
    for changed in ({"author_id": "a/b"}, {"conversation_id": None}, {"author_id": 7}):
        assert wire.read_mention({**good, **changed}, "900", {}) is None
    assert wire.read_posts({"data": [{"id": "../1"}, 5, {"id": 7}]}) == [] and wire.read_posts([]) == []


@pytest.mark.parametrize(
    "sign", ["main.py ", "lib.rs,", "$TSLA ", "🙂", "漢", "@ann ", "a", "https://example.com/" + "x" * 90 + " "]
)
async def test_the_longest_post_is_taken_whatever_it_holds(platform: XPlatform, sign: str) -> None:
    kind = CHANNELS["x"]
    channel = make(platform)
    platform.send("hello")
    for number, part in enumerate(split_text(sign * 1000, kind.max_text, kind.text_unit)[:3]):
        assert measure(part, kind.text_unit) > 200
        sent = await channel.send(platform.get_address("team"), Outbound(key=f"k{number}", text=part))
        await channel.send(platform.get_address("team"), Outbound(key=f"d{number}", op=Op.DELETE, target=sent))
    await channel.close()


async def test_a_long_post_arrives_whole(platform: XPlatform) -> None:
    cursor = MemoryCursor()
    channel = make(platform, cursor=cursor)
    async with listening(channel) as received:
        await begun(cursor)
        platform.send("word " * 100 + "end")
        (event,) = await received.wait_for(1)
    assert event.text.endswith("end")


async def test_a_post_is_quoted_and_reposted_and_a_repost_is_taken_back(platform: XPlatform) -> None:
    channel = make(platform)
    room, asked = platform.get_address("team"), platform.send("worth it")
    quoted = await channel.send(room, Outbound(key="q", op=Op.QUOTE, target=asked, source=room, text="look"))
    shared = await channel.send(room, Outbound(key="r", op=Op.REPOST, target=asked, source=room))
    assert platform.find(quoted).text == "look" and platform.find(shared).room == "feed"
    await channel.send(room, Outbound(key="d", op=Op.DELETE, target=shared))
    assert platform.find(shared).deleted and not platform.find(asked).deleted
    await channel.close()


async def test_after_a_restart_the_last_mention_is_answered_and_not_the_post_that_began_it_all(
    platform: XPlatform,
) -> None:
    cursor, room = MemoryCursor(), platform.get_address("team")
    platform.foreign.add("team")
    async with listening(make(platform, cursor=cursor)) as received:
        await begun(cursor)
        asked = platform.send("hello", sender="bob")
        await received.wait_for(1)
    again = make(platform, cursor=cursor)
    sent = await again.send(room, Outbound(key="k", text="hi"))
    assert platform.find(sent).reply_to == asked
    await again.close()


async def test_only_the_first_cashtag_of_a_post_is_one(platform: XPlatform) -> None:
    channel = make(platform)
    sent = await channel.send(platform.get_address("team"), Outbound(key="k", text="$HOME, $PATH and $5 at $X"))
    assert platform.find(sent).text == "$HOME, $\u200bPATH and $5 at $\u200bX"
    await channel.close()


async def test_a_refusal_says_which_parameter_is_wrong(platform: XPlatform) -> None:
    channel = make(platform)
    with pytest.raises(Refused, match="The quoted post does not exist"):
        await channel.send(platform.get_address("team"), Outbound(key="k", op=Op.QUOTE, target="42", text="look"))
    await channel.close()
