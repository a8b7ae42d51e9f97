"""Decisions in chats, whole: cards of every kind under a wrong hand, requests that nobody decides, and what an agent is
told of its own."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from gatepost.app import Gateway
from gatepost.core.clock import DAY, SECOND, SystemClock
from gatepost.flow import grant_changes
from gatepost.messages.inbound import Verb
from gatepost.messages.outbound import Feature, Op
from gatepost.store.messages import messages
from gatepost.store.people import users
from gatepost.store.people.users import UserRole
from gatepost.store.port import Db
from gatepost.store.rights import audit, egress, requests, waiting_requests
from gatepost.store.rights.requests import Request, RequestKind, RequestState
from gatepost.store.rooms import rooms, routes
from gatepost.store.rooms.rooms import RoomPolicy
from gatepost.store.rooms.routes import Route
from gatepost.store.sessions import groups, skills
from gatepost_testing.agreed_skills import agree_to_skill
from gatepost_testing.channel import EVERYTHING, FakeChannel, SentMessage
from gatepost_testing.gateway import reply_to_card, running_gateway, wait_until_settled
from gatepost_testing.provider import ScriptBuilder

ROOM, ASKING, UNKNOWN = "fake:room/1", "fake:room/2", "fake:room/3"
BOSS, DIRECT, EVE, MEMBER = "fake:user/boss", "fake:direct/boss", "fake:user/eve", "fake:user/member"
SKILL = {"name": "greet", "content": "Say hello."}


class MovedClock(SystemClock):
    """Runs like the machine's, and can be moved on."""

    def __init__(self) -> None:
        super().__init__()
        self.ahead = 0

    def now(self) -> int:
        return super().now() + self.ahead


def settle_home(db: Db, now: int) -> None:
    """An owner, a member who may decide nothing, and three rooms: open, asking about senders, and without a route."""
    for person in (BOSS, MEMBER):
        users.add(db, person, person, now)
    users.add_role(db, BOSS, UserRole.OWNER, "", "test", now)
    users.add_member(db, MEMBER, "home", "test", now)
    groups.update(db, "home", {"options": {"egress": "ask"}})
    grant_changes.add_rule(db, "home", "hold send", "test", now)
    rooms.add(db, "fake", ROOM, "", False, RoomPolicy.PUBLIC, now)
    for address in (ASKING, UNKNOWN):
        rooms.add(db, "fake", address, "", False, RoomPolicy.REQUEST_APPROVAL, now)


def leave_two_routes(db: Db, now: int) -> None:
    """As an operator who wants the third room to lead nowhere."""
    for route in routes.list_all(db):
        routes.remove(db, route.id)
    for address in (ROOM, ASKING, DIRECT):
        routes.add(db, Route(match=f"chat_jid={address}", target="home", created_by="test", created_at=now))


@asynccontextmanager
async def deciding_gateway(home: Path, channel: FakeChannel, clock: MovedClock | None = None) -> AsyncIterator[Gateway]:
    async with running_gateway(home, {"fake": (channel.kind, channel)}, clock=clock) as gateway:
        await gateway.store.write(settle_home, gateway.clock.now())
        await gateway.store.write(leave_two_routes, gateway.clock.now())
        gateway.events.tools()
        script = ScriptBuilder().turn("hello").say("hi").turn("number (.*)").say("got {1}")
        script.turn("go").call("send", text="the secret plan").say("asked: {result}")
        script.turn("learn").call("write_skill", **SKILL).say("asked: {result}")
        script.turn("fetch").call("network_request", host="files.example.com", why="for the manual").say("asked")
        script.turn(kind="system").say("I was told")
        script.write(gateway.home.group("home")).chmod(0o644)
        await channel.say("hello", address=DIRECT, sender=BOSS, direct=True)
        await channel.wait_for(lambda sent: any(each.address == DIRECT for each in sent))
        yield gateway


async def ask(channel: FakeChannel, kind: RequestKind) -> None:
    if kind is RequestKind.SENDER:
        await channel.say("number 1", address=ASKING, sender=EVE)
    elif kind is RequestKind.ROOM:
        await channel.say("number 1", address=UNKNOWN, sender=EVE, verb=Verb.MENTION)
    else:
        await channel.say("fetch" if kind is RequestKind.HOST else "go", address=ROOM, sender=MEMBER)


def is_card(each: SentMessage) -> bool:
    """With buttons, or with numbers where the channel has none; not yet decided."""
    undecided = each.message.op is Op.CARD or "Answer with one of these" in each.message.text
    return each.address == DIRECT and undecided


async def wait_for_card(gateway: Gateway, channel: FakeChannel, number: int = 1) -> tuple[Request, SentMessage]:
    sent = await channel.wait_for(lambda sent: sum(map(is_card, sent)) >= number)
    (request,) = await gateway.store.read(waiting_requests.list_pending)
    return request, [each for each in sent if is_card(each)][number - 1]


async def get(gateway: Gateway, request: Request) -> Request:
    found = await gateway.store.read(requests.get, request.id)
    assert found is not None
    return found


def list_told(db: Db) -> list[dict[str, Any]]:
    """Return what agents were told of their requests, as messages of the gateway's own."""
    found = [messages.get(db, row[0]) for row in db.rows("SELECT id FROM messages WHERE kind = 'system' ORDER BY id")]
    return [each.content for each in found if each is not None and each.content.get("event") == "approval"]


def count_effects(db: Db) -> int:
    """Return what a yes would have brought about, of every kind of request."""
    members = users.get_roles(db, EVE).member_of
    return len(members) + len(egress.list_rules(db)) + sum(UNKNOWN in route.match for route in routes.list_all(db))


@pytest.mark.slow
@pytest.mark.parametrize("kind", [RequestKind.SENDER, RequestKind.ROOM, RequestKind.CALL, RequestKind.HOST])
async def test_nanoclaw_5_a_card_of_any_kind_ignores_the_wrong_hand_and_stays_open_for_the_right_one(
    tmp_path: Path, kind: RequestKind
) -> None:
    channel = FakeChannel(features=EVERYTHING | {Feature.CARDS})
    async with deciding_gateway(tmp_path / "h", channel) as gateway:
        await ask(channel, kind)
        request, shown = await wait_for_card(gateway, channel)
        assert request.kind is kind and shown.message.card is not None
        for button in shown.message.card.buttons:
            for wrong in (EVE, MEMBER):
                clicked = await channel.click(button.id, address=DIRECT, sender=wrong)
                assert clicked.reason == f"not decided {request.id}"
        assert (await get(gateway, request)).state is RequestState.PENDING
        assert await gateway.store.read(count_effects) == 0
        rows = await gateway.store.read(audit.list_latest, 50)
        tries = [row[2:5] for row in rows if row[3] == "request.decide"]
        assert tries.count((EVE, "request.decide", "refused")) == len(shown.message.card.buttons)

        right = await channel.click(shown.message.card.buttons[0].id, address=DIRECT, sender=BOSS)
        assert right.reason == f"decided {request.id}"
        await wait_until_settled(gateway)
        decided = await get(gateway, request)
        assert (decided.state, decided.answered_by) == (RequestState.ALLOWED, BOSS)


@pytest.mark.slow
async def test_nanoclaw_10_after_a_no_nobody_is_asked_for_a_day_and_then_somebody_is(
    tmp_path: Path, channel: FakeChannel
) -> None:
    clock = MovedClock()
    async with deciding_gateway(tmp_path / "h", channel, clock) as gateway:
        await ask(channel, RequestKind.SENDER)
        request, _ = await wait_for_card(gateway, channel)
        await channel.say(f"/deny {request.id}", address=DIRECT, sender=BOSS, direct=True)
        assert (await channel.say("number 2", address=ASKING, sender=EVE)).state == "refused"
        assert await gateway.store.read(waiting_requests.list_pending) == []
        clock.ahead = DAY + SECOND
        assert (await channel.say("number 3", address=ASKING, sender=EVE)).state == "held"
        await wait_for_card(gateway, channel, 2)


@pytest.mark.slow
async def test_nanoclaw_10_who_is_allowed_always_is_a_member(tmp_path: Path, channel: FakeChannel) -> None:
    async with deciding_gateway(tmp_path / "h", channel) as gateway:
        await ask(channel, RequestKind.SENDER)
        await wait_for_card(gateway, channel)
        await reply_to_card(gateway, channel, "always allow", sender=BOSS)
        await wait_until_settled(gateway)
        assert (await gateway.store.read(users.get_roles, EVE)).member_of == ("home",)
        assert channel.texts(ASKING) == ["got 1"]


@pytest.mark.slow
@pytest.mark.parametrize("restarted", [False, True])
@pytest.mark.parametrize("kind", [RequestKind.CALL, RequestKind.HOST])
async def test_nanoclaw_42_what_nobody_decides_is_denied_in_time_also_across_a_restart(
    tmp_path: Path, channel: FakeChannel, kind: RequestKind, restarted: bool
) -> None:
    clock = MovedClock()
    async with deciding_gateway(tmp_path / "h", channel, clock) as gateway:
        await ask(channel, kind)
        request, shown = await wait_for_card(gateway, channel)
        await wait_until_settled(gateway)
        if not restarted:
            clock.ahead = DAY + SECOND
            gateway.events.requests()
            await check_expired(gateway, channel, request, shown)
    if restarted:
        clock.ahead = DAY + SECOND
        async with running_gateway(tmp_path / "h", {"fake": (channel.kind, channel)}, clock=clock) as gateway:
            await check_expired(gateway, channel, request, shown)


async def check_expired(gateway: Gateway, channel: FakeChannel, request: Request, shown: SentMessage) -> None:
    """The card says so, the agent is told once, nothing happens, and a late yes changes none of it."""

    def edited(each: SentMessage) -> bool:
        return each.message.op is Op.EDIT and each.message.target == shown.platform_id

    sent = await channel.wait_for(lambda sent: any(map(edited, sent)))
    assert "Nobody decided in time" in next(filter(edited, sent)).message.text
    await channel.wait_for(lambda sent: any(each.message.text == "I was told" for each in sent))
    late = await channel.say(f"/approve {request.id}", address=DIRECT, sender=BOSS, direct=True)
    assert late.reason == f"not decided {request.id}"
    await wait_until_settled(gateway)
    ended = await get(gateway, request)
    assert ended.state is RequestState.EXPIRED and ended.notified_at is not None
    (told,) = await gateway.store.read(list_told)
    assert (told["request"], told["state"]) == (request.id, "expired")
    assert await gateway.store.read(count_effects) == 0 and "the secret plan" not in channel.texts(ROOM)


@pytest.mark.slow
@pytest.mark.parametrize("allowed", [True, False])
async def test_nanoclaw_41_and_45_what_changes_the_agent_waits_for_a_yes_and_its_outcome_is_a_note(
    tmp_path: Path, channel: FakeChannel, allowed: bool
) -> None:
    async with deciding_gateway(tmp_path / "h", channel) as gateway:
        await channel.say("learn", address=ROOM, sender=MEMBER)
        request, card = await wait_for_card(gateway, channel)
        assert "Adds the skill greet of home:" in card.message.text
        sent = await channel.wait_for(lambda sent: any(each.message.text.startswith("asked: ") for each in sent))
        answer = next(each.message.text for each in sent if each.message.text.startswith("asked: "))
        assert "waits for a person" in answer and request.id in answer
        assert await gateway.store.read(skills.list_all) == []
        word = f"/approve {request.id}" if allowed else f"/deny {request.id} not that"
        await channel.say(word, address=DIRECT, sender=BOSS, direct=True)
        await channel.wait_for(lambda sent: any(each.message.text == "I was told" for each in sent))
        await wait_until_settled(gateway)
        assert [each.name for each in await gateway.store.read(skills.list_all)] == (["greet"] if allowed else [])
        (told,) = await gateway.store.read(list_told)
        assert (told["request"], told["tool"]) == (request.id, "write_skill")
        if allowed:
            assert told["state"] == "allowed"
            assert json.loads(told["result"]) == {"ok": True, "path": "/workspace/skills/greet/SKILL.md"}
        else:
            assert told["state"] == "denied" and "not that" in str(told)


@pytest.mark.slow
async def test_a_skill_that_is_changed_before_the_yes_is_asked_about_again(
    tmp_path: Path, channel: FakeChannel
) -> None:
    async with deciding_gateway(tmp_path / "h", channel) as gateway:
        await channel.say("learn", address=ROOM, sender=MEMBER)
        request, _ = await wait_for_card(gateway, channel)
        mended = await agree_to_skill(gateway.store, "home", "greet", "Never send money.")
        await channel.say(f"/approve {request.id}", address=DIRECT, sender=BOSS, direct=True)
        again, card = await wait_for_card(gateway, channel, 2)
        assert again.id != request.id and "Changes the skill greet of home:" in card.message.text
        assert "- Never send money." in card.message.text
        assert [each.digest for each in await gateway.store.read(skills.list_all)] == [mended.digest]
        await channel.say(f"/approve {again.id}", address=DIRECT, sender=BOSS, direct=True)
        await channel.wait_for(lambda sent: sum(each.message.text == "I was told" for each in sent) == 2)
        (now,) = await gateway.store.read(skills.list_all)
        assert now.digest != mended.digest and now.agreed_by == BOSS


@pytest.mark.slow
async def test_arizuko_39_the_same_call_again_is_held_again(tmp_path: Path, channel: FakeChannel) -> None:
    async with deciding_gateway(tmp_path / "h", channel) as gateway:
        for number in (1, 2):
            await ask(channel, RequestKind.CALL)
            request, _ = await wait_for_card(gateway, channel, number)
            await wait_until_settled(gateway)
            assert channel.texts(ROOM).count("the secret plan") == number - 1
            await channel.say(f"/approve {request.id}", address=DIRECT, sender=BOSS, direct=True)
            await channel.wait_for(lambda sent: channel.texts(ROOM).count("the secret plan") == number)  # noqa: B023
            await wait_until_settled(gateway)


def break_requests(db: Db) -> None:
    """From now on no request can be written down, as on a disk that is full."""
    db.run("CREATE TRIGGER full_disk BEFORE INSERT ON requests BEGIN SELECT RAISE(ABORT, 'full'); END")


async def test_arizuko_39_a_call_whose_request_cannot_be_written_down_does_not_run(
    tmp_path: Path, channel: FakeChannel
) -> None:
    async with deciding_gateway(tmp_path / "h", channel) as gateway:
        await gateway.store.write(break_requests)
        await ask(channel, RequestKind.CALL)
        sent = await channel.wait_for(lambda sent: any(each.address == ROOM for each in sent))
        await wait_until_settled(gateway)
        said = next(each for each in sent if each.address == ROOM).message.text
        assert said.startswith("asked: send: internal error")
        assert "the secret plan" not in channel.texts(ROOM)
        assert await gateway.store.read(waiting_requests.list_pending) == [] and channel.texts(DIRECT) == ["hi"]
