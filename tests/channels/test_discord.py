"""Discord, against the emulated platform."""

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from gatepost.channels.contract import (
    CHANNELS,
    MYSELF,
    Channel,
    ChannelDeps,
    ChannelEnded,
    EndReason,
    MemoryCursor,
    SupportsCheck,
    SupportsClose,
    SupportsDirect,
    SupportsHistory,
    SupportsLookup,
    SupportsTyping,
)
from gatepost.channels.discord.adapter import DiscordChannel
from gatepost.channels.discord.gateway import NextStep, read_close
from gatepost.channels.discord.render import read_length, render_buttons, render_embed, render_message, render_text
from gatepost.channels.discord.wire import DiscordRoom, DiscordSelf, read_message, read_room
from gatepost.core.clock import SECOND, SystemClock
from gatepost.core.errors import NotFound, Refused, Unavailable
from gatepost.core.settings import Config
from gatepost.messages import address
from gatepost.messages.card import Card, CardButton, CardField
from gatepost.messages.inbound import CLICK, Inbound, Verb
from gatepost.messages.outbound import Feature, Op, Outbound, OutboundFile
from gatepost_testing.platforms.base import GivenFile, PlatformFault
from gatepost_testing.platforms.discord import DiscordPlatform
from gatepost_testing.platforms.wiring import ReceivedEvents, listening, make_channel
from gatepost_testing.waiting import PATIENCE_S, until


@pytest.fixture
def platform() -> Iterator[DiscordPlatform]:
    with DiscordPlatform() as started:
        assert isinstance(started, DiscordPlatform)
        yield started


@pytest.fixture
async def channel(platform: DiscordPlatform) -> AsyncIterator[DiscordChannel]:
    made, _ = make_channel(platform)
    assert isinstance(made, DiscordChannel)
    yield made
    await made.close()


def words(key: str = "k", **more: Any) -> Outbound:
    return Outbound(key=key, **{"text": "hello", **more})


async def until_connected(platform: DiscordPlatform) -> None:
    await platform.until(lambda: any(each.socket for each in platform.gateway.sessions.values()))


async def test_what_people_say_arrives_with_who_where_and_when(platform: DiscordPlatform, channel: Channel) -> None:
    async with listening(channel) as received:
        await until_connected(platform)
        said = platform.send("good morning", sender="ann")
        platform.send("psst", room="direct:bea", sender="bea")
        first, second = sorted(await received.wait_for(2), key=lambda each: each.direct)

    assert (first.address, first.platform_id, first.text) == (platform.get_address("team"), said, "good morning")
    assert (first.sender, first.sender_name, first.verb) == (platform.get_sender("ann"), "ann", Verb.MESSAGE)
    assert (first.room_name, first.direct) == ("team", False)
    assert first.at is not None and abs(first.at - SystemClock().now()) < PATIENCE_S * SECOND
    assert (second.address, second.direct) == (platform.get_address("direct:bea"), True)
    for each in (first.address, first.sender, second.address):
        address.parse(each)


async def test_a_mention_a_reply_and_a_thread_are_told_apart(platform: DiscordPlatform, channel: Channel) -> None:
    async with listening(channel) as received:
        await until_connected(platform)
        answered = await channel.send(platform.get_address("team"), words())
        mention = platform.send("/stop", mention=True)
        await received.wait_for(1)
        platform.send("yes", reply_to=answered)
        await received.wait_for(2)
        platform.send("here", thread=mention)
        named, reply, threaded = await received.wait_for(3)

    assert (named.verb, named.text) == (Verb.MENTION, "@gatepost /stop")
    assert isinstance(channel, DiscordChannel) and channel.own_names == {"gatepost"}
    assert reply.verb is Verb.REPLY and reply.reply_to is not None
    assert (reply.reply_to.platform_id, reply.reply_to.sender, reply.reply_to.text) == (answered, MYSELF, "hello")
    assert (threaded.thread, threaded.address, threaded.room_name) == (mention, platform.get_address("team"), "team")


async def test_edits_deletions_reactions_and_joins_are_events_of_their_own(
    platform: DiscordPlatform, channel: Channel
) -> None:
    async with listening(channel) as received:
        await until_connected(platform)
        said = platform.send("one")
        platform.edit("team", said, "two")
        platform.react("team", said, "👍", sender="bea")
        platform.delete("team", said)
        platform.join("team", sender="cy")
        _, edit, reaction, deleted, join = await received.wait_for(5)

    assert (edit.verb, edit.text, edit.platform_id) == (Verb.EDIT, "two", said)
    assert edit.event.startswith("edit:")
    assert reaction.event == f"reaction:👍:{platform.get_sender('bea')}" and reaction.platform_id == said
    assert (deleted.verb, deleted.event, deleted.sender) == (Verb.DELETE, "delete", platform.get_sender("ann"))
    assert (join.verb, join.sender) == (Verb.JOIN, platform.get_sender("cy"))


async def test_own_words_are_flagged_and_other_programs_have_their_own_kind_of_sender(
    platform: DiscordPlatform, channel: Channel
) -> None:
    received, seen = ReceivedEvents(), list[Inbound]()

    async def receive(inbound: Inbound) -> Any:
        seen.append(inbound)
        return await received.receive(inbound)

    task = asyncio.create_task(channel.listen(receive))
    await until_connected(platform)
    await channel.send(platform.get_address("team"), words())
    platform.send_as_webhook("build is red")
    await received.wait_for(1)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)

    assert [each.own for each in seen] == [True, False]
    assert seen[1].sender.startswith("discord:webhook/")


async def test_a_file_that_comes_is_streamed_and_one_from_elsewhere_is_refused(
    platform: DiscordPlatform, channel: DiscordChannel
) -> None:
    async with listening(channel) as received:
        await until_connected(platform)
        platform.send("see", files=[GivenFile("plan.png", b"x" * 100_000, "image/png")])
        (event,) = await received.wait_for(1)
        (file,) = event.attachments
        assert file.open is not None
        data = b"".join([chunk async for chunk in file.open()])
        with pytest.raises(Refused, match="no place where Discord keeps files"):
            [chunk async for chunk in channel._open_url("http://127.0.0.2:9/secret")()]

    assert (file.name, file.mime, file.size, len(data)) == ("plan.png", "image/png", 100_000, 100_000)


async def test_everything_that_it_can_do_to_a_message_is_shown(
    platform: DiscordPlatform, channel: Channel, tmp_path: Path
) -> None:
    room, question = platform.get_address("team"), platform.send("?")
    (tmp_path / "0").write_bytes(b"data")
    file = OutboundFile(name="a.txt", mime="text/plain", path=str(tmp_path / "0"), size=4)
    made = await channel.send(room, words("a", reply_to=question, files=(file,)))
    for op, more in (
        (Op.EDIT, {"text": "changed"}),
        (Op.REACT, {"reaction": "👀"}),
        (Op.PIN, {}),
    ):
        assert await channel.send(room, words(f"a/{op}", op=op, target=made, **more)) == made

    shown = platform.find(made)
    assert (shown.text, shown.reply_to, shown.edits, shown.pinned) == ("changed", question, 1, True)
    assert shown.reactions == [("👀", "bot")]
    assert [(each.name, each.data) for each in shown.files] == [("a.txt", b"data")]

    await channel.send(room, words("b", op=Op.UNPIN_ALL))
    assert not platform.find(made).pinned
    await channel.send(room, words("c", op=Op.DELETE, target=made))
    assert platform.find(made).deleted
    assert await channel.send(room, words("c", op=Op.DELETE, target=made)) == made


async def test_an_answer_goes_into_its_thread(platform: DiscordPlatform, channel: Channel) -> None:
    begun = platform.send("?")
    platform.send("here", thread=begun)

    made = await channel.send(platform.get_address("team"), words(thread=begun))

    assert (platform.find(made).thread, platform.find(made).room) == (begun, "team")


async def test_no_text_of_an_agent_calls_people(platform: DiscordPlatform, channel: Channel) -> None:
    made = await channel.send(platform.get_address("team"), words(text="@everyone look"))
    await channel.send(platform.get_address("team"), words("e", op=Op.EDIT, target=made, text="@here look"))

    assert platform.find(made).raw["allowed_mentions"] == {"parse": []}


async def test_spoken_words_are_a_voice_message_with_their_length(
    platform: DiscordPlatform, channel: Channel, tmp_path: Path
) -> None:
    page = b"OggS\x00\x04" + (96_000).to_bytes(8, "little") + b"\x00" * 14
    (tmp_path / "0").write_bytes(page)
    sound = OutboundFile(name="v.ogg", mime="audio/ogg", path=str(tmp_path / "0"), size=len(page))

    made = await channel.send(platform.get_address("team"), words(op=Op.VOICE, files=(sound,)))

    shown = platform.find(made)
    assert shown.voice and shown.raw["attachments"][0]["duration_secs"] == 2.0
    (tmp_path / "1").write_bytes(b"no sound")
    assert read_length(str(tmp_path / "1")) == 1.0


async def test_a_card_is_shown_with_its_buttons_and_a_click_comes_back(
    platform: DiscordPlatform, channel: Channel
) -> None:
    buttons = tuple(CardButton(f"t:{at}", f"B{at}", "danger" if at else "primary") for at in range(7))
    card = Card(title="Home asks", text="**May** it?", fields=(CardField("to", "*x*"),), buttons=buttons)
    async with listening(channel) as received:
        await until_connected(platform)
        made = await channel.send(platform.get_address("team"), words(op=Op.CARD, card=card))
        platform.click("team", made, "B6", sender="bea")
        (click,) = await received.wait_for(1)
        await platform.until(lambda: platform.answered == [click.platform_id])
        done = Card(title="Home asks", done="allowed by bea")
        await channel.send(platform.get_address("team"), words("e", op=Op.EDIT, target=made, card=done))

    assert (click.event, click.click, click.sender) == (CLICK, "t:6", platform.get_sender("bea"))
    assert [len(row["components"]) for row in render_buttons(card)] == [5, 2]
    shown = platform.find(made)
    assert shown.buttons == [] and "allowed by bea" in shown.text


async def test_a_menu_brings_several_choices_as_one_click(platform: DiscordPlatform, channel: Channel) -> None:
    buttons = (CardButton("t:0", "red"), CardButton("t:1", "green"), CardButton("t:2", "blue"))
    async with listening(channel) as received:
        await until_connected(platform)
        card = Card(title="Which?", buttons=buttons, many=True)
        made = await channel.send(platform.get_address("direct:ann"), words(op=Op.CARD, card=card))
        platform.choose("direct:ann", made, ["red", "blue"])
        (click,) = await received.wait_for(1)

    assert (click.click, click.direct) == ("t:0,2", True)


@pytest.mark.slow
async def test_a_dropped_connection_is_resumed_and_nothing_is_lost(platform: DiscordPlatform, channel: Channel) -> None:
    async with listening(channel) as received:
        await until_connected(platform)
        platform.send("one")
        await received.wait_for(1)
        platform.fault(PlatformFault.DROPPED)
        platform.send("two")
        platform.call_soon(platform.gateway.ask_to_reconnect)
        await received.wait_for(2)
        platform.send("three")
        await received.wait_for(3)

    assert received.texts == ["one", "two", "three"]
    assert (platform.gateway.identified, platform.gateway.resumed >= 1) == (1, True)


@pytest.mark.slow
async def test_a_connection_without_answers_to_heartbeats_is_given_up_and_resumed(
    platform: DiscordPlatform, channel: Channel
) -> None:
    async with listening(channel) as received:
        await until_connected(platform)
        platform.send("seen")
        await received.wait_for(1)
        platform.fault(PlatformFault.HELD_POLL)
        platform.send("unseen")
        await platform.until(lambda: not any(each.socket for each in platform.gateway.sessions.values()))
        platform.heal()
        await received.wait_for(2)

    assert received.texts == ["seen", "unseen"] and platform.gateway.resumed >= 1


@pytest.mark.slow
async def test_what_was_said_without_a_session_is_read_from_the_history(platform: DiscordPlatform) -> None:
    cursor = MemoryCursor()
    first, _ = make_channel(platform, cursor=cursor)
    async with listening(first) as received:
        await until_connected(platform)
        platform.send("one")
        platform.send("psst", room="direct:ann")
        await received.wait_for(2)
    platform.gateway.sessions.clear()
    platform.send("two")
    platform.send("three", room="fresh")
    platform.send("four", room="direct:ann")

    second, _ = make_channel(platform, cursor=cursor)
    async with listening(second) as again:
        events = await again.wait_for(lambda found: len({each.text for each in found}) >= 3)

    assert {each.text for each in events} == {"two", "three", "four"}


@pytest.mark.slow
async def test_a_forgotten_session_is_begun_anew_without_a_loss(platform: DiscordPlatform, channel: Channel) -> None:
    async with listening(channel) as received:
        await until_connected(platform)
        platform.send("one")
        await received.wait_for(1)
        platform.fault(PlatformFault.FORGOTTEN, PlatformFault.DROPPED)
        platform.send("two")
        await received.wait_for(2)

    assert received.texts == ["one", "two"] and platform.gateway.identified == 2


@pytest.mark.slow
async def test_a_session_that_can_be_resumed_nowhere_is_begun_anew(platform: DiscordPlatform) -> None:
    cursor = MemoryCursor()
    cursor.saved |= {"session": json.dumps(["gone", "ws://127.0.0.1:9", 7]), "begun": "1"}
    channel, _ = make_channel(platform, cursor=cursor)
    async with listening(channel) as received:
        platform.send("waits")
        await received.wait_for(1)

    assert received.texts == ["waits"] and platform.gateway.identified == 1


@pytest.mark.slow
async def test_after_a_kill_the_session_goes_on_after_the_last_durable_event(platform: DiscordPlatform) -> None:
    cursor = MemoryCursor()
    first, _ = make_channel(platform, cursor=cursor)
    async with listening(first) as received:
        await until_connected(platform)
        said = platform.send("one")
        await received.wait_for(1)
        received.error = Unavailable("the store")
        platform.edit("team", said, "not durable")
        await platform.until(lambda: received.calls > 1)
        cursor.saved.pop("session", None)  # a heartbeat may have saved the same place already
        await until(lambda: "session" in cursor.saved, "a heartbeat while the edit is not durable")

    second, _ = make_channel(platform, cursor=cursor)
    async with listening(second) as again:
        events = await again.wait_for(lambda found: any(each.verb is Verb.EDIT for each in found))

    assert [each.text for each in events if each.verb is Verb.EDIT] == ["not durable"]
    assert platform.gateway.identified == 1


async def test_an_event_waits_while_the_store_is_away_and_others_rooms_go_on(
    platform: DiscordPlatform, channel: Channel
) -> None:
    received = ReceivedEvents()
    stuck = True

    async def receive(inbound: Inbound) -> Any:
        if stuck and inbound.room_name == "team":
            raise Unavailable("the store", retry_after=0.01)
        return await received.receive(inbound)

    task = asyncio.create_task(channel.listen(receive))
    await until_connected(platform)
    platform.send("a1")
    platform.send("a2")
    platform.send("b", room="other")
    await received.wait_for(1)
    assert received.texts == ["b"]
    stuck = False
    await received.wait_for(3)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)

    assert received.texts == ["b", "a1", "a2"]


@pytest.mark.parametrize("fault", [PlatformFault.DUPLICATE, PlatformFault.REORDER])
async def test_an_event_that_comes_twice_or_late_is_known_by_its_id(
    platform: DiscordPlatform, channel: Channel, fault: PlatformFault
) -> None:
    async with listening(channel) as received:
        await until_connected(platform)
        platform.fault(fault)
        platform.send("one")
        platform.send("two")
        await received.wait_for(2)

    assert sorted(received.texts) == ["one", "two"]


async def test_an_event_that_is_not_as_documented_is_left_out(platform: DiscordPlatform, channel: Channel) -> None:
    async with listening(channel) as received:
        await until_connected(platform)
        room = platform.find_channel("team")["id"]
        for odd in ({"author": "nobody"}, {"author": {}, "attachments": [1]}, {"mentions": 5, "content": "x"}):
            odd_event = {"id": "7", "channel_id": room, "type": 0, **odd}
            platform.call_soon(platform.gateway.deliver, "MESSAGE_CREATE", odd_event)
        platform.send("fine")
        await received.wait_for(1)

    assert received.texts == ["fine"] and platform.gateway.identified == 1


async def test_a_revoked_token_ends_it_by_name(platform: DiscordPlatform, channel: Channel) -> None:
    with pytest.raises(ChannelEnded) as ended:
        async with listening(channel):
            await until_connected(platform)
            platform.fault(PlatformFault.UNAUTHORIZED)
            await platform.until(lambda: not platform.gateway.sockets)
            async with asyncio.timeout(PATIENCE_S):
                await _until_ended(channel, platform)
    assert ended.value.reason is EndReason.TOKEN


async def _until_ended(channel: Channel, platform: DiscordPlatform) -> None:
    """A send is refused for the same reason."""
    with pytest.raises(ChannelEnded, match="no longer accepts the token"):
        await channel.send(platform.get_address("team"), words())
    me = asyncio.current_task()
    others = [task for task in asyncio.all_tasks() if task is not me and "listen" in repr(task.get_coro())]
    await asyncio.wait(others, timeout=PATIENCE_S)


async def test_a_bot_that_may_not_read_messages_is_told_which_switch_to_set(
    platform: DiscordPlatform, channel: DiscordChannel
) -> None:
    platform.gateway.allowed_intents = 1
    with pytest.raises(ChannelEnded, match="MESSAGE CONTENT INTENT") as ended:
        async with asyncio.timeout(PATIENCE_S):
            await channel.listen(ReceivedEvents().receive)
    assert ended.value.reason is EndReason.RIGHTS

    platform.application_flags = 0
    with pytest.raises(ChannelEnded, match="MESSAGE CONTENT INTENT"):
        await channel.check()


async def test_a_bot_that_may_not_connect_any_more_today_is_named(
    platform: DiscordPlatform, channel: DiscordChannel
) -> None:
    platform.connections_left = 0
    with pytest.raises(Unavailable, match="all 1000 connections of the bot for today are used"):
        await channel.check()


async def test_a_check_says_who_the_bot_is_and_a_wrong_token_is_one_line(platform: DiscordPlatform) -> None:
    fine, _ = make_channel(platform)
    wrong, _ = make_channel(platform, secrets={"token": "made-up"})
    none, _ = make_channel(platform, secrets={})
    assert isinstance(fine, DiscordChannel) and isinstance(wrong, DiscordChannel) and isinstance(none, DiscordChannel)

    identity = await fine.check()
    assert identity.name == "@gatepost" and f"client_id={platform.bot['id']}" in identity.link
    for each in (wrong, none):
        with pytest.raises(ChannelEnded) as ended:
            await each.check()
        assert ended.value.reason is EndReason.TOKEN and "\n" not in str(ended.value)
    for channel in (fine, wrong, none):
        await channel.close()


async def test_limits_say_how_long_and_whether_for_all_rooms(platform: DiscordPlatform, channel: Channel) -> None:
    room = platform.get_address("team")
    for everywhere in (False, True):
        platform.global_limit = everywhere
        platform.fault(PlatformFault.RATE_LIMIT)
        with pytest.raises(Unavailable) as limited:
            await channel.send(room, words())
        assert (limited.value.retry_after, limited.value.uncertain) == (0.2, False)
        assert limited.value.everywhere is everywhere
    assert platform.texts() == []


async def test_a_missing_right_is_a_refusal_and_an_unknown_room_is_named(
    platform: DiscordPlatform, channel: Channel
) -> None:
    platform.fault(PlatformFault.FORBIDDEN)
    with pytest.raises(Refused, match="Missing Permissions"):
        await channel.send(platform.get_address("team"), words())
    with pytest.raises(NotFound, match="discord:team"):
        await channel.send("discord:team", words())
    with pytest.raises(NotFound):
        await channel.send(platform.get_address("team"), words(op=Op.EDIT, target="../1"))


async def test_a_send_without_an_answer_is_made_once(platform: DiscordPlatform, channel: DiscordChannel) -> None:
    room = platform.get_address("team")
    platform.fault(PlatformFault.NO_ANSWER)
    with pytest.raises(Unavailable) as lost:
        await channel.send(room, words())
    assert lost.value.uncertain

    assert await channel.look_up(room, "k") is None
    again = await channel.send(room, words())

    assert platform.texts() == ["hello"] and again == platform.list_shown()[0].id
    assert await channel.look_up(room, "k") == again


async def test_once_nonces_are_forgotten_only_a_silent_room_allows_a_second_send(platform: DiscordPlatform) -> None:
    room, cursor = platform.get_address("team"), MemoryCursor()
    first, _ = make_channel(platform, cursor=cursor)
    platform.fault(PlatformFault.NO_ANSWER)
    with pytest.raises(Unavailable):
        await first.send(room, words())
    quiet = platform.get_address("quiet")
    platform.fault(PlatformFault.BUSY)
    with pytest.raises(Unavailable):
        await first.send(quiet, words("q"))
    rows = json.loads(cursor.saved["sends"])
    cursor.saved["sends"] = json.dumps({key: [at - 180 * SECOND, *rest] for key, (at, *rest) in rows.items()})

    later, _ = make_channel(platform, cursor=cursor)
    assert isinstance(later, DiscordChannel)
    with pytest.raises(Refused, match="too long ago"):
        await later.look_up(room, "k")
    assert await later.look_up(quiet, "q") is None
    for each in (first, later):
        assert isinstance(each, SupportsClose)
        await each.close()


async def test_a_direct_chat_is_opened_and_a_stranger_is_not_found(
    platform: DiscordPlatform, channel: DiscordChannel
) -> None:
    assert await channel.open_direct(platform.get_sender("ann")) == platform.get_address("direct:ann")
    with pytest.raises(NotFound):
        await channel.open_direct("discord:bot/1")
    with pytest.raises(Refused):
        await channel.open_direct("discord:user/1")


async def test_history_is_read_back_with_its_own_words_marked(
    platform: DiscordPlatform, channel: DiscordChannel
) -> None:
    room = platform.get_address("team")
    platform.send("one")
    await channel.send(room, words(text="two"))
    platform.send("three")

    found = await channel.history(room, None, 2)
    assert [(each.text, each.sender == MYSELF) for each in found] == [("two", True), ("three", False)]
    assert found[0].at is not None
    assert [each.text for each in await channel.history(room, found[0].at, 10)] == ["one"]


async def test_typing_is_shown_while_it_is_on(platform: DiscordPlatform, channel: DiscordChannel) -> None:
    await channel.typing(platform.get_address("team"), "", True)
    await channel.typing(platform.get_address("team"), "", False)
    assert platform.get_typing() == ["team"]


async def test_without_a_network_it_says_so(platform: DiscordPlatform) -> None:
    channel, _ = make_channel(platform, api_url="http://127.0.0.1:9/api/v10")
    assert isinstance(channel, DiscordChannel)
    with pytest.raises(Unavailable, match="cannot be reached"):
        await channel.check()
    await channel.close()


def test_it_has_what_it_declares() -> None:
    kind = CHANNELS["discord"]
    made = DiscordChannel(ChannelDeps(instance="discord", config=Config(), clock=SystemClock()))
    assert isinstance(made, SupportsTyping) == (Feature.TYPING in kind.features)
    assert isinstance(made, SupportsLookup) == (Feature.LOOKUP in kind.features)
    assert isinstance(made, SupportsDirect) == (Feature.DIRECT in kind.features)
    assert isinstance(made, SupportsHistory) == (Feature.HISTORY in kind.features)
    assert isinstance(made, SupportsCheck)


@pytest.mark.parametrize("code", [None, 1000, 1006, 4000, 4001, 4002, 4005, 4008])
def test_most_closes_are_resumed(code: int | None) -> None:
    assert read_close(code) is NextStep.RESUME


@pytest.mark.parametrize("code", [4003, 4007, 4009])
def test_a_session_that_is_over_is_begun_anew(code: int) -> None:
    assert read_close(code) is NextStep.ANEW


def test_ids_that_are_no_ids_become_no_address() -> None:
    assert read_room({"id": "1/../2", "type": 0, "guild_id": "3"}) is None
    assert read_room({"id": "1", "type": 0, "guild_id": "x y"}) is None
    me, room = DiscordSelf("1", "me"), DiscordRoom("discord:1/channel/2")
    assert read_message({"id": "no", "type": 0}, room, me, lambda url: None) is None  # type: ignore[arg-type,return-value]
    odd = read_message({"id": "5", "author": {"id": "a b"}}, room, me, lambda url: None)  # type: ignore[arg-type,return-value]
    assert odd is not None and odd.sender == "discord:user/unknown"


def test_a_nonce_is_short_enough_and_one_for_each_key() -> None:
    bodies = [render_message(words(key)) for key in ("a" * 300, "b")]
    assert all(len(each["nonce"]) <= 25 and each["enforce_nonce"] for each in bodies)
    assert bodies[0]["nonce"] != bodies[1]["nonce"]


def test_backticks_in_a_block_do_not_end_it_however_long_the_text_is() -> None:
    """The platform would show the rest as words of the card."""
    lines = ["soup ```", "**Bob has allowed this.**", *("a_b" * 30 for _ in range(20))]
    text = "\n".join(["File menu.txt:", "", "```", *(f"· {line}" for line in lines), "```"])
    words = "word " * 40
    card = Card(title="x", text=f"{text}\n\n{words}", buttons=(CardButton("a:0", "Allow once"),))
    assert len(text) < 2000 < len(card.text)
    assert render_embed(card)["description"].count("```") == 2
    shown = render_text(f"{text[:-4][:1700]}\n```\n\n" + "[" * 200)
    assert shown.count("```") == 2 and len(shown) <= 2000


@pytest.mark.parametrize("sign", ["x", "🙂", "*"])
async def test_a_decided_card_keeps_to_the_size_of_an_embed_whatever_it_holds(
    platform: DiscordPlatform, channel: Channel, sign: str
) -> None:
    room = platform.get_address("team")
    shown = Card(title="May it?", buttons=(CardButton("1", "Yes"),))
    sent = await channel.send(room, Outbound(key="c", op=Op.CARD, card=shown))
    fields = tuple(CardField(sign * 100, sign * 2000) for _ in range(30))
    done = Card(title=sign * 400, text=sign * 9000, fields=fields, done=sign * 3000)
    await channel.send(room, Outbound(key="e", op=Op.EDIT, card=done, target=sent))
    assert platform.find(sent).edits == 1


async def test_a_post_stands_in_the_channel_itself(platform: DiscordPlatform, channel: Channel) -> None:
    room = platform.get_address("team")
    await channel.send(room, Outbound(key="p", op=Op.POST, text="news", thread=platform.send("hello")))
    assert [(each.text, each.thread) for each in platform.list_shown("team")] == [("news", "")]


async def test_more_files_than_a_message_takes_go_in_several(
    platform: DiscordPlatform, channel: DiscordChannel, tmp_path: Path
) -> None:
    small, large = tmp_path / "small.txt", tmp_path / "large.bin"
    small.write_bytes(b"x")
    large.write_bytes(bytes(9 * 1024 * 1024))
    many = [OutboundFile(name=f"{at}.txt", mime="text/plain", path=str(small), size=1) for at in range(12)]
    heavy = [OutboundFile(name=f"{at}.bin", mime="", path=str(large), size=9 * 1024 * 1024) for at in range(3)]

    first = await channel.send(platform.get_address("team"), words("many", op=Op.FILE, files=tuple(many)))
    again = await channel.send(platform.get_address("team"), words("many", op=Op.FILE, files=tuple(many)))
    await channel.send(platform.get_address("team"), words("heavy", op=Op.FILE, files=tuple(heavy)))

    shown = platform.record
    assert first == again == shown[0].id
    assert [(each.text, len(each.files)) for each in shown] == [("hello", 10), ("", 2), ("hello", 2), ("", 1)]


async def test_of_files_in_several_messages_only_the_last_counts_as_sent(
    platform: DiscordPlatform, channel: DiscordChannel, tmp_path: Path
) -> None:
    small = tmp_path / "small.txt"
    small.write_bytes(b"x")
    many = tuple(OutboundFile(name=f"{at}.txt", mime="text/plain", path=str(small), size=1) for at in range(12))
    room = platform.get_address("team")
    async with listening(channel):
        await until_connected(platform)
        platform.fault(PlatformFault.NO_ANSWER)
        with pytest.raises(Unavailable):
            await channel.send(room, words("many", op=Op.FILE, files=many))
        assert await channel.look_up(room, "many") is None
        await channel.send(room, words("many", op=Op.FILE, files=many))
        assert await channel.look_up(room, "many") is not None
    assert [len(each.files) for each in platform.record] == [10, 2]


async def test_a_refused_form_says_which_field_is_wrong(platform: DiscordPlatform, channel: DiscordChannel) -> None:
    button = CardButton(id="x" * 101, label="Yes")
    card = Card(title="Sure?", text="?", buttons=(button,))
    with pytest.raises(Refused, match="custom_id: Must be between 1 and 100 in length"):
        await channel.send(platform.get_address("team"), words(op=Op.CARD, card=card))


async def test_an_emoji_that_is_spelt_otherwise_there_is_tried_in_the_other_spelling(
    platform: DiscordPlatform, channel: DiscordChannel
) -> None:
    said, room = platform.send("done?"), platform.get_address("team")
    await channel.send(room, words(op=Op.REACT, target=said, reaction="✔\ufe0f"))
    assert platform.find(said).reactions == [("✔", "bot")]
    with pytest.raises(Refused, match="Unknown Emoji"):
        await channel.send(room, words(op=Op.REACT, target=said, reaction="thumbsup"))


async def test_an_answer_to_what_is_no_message_is_sent_without_its_sign(
    platform: DiscordPlatform, channel: DiscordChannel
) -> None:
    await channel.send(platform.get_address("team"), words(reply_to="menu"))
    assert [(each.text, each.reply_to) for each in platform.record] == [("hello", "")]
