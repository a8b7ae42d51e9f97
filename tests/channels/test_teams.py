"""Microsoft Teams through its emulator: proved activities, posts as threads, cards."""

import asyncio
import json
import time
from collections.abc import AsyncIterator, Iterator
from types import SimpleNamespace
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric.rsa import generate_private_key

import gatepost.flow.intake.command_dispatch  # noqa: F401  it has every command registered
from gatepost.channels.contract import CHANNELS, ChannelEnded, EndReason, HookRequest, MemoryCursor
from gatepost.channels.kit.hooks import parse_object
from gatepost.channels.teams import session, wire
from gatepost.channels.teams.adapter import TeamsBot
from gatepost.channels.teams.session import TeamsSession
from gatepost.core.clock import SystemClock
from gatepost.core.errors import NotFound, Refused, Unavailable, Unsupported
from gatepost.core.json_web_tokens import NotProven, TokenHeader, read_keys
from gatepost.core.settings import Config
from gatepost.flow.delivery.content_fallback import split_text
from gatepost.flow.delivery.outgoing_messages import ChannelInstances
from gatepost.flow.intake.slash_commands import parse_command
from gatepost.messages.card import Card, CardButton, CardField
from gatepost.messages.inbound import CLICK, Verb
from gatepost.messages.outbound import Op, Outbound
from gatepost_testing.clock import FixedClock
from gatepost_testing.platforms.base import PlatformFault
from gatepost_testing.platforms.teams import APP_ID, KEY_ID, NAME, TENANT, TeamsPlatform, make_key
from gatepost_testing.platforms.wiring import ReceivedEvents, listening, make_channel
from gatepost_testing.waiting import PATIENCE_S

CARD = Card(
    title="May *it*?",
    fields=(CardField("path", "[x](http://evil)"),),
    buttons=(CardButton("t:0", "Allow", "primary"), CardButton("t:1", "Deny", "danger")),
)


@pytest.fixture
def platform() -> Iterator[TeamsPlatform]:
    with TeamsPlatform() as running:
        assert isinstance(running, TeamsPlatform)
        yield running


def make(platform: TeamsPlatform, **more: object) -> TeamsBot:
    channel, _ = make_channel(platform, **more)  # type: ignore[arg-type]
    assert isinstance(channel, TeamsBot)
    return channel


@pytest.fixture
def channel(platform: TeamsPlatform) -> TeamsBot:
    return make(platform)


@pytest.fixture
async def received(channel: TeamsBot) -> AsyncIterator[ReceivedEvents]:
    async with listening(channel) as events:
        yield events


@pytest.mark.slow
async def test_what_people_do_is_received_in_our_words(platform: TeamsPlatform, received: ReceivedEvents) -> None:
    post = platform.send("good morning", mention=True)
    platform.send("below it", thread=post, sender="bob")
    platform.edit("team", post, "good evening")
    platform.react("team", post, "👍", sender="bob")
    platform.delete("team", post)
    platform.join("team", sender="bob")
    platform.send("between us", room="direct:ann")
    events = await received.wait_for(7)

    ann, bob = platform.get_sender("ann"), platform.get_sender("bob")
    first = events[0]
    assert (first.address, first.sender, first.thread) == (platform.get_address("team"), ann, post)
    assert (first.text, first.verb, first.direct) == (f"@{NAME} good morning", Verb.MENTION, False)
    assert (events[1].thread, events[1].verb) == (post, Verb.MESSAGE)
    assert (events[2].verb, events[2].platform_id, events[2].text) == (Verb.EDIT, post, "good evening")
    assert (events[3].event, events[3].platform_id) == (f"reaction:👍:{bob}", post)
    assert (events[4].verb, events[4].event) == (Verb.DELETE, "delete")
    assert (events[5].verb, events[5].sender) == (Verb.JOIN, bob)
    assert events[6].direct and events[6].address == platform.get_address("direct:ann")


@pytest.mark.parametrize("between", [" ", "&nbsp;", "\xa0"])
async def test_a_stop_behind_a_name_of_several_words_is_a_command(
    platform: TeamsPlatform, channel: TeamsBot, received: ReceivedEvents, between: str
) -> None:
    platform.bot_name, platform.behind_mention = "Gate Post", between
    platform.send("/stop", mention=True)
    (said,) = await received.wait_for(1)

    names = ChannelInstances({}, {"teams": channel}).own_names("teams")
    assert said.text.startswith("@Gate Post")
    assert parse_command(said.text, names) is not None


@pytest.mark.slow
async def test_a_card_has_buttons_and_a_click_names_the_one_that_was_pressed(
    platform: TeamsPlatform, channel: TeamsBot, received: ReceivedEvents
) -> None:
    post, room = platform.send("hello"), platform.get_address("team")
    await received.wait_for(1)
    sent = await channel.send(room, Outbound(key="c", op=Op.CARD, card=CARD, thread=post))
    (shown,) = platform.list_shown("team")
    assert (shown.buttons, shown.thread) == (["Allow", "Deny"], post)
    assert "May *it*?" in shown.text and "[x](http://evil)" in shown.text  # as words, not as marks
    platform.click("team", sent, "Deny", sender="bob")
    click = (await received.wait_for(2))[1]
    assert (click.event, click.click, click.sender) == (CLICK, "t:1", platform.get_sender("bob"))

    done = Card(title="May it?", done="Denied by bob.")
    await channel.send(room, Outbound(key="e", op=Op.EDIT, card=done, target=sent, thread=post))
    assert (shown.buttons, "Denied by bob." in shown.text) == ([], True)
    for key in ("d", "d2"):  # repeated, it is the same
        await channel.send(room, Outbound(key=key, op=Op.DELETE, target=sent))
    assert platform.texts("team") == []


@pytest.mark.slow
async def test_the_service_address_is_known_after_a_restart(platform: TeamsPlatform) -> None:
    cursor, room = MemoryCursor(), platform.get_address("team")
    first = make(platform, cursor=cursor)
    with pytest.raises(Refused, match="nobody has written"):
        await first.send(room, Outbound(key="k", text="too early"))
    async with listening(first) as received:
        platform.send("hello")
        await received.wait_for(1)
    again = make(platform, cursor=cursor)
    await again.send(room, Outbound(key="k", text="later"))
    assert platform.texts("team") == ["later"]
    narrow = make(platform, cursor=cursor, service_urls=("https://smba.trafficmanager.net",))
    with pytest.raises(Refused):  # what was saved before the setting changed gets no token
        await narrow.send(room, Outbound(key="l", text="nowhere"))
    await again.close()
    await narrow.close()


async def post(channel: TeamsBot, token: str, activity: dict[str, Any]) -> int:
    headers = {"authorization": f"Bearer {token}"} if token else {}
    body = json.dumps(activity).encode()
    return (await channel.answer_hook(HookRequest(method="POST", headers=headers, body=body))).status


@pytest.mark.slow
async def test_what_is_not_proved_makes_no_event(
    platform: TeamsPlatform, channel: TeamsBot, received: ReceivedEvents
) -> None:
    activity = platform.make_activity("message", "team", "ann", "1") | {"id": "1", "text": "hello"}
    now, good = int(time.time()), platform.sign()
    other = generate_private_key(public_exponent=65537, key_size=2048)
    head, body, signature = good.split(".")
    bad = [
        "",
        "x.y.z",
        good + "A",
        f"{head}.{body}.",
        f"{head}.{body}.{signature[:-8]}AAAAAAAA",
        platform.sign(key=other),
        platform.sign(header={"alg": "none"}),
        platform.sign(header={"alg": "HS256"}),
        platform.sign(header={"kid": "another"}),
        platform.sign(iss="https://sts.windows.net/x/"),
        platform.sign(aud="another-bot"),
        platform.sign(aud=[APP_ID]),
        platform.sign(exp=now - 400),
        platform.sign(exp="never"),
        platform.sign(nbf=now + 400),
        platform.sign(serviceurl="https://evil.example/"),
        platform.sign(serviceurl=None),
    ]
    for token in bad:
        assert await post(channel, token, activity) == 403, token
    elsewhere = "https://evil.example/"
    assert await post(channel, platform.sign(serviceurl=elsewhere), activity | {"serviceUrl": elsewhere}) == 403
    assert received.calls == 0
    keys = [each for each in platform.requests if each[1].endswith("/keys")]
    assert len(keys) == 1  # a stranger who names other keys causes no further request
    assert await post(channel, good, activity) == 202 and received.texts == ["hello"]


async def test_each_claim_and_the_signature_must_be_right(platform: TeamsPlatform) -> None:
    numbers, now = make_key().public_key().public_numbers(), int(time.time())
    key = jwt.algorithms.RSAAlgorithm.to_jwk(numbers.public_key(), as_dict=True)
    keys = read_keys({"keys": [key | {"kid": KEY_ID, "endorsements": ["msteams"]}]})

    def check(token: str, app_id: str = APP_ID, service_url: str = platform.service_url) -> None:
        session.check_token(token, keys, app_id=app_id, service_url=service_url, now_s=now)

    check(platform.sign())
    check(platform.sign(exp=now - 290, nbf=now + 290))  # clocks may differ
    changes: list[dict[str, Any]] = [
        {"key": generate_private_key(public_exponent=65537, key_size=2048)},
        {"header": {"alg": "none"}},
        {"header": {"alg": "HS256"}},
        {"header": {"alg": "PS256"}},
        {"header": {"kid": "another"}},
        {"header": {"kid": ""}},
        {"header": {"kid": None}},
        {"iss": "https://sts.windows.net/x/"},
        {"aud": "another-bot"},
        {"aud": [APP_ID]},
        {"exp": now - 300},
        {"exp": "never"},
        {"exp": None},
        {"nbf": now + 301},
        {"nbf": "never"},
        {"serviceurl": "https://evil.example/"},
        {"serviceurl": None},
        {"padding": "x" * session.LONGEST_TOKEN},
    ]
    for change in changes:
        with pytest.raises(NotProven):
            check(platform.sign(**change))
    for token in ("", "x.y.z", platform.sign() + "A", platform.sign().rpartition(".")[0] + ".", f"{platform.sign()}.x"):
        with pytest.raises(NotProven):
            check(token)
    for given in ({"app_id": ""}, {"service_url": ""}):
        with pytest.raises(NotProven):
            check(platform.sign(aud="", serviceurl=""), **given)


async def test_another_organization_and_another_channel_are_not_heard(
    platform: TeamsPlatform, channel: TeamsBot, received: ReceivedEvents
) -> None:
    activity = platform.make_activity("message", "team", "ann", "1") | {"id": "1", "text": "hello"}
    token = platform.sign()
    assert await post(channel, token, activity | {"channelData": {"tenant": {"id": "other"}}}) == 202
    assert await post(channel, token, activity | {"channelId": "webchat"}) == 202
    assert await post(channel, token, {"serviceUrl": platform.service_url}) == 202
    assert received.calls == 0 and TENANT != "other"


@pytest.mark.parametrize(
    ("key", "why"),
    [
        ({"kty": "RSA", "n": "AQAB" * 40, "e": "AQAB"}, "too short|is none"),
        ({"kty": "RSA"}, "its key is none"),
        ({"kty": "EC", "crv": "P-256"}, "unknown"),
        ({"kty": "RSA", "kid": "another"}, "unknown"),
        ({"kty": "RSA", "endorsements": ["webchat"]}, "not for Teams"),
        ({"kty": "RSA", "endorsements": "msteams"}, "not for Teams"),
    ],
)
def test_a_key_that_is_small_or_of_another_kind_is_not_used(
    platform: TeamsPlatform, key: dict[str, Any], why: str
) -> None:
    keys = read_keys({"keys": [{"kid": KEY_ID, "endorsements": ["msteams"]} | key, 5]})
    with pytest.raises(NotProven, match=why):
        session.check_token(
            platform.sign(), keys, app_id=APP_ID, service_url=platform.service_url, now_s=int(time.time())
        )


@pytest.mark.parametrize(
    "changed",
    [
        {"conversation": {"id": "a b", "conversationType": "personal"}},
        {"conversation": {"id": "19:x;messageid=../y", "conversationType": "channel"}},
        {"conversation": {"id": "19:x", "conversationType": "secret"}},
        {"conversation": 5},
        {"from": {"id": "../../x y"}},
        {"from": None},
        {"id": "a/b"},
        {"type": "invoke"},
    ],
)
def test_strange_activities_are_no_events(platform: TeamsPlatform, changed: dict[str, Any]) -> None:
    activity = platform.make_activity("message", "team", "ann", "1") | {"id": "1", "text": "hello"}
    assert len(wire.read_activity(activity)) == 1 and wire.read_activity(activity | changed) == []


@pytest.mark.parametrize("room", ["teams:channel/", "teams:room/19:x", "teams:chat/a b", "teams:chat/../x", "irc:x"])
async def test_other_addresses_are_no_rooms(channel: TeamsBot, room: str) -> None:
    with pytest.raises(NotFound):
        await channel.send(room, Outbound(key="k", text="x"))


@pytest.mark.slow
async def test_a_token_that_ended_early_is_renewed_and_a_revoked_secret_ends_the_channel(
    platform: TeamsPlatform, channel: TeamsBot, received: ReceivedEvents
) -> None:
    platform.send("hello")
    await received.wait_for(1)
    room = platform.get_address("team")
    platform.token = "a-new-token"
    await channel.send(room, Outbound(key="k", text="with the new one"))
    assert platform.texts("team") == ["with the new one"]
    platform.fault(PlatformFault.NO_ANSWER)
    with pytest.raises(Unavailable) as caught:
        await channel.send(room, Outbound(key="l", text="once"))
    assert caught.value.uncertain
    with pytest.raises(Unsupported):
        await channel.send(room, Outbound(key="r", op=Op.REACT, target="1", reaction="👍"))


async def test_wrong_credentials_and_missing_settings_are_named(platform: TeamsPlatform) -> None:
    for more, reason in (
        ({"secrets": {"app_secret": "wrong"}}, EndReason.TOKEN),
        ({"secrets": {}}, EndReason.TOKEN),
        ({"tenant": ""}, EndReason.SETTING),
        ({"app_id": ""}, EndReason.SETTING),
    ):
        channel = make(platform, **more)
        with pytest.raises(ChannelEnded) as caught:
            await channel.check()
        assert caught.value.reason is reason
        await channel.close()


async def test_a_body_of_very_many_values_is_refused_before_it_is_read() -> None:
    body = b"[" + b"[]," * 80_000 + b"[]]"
    assert parse_object(body) is None and parse_object(b'{"a": ' + body + b"}") is None


async def test_a_command_behind_a_mention_of_several_words_is_one(
    platform: TeamsPlatform, channel: TeamsBot, received: ReceivedEvents
) -> None:
    platform.send("/stop", mention=True)
    (event,) = await received.wait_for(1)
    command = parse_command(event.text, channel.own_names)
    assert channel.own_names == {NAME.lower()} and command is not None and command.name == "stop"


async def test_a_post_begins_a_thread_of_its_own_in_a_channel_only(
    platform: TeamsPlatform, channel: TeamsBot, received: ReceivedEvents
) -> None:
    asked, room = platform.send("hello"), platform.get_address("team")
    await received.wait_for(1)
    await channel.send(room, Outbound(key="p", op=Op.POST, text="news", thread=asked))
    (shown,) = platform.list_shown("team")
    assert (shown.text, shown.thread) == ("news", "")
    with pytest.raises(Unsupported, match="only channels"):
        await channel.send(platform.get_address("direct:ann"), Outbound(key="q", op=Op.POST, text="news"))


@pytest.mark.parametrize("sign", ["x", "*", "🙂", "\n", "ж"])
async def test_the_longest_text_is_taken_whatever_it_holds(
    platform: TeamsPlatform, channel: TeamsBot, received: ReceivedEvents, sign: str
) -> None:
    platform.send("hello")
    await received.wait_for(1)
    kind = CHANNELS["teams"]
    (first, *_) = split_text("a" + sign * 40_000 + "b", kind.max_text, kind.text_unit)
    await channel.send(platform.get_address("team"), Outbound(key="k", text=first))
    assert len(platform.list_shown("team")) == 1


async def test_a_conversation_in_which_something_else_is_under_way_is_tried_again(
    platform: TeamsPlatform, channel: TeamsBot
) -> None:
    room = platform.get_address("team")
    async with listening(channel) as received:
        platform.send("hello", mention=True)
        await received.wait_for(1)
        platform.contended.add(platform.get_conversation("team"))
        with pytest.raises(Unavailable) as refused:
            await channel.send(room, Outbound(key="k", text="hello"))
        platform.contended.clear()
        await channel.send(room, Outbound(key="k", text="hello"))
    assert not refused.value.uncertain and platform.texts("team") == ["hello"]


async def test_strangers_who_name_made_up_keys_cause_few_requests_also_while_the_keys_cannot_be_read() -> None:
    session = TeamsSession(SimpleNamespace(config=Config(), clock=SystemClock()))  # type: ignore[arg-type]
    tries = 0

    async def fail() -> list[Any]:
        nonlocal tries
        tries += 1
        raise Unavailable("the Bot Framework", "away")

    session._read_keys = fail  # type: ignore[method-assign]
    for number in range(5):
        with pytest.raises((Unavailable, NotProven)):
            await session._get_keys(TokenHeader("RS256", f"made-up-{number}"))
            raise NotProven("no keys")
    assert tries == 1


async def test_a_made_up_key_does_not_hold_up_a_token_whose_key_is_known() -> None:
    clock = FixedClock()
    session = TeamsSession(SimpleNamespace(config=Config(), clock=clock))  # type: ignore[arg-type]
    session._keys = [{"kty": "RSA", "kid": "real"}]
    session._keys_at = clock.monotonic() - 10 * 60 * 1_000_000

    async def hang() -> list[Any]:
        await asyncio.Event().wait()
        return []

    session._read_keys = hang  # type: ignore[method-assign]
    stranger = asyncio.create_task(session._get_keys(TokenHeader("RS256", "made-up")))
    await asyncio.sleep(0)
    try:
        async with asyncio.timeout(PATIENCE_S):
            assert await session._get_keys(TokenHeader("RS256", "real")) == session._keys
    finally:
        stranger.cancel()
