"""The Bluesky channel against the emulated network."""

import asyncio
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from gatepost.channels.bluesky import wire
from gatepost.channels.bluesky.adapter import BlueskyChannel
from gatepost.channels.contract import ChannelEnded, EndReason, MemoryCursor
from gatepost.core.errors import NotFound, Refused, Unavailable, Unsupported
from gatepost.messages.inbound import Verb
from gatepost.messages.outbound import Op, Outbound, OutboundFile
from gatepost_testing.platforms.base import GivenFile, PlatformFault
from gatepost_testing.platforms.bluesky import BlueskyPlatform
from gatepost_testing.platforms.wiring import ReceivedEvents, listening, make_channel
from gatepost_testing.waiting import PATIENCE_S, until

FEED = "bluesky:feed"


@pytest.fixture
def platform() -> Iterator[BlueskyPlatform]:
    with BlueskyPlatform() as running:
        assert isinstance(running, BlueskyPlatform)
        yield running


def make(platform: BlueskyPlatform, **more: object) -> BlueskyChannel:
    channel, _ = make_channel(platform, **more)  # type: ignore[arg-type]
    assert isinstance(channel, BlueskyChannel)
    return channel


async def connected(cursor: MemoryCursor) -> None:
    await until(lambda: cursor.saved.get("") and cursor.saved.get("chat"))


async def test_what_people_say_is_received_in_our_words(platform: BlueskyPlatform) -> None:
    cursor = MemoryCursor()
    platform.send("before we came")
    platform.send("before we came, in private", room="direct:ann")
    async with listening(make(platform, cursor=cursor)) as received:
        await connected(cursor)
        first = platform.send("good morning")
        below = platform.send("more on that", sender="bob", reply_to=first)
        platform.send("and more", sender="bob", reply_to=below)
        private = platform.send("between us", room="direct:ann")
        platform.react("team", first, "❤", sender="bob")
        platform.react("direct:ann", private, "🎉", sender="ann")
        platform.delete("direct:ann", private)
        platform.join("team", sender="eve")
        events = await received.wait_for(8)

    by_text = {each.text: each for each in events}
    plain = by_text["good morning"]
    assert (plain.address, plain.platform_id, plain.thread) == (FEED, first, "")
    assert (plain.sender, plain.sender_name, plain.verb) == (platform.get_sender("ann"), "Ann", Verb.MENTION)
    answered = by_text["and more"].reply_to
    assert by_text["and more"].thread == first and answered is not None and answered.platform_id == below
    assert by_text["between us"].direct and by_text["between us"].address == platform.get_address("direct:ann")
    assert by_text["❤"].event == f"reaction:❤:{platform.get_sender('bob')}" and by_text["❤"].platform_id == first
    assert by_text["🎉"].platform_id == private
    assert [each.platform_id for each in events if each.verb == Verb.DELETE] == [private]
    assert [each.sender for each in events if each.verb == Verb.JOIN] == [platform.get_sender("eve")]


async def test_pictures_go_both_ways_and_other_files_are_named(platform: BlueskyPlatform, tmp_path: Path) -> None:
    cursor = MemoryCursor()
    channel = make(platform, cursor=cursor)
    async with listening(channel) as received:
        await connected(cursor)
        platform.send("look", files=[GivenFile("plan.png", b"x" * 200_000, "image/png")])
        (event,) = await received.wait_for(1)
        (file,) = event.attachments
        assert file.open is not None and b"".join([chunk async for chunk in file.open()]) == b"x" * 200_000

        (tmp_path / "0").write_bytes(b"y" * 1000)
        image = OutboundFile(name="o.png", mime="image/png", path=str(tmp_path / "0"), size=1000)
        sheet = OutboundFile(name="o.csv", mime="text/csv", path=str(tmp_path / "0"), size=1000)
        await channel.send(FEED, Outbound(key="f", op=Op.FILE, text="here", files=(image, sheet)))
    (shown,) = platform.list_shown("team")
    assert (shown.text, [each.data for each in shown.files]) == ("here\n[file: o.csv]", [b"y" * 1000])


@pytest.mark.slow
async def test_every_declared_verb_is_done(platform: BlueskyPlatform) -> None:
    channel, theirs = make(platform), platform.send("hello")
    mine = await channel.send(FEED, Outbound(key="1", text="see https://a.org/ä.", reply_to=theirs))
    below = await channel.send(FEED, Outbound(key="1b", text="and", thread=theirs, reply_to=mine))
    record = platform.find(mine).raw
    assert record["reply"]["parent"]["uri"] == theirs and record["facets"][0]["features"][0]["uri"] == "https://a.org/ä"
    assert record["facets"][0]["index"] == {"byteStart": 4, "byteEnd": 4 + len("https://a.org/ä".encode())}
    assert (platform.find(below).thread, platform.find(below).reply_to) == (theirs, mine)

    await channel.send(FEED, Outbound(key="2", op=Op.REACT, target=theirs, reaction="❤️"))
    quote = await channel.send(FEED, Outbound(key="3", op=Op.QUOTE, target=theirs, text="look"))
    repost = await channel.send(FEED, Outbound(key="4", op=Op.REPOST, target=theirs))
    post = await channel.send(FEED, Outbound(key="5", op=Op.POST, text="news"))
    assert platform.find(theirs).reactions == [("❤", "bot")]
    assert platform.find(quote).raw["embed"]["record"]["uri"] == theirs and "reply" not in platform.find(post).raw
    assert platform.find(repost).text == f"reposts {theirs}"
    await channel.send(FEED, Outbound(key="6", op=Op.DELETE, target=mine))
    assert platform.find(mine).deleted
    with pytest.raises(Refused, match="others"):
        await channel.send(FEED, Outbound(key="7", op=Op.DELETE, target=theirs))
    with pytest.raises(Unsupported, match="❤"):
        await channel.send(FEED, Outbound(key="8", op=Op.REACT, target=theirs, reaction="👎"))
    await channel.close()


async def test_private_conversations_are_opened_and_written_to(platform: BlueskyPlatform) -> None:
    channel = make(platform)
    theirs = platform.send("hello", room="direct:ann")
    room = await channel.open_direct(platform.get_sender("ann"))
    assert room == platform.get_address("direct:ann")
    mine = await channel.send(room, Outbound(key="1", text="psst", reply_to=theirs))
    await channel.send(room, Outbound(key="2", op=Op.REACT, target=theirs, reaction="🎉"))
    assert (platform.find(mine).text, platform.find(mine).reply_to) == ("psst", theirs)
    assert platform.find(theirs).reactions == [("🎉", "bot")]
    with pytest.raises(Unsupported):
        await channel.send(room, Outbound(key="3", op=Op.DELETE, target=mine))
    with pytest.raises(Refused, match="private messages have none"):
        await channel.look_up(room, "1")
    with pytest.raises(NotFound):
        await channel.open_direct("bluesky:user/did:plc:nobody")
    await channel.close()


async def test_what_was_said_while_away_is_received_in_order(platform: BlueskyPlatform) -> None:
    cursor, received = MemoryCursor(), ReceivedEvents()
    async with listening(make(platform, cursor=cursor), received):
        await connected(cursor)
        platform.send("0")
        await received.wait_for(1)
    for number in range(1, 150):
        platform.send(str(number))
    platform.send("aside", room="direct:bob")
    async with listening(make(platform, cursor=cursor), received):
        await received.wait_for(151)
    assert [each for each in received.texts if each != "aside"] == [str(number) for number in range(150)]


async def test_an_event_that_intake_cannot_take_is_kept(platform: BlueskyPlatform) -> None:
    cursor, received = MemoryCursor(), ReceivedEvents()
    async with listening(make(platform, cursor=cursor), received):
        await connected(cursor)
        saved = dict(cursor.saved)
        received.error = Unavailable("the store")
        platform.send("hold on")
        platform.send("you too", room="direct:ann")
        await until(lambda: received.calls >= 2)
        assert cursor.saved == saved
        received.error = None
        await received.wait_for(2)


@pytest.mark.parametrize("fault", [PlatformFault.DUPLICATE, PlatformFault.DROPPED])
async def test_nothing_is_lost_by_a_connection_that_misbehaves(platform: BlueskyPlatform, fault: PlatformFault) -> None:
    cursor = MemoryCursor()
    async with listening(make(platform, cursor=cursor)) as received:
        await connected(cursor)
        platform.fault(fault)
        platform.send("one")
        platform.send("two")
        await received.wait_for(2)
    assert received.texts == ["one", "two"]


async def test_a_held_poll_brings_no_beat(platform: BlueskyPlatform) -> None:
    cursor = MemoryCursor()
    channel, deps = make_channel(platform, cursor=cursor)
    platform.fault(PlatformFault.HELD_POLL)
    async with listening(channel):
        await until(lambda: ("GET", "/xrpc/app.bsky.notification.listNotifications") in platform.requests)
        await asyncio.to_thread(platform.wait_for, lambda: False, 0.2)
        assert deps.pulse is not None and deps.pulse.beats == 0
        platform.heal()
        await until(lambda: deps.pulse is not None and deps.pulse.beats > 0)


@pytest.mark.slow
async def test_an_expired_token_is_renewed_and_a_revoked_one_ends_the_channel(platform: BlueskyPlatform) -> None:
    channel = make(platform)
    await channel.send(FEED, Outbound(key="1", text="one"))
    platform.expire_tokens()
    await channel.send(FEED, Outbound(key="2", text="two"))
    assert platform.texts("team") == ["one", "two"]
    assert ("POST", "/xrpc/com.atproto.server.refreshSession") in platform.requests
    platform.fault(PlatformFault.UNAUTHORIZED)
    async with asyncio.timeout(PATIENCE_S):
        with pytest.raises(ChannelEnded) as ended:
            await channel.listen(ReceivedEvents().receive)
    assert ended.value.reason == EndReason.TOKEN
    platform.heal()
    with pytest.raises(ChannelEnded, match="app password"):
        await make(platform, secrets={"app_password": "wrong"}).check()
    with pytest.raises(ChannelEnded, match="handle"):
        await make(platform, handle="").check()
    with pytest.raises(Unavailable, match="cannot be reached"):
        await make(platform, api_url="http://127.0.0.1:1").check()
    assert (await make(platform).check()).name == "@porter.test"
    await channel.close()


async def test_a_post_without_an_answer_is_found_by_its_key(platform: BlueskyPlatform) -> None:
    channel = make(platform)
    platform.fault(PlatformFault.NO_ANSWER)
    with pytest.raises(Unavailable) as lost:
        await channel.send(FEED, Outbound(key="k", text="once"))
    assert lost.value.uncertain
    (shown,) = platform.list_shown("team")
    assert await channel.look_up(FEED, "k") == shown.id and await channel.look_up(FEED, "other") is None
    with pytest.raises(Unavailable):  # the server has one record of that name, and says 500
        await channel.send(FEED, Outbound(key="k", text="once"))
    assert platform.texts("team") == ["once"]
    await channel.close()


async def test_what_goes_wrong_with_a_post_is_named(platform: BlueskyPlatform) -> None:
    channel, said = make(platform), Outbound(key="k", text="x")
    platform.fault(PlatformFault.RATE_LIMIT, PlatformFault.FORBIDDEN)
    with pytest.raises(Unavailable) as limit:
        await channel.send(FEED, said)
    assert limit.value.everywhere and limit.value.retry_after is not None  # the end of its window, in whole seconds
    with pytest.raises(Refused, match="Forbidden"):
        await channel.send(FEED, said)
    for address in ("bluesky:home", "bluesky:direct/../1", "bluesky:direct/"):
        with pytest.raises(NotFound):
            await channel.send(address, said)
    with pytest.raises(NotFound):
        await channel.send(FEED, Outbound(key="k", op=Op.DELETE, target="at://x/../y"))
    await channel.close()


async def test_a_like_that_claims_to_have_pictures_does_not_stop_the_channel(platform: BlueskyPlatform) -> None:
    """Records may have further fields; a name that is no post's was refused, again and again."""
    cursor = MemoryCursor()
    cursor.saved = {"": "1", "beginning": "1"}
    like = {"$type": "app.bsky.feed.like", "embed": {"images": [{"alt": ""}]}}
    eve = platform._get_did("eve")
    subject = f"at://{eve}/app.bsky.feed.post/3k"
    platform._add_note("like", "eve", f"at://{eve}/app.bsky.feed.like/3kabc", like, subject)
    platform.send("hello", mention=True)
    async with listening(make(platform, cursor=cursor)) as received:
        await received.wait_for(lambda events: any("hello" in each.text for each in events))


async def test_a_post_whose_pictures_are_refused_is_received_without_them(platform: BlueskyPlatform) -> None:
    cursor = MemoryCursor()
    cursor.saved = {"": "1", "beginning": "1"}
    post = {"$type": "app.bsky.feed.post", "text": "look", "embed": {"images": [{"alt": ""}]}}
    platform._add_note("mention", "eve", f"at://{platform._get_did('eve')}/app.bsky.feed.post/3kgone", post)
    async with listening(make(platform, cursor=cursor)) as received:
        (event,) = await received.wait_for(1)
    assert (event.text, event.attachments) == ("look", ())


def test_keys_are_shaped_as_the_networks_own() -> None:
    made = [wire.make_key(f"key {number}") for number in range(200)]
    assert len(set(made)) == 200 and made[0] == wire.make_key("key 0")
    digits = "234567abcdefghijklmnopqrstuvwxyz"
    assert all(len(each) == 13 and set(each) <= set(digits) for each in made)
    for each in made:
        number = 0
        for digit in each:
            number = number * 32 + digits.index(digit)
        assert datetime.fromtimestamp((number >> 10) / 1_000_000, UTC).year in (2023, 2024, 2025)  # in the past


def test_hostile_news_are_read_without_harm() -> None:
    author = {"did": "did:plc:abc", "handle": "ann.test"}
    for note in (
        {},
        {"author": {"did": "x y"}, "reason": "mention"},
        {"author": author, "reason": "mention", "uri": "at://evil/../x"},
        {"author": author, "reason": "like", "reasonSubject": "javascript:"},
    ):
        assert wire.read_note(note, [], lambda url: lambda: iter(()), "porter.test") is None  # type: ignore[arg-type,return-value]
    for entry in ({}, {"$type": "chat.bsky.convo.defs#logCreateMessage", "convoId": "a/b"}):
        assert wire.read_log(entry, "") is None
    assert wire.read_images({"embed": {"images": [{"fullsize": "file:///etc/passwd"}, 7]}}) == []
    assert len(wire.render_facets("https://a.org " * 1000)) == wire.MOST_FACETS


async def test_long_names_of_files_do_not_make_a_post_too_long(platform: BlueskyPlatform, tmp_path: Path) -> None:
    (tmp_path / "a.bin").write_bytes(b"data")
    files = tuple(
        OutboundFile(name=f"{at}{'x' * 60}", mime="a/b", path=str(tmp_path / "a.bin"), size=4) for at in range(2)
    )
    channel = make(platform)
    await channel.send("bluesky:feed", Outbound(key="1", op=Op.FILE, text="x" * 290, files=files))
    await channel.send("bluesky:feed", Outbound(key="2", op=Op.FILE, text="look", files=files[:1]))
    await channel.close()
    assert [each.text for each in platform.record] == ["x" * 290, f"look\n[file: {files[0].name}]"]
