"""WhatsApp as a linked device: the adapter, a real process beside it, and an emulated device behind that."""

import asyncio
import os
import signal
import stat
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from gatepost.channels.contract import Channel, ChannelDeps, ChannelEnded, EndReason, SupportsCheck
from gatepost.channels.whatsapp_linked import device_process, wire
from gatepost.channels.whatsapp_linked.adapter import PICTURE, WhatsAppLinked, find_end, raise_for
from gatepost.channels.whatsapp_linked.device_lines import WINDOW, EventJournal
from gatepost.channels.whatsapp_linked.protocol import (
    LONGEST_LINE,
    UNREADABLE,
    Answer,
    AnswerState,
    Arrived,
    Begin,
    DeviceEvent,
    DeviceFile,
    DeviceMedia,
    LinkState,
    LinkStatus,
    MessageKey,
    SendFile,
    SendText,
    ShowTyping,
)
from gatepost.core.errors import NotFound, Refused, Unavailable, Unsupported
from gatepost.messages import address
from gatepost.messages.inbound import Inbound, OpenFile, Receipt, Verb
from gatepost.messages.outbound import Op, Outbound, OutboundFile, PassedMessage
from gatepost_testing.channel_suite import list_failures, run_suite
from gatepost_testing.platforms.base import GivenFile, PlatformFault
from gatepost_testing.platforms.whatsapp_linked import WhatsAppLinkedDevice
from gatepost_testing.platforms.wiring import ReceivedEvents, listening, make_channel
from gatepost_testing.waiting import PATIENCE_S, until


@pytest.fixture
def platform() -> Iterator[WhatsAppLinkedDevice]:
    with WhatsAppLinkedDevice() as made:
        assert isinstance(made, WhatsAppLinkedDevice)
        yield made


@pytest.fixture
def made(platform: WhatsAppLinkedDevice) -> tuple[Channel, ChannelDeps]:
    return make_channel(platform)


@pytest.fixture
def channel(made: tuple[Channel, ChannelDeps]) -> WhatsAppLinked:
    assert isinstance(made[0], WhatsAppLinked)
    return made[0]


@pytest.fixture
async def received(platform: WhatsAppLinkedDevice, channel: WhatsAppLinked) -> AsyncIterator[ReceivedEvents]:
    async with listening(channel) as events:
        platform.send("hello")
        await events.wait_for(1)
        yield events


def open_nothing(file: DeviceFile) -> OpenFile:
    raise AssertionError("nobody opens it")


def get_pid(channel: WhatsAppLinked) -> int:
    assert channel._device is not None
    return channel._device.pid


async def test_messages_of_groups_and_people_come_with_who_said_them(
    platform: WhatsAppLinkedDevice, received: ReceivedEvents
) -> None:
    platform.send("psst", room="direct:bob", sender="bob")
    group, private = await received.wait_for(2)
    assert (group.address, group.sender, group.direct) == (
        platform.get_address("team"),
        platform.get_sender("ann"),
        False,
    )
    assert (private.address, private.sender, private.direct) == (
        platform.get_address("direct:bob"),
        platform.get_sender("bob"),
        True,
    )
    assert all(address.parse(each.address) and each.at for each in (group, private))


async def test_what_the_phone_itself_wrote_is_ours(platform: WhatsAppLinkedDevice, channel: WhatsAppLinked) -> None:
    seen = []

    class Watching(ReceivedEvents):
        async def receive(self, inbound: Inbound) -> Receipt:
            seen.append((inbound.text, inbound.own))
            return await super().receive(inbound)

    async with listening(channel, Watching()) as events:
        platform.send("from the phone", sender="bot")
        platform.send("from ann")
        await events.wait_for(1)
    assert seen == [("from the phone", True), ("from ann", False)]


async def test_without_consent_it_says_that_numbers_were_banned(platform: WhatsAppLinkedDevice) -> None:
    channel, _ = make_channel(platform, accept_risk=False)
    with pytest.raises(ChannelEnded, match=r"banned numbers.*accept_risk = true") as ended:
        await channel.listen(ReceivedEvents().receive)
    assert ended.value.reason is EndReason.SETTING
    assert isinstance(channel, SupportsCheck)
    with pytest.raises(ChannelEnded):
        await channel.check()
    assert platform.begins == []


@pytest.mark.parametrize("more", [{"phone": "+49 151"}, {"emulator": "example.org:80"}, {"emulator": "127.0.0.1:x"}])
async def test_a_wrong_setting_is_named(platform: WhatsAppLinkedDevice, more: dict[str, Any]) -> None:
    channel, _ = make_channel(platform, **more)
    with pytest.raises(ChannelEnded, match=next(iter(more))) as ended:
        await channel.listen(ReceivedEvents().receive)
    assert ended.value.reason is EndReason.SETTING


async def test_the_code_to_link_it_is_shown_until_somebody_entered_it(platform: WhatsAppLinkedDevice) -> None:
    platform.linked = False
    channel, deps = make_channel(platform, phone="491512345678")
    assert deps.pulse is not None
    pulse = deps.pulse
    async with asyncio.timeout(PATIENCE_S), listening(channel) as events:
        await until(lambda: "ABCD-EFGH" in pulse.note, "the code")
        with pytest.raises(Unavailable, match="not connected"):
            await channel.send(platform.get_address("team"), Outbound(key="k", text="too early"))
        platform.link()
        platform.send("at last")
        await events.wait_for(1)
        await until(lambda: pulse.note == "", "the code to be gone")
    assert platform.begins[0].phone == "491512345678"


async def test_without_a_number_a_picture_is_in_a_file_that_others_cannot_read(
    platform: WhatsAppLinkedDevice,
) -> None:
    platform.linked = False
    channel, deps = make_channel(platform)
    assert deps.pulse is not None and deps.folder is not None
    pulse, path = deps.pulse, deps.folder / PICTURE
    async with asyncio.timeout(PATIENCE_S), listening(channel) as events:
        await until(lambda: str(path) in pulse.note, "the note")
        assert path.read_text() == "█▀▀█" and stat.S_IMODE(path.stat().st_mode) == 0o600
        platform.link()
        platform.send("at last")
        await events.wait_for(1)
    assert not path.exists()


async def test_a_device_that_the_phone_removed_ends_the_channel_by_name(
    platform: WhatsAppLinkedDevice, channel: WhatsAppLinked
) -> None:
    events = ReceivedEvents()
    listens = asyncio.create_task(channel.listen(events.receive))
    platform.send("hello")
    await events.wait_for(1)
    platform.fault(PlatformFault.UNAUTHORIZED)
    with pytest.raises(ChannelEnded) as while_sending:
        await channel.send(platform.get_address("team"), Outbound(key="k", text="hello"))
    with pytest.raises(ChannelEnded) as ended:
        await asyncio.wait_for(listens, PATIENCE_S)
    assert (while_sending.value.reason, ended.value.reason) == (EndReason.TOKEN, EndReason.TOKEN)
    assert "link it anew" in ended.value.remedy
    assert platform.texts() == []


@pytest.mark.slow
async def test_a_process_that_is_killed_while_it_sends_leaves_it_uncertain_and_comes_back(
    platform: WhatsAppLinkedDevice, channel: WhatsAppLinked, received: ReceivedEvents
) -> None:
    platform.stalled = True
    team, first = platform.get_address("team"), get_pid(channel)
    sending = asyncio.create_task(channel.send(team, Outbound(key="1", text="once")))
    await platform.until(lambda: ("LINE", "SendText") in platform.requests)
    os.kill(first, signal.SIGKILL)
    with pytest.raises(Unavailable) as error:
        await asyncio.wait_for(sending, PATIENCE_S)
    assert error.value.uncertain

    platform.stalled = False
    platform.send("still there?")
    assert [each.text for each in await received.wait_for(2)] == ["hello", "still there?"]
    assert get_pid(channel) != first
    await channel.send(team, Outbound(key="2", text="yes"))
    assert platform.texts("team") == ["yes"]


async def test_a_sign_that_gets_no_answer_leaves_no_doubt(
    platform: WhatsAppLinkedDevice, channel: WhatsAppLinked, received: ReceivedEvents
) -> None:
    platform.stalled = True
    typing = asyncio.create_task(channel.typing(platform.get_address("team"), "", True))
    await platform.until(lambda: ("LINE", "ShowTyping") in platform.requests)
    os.kill(get_pid(channel), signal.SIGKILL)
    with pytest.raises(Unavailable) as error:
        await asyncio.wait_for(typing, PATIENCE_S)
    assert not error.value.uncertain


async def test_when_listening_ends_no_process_is_left(platform: WhatsAppLinkedDevice, channel: WhatsAppLinked) -> None:
    async with listening(channel) as events:
        platform.send("hello")
        await events.wait_for(1)
        pid = get_pid(channel)
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


async def test_several_files_are_several_messages_and_the_words_are_below_the_first(
    platform: WhatsAppLinkedDevice, channel: WhatsAppLinked, received: ReceivedEvents, tmp_path: Path
) -> None:
    files = []
    for name, mime in (("a.png", "image/png"), ("b.txt", "text/plain")):
        (tmp_path / name).write_bytes(name.encode())
        files.append(OutboundFile(name=name, mime=mime, path=str(tmp_path / name), size=5))
    message = Outbound(key="k", op=Op.FILE, text="see", files=tuple(files), reply_to=received.events[0].platform_id)
    sent = await channel.send(platform.get_address("team"), message)
    shown = platform.list_shown("team")
    assert [(each.text, each.reply_to, each.files[0].name) for each in shown] == [
        ("see", received.events[0].platform_id, "a.png"),
        ("", "", "b.txt"),
    ]
    assert sent == shown[0].id


async def test_if_only_a_part_was_sent_it_is_uncertain(
    platform: WhatsAppLinkedDevice, channel: WhatsAppLinked, received: ReceivedEvents, tmp_path: Path
) -> None:
    """The words are there and the sound is not: sent again, the words would be there twice."""
    (tmp_path / "a.mp3").write_bytes(b"sound")
    file = OutboundFile(name="a.mp3", mime="audio/mpeg", path=str(tmp_path / "a.mp3"), size=5)
    platform.busy_with = SendFile
    with pytest.raises(Unavailable, match="only a part") as error:
        await channel.send(platform.get_address("team"), Outbound(key="k", op=Op.FILE, text="listen", files=(file,)))
    assert error.value.uncertain and platform.texts("team") == ["listen"]


async def test_a_file_is_fetched_when_it_is_opened_and_nothing_of_it_stays(
    platform: WhatsAppLinkedDevice, received: ReceivedEvents
) -> None:
    data = bytes(range(256)) * 999
    platform.send("", files=[GivenFile("a.bin", data)])
    attachment = (await received.wait_for(2))[1].attachments[0]
    assert ("LINE", "FetchFile") not in platform.requests and attachment.open is not None
    assert b"".join([chunk async for chunk in attachment.open()]) == data
    assert platform.folder is not None and list((platform.folder / "files").iterdir()) == []


async def test_a_file_that_is_too_large_is_not_fetched(channel: WhatsAppLinked) -> None:
    file = DeviceFile(kind=DeviceMedia.DOCUMENT, media="", name="film", size=2**40)
    with pytest.raises(Refused, match="more than"):
        await anext(aiter(channel._open_media(file)()))


async def test_only_own_words_can_be_edited(platform: WhatsAppLinkedDevice, channel: WhatsAppLinked) -> None:
    target = f"3EB0.{platform.get_person('ann')}"
    with pytest.raises(Refused, match="somebody else"):
        await channel.send(platform.get_address("team"), Outbound(key="k", op=Op.EDIT, text="x", target=target))


async def test_a_person_who_is_not_on_whatsapp_is_named(channel: WhatsAppLinked, received: ReceivedEvents) -> None:
    with pytest.raises(NotFound, match="on WhatsApp"):
        await channel.send("whatsapp_linked:user/4999999", Outbound(key="k", text="hello"))


async def test_a_check_says_who_it_is_and_never_connects(
    platform: WhatsAppLinkedDevice, channel: SupportsCheck
) -> None:
    found = await channel.check()
    assert found.name == "a linked device" and "was not asked" in found.notes[0]
    platform.linked = False
    assert "not linked yet" in (await channel.check()).name
    assert [each.connect for each in platform.begins] == [False, False]


@pytest.mark.parametrize("said", ["print('no json')", f"print('x' * {LONGEST_LINE + 10})", 'print(\'{"type":"odd"}\')'])
async def test_a_process_that_writes_something_else_is_ended(said: str, tmp_path: Path) -> None:
    command = (sys.executable, "-I", "-c", f"{said}; import sys; sys.stdout.flush(); sys.stdin.read()")
    async with asyncio.timeout(PATIENCE_S), device_process.running(command, Begin(folder=str(tmp_path))) as device:
        with pytest.raises(Unavailable, match="nobody can read"):
            async for _ in device.list_lines():
                pass


async def test_a_process_that_ends_says_why_in_one_line_and_knows_no_secrets_of_ours(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GATEPOST_TOKEN", "hidden")
    command = (
        sys.executable,
        "-I",
        "-c",
        "import os, sys; sys.exit('bad\\tend ' + str('GATEPOST_TOKEN' in os.environ))",
    )
    async with asyncio.timeout(PATIENCE_S), device_process.running(command, Begin(folder=str(tmp_path))) as device:
        assert [line async for line in device.list_lines()] == []
        assert await device.read_last_words() == "bad end False"
        with pytest.raises(Unavailable) as error:
            await device.call(lambda number: ShowTyping(request=number, chat="x", on=True))
        assert not error.value.uncertain


def make_arrived(**more: object) -> Arrived:
    values = {
        "number": 1,
        "kind": DeviceEvent.MESSAGE,
        "chat": "12036300000@g.us",
        "message": MessageKey("3EB0", "491511111@s.whatsapp.net"),
        "sender": "491511111@s.whatsapp.net",
        "group": True,
        "text": "hello",
        **more,
    }
    return Arrived(**values)  # type: ignore[arg-type]


def test_somebody_who_hides_a_number_has_an_address_too() -> None:
    found = wire.read_event(make_arrived(sender="12345678@lid", message=MessageKey("A", "12345678@lid")), open_nothing)
    assert found is not None and found.sender == "whatsapp_linked:user/12345678.lid"
    assert wire.parse_room(found.sender) == "12345678@lid"
    assert wire.parse_message_id(found.platform_id) == MessageKey("A", "12345678@lid")


@pytest.mark.parametrize(
    "more",
    [
        {"chat": "status@broadcast"},
        {"chat": "123@newsletter"},
        {"chat": "12036300000@g.us\n"},
        {"chat": "../x@g.us"},
        {"sender": "ann@s.whatsapp.net"},
        {"message": MessageKey("a b", "491511111@s.whatsapp.net")},
        {"message": MessageKey("3EB0", "evil.me")},
        {"group": False},
        {"text": ""},
        {"kind": DeviceEvent.REACTION, "text": ""},
        {"kind": DeviceEvent.REACTION, "text": "x" * 99},
        {"kind": DeviceEvent.EDIT, "id": "no id"},
    ],
)
def test_what_is_none_of_ours_is_left_out(more: dict[str, object]) -> None:
    assert wire.read_event(make_arrived(), open_nothing) is not None
    assert wire.read_event(make_arrived(**more), open_nothing) is None


@pytest.mark.parametrize(
    "room",
    ["whatsapp_linked:user/ann", "whatsapp:user/49151", "whatsapp_linked:group/1.lid", "whatsapp_linked:x/12345"],
)
def test_an_address_that_is_none_is_no_chat(room: str) -> None:
    assert wire.parse_room(room) is None


def test_a_mention_counts_before_a_reply() -> None:
    quoted = MessageKey("3EB1", own=True)
    found = wire.read_event(make_arrived(quoted=quoted, mentioned=True), open_nothing)
    assert found is not None and found.verb is Verb.MENTION
    assert found.reply_to is not None and found.reply_to.platform_id == "3EB1.me"


def test_words_that_do_not_fit_below_a_file_come_before_it() -> None:
    file = OutboundFile(name="a.png", mime="image/png", path="/a", size=1)
    for text, parts in (("short", [SendFile]), ("long " * 400, [SendText, SendFile])):
        made = wire.render_requests("1@g.us", Outbound(key="k", op=Op.FILE, text=text, files=(file,)), None)
        assert [type(make(1)) for make in made] == parts


@pytest.mark.parametrize(
    ("mime", "parts"),
    [("", [SendText]), ("image/png", [SendFile]), ("application/zip", [SendFile]), ("audio/ogg", [SendText, SendFile])],
)
async def test_a_message_is_passed_on_under_its_authors_name_and_with_whatsapps_label(
    mime: str,
    parts: list[type],
    platform: WhatsAppLinkedDevice,
    channel: WhatsAppLinked,
    received: ReceivedEvents,
    tmp_path: Path,
) -> None:
    (tmp_path / "a").write_bytes(b"a")
    files = (OutboundFile(name="a", mime=mime, path=str(tmp_path / "a"), size=1),) if mime else ()
    passed = PassedMessage(author="Ann", text="/stop *now*", files=files)
    await channel.send(platform.get_address("team"), Outbound(key="k", op=Op.FORWARD, target="1", passed=passed))

    shown = platform.list_shown("team")
    assert [(type(each.raw), each.raw.forwarded) for each in shown] == [(each, True) for each in parts]
    words = shown[0].raw.text if parts[0] is SendText else shown[0].raw.caption
    assert words == "Forwarded message from Ann:\n> /stop *\u200bnow*"
    assert shown[-1].voice == (mime == "audio/ogg") and len(shown[-1].files) == len(files)


@pytest.mark.parametrize("text", ["", f"{UNREADABLE}pollCreationMessage]", "x" * 4090])
async def test_what_cannot_be_passed_on_whole_is_refused(text: str, channel: WhatsAppLinked) -> None:
    passed = PassedMessage(author="Ann", text=text)
    with pytest.raises(Unsupported, match="use send"):
        await channel.send("whatsapp_linked:user/4915112345", Outbound(key="k", op=Op.FORWARD, passed=passed))


@pytest.mark.parametrize("state", [each for each in LinkState if each not in ("pairing", "linked", "connected")])
def test_each_state_that_no_retry_mends_ends_the_channel_in_one_line(state: LinkState) -> None:
    end = find_end(LinkStatus(state=state, detail="two\nlines"))
    if state is LinkState.DISCONNECTED:
        assert end is None
    else:
        assert end is not None and end.remedy and "\n" not in str(end)


def test_an_answer_becomes_the_error_that_the_delivery_knows() -> None:
    raise_for(Answer(request=1), "room")
    with pytest.raises(Unavailable) as waiting:
        raise_for(Answer(request=1, state=AnswerState.UNAVAILABLE, retry_after=3), "room")
    assert (waiting.value.retry_after, waiting.value.everywhere, waiting.value.uncertain) == (3, True, False)
    with pytest.raises(Unavailable) as doubtful:
        raise_for(Answer(request=1, state=AnswerState.UNCERTAIN), "room")
    assert doubtful.value.uncertain
    with pytest.raises(Refused):
        raise_for(Answer(request=1, state=AnswerState.REFUSED), "room")


def test_events_stay_on_the_disk_until_they_are_acknowledged(tmp_path: Path) -> None:
    first: list[Arrived] = []
    journal = EventJournal(tmp_path, first.append)
    for text in ("one", "two", "three"):
        journal.add(make_arrived(text=text))
    journal.acknowledge(first[1].number)
    journal.acknowledge(999)

    again: list[Arrived] = []
    journal = EventJournal(tmp_path, again.append)
    journal.start()
    journal.add(make_arrived(text="four"))
    assert [each.text for each in again] == ["one", "three", "four"]
    for each in again:
        journal.acknowledge(each.number)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_only_so_many_events_are_handed_over_at_once(tmp_path: Path) -> None:
    handed: list[Arrived] = []
    journal = EventJournal(tmp_path, handed.append)
    for number in range(WINDOW + 2):
        journal.add(make_arrived(text=str(number)))
    assert len(handed) == WINDOW
    journal.acknowledge(handed[0].number)
    assert handed[-1].text == str(WINDOW)


def test_an_event_that_was_cut_short_stops_nothing(tmp_path: Path) -> None:
    (tmp_path / "1.json").write_bytes(b'{"type":"ev')
    handed: list[Arrived] = []
    journal = EventJournal(tmp_path, handed.append)
    journal.start()
    journal.add(make_arrived())
    assert [each.number for each in handed] == [2]


@pytest.mark.slow
async def test_the_suite_passes() -> None:
    assert list_failures(await run_suite(WhatsAppLinkedDevice)) == []
