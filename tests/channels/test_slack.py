"""Slack, against the emulated platform."""

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest

import gatepost.flow.intake.command_dispatch  # noqa: F401  it has every command registered
from gatepost.channels.contract import (
    CHANNELS,
    MYSELF,
    Channel,
    ChannelDeps,
    ChannelEnded,
    EndReason,
    HookRequest,
    MemoryCursor,
    SupportsCheck,
    SupportsDirect,
    SupportsHistory,
    SupportsHook,
    SupportsLookup,
    SupportsTyping,
)
from gatepost.channels.slack.adapter import SCOPES, SlackChannel, sign
from gatepost.channels.slack.rest import SlackHttp
from gatepost.channels.slack.wire import (
    NAMES,
    SlackNames,
    SlackSelf,
    read_click,
    read_emoji,
    read_message,
    read_text,
    read_ts,
    render_emoji,
    render_ts,
)
from gatepost.core.clock import SECOND, SystemClock
from gatepost.core.errors import Invalid, NotFound, Refused, Unavailable, Unsupported
from gatepost.core.records import replace
from gatepost.core.settings import Config
from gatepost.flow.delivery.content_fallback import split_text
from gatepost.flow.intake.slash_commands import parse_command
from gatepost.messages import address
from gatepost.messages.card import Card, CardButton, CardField
from gatepost.messages.inbound import CLICK, Inbound, Verb
from gatepost.messages.outbound import Feature, Op, Outbound, OutboundFile, PromptButton
from gatepost_testing.platforms.base import GivenFile, PlatformFault
from gatepost_testing.platforms.slack import SIGNING_SECRET, SlackPlatform
from gatepost_testing.platforms.wiring import ReceivedEvents, listening, make_channel
from gatepost_testing.waiting import PATIENCE_S, until


@pytest.fixture
def platform() -> Iterator[SlackPlatform]:
    with SlackPlatform() as started:
        assert isinstance(started, SlackPlatform)
        yield started


@pytest.fixture
async def channel(platform: SlackPlatform) -> AsyncIterator[SlackChannel]:
    made, _ = make_channel(platform)
    assert isinstance(made, SlackChannel)
    yield made
    await made.close()


def words(key: str = "k", **more: Any) -> Outbound:
    return Outbound(key=key, **{"text": "hello", **more})


async def until_connected(platform: SlackPlatform) -> None:
    await platform.until(lambda: bool(platform.socket.sockets))


async def test_what_people_say_arrives_with_who_where_and_when(platform: SlackPlatform, channel: Channel) -> None:
    async with listening(channel) as received:
        said = platform.send("a < b & c", sender="ann")
        platform.send("psst", room="direct:bea", sender="bea")
        first, second = sorted(await received.wait_for(2), key=lambda each: each.direct)
        await platform.until(lambda: platform.socket.waiting == {})

    assert (first.address, first.platform_id, first.text) == (platform.get_address("team"), said, "a < b & c")
    assert (first.sender, first.sender_name, first.verb) == (platform.get_sender("ann"), "ann", Verb.MESSAGE)
    assert (first.room_name, first.direct) == ("team", False)
    assert first.at is not None and abs(first.at - SystemClock().now()) < PATIENCE_S * SECOND
    assert (second.address, second.direct) == (platform.get_address("direct:bea"), True)
    for each in (first.address, first.sender, second.address):
        address.parse(each)


async def test_a_mention_comes_once_and_answers_in_threads_name_their_thread(
    platform: SlackPlatform, channel: SlackChannel
) -> None:
    async with listening(channel) as received:
        await until_connected(platform)
        answered = await channel.send(platform.get_address("team"), words())
        platform.send("/stop", mention=True)
        await received.wait_for(1)
        platform.send("yes", thread=answered)
        named, reply = await received.wait_for(2)

    assert (named.verb, named.text) == (Verb.MENTION, "@The Gate Post /stop")
    assert isinstance(channel, SlackChannel)
    command = parse_command(named.text, channel.own_names)
    assert command is not None and command.name == "stop"
    assert channel.own_names == {"gatepost", "the gate post"}
    assert (reply.verb, reply.thread) == (Verb.REPLY, answered)


@pytest.mark.slow
async def test_edits_deletions_reactions_and_joins_are_events_of_their_own(
    platform: SlackPlatform, channel: Channel
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


async def test_own_words_are_flagged(platform: SlackPlatform, channel: Channel) -> None:
    seen, received = list[Inbound](), ReceivedEvents()

    async def receive(inbound: Inbound) -> Any:
        seen.append(inbound)
        return await received.receive(inbound)

    task = asyncio.create_task(channel.listen(receive))
    await until_connected(platform)
    await channel.send(platform.get_address("team"), words())
    platform.send("after")
    await received.wait_for(1)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)

    assert [(each.text, each.own) for each in seen] == [("hello", True), ("after", False)]


async def test_a_file_that_comes_is_streamed_and_the_token_goes_nowhere_else(
    platform: SlackPlatform, channel: SlackChannel
) -> None:
    async with listening(channel) as received:
        platform.send("see", files=[GivenFile("plan.png", b"x" * 100_000, "image/png")])
        (event,) = await received.wait_for(1)
        (file,) = event.attachments
        assert file.open is not None
        data = b"".join([chunk async for chunk in file.open()])
        with pytest.raises(Refused, match="does not lie on Slack"):
            [chunk async for chunk in channel._open_url("https://files.slack.com/secret")()]

    assert (file.name, file.mime, file.size, len(data)) == ("plan.png", "image/png", 100_000, 100_000)
    real = SlackHttp("https://slack.com/api/", "xoxb-1", "bot token")
    assert real.is_own_place("https://files.slack.com/a") and not real.is_own_place("http://files.slack.com/a")
    assert not real.is_own_place("https://files.slack.com.evil.example/a")
    await real.close()


@pytest.mark.slow
async def test_everything_that_it_can_do_to_a_message_is_shown(platform: SlackPlatform, channel: Channel) -> None:
    room = platform.get_address("team")
    made = await channel.send(room, words("a", text="**hello** <@U0BOT>"))
    assert platform.texts("team")[0].startswith("hello ") and "<@U0BOT>" not in platform.find(made).raw["text"]
    for op, more in ((Op.EDIT, {"text": "changed"}), (Op.REACT, {"reaction": "👀"}), (Op.PIN, {})):
        for _ in range(2):  # done twice, it is done once
            assert await channel.send(room, words(f"a/{op}", op=op, target=made, **more)) == made

    shown = platform.find(made)
    assert (shown.text, shown.pinned, shown.reactions) == ("changed", True, [("👀", "bot")])

    await channel.send(room, words("b", op=Op.UNPIN_ALL))
    assert not platform.find(made).pinned
    for _ in range(2):
        await channel.send(room, words("c", op=Op.DELETE, target=made))
    assert platform.find(made).deleted
    with pytest.raises(Invalid, match="no name on Slack"):
        await channel.send(room, words("d", op=Op.REACT, target=made, reaction="ÄÖ"))


async def test_files_go_in_three_steps_into_the_thread(
    platform: SlackPlatform, channel: Channel, tmp_path: Path
) -> None:
    begun = platform.send("?")
    (tmp_path / "0").write_bytes(b"x" * 300_000)
    (tmp_path / "1").write_bytes(b"note")
    files = (
        OutboundFile(name="a.bin", mime="application/octet-stream", path=str(tmp_path / "0"), size=300_000),
        OutboundFile(name="b.txt", mime="text/plain", path=str(tmp_path / "1"), size=4),
    )

    made = await channel.send(platform.get_address("team"), words(op=Op.FILE, files=files, thread=begun))

    shown = platform.find(made)
    assert (shown.text, shown.thread) == ("hello", begun)
    assert [(each.name, len(each.data)) for each in shown.files] == [("a.bin", 300_000), ("b.txt", 4)]


async def test_a_file_without_content_is_refused_in_plain_words(
    platform: SlackPlatform, channel: Channel, tmp_path: Path
) -> None:
    for name, data in (("0", b"data"), ("1", b"")):
        (tmp_path / name).write_bytes(data)
    files = (
        OutboundFile(name="a.txt", mime="text/plain", path=str(tmp_path / "0"), size=4),
        OutboundFile(name="b.txt", mime="text/plain", path=str(tmp_path / "1"), size=0),
    )
    with pytest.raises(Invalid, match=r"b\.txt has no content, and Slack takes no such file"):
        await channel.send(platform.get_address("team"), words(op=Op.FILE, files=files))
    assert platform.files == {} and platform.texts() == []


async def test_a_pin_that_is_gone_needs_no_unpinning_in_either_word_of_slack(
    platform: SlackPlatform, channel: Channel
) -> None:
    room = platform.get_address("team")
    made = await channel.send(room, words("a"))
    for op in (Op.UNPIN, Op.PIN, Op.UNPIN, Op.UNPIN):  # never pinned: no_pin; taken off: not_pinned
        await channel.send(room, words("b", op=op, target=made))
    assert not platform.find(made).pinned


async def test_a_workspace_that_is_moving_is_tried_again(platform: SlackPlatform, channel: Channel) -> None:
    platform.moving = True
    with pytest.raises(Unavailable, match="org_login_required"):
        await channel.send(platform.get_address("team"), words())
    platform.moving = False
    assert await channel.send(platform.get_address("team"), words())


async def test_a_card_with_more_than_slack_takes_in_all_of_its_blocks_is_sent_in_parts(
    platform: SlackPlatform, channel: Channel
) -> None:
    fields = tuple(CardField(f"n{at}", "x" * 1900) for at in range(9))
    asked = Card(title="May it?", fields=fields, buttons=(CardButton("t:0", "Allow"),))
    assert not CHANNELS["slack"].fits_card(asked)
    with pytest.raises(Unsupported, match="send the rest before it"):
        await channel.send(platform.get_address("team"), words("a", op=Op.CARD, card=asked))

    decided = replace(asked, done="allowed by ann")
    made = await channel.send(platform.get_address("team"), words("b", op=Op.CARD, card=decided))

    shown = platform.find(made).text
    assert shown.startswith("May it?\nn0: xxx") and shown.endswith("allowed by ann") and "n8" not in shown


@pytest.mark.slow
async def test_a_card_is_shown_with_its_buttons_and_a_click_comes_back(
    platform: SlackPlatform, channel: Channel
) -> None:
    buttons = (CardButton("t:0", "Allow", "primary"), CardButton("t:1", "Deny", "danger"))
    card = Card(title="Home asks", text="**May** it?", fields=(CardField("to", "*x*"),), buttons=buttons)
    async with listening(channel) as received:
        await until_connected(platform)
        made = await channel.send(platform.get_address("team"), words(op=Op.CARD, card=card))
        assert platform.find(made).buttons == ["Allow", "Deny"]
        assert platform.find(made).text == "Home asks\nMay it?\nto: *x*"
        platform.click("team", made, "Deny", sender="bea")
        (click,) = await received.wait_for(1)
        done = Card(title="Home asks", done="denied by bea")
        await channel.send(platform.get_address("team"), words("e", op=Op.EDIT, target=made, card=done))

    assert (click.event, click.click, click.sender) == (CLICK, "t:1", platform.get_sender("bea"))
    shown = platform.find(made)
    assert shown.buttons == [] and "denied by bea" in shown.text


async def test_ticked_boxes_come_as_one_click(platform: SlackPlatform, channel: Channel) -> None:
    buttons = (CardButton("t:0", "red"), CardButton("t:1", "green"), CardButton("t:2", "blue"))
    async with listening(channel) as received:
        await until_connected(platform)
        card = Card(title="Which?", buttons=buttons, many=True)
        made = await channel.send(platform.get_address("direct:ann"), words(op=Op.CARD, card=card))
        platform.choose("direct:ann", made, ["red", "blue"])
        (click,) = await received.wait_for(1)

    assert (click.click, click.direct) == ("t:0,2", True)
    none = platform.make_click("direct:ann", made, ["no such"])
    assert read_click(none, SlackSelf("T1", "U1")) is None


@pytest.mark.slow
async def test_the_pane_has_a_title_prompts_and_a_status(platform: SlackPlatform, channel: SlackChannel) -> None:
    room = platform.get_address("direct:ann")
    async with listening(channel) as received:
        await until_connected(platform)
        thread = platform.open_pane("ann")
        await platform.until(lambda: platform.titles.get(thread) == "gatepost — chat")
        prompts = tuple(PromptButton(f"P{at}", f"say {at}") for at in range(6))
        await channel.send(room, words(op=Op.PROMPTS, prompts=prompts, thread=thread))
        await channel.send(room, words(op=Op.TITLE, text="Invoices"))
        await channel.typing(room, thread, True)
        await channel.typing(room, thread, False)
        platform.send("hi", room="direct:ann", thread=thread)
        (event,) = await received.wait_for(1)

    assert [each["title"] for each in platform.prompts[thread]] == ["P0", "P1", "P2", "P3"]
    assert platform.titles[thread] == "Invoices" and platform.get_typing() == ["direct:ann"]
    assert (event.thread, event.direct) == (thread, True)


async def test_what_is_set_before_the_pane_is_open_is_shown_in_it(
    platform: SlackPlatform, channel: SlackChannel
) -> None:
    await channel.send(platform.get_address("direct:ann"), words(op=Op.TITLE, text="Invoices"))
    async with listening(channel):
        await until_connected(platform)
        thread = platform.open_pane("ann")
        await platform.until(lambda: platform.titles.get(thread) == "Invoices")


@pytest.mark.slow
async def test_an_event_is_acknowledged_only_once_it_is_durable(platform: SlackPlatform) -> None:
    first, _ = make_channel(platform)
    received = ReceivedEvents()
    received.error = Unavailable("the store", retry_after=0.01)
    async with listening(first, received):
        await until_connected(platform)
        platform.send("kept")
        for _ in range(3):
            await platform.until(lambda: bool(platform.socket.waiting))
    assert platform.socket.acknowledged == [] and len(platform.socket.waiting) == 1

    second, _ = make_channel(platform)
    async with listening(second) as again:
        await again.wait_for(1)
        await platform.until(lambda: platform.socket.waiting == {})
    assert again.texts == ["kept"]


@pytest.mark.parametrize("fault", [PlatformFault.DUPLICATE, PlatformFault.REORDER, PlatformFault.FORGOTTEN])
async def test_an_event_that_comes_twice_or_late_is_known_by_its_id(
    platform: SlackPlatform, channel: Channel, fault: PlatformFault
) -> None:
    async with listening(channel) as received:
        await until_connected(platform)
        platform.fault(fault)
        platform.send("one")
        platform.send("two")
        await received.wait_for(2)
        await platform.until(lambda: platform.socket.waiting == {})

    assert sorted(received.texts) == ["one", "two"]


@pytest.mark.slow
async def test_a_dropped_connection_is_opened_again_and_nothing_is_lost(
    platform: SlackPlatform, channel: Channel
) -> None:
    async with listening(channel) as received:
        await until_connected(platform)
        platform.fault(PlatformFault.DROPPED)
        platform.send("one")
        await received.wait_for(1)

    assert received.texts == ["one"] and platform.socket.opened == 2


async def test_when_the_platform_asks_for_it_the_next_connection_is_opened_first(
    platform: SlackPlatform, channel: Channel
) -> None:
    async with listening(channel) as received:
        await until_connected(platform)
        platform.call_soon(platform.socket.ask_to_reconnect)
        await platform.until(lambda: len(platform.socket.sockets) == 2)
        platform.send("one")
        await received.wait_for(1)

    assert received.texts == ["one"]


@pytest.mark.slow
async def test_a_connection_that_answers_no_ping_is_given_up(platform: SlackPlatform, channel: Channel) -> None:
    async with listening(channel) as received:
        await until_connected(platform)
        platform.fault(PlatformFault.HELD_POLL)
        platform.send("unseen")
        await platform.until(lambda: platform.socket.opened >= 2)
        assert received.texts == []
        platform.heal()
        await received.wait_for(1)

    assert received.texts == ["unseen"]


@pytest.mark.slow
async def test_another_program_on_the_same_app_is_a_named_end(platform: SlackPlatform, channel: Channel) -> None:
    platform.fault(PlatformFault.CONFLICT)
    with pytest.raises(ChannelEnded) as ended:
        async with asyncio.timeout(PATIENCE_S):
            await channel.listen(ReceivedEvents().receive)
    assert ended.value.reason is EndReason.SECOND_POLLER


async def test_an_event_that_is_not_as_documented_is_left_out(platform: SlackPlatform, channel: Channel) -> None:
    async with listening(channel) as received:
        await until_connected(platform)
        odd = {"type": "message", "channel": platform.find_channel("team"), "ts": platform.make_ts()}
        for more in ({"files": [1]}, {"files": 5}, {"subtype": "message_changed", "message": {"edited": 1}}):
            platform.emit({**odd, **more})
        platform.send("fine")
        await received.wait_for(1)
        await platform.until(lambda: platform.socket.waiting == {})

    assert received.texts == ["fine"]


@pytest.mark.slow
async def test_a_revoked_token_ends_it_by_name(platform: SlackPlatform, channel: Channel) -> None:
    async def listen() -> None:
        async with asyncio.timeout(PATIENCE_S):
            await channel.listen(ReceivedEvents().receive)

    task = asyncio.create_task(listen())
    await until_connected(platform)
    platform.fault(PlatformFault.UNAUTHORIZED)
    with pytest.raises(ChannelEnded, match="token_revoked") as ended:
        await task
    assert ended.value.reason is EndReason.TOKEN
    with pytest.raises(ChannelEnded):
        await channel.send(platform.get_address("team"), words())


@pytest.mark.slow
async def test_what_was_said_while_nobody_listened_is_read_from_the_history(platform: SlackPlatform) -> None:
    cursor = MemoryCursor()
    first, _ = make_channel(platform, cursor=cursor)
    async with listening(first) as received:
        platform.send("one")
        await received.wait_for(1)
        await platform.until(lambda: platform.socket.waiting == {})
    for at in range(3):
        platform.send(f"missed {at}")
    await asyncio.to_thread(_forget_events, platform)

    second, _ = make_channel(platform, cursor=cursor)
    async with listening(second) as again:
        await again.wait_for(3)
    assert again.texts == ["missed 0", "missed 1", "missed 2"]


def _forget_events(platform: SlackPlatform) -> None:
    """As the platform does once it has tried often enough."""

    async def forget() -> None:
        platform.socket.waiting.clear()

    asyncio.run_coroutine_threadsafe(forget(), platform._loop).result(PATIENCE_S)


async def test_limits_say_how_long(platform: SlackPlatform, channel: Channel) -> None:
    platform.fault(PlatformFault.RATE_LIMIT)
    with pytest.raises(Unavailable) as limited:
        await channel.send(platform.get_address("team"), words())
    assert (limited.value.retry_after, limited.value.uncertain) == (0.2, False)
    assert platform.texts() == []


async def test_refusals_name_what_is_missing(platform: SlackPlatform, channel: Channel) -> None:
    room = platform.get_address("team")
    platform.fault(PlatformFault.FORBIDDEN)
    with pytest.raises(Refused, match="not_in_channel"):
        await channel.send(room, words())
    platform.lacking = "chat:write"
    with pytest.raises(ChannelEnded, match="scope chat:write") as ended:
        await channel.send(room, words())
    assert ended.value.reason is EndReason.RIGHTS
    with pytest.raises(NotFound, match="slack:team"):
        await channel.send("slack:team", words())
    with pytest.raises(NotFound):
        await channel.send(room, words(op=Op.EDIT, target="1/2"))


@pytest.mark.parametrize("threaded", [False, True])
async def test_a_send_without_an_answer_is_found_again_by_its_mark(platform: SlackPlatform, threaded: bool) -> None:
    room, cursor = platform.get_address("team"), MemoryCursor()
    thread = platform.send("?") if threaded else ""
    first, _ = make_channel(platform, cursor=cursor)
    platform.fault(PlatformFault.NO_ANSWER)
    with pytest.raises(Unavailable) as lost:
        await first.send(room, words(thread=thread))
    assert lost.value.uncertain

    second, _ = make_channel(platform, cursor=cursor)
    assert isinstance(second, SlackChannel) and isinstance(first, SlackChannel)
    assert await second.look_up(room, "k") == platform.list_shown()[0].id
    assert await second.look_up(room, "another") is None
    platform.fault(PlatformFault.BUSY)
    with pytest.raises(Unavailable):
        await second.send(room, words("busy"))
    assert await second.look_up(room, "busy") is None
    await first.close()
    await second.close()


async def test_a_file_without_an_answer_is_found_again_by_its_id(
    platform: SlackPlatform, channel: SlackChannel, tmp_path: Path
) -> None:
    room = platform.get_address("team")
    (tmp_path / "0").write_bytes(b"data")
    file = OutboundFile(name="a.txt", mime="text/plain", path=str(tmp_path / "0"), size=4)
    for fault, found in ((PlatformFault.BUSY, False), (PlatformFault.NO_ANSWER, True)):
        platform.fault(fault)
        with pytest.raises(Unavailable) as lost:
            await channel.send(room, words(fault.value, op=Op.FILE, files=(file,)))
        assert lost.value.uncertain
        if found:
            assert await channel.look_up(room, fault.value)
        else:  # it may still appear
            with pytest.raises(Unavailable, match="not appeared"):
                await channel.look_up(room, fault.value)


async def test_a_check_says_who_the_bot_is_and_what_it_lacks(platform: SlackPlatform) -> None:
    fine, _ = make_channel(platform)
    assert isinstance(fine, SlackChannel)
    platform.granted = platform.granted.replace("files:write,", "")
    identity = await fine.check()
    assert identity.name == "@gatepost in Emulated" and identity.missing == ("files:write (to send files)",)
    platform.granted = "channels:history"
    with pytest.raises(ChannelEnded, match="chat:write") as lacking:
        await fine.check()
    assert lacking.value.reason is EndReason.RIGHTS
    await fine.close()


async def test_an_app_token_that_may_not_open_sockets_is_named(platform: SlackPlatform) -> None:
    platform.app_granted = "authorizations:read"
    channel, _ = make_channel(platform)
    assert isinstance(channel, SlackChannel)
    with pytest.raises(ChannelEnded, match="connections:write") as lacking:
        await channel.check()
    assert lacking.value.reason is EndReason.RIGHTS
    await channel.close()


@pytest.mark.parametrize("secrets", [{}, {"token": "made-up"}, {"token": "xoxb-emulated", "app_token": "made-up"}])
async def test_a_wrong_token_is_one_line(platform: SlackPlatform, secrets: dict[str, str]) -> None:
    channel, _ = make_channel(platform, secrets=secrets)
    assert isinstance(channel, SlackChannel)
    with pytest.raises(ChannelEnded) as ended:
        await channel.check()
    assert ended.value.reason is EndReason.TOKEN and "\n" not in str(ended.value)
    await channel.close()


async def test_a_direct_chat_is_opened_and_a_stranger_is_not_found(
    platform: SlackPlatform, channel: SlackChannel
) -> None:
    assert await channel.open_direct(platform.get_sender("ann")) == platform.get_address("direct:ann")
    with pytest.raises(NotFound):
        await channel.open_direct("slack:T1/bot/B1")
    with pytest.raises(Refused, match="user_not_found"):
        await channel.open_direct("slack:T1/user/U1")


@pytest.mark.slow
async def test_history_is_read_back_with_its_own_words_marked(platform: SlackPlatform, channel: SlackChannel) -> None:
    room = platform.get_address("team")
    platform.send("one")
    await channel.send(room, words(text="two"))
    platform.send("three")

    found = await channel.history(room, None, 2)
    assert [(each.text, each.sender == MYSELF) for each in found] == [("two", True), ("three", False)]
    assert [each.text for each in await channel.history(room, found[0].at, 10)] == ["one"]


def make_hook(
    payload: dict[str, Any], *, at: int | None = None, form: bool = False, secret: str = SIGNING_SECRET
) -> HookRequest:
    text = json.dumps(payload)
    body = urlencode({"payload": text}).encode() if form else text.encode()
    moment = str(SystemClock().now() // SECOND if at is None else at)
    headers = {
        "content-type": "application/x-www-form-urlencoded" if form else "application/json",
        "x-slack-request-timestamp": moment,
        "x-slack-signature": sign(secret, moment, body),
    }
    return HookRequest(method="POST", headers=headers, body=body)


@pytest.mark.slow
async def test_events_by_http_are_taken_if_they_are_signed_and_new(platform: SlackPlatform) -> None:
    channel, deps = make_channel(platform, mode="http")
    assert isinstance(channel, SlackChannel) and deps.pulse is not None
    event = {"type": "message", "channel": platform.find_channel("team"), "user": platform.find_person("ann")}
    said = platform.wrap({**event, "text": "by http", "ts": platform.make_ts()})
    async with listening(channel) as received:
        await until(lambda: deps.pulse is not None and deps.pulse.beats, "the first beat")
        challenge = await channel.answer_hook(make_hook({"type": "url_verification", "challenge": "abc"}))
        assert (challenge.status, challenge.body) == (200, b"abc")
        assert (await channel.answer_hook(make_hook(said, secret="wrong"))).status == 401
        assert (await channel.answer_hook(make_hook(said, at=1_700_000_000))).status == 401
        received.error = Unavailable("the store")
        assert (await channel.answer_hook(make_hook(said))).status == 503
        received.error = None
        for _ in range(2):  # the platform repeats what was answered late
            assert (await channel.answer_hook(make_hook(said))).status == 200
        card = Card(title="?", buttons=(CardButton("t:0", "Yes"),))
        made = await channel.send(platform.get_address("team"), words(op=Op.CARD, card=card))
        click = platform.make_click("team", made, ["Yes"])
        assert (await channel.answer_hook(make_hook(click, form=True))).status == 200
        assert (await channel.answer_hook(make_hook({"type": "event_callback"}))).status == 200

    assert [(each.text, each.click) for each in received.events] == [("by http", ""), ("", "t:0")]
    assert (await channel.answer_hook(make_hook(said))).status == 503


async def test_without_a_signing_secret_http_events_are_not_listened_for(platform: SlackPlatform) -> None:
    channel, _ = make_channel(platform, mode="http", secrets={"token": "xoxb-emulated"})
    assert isinstance(channel, SlackChannel)
    with pytest.raises(ChannelEnded, match="signing secret"):
        await channel.listen(ReceivedEvents().receive)
    assert (await channel.answer_hook(make_hook({"type": "url_verification"}, secret=""))).status == 401
    await channel.close()


def test_it_has_what_it_declares() -> None:
    kind = CHANNELS["slack"]
    made = SlackChannel(ChannelDeps(instance="slack", config=Config(), clock=SystemClock()))
    assert isinstance(made, SupportsTyping) == (Feature.TYPING in kind.features)
    assert isinstance(made, SupportsLookup) == (Feature.LOOKUP in kind.features)
    assert isinstance(made, SupportsDirect) == (Feature.DIRECT in kind.features)
    assert isinstance(made, SupportsHistory) == (Feature.HISTORY in kind.features)
    assert isinstance(made, SupportsCheck) and isinstance(made, SupportsHook)


def test_every_emoji_has_a_name_that_slack_knows() -> None:
    assert len(set(NAMES.values())) > 1900
    wrong = [emoji for emoji in NAMES.values() if NAMES.get(render_emoji(emoji)) != emoji]
    assert wrong == []


def test_shades_are_left_out_and_other_names_stay_names() -> None:
    assert (read_emoji("rocket"), render_emoji("🚀")) == ("🚀", "rocket")
    assert (read_emoji("wave::skin-tone-3"), render_emoji("👋🏽")) == ("👋", "wave")
    assert (read_emoji("our_logo"), render_emoji(":our_logo:")) == (":our_logo:", "our_logo")
    assert read_emoji("a") == "🅰️" and render_emoji("ÄÖ") == ""
    assert [render_emoji(each) for each in ("🧑‍💻", "🏳️‍🌈", "❤", "🤦🏽", "🫡")] == [
        "technologist",
        "rainbow-flag",
        "heart",
        "face_palm",
        "saluting_face",
    ]


def test_links_and_names_are_read_as_people_see_them() -> None:
    names = SlackNames("team", {"U1": "ann"})
    said = "<@U1> see <https://a.example|this>, <https://b.example>, <#C1|general>, <!here> 1 &lt; 2"
    assert read_text(said, names) == "@ann see [this](https://a.example), https://b.example, #general, @here 1 < 2"


def test_ids_that_are_no_ids_become_no_address() -> None:
    me, names = SlackSelf("T1", "U1", "B1", "me"), SlackNames()
    fine: dict[str, Any] = {"ts": "1700000000.000100", "user": "U2", "text": "x"}
    assert read_message(fine, "C1/../..", me, names, lambda url: None) is None  # type: ignore[arg-type,return-value]
    assert read_message({**fine, "ts": "1"}, "C1", me, names, lambda url: None) is None  # type: ignore[arg-type,return-value]
    odd = read_message({**fine, "user": "a b"}, "C1", me, names, lambda url: None)  # type: ignore[arg-type,return-value]
    assert odd is not None and odd.sender == "slack:T1/user/unknown"
    other = read_message({**fine, "bot_id": "B2", "username": "ci"}, "C1", me, names, lambda url: None)  # type: ignore[arg-type,return-value]
    assert other is not None and (other.sender, other.sender_name) == ("slack:T1/bot/B2", "ci")


def test_a_moment_is_the_same_there_and_back() -> None:
    assert render_ts(read_ts("1700000000.000100") or 0) == "1700000000.000100"


@pytest.mark.parametrize("sign", ["<", "&", "é", "- item\n", "_x_ ", "```\n<b>\n```\n"])
async def test_a_message_as_long_as_may_be_is_one_message_and_can_be_edited(
    platform: SlackPlatform, channel: Channel, sign: str
) -> None:
    kind, room = CHANNELS["slack"], platform.get_address("team")
    (first, *_) = split_text(sign * 4000, kind.max_text, kind.text_unit)
    sent = await channel.send(room, words("long", text=first))
    assert len(platform.list_shown("team")) == 1
    await channel.send(room, words("edit", text=first, op=Op.EDIT, target=sent))
    assert platform.find(sent).edits == 1


async def test_an_emoji_that_slack_does_not_know_is_refused(platform: SlackPlatform, channel: Channel) -> None:
    room, asked = platform.get_address("team"), platform.send("hello")
    with pytest.raises(Refused, match="invalid_name"):
        await channel.send(room, words("k", op=Op.REACT, target=asked, reaction=":no_such_sign:"))
    await channel.send(room, words("k2", op=Op.REACT, target=asked, reaction="🧑‍💻"))
    assert platform.find(asked).reactions == [("🧑‍💻", "bot")]


async def test_http_events_need_a_signing_secret_and_no_app_token(platform: SlackPlatform) -> None:
    secrets = {name: value for name, value in platform.get_secrets().items() if name != "app_token"}
    channel, _ = make_channel(platform, secrets=secrets, mode="http")
    assert isinstance(channel, SlackChannel)
    assert (await channel.check()).missing == ()
    await channel.close()
    unsigned, _ = make_channel(platform, secrets={"token": secrets["token"]}, mode="http")
    assert isinstance(unsigned, SlackChannel)
    with pytest.raises(ChannelEnded, match="signing secret"):
        await unsigned.check()
    await unsigned.close()
    assert {"app_token", "signing_secret"} == {
        each.name.rpartition(".")[2] for each in CHANNELS["slack"].guide.optional
    }


def test_the_manifest_asks_for_every_scope_and_event_that_the_channel_needs() -> None:
    manifest = (Path(__file__).parents[2] / "docs/channels/slack.md").read_text().partition("```yaml")[2]
    manifest = manifest.partition("```")[0]
    assert all(scope in manifest for scope in SCOPES)
    for event in ("message.channels", "message.groups", "message.im", "message.mpim", "app_mention"):
        assert event in manifest
    assert "app_home: {messages_tab_enabled: true, messages_tab_read_only_enabled: false}" in manifest
