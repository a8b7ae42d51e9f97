"""The emulated Telegram, judged by python-telegram-bot: a client that is not ours reads every answer of it."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from typing import Any

import httpx2
import pytest

from gatepost_testing.platforms.base import GivenFile, PlatformFault
from gatepost_testing.platforms.telegram import TOKEN, TelegramPlatform
from gatepost_testing.platforms.wire.telegram_api import REACTIONS
from gatepost_testing.waiting import PATIENCE_S


@pytest.fixture
def platform() -> Iterator[TelegramPlatform]:
    with TelegramPlatform() as started:
        assert isinstance(started, TelegramPlatform)
        yield started


@pytest.fixture
async def bot(platform: TelegramPlatform) -> AsyncIterator[Any]:
    telegram = pytest.importorskip("telegram")
    made = telegram.Bot(TOKEN, base_url=f"{platform.url}/bot", base_file_url=f"{platform.url}/file/bot")
    async with made:
        yield made


def call(platform: TelegramPlatform, method: str, **params: Any) -> dict[str, Any]:
    with httpx2.Client(trust_env=False, timeout=PATIENCE_S) as client:
        found: dict[str, Any] = client.post(f"{platform.url}/bot{TOKEN}/{method}", json=params).json()
        return found


def get_chat(platform: TelegramPlatform, room: str = "team") -> int:
    return int(platform.find_chat(room)["id"])


@pytest.mark.slow
def test_a_poll_brings_what_is_not_confirmed_and_forgets_what_is(platform: TelegramPlatform) -> None:
    platform.send("one")
    platform.send("two")
    first = call(platform, "getUpdates")["result"]
    again = call(platform, "getUpdates", limit=1)["result"]
    later = call(platform, "getUpdates", offset=first[0]["update_id"] + 1)["result"]

    assert [each["message"]["text"] for each in first] == ["one", "two"]
    assert again == first[:1]
    assert later == first[1:]
    assert call(platform, "getUpdates", offset=first[1]["update_id"] + 1)["result"] == []


async def test_a_second_poll_ends_the_first_with_a_conflict(platform: TelegramPlatform) -> None:
    first = asyncio.create_task(asyncio.to_thread(call, platform, "getUpdates", timeout=30))
    await platform.until(lambda: bool(platform.requests))
    second = asyncio.create_task(asyncio.to_thread(call, platform, "getUpdates", timeout=30))
    answer = await asyncio.wait_for(first, PATIENCE_S)
    platform.send("for the second")

    assert (answer["error_code"], answer["ok"]) == (409, False)
    assert (await asyncio.wait_for(second, PATIENCE_S))["result"][0]["message"]["text"] == "for the second"


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("<b>open", "can't parse entities: Can't find end tag corresponding to start tag \"b\""),
        ("<b><i>x</b></i>", "can't parse entities: Unmatched end tag at byte offset 7"),
        ("x</b>", "can't parse entities: Unexpected end tag at byte offset 1"),
        ("<img src=x>", "can't parse entities: Unsupported start tag"),
        ("", "message text is empty"),
        (" \n", "text must be non-empty"),
        ("<b></b>", "text must be non-empty"),
        ("x" * 4097, "message is too long"),
        ("😀" * 2049, "message is too long"),
    ],
)
def test_text_that_telegram_refuses_is_refused_here(platform: TelegramPlatform, text: str, complaint: str) -> None:
    answer = call(platform, "sendMessage", chat_id=get_chat(platform), text=text, parse_mode="HTML")
    assert answer["error_code"] == 400
    assert complaint in answer["description"]


def test_words_and_entities_are_counted_in_utf16(platform: TelegramPlatform) -> None:
    sent = call(platform, "sendMessage", chat_id=get_chat(platform), text="😀 <b>b</b> &amp;", parse_mode="HTML")
    assert sent["result"]["text"] == "😀 b &"
    assert sent["result"]["entities"] == [{"type": "bold", "offset": 3, "length": 1}]


def test_an_edit_that_changes_nothing_is_named(platform: TelegramPlatform) -> None:
    sent = call(platform, "sendMessage", chat_id=get_chat(platform), text="same")["result"]
    again = call(platform, "editMessageText", chat_id=get_chat(platform), message_id=sent["message_id"], text="same")
    assert "message is not modified" in again["description"]


@pytest.mark.slow
def test_each_fault_of_a_send_happens_once(platform: TelegramPlatform) -> None:
    platform.fault(PlatformFault.RATE_LIMIT, PlatformFault.BUSY, PlatformFault.FORBIDDEN)
    answers = [call(platform, "sendMessage", chat_id=get_chat(platform), text="x") for _ in range(4)]
    assert [each.get("error_code", 200) for each in answers] == [429, 502, 403, 200]
    assert answers[0]["parameters"] == {"retry_after": platform.retry_after}
    assert platform.texts() == ["x"]


def test_a_send_without_an_answer_has_happened(platform: TelegramPlatform) -> None:
    platform.fault(PlatformFault.NO_ANSWER)
    with pytest.raises(httpx2.TransportError):
        call(platform, "sendMessage", chat_id=get_chat(platform), text="x")
    assert platform.texts() == ["x"]


def test_a_revoked_token_is_refused_until_it_is_healed(platform: TelegramPlatform) -> None:
    platform.fault(PlatformFault.UNAUTHORIZED)
    assert call(platform, "getMe")["error_code"] == 401
    platform.heal()
    assert call(platform, "getMe")["result"]["username"] == "gatepost_bot"


# Slow: with python-telegram-bot.


@pytest.mark.slow
async def test_the_library_reads_who_the_bot_is_and_what_it_sent(platform: TelegramPlatform, bot: Any) -> None:
    chat = get_chat(platform)
    me = await bot.get_me()
    sent = await bot.send_message(chat, "<b>hello</b> &amp; <code>x</code>", parse_mode="HTML")
    answer = await bot.send_message(chat, "again", reply_to_message_id=sent.message_id)
    edited = await bot.edit_message_text("better", chat_id=chat, message_id=sent.message_id)

    assert (me.username, me.is_bot, me.can_read_all_group_messages) == ("gatepost_bot", True, True)
    assert (sent.text, [each.type for each in sent.entities]) == ("hello & x", ["bold", "code"])
    assert sent.chat.is_forum
    assert answer.reply_to_message.message_id == sent.message_id
    assert (edited.text, edited.edit_date is not None) == ("better", True)
    assert platform.texts() == ["better", "again"]


@pytest.mark.slow
async def test_the_library_reacts_pins_types_and_deletes(platform: TelegramPlatform, bot: Any) -> None:
    chat, written = get_chat(platform), int(platform.send("well done"))
    sent = await bot.send_message(chat, "remember")
    await bot.set_message_reaction(chat, written, "👍")
    await bot.pin_chat_message(chat, sent.message_id)
    await bot.send_chat_action(chat, "typing")

    assert platform.find(str(written)).reactions == [("👍", "bot")]
    assert platform.find(str(sent.message_id)).pinned
    assert platform.get_typing() == ["team"]
    assert await bot.unpin_all_chat_messages(chat)
    assert await bot.delete_message(chat, sent.message_id)
    assert platform.texts() == []


@pytest.mark.slow
async def test_the_library_sends_voice_files_albums_and_into_topics(platform: TelegramPlatform, bot: Any) -> None:
    telegram, chat = pytest.importorskip("telegram"), get_chat(platform)
    topic = await bot.create_forum_topic(chat, "plans")
    voice = await bot.send_voice(chat, b"OggS" + bytes(100), caption="spoken")
    document = await bot.send_document(chat, b"data", filename="data.bin", message_thread_id=topic.message_thread_id)
    album = await bot.send_media_group(
        chat, [telegram.InputMediaDocument(b"1", filename="1.txt"), telegram.InputMediaDocument(b"2", filename="2.txt")]
    )

    assert voice.voice.duration is not None
    assert (document.document.file_name, document.message_thread_id) == ("data.bin", topic.message_thread_id)
    assert document.is_topic_message
    assert len({each.media_group_id for each in album}) == 1
    assert [file.data for shown in platform.list_shown() for file in shown.files][1:] == [b"data", b"1", b"2"]


@pytest.mark.slow
async def test_the_library_reads_every_kind_of_update(platform: TelegramPlatform, bot: Any) -> None:
    telegram, chat = pytest.importorskip("telegram"), get_chat(platform)
    kinds = ["message", "edited_message", "callback_query", "message_reaction"]
    await bot.get_updates(allowed_updates=kinds)
    written = platform.send("look", files=[GivenFile("note.txt", b"words", "text/plain")], mention=True)
    platform.edit("team", platform.send("first"), "second")
    platform.react("team", written, "🔥", sender="bob")
    platform.join("team", sender="bob")
    button = telegram.InlineKeyboardButton("Yes", callback_data="t:0")
    card = await bot.send_message(chat, "May it?", reply_markup=telegram.InlineKeyboardMarkup([[button]]))
    platform.click("team", str(card.message_id), "Yes", sender="bob")
    found = await bot.get_updates(allowed_updates=kinds)

    assert [each.message.caption for each in found if each.message and each.message.document] == ["@gatepost_bot look"]
    assert [each.edited_message.text for each in found if each.edited_message] == ["second"]
    (reaction,) = [each.message_reaction for each in found if each.message_reaction]
    assert (reaction.message_id, reaction.new_reaction[0].emoji) == (int(written), "🔥")
    joined = [each.message.new_chat_members for each in found if each.message and each.message.new_chat_members]
    assert [each[0].first_name for each in joined] == ["bob"]
    (click,) = [each.callback_query for each in found if each.callback_query]
    assert (click.data, click.from_user.first_name, click.message.message_id) == ("t:0", "bob", card.message_id)
    assert await click.answer()
    file = await bot.get_file(next(each.message.document for each in found if each.message).file_id)
    assert await file.download_as_bytearray() == b"words"


@pytest.mark.slow
async def test_the_library_names_the_errors_as_those_of_telegram(platform: TelegramPlatform, bot: Any) -> None:
    error, chat = pytest.importorskip("telegram.error"), get_chat(platform)
    platform.retry_after = 3
    platform.fault(PlatformFault.RATE_LIMIT, PlatformFault.FORBIDDEN)
    with pytest.raises(error.RetryAfter) as limited:
        await bot.send_message(chat, "x")
    with pytest.raises(error.Forbidden):
        await bot.send_message(chat, "x")
    platform.move_group()
    with pytest.raises(error.ChatMigrated) as moved:
        await bot.send_message(chat, "x")
    platform.fault(PlatformFault.CONFLICT)
    with pytest.raises(error.Conflict):
        await bot.get_updates()
    platform.heal()
    platform.fault(PlatformFault.UNAUTHORIZED)
    with pytest.raises(error.InvalidToken):
        await bot.get_me()

    assert limited.value._retry_after.total_seconds() == 3
    assert moved.value.new_chat_id == get_chat(platform)


@pytest.mark.slow
def test_the_reactions_are_those_that_the_library_knows() -> None:
    constants = pytest.importorskip("telegram.constants")
    # Telegram's own list has none with U+FE0F, and takes none.
    assert {each.value.replace("\ufe0f", "") for each in constants.ReactionEmoji} == REACTIONS


def test_two_events_that_are_overtaken_are_both_delivered(platform: TelegramPlatform) -> None:
    platform.fault(PlatformFault.REORDER, PlatformFault.REORDER)
    for text in ("one", "two", "three"):
        platform.send(text)
    found = [each["message"]["text"] for each in call(platform, "getUpdates")["result"]]
    assert found == ["three", "one", "two"]
