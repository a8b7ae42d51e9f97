"""The Zulip channel against the emulated server."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from gatepost.channels.contract import MYSELF, ChannelEnded, EndReason, MemoryCursor
from gatepost.channels.zulip import wire
from gatepost.channels.zulip.adapter import ZulipChannel
from gatepost.core.errors import Invalid, NotFound, Refused, Unavailable
from gatepost.messages.inbound import Verb
from gatepost.messages.outbound import Op, Outbound, OutboundFile
from gatepost_testing.platforms.base import GivenFile, PlatformFault
from gatepost_testing.platforms.wiring import ReceivedEvents, listening, make_channel
from gatepost_testing.platforms.zulip import ZulipPlatform
from gatepost_testing.waiting import PATIENCE_S, until


@pytest.fixture
def platform() -> Iterator[ZulipPlatform]:
    with ZulipPlatform() as running:
        assert isinstance(running, ZulipPlatform)
        yield running


def make(platform: ZulipPlatform, **more: object) -> ZulipChannel:
    channel, _ = make_channel(platform, **more)  # type: ignore[arg-type]
    assert isinstance(channel, ZulipChannel)
    return channel


async def connected(platform: ZulipPlatform) -> None:
    await until(lambda: ("GET", "/api/v1/events") in platform.requests)


async def test_what_people_say_is_received_in_our_words(platform: ZulipPlatform) -> None:
    async with listening(make(platform)) as received:
        await connected(platform)
        first = platform.send("good morning", thread="plans")
        platform.send("could you help", sender="bob", mention=True)
        platform.send("between us", room="direct:ann")
        platform.react("team", first, "🎉", sender="bob")
        platform.edit("team", first, "good evening")
        platform.delete("team", first)
        events = await received.wait_for(6)

    plain = next(each for each in events if each.platform_id == first)
    assert (plain.address, plain.sender, plain.thread) == ("zulip:stream/1", platform.get_sender("ann"), "plans")
    private = next(each for each in events if each.direct)
    assert (private.address, private.text) == (platform.get_address("direct:ann"), "between us")
    assert next(each for each in events if "could you help" in each.text).verb == Verb.MENTION
    about = [each for each in events if each.platform_id == first]
    assert [each.verb for each in about] == [Verb.MESSAGE, Verb.MESSAGE, Verb.EDIT, Verb.DELETE]
    assert about[1].event == f"reaction:🎉:{platform.get_sender('bob')}"
    assert about[2].text == "good evening" and about[2].event.startswith("edit:")


@pytest.mark.slow
async def test_a_file_is_streamed_both_ways(platform: ZulipPlatform, tmp_path: Path) -> None:
    channel = make(platform)
    async with listening(channel) as received:
        await connected(platform)
        platform.send("look", files=[GivenFile("plan.png", b"x" * 200_000, "image/png")])
        (event,) = await received.wait_for(1)
        (file,) = event.attachments
        assert file.open is not None and (event.text, file.name, file.kind) == ("look", "plan.png", "image")
        assert b"".join([chunk async for chunk in file.open()]) == b"x" * 200_000

        (tmp_path / "0").write_bytes(b"y" * 100_000)
        given = OutboundFile(name="o[u]t.txt", mime="text/plain", path=str(tmp_path / "0"), size=100_000)
        await channel.send(platform.get_address("team"), Outbound(key="f", op=Op.FILE, text="here", files=(given,)))
    (shown,) = platform.list_shown("team")
    assert (shown.text, [each.data for each in shown.files]) == ("here", [b"y" * 100_000])


@pytest.mark.slow
async def test_every_declared_verb_is_done(platform: ZulipPlatform) -> None:
    channel, room = make(platform), platform.get_address("team")
    theirs = platform.send("hello", thread="plans")
    mine = await channel.send(room, Outbound(key="1", text="@**all** hi", thread="plans"))
    assert "@**all**" not in platform.find(mine).text and platform.find(mine).thread == "plans"
    other = await channel.send(room, Outbound(key="1b", text="without a thread"))
    assert platform.find(other).thread == "chat"

    await channel.send(room, Outbound(key="2", op=Op.EDIT, target=mine, text="better"))
    for _ in range(2):  # done twice, it is done once
        await channel.send(room, Outbound(key="3", op=Op.REACT, target=theirs, reaction="❤️"))
    assert platform.find(mine).text == "better" and platform.find(theirs).reactions == [("❤", "bot")]
    await channel.send(room, Outbound(key="4", op=Op.DELETE, target=mine))
    await channel.typing(room, "plans", True)
    await channel.typing(platform.get_address("direct:ann"), "", True)
    assert platform.find(mine).deleted and platform.get_typing() == ["team", "direct:ann"]

    await channel.mark_read(room, "plans", ("11", "12"))
    assert platform.receipts == ["11", "12"]

    direct = await channel.open_direct(platform.get_sender("ann"))
    assert direct == platform.get_address("direct:ann")
    await channel.send(direct, Outbound(key="5", text="psst"))
    assert platform.texts("direct:ann") == ["psst"]
    with pytest.raises(NotFound):
        await channel.open_direct("zulip:user/777")
    await channel.close()


async def test_history_has_our_words_under_our_name(platform: ZulipPlatform) -> None:
    channel, room = make(platform), platform.get_address("team")
    platform.send("one")
    platform.send("aside", room="direct:ann")
    await channel.send(room, Outbound(key="1", text="two"))
    found = await channel.history(room, None, 5)
    assert [(each.text, each.sender) for each in found] == [("one", platform.get_sender("ann")), ("two", MYSELF)]
    assert [each.text for each in await channel.history(platform.get_address("direct:ann"), None, 5)] == ["aside"]
    assert await channel.history(room, 1, 5) == []
    await channel.close()


@pytest.mark.slow
async def test_a_lost_queue_is_made_up_for_from_the_archive(platform: ZulipPlatform) -> None:
    cursor, received = MemoryCursor(), ReceivedEvents()
    platform.send("before we came")
    async with listening(make(platform, cursor=cursor), received):
        await connected(platform)
        platform.send("one")
        await received.wait_for(1)
        platform.forget_queues()
        platform.send("two")
        await received.wait_for(2)
    platform.forget_queues()
    platform.send("three")
    async with listening(make(platform, cursor=cursor), received):
        await received.wait_for(3)
    assert received.texts == ["one", "two", "three"]


async def test_the_queue_outlives_a_restart_with_edits_and_reactions(platform: ZulipPlatform) -> None:
    cursor, received = MemoryCursor(), ReceivedEvents()
    async with listening(make(platform, cursor=cursor), received):
        await connected(platform)
        message = platform.send("helo")
        await received.wait_for(1)
        await until(lambda: cursor.saved.get("queue", "").endswith(" 0"))
    platform.edit("team", message, "hello")
    platform.react("team", message, "👍")
    async with listening(make(platform, cursor=cursor), received):
        events = await received.wait_for(3)
    assert [each.event.partition(":")[0] for each in events] == ["message", "edit", "reaction"]
    assert platform.count_queues() == 1


async def test_an_event_that_intake_cannot_take_is_kept(platform: ZulipPlatform) -> None:
    cursor, received = MemoryCursor(), ReceivedEvents()
    async with listening(make(platform, cursor=cursor), received):
        await connected(platform)
        saved = dict(cursor.saved)
        received.error = Unavailable("the store")
        platform.send("hold on")
        await until(lambda: received.calls)
        assert cursor.saved == saved
        received.error = None
        await received.wait_for(1)


@pytest.mark.parametrize("fault", [PlatformFault.DUPLICATE, PlatformFault.FORGOTTEN, PlatformFault.DROPPED])
async def test_nothing_is_lost_by_a_connection_that_misbehaves(platform: ZulipPlatform, fault: PlatformFault) -> None:
    async with listening(make(platform)) as received:
        await connected(platform)
        platform.send("zero")
        await received.wait_for(1)
        platform.fault(fault)
        platform.send("one")
        platform.send("two")
        await received.wait_for(3)
    assert received.texts == ["zero", "one", "two"]


@pytest.mark.slow
async def test_a_held_poll_brings_no_beat(platform: ZulipPlatform) -> None:
    channel, deps = make_channel(platform)
    platform.fault(PlatformFault.HELD_POLL)
    async with listening(channel) as received:
        await connected(platform)
        platform.send("two")
        await asyncio.to_thread(platform.wait_for, lambda: False, 0.2)
        assert deps.pulse is not None and deps.pulse.beats == 0 and received.texts == []
        platform.heal()
        await received.wait_for(1)


async def test_a_revoked_key_ends_the_channel(platform: ZulipPlatform) -> None:
    platform.fault(PlatformFault.UNAUTHORIZED)
    with pytest.raises(ChannelEnded) as ended:
        async with asyncio.timeout(PATIENCE_S):
            await make(platform).listen(ReceivedEvents().receive)
    assert ended.value.reason == EndReason.TOKEN
    platform.heal()
    with pytest.raises(ChannelEnded, match="token"):
        await make(platform, secrets={"api_key": "wrong"}).check()
    with pytest.raises(ChannelEnded, match="address"):
        await make(platform, api_url="").check()
    with pytest.raises(Unavailable, match="cannot be reached"):
        await make(platform, api_url="http://127.0.0.1:1").check()
    assert (await make(platform).check()).name == "Porter (porter-bot@zulip.test)"


async def test_what_goes_wrong_with_a_message_is_named(platform: ZulipPlatform) -> None:
    channel, room, said = make(platform), platform.get_address("team"), Outbound(key="k", text="x")
    platform.fault(PlatformFault.RATE_LIMIT, PlatformFault.FORBIDDEN, PlatformFault.NO_ANSWER)
    with pytest.raises(Unavailable) as limit:
        await channel.send(room, said)
    assert (limit.value.retry_after, limit.value.everywhere, limit.value.uncertain) == (0.2, True, False)
    with pytest.raises(Refused, match="permission to post"):
        await channel.send(room, said)
    with pytest.raises(Unavailable) as lost:
        await channel.send(room, said)
    assert lost.value.uncertain
    for address in ("zulip:stream/x", "zulip:stream/1-2", "zulip:direct/1/../2", "zulip:group/1", "zulip:stream/0"):
        with pytest.raises(NotFound):
            await channel.send(address, said)
    with pytest.raises(NotFound):
        await channel.send(room, Outbound(key="k", op=Op.DELETE, target="1/../2"))
    with pytest.raises(Invalid, match="tada"):
        await channel.send(room, Outbound(key="k", op=Op.REACT, target="1", reaction="a/b"))
    await channel.close()


def test_hostile_messages_are_read_without_harm() -> None:
    for message in ({}, {"id": -1}, {"id": 5, "display_recipient": 7}, {"id": "5x", "stream_id": 1}):
        assert wire.read_message(message, None, 9, lambda path: lambda: iter(())) is None  # type: ignore[arg-type,return-value]
    text, files = wire.read_uploads("[a](/user_uploads/../../etc)" + "[" * 50_000, lambda path: lambda: iter(()))  # type: ignore[arg-type,return-value]
    assert files == () and len(text) > 50_000
    assert wire.read_emoji({"emoji_code": "zz", "emoji_name": "our_logo"}) == "our_logo"
    assert wire.read_emoji({"emoji_code": "ffffffffff", "emoji_name": "a:b"}) == "unknown"
    assert wire.render_code("1️⃣") == "0031-20e3"


async def test_a_text_that_escapes_make_longer_is_said_whole(platform: ZulipPlatform) -> None:
    """The server cuts what is longer than 10,000 signs, and answers as if it had taken it."""
    channel, room = make(platform), platform.get_address("team")
    text = "@ann *x " * 1249 + "the end"
    made = await channel.send(room, Outbound(key="k", text=text))
    assert platform.texts("team")[0].endswith("the end") and "@ann" not in platform.texts("team")[0]
    await channel.send(room, Outbound(key="e", op=Op.EDIT, target=made, text=text.replace("the end", "the last")))
    assert platform.texts("team")[0].endswith("the last")
    await channel.close()


async def test_a_text_that_is_too_long_with_its_files_is_refused_and_not_cut(
    platform: ZulipPlatform, tmp_path: Path
) -> None:
    channel, room = make(platform), platform.get_address("team")
    (tmp_path / "0").write_bytes(b"y")
    given = OutboundFile(name="n" * 200, mime="text/plain", path=str(tmp_path / "0"), size=1)
    with pytest.raises(Refused, match="send the files after it"):
        await channel.send(room, Outbound(key="k", op=Op.FILE, text="x" * 9990, files=(given,)))
    assert platform.texts("team") == []
    await channel.close()


async def test_a_message_that_is_gone_already_is_deleted(platform: ZulipPlatform) -> None:
    channel, room = make(platform), platform.get_address("team")
    made = await channel.send(room, Outbound(key="k", text="x"))
    for key in ("first", "again"):
        assert await channel.send(room, Outbound(key=key, op=Op.DELETE, target=made)) == made
    await channel.close()


async def test_a_topic_has_no_signs_that_the_server_refuses(platform: ZulipPlatform) -> None:
    channel = make(platform)
    await channel.send(platform.get_address("team"), Outbound(key="k", text="x", thread="two\nlines\ufffe"))
    assert platform.list_shown("team")[0].thread == "two lines"
    await channel.close()
