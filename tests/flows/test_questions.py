"""An agent asks the people of its room: by a card with buttons, by numbers, by words, and across a restart."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from gatepost.app import Gateway
from gatepost.messages.card import OWN_WORDS, join_clicks
from gatepost.messages.inbound import Direction, Quote
from gatepost.messages.outbound import Feature
from gatepost.store.messages import messages
from gatepost.store.people import users
from gatepost.store.people.users import UserRole
from gatepost.store.port import Db
from gatepost.store.rights import audit, requests, waiting_requests
from gatepost.store.rights.requests import Request, RequestState
from gatepost.store.rooms import rooms
from gatepost.store.rooms.rooms import RoomPolicy
from gatepost_testing.channel import EVERYTHING, FakeChannel, SentMessage
from gatepost_testing.gateway import open_room, running_gateway, wait_until_settled
from gatepost_testing.provider import ScriptBuilder

ROOM, ADA, EVE = "fake:room/1", "fake:user/1", "fake:user/eve"
DRINK = {
    "question": "Which drink?",
    "header": "Drink",
    "options": [{"label": "Tea", "description": "Green."}, {"label": "Coffee", "description": "Black."}],
}
EXTRAS = {"question": "What with it?", "options": [{"label": "Milk"}, {"label": "Sugar"}, {"label": "Cake"}]}
SECOND = {**EXTRAS, "multiSelect": True}
OWN = {"question": "What is your name?"}
CARDS = EVERYTHING | {Feature.CARDS}


def write_script(gateway: Gateway, *questions: dict[str, Any], **more: Any) -> None:
    script = ScriptBuilder().turn("go").call("ask_user_question", questions=list(questions), **more)
    script.say("They said: {result}").turn("", kind="system").say("Later").write(gateway.home.group("home")).chmod(
        0o644
    )


@asynccontextmanager
async def asking_gateway(home: Path, channel: FakeChannel, *questions: Any, **settings: Any) -> AsyncIterator[Gateway]:
    async with running_gateway(home, {"fake": (channel.kind, channel)}, **settings) as gateway:
        await open_room(gateway, "fake", ROOM)
        if questions:
            write_script(gateway, *questions)
        yield gateway


async def wait_for_card(channel: FakeChannel, number: int = 1) -> SentMessage:
    def list_cards(sent: list[SentMessage]) -> list[SentMessage]:
        return [each for each in sent if " asks" in each.message.text and each.message.op != "edit"]

    return list_cards(await channel.wait_for(lambda sent: len(list_cards(sent)) >= number))[number - 1]


async def wait_for_result(channel: FakeChannel, begins: str = "They said: ") -> dict[str, Any]:
    sent = await channel.wait_for(lambda sent: any(each.message.text.startswith(begins) for each in sent))
    text = next(each.message.text for each in sent if each.message.text.startswith(begins))
    found: dict[str, Any] = json.loads(text.removeprefix(begins))
    return found


def find_told(db: Db, request_id: str) -> dict[str, Any]:
    """Return what the agent was told of it as a message."""
    found = messages.find(db, "fake", ROOM, Direction.IN, f"question:{request_id}", "system")
    assert found is not None
    return found.content


async def get_request(gateway: Gateway) -> Request:
    (request,) = await gateway.store.read(waiting_requests.list_pending)
    return request


@pytest.mark.slow
@pytest.mark.parametrize("buttons", [True, False])
async def test_nanoclaw_32_a_choice_is_what_the_tool_returns_and_the_card_shows_it(
    tmp_path: Path, buttons: bool
) -> None:
    channel = FakeChannel(features=CARDS if buttons else EVERYTHING)
    async with asking_gateway(tmp_path / "h", channel, DRINK) as gateway:
        await channel.say("go")
        card = await wait_for_card(channel)
        assert card.address == ROOM and "Which drink?" in card.message.text
        if buttons:
            assert card.message.card is not None
            assert [each.label for each in card.message.card.buttons] == ["Tea", "Coffee"]
            button = card.message.card.buttons[1].id
            assert (await get_request(gateway)).id not in button
            await channel.click(button, sender=ADA)
        else:
            assert "1. Tea: Green.\n2. Coffee: Black." in card.message.text
            await channel.say("2", sender=ADA)

        result = await wait_for_result(channel)
        assert result["status"] == "answered"
        assert result["answers"] == [{"question": "Which drink?", "answer": "Coffee"}]
        await wait_until_settled(gateway)
        assert any("Answered by fake:user/1: Coffee." in text for text in channel.texts(ROOM))
        assert await gateway.store.read(waiting_requests.list_pending) == []
        late = await channel.say(f"/answer {result['request']} tea", sender=ADA)
        await channel.wait_for(lambda sent: any("It was decided before" in each.message.text for each in sent))
        assert late.reason == f"not decided {result['request']}" and late.state == "answered"
        assert await gateway.store.read(requests.list_unnotified, ("question",), 10) == []


@pytest.mark.slow
async def test_several_questions_come_one_after_the_other_and_several_choices_are_one_answer(tmp_path: Path) -> None:
    channel = FakeChannel(features=CARDS)
    async with asking_gateway(tmp_path / "h", channel, DRINK, SECOND, OWN):
        await channel.say("go")
        first = await wait_for_card(channel)
        assert first.message.card is not None and "question 1 of 3" in first.message.card.title
        await channel.click(first.message.card.buttons[0].id, sender=ADA)
        second = await wait_for_card(channel, 2)
        assert second.message.card is not None and second.message.card.many
        replayed = await channel.click(first.message.card.buttons[1].id, sender=ADA)
        assert replayed.reason.startswith("not decided")  # it is no answer to the next question
        ids = [each.id for each in second.message.card.buttons]
        await channel.click(join_clicks([ids[2], ids[0]]), sender=ADA)
        third = await wait_for_card(channel, 3)
        assert third.message.card is not None and third.message.card.buttons == ()
        await channel.say("Ada Lovelace", sender=ADA)

        result = await wait_for_result(channel)
        assert [each["answer"] for each in result["answers"]] == ["Tea", "Milk, Cake", "Ada Lovelace"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("text", "answer"), [("1,3", "Milk, Cake"), ("1 3", "Milk, Cake"), ("cake; milk", "Milk, Cake"), ("sug", "Sugar")]
)
async def test_without_buttons_several_numbers_or_words_are_one_answer(tmp_path: Path, text: str, answer: str) -> None:
    channel = FakeChannel()
    async with asking_gateway(tmp_path / "h", channel, SECOND):
        await channel.say("go")
        await wait_for_card(channel)
        await channel.say(text, sender=ADA)
        assert (await wait_for_result(channel))["answers"][0]["answer"] == answer


@pytest.mark.slow
async def test_words_of_ones_own_are_an_answer_where_they_may_be_and_a_reply_says_which(tmp_path: Path) -> None:
    channel = FakeChannel()
    async with asking_gateway(tmp_path / "h", channel, {**DRINK, "freeText": True}) as gateway:
        await channel.say("go")
        card = await wait_for_card(channel)
        other = await channel.say("who wants lunch?", sender="fake:user/2")
        assert other.state == "queued"  # not who was asked: it is for the agent
        await channel.say("water", sender="fake:user/2", reply_to=Quote(platform_id=card.platform_id))
        assert (await wait_for_result(channel))["answers"][0]["answer"] == "water"
        await wait_until_settled(gateway)


async def test_what_is_no_option_is_not_taken_and_a_reply_is_told_what_can_be_said(tmp_path: Path) -> None:
    channel = FakeChannel(features=CARDS)
    async with asking_gateway(tmp_path / "h", channel, DRINK) as gateway:
        await channel.say("go")
        card = await wait_for_card(channel)
        assert card.message.card is not None
        token = card.message.card.buttons[0].id.partition(":")[0]
        for made_up in (f"{token}:9", f"{token}:0,1", f"{token}:-1", f"{token}:", f"{token}:{OWN_WORDS}"):
            assert (await channel.click(made_up, sender=ADA)).reason == "unknown_button"
        await channel.say("water", sender=ADA, reply_to=Quote(platform_id=card.platform_id))
        await channel.wait_for(lambda sent: any("with: Tea, Coffee." in each.message.text for each in sent))
        assert (await get_request(gateway)).state is RequestState.PENDING


@pytest.mark.slow
async def test_who_may_not_speak_to_the_group_is_refused_told_and_recorded(tmp_path: Path) -> None:
    channel = FakeChannel(features=CARDS)
    async with asking_gateway(tmp_path / "h", channel, DRINK) as gateway:
        now = gateway.clock.now()
        await gateway.store.write(users.add, ADA, "Ada", now)
        await gateway.store.write(users.add_member, ADA, "home", "test", now)
        await gateway.store.write(rooms.set_policy, "fake", ROOM, RoomPolicy.STRICT)
        await channel.say("go")
        card = await wait_for_card(channel)
        assert card.message.card is not None
        await channel.click(card.message.card.buttons[0].id, sender=EVE)
        await channel.wait_for(lambda sent: any("Only people who may speak" in each.message.text for each in sent))
        rows = await gateway.store.read(audit.list_latest, 50)
        assert [row[2:5] for row in rows if row[3] == "request.decide"] == [(EVE, "request.decide", "refused")]
        assert (await get_request(gateway)).state is RequestState.PENDING
        await channel.click(card.message.card.buttons[0].id, sender=ADA)
        assert (await wait_for_result(channel))["answers"][0]["answer"] == "Tea"


@pytest.mark.slow
async def test_a_guest_answers_in_the_room_and_from_nowhere_else(tmp_path: Path) -> None:
    channel = FakeChannel()
    async with asking_gateway(tmp_path / "h", channel, DRINK) as gateway:
        await channel.say("go")
        await wait_for_card(channel)
        request = await get_request(gateway)
        elsewhere = await channel.say(f"/answer {request.id} tea", sender=EVE, address="fake:room/2")
        assert elsewhere.reason == f"not decided {request.id}"
        here = await channel.say(f"/answer {request.id} tea", sender=EVE)
        assert here.reason == f"decided {request.id}"


@pytest.mark.slow
async def test_who_declines_is_told_to_the_agent_with_their_words(tmp_path: Path) -> None:
    channel = FakeChannel()
    async with asking_gateway(tmp_path / "h", channel, DRINK) as gateway:
        await channel.say("go")
        await wait_for_card(channel)
        request = await get_request(gateway)
        told = await channel.say(f"/approve {request.id}", sender=ADA)
        assert told.reason == "unknown_request"
        await channel.say(f"/deny {request.id} decide yourself", sender=ADA)
        result = await wait_for_result(channel)
        assert result["status"] == "declined" and "decide yourself" in result["why"]


@pytest.mark.slow
async def test_an_answer_that_comes_late_is_told_as_a_message_once(tmp_path: Path) -> None:
    channel = FakeChannel(features=CARDS)
    async with asking_gateway(tmp_path / "h", channel, DRINK, questions__wait_s=0.0) as gateway:
        await channel.say("go")
        card = await wait_for_card(channel)
        result = await wait_for_result(channel)
        assert (result["status"], result["answers"]) == ("pending", [])
        await wait_until_settled(gateway)
        assert card.message.card is not None
        await channel.click(card.message.card.buttons[0].id, sender=ADA)
        await channel.wait_for(lambda sent: any(each.message.text == "Later" for each in sent))
        late = await channel.click(card.message.card.buttons[1].id, sender=ADA)
        assert late.reason == f"not decided {result['request']}"
        await gateway.requests._questions.notify_answered()
        account = await wait_until_settled(gateway)
        assert account.unaccounted == 0 and channel.texts().count("Later") == 1
        told = await gateway.store.read(find_told, result["request"])
        assert told["answers"] == [{"question": "Which drink?", "answer": "Tea"}]


@pytest.mark.slow
async def test_nanoclaw_d6_a_late_answer_to_a_question_that_is_over_wakes_nobody(tmp_path: Path) -> None:
    channel = FakeChannel(features=CARDS)
    async with asking_gateway(tmp_path / "h", channel) as gateway:
        write_script(gateway, DRINK, timeout=1)
        await channel.say("go")
        card = await wait_for_card(channel)
        result = await wait_for_result(channel)
        assert result["status"] == "expired" and "Nobody answered in time" in result["why"]
        await wait_until_settled(gateway)
        assert card.message.card is not None
        late = await channel.click(card.message.card.buttons[0].id, sender=ADA)
        assert (late.state, late.reason) == ("answered", f"not decided {result['request']}")
        told = "It was decided before. Nobody answered in time."
        await channel.wait_for(lambda sent: any(each.message.text.endswith(told) for each in sent))
        account = await wait_until_settled(gateway)
        assert (account.in_flight, account.unaccounted) == (0, 0)
        assert await gateway.store.read(requests.list_unnotified, ("question",), 10) == []


@pytest.mark.slow
async def test_when_the_time_is_over_the_default_counts(tmp_path: Path) -> None:
    channel = FakeChannel()
    async with asking_gateway(tmp_path / "h", channel) as gateway:
        write_script(gateway, {**DRINK, "default": "coffee"}, timeout=1)
        await channel.say("go")
        result = await wait_for_result(channel)
        assert result["status"] == "answered" and result["answers"][0]["answer"] == "Coffee"
        assert "Nobody answered in time, so this counts: Coffee." in result["why"]


@pytest.mark.slow
@pytest.mark.parametrize("answered", ["before", "after"])
async def test_a_question_outlives_a_restart_and_the_turn_that_goes_on_gets_its_answer(
    tmp_path: Path, answered: str
) -> None:
    """The first of two questions is answered before the gateway stops, the second before or after the next start."""
    channel = FakeChannel()
    async with asking_gateway(tmp_path / "h", channel, DRINK, OWN) as gateway:
        await channel.say("go")
        await wait_for_card(channel)
        await channel.say("tea", sender=ADA)
        await wait_for_card(channel, 2)
        request = await get_request(gateway)
        assert request.answer == {"answers": {"Drink": "Tea"}}
        if answered == "before":
            gateway.requests._questions._woken = set()  # the call does not hear of it before the gateway stops
            await channel.say(f"/answer {request.id} Ada", sender=ADA)
    async with asking_gateway(tmp_path / "h", channel) as gateway:
        if answered == "after":
            assert (await get_request(gateway)).id == request.id
            await channel.say(f"/answer {request.id} Ada", sender=ADA)
        result = await wait_for_result(channel)
        assert [each["answer"] for each in result["answers"]] == ["Tea", "Ada"]
        await wait_until_settled(gateway)
        cards = [text for text in channel.texts() if " asks, question" in text and "Answer" in text.splitlines()[-1]]
        assert len([text for text in cards if "Answered" not in text]) == 2  # each question was shown once
        assert sum(text.startswith("They said") for text in channel.texts()) == 1
        told = messages.find, "fake", ROOM, Direction.IN, f"question:{request.id}", "system"
        assert await gateway.store.read(*told) is None  # type: ignore[call-arg]  # not a second time, as a message


@pytest.mark.slow
async def test_who_stops_the_turn_withdraws_its_question(tmp_path: Path) -> None:
    channel = FakeChannel()
    async with asking_gateway(tmp_path / "h", channel, DRINK) as gateway:
        await gateway.store.write(users.add, ADA, "Ada", gateway.clock.now())
        await gateway.store.write(users.add_role, ADA, UserRole.OWNER, "", "test", gateway.clock.now())
        await channel.say("go", sender=ADA)
        await wait_for_card(channel)
        await channel.say("/stop", sender=ADA)
        await channel.wait_for(lambda sent: any("Withdrawn" in each.message.text for each in sent))
        assert await gateway.store.read(waiting_requests.list_pending) == []


@pytest.mark.slow
@pytest.mark.parametrize("buttons", [True, False])
async def test_a_providers_own_question_is_asked_in_the_room_and_answered_there(tmp_path: Path, buttons: bool) -> None:
    channel = FakeChannel(features=CARDS if buttons else EVERYTHING)
    async with asking_gateway(tmp_path / "h", channel) as gateway:
        script = ScriptBuilder().turn("choose").ask("Which one?", "this", "that").say("they said {answer}")
        script.write(gateway.home.group("home")).chmod(0o644)
        await channel.say("choose")
        card = await wait_for_card(channel)
        assert card.address == ROOM and "Which one?" in card.message.text
        if buttons:
            assert card.message.card is not None
            await channel.click(card.message.card.buttons[1].id, sender=ADA)
        else:
            await channel.say("that", sender=ADA)
        await channel.wait_for(lambda sent: any(each.message.text == "they said that" for each in sent))
        await wait_until_settled(gateway)
        assert await gateway.store.read(waiting_requests.list_pending) == []


@pytest.mark.slow
async def test_nobody_answers_a_providers_question_and_it_is_told_so(tmp_path: Path) -> None:
    channel = FakeChannel()
    async with asking_gateway(tmp_path / "h", channel, approvals__expire_s=1) as gateway:
        script = ScriptBuilder().turn("choose").ask("Which one?", "this", "that").say("they said {answer}")
        script.write(gateway.home.group("home")).chmod(0o644)
        await channel.say("choose")
        await channel.wait_for(lambda sent: any(each.message.text == "they said deny" for each in sent))


@pytest.mark.slow
async def test_the_operator_answers_for_the_room_and_its_card_says_so(tmp_path: Path) -> None:
    channel = FakeChannel()
    async with asking_gateway(tmp_path / "h", channel, DRINK) as gateway:
        await channel.say("go")
        await wait_for_card(channel)
        request = await get_request(gateway)
        given = {"answers": {"Drink": "tea"}}
        session_id = request.session_id or ""
        await gateway.agents.respond(request.id, "operator", allow=True, agent_id=session_id, updated=given)
        assert (await wait_for_result(channel))["answers"][0]["answer"] == "Tea"
        await channel.wait_for(lambda sent: any("Answered by operator: Tea." in each.message.text for each in sent))
