"""WhatsApp's Cloud API through its emulator: events by signed hooks, messages by the Graph API."""

import json
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from gatepost.channels.contract import (
    Channel,
    ChannelEnded,
    EndReason,
    HookRequest,
    LateFailure,
    MemoryCursor,
    SupportsCheck,
    SupportsHook,
    SupportsLookup,
    SupportsReadMarks,
    SupportsTyping,
)
from gatepost.channels.kit.hooks import sign
from gatepost.channels.kit.http import PlatformAnswer
from gatepost.channels.whatsapp import wire
from gatepost.channels.whatsapp.adapter import read_error
from gatepost.core.errors import GatepostError, NotFound, Refused, Unavailable, Unsupported
from gatepost.flow.intake.intake import IntakeLimits, make_arrival
from gatepost.messages import address
from gatepost.messages.card import Card, CardButton, CardField
from gatepost.messages.inbound import CLICK, AttachmentKind, Verb
from gatepost.messages.outbound import Op, Outbound, OutboundFile, PassedMessage
from gatepost_testing.platforms.base import GivenFile, PlatformFault
from gatepost_testing.platforms.whatsapp import APP_SECRET, NUMBER_ID, WhatsAppPlatform, refuse
from gatepost_testing.platforms.wiring import ReceivedEvents, listening, make_channel, serve_hooks


@pytest.fixture
def platform() -> Iterator[WhatsAppPlatform]:
    with WhatsAppPlatform() as made:
        assert isinstance(made, WhatsAppPlatform)
        yield made


@pytest.fixture
def channel(platform: WhatsAppPlatform) -> Channel:
    return make_channel(platform)[0]


@pytest.fixture
async def received(channel: Channel) -> AsyncIterator[ReceivedEvents]:
    async with listening(channel) as events:
        yield events


@pytest.fixture
def ann(platform: WhatsAppPlatform) -> str:
    return platform.get_address("direct:ann")


def file(tmp_path: Path, name: str, mime: str, data: bytes = b"data") -> OutboundFile:
    (tmp_path / name).write_bytes(data)
    return OutboundFile(name=name, mime=mime, path=str(tmp_path / name), size=len(data))


async def test_a_message_comes_once_with_its_sender_and_its_time(
    platform: WhatsAppPlatform, received: ReceivedEvents, ann: str
) -> None:
    platform.fault(PlatformFault.DUPLICATE, PlatformFault.FORGOTTEN)
    sent = platform.send("hello", room="direct:ann")

    (event,) = await received.wait_for(1)
    await platform.until(lambda: len(platform.deliveries) == 3)

    assert (event.address, event.sender, event.platform_id, event.text) == (ann, ann, sent, "hello")
    assert (event.sender_name, event.direct, event.verb) == ("Ann", True, Verb.MESSAGE)
    assert event.at is not None and address.parse(event.address)
    assert received.calls == 3 and len(received.events) == 1


async def test_what_cannot_be_kept_is_answered_so_that_it_comes_again(
    platform: WhatsAppPlatform, received: ReceivedEvents
) -> None:
    received.error = Unavailable("the store")
    platform.send("first", room="direct:ann")
    platform.send("second", room="direct:ann")
    await platform.until(lambda: platform.deliveries.count(503) >= 2)
    received.error = None

    assert [each.text for each in await received.wait_for(2)] == ["first", "second"]


async def test_a_reply_names_what_it_answers(platform: WhatsAppPlatform, received: ReceivedEvents) -> None:
    first = platform.send("one", room="direct:ann")
    platform.send("two", room="direct:ann", reply_to=first)

    event = (await received.wait_for(2))[1]
    assert event.verb is Verb.REPLY and event.reply_to is not None and event.reply_to.platform_id == first


async def test_a_reaction_is_an_event_of_the_message_it_is_about(
    platform: WhatsAppPlatform, received: ReceivedEvents, ann: str
) -> None:
    message = platform.send("hi", room="direct:ann")
    platform.react("direct:ann", message, "👎")

    event = (await received.wait_for(2))[1]
    assert (event.platform_id, event.event, event.text) == (message, f"reaction:👎:{ann}", "👎")


async def test_a_file_is_read_in_two_steps(platform: WhatsAppPlatform, received: ReceivedEvents) -> None:
    platform.send("look", room="direct:ann", files=[GivenFile("a b.pdf", b"%PDF" * 50_000, "application/pdf")])

    (event,) = await received.wait_for(1)
    (attachment,) = event.attachments
    assert attachment.open is not None
    data = b"".join([chunk async for chunk in attachment.open()])
    assert (event.text, attachment.name, attachment.mime) == ("look", "a b.pdf", "application/pdf")
    assert (attachment.kind, data) == (AttachmentKind.FILE, b"%PDF" * 50_000)


async def test_a_text_is_sent_with_our_key_and_as_a_reply(
    platform: WhatsAppPlatform, received: ReceivedEvents, channel: Channel, ann: str
) -> None:
    asked = platform.send("hello", room="direct:ann")
    sent = await channel.send(ann, Outbound(key="k1", text="hello back", reply_to=asked))

    (shown,) = platform.list_shown("direct:ann")
    assert (shown.id, shown.text, shown.key, shown.reply_to) == (sent, "hello back", "k1", asked)


async def test_a_reaction_is_set(platform: WhatsAppPlatform, channel: Channel, ann: str) -> None:
    message = platform.send("hello", room="direct:ann")
    await channel.send(ann, Outbound(key="k", op=Op.REACT, target=message, reaction="👍"))
    assert platform.find(message).reactions == [("👍", "bot")]


async def test_files_are_uploaded_and_sent_each_with_the_words_below_the_first(
    platform: WhatsAppPlatform, channel: Channel, ann: str, tmp_path: Path
) -> None:
    files = (file(tmp_path, "a.png", "image/png"), file(tmp_path, "b.csv", "text/csv", b"1,2"))
    last = await channel.send(ann, Outbound(key="k", op=Op.FILE, text="two files", files=files))

    first, second = platform.list_shown()
    assert (first.text, first.raw["type"], first.files[0].data) == ("two files", "image", b"data")
    assert (second.text, second.raw["type"], second.files) == (
        "",
        "document",
        [GivenFile("b.csv", b"1,2", "text/plain")],
    )
    assert (last, second.key, first.key) == (second.id, "k", "part 0")


async def test_a_file_of_a_type_that_is_refused_is_named_in_the_words(
    platform: WhatsAppPlatform, channel: Channel, ann: str, tmp_path: Path
) -> None:
    packed, note = file(tmp_path, "all.zip", "application/zip"), file(tmp_path, "a.md", "text/markdown")
    await channel.send(ann, Outbound(key="k", op=Op.FILE, text="two files", files=(packed, note)))
    await channel.send(ann, Outbound(key="l", op=Op.FILE, text="one file", files=(packed,)))

    first, second = platform.list_shown()
    assert (first.text, first.files[0].name) == ("two files\n[file: all.zip, 4 bytes]", "a.md")
    assert (second.text, second.raw["type"]) == ("one file\n[file: all.zip, 4 bytes]", "text")


async def test_a_refusal_says_what_stands_in_its_details(
    platform: WhatsAppPlatform, channel: Channel, ann: str
) -> None:
    with pytest.raises(Refused, match=r"Parameter value is not valid.*contextual-replies"):
        await channel.send(ann, Outbound(key="k", text="hello", reply_to="wamid.none"))


@pytest.mark.parametrize("code", [131016, 131057])
def test_an_account_that_is_in_maintenance_is_asked_again(code: int) -> None:
    body = {"error": {"message": "x", "code": code}}
    given = PlatformAnswer(response=httpx2.Response(400), body=body, action="send", effect=True, retry_after=None)
    assert isinstance(read_error(given), Unavailable)


async def test_words_that_do_not_fit_below_a_file_come_before_it(
    platform: WhatsAppPlatform, channel: Channel, ann: str, tmp_path: Path
) -> None:
    sound = file(tmp_path, "a.mp3", "audio/mpeg")
    await channel.send(ann, Outbound(key="k", op=Op.FILE, text="a song", files=(sound,)))
    assert [(each.text, each.raw["type"]) for each in platform.list_shown()] == [("a song", "text"), ("", "audio")]


async def test_a_voice_note_is_one(platform: WhatsAppPlatform, channel: Channel, ann: str, tmp_path: Path) -> None:
    note = file(tmp_path, "note.ogg", "audio/ogg")
    await channel.send(ann, Outbound(key="k", op=Op.VOICE, text="the words", files=(note,)))
    (shown,) = platform.list_shown()
    assert shown.voice and shown.files[0].mime == "audio/ogg; codecs=opus"


def make_card(count: int, label: str = "Choice", **more: Any) -> Card:
    buttons = tuple(CardButton(f"t:{number}", f"{label} {number}") for number in range(count))
    return Card(title="Well?", text="Choose.", fields=(CardField("cost", "2"),), buttons=buttons, **more)


@pytest.mark.parametrize(("count", "label"), [(2, "Choice"), (3, "A label of more than twenty signs"), (10, "Row")])
async def test_a_card_has_buttons_or_rows_and_a_press_comes_back(
    platform: WhatsAppPlatform, received: ReceivedEvents, channel: Channel, ann: str, count: int, label: str
) -> None:
    sent = await channel.send(ann, Outbound(key="k", op=Op.CARD, text="Well? 1. …", card=make_card(count, label)))
    (shown,) = platform.list_shown()
    assert shown.buttons == [f"{label} {number}" for number in range(count)]
    assert "Well?" in shown.text and "cost: 2" in shown.text

    platform.click("direct:ann", sent, f"{label} 1")
    (event,) = await received.wait_for(1)
    assert (event.event, event.click, event.text, event.sender) == (CLICK, "t:1", "", ann)


@pytest.mark.parametrize("card", [make_card(11), make_card(2, many=True), make_card(0)])
async def test_a_card_that_whatsapp_cannot_show_is_text(
    platform: WhatsAppPlatform, channel: Channel, ann: str, card: Card
) -> None:
    await channel.send(ann, Outbound(key="k", op=Op.CARD, text="the card as text", card=card))
    assert platform.texts() == ["the card as text"]


async def test_a_message_is_read_and_typing_shown_once_an_agent_has_taken_it(
    platform: WhatsAppPlatform, received: ReceivedEvents, channel: Channel, ann: str
) -> None:
    """The sign of typing marks a message as read: before, it was shown for the newest that came, whoever took it."""
    assert isinstance(channel, SupportsTyping) and isinstance(channel, SupportsReadMarks)
    first, _ = platform.send("hello", room="direct:ann"), platform.send("are you there?", room="direct:ann")
    await platform.until(lambda: platform.deliveries.count(200) == 2)
    await channel.typing(ann, "", True)
    assert (platform.get_typing(), platform.receipts) == ([], [])
    await channel.mark_read(ann, "", (first,))
    await channel.typing(ann, "", True)
    assert (platform.get_typing(), platform.receipts) == (["direct:ann"], [first, first])


async def test_buttons_of_one_label_go_as_rows_because_whatsapp_takes_no_title_twice(
    platform: WhatsAppPlatform, channel: Channel, ann: str
) -> None:
    card = Card(title="Which?", buttons=(CardButton("t:0", "Yes"), CardButton("t:1", "Yes")))
    made = await channel.send(ann, Outbound(key="k", op=Op.CARD, text="Which?", card=card))
    assert platform.find(made).raw["interactive"]["type"] == "list"
    assert platform.find(made).buttons == ["Yes", "Yes"]


async def test_a_right_that_the_app_lacks_is_no_outage_whatever_the_status_is(
    platform: WhatsAppPlatform, channel: Channel, ann: str
) -> None:
    platform.capable = False  # Meta answers 500 with the code 3
    with pytest.raises(Refused, match=r"capability.*whatsapp_business_messaging"):
        await channel.send(ann, Outbound(key="k", text="news"))
    body = {"error": {"code": 131005, "message": "(#131005) Access denied"}}
    given = PlatformAnswer(response=httpx2.Response(403), body=body, action="send", effect=True, retry_after=None)
    assert "whatsapp_business_messaging" in str(read_error(given))


async def test_a_check_names_a_number_that_was_deleted(platform: WhatsAppPlatform, channel: Channel) -> None:
    assert isinstance(channel, SupportsCheck)
    platform.deleted = True
    with pytest.raises(ChannelEnded, match=rf"no right to the number {NUMBER_ID} \(code 33\)") as ended:
        await channel.check()
    assert ended.value.reason is EndReason.RIGHTS


async def test_a_reaction_to_a_message_that_is_gone_fails_late_and_is_never_an_answer(
    platform: WhatsAppPlatform, ann: str
) -> None:
    failures: list[LateFailure] = []
    channel, _ = make_channel(platform, failures=failures)
    theirs = platform.send("hello", room="direct:ann")
    async with listening(channel):
        await channel.send(ann, Outbound(key="k", op=Op.REACT, target="wamid.gone", reaction="👍", reply_to=theirs))
        await platform.until(lambda: bool(failures))
    assert [(each.key, each.again) for each in failures] == [("k", False)] and "131009" in failures[0].why


async def test_after_a_day_only_a_template_reaches_a_person(platform: WhatsAppPlatform, ann: str) -> None:
    platform.close_window("ann")
    plain, _ = make_channel(platform)
    with pytest.raises(Refused, match=r"24 hours.*channels\.whatsapp\.template"):
        await plain.send(ann, Outbound(key="k", text="news"))

    noted, _ = make_channel(platform, template="notice", template_language="de")
    await noted.send(ann, Outbound(key="k2", text="line one\n\nline   two"))
    (shown,) = platform.list_shown()
    assert shown.text == "line one line two"
    assert (shown.raw["template"]["name"], shown.raw["template"]["language"]) == ("notice", {"code": "de"})


async def test_an_answer_that_was_lost_is_found_by_the_report(
    platform: WhatsAppPlatform, received: ReceivedEvents, channel: Channel, ann: str
) -> None:
    assert isinstance(channel, SupportsLookup)
    platform.fault(PlatformFault.NO_ANSWER)
    with pytest.raises(Unavailable) as caught:
        await channel.send(ann, Outbound(key="k", text="once"))
    assert caught.value.uncertain
    await platform.until(lambda: 200 in platform.deliveries)

    assert await channel.look_up(ann, "k") == platform.list_shown()[0].id
    assert platform.texts() == ["once"]


async def test_a_report_outlives_the_process_that_got_it(platform: WhatsAppPlatform, ann: str) -> None:
    cursor = MemoryCursor()
    first, _ = make_channel(platform, cursor=cursor)
    async with listening(first):
        platform.fault(PlatformFault.NO_ANSWER)
        with pytest.raises(Unavailable):
            await first.send(ann, Outbound(key="k", text="once"))
        await platform.until(lambda: 200 in platform.deliveries)

    again, _ = make_channel(platform, cursor=cursor)
    assert isinstance(again, SupportsLookup)
    assert await again.look_up(ann, "k") == platform.list_shown()[0].id


async def test_without_a_report_nobody_says_that_it_is_not_there(
    platform: WhatsAppPlatform, channel: Channel, ann: str
) -> None:
    """No hook is served here, so no report comes."""
    assert isinstance(channel, SupportsLookup)
    assert await channel.look_up(ann, "never sent") is None
    platform.fault(PlatformFault.NO_ANSWER)
    with pytest.raises(Unavailable):
        await channel.send(ann, Outbound(key="k", text="once"))
    with pytest.raises(Unavailable, match="not reported"):
        await channel.look_up(ann, "k")


@pytest.mark.parametrize(
    ("fault", "kind", "uncertain"),
    [(PlatformFault.RATE_LIMIT, Unavailable, False), (PlatformFault.BUSY, Unavailable, False)],
)
async def test_a_busy_platform_is_tried_again(
    platform: WhatsAppPlatform, channel: Channel, ann: str, fault: PlatformFault, kind: type, uncertain: bool
) -> None:
    platform.fault(fault)
    with pytest.raises(kind) as caught:
        await channel.send(ann, Outbound(key="k", text="x"))
    assert caught.value.uncertain == uncertain  # type: ignore[attr-defined]
    assert caught.value.retry_after == (0.2 if fault is PlatformFault.RATE_LIMIT else None)  # type: ignore[attr-defined]
    await channel.send(ann, Outbound(key="k", text="x"))
    assert platform.texts() == ["x"]


async def test_a_refusal_is_told_with_its_reason(platform: WhatsAppPlatform, channel: Channel, ann: str) -> None:
    platform.fault(PlatformFault.FORBIDDEN)
    with pytest.raises(Refused, match="whatsapp_business_messaging"):
        await channel.send(ann, Outbound(key="k", text="x"))
    for room in ("whatsapp:group/1", "whatsapp:user/../x", "telegram:user/12345", "whatsapp:user/1"):
        with pytest.raises(NotFound):
            await channel.send(room, Outbound(key="k", text="x"))


async def test_a_revoked_token_ends_the_channel(platform: WhatsAppPlatform, channel: Channel, ann: str) -> None:
    platform.fault(PlatformFault.UNAUTHORIZED)
    for ended in (channel.listen(ReceivedEvents().receive), channel.send(ann, Outbound(key="k", text="x"))):
        with pytest.raises(ChannelEnded) as caught:
            await ended
        assert caught.value.reason is EndReason.TOKEN


async def test_the_check_names_the_number_and_its_quality(platform: WhatsAppPlatform, channel: Channel) -> None:
    assert isinstance(channel, SupportsCheck)
    platform.quality = "RED"
    found = await channel.check()
    assert (found.name, found.link) == ("+1 555-078-3881 (Lucky Shrub)", "https://wa.me/15550783881")
    assert any("RED" in note for note in found.notes)


async def test_a_number_that_is_not_registered_is_named(platform: WhatsAppPlatform, channel: Channel) -> None:
    assert isinstance(channel, SupportsCheck)
    platform.platform_type = "NOT_APPLICABLE"
    with pytest.raises(ChannelEnded, match=f"POST /{NUMBER_ID}/register") as ended:
        await channel.check()
    assert ended.value.reason is EndReason.RIGHTS


@pytest.mark.parametrize("missing", ["token", "app_secret", "verify_token"])
async def test_a_missing_secret_is_named(platform: WhatsAppPlatform, missing: str) -> None:
    secrets = {name: value for name, value in platform.get_secrets().items() if name != missing}
    channel, _ = make_channel(platform, secrets=secrets)
    assert isinstance(channel, SupportsCheck)
    with pytest.raises(ChannelEnded, match=missing):
        await channel.check()


async def test_the_hook_is_verified_by_the_word_that_was_agreed(platform: WhatsAppPlatform, channel: Channel) -> None:
    async with serve_hooks(channel) as url:
        assert (await _ask(url, "verify-me")) == (200, "1158201444")
        assert (await _ask(url, "wrong"))[0] == 403
        assert (await _ask(url, ""))[0] == 403


async def _ask(url: str, token: str) -> tuple[int, str]:
    query = {"hub.mode": "subscribe", "hub.challenge": "1158201444", "hub.verify_token": token}
    async with httpx2.AsyncClient(verify=False) as client:
        answer = await client.get(url, params=query)
    return answer.status_code, answer.text


async def test_what_is_not_signed_is_nobodys_word(channel: Channel, received: ReceivedEvents) -> None:
    assert isinstance(channel, SupportsHook)
    body = json.dumps({"entry": [{"changes": [{"field": "messages", "value": {"messages": [{}]}}]}]}).encode()
    for headers in ({}, {"x-hub-signature-256": "sha256=00"}, {"x-hub-signature-256": sign("other", body)}):
        answer = await channel.answer_hook(HookRequest(method="POST", headers=headers, body=body))
        assert answer.status == 403
    assert received.calls == 0


HOSTILE: list[Any] = [
    [],
    "x",
    {"entry": 5},
    {"entry": [{"changes": [5, {"field": "messages", "value": []}]}]},
    {"messages": [{"from": "../../etc", "id": "wamid.x", "type": "text", "text": {"body": "x"}}]},
    {"messages": [{"from": "491234567", "id": "a b\n", "type": "text", "text": {"body": "x"}}]},
    {"messages": [{"from": 5, "id": None, "type": {}, "text": 5}, 7]},
    {"statuses": [{"id": 5, "errors": [5, {}]}, {"id": "x", "errors": [{"code": "y"}]}]},
]


async def test_a_strange_payload_makes_no_event_and_breaks_nothing(channel: Channel, received: ReceivedEvents) -> None:
    assert isinstance(channel, SupportsHook)
    for given in HOSTILE:
        value = {"metadata": {"phone_number_id": NUMBER_ID}, **(given if isinstance(given, dict) else {})}
        wrapped = {"entry": [{"changes": [{"field": "messages", "value": value}]}]}
        body = json.dumps(wrapped if isinstance(given, dict) and "entry" not in given else given).encode()
        request = HookRequest(method="POST", headers={"x-hub-signature-256": sign(APP_SECRET, body)}, body=body)
        assert (await channel.answer_hook(request)).status in (200, 400)
    assert received.calls == 0


@pytest.mark.parametrize("kind", ["image", "audio", "location", "sticker", "contacts", "unsupported", "order"])
def test_every_kind_of_message_becomes_words_or_a_file(kind: str) -> None:
    body = {"id": "123", "mime_type": "audio/ogg; codecs=opus", "latitude": 1, "longitude": 2}
    message = {"from": "491234567", "id": "wamid.1", "timestamp": "1700000000", "type": kind, kind: body}
    (event,) = wire.read_messages({"messages": [message]}, lambda media: None)  # type: ignore[arg-type,return-value]
    assert event.text or event.attachments


async def test_a_file_elsewhere_is_not_asked_for(platform: WhatsAppPlatform, channel: Channel) -> None:
    with pytest.raises(GatepostError, match="host of Meta"):
        await channel._connect("https://evil.example/file")  # type: ignore[attr-defined]


def test_a_long_emoji_of_a_reaction_is_cut_so_that_intake_can_take_it() -> None:
    reaction = {"emoji": "x" * 600, "message_id": "wamid.0"}
    message = {"type": "reaction", "from": "491234567", "id": "wamid.1", "reaction": reaction}
    (read,) = wire.read_messages({"messages": [message]}, lambda media: None)  # type: ignore[arg-type,return-value]
    make_arrival("it", read, IntakeLimits(), 1, 0)


async def test_somebody_who_hides_their_number_is_heard_and_answered(
    platform: WhatsAppPlatform, channel: Channel, received: ReceivedEvents
) -> None:
    platform.hide_number("ann")
    asked = platform.send("hello", room="direct:ann")
    (event,) = await received.wait_for(1)
    assert (event.address, event.sender) == (platform.get_sender("ann"),) * 2
    assert event.direct and event.sender_name == "Ann" and "DE." in event.address

    await channel.send(event.address, Outbound(key="k", text="hi", reply_to=asked))
    (shown,) = platform.list_shown("direct:ann")
    assert shown.text == "hi" and "to" not in shown.raw and shown.raw["recipient"] == event.sender.partition("/")[2]


async def test_a_message_in_a_group_is_answered_in_the_group(
    platform: WhatsAppPlatform, channel: Channel, received: ReceivedEvents
) -> None:
    platform.send("hello all", room="group:lab", sender="ann")
    (event,) = await received.wait_for(1)
    assert (event.address, event.sender) == (platform.get_address("group:lab"), platform.get_sender("ann"))
    assert not event.direct

    card = Card(title="Deploy?", text="", buttons=(CardButton("1", "Yes"),))
    await channel.send(event.address, Outbound(key="k", text="Deploy? 1 Yes", op=Op.CARD, card=card))
    assert platform.texts("group:lab") == ["Deploy? 1 Yes"] and platform.texts("direct:ann") == []
    with pytest.raises(Unsupported):
        await channel.send(event.address, Outbound(key="r", op=Op.REACT, target=event.platform_id, reaction="👍"))


async def test_what_fails_after_whatsapp_took_it_is_taken_back_and_goes_out_as_a_template(
    platform: WhatsAppPlatform, ann: str
) -> None:
    failures: list[LateFailure] = []
    channel, _ = make_channel(platform, failures=failures, template="notice")
    platform.close_window("ann", late=True)
    async with listening(channel):
        sent = await channel.send(ann, Outbound(key="k", text="news"))
        await platform.until(lambda: 200 in platform.deliveries)
        (failure,) = failures
        assert (failure.key, failure.platform_id, failure.again) == ("k", sent, True) and "24 hours" in failure.why
        assert platform.texts() == []

        again = await channel.send(ann, Outbound(key="k", text="news", refusal=failure.why))
        assert platform.find(again).raw["type"] == "template" and platform.texts() == ["news"]


async def test_a_message_that_failed_is_not_taken_for_sent_though_its_answer_was_lost(
    platform: WhatsAppPlatform, received: ReceivedEvents, channel: Channel, ann: str
) -> None:
    assert isinstance(channel, SupportsLookup)
    platform.close_window("ann", late=True)
    platform.fault(PlatformFault.NO_ANSWER)
    with pytest.raises(Unavailable):
        await channel.send(ann, Outbound(key="k", text="once"))
    await platform.until(lambda: 200 in platform.deliveries)
    assert await channel.look_up(ann, "k") is None
    with pytest.raises(Unavailable, match="not reported"):  # the report was about that try alone
        await channel.look_up(ann, "k")


@pytest.mark.parametrize("sign", ["- x\n", "`", "~", "| a | b |\n", "# x\n"])
async def test_the_longest_text_is_taken_whatever_it_holds(
    platform: WhatsAppPlatform, channel: Channel, ann: str, tmp_path: Path, sign: str
) -> None:
    picture = file(tmp_path, "a.png", "image/png")
    await channel.send(ann, Outbound(key="k", text=(sign * 4096)[:4096]))
    await channel.send(ann, Outbound(key="l", op=Op.FILE, text=(sign * 1024)[:1024], files=(picture,)))
    assert platform.list_shown()[-1].files


def forward(text: str = "", *files: OutboundFile, comment: str = "", **more: Any) -> Outbound:
    passed = PassedMessage(author="Ann *B*", text=text, files=files, **more)
    return Outbound(key="k", op=Op.FORWARD, target="wamid.1", source="whatsapp:user/1", text=comment, passed=passed)


def seen(text: str) -> str:
    return text.replace("\u200b", "")


async def test_a_message_is_passed_on_under_its_authors_name_and_its_words_mark_and_order_nothing(
    platform: WhatsAppPlatform, channel: Channel, ann: str
) -> None:
    said = "/stop *now* _x_ `y`\n\n- item\n> quoted\r\u2028# head\n[a](b) https://x.org/a_b_c?d=1&e=2 @everyone \\*"

    sent = await channel.send(ann, forward(said, comment="**look**"))

    shown = platform.find(sent)
    body = shown.raw["text"]["body"]
    words = "\n".join(f"> {line}" for line in said.splitlines())
    assert seen(body) == f"*look*\n\nForwarded message from Ann *B*:\n{words}"
    assert "*\u200bnow" in body and "_\u200bx" in body and "`\u200by" in body and "@\u200beveryone" in body
    assert "> \u200b- item" in body and "> \u200b> quoted" in body and "https://x.org/a_b_c?d=1&e=2" in body
    assert (shown.key, shown.raw["text"]["preview_url"]) == ("k", False)
    assert isinstance(channel, SupportsLookup) and await channel.look_up(ann, "k") == sent


async def test_what_this_bot_wrote_is_passed_on_with_its_marks(
    platform: WhatsAppPlatform, channel: Channel, ann: str
) -> None:
    passed = PassedMessage(author="this bot", own=True, text="**done** and\nmore")
    sent = await channel.send(ann, Outbound(key="k", op=Op.FORWARD, target="wamid.1", passed=passed))
    assert platform.find(sent).raw["text"]["body"] == "Forwarded message from this bot:\n> *done* and\n> more"


async def test_a_picture_is_passed_on_as_one_message_with_its_words_below_it(
    platform: WhatsAppPlatform, channel: Channel, ann: str, tmp_path: Path
) -> None:
    sent = await channel.send(ann, forward("our plan", file(tmp_path, "a.png", "image/png", b"png")))

    (shown,) = platform.list_shown("direct:ann")
    assert (shown.id, shown.key, shown.raw["type"], shown.files[0].data) == (sent, "k", "image", b"png")
    assert seen(shown.raw["image"]["caption"]) == "Forwarded message from Ann *B*:\n> our plan"


@pytest.mark.parametrize(("mime", "text"), [("audio/ogg", ""), ("image/png", "x" * 1000)])
async def test_words_that_cannot_stand_below_a_file_that_is_passed_on_come_first_and_the_file_has_the_key(
    mime: str, text: str, platform: WhatsAppPlatform, channel: Channel, ann: str, tmp_path: Path
) -> None:
    sent = await channel.send(ann, forward(text, file(tmp_path, "a.bin", mime)))

    words, shown = platform.list_shown("direct:ann")
    assert words.text.startswith("Forwarded message from Ann") and text in words.text
    assert (words.key, shown.key, shown.id) == ("part 0", "k", sent)
    assert shown.raw["type"] == mime.partition("/")[0]


class WithoutSound(WhatsAppPlatform):
    """Takes no sound for now."""

    def _accept(self, body: dict[str, Any]) -> str:
        if body["type"] == "audio":
            raise refuse("service away")
        return super()._accept(body)


async def test_a_forward_whose_file_did_not_follow_its_words_is_uncertain_and_not_repeated(tmp_path: Path) -> None:
    with WithoutSound() as platform:
        room, (channel, _) = platform.get_address("direct:ann"), make_channel(platform)
        with pytest.raises(Unavailable, match="only a part was sent") as caught:
            await channel.send(room, forward("", file(tmp_path, "v.ogg", "audio/ogg")))
        assert caught.value.uncertain and len(platform.list_shown("direct:ann")) == 1
        assert isinstance(channel, SupportsLookup)
        with pytest.raises(Unavailable, match="not reported"):
            await channel.look_up(room, "k")


async def test_a_file_of_a_type_that_is_refused_is_named_in_the_words_that_are_passed_on(
    platform: WhatsAppPlatform, channel: Channel, ann: str, tmp_path: Path
) -> None:
    await channel.send(ann, forward("here", file(tmp_path, "*a*.zip", "application/zip")))
    (shown,) = platform.list_shown("direct:ann")
    assert seen(shown.raw["text"]["body"]).endswith(":\n> here\n> [file: *a*.zip, 4 bytes]")


@pytest.mark.parametrize(
    ("message", "why"),
    [
        (Outbound(key="k", op=Op.FORWARD, target="wamid.1", text="look"), "no words or files"),
        (forward(" \n"), "no words or files"),
        (forward("", OutboundFile(name="s.webp", mime="image/webp", path="s", size=1)), "no words or files"),
        (forward(f"{wire.UNREADABLE}'order', which WhatsApp does not pass on whole]"), "no words or files"),
        (forward("see", lost=("plan.pdf",)), "plan.pdf"),
        (forward("x" * 4090), "4096 characters"),
        (forward("*x " * 1300), "4096 characters"),
    ],
)
async def test_what_cannot_be_passed_on_whole_is_refused_and_nothing_is_sent(
    message: Outbound, why: str, platform: WhatsAppPlatform, channel: Channel, ann: str
) -> None:
    with pytest.raises(Unsupported, match=why) as caught:
        await channel.send(ann, message)
    assert "use send" in str(caught.value) and not platform.list_shown("direct:ann")


async def test_after_a_day_a_short_forward_goes_as_a_template_and_another_is_refused(
    platform: WhatsAppPlatform, ann: str, tmp_path: Path
) -> None:
    channel, _ = make_channel(platform, template="news")
    platform.close_window("ann")

    sent = await channel.send(ann, forward("a_b *c*\nd"))
    with pytest.raises(Unsupported, match="once they have written"):
        await channel.send(ann, forward("see", file(tmp_path, "a.png", "image/png")))

    assert seen(platform.find(sent).raw["template"]["components"][0]["parameters"][0]["text"]) == (
        "Forwarded message from Ann *B*: > a_b *c* > d"
    )
    assert len(platform.list_shown("direct:ann")) == 1
