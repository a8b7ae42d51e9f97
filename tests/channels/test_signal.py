"""Signal through an emulated daemon of signal-cli: events from a stream with ids, calls by JSON-RPC."""

import asyncio
import base64
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from gatepost.channels.contract import (
    Channel,
    ChannelEnded,
    EndReason,
    MemoryCursor,
    SupportsCheck,
    SupportsDirect,
    SupportsReadMarks,
    SupportsTyping,
)
from gatepost.channels.signal import wire
from gatepost.channels.signal.rpc import explain, parse_events
from gatepost.core.errors import Invalid, NotFound, Refused, Unavailable
from gatepost.flow.intake.intake import IntakeLimits, make_arrival
from gatepost.messages import address
from gatepost.messages.inbound import Inbound, Receipt, Verb
from gatepost.messages.outbound import Op, Outbound, OutboundFile
from gatepost_testing.platform_rules.signal import UNKNOWN_PERSON
from gatepost_testing.platforms.base import GivenFile, PlatformFault
from gatepost_testing.platforms.signal import ACCOUNT, OWN_ID, SignalPlatform
from gatepost_testing.platforms.wiring import ReceivedEvents, listening, make_channel
from gatepost_testing.waiting import PATIENCE_S, until


@pytest.fixture
def platform() -> Iterator[SignalPlatform]:
    with SignalPlatform() as made:
        assert isinstance(made, SignalPlatform)
        yield made


@pytest.fixture
def channel(platform: SignalPlatform) -> Channel:
    return make_channel(platform)[0]


@pytest.fixture
async def received(platform: SignalPlatform, channel: Channel) -> AsyncIterator[ReceivedEvents]:
    async with listening(channel) as events:
        await platform.until(lambda: platform.streams == 1)
        yield events


@pytest.fixture
def team(platform: SignalPlatform) -> str:
    return platform.get_address("team")


async def test_messages_come_from_groups_and_people(
    platform: SignalPlatform, received: ReceivedEvents, team: str
) -> None:
    first = platform.send("hello", room="team")
    second = platform.send("psst", room="direct:ann")

    events = sorted(await received.wait_for(2), key=lambda each: each.direct)
    assert [(each.address, each.platform_id, each.text, each.direct) for each in events] == [
        (team, first, "hello", False),
        (platform.get_address("direct:ann"), second, "psst", True),
    ]
    assert (events[0].sender, events[0].sender_name) == (platform.get_sender("ann"), "Ann")
    assert events[0].room_name == "team" and events[0].at is not None
    assert all(address.parse(each.address) and address.parse(each.sender) for each in events)


async def test_a_mention_is_shown_by_its_name(platform: SignalPlatform, received: ReceivedEvents) -> None:
    platform.send("look", mention=True)
    (event,) = await received.wait_for(1)
    assert (event.verb, event.text) == (Verb.MENTION, "@Gate look")


async def test_replies_edits_deletions_and_reactions_name_their_message(
    platform: SignalPlatform, received: ReceivedEvents
) -> None:
    sent = platform.send("one")
    platform.send("answer", reply_to=sent)
    platform.edit("team", sent, "two")
    platform.react("team", sent, "👍", sender="bob")
    platform.delete("team", sent)

    events = await received.wait_for(5)
    reply, edit, reaction, deletion = events[1:]
    assert reply.verb is Verb.REPLY and reply.reply_to is not None
    assert (reply.reply_to.platform_id, reply.reply_to.text) == (sent, "one")
    assert (edit.platform_id, edit.verb, edit.text) == (sent, Verb.EDIT, "two")
    assert edit.event.startswith("edit:")
    assert (reaction.platform_id, reaction.event) == (sent, f"reaction:👍:{platform.get_sender('bob')}")
    assert (deletion.platform_id, deletion.event, deletion.verb) == (sent, "delete", Verb.DELETE)


async def test_a_file_is_decoded_as_it_comes(platform: SignalPlatform, received: ReceivedEvents) -> None:
    data = bytes(range(256)) * 2001
    platform.send("", files=[GivenFile("a.png", data, "image/png")])
    (event,) = await received.wait_for(1)
    (attachment,) = event.attachments
    assert attachment.open is not None and (attachment.name, attachment.size) == ("a.png", len(data))
    assert b"".join([chunk async for chunk in attachment.open()]) == data


@pytest.mark.parametrize("size", [1, 3, 7, 64, 5000])
async def test_base64_is_decoded_however_it_is_cut(size: int) -> None:
    data = bytes(range(256)) * 5
    answer = b'{"jsonrpc":"2.0","result":{"data":"' + base64.b64encode(data) + b'"},"id":1}'

    async def cut() -> AsyncIterator[bytes]:
        for start in range(0, len(answer), size):
            yield answer[start : start + size]

    assert b"".join([chunk async for chunk in wire.decode_attachment(cut())]) == data


@pytest.mark.slow
async def test_a_lost_connection_is_made_anew_and_nothing_is_lost_or_doubled(
    platform: SignalPlatform, received: ReceivedEvents
) -> None:
    platform.send("first")
    await received.wait_for(1)
    platform.fault(PlatformFault.DROPPED)
    platform.send("second")
    platform.send("third")

    assert [each.text for each in await received.wait_for(3)] == ["first", "second", "third"]
    assert received.calls == 3


class _Watched(ReceivedEvents):
    def __init__(self) -> None:
        super().__init__()
        self.failed = asyncio.Event()

    async def receive(self, inbound: Inbound) -> Receipt:
        if self.error is not None:
            self.failed.set()
        return await super().receive(inbound)


async def test_a_new_process_goes_on_behind_its_cursor(platform: SignalPlatform) -> None:
    cursor, received = MemoryCursor(), _Watched()
    first, _ = make_channel(platform, cursor=cursor)
    async with listening(first, received):
        await platform.until(lambda: platform.streams == 1)
        platform.send("first")
        await received.wait_for(1)
        received.error = Unavailable("the store")
        platform.send("second")
        await asyncio.wait_for(received.failed.wait(), PATIENCE_S)
    platform.send("third")
    received.error = None
    again, _ = make_channel(platform, cursor=cursor)
    async with listening(again, received):
        assert [each.text for each in await received.wait_for(3)] == ["first", "second", "third"]


async def test_the_cursor_moves_behind_an_event_that_intake_refuses_for_good(platform: SignalPlatform) -> None:
    cursor, received = MemoryCursor(), _Watched()
    channel, _ = make_channel(platform, cursor=cursor)
    async with listening(channel, received):
        await platform.until(lambda: platform.streams == 1)
        received.error = Invalid("event", "an event needs one of at most 512 characters")
        platform.send("poison")
        await asyncio.wait_for(received.failed.wait(), PATIENCE_S)
        await until(lambda: bool(cursor.saved))
        received.error = None
        platform.send("hello")
        assert [each.text for each in await received.wait_for(1)] == ["hello"]


def test_a_long_emoji_of_a_reaction_is_cut_so_that_intake_can_take_it() -> None:
    """Signal's server cannot check an emoji, which is encrypted."""
    reaction = {"emoji": "x" * 600, "targetAuthorNumber": "+491234567", "targetSentTimestamp": 1_700_000_000_000}
    data = {"timestamp": 1_700_000_000_001, "reaction": reaction}
    envelope = {"sourceUuid": "11111111-2222-3333-4444-555555555555", "dataMessage": data}
    own = wire.OwnAccount("+491234567", frozenset({"+491234567"}))
    read = wire.read_event({"envelope": envelope}, own, lambda file, room: None)  # type: ignore[arg-type,return-value]
    assert read is not None
    make_arrival("it", read, IntakeLimits(), 1, 0)


async def test_what_came_before_any_cursor_was_saved_is_not_lost(platform: SignalPlatform) -> None:
    platform.send("early")
    channel, _ = make_channel(platform)
    async with listening(channel) as received:
        assert [each.text for each in await received.wait_for(1)] == ["early"]


async def test_what_the_bot_says_is_sent_quoted_edited_deleted_and_reacted_to(
    platform: SignalPlatform, channel: Channel, team: str
) -> None:
    asked = platform.send("hello")
    sent = await channel.send(team, Outbound(key="k1", text="hello back", reply_to=asked))
    (shown,) = platform.list_shown("team")
    assert (shown.id, shown.text, shown.reply_to) == (sent, "hello back", asked)

    assert await channel.send(team, Outbound(key="k2", op=Op.EDIT, target=sent, text="better")) == sent
    await channel.send(team, Outbound(key="k3", op=Op.REACT, target=asked, reaction="👍"))
    assert (platform.find(sent).text, platform.find(asked).reactions) == ("better", [("👍", "bot")])
    await channel.send(team, Outbound(key="k4", op=Op.DELETE, target=sent))
    assert platform.list_shown("team") == []


async def test_a_reaction_and_a_reply_to_the_bot_name_its_message(
    platform: SignalPlatform, received: ReceivedEvents, channel: Channel, team: str
) -> None:
    sent = await channel.send(team, Outbound(key="k", text="mine"))
    platform.react("team", sent, "👎")
    platform.send("why?", reply_to=sent)
    reaction, reply = await received.wait_for(2)
    assert reaction.platform_id == sent
    assert reply.reply_to is not None and reply.reply_to.platform_id == sent


async def test_files_go_out_in_base64_that_is_made_while_it_is_sent(
    platform: SignalPlatform, channel: Channel, tmp_path: Path
) -> None:
    data = bytes(range(256)) * 1000
    files = []
    for name in ('a;b,"c.bin', "two.txt"):
        path = tmp_path / name.replace('"', "")
        path.write_bytes(data)
        files.append(OutboundFile(name=name, mime="text/plain; charset=x", path=str(path), size=len(data)))
    room = platform.get_address("direct:ann")
    await channel.send(room, Outbound(key="k", op=Op.FILE, text="two files", files=tuple(files)))

    (shown,) = platform.list_shown("direct:ann")
    assert shown.text == "two files"
    assert shown.files == [GivenFile('a_b_"c.bin', data, "text/plain"), GivenFile("two.txt", data, "text/plain")]


async def test_typing_is_shown_and_ended(platform: SignalPlatform, channel: Channel, team: str) -> None:
    assert isinstance(channel, SupportsTyping)
    await channel.typing(team, "", True)
    await channel.typing(team, "", False)
    assert platform.get_typing() == ["team"]


async def test_each_author_gets_the_read_marks_of_their_messages(
    platform: SignalPlatform, channel: Channel, team: str
) -> None:
    assert isinstance(channel, SupportsReadMarks)
    ann, bob = (platform.get_sender(each).removeprefix("signal:user/") for each in ("ann", "bob"))
    await channel.mark_read(team, "", (f"1001.{ann}", f"1002.{bob}", f"1003.{ann}", "no id of Signal"))
    assert platform.receipts == [f"1001.{ann}", f"1003.{ann}", f"1002.{bob}"]


async def test_a_person_can_be_written_to_first(platform: SignalPlatform, channel: Channel) -> None:
    assert isinstance(channel, SupportsDirect)
    room = await channel.open_direct(platform.get_sender("ann"))
    await channel.send(room, Outbound(key="k", text="good morning"))
    assert platform.texts("direct:ann") == ["good morning"]
    with pytest.raises(NotFound):
        await channel.open_direct("signal:group/x")


async def test_a_limit_is_waited_for_and_a_lost_answer_is_uncertain(
    platform: SignalPlatform, channel: Channel, team: str
) -> None:
    platform.fault(PlatformFault.RATE_LIMIT, PlatformFault.NO_ANSWER, PlatformFault.FORBIDDEN)
    with pytest.raises(Unavailable) as limited:
        await channel.send(team, Outbound(key="k", text="x"))
    assert (limited.value.retry_after, limited.value.everywhere, limited.value.uncertain) == (1.0, True, False)
    with pytest.raises(Unavailable) as lost:
        await channel.send(team, Outbound(key="k", text="x"))
    assert lost.value.uncertain
    with pytest.raises(Refused, match="not a member"):
        await channel.send(team, Outbound(key="k", text="y"))
    assert platform.texts() == ["x"]


@pytest.mark.parametrize("room", ["signal:user/x", "signal:group/..", "signal:other/1", "telegram:user/+491234567"])
async def test_a_strange_room_is_not_found(channel: Channel, room: str) -> None:
    with pytest.raises(NotFound):
        await channel.send(room, Outbound(key="k", text="x"))


async def test_an_account_that_was_unlinked_ends_the_channel(platform: SignalPlatform, channel: Channel) -> None:
    platform.fault(PlatformFault.UNAUTHORIZED)
    with pytest.raises(ChannelEnded) as caught:
        await channel.listen(ReceivedEvents().receive)
    assert caught.value.reason is EndReason.TOKEN


async def test_an_account_that_is_unlinked_while_it_runs_is_found(platform: SignalPlatform, channel: Channel) -> None:
    listener = asyncio.create_task(channel.listen(ReceivedEvents().receive))
    await platform.until(lambda: platform.streams == 1)
    platform.fault(PlatformFault.UNAUTHORIZED)
    with pytest.raises(ChannelEnded):
        await listener


async def test_the_check_names_the_account(platform: SignalPlatform, channel: Channel) -> None:
    assert isinstance(channel, SupportsCheck)
    found = await channel.check()
    assert (found.name, found.link) == (f"{ACCOUNT} ({OWN_ID})", f"https://signal.me/#p/{ACCOUNT}")
    assert "0.14.1" in found.notes[0]


@pytest.mark.parametrize(
    ("settings", "kind", "why"),
    [
        ({"account": ""}, ChannelEnded, "no account"),
        ({"account": "+4900000000"}, ChannelEnded, "does not exist"),
        ({"url": "http://127.0.0.1:9"}, Unavailable, "cannot be reached"),
    ],
)
async def test_a_wrong_setting_is_named(
    platform: SignalPlatform, settings: dict[str, Any], kind: type[Exception], why: str
) -> None:
    channel, _ = make_channel(platform, **settings)
    assert isinstance(channel, SupportsCheck)
    with pytest.raises(kind, match=why):
        await channel.check()


@pytest.mark.parametrize(
    ("code", "kind"), [(-1, Refused), (-3, Unavailable), (-4, Refused), (-5, Unavailable), (-32603, Unavailable)]
)
def test_every_error_of_the_daemon_is_explained(code: int, kind: type[Exception]) -> None:
    assert isinstance(explain("send", {"code": code, "message": "no"}, False), kind)


async def test_an_overlong_line_is_an_error() -> None:
    async def flood() -> AsyncIterator[bytes]:
        for _ in range(20):
            yield b"x" * 100_000

    with pytest.raises(Unavailable):
        assert [event async for event in parse_events(flood())] == []


STRANGE: list[Any] = [
    {},
    {"envelope": 5},
    {"sourceUuid": "../x", "dataMessage": {"timestamp": 1, "message": "x"}},
    {"dataMessage": {"timestamp": True, "message": "x"}},
    {"dataMessage": {"timestamp": 1, "message": None}},
    {"dataMessage": {"timestamp": 1, "message": "x", "groupInfo": {"groupId": "a b"}}},
    {"dataMessage": {"timestamp": 1, "message": 5, "mentions": [{"start": -1}, 7], "attachments": [{"id": "../x"}]}},
    {"dataMessage": {"timestamp": 1, "reaction": {"emoji": 5}}},
    {"dataMessage": {"timestamp": 1, "remoteDelete": {"timestamp": "x"}}},
    {"editMessage": {"targetSentTimestamp": None, "dataMessage": {"timestamp": 1, "message": "x"}}},
    {"typingMessage": {}},
    {"syncMessage": {"sentMessage": {"message": "x"}}},
    {"sourceUuid": OWN_ID, "dataMessage": {"timestamp": 1, "message": "own"}},
]


@pytest.mark.parametrize("given", STRANGE)
def test_a_strange_envelope_is_no_event(given: Any) -> None:
    envelope = {"sourceUuid": "11111111-1111-1111-1111-111111111111", **given}
    own = wire.OwnAccount(ACCOUNT, frozenset({ACCOUNT, OWN_ID}))
    assert wire.read_event({"envelope": envelope}, own, lambda name, room: None) is None  # type: ignore[arg-type,return-value]


async def test_a_person_who_has_left_signal_does_not_end_the_channel(channel: Channel) -> None:
    with pytest.raises(Refused, match="is not registered"):
        await channel.send(f"signal:user/{UNKNOWN_PERSON}", Outbound(key="k", text="x"))


async def test_a_broken_link_to_signals_servers_is_tried_again(
    platform: SignalPlatform, channel: Channel, team: str
) -> None:
    platform.fault(PlatformFault.BUSY)
    with pytest.raises(Unavailable) as raised:
        await channel.send(team, Outbound(key="k", text="x"))
    assert raised.value.uncertain


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        ({"code": -1, "message": "User is not registered."}, ChannelEnded),
        ({"code": -1, "message": "User +49151 is not registered."}, ChannelEnded),
        ({"code": -1, "message": "The user +49152 is not registered."}, Refused),
        ({"code": -1, "message": "The file does not exist"}, Refused),
        ({"code": -32603, "message": "Failed to send message: x (AttachmentInvalidException)"}, Refused),
        (
            {
                "code": -1,
                "message": "Failed to send message",
                "data": {"response": {"results": [{"type": "NETWORK_FAILURE"}]}},
            },
            Unavailable,
        ),
        (
            {
                "code": -1,
                "message": "Failed to send message",
                "data": {"response": {"results": [{"type": "UNREGISTERED_FAILURE"}]}},
            },
            Refused,
        ),
    ],
)
def test_an_error_of_one_message_is_not_one_of_the_account(error: dict[str, Any], kind: type[Exception]) -> None:
    assert isinstance(explain("send", error, False), kind)
