"""Telegram, against the emulated platform."""

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gatepost.channels.contract import ChannelEnded, EndReason, MemoryCursor
from gatepost.channels.telegram import polling
from gatepost.channels.telegram.adapter import TelegramChannel, join_album
from gatepost.channels.telegram.reactions import ALLOWED, NEAREST, find_reaction
from gatepost.channels.telegram.render import LONGEST_DATA, count_shown, render_card, render_keyboard, render_words
from gatepost.channels.telegram.sending import run_steps
from gatepost.channels.telegram.updates import group_albums, is_urgent
from gatepost.channels.telegram.wire import TelegramSelf, read_update
from gatepost.core.errors import NotFound, Refused, Unavailable, Unsupported
from gatepost.messages import address
from gatepost.messages.card import Card, CardButton, CardField
from gatepost.messages.inbound import CLICK, AttachmentKind, Inbound, OpenFile, Verb
from gatepost.messages.outbound import Op, Outbound, OutboundFile
from gatepost_testing.platforms.base import GivenFile, PlatformFault
from gatepost_testing.platforms.telegram import TelegramPlatform
from gatepost_testing.platforms.wire.telegram_html import read_html
from gatepost_testing.platforms.wiring import ReceivedEvents, listening, make_channel

ME = TelegramSelf(7, "my_bot", "My bot")
ANN = {"id": 5, "is_bot": False, "first_name": "Ann", "last_name": "Lee"}
GROUP = {"id": -100, "type": "supergroup", "title": "Team"}
PNG = b"\x89PNG\r\n\x1a\n" + bytes(50)


@pytest.fixture
def platform() -> Iterator[TelegramPlatform]:
    with TelegramPlatform() as started:
        assert isinstance(started, TelegramPlatform)
        yield started


@pytest.fixture
async def channel(platform: TelegramPlatform) -> AsyncIterator[TelegramChannel]:
    made, _ = make_channel(platform)
    assert isinstance(made, TelegramChannel)
    yield made
    await made.close()


def words(key: str = "k", **more: Any) -> Outbound:
    return Outbound(key=key, **{"text": "hello", **more})


def make_file(folder: Path, name: str, data: bytes, mime: str = "application/octet-stream") -> OutboundFile:
    (folder / name).write_bytes(data)
    return OutboundFile(name=name, mime=mime, path=str(folder / name), size=len(data))


def open_nothing(ident: str, size: int) -> OpenFile:
    async def read() -> AsyncIterator[bytes]:
        yield ident.encode()

    return read


def read(**message: Any) -> list[Inbound]:
    given = {"message_id": 3, "date": 10, "chat": GROUP, "from": ANN, **message}
    return read_update({"update_id": 9, "message": given}, ME, {}, open_nothing)


# What people write.


def test_forwarded_words_are_known_as_such() -> None:
    origin = {"type": "hidden_user", "sender_user_name": "Eve"}
    assert [each.forwarded for each in (*read(text="/stop", forward_origin=origin), *read(text="/stop"))] == [
        True,
        False,
    ]


def test_only_what_may_be_an_order_to_stop_is_urgent() -> None:
    texts = ("/stop", "@bot stop", "/stop@bot", "stop it please", "hello", "/stopwatch")
    found = [is_urgent({"update_id": 1, "message": {"text": each}}) for each in texts]
    assert found == [True, True, True, False, False, False]


def test_a_message_has_its_room_its_sender_and_its_time() -> None:
    (found,) = read(text="hello")
    assert (found.address, found.platform_id, found.sender) == ("telegram:group/-100", "3", "telegram:user/5")
    assert (found.sender_name, found.room_name, found.at, found.direct) == ("Ann Lee", "Team", 10_000_000, False)


def test_a_private_chat_is_a_direct_room() -> None:
    (found,) = read(text="hello", chat={"id": 5, "type": "private", "first_name": "Ann"})
    assert (found.address, found.direct) == ("telegram:user/5", True)


@pytest.mark.parametrize("spoken", ["sender_chat", "channel"])
def test_a_chat_that_speaks_stands_in_its_own_name(spoken: str) -> None:
    chat = {"id": -200, "type": "channel", "title": "News"}
    anonymous = {"id": 1087968824, "is_bot": True, "first_name": "Group", "username": "GroupAnonymousBot"}
    given = {"from": anonymous} if spoken == "sender_chat" else {"chat": chat}
    (found,) = read(text="hello", sender_chat=chat, **given)
    assert (found.sender, found.sender_name) == ("telegram:chat/-200", "News")


def test_only_a_topic_is_a_thread() -> None:
    assert read(text="x", message_thread_id=8)[0].thread == ""
    assert read(text="x", message_thread_id=8, is_topic_message=True)[0].thread == "8"


def test_what_a_topic_answers_by_itself_is_no_quote() -> None:
    notice = {"message_id": 8, "from": ANN, "forum_topic_created": {"name": "Plans"}}
    assert read(text="x", message_thread_id=8, is_topic_message=True, reply_to_message=notice)[0].reply_to is None


def test_a_reply_has_the_quoted_part_where_there_is_one() -> None:
    answered = {"message_id": 2, "from": {"id": 7}, "text": "long words", "chat": GROUP}
    (whole,) = read(text="x", reply_to_message=answered)
    (part,) = read(text="x", reply_to_message=answered, quote={"text": "words", "position": 5})
    assert whole.reply_to is not None and part.reply_to is not None
    assert (whole.verb, whole.reply_to.text, part.reply_to.text) == (Verb.REPLY, "long words", "words")


def test_a_reply_to_a_message_elsewhere_has_what_is_quoted_of_it() -> None:
    origin = {"type": "user", "sender_user": {"id": 7, "first_name": "My bot"}, "date": 5}
    external = {"origin": origin, "chat": {"id": -100777, "type": "supergroup"}, "message_id": 2}
    (got,) = read(text="why?", external_reply=external, quote={"text": "the plan", "position": 0})
    assert got.reply_to is not None and got.reply_to.platform_id not in ("", "2")
    assert (got.reply_to.text, got.reply_to.sender, got.verb) == ("the plan", "telegram:user/7", Verb.REPLY)
    hidden = {"type": "hidden_user", "sender_user_name": "Bo", "date": 5}
    (other,) = read(text="why?", external_reply={"origin": hidden, "location": {"latitude": 1, "longitude": 2}})
    assert other.reply_to is not None and (other.reply_to.sender, other.verb) == ("Bo", Verb.MESSAGE)
    assert other.reply_to.text == "[location: 1, 2]"


@pytest.mark.parametrize(
    ("text", "entity", "verb"),
    [
        ("😀 @my_bot hello", {"type": "mention", "offset": 3, "length": 7}, Verb.MENTION),
        ("@My_Bot hello", {"type": "mention", "offset": 0, "length": 7}, Verb.MENTION),
        ("@other hello", {"type": "mention", "offset": 0, "length": 6}, Verb.MESSAGE),
        ("bot hello", {"type": "text_mention", "offset": 0, "length": 3, "user": {"id": 7}}, Verb.MENTION),
        ("/stop@my_bot", {"type": "bot_command", "offset": 0, "length": 12}, Verb.MENTION),
        ("/stop@another", {"type": "bot_command", "offset": 0, "length": 13}, Verb.MESSAGE),
    ],
)
def test_a_mention_is_read_from_the_entities(text: str, entity: dict[str, Any], verb: Verb) -> None:
    assert read(text=text, entities=[entity])[0].verb is verb


@pytest.mark.parametrize(
    ("origin", "name"),
    [
        ({"type": "user", "sender_user": {"id": 5, "first_name": "Bob", "last_name": "B"}}, "Bob B"),
        ({"type": "hidden_user", "sender_user_name": "Hidden"}, "Hidden"),
        ({"type": "chat", "sender_chat": {"id": -5, "title": "A group"}}, "A group"),
        ({"type": "channel", "chat": {"id": -6, "title": "News"}, "message_id": 3}, "News"),
        ({"type": "of tomorrow"}, ""),
    ],
)
def test_a_forwarded_message_says_whose_words_it_has(origin: dict[str, Any], name: str) -> None:
    (forwarded,) = read(text="/stop", forward_origin=origin)
    (said,) = read(text="mine")

    assert (forwarded.forwarded, forwarded.forward_from) == (True, name)
    assert (said.forwarded, said.forward_from) == (False, "")


def test_the_address_of_a_link_is_shown_behind_its_words() -> None:
    link = {"type": "text_link", "offset": 3, "length": 4, "url": "https://a.b"}
    assert read(text="😀 here it is", entities=[link])[0].text == "😀 here (https://a.b) it is"


def test_two_edits_of_one_second_are_two_events() -> None:
    given = {"message_id": 3, "date": 10, "edit_date": 20, "chat": GROUP, "from": ANN, "text": "new"}
    events = [read_update({"update_id": number, "edited_message": given}, ME, {}, open_nothing)[0] for number in (8, 9)]
    assert [each.verb for each in events] == [Verb.EDIT, Verb.EDIT]
    assert len({each.event for each in events}) == 2
    assert {each.platform_id for each in events} == {"3"}


def test_only_a_reaction_that_is_new_is_an_event() -> None:
    thumb, heart = {"type": "emoji", "emoji": "👎"}, {"type": "emoji", "emoji": "❤"}
    own = {"type": "custom_emoji", "custom_emoji_id": "1"}
    event = {"chat": GROUP, "message_id": 3, "user": ANN, "date": 1, "old_reaction": [heart]}
    update = {"update_id": 1, "message_reaction": {**event, "new_reaction": [heart, thumb, own]}}
    (found,) = read_update(update, ME, {}, open_nothing)
    assert (found.event, found.verb) == ("reaction:👎:telegram:user/5", Verb.DISLIKE)


def test_several_who_join_are_several_events() -> None:
    found = read(new_chat_members=[ANN, {"id": 6, "first_name": "Bob"}, {"id": 7, "first_name": "My bot"}])
    assert [(each.sender, each.verb, each.own) for each in found] == [
        ("telegram:user/5", Verb.JOIN, False),
        ("telegram:user/6", Verb.JOIN, False),
        ("telegram:user/7", Verb.JOIN, True),
    ]
    assert len({each.event for each in found}) == 3


@pytest.mark.parametrize(
    ("field", "content", "kind", "name"),
    [
        ("voice", {"file_unique_id": "u"}, AttachmentKind.AUDIO, "voice-u.ogg"),
        ("document", {"file_name": "a.pdf", "mime_type": "application/pdf"}, AttachmentKind.FILE, "a.pdf"),
        ("document", {"file_name": "a.png", "mime_type": "image/png"}, AttachmentKind.IMAGE, "a.png"),
        ("video_note", {"file_unique_id": "u"}, AttachmentKind.VIDEO, "video_note-u.mp4"),
    ],
)
async def test_a_file_has_its_kind_and_a_name(field: str, content: Any, kind: AttachmentKind, name: str) -> None:
    (found,) = read(**{field: {"file_id": "id", "file_size": 4, **content}})
    (file,) = found.attachments
    assert (file.kind, file.name, file.size) == (kind, name, 4)
    assert file.open is not None
    assert [chunk async for chunk in file.open()] == [b"id"]


def test_the_largest_size_of_a_photo_is_the_file() -> None:
    sizes = [{"file_id": str(side), "width": side, "height": side} for side in (90, 800, 320)]
    (file,) = read(photo=sizes, caption="look")[0].attachments
    assert file.mime == "image/jpeg"
    assert file.open is not None


@pytest.mark.parametrize(
    "message",
    [{"pinned_message": {}}, {"new_chat_title": "x"}, {"chat": {}, "text": "x"}, {"message_id": "x", "text": "y"}],
)
def test_a_notice_of_the_platform_is_nothing_that_somebody_wrote(message: dict[str, Any]) -> None:
    assert read(**message) == []


@pytest.mark.parametrize("content", ["location", "contact", "poll", "dice", "sticker"])
def test_what_has_no_words_gets_a_line(content: str) -> None:
    given: dict[str, Any] = {
        "location": {"latitude": 1.5, "longitude": 2.5},
        "contact": {"first_name": "Bob", "phone_number": "+1"},
        "poll": {"question": "When?", "options": [{"text": "now"}]},
        "dice": {"emoji": "🎲", "value": 4},
        "sticker": {"emoji": "🎲", "file_id": "s"},
    }
    assert any(each in read(**{content: given[content]})[0].text for each in ("1.5", "Bob", "When?", "🎲"))


@pytest.mark.parametrize(
    ("message", "line"),
    [
        ({"venue": {"title": "Zoo", "address": "Main 1", "location": {}}, "location": {"latitude": 1}}, "[place: Zoo"),
        ({"location": {"latitude": 1.5, "longitude": 2, "live_period": 60}}, "[live location, which moves on: 1.5, 2]"),
        ({"story": {"chat": {"title": "News"}, "id": 3}}, "[a story of News, which bots cannot see]"),
        (
            {"checklist": {"title": "Buy", "tasks": [{"text": "tea"}, {"text": "milk", "completion_date": 1}]}},
            "[checklist: Buy — ☐ tea / ☑ milk]",
        ),
        ({"paid_media": {"star_count": 5, "paid_media": [{}]}}, "[paid media: 1 for 5 stars, which bots cannot see]"),
        ({"hologram": {"x": 1}}, "[a message of a kind that is not understood here: hologram]"),
    ],
)
def test_no_kind_of_message_is_lost_without_a_word(message: dict[str, Any], line: str) -> None:
    assert read(**message)[0].text.startswith(line)


def test_a_place_that_moves_wakes_nobody_with_each_step() -> None:
    step = {"message_id": 3, "date": 10, "edit_date": 11, "chat": GROUP, "from": ANN, "location": {"latitude": 1}}
    assert read_update({"update_id": 9, "edited_message": step}, ME, {}, open_nothing) == []


def test_a_quote_says_that_there_was_a_file() -> None:
    quoted = {"message_id": 2, "from": ANN, "document": {"file_id": "x", "file_name": "a.csv"}}
    (found,) = read(text="plot this", reply_to_message=quoted)
    assert found.reply_to is not None and found.reply_to.text == "[file: a.csv]"


# Albums.


def make_part(number: int, album: str = "a", chat: dict[str, Any] = GROUP) -> dict[str, Any]:
    return {"update_id": number, "message": {"message_id": number, "chat": chat, "media_group_id": album}}


def test_the_parts_of_an_album_stand_where_its_first_stood() -> None:
    other = {"update_id": 2, "message": {"message_id": 2, "chat": GROUP}}
    elsewhere = make_part(4, chat={"id": -300})
    groups = group_albums([make_part(1), other, make_part(3), elsewhere])
    assert [[each["update_id"] for each in group] for group in groups] == [[1, 3], [2], [4]]


@pytest.mark.slow
async def test_an_album_is_one_message_with_all_its_files(platform: TelegramPlatform, channel: TelegramChannel) -> None:
    async with listening(channel) as received:
        platform.send("first of all")
        await received.wait_for(1)
        files = [GivenFile(f"{number}.txt", b"x", "text/plain") for number in range(3)]
        written = platform.send("three files", files=files)
        event = (await received.wait_for(2))[1]
    assert (event.platform_id, event.text) == (written, "three files")
    assert [each.name for each in event.attachments] == ["0.txt", "1.txt", "2.txt"]


@pytest.mark.slow
async def test_after_a_restart_each_part_of_an_album_is_received_so_that_none_is_lost(
    platform: TelegramPlatform, channel: TelegramChannel
) -> None:
    platform.send("two files", files=[GivenFile(f"{number}.txt", b"x", "text/plain") for number in range(2)])
    async with listening(channel) as received:
        events = await received.wait_for(2)
    assert [each.attachments[0].name for each in events] == ["0.txt", "1.txt"]


def test_a_mention_at_any_part_of_an_album_is_one_of_the_album() -> None:
    parts = [read(caption="", document={"file_id": "1"})[0], read(caption="x", document={"file_id": "2"})[0]]
    assert join_album([parts[0], parts[1]]).text == "x"


# Receiving.


@pytest.mark.slow
async def test_a_room_that_is_stuck_holds_back_the_offset_and_nobody_else(
    platform: TelegramPlatform, channel: TelegramChannel
) -> None:
    gate, received = asyncio.Event(), ReceivedEvents()

    async def receive(inbound: Inbound) -> Any:
        if inbound.text == "stuck":
            await gate.wait()
        return await received.receive(inbound)

    task = asyncio.create_task(channel.listen(receive))
    platform.send("stuck", room="team")
    platform.send("behind it", room="team")
    platform.send("elsewhere", room="other")
    await received.wait_for(1)
    platform.send("later", room="other")
    await received.wait_for(2)
    assert received.texts == ["elsewhere", "later"]
    assert platform.updates[0]["message"]["text"] == "stuck", "the platform was told that it is received"
    gate.set()
    await received.wait_for(4)
    assert received.texts[2:] == ["stuck", "behind it"]
    await platform.until(lambda: not platform.updates)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def test_an_update_that_cannot_be_read_stops_nothing(
    platform: TelegramPlatform, channel: TelegramChannel
) -> None:
    platform.deliver("message", {"message_id": 1, "chat": {"id": 1, "type": "private"}, "from": 5, "text": "x"})
    platform.send("after it")
    async with listening(channel) as received:
        assert (await received.wait_for(1))[0].text == "after it"
        await platform.until(lambda: not platform.updates)


async def test_a_poll_that_was_left_over_is_waited_out(
    platform: TelegramPlatform, channel: TelegramChannel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(polling, "CONFLICT_WAIT_S", 0.01)
    async with listening(channel) as received:
        platform.send("before")
        await received.wait_for(1)
        rival, _ = make_channel(platform)
        assert isinstance(rival, TelegramChannel)
        api = await rival._get_api()
        await api.call("getUpdates", {"timeout": 0}, "poll", reads=True)  # ends the poll of the channel
        platform.send("after")
        await received.wait_for(lambda events: any(each.text == "after" for each in events))
        await rival.close()


async def test_a_second_poller_ends_the_channel_by_name(
    platform: TelegramPlatform, channel: TelegramChannel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(polling, "CONFLICT_WAIT_S", 0.01)
    platform.fault(PlatformFault.CONFLICT)
    with pytest.raises(ChannelEnded) as ended:
        await channel.listen(ReceivedEvents().receive)
    assert ended.value.reason is EndReason.SECOND_POLLER


async def test_a_group_that_moves_stays_the_same_room(platform: TelegramPlatform, channel: TelegramChannel) -> None:
    known = platform.get_address("team")
    async with listening(channel) as received:
        platform.send("before")
        platform.move_group()
        platform.send("after")
        events = await received.wait_for(2)
        assert [each.address for each in events] == [known, known]
        await channel.send(known, words(text="still here"))
    assert platform.texts("team") == ["still here"]


async def test_a_move_that_is_found_out_by_sending_is_remembered(platform: TelegramPlatform) -> None:
    cursor, known = MemoryCursor(), platform.get_address("team")
    platform.move_group()
    first, _ = make_channel(platform, cursor=cursor)
    await first.send(known, words(text="found"))
    second, _ = make_channel(platform, cursor=cursor)
    await second.send(known, words(text="known"))
    assert platform.texts("team") == ["found", "known"]
    assert [path for _, path in platform.requests].count("/sendMessage") == 3
    for each in (first, second):
        assert isinstance(each, TelegramChannel)
        await each.close()


async def test_a_large_file_is_refused_before_it_is_asked_for(channel: TelegramChannel) -> None:
    with pytest.raises(Refused, match="at most"):
        async for _ in channel._open_file("id", 21 * 1024 * 1024)():
            pass


# Sending.


async def test_text_is_html_without_previews(platform: TelegramPlatform, channel: TelegramChannel) -> None:
    await channel.send(platform.get_address("team"), words(text="**b** <x> https://a.b"))
    (shown,) = platform.list_shown()
    assert shown.text == "b <x> https://a.b"
    assert shown.raw["text"] == "<b>b</b> &lt;x&gt; https://a.b"
    assert shown.raw["link_preview_options"] == {"is_disabled": True}


async def test_text_that_telegram_cannot_read_is_sent_plain(
    platform: TelegramPlatform, channel: TelegramChannel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gatepost.channels.telegram.render.render", lambda text, dialect: f"<x>{text}")
    await channel.send(platform.get_address("team"), words(text="**b**"))
    assert platform.texts() == ["**b**"]


def test_a_text_that_grows_beyond_the_limit_stays_as_it_was_written() -> None:
    table = "|a|b|\n|-|-|\n" + "|x|y|\n" * 250 + f"|{'z' * 40}|w|\n" + "|x|y|\n" * 40
    assert len(table) < 4096
    made = render_words(table)
    assert made.html.startswith("|a|b|")
    assert count_shown(made.html) <= 4096


@pytest.mark.slow
@given(st.text(alphabet='ab*_`~[]()<>&|#->1.! \n\\"😀', max_size=80))
@settings(max_examples=200, deadline=None)
def test_whatever_an_agent_writes_telegram_can_read(text: str) -> None:
    words, _ = read_html(render_words(text).html)
    assert words.strip() or not text.strip()


async def test_replies_and_topics_are_used(platform: TelegramPlatform, channel: TelegramChannel) -> None:
    root = platform.send("a topic")
    platform.send("within", thread=root)
    ident = await channel.send(platform.get_address("team"), words(thread=root, reply_to=root))
    shown = platform.find(ident)
    assert (shown.thread, shown.reply_to) == (root, root)


async def test_an_answer_to_a_message_that_is_gone_is_sent_all_the_same(
    platform: TelegramPlatform, channel: TelegramChannel
) -> None:
    await channel.send(platform.get_address("team"), words(reply_to="999999"))
    assert platform.texts() == ["hello"]


async def test_an_edit_that_changes_nothing_is_done(platform: TelegramPlatform, channel: TelegramChannel) -> None:
    room = platform.get_address("team")
    ident = await channel.send(room, words())
    assert await channel.send(room, words(op=Op.EDIT, target=ident)) == ident


async def test_the_words_beside_a_file_can_be_edited(
    platform: TelegramPlatform, channel: TelegramChannel, tmp_path: Path
) -> None:
    room = platform.get_address("team")
    ident = await channel.send(room, words(op=Op.FILE, files=(make_file(tmp_path, "a.bin", b"x"),)))
    await channel.send(room, words(op=Op.EDIT, target=ident, text="better"))
    assert platform.find(ident).text == "better"


async def test_several_files_are_one_album(
    platform: TelegramPlatform, channel: TelegramChannel, tmp_path: Path
) -> None:
    files = tuple(make_file(tmp_path, f"{number}.bin", bytes([number])) for number in range(3))
    await channel.send(platform.get_address("team"), words(op=Op.FILE, files=files))
    shown = platform.list_shown()
    assert [each.files[0].data for each in shown] == [b"\x00", b"\x01", b"\x02"]
    assert [each.text for each in shown] == ["hello", "", ""]
    assert [path for _, path in platform.requests if path.startswith("/send")] == ["/sendMediaGroup"]


async def test_words_too_long_for_a_caption_are_a_message_before_the_file(
    platform: TelegramPlatform, channel: TelegramChannel, tmp_path: Path
) -> None:
    file = make_file(tmp_path, "a.bin", b"x")
    ident = await channel.send(platform.get_address("team"), words(op=Op.FILE, text="w" * 1025, files=(file,)))
    assert [len(each.text) for each in platform.list_shown()] == [1025, 0]
    assert platform.list_shown()[0].id == ident


async def test_a_picture_that_is_none_is_sent_as_a_file(
    platform: TelegramPlatform, channel: TelegramChannel, tmp_path: Path
) -> None:
    room = platform.get_address("team")
    for name, data in (("good.png", PNG), ("bad.png", b"no picture")):
        await channel.send(room, words(op=Op.FILE, files=(make_file(tmp_path, name, data, "image/png"),)))
    asked = [path for _, path in platform.requests if path.startswith("/send")]
    assert asked == ["/sendPhoto", "/sendPhoto", "/sendDocument"]
    assert [each.files[0].data for each in platform.list_shown()] == [PNG, b"no picture"]


async def test_once_a_part_was_sent_a_failure_is_uncertain() -> None:
    async def succeed() -> str:
        return "1"

    async def fail() -> str:
        raise Unavailable("Telegram", "it asks us to wait", retry_after=3)

    with pytest.raises(Unavailable) as later:
        await run_steps([succeed, fail])
    with pytest.raises(Unavailable) as first:
        await run_steps([fail, succeed])
    assert (later.value.uncertain, first.value.uncertain) == (True, False)


async def test_a_limit_of_two_chats_at_once_is_one_of_the_bot(
    platform: TelegramPlatform, channel: TelegramChannel
) -> None:
    platform.retry_after = 5
    platform.fault(PlatformFault.RATE_LIMIT, PlatformFault.RATE_LIMIT)
    found = []
    for room in ("team", "other"):
        with pytest.raises(Unavailable) as limited:
            await channel.send(platform.get_address(room), words())
        found.append((limited.value.retry_after, limited.value.everywhere, limited.value.uncertain))
    assert found == [(5.0, False, False), (5.0, True, False)]


async def test_deleting_what_is_gone_is_done_and_what_is_old_is_refused(
    platform: TelegramPlatform, channel: TelegramChannel
) -> None:
    room = platform.get_address("team")
    ident = await channel.send(room, words())
    for _ in range(2):
        await channel.send(room, words(op=Op.DELETE, target=ident))
    old = await channel.send(room, words())
    platform.messages[int(old)]["date"] -= 49 * 3600
    with pytest.raises(Refused, match="48 hours"):
        await channel.send(room, words(op=Op.DELETE, target=old))


@pytest.mark.parametrize(
    ("emoji", "near"),
    [
        ("👍", "👍"),
        ("👍🏽", "👍"),
        ("❤️", "❤"),
        ("✅", "👍"),
        ("😂", "🤣"),
        ("🤷‍♂️", "🤷‍♂"),
        ("❤️‍🔥", "❤‍🔥"),
        ("🤷‍♀️", "🤷‍♀"),
    ],
)
def test_a_reaction_is_one_that_telegram_has(emoji: str, near: str) -> None:
    assert find_reaction(emoji) == near


def test_a_reaction_that_nothing_is_near_is_refused_with_those_that_work() -> None:
    assert set(NEAREST.values()) <= set(ALLOWED.values())
    with pytest.raises(Unsupported, match="use one of 👍"):
        find_reaction("🧦")


@pytest.mark.parametrize("room", ["telegram:group/x", "telegram:room/1", "discord:user/1", "telegram:user/" + "1" * 30])
async def test_an_address_that_is_none_is_not_found(channel: TelegramChannel, room: str) -> None:
    with pytest.raises(NotFound):
        await channel.send(room, words())


async def test_an_id_that_is_none_is_not_found(platform: TelegramPlatform, channel: TelegramChannel) -> None:
    for more in ({"reply_to": "x"}, {"thread": "../1"}, {"op": Op.EDIT, "target": "١"}):
        with pytest.raises(NotFound):
            await channel.send(platform.get_address("team"), words(**more))


# Cards.


def make_card(**more: Any) -> Card:
    buttons = (CardButton("t:0", "Yes", "primary"), CardButton("t:1", "No", "danger"), CardButton("t:2", "Later"))
    return Card(**{"title": "May <it>?", "text": "**Run** it", "buttons": buttons, **more})


def test_a_card_shows_what_is_plain_as_it_is() -> None:
    made = render_card(make_card(fields=(CardField("path", "<a> **b**"),), done="Allowed by <Ada>", buttons=()))
    assert made.html == (
        "<b>May &lt;it&gt;?</b>\n\n<b>Run</b> it\n\npath: &lt;a&gt; **b**\n\n<i>Allowed by &lt;Ada&gt;</i>"
    )


def test_the_data_of_a_button_fits() -> None:
    long = CardButton("t:" + "x" * 100, "Long")
    rows, ids = render_keyboard(make_card(buttons=(long, CardButton("t:1", "No"))))
    data = [button["callback_data"] for row in rows for button in row]
    assert all(len(each.encode()) <= LONGEST_DATA for each in data)
    assert (ids[data[0]], data[1]) == (long.id, "t:1")


async def test_a_click_on_a_button_with_a_long_id_is_known_after_a_restart(platform: TelegramPlatform) -> None:
    cursor, room = MemoryCursor(), platform.get_address("team")
    card = make_card(buttons=(CardButton("t:" + "x" * 100, "Long"), CardButton("t:1", "No")))
    first, _ = make_channel(platform, cursor=cursor)
    ident = await first.send(room, words(op=Op.CARD, card=card))
    second, _ = make_channel(platform, cursor=cursor)
    async with listening(second) as received:
        platform.click("team", ident, "Long", sender="bob")
        (event,) = await received.wait_for(1)
        await platform.until(lambda: bool(platform.answered))
    assert (event.click, event.event, event.sender) == ("t:" + "x" * 100, CLICK, platform.get_sender("bob"))
    assert isinstance(first, TelegramChannel)
    await first.close()


@pytest.mark.slow
async def test_several_choices_are_checked_and_come_as_one_click(
    platform: TelegramPlatform, channel: TelegramChannel
) -> None:
    ident = await channel.send(platform.get_address("team"), words(op=Op.CARD, card=make_card(many=True)))
    async with listening(channel) as received:
        platform.click("team", ident, "Done")
        await platform.until(lambda: [text for _, text in platform.answered] == ["Choose at least one."])
        platform.click("team", ident, "☐ Yes")
        await platform.until(lambda: "☑ Yes" in platform.find(ident).buttons)
        platform.click("team", ident, "☐ Later")
        await platform.until(lambda: "☑ Later" in platform.find(ident).buttons)
        platform.click("team", ident, "☑ Yes")
        await platform.until(lambda: "☐ Yes" in platform.find(ident).buttons)
        platform.click("team", ident, "☐ No")
        await platform.until(lambda: "☑ No" in platform.find(ident).buttons)
        platform.click("team", ident, "Done")
        (event,) = await received.wait_for(1)
    assert event.click == "t:1,2"


# Who we are.


async def test_privacy_mode_is_told(platform: TelegramPlatform, channel: TelegramChannel) -> None:
    platform.bot["can_read_all_group_messages"] = False
    found = await channel.check()
    assert (found.name, found.link) == ("@gatepost_bot (Gatepost)", "https://t.me/gatepost_bot")
    assert any("/setprivacy" in note for note in found.notes)


async def test_a_webhook_is_a_second_poller(platform: TelegramPlatform, channel: TelegramChannel) -> None:
    platform.webhook = "https://elsewhere.example/hook"
    with pytest.raises(ChannelEnded, match="deleteWebhook") as ended:
        await channel.check()
    assert ended.value.reason is EndReason.SECOND_POLLER


@pytest.mark.parametrize("token", ["", "abc", "12:short", "7000000001:emulated-token-of-a-telegram-bot-ab"])
async def test_a_token_that_is_none_is_named_and_not_shown(platform: TelegramPlatform, token: str) -> None:
    made, _ = make_channel(platform, secrets={"token": token})
    assert isinstance(made, TelegramChannel)
    with pytest.raises(ChannelEnded) as ended:
        await made.check()
    await made.close()
    assert ended.value.reason is EndReason.TOKEN
    assert not token or token not in str(ended.value)


async def test_no_error_shows_the_token(platform: TelegramPlatform, channel: TelegramChannel) -> None:
    token = platform.get_secrets()["token"]
    platform.fault(PlatformFault.FORBIDDEN, PlatformFault.BUSY, PlatformFault.NO_ANSWER)
    for _ in range(3):
        with pytest.raises((Refused, Unavailable)) as error:
            await channel.send(platform.get_address("team"), words())
        assert token not in str(error.value)


async def test_somebody_who_did_not_press_start_cannot_be_written_to(
    platform: TelegramPlatform, channel: TelegramChannel
) -> None:
    platform.closed.add(platform.find_person("bob")["id"])
    with pytest.raises(Refused, match="press Start"):
        await channel.open_direct(platform.get_sender("bob"))
    assert await channel.open_direct(platform.get_sender("ann")) == platform.get_address("direct:ann")


async def test_its_own_name_is_known_once_it_listens(platform: TelegramPlatform, channel: TelegramChannel) -> None:
    async with listening(channel) as received:
        platform.send("hello")
        (event,) = await received.wait_for(1)
        assert channel.own_names == {"gatepost_bot"}
    assert str(address.parse(event.address)) == event.address
    assert json.dumps(event.extra) == "{}"
