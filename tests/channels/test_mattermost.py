"""The Mattermost channel against the emulated server."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from gatepost.channels.contract import MYSELF, ChannelEnded, EndReason, MemoryCursor
from gatepost.channels.mattermost import wire
from gatepost.channels.mattermost.adapter import MattermostChannel
from gatepost.channels.mattermost.wire import MattermostBot, MattermostRoom
from gatepost.core.errors import Invalid, NotFound, Refused, Unavailable
from gatepost.messages.inbound import Inbound, Verb
from gatepost.messages.outbound import Op, Outbound, OutboundFile
from gatepost_testing.platforms.base import GivenFile, PlatformFault
from gatepost_testing.platforms.mattermost import MattermostPlatform
from gatepost_testing.platforms.wiring import ReceivedEvents, listening, make_channel
from gatepost_testing.waiting import PATIENCE_S, until

BOT = MattermostBot("b" * 26, "porter")


@pytest.fixture
def platform() -> Iterator[MattermostPlatform]:
    with MattermostPlatform() as running:
        assert isinstance(running, MattermostPlatform)
        yield running


def make(platform: MattermostPlatform, **more: object) -> MattermostChannel:
    channel, _ = make_channel(platform, **more)  # type: ignore[arg-type]
    assert isinstance(channel, MattermostChannel)
    return channel


async def connected(platform: MattermostPlatform) -> None:
    """The channel has opened its socket and knows its place."""
    await until(
        lambda: platform.count_sockets() and ("GET", f"/api/v4/users/{platform.bot_id}/channels") in platform.requests
    )


async def test_what_people_say_is_received_in_our_words(platform: MattermostPlatform) -> None:
    async with listening(make(platform)) as received:
        await connected(platform)
        first = platform.send("good morning", sender="ann")
        platform.send("could you help", sender="bob", mention=True)
        platform.send("below it", thread=first)
        platform.send("between us", room="direct:ann")
        events = {each.text: each for each in await received.wait_for(4)}

    plain = events["good morning"]
    assert (plain.address, plain.platform_id) == (platform.get_address("team"), first)
    assert (plain.sender, plain.sender_name, plain.verb) == (platform.get_sender("ann"), "ann", Verb.MESSAGE)
    assert events["@porter could you help"].verb == Verb.MENTION
    assert (events["below it"].thread, events["below it"].verb) == (first, Verb.REPLY)
    assert events["between us"].direct and events["between us"].address == platform.get_address("direct:ann")


async def test_changes_reactions_and_joins_are_events_of_their_own(platform: MattermostPlatform) -> None:
    async with listening(make(platform)) as received:
        await connected(platform)
        message = platform.send("helo")
        platform.edit("team", message, "hello")
        platform.react("team", message, "🎉", sender="bob")
        platform.delete("team", message)
        platform.join("team", sender="eve")
        events = await received.wait_for(5)

    assert [each.verb for each in events] == [Verb.MESSAGE, Verb.EDIT, Verb.MESSAGE, Verb.DELETE, Verb.JOIN]
    assert [each.platform_id for each in events[:4]] == [message] * 4
    assert events[1].event.startswith("edit:") and events[1].text == "hello"
    assert events[2].event == f"reaction:🎉:{platform.get_sender('bob')}"
    assert events[4].sender == platform.get_sender("eve")


async def test_own_words_come_back_marked_as_own(platform: MattermostPlatform) -> None:
    channel, own = make(platform), []

    class Watching(ReceivedEvents):
        async def receive(self, inbound: Inbound):  # type: ignore[no-untyped-def]
            own.append(inbound.own)
            return await super().receive(inbound)

    async with listening(channel, Watching()):
        await connected(platform)
        await channel.send(platform.get_address("team"), Outbound(key="k", text="mine"))
        await until(lambda: own)
    assert own == [True]


async def test_a_file_is_streamed_both_ways(platform: MattermostPlatform, tmp_path: Path) -> None:
    channel = make(platform)
    async with listening(channel) as received:
        await connected(platform)
        platform.send("look", files=[GivenFile("plan.png", b"x" * 200_000, "image/png")])
        (event,) = await received.wait_for(1)
        (file,) = event.attachments
        assert file.open is not None and (file.name, file.size, file.data) == ("plan.png", 200_000, b"")
        assert b"".join([chunk async for chunk in file.open()]) == b"x" * 200_000

        (tmp_path / "0").write_bytes(b"y" * 100_000)
        given = OutboundFile(name="out.txt", mime="text/plain", path=str(tmp_path / "0"), size=100_000)
        await channel.send(platform.get_address("team"), Outbound(key="f", op=Op.FILE, text="here", files=(given,)))
    (shown,) = platform.list_shown("team")
    assert (shown.text, shown.files) == ("here", [GivenFile("out.txt", b"y" * 100_000, "text/plain")])


async def test_more_files_than_a_post_takes_go_in_several_and_none_of_them_twice(
    platform: MattermostPlatform, tmp_path: Path
) -> None:
    (tmp_path / "0").write_bytes(b"x")
    files = tuple(
        OutboundFile(name=f"{at}.txt", mime="text/plain", path=str(tmp_path / "0"), size=1) for at in range(12)
    )
    room, message = platform.get_address("team"), Outbound(key="k", op=Op.FILE, text="here", files=files)
    channel = make(platform)
    platform.fault(PlatformFault.NO_ANSWER)
    with pytest.raises(Unavailable):
        await channel.send(room, message)
    assert await channel.look_up(room, "k") is None
    first = await channel.send(room, message)
    await channel.close()

    shown = platform.list_shown("team")
    assert [(each.text, [file.name for file in each.files]) for each in shown] == [
        ("here", [f"{at}.txt" for at in range(10)]),
        ("", ["10.txt", "11.txt"]),
    ]
    assert shown[0].id == first and platform.requests.count(("POST", "/api/v4/posts")) == 2


@pytest.mark.slow
async def test_every_declared_verb_is_done(platform: MattermostPlatform) -> None:
    channel, room = make(platform), platform.get_address("team")
    theirs = platform.send("hello")
    mine = await channel.send(room, Outbound(key="1", text="@all hi @here", thread=theirs))
    assert "@all" not in platform.find(mine).text and "@here" not in platform.find(mine).text
    assert platform.find(mine).thread == theirs

    await channel.send(room, Outbound(key="2", op=Op.EDIT, target=mine, text="better"))
    await channel.send(room, Outbound(key="3", op=Op.REACT, target=theirs, reaction="👍"))
    await channel.send(room, Outbound(key="4", op=Op.PIN, target=theirs))
    assert platform.find(mine).text == "better" and platform.find(theirs).pinned
    assert platform.find(theirs).reactions == [("👍", "bot")]

    await channel.send(room, Outbound(key="5", op=Op.UNPIN, target=theirs))
    await channel.send(room, Outbound(key="6", op=Op.DELETE, target=mine))
    await channel.typing(room, "", True)
    assert not platform.find(theirs).pinned and platform.find(mine).deleted
    assert platform.get_typing() == ["team"]
    await channel.close()


async def test_a_direct_channel_is_opened_and_a_stranger_is_not_found(platform: MattermostPlatform) -> None:
    channel = make(platform)
    assert await channel.open_direct(platform.get_sender("ann")) == platform.get_address("direct:ann")
    with pytest.raises(NotFound):
        await channel.open_direct("mattermost:user/" + "z" * 26)
    await channel.close()


async def test_history_has_our_words_under_our_name(platform: MattermostPlatform) -> None:
    channel, room = make(platform), platform.get_address("team")
    platform.send("one")
    await channel.send(room, Outbound(key="1", text="two"))
    platform.send("three")
    found = await channel.history(room, None, 2)
    assert [(each.text, each.sender) for each in found] == [("two", MYSELF), ("three", platform.get_sender("ann"))]
    assert [each.text for each in await channel.history(room, found[0].at, 5)] == ["one"]
    await channel.close()


@pytest.mark.slow
async def test_what_was_said_while_away_is_received_once_by_the_cursor(platform: MattermostPlatform) -> None:
    cursor, received = MemoryCursor(), ReceivedEvents()
    before = platform.send("before we came")
    async with listening(make(platform, cursor=cursor), received):
        await connected(platform)
        first = platform.send("first")
        await received.wait_for(1)
    platform.requests.clear()
    platform.edit("team", first, "first, corrected")
    platform.send("second")
    platform.send("in private", room="direct:bob")
    platform.react("team", before, "👍")  # it touches a post that we never saw

    async with listening(make(platform, cursor=cursor), received):
        events = await received.wait_for(4)
    assert sorted(each.text for each in events) == ["first", "first, corrected", "in private", "second"]


async def test_an_event_that_intake_cannot_take_is_kept(platform: MattermostPlatform) -> None:
    cursor, received = MemoryCursor(), ReceivedEvents()
    async with listening(make(platform, cursor=cursor), received):
        await connected(platform)
        await until(lambda: cursor.saved.get(""))
        saved = await cursor.load()
        received.error = Unavailable("the store")
        platform.send("hold on")
        await until(lambda: received.calls)
        assert await cursor.load() == saved
        received.error = None
        await received.wait_for(1)
        await until(lambda: cursor.saved[""] != saved)


@pytest.mark.slow
@pytest.mark.parametrize("fault", [PlatformFault.DUPLICATE, PlatformFault.REORDER, PlatformFault.DROPPED])
async def test_nothing_is_lost_by_a_connection_that_misbehaves(
    platform: MattermostPlatform, fault: PlatformFault
) -> None:
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
async def test_a_held_socket_brings_no_beat(platform: MattermostPlatform) -> None:
    channel, deps = make_channel(platform)
    async with listening(channel) as received:
        await connected(platform)
        platform.send("one")
        await received.wait_for(1)
        platform.fault(PlatformFault.HELD_POLL)
        assert deps.pulse is not None
        beats = deps.pulse.beats
        platform.send("two")
        await asyncio.to_thread(platform.wait_for, lambda: False, 0.2)
        assert deps.pulse.beats == beats and received.texts == ["one"]


async def test_a_revoked_token_ends_the_channel(platform: MattermostPlatform) -> None:
    platform.fault(PlatformFault.UNAUTHORIZED)
    with pytest.raises(ChannelEnded) as ended:
        async with asyncio.timeout(PATIENCE_S):
            await make(platform).listen(ReceivedEvents().receive)
    assert ended.value.reason == EndReason.TOKEN
    with pytest.raises(ChannelEnded, match="token"):
        await make(platform, secrets={"token": "wrong"}).check()
    with pytest.raises(ChannelEnded, match="address"):
        await make(platform, api_url="").check()
    with pytest.raises(Unavailable, match="cannot be reached"):
        await make(platform, api_url="http://127.0.0.1:1").check()


async def test_the_check_says_who_the_bot_is(platform: MattermostPlatform) -> None:
    identity = await make(platform).check()
    assert (identity.name, identity.missing) == ("@porter", ())


async def test_a_limit_is_waited_for_everywhere(platform: MattermostPlatform) -> None:
    platform.fault(PlatformFault.RATE_LIMIT)
    with pytest.raises(Unavailable) as limit:
        await make(platform).send(platform.get_address("team"), Outbound(key="k", text="x"))
    assert (limit.value.retry_after, limit.value.everywhere, limit.value.uncertain) == (0.2, True, False)


async def test_a_post_without_an_answer_is_found_by_its_key(platform: MattermostPlatform) -> None:
    channel, room = make(platform), platform.get_address("team")
    platform.fault(PlatformFault.NO_ANSWER)
    with pytest.raises(Unavailable) as lost:
        await channel.send(room, Outbound(key="k", text="once"))
    assert lost.value.uncertain
    assert await channel.look_up(room, "k") == platform.list_shown("team")[0].id
    assert await channel.look_up(room, "other") is None
    await channel.send(room, Outbound(key="k", text="once"))  # within the 30 s that the server remembers
    assert platform.texts("team") == ["once"]
    await channel.close()


async def test_refusals_are_named(platform: MattermostPlatform) -> None:
    channel, room = make(platform), platform.get_address("team")
    platform.fault(PlatformFault.FORBIDDEN)
    with pytest.raises(Refused, match="permissions"):
        await channel.send(room, Outbound(key="k", text="x"))
    with pytest.raises(NotFound):
        await channel.send("mattermost:channel/../../users", Outbound(key="k", text="x"))
    with pytest.raises(NotFound):
        await channel.send(room, Outbound(key="k", op=Op.DELETE, target="../users/me"))
    with pytest.raises(Invalid, match="tada"):
        await channel.send(room, Outbound(key="k", op=Op.REACT, target="a" * 26, reaction="a/b"))
    await channel.close()


def read(**post: object) -> Inbound:
    given = {"id": "a" * 26, "user_id": "o" * 26, "message": "/approve", **post}
    found = wire.read_post(given, MattermostRoom("c" * 26), BOT, lambda file: lambda: iter(()))  # type: ignore[arg-type,return-value]
    assert found is not None
    return found


@pytest.mark.parametrize("props", [{"from_webhook": "true"}, {"from_webhook": True}, {"from_plugin": "true"}])
def test_a_post_of_an_integration_has_not_the_rights_of_who_made_it(props: dict[str, object]) -> None:
    """Mattermost gives such posts the `user_id` of the webhook's creator."""
    got = read(props={**props, "override_username": "alerts"})
    assert (got.sender, got.sender_name) == (f"mattermost:webhook/{'o' * 26}", "alerts")
    with pytest.raises(NotFound):
        wire.get_user_id(got.sender)


def test_a_bot_account_is_somebody_of_its_own() -> None:
    for props in ({}, {"from_bot": "true"}, {"from_bot": "true", "from_plugin": "true"}, {"from_webhook": "false"}):
        assert read(props=props).sender == f"mattermost:user/{'o' * 26}"


async def test_an_author_or_a_channel_that_the_server_does_not_show_stops_nothing(
    platform: MattermostPlatform,
) -> None:
    """A guest's, or one removed for good."""
    channel = make(platform)
    assert await channel._get_name("z" * 26) == ""
    assert await channel._get_room("z" * 26) is None
    await channel.close()


def test_hostile_frames_are_read_without_harm() -> None:
    room = MattermostRoom("c" * 26)
    for post in ({}, {"id": "../x"}, {"id": "a" * 26, "type": "system_header_change"}):
        assert wire.read_post(post, room, BOT, lambda file: lambda: iter(())) is None  # type: ignore[arg-type,return-value]
    odd = {"id": "a" * 26, "file_ids": "[[", "metadata": 7, "message": None, "root_id": 3, "create_at": "x"}
    read = wire.read_post(odd, room, BOT, lambda file: lambda: iter(()))  # type: ignore[arg-type,return-value]
    assert read is not None and (read.attachments, read.thread, read.at) == ((), "", None)
    assert wire.read_json("[" * 100_000) == {}
    assert wire.read_reaction({"post_id": "x"}, room, BOT, "") is None


async def test_a_thread_of_another_channel_is_refused_for_good(platform: MattermostPlatform) -> None:
    """The server answers 500 to it, and would to each repetition."""
    channel, elsewhere = make(platform), platform.send("far away", room="direct:ann")
    with pytest.raises(Refused, match="Invalid ChannelId for RootId"):
        await channel.send(platform.get_address("team"), Outbound(key="k", text="x", thread=elsewhere))


async def test_a_message_that_is_gone_already_is_deleted(platform: MattermostPlatform) -> None:
    channel, room = make(platform), platform.get_address("team")
    made = await channel.send(room, Outbound(key="k", text="x"))
    for key in ("first", "again"):
        assert await channel.send(room, Outbound(key=key, op=Op.DELETE, target=made)) == made
    assert platform.texts("team") == []


async def test_a_text_that_escapes_make_longer_is_said_whole(platform: MattermostPlatform) -> None:
    channel = make(platform)
    text = "@ann *x " * 2046 + "the end"
    await channel.send(platform.get_address("team"), Outbound(key="k", text=text))
    assert platform.texts("team")[0].endswith("the end") and "@ann" not in platform.texts("team")[0]
    await channel.close()
