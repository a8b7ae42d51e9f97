"""ntfy through its emulator: streams of topics, sequences made from our keys, nobody proved."""

from collections.abc import Iterator

import pytest

from gatepost.channels.contract import ChannelEnded, EndReason, MemoryCursor
from gatepost.channels.ntfy import wire
from gatepost.channels.ntfy.adapter import NtfyTopics
from gatepost.core.errors import NotFound, Unavailable, Unsupported
from gatepost.messages.inbound import Verb
from gatepost.messages.outbound import Op, Outbound
from gatepost_testing.platforms.base import GivenFile, PlatformFault
from gatepost_testing.platforms.ntfy import NtfyPlatform
from gatepost_testing.platforms.wiring import ReceivedEvents, listening, make_channel
from gatepost_testing.waiting import until

TEAM = "ntfy:topic/team"


@pytest.fixture
def platform() -> Iterator[NtfyPlatform]:
    with NtfyPlatform() as running:
        assert isinstance(running, NtfyPlatform)
        yield running


def make(platform: NtfyPlatform, **more: object) -> NtfyTopics:
    channel, _ = make_channel(platform, **more)  # type: ignore[arg-type]
    assert isinstance(channel, NtfyTopics)
    return channel


async def connected(cursor: MemoryCursor) -> None:
    """Both topics are open."""
    await until(lambda: {"team", "other"} <= set(cursor.saved))


async def test_whoever_writes_is_nobody_that_is_proved(platform: NtfyPlatform) -> None:
    cursor = MemoryCursor()
    async with listening(make(platform, cursor=cursor)) as received:
        await connected(cursor)
        sent = platform.send("hello")
        platform.edit("team", sent, "hello again")
        platform.delete("team", sent)
        platform.send("elsewhere", room="other")
        events = await received.wait_for(3)
    team = [each for each in events if each.address == TEAM]
    assert [(each.text, each.event.partition(":")[0]) for each in team] == [
        ("hello", "message"),
        ("hello again", "edit"),
    ]
    assert {each.verb for each in events} == {Verb.UNTRUSTED}
    assert {(each.platform_id, each.sender) for each in team} == {(sent, "ntfy:user/anybody")}


async def test_a_message_that_was_renewed_while_the_gateway_was_down_is_an_edit(platform: NtfyPlatform) -> None:
    cursor, received = MemoryCursor(), ReceivedEvents()
    async with listening(make(platform, cursor=cursor), received):
        await connected(cursor)
        platform.send("backup begins", sequence="backup-1")
        await received.wait_for(1)
    platform.send("backup is done", sequence="backup-1")
    async with listening(make(platform, cursor=cursor), received):
        first, second = await received.wait_for(2)
    assert (first.platform_id, second.platform_id) == ("backup-1", "backup-1")
    assert (first.event, second.text) == ("message", "backup is done") and second.event.startswith("edit:")


async def test_what_is_said_while_the_gateway_is_down_comes_also_before_the_first_message(
    platform: NtfyPlatform,
) -> None:
    cursor = MemoryCursor()
    async with listening(make(platform, cursor=cursor)):
        await connected(cursor)
    platform.send("meanwhile")
    async with listening(make(platform, cursor=cursor)) as received:
        assert [each.text for each in await received.wait_for(1)] == ["meanwhile"]


async def test_our_own_words_are_known_by_their_sequence(platform: NtfyPlatform) -> None:
    cursor = MemoryCursor()
    channel = make(platform, cursor=cursor)
    async with listening(channel) as received:
        await connected(cursor)
        sent = await channel.send(TEAM, Outbound(key="k", text="**hi** there"))
        await channel.send(TEAM, Outbound(key="e", op=Op.EDIT, target=sent, text="hi again"))
        platform.send("theirs")
        assert [each.text for each in await received.wait_for(1)] == ["theirs"]
        assert (sent, platform.texts("team")) == (wire.get_sequence("k"), ["hi again"])
        await channel.send(TEAM, Outbound(key="d", op=Op.DELETE, target=sent))
        assert platform.texts("team") == []


async def test_a_lost_answer_is_found_in_the_cache(platform: NtfyPlatform) -> None:
    channel = make(platform)
    assert await channel.look_up(TEAM, "k") is None
    platform.fault(PlatformFault.NO_ANSWER)
    with pytest.raises(Unavailable) as caught:
        await channel.send(TEAM, Outbound(key="k", text="once"))
    assert caught.value.uncertain and await channel.look_up(TEAM, "k") == wire.get_sequence("k")
    await channel.close()


async def test_a_server_that_names_no_sequences_ends_the_channel(platform: NtfyPlatform) -> None:
    platform.names_sequences = False
    channel = make(platform)
    await channel.send(TEAM, Outbound(key="k", text="the first"))
    with pytest.raises(ChannelEnded, match=r"2\.16") as caught:
        await channel.send(TEAM, Outbound(key="l", text="the second"))
    assert caught.value.reason is EndReason.SETTING and platform.texts("team") == ["the first"]
    await channel.close()


async def test_a_file_on_the_server_is_streamed_and_one_elsewhere_is_not_asked_for(platform: NtfyPlatform) -> None:
    cursor = MemoryCursor()
    async with listening(make(platform, cursor=cursor)) as received:
        await connected(cursor)
        platform.send("see", files=[GivenFile("a.png", b"x" * 100_000, "image/png")])
        (event,) = await received.wait_for(1)
        (file,) = event.attachments
        assert file.open is not None and (file.name, file.kind, file.size) == ("a.png", "image", 100_000)
        assert b"".join([chunk async for chunk in file.open()]) == b"x" * 100_000
    for url in ("http://169.254.169.254/file/x", f"{platform.url}.evil/file/x", "file:///etc/passwd", ""):
        assert not wire.is_below(url, platform.url)


@pytest.mark.parametrize("room", ["ntfy:topic/secret", "ntfy:topic/../v1", "ntfy:topic/a,b", "ntfy:team", "irc:team"])
async def test_only_the_named_topics_are_rooms(platform: NtfyPlatform, room: str) -> None:
    with pytest.raises(NotFound):
        await make(platform).send(room, Outbound(key="k", text="x"))


async def test_what_is_not_ours_is_not_changed_and_what_is_not_there_is_refused(platform: NtfyPlatform) -> None:
    channel = make(platform)
    with pytest.raises(NotFound, match="own messages"):
        await channel.send(TEAM, Outbound(key="k", op=Op.DELETE, target=platform.send("theirs")))
    with pytest.raises(Unsupported):
        await channel.send(TEAM, Outbound(key="k", op=Op.REACT, target="x", reaction="👍"))


@pytest.mark.parametrize("topics", [(), ("a/b",), tuple(f"t{number}" for number in range(21))])
async def test_wrong_topics_are_named(platform: NtfyPlatform, topics: tuple[str, ...]) -> None:
    with pytest.raises(ChannelEnded, match="topic"):
        await make(platform, topics=topics).check()


async def test_the_check_names_the_account(platform: NtfyPlatform) -> None:
    channel = make(platform)
    found = await channel.check()
    assert found.name == f"porter at {platform.url}" and found.link == f"{platform.url}/team"
    await channel.close()


@pytest.mark.parametrize(
    "line",
    [
        {},
        {"event": "message"},
        {"event": "message", "id": "../x", "message": "m"},
        {"event": "message", "id": 5},
        {"event": "poll_request", "id": "abc"},
        {"event": "message_delete", "id": "abc", "sequence_id": "x"},
    ],
)
def test_strange_lines_are_no_events(line: dict[str, object]) -> None:
    assert wire.read_line("team", line, edited=False, open_file=lambda url: None) is None


@pytest.mark.parametrize("sign", ["*", "\x1b", '"', "é"])
async def test_the_longest_text_of_any_signs_is_taken(platform: NtfyPlatform, sign: str) -> None:
    """A message has at most 4,096 bytes, and its request 8,192 of JSON."""
    channel = make(platform)
    await channel.send("ntfy:topic/team", Outbound(key="k", text=sign * (3_592 // len(sign.encode())) + " the end"))
    assert platform.texts("team")[0].endswith("the end")
    await channel.close()
