"""The Mastodon channel against the emulated server."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from gatepost.channels.contract import ChannelEnded, EndReason, MemoryCursor
from gatepost.channels.mastodon import posting, wire
from gatepost.channels.mastodon.adapter import MastodonChannel
from gatepost.channels.mastodon.wire import MastodonAccount
from gatepost.core.errors import NotFound, Refused, Unavailable, Unsupported
from gatepost.messages.inbound import Verb
from gatepost.messages.outbound import Op, Outbound, OutboundFile
from gatepost_testing.platforms.base import GivenFile, PlatformFault
from gatepost_testing.platforms.mastodon import MastodonPlatform
from gatepost_testing.platforms.wiring import ReceivedEvents, listening, make_channel
from gatepost_testing.waiting import PATIENCE_S, until

FEED = "mastodon:feed"


@pytest.fixture
def platform() -> Iterator[MastodonPlatform]:
    with MastodonPlatform() as running:
        assert isinstance(running, MastodonPlatform)
        yield running


def make(platform: MastodonPlatform, **more: object) -> MastodonChannel:
    channel, _ = make_channel(platform, **more)  # type: ignore[arg-type]
    assert isinstance(channel, MastodonChannel)
    return channel


async def connected(platform: MastodonPlatform, cursor: MemoryCursor | None = None) -> None:
    await until(lambda: platform.count_streams() and ("GET", "/api/v1/notifications") in platform.requests)
    if cursor is not None:
        await until(lambda: cursor.saved)


async def test_what_people_say_is_received_in_our_words(platform: MastodonPlatform) -> None:
    cursor = MemoryCursor()
    platform.send("before we came")
    async with listening(make(platform, cursor=cursor)) as received:
        await connected(platform, cursor)
        first = platform.send("good <b>morning</b> & so on\nall")
        below = platform.send("more on that", sender="bob", reply_to=first)
        platform.send("and more", sender="bob", reply_to=below)
        platform.send("between us", room="direct:ann")
        platform.react("team", first, "⭐", sender="bob")
        platform.join("team", sender="eve")
        events = await received.wait_for(6)

    by_text = {each.text: each for each in events}
    plain = by_text["good <b>morning</b> & so on\nall"]
    assert (plain.address, plain.sender, plain.thread) == (FEED, platform.get_sender("ann"), "")
    assert (plain.verb, plain.sender_name, plain.direct) == (Verb.MENTION, "Ann", False)
    assert by_text["more on that"].thread == first and by_text["and more"].thread == first
    answered = by_text["and more"].reply_to
    assert answered is not None and answered.platform_id == below
    assert by_text["between us"].direct and by_text["between us"].address == platform.get_address("direct:ann")
    assert by_text["⭐"].event == f"reaction:⭐:{platform.get_sender('bob')}"
    assert [each.sender for each in events if each.verb == Verb.JOIN] == [platform.get_sender("eve")]


async def test_edits_and_deletions_come_by_the_stream(platform: MastodonPlatform) -> None:
    cursor = MemoryCursor()
    async with listening(make(platform, cursor=cursor)) as received:
        await connected(platform, cursor)
        message = platform.send("helo")
        await received.wait_for(1)
        platform.edit("team", message, "hello")
        platform.delete("team", message)
        events = await received.wait_for(3)
    assert [(each.verb, each.text) for each in events[1:]] == [(Verb.EDIT, "hello"), (Verb.DELETE, "")]
    assert {each.platform_id for each in events} == {message} and events[1].event.startswith("edit:2")


@pytest.mark.slow
async def test_files_go_both_ways_and_are_waited_for(
    platform: MastodonPlatform, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    channel, cursor = make(platform, cursor=(cursor := MemoryCursor())), cursor
    async with listening(channel) as received:
        await connected(platform, cursor)
        platform.send("look", files=[GivenFile("plan.png", b"x" * 200_000, "image/png")])
        (event,) = await received.wait_for(1)
        (file,) = event.attachments
        assert file.open is not None and (file.name, file.kind) == ("plan.png", "image")
        assert b"".join([chunk async for chunk in file.open()]) == b"x" * 200_000

        monkeypatch.setattr(posting, "LOOK_S", 0.0)
        platform.processing = 3
        (tmp_path / "0").write_bytes(b"y" * 100_000)
        given = OutboundFile(name="o.png", mime="image/png", path=str(tmp_path / "0"), size=100_000)
        await channel.send(FEED, Outbound(key="f", op=Op.FILE, text="here", files=(given,)))
    (shown,) = platform.list_shown("team")
    assert (shown.text, shown.files) == ("here", [GivenFile("o.png", b"y" * 100_000, "image/png")])


async def test_a_file_of_a_post_is_not_fetched_from_inside_the_gateways_own_network(platform: MastodonPlatform) -> None:
    """Servers that speak Mastodon's API without a proxy of their own (Pleroma, Akkoma) pass on the address that the
    author's server wrote."""
    channel = make(platform)
    with MastodonPlatform() as internal:
        status = {
            "id": "1",
            "account": {"id": "9", "acct": "eve@evil.example"},
            "visibility": "direct",
            "media_attachments": [{"type": "image", "url": f"{internal.url}/api/v2/instance"}],
        }
        read = wire.read_status(status, "1", MastodonAccount("7", "porter"), channel._open)
        assert read is not None
        (file,) = read.attachments
        assert file.open is not None
        with pytest.raises(Refused, match="public web"):
            _ = [chunk async for chunk in file.open()]
        assert isinstance(internal, MastodonPlatform) and not internal.requests
    await channel.close()


@pytest.mark.slow
async def test_an_answer_names_whom_it_answers_and_is_seen_by_the_same_people(platform: MastodonPlatform) -> None:
    channel = make(platform)
    theirs = platform.send("hello")
    mine = await channel.send(FEED, Outbound(key="1", text="hi", reply_to=theirs, thread=theirs))
    assert platform.find(mine).raw["content"] == "<p>@ann hi</p>"
    assert (platform.find(mine).reply_to, platform.find(mine).raw["visibility"]) == (theirs, "public")

    unasked = await channel.send(FEED, Outbound(key="2", op=Op.POST, text="news"))
    assert platform.find(unasked).raw["visibility"] == "unlisted"
    direct = await channel.open_direct(platform.get_sender("ann"))
    private = await channel.send(direct, Outbound(key="3", text="psst"))
    assert platform.find(private).raw["visibility"] == "direct" and platform.texts("direct:ann") == ["psst"]
    with pytest.raises(NotFound):
        await channel.open_direct("mastodon:account/999")
    await channel.close()


@pytest.mark.slow
async def test_every_declared_verb_is_done(platform: MastodonPlatform) -> None:
    channel, theirs = make(platform), platform.send("hello")
    mine = await channel.send(FEED, Outbound(key="1", text="hi", reply_to=theirs))
    await channel.send(FEED, Outbound(key="2", op=Op.EDIT, target=mine, text="better"))
    await channel.send(FEED, Outbound(key="3", op=Op.REACT, target=theirs, reaction="❤️"))
    assert platform.find(mine).raw["content"] == "<p>@ann better</p>"
    assert platform.find(theirs).reactions == [("⭐", "bot")]

    quote = await channel.send(FEED, Outbound(key="4", op=Op.QUOTE, target=theirs, text="see"))
    assert platform.find(quote).raw["quote"]["quoted_status"]["id"] == theirs
    boost = await channel.send(FEED, Outbound(key="5", op=Op.REPOST, target=theirs))
    assert await channel.send(FEED, Outbound(key="5", op=Op.REPOST, target=theirs)) == boost != theirs
    await channel.send(FEED, Outbound(key="6", op=Op.DELETE, target=mine))
    assert platform.find(mine).deleted
    with pytest.raises(Unsupported, match="⭐"):
        await channel.send(FEED, Outbound(key="7", op=Op.REACT, target=theirs, reaction="👎"))
    await channel.close()


async def test_what_was_said_while_away_is_received_in_order(platform: MastodonPlatform) -> None:
    cursor, received = MemoryCursor(), ReceivedEvents()
    async with listening(make(platform, cursor=cursor), received):
        await connected(platform, cursor)
        platform.send("0")
        await received.wait_for(1)
    for number in range(1, 60):
        platform.send(str(number))
    async with listening(make(platform, cursor=cursor), received):
        await received.wait_for(60)
    assert received.texts == [str(number) for number in range(60)]


async def test_an_event_that_intake_cannot_take_is_kept(platform: MastodonPlatform) -> None:
    cursor, received = MemoryCursor(), ReceivedEvents()
    async with listening(make(platform, cursor=cursor), received):
        await connected(platform, cursor)
        saved = dict(cursor.saved)
        received.error = Unavailable("the store")
        platform.send("hold on")
        await until(lambda: received.calls)
        assert cursor.saved == saved
        received.error = None
        await received.wait_for(1)


@pytest.mark.parametrize("fault", [PlatformFault.DUPLICATE, PlatformFault.REORDER, PlatformFault.DROPPED])
async def test_nothing_is_lost_by_a_stream_that_misbehaves(platform: MastodonPlatform, fault: PlatformFault) -> None:
    cursor = MemoryCursor()
    async with listening(make(platform, cursor=cursor)) as received:
        await connected(platform, cursor)
        platform.send("zero")
        await received.wait_for(1)
        platform.fault(fault)
        platform.send("one")
        platform.send("two")
        await received.wait_for(3)
    assert received.texts == ["zero", "one", "two"]


@pytest.mark.slow
async def test_a_held_stream_brings_no_beat(platform: MastodonPlatform) -> None:
    channel, deps = make_channel(platform, cursor=(cursor := MemoryCursor()))
    async with listening(channel) as received:
        await connected(platform, cursor)
        platform.send("one")
        await received.wait_for(1)
        assert deps.pulse is not None
        await until(lambda: platform.requests[-1] == ("GET", "/api/v1/notifications"))
        platform.fault(PlatformFault.HELD_POLL)
        await asyncio.to_thread(platform.wait_for, lambda: False, 0.2)
        beats = deps.pulse.beats
        platform.send("two")
        await asyncio.to_thread(platform.wait_for, lambda: False, 0.2)
        assert deps.pulse.beats == beats and received.texts == ["one"]
        platform.heal()
        await received.wait_for(2)


async def test_a_revoked_token_ends_the_channel(platform: MastodonPlatform) -> None:
    async with asyncio.timeout(PATIENCE_S):
        platform.fault(PlatformFault.UNAUTHORIZED)
        with pytest.raises(ChannelEnded) as ended:
            await make(platform).listen(ReceivedEvents().receive)
    assert ended.value.reason == EndReason.TOKEN
    platform.heal()
    with pytest.raises(ChannelEnded, match="token"):
        await make(platform, secrets={"token": "wrong"}).check()
    with pytest.raises(ChannelEnded, match="address"):
        await make(platform, api_url="").check()
    with pytest.raises(Unavailable, match="cannot be reached"):
        await make(platform, api_url="http://127.0.0.1:1").check()
    identity = await make(platform).check()
    assert identity.name == "@porter" and "posts of 500 characters" in identity.notes


async def test_a_post_without_an_answer_is_one_post(platform: MastodonPlatform) -> None:
    channel = make(platform)
    platform.fault(PlatformFault.NO_ANSWER)
    with pytest.raises(Unavailable) as lost:
        await channel.send(FEED, Outbound(key="k", text="once"))
    assert lost.value.uncertain
    again = await channel.send(FEED, Outbound(key="k", text="once"))
    assert [each.id for each in platform.list_shown()] == [again]
    await channel.close()


async def test_what_goes_wrong_with_a_post_is_named(platform: MastodonPlatform) -> None:
    channel, said = make(platform), Outbound(key="k", text="x")
    platform.fault(PlatformFault.RATE_LIMIT, PlatformFault.FORBIDDEN)
    with pytest.raises(Unavailable) as limit:
        await channel.send(FEED, said)
    assert limit.value.everywhere and 0 <= (limit.value.retry_after or -1) <= 0.2
    with pytest.raises(Refused, match="not allowed"):
        await channel.send(FEED, said)
    for address in ("mastodon:home", "mastodon:direct/../1", "mastodon:direct/"):
        with pytest.raises(NotFound):
            await channel.send(address, said)
    with pytest.raises(NotFound):
        await channel.send(FEED, Outbound(key="k", op=Op.DELETE, target="1/../2"))
    await channel.close()


def test_hostile_posts_are_read_without_harm() -> None:
    assert wire.render_plain("<p>a&lt;b&gt; <a href='x'>@<span>c</span></a></p><p>d<br>e</p>") == "a<b> @c\n\nd\ne"
    assert len(wire.render_plain("<" * 200_000)) <= wire.LONGEST_HTML
    own = MastodonAccount("1", "porter")
    assert wire.strip_name("@porter @Porter@x.org hi @porter", own) == "hi @porter"
    for status in ({}, {"id": "1"}, {"id": "a/b", "account": {"id": "1", "acct": "a"}}):
        assert wire.read_status(status, "", own, lambda url: lambda: iter(())) is None  # type: ignore[arg-type,return-value]
    with pytest.raises(ValueError, match="does not end"):
        list(wire.EventLines().feed(b"x" * (wire.LONGEST_LINE + 1)))


@pytest.mark.parametrize(
    ("told", "used"),
    [
        ("wss://streaming.a.org", "https://streaming.a.org/"),
        ("wss://a.org", "https://a.org/"),
        ("wss://evil.org", "https://a.org/"),
        ("wss://evil-a.org", "https://a.org/"),
        (None, "https://a.org/"),
    ],
)
def test_the_token_goes_to_the_servers_own_names_alone(told: str | None, used: str) -> None:
    assert wire.find_stream_url("https://a.org/", told) == used


async def test_files_that_stand_not_together_in_a_post_are_named(platform: MastodonPlatform, tmp_path: Path) -> None:
    def file(name: str, mime: str) -> OutboundFile:
        (tmp_path / name).write_bytes(b"data")
        return OutboundFile(name=name, mime=mime, path=str(tmp_path / name), size=4)

    channel = make(platform)
    picture, film, drawing = file("a.png", "image/png"), file("b.mp4", "video/mp4"), file("c.svg", "image/svg+xml")
    await channel.send(FEED, Outbound(key="1", op=Op.FILE, text="both", files=(picture, film)))
    await channel.send(FEED, Outbound(key="2", op=Op.FILE, text="film", files=(film, picture)))
    await channel.send(FEED, Outbound(key="3", op=Op.FILE, text="drawn", files=(drawing,)))
    await channel.close()
    assert [(each.text, [given.name for given in each.files]) for each in platform.record] == [
        ("both\n[file: b.mp4]", ["a.png"]),
        ("film\n[file: a.png]", ["b.mp4"]),
        ("drawn\n[file: c.svg]", []),
    ]


async def test_many_short_links_and_long_names_of_files_keep_to_the_length_of_a_post(
    platform: MastodonPlatform, tmp_path: Path
) -> None:
    channel, links = make(platform), " ".join(f"https://a.io/{at}" for at in range(30))
    (tmp_path / "a.bin").write_bytes(b"data")
    files = tuple(
        OutboundFile(name=f"{at}{'x' * 60}", mime="a/b", path=str(tmp_path / "a.bin"), size=4) for at in range(2)
    )
    sent = await channel.send(FEED, Outbound(key="1", text=links))
    await channel.send(FEED, Outbound(key="2", op=Op.EDIT, target=sent, text=links))
    await channel.send(FEED, Outbound(key="3", op=Op.FILE, text="x" * 450, files=files))
    await channel.close()
    assert platform.record[0].text == links.replace("https://", "")
    assert platform.record[1].text == "x" * 450 + "\n[2 files that this post cannot show]"


@pytest.mark.parametrize("sign", ["@ann ", "|a|b|\n|-|-|\n", ">"])
async def test_the_longest_post_is_taken_whatever_it_holds(platform: MastodonPlatform, sign: str) -> None:
    channel = make(platform)
    sent = await channel.send(FEED, Outbound(key="k", text=(sign * 460)[:460]))
    assert "@ann" not in platform.find(sent).raw["content"]
    await channel.close()
