"""A tool call that a rule holds: a person is asked, decides, and it runs once with the arguments that they saw."""

import asyncio
import hashlib
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from gatepost.app import Gateway
from gatepost.flow import grant_changes
from gatepost.messages.outbound import Feature, Op
from gatepost.serve.control.arguments.requests import ShowRequestArgs
from gatepost.serve.control.operations.requests import show
from gatepost.store.people import users
from gatepost.store.people.users import UserRole
from gatepost.store.port import Db
from gatepost.store.rights import acl, audit, requests, waiting_requests
from gatepost.store.rights.requests import Request, RequestState
from gatepost.store.rooms import direct_rooms
from gatepost_testing.channel import EVERYTHING, FakeChannel, SendFault, SentMessage
from gatepost_testing.gateway import open_room, reply_to_card, running_gateway, wait_for_shown_card, wait_until_settled
from gatepost_testing.provider import ScriptBuilder
from gatepost_testing.waiting import PATIENCE_S

ROOM, BOSS, DIRECT = "fake:room/1", "fake:user/boss", "fake:direct/boss"
STRANGER = "fake:user/eve"


def settle_people(db: Db, now: int) -> None:
    users.add(db, BOSS, "Ada", now)
    users.add_role(db, BOSS, UserRole.OWNER, "", "test", now)
    grant_changes.add_rule(db, "home", "hold send", "test", now)


@asynccontextmanager
async def held_gateway(home: Path, channel: FakeChannel) -> AsyncIterator[Gateway]:
    async with running_gateway(home, {"fake": (channel.kind, channel)}) as gateway:
        await open_room(gateway, "fake", ROOM)
        await gateway.store.write(settle_people, gateway.clock.now())
        gateway.events.tools()
        script = ScriptBuilder().turn("go").call("send", text="the secret plan").say("asked").turn("hello").say("hi")
        script.write(gateway.home.group("home")).chmod(0o644)
        yield gateway


async def ask(gateway: Gateway, channel: FakeChannel) -> tuple[Request, SentMessage]:
    """The boss has a direct room, the agent asks for a call. The request, and its card."""
    await channel.say("hello", address=DIRECT, sender=BOSS, direct=True)
    await channel.wait_for(lambda sent: any(each.address == DIRECT for each in sent))
    await channel.say("go")
    await channel.wait_for(lambda sent: any(each.message.text == "asked" for each in sent))
    sent = await channel.wait_for(lambda sent: any("wants to send" in each.message.text for each in sent))
    await wait_for_shown_card(gateway)
    (request,) = await gateway.store.read(waiting_requests.list_pending)
    return request, next(each for each in sent if "wants to send" in each.message.text)


@pytest.mark.slow
@pytest.mark.parametrize("buttons", [True, False])
async def test_arizuko_39_the_right_persons_answer_runs_it_once(tmp_path: Path, buttons: bool) -> None:
    channel = FakeChannel(features=EVERYTHING | {Feature.CARDS} if buttons else EVERYTHING)
    async with held_gateway(tmp_path / "h", channel) as gateway:
        request, card = await ask(gateway, channel)
        assert card.address == DIRECT and "the secret plan" in card.message.text
        assert "the secret plan" not in channel.texts(ROOM)

        if buttons:
            assert card.message.card is not None
            button = card.message.card.buttons[0]
            assert request.id not in button.id
            await channel.click(button.id, address=DIRECT, sender=BOSS)
            await channel.click(button.id, address=DIRECT, sender=BOSS)
        else:
            assert card.message.card is None and "1. Allow once" in card.message.text
            await reply_to_card(gateway, channel, "1", sender=BOSS)

        await channel.wait_for(lambda sent: any(each.message.text == "the secret plan" for each in sent))
        await wait_until_settled(gateway)
        decided = await gateway.store.read(requests.get, request.id)
        assert decided is not None
        assert (decided.state, decided.answered_by) == (RequestState.ALLOWED, BOSS)
        assert decided.settled_at is not None and decided.notified_at is not None
        assert channel.texts(ROOM).count("the secret plan") == 1


@pytest.mark.slow
async def test_who_allowed_a_call_that_the_agent_may_not_make_any_more_reads_that_in_the_card(tmp_path: Path) -> None:
    channel = FakeChannel(features=EVERYTHING | {Feature.CARDS})
    async with held_gateway(tmp_path / "h", channel) as gateway:
        _, card = await ask(gateway, channel)
        await gateway.store.write(grant_changes.add_rule, "home", "!send", "test", gateway.clock.now())
        gateway.events.tools()
        assert card.message.card is not None
        await channel.click(card.message.card.buttons[0].id, address=DIRECT, sender=BOSS)
        sent = await channel.wait_for(lambda sent: any("It failed" in each.message.text for each in sent))
        await wait_until_settled(gateway)
        (told,) = [each for each in sent if "It failed" in each.message.text]
        assert (told.message.op, told.message.target, told.address) == (Op.EDIT, card.platform_id, DIRECT)
        assert told.message.card is not None and told.message.card.done.startswith("Allowed by Ada. It failed: ")
        assert "the secret plan" not in channel.texts(ROOM)


@pytest.mark.slow
async def test_nanoclaw_5_and_d13_who_may_not_decide_is_told_and_recorded_and_changes_nothing(tmp_path: Path) -> None:
    channel = FakeChannel(features=EVERYTHING | {Feature.CARDS})
    async with held_gateway(tmp_path / "h", channel) as gateway:
        request, card = await ask(gateway, channel)
        assert card.message.card is not None
        await channel.click(card.message.card.buttons[0].id, address=DIRECT, sender=STRANGER)
        await channel.say(f"/approve {request.id}", sender=STRANGER)
        await channel.wait_for(lambda sent: sum("Only an admin" in each.message.text for each in sent) == 2)

        (waiting,) = await gateway.store.read(waiting_requests.list_pending)
        assert waiting.id == request.id
        rows = await gateway.store.read(audit.list_latest, 50)
        assert [row[2:5] for row in rows if row[3] == "request.decide"] == [(STRANGER, "request.decide", "refused")] * 2


async def test_edited_arguments_are_what_runs_and_what_the_audit_has(tmp_path: Path) -> None:
    channel = FakeChannel()
    async with held_gateway(tmp_path / "h", channel) as gateway:
        request, _ = await ask(gateway, channel)
        for wrong in ("{broken", "{}", '{"text": "x"} and more'):
            await channel.say(f"/approve {request.id} {wrong}", address=DIRECT, sender=BOSS, direct=True)
        await channel.wait_for(lambda sent: sum("Nothing was decided" in each.message.text for each in sent) == 3)
        unfit = (
            json.dumps({**request.input, "txet": "a kind word"}),  # the tool has no such parameter
            json.dumps({**request.input, "text": 7}),
        )
        for wrong in unfit:
            await channel.say(f"/approve {request.id} {wrong}", address=DIRECT, sender=BOSS, direct=True)
        told = await channel.wait_for(lambda sent: sum("does not fit send" in each.message.text for each in sent) == 2)
        assert any("txet" in each.message.text for each in told)
        assert len(await gateway.store.read(waiting_requests.list_pending)) == 1

        edited = {**request.input, "text": "a kind word"}
        text = f"/approve {request.id}\n{json.dumps(edited)}"
        await channel.say(text, address=DIRECT, sender=BOSS, direct=True)
        await channel.wait_for(lambda sent: any(each.message.text == "a kind word" for each in sent))
        await wait_until_settled(gateway)
        assert "the secret plan" not in channel.texts(ROOM)
        assert any("Allowed with changes by Ada" in each for each in channel.texts(DIRECT))
        details = await gateway.store.read(show, ShowRequestArgs(id=request.id), gateway.clock.now())
        fields = {each.label: each.value for each in details.fields}
        assert fields["allowed instead, text"] == "a kind word" and "the secret plan" in fields.values()
        rows = await gateway.store.read(audit.list_latest, 50)
        (decided,) = [json.loads(row[5]) for row in rows if row[3] == "request.decide"]
        assert decided["changed"] == ["text"] and len(decided["digest"]) == 64
        (ran,) = [json.loads(row[5]) for row in rows if "send" in row[3] and row[4] == "allowed"]
        assert ran["args"]["text"]["sha256"] == hashlib.sha256(b"a kind word").hexdigest()


@pytest.mark.slow
async def test_a_denial_reaches_the_agent_with_its_words_and_nothing_runs(tmp_path: Path) -> None:
    channel = FakeChannel()
    async with held_gateway(tmp_path / "h", channel) as gateway:
        request, _ = await ask(gateway, channel)
        await channel.say(f"/deny {request.id} not today", address=DIRECT, sender=BOSS, direct=True)
        await channel.wait_for(
            lambda sent: any("Denied by" in each.message.text and each.address == DIRECT for each in sent)
        )
        await wait_until_settled(gateway)
        decided = await gateway.store.read(requests.get, request.id)
        assert decided is not None and decided.state is RequestState.DENIED and decided.reason == "not today"
        assert decided.notified_at is not None
        assert "the secret plan" not in channel.texts(ROOM)


@pytest.mark.slow
async def test_always_writes_a_rule_and_the_next_call_runs_at_once(tmp_path: Path) -> None:
    channel = FakeChannel()
    async with held_gateway(tmp_path / "h", channel) as gateway:
        await ask(gateway, channel)
        await reply_to_card(gateway, channel, "always allow", sender=BOSS)
        await channel.wait_for(lambda sent: sum(each.message.text == "the secret plan" for each in sent) == 1)
        await channel.say("go")
        await channel.wait_for(lambda sent: sum(each.message.text == "the secret plan" for each in sent) == 2)

        rules = [rule.text for rule in await gateway.store.read(acl.list_rules)]
        assert rules == ["hold send", f"send(chatJid={ROOM})"]


@pytest.mark.slow
async def test_an_allowed_call_runs_once_although_the_gateway_stopped_before_it(tmp_path: Path) -> None:
    channel = FakeChannel()
    async with held_gateway(tmp_path / "h", channel) as gateway:
        request, _ = await ask(gateway, channel)
        gateway.requests._gate = Nobody()  # type: ignore[assignment]
        await reply_to_card(gateway, channel, "1", sender=BOSS)
        await asyncio.wait_for(gateway.requests._gate.called.wait(), PATIENCE_S)  # type: ignore[attr-defined]
        assert "the secret plan" not in channel.texts(ROOM)
    async with running_gateway(tmp_path / "h", {"fake": (channel.kind, channel)}) as gateway:
        await channel.wait_for(lambda sent: any(each.message.text == "the secret plan" for each in sent))
        await wait_until_settled(gateway)
        assert channel.texts(ROOM).count("the secret plan") == 1
        decided = await gateway.store.read(requests.get, request.id)
        assert decided is not None and decided.notified_at is not None


class Nobody:
    """A gate that never answers: the gateway stops while it is asked."""

    def __init__(self) -> None:
        self.called = asyncio.Event()

    async def call(self, *given: object, **named: object) -> None:
        self.called.set()
        await asyncio.Event().wait()


@pytest.mark.slow
async def test_a_number_is_no_answer_once_an_agent_said_something_behind_the_card(tmp_path: Path) -> None:
    """Else an agent that asks "1 or 2?" in the room of its own card is allowed what it asked for."""
    channel = FakeChannel()
    async with held_gateway(tmp_path / "h", channel) as gateway:
        request, _ = await ask(gateway, channel)
        await channel.say("hello", address=DIRECT, sender=BOSS, direct=True)
        await channel.wait_for(lambda sent: sum(each.message.text == "hi" for each in sent) == 2)
        receipt = await channel.say("1", address=DIRECT, sender=BOSS, direct=True)
        assert receipt.state == "queued"  # it is the agent's
        await channel.wait_for(lambda sent: any(f"/approve {request.id}" in each.message.text for each in sent))
        await channel.say(f"/approve {request.id}", address=DIRECT, sender=BOSS, direct=True)
        await channel.wait_for(lambda sent: any(each.message.text == "the secret plan" for each in sent))


@pytest.mark.slow
async def test_a_held_reply_answers_the_message_of_its_turn(tmp_path: Path) -> None:
    channel = FakeChannel()
    async with held_gateway(tmp_path / "h", channel) as gateway:
        await gateway.store.write(grant_changes.add_rule, "home", "hold reply", "test", gateway.clock.now())
        gateway.events.tools()
        script = ScriptBuilder().turn("go").call("reply", text="an answer").say("asked").turn("hello").say("hi")
        script.write(gateway.home.group("home")).chmod(0o644)
        await channel.say("hello", address=DIRECT, sender=BOSS, direct=True)
        await channel.say("go", platform_id="asked-1")
        await channel.wait_for(lambda sent: any("wants to reply" in each.message.text for each in sent))
        await wait_until_settled(gateway)
        (request,) = await gateway.store.read(waiting_requests.list_pending)
        await channel.say(f"/approve {request.id}", address=DIRECT, sender=BOSS, direct=True)
        sent = await channel.wait_for(lambda sent: any(each.message.text == "an answer" for each in sent))
        assert next(each.message.reply_to for each in sent if each.message.text == "an answer") == "asked-1"


@pytest.mark.slow
async def test_who_stops_a_turn_withdraws_its_held_calls(tmp_path: Path) -> None:
    channel = FakeChannel()
    async with held_gateway(tmp_path / "h", channel) as gateway:
        script = ScriptBuilder().turn("go").call("send", text="the secret plan").say("asked").wait(3600)
        script.turn("hello").say("hi").write(gateway.home.group("home")).chmod(0o644)
        request, _ = await ask(gateway, channel)
        await channel.say("/stop", sender=BOSS)
        await channel.wait_for(lambda sent: any("Withdrawn" in each.message.text for each in sent))
        late = await channel.say(f"/approve {request.id}", address=DIRECT, sender=BOSS, direct=True)
        assert late.reason == f"not decided {request.id}"
        await wait_until_settled(gateway)
        assert "the secret plan" not in channel.texts(ROOM)


@pytest.mark.slow
async def test_the_first_of_two_votes_is_noted_and_the_second_decides(tmp_path: Path) -> None:
    channel, other = FakeChannel(), "fake:user/second"
    async with held_gateway(tmp_path / "h", channel) as gateway:

        def need_two(db: Db) -> None:
            grant_changes.add_rule(db, "home", "hold[2] send", "test", gateway.clock.now())
            users.add(db, other, "Bea", gateway.clock.now())
            users.add_role(db, other, UserRole.OWNER, "", "test", gateway.clock.now())

        await gateway.store.write(need_two)
        gateway.events.tools()
        request, _ = await ask(gateway, channel)

        assert await gateway.agents.respond(request.id, BOSS, allow=True) == "Noted: 1 of 2 who must agree."
        assert [each.id for each in await gateway.store.read(waiting_requests.list_pending)] == [request.id]
        assert await gateway.agents.respond(request.id, other, allow=True) == ""
        await channel.wait_for(lambda sent: any(each.message.text == "the secret plan" for each in sent))


async def test_a_card_that_the_platform_refuses_is_shown_in_the_persons_next_room_at_once(tmp_path: Path) -> None:
    """Nobody waits for `approvals.escalate_s`."""
    channel, other = FakeChannel(), FakeChannel(platform="other")
    kinds = {"fake": (channel.kind, channel), "other": (other.kind, other)}
    async with running_gateway(tmp_path / "h", kinds) as gateway:
        await open_room(gateway, "fake", ROOM)
        await gateway.store.write(settle_people, gateway.clock.now())
        await gateway.store.write(direct_rooms.add, BOSS, "fake", DIRECT, gateway.clock.now())
        await gateway.store.write(direct_rooms.add, BOSS, "other", "other:direct/boss", gateway.clock.now())
        gateway.events.tools()
        script = ScriptBuilder().turn("go").call("send", text="the secret plan").say("asked")
        script.write(gateway.home.group("home")).chmod(0o644)
        channel.script(then=SendFault.REFUSE)
        await channel.say("go")
        await other.wait_for(lambda sent: any("wants to send" in each.message.text for each in sent))
        assert not any("wants to send" in each.message.text for each in channel.sent)
