"""Real coding agents ask people in a chat: by the gateway's tool, and by what each brings itself."""

from pathlib import Path
from typing import Any

import pytest

from gatepost.messages.outbound import Feature
from gatepost.store.rights import requests, waiting_requests
from gatepost_testing.agent_profiles import AGENTS, PATIENCE, run_agent_gateway
from gatepost_testing.channel import EVERYTHING, FakeChannel, SentMessage
from gatepost_testing.gateway import wait_until_settled
from gatepost_testing.models import ModelEndpoint

ADA = "fake:user/1"
CLAUDE, CODEX, OPENCODE = AGENTS["claude"], AGENTS["codex"], AGENTS["opencode"]
OPTIONS = [{"label": "Tea", "description": "Green."}, {"label": "Coffee", "description": "Black."}]
DRINK = {"question": "Which drink?", "header": "Drink", "options": OPTIONS}

needs_claude = pytest.mark.skipif(bool(CLAUDE.missing), reason=CLAUDE.missing or "it is there")
needs_codex = pytest.mark.skipif(bool(CODEX.missing), reason=CODEX.missing or "it is there")
needs_opencode = pytest.mark.skipif(bool(OPENCODE.missing), reason=OPENCODE.missing or "it is there")


def make_script(tool: str, *questions: dict[str, Any]) -> dict[str, Any]:
    ask = {"call": tool, "with": {"questions": list(questions)}}
    return {"tools": True, "turns": [{"when": "ask them", "do": [ask, {"say": "That is settled."}]}]}


async def wait_for_card(channel: FakeChannel) -> SentMessage:
    sent = await channel.wait_for(lambda sent: any("Which drink?" in each.message.text for each in sent), PATIENCE)
    return next(each for each in sent if "Which drink?" in each.message.text)


async def wait_for_end(channel: FakeChannel) -> None:
    said = "That is settled."
    await channel.wait_for(lambda sent: any(each.message.text == said for each in sent), PATIENCE)


def count_result(endpoint: ModelEndpoint, text: str) -> int:
    last = endpoint.calls[-1]
    return last.count_text(text, "tool")


@needs_claude
@pytest.mark.parametrize("buttons", [True, False])
@pytest.mark.slow
async def test_claude_asks_by_the_tool_and_gets_the_choice(tmp_path: Path, buttons: bool) -> None:
    channel = FakeChannel(features=EVERYTHING | {Feature.CARDS} if buttons else EVERYTHING)
    async with (
        ModelEndpoint(make_script("ask_user_question", DRINK)) as endpoint,
        run_agent_gateway(CLAUDE, tmp_path / "h", channel, endpoint) as gateway,
    ):
        await channel.say("ask them", sender=ADA)
        card = await wait_for_card(channel)
        if buttons:
            assert card.message.card is not None
            await channel.click(card.message.card.buttons[1].id, sender=ADA)
        else:
            await channel.say("2", sender=ADA)
        await wait_for_end(channel)
        account = await wait_until_settled(gateway)
        assert account.unaccounted == 0
    assert count_result(endpoint, "Coffee") and count_result(endpoint, "answered")


@needs_claude
@pytest.mark.slow
@pytest.mark.parametrize("again", [True, False])
async def test_claude_gets_the_choice_also_when_the_gateway_is_restarted_while_it_waits(
    tmp_path: Path, again: bool
) -> None:
    """It asks the same again, as its model does that finds its call broken off; or it does not, and is told later."""
    channel = FakeChannel()
    script = make_script("ask_user_question", DRINK)
    (turn,) = script["turns"]
    told = {"when": 'event="question"', "do": [{"say": "That is settled."}]}
    goes_on = {"when": 'event="restarted"', "do": turn["do"] if again else [{"say": "I go on."}]}
    script["turns"] = [told, goes_on, turn]
    async with ModelEndpoint(script) as endpoint:
        async with run_agent_gateway(CLAUDE, tmp_path / "h", channel, endpoint) as gateway:
            await channel.say("ask them", sender=ADA)
            await wait_for_card(channel)
            (request,) = await gateway.store.read(waiting_requests.list_pending)
        async with run_agent_gateway(CLAUDE, tmp_path / "h", channel, endpoint) as gateway:
            await channel.say(f"/answer {request.id} coffee", sender=ADA)
            await wait_for_end(channel)
            await wait_until_settled(gateway)
            ended = await gateway.store.read(requests.get, request.id)
            assert ended is not None and ended.notified_at is not None
        assert sum("Which drink?" in text and "Answered" not in text for text in channel.texts()) == 1
    assert count_result(endpoint, "Coffee") == (1 if again else 0)
    assert ("I go on." in channel.texts()) is not again
    assert sum(call.count_text("Coffee", "user") for call in endpoint.calls[-1:]) == (0 if again else 1)


@needs_claude
@pytest.mark.parametrize("mode", ["bypassPermissions", "default"])
@pytest.mark.slow
async def test_claudes_own_question_is_asked_in_the_room(tmp_path: Path, mode: str) -> None:
    channel = FakeChannel()
    own = {**DRINK, "multiSelect": False}
    async with (
        ModelEndpoint(make_script("AskUserQuestion", own)) as endpoint,
        run_agent_gateway(CLAUDE, tmp_path / "h", channel, endpoint, mode=mode) as gateway,
    ):
        await channel.say("ask them", sender=ADA)
        await wait_for_card(channel)
        await channel.say("coffee", sender=ADA)
        await wait_for_end(channel)
        await wait_until_settled(gateway)
    assert count_result(endpoint, "Coffee")


@pytest.mark.slow
@needs_opencode
async def test_opencodes_own_question_is_asked_in_the_room(tmp_path: Path) -> None:
    channel = FakeChannel()
    async with (
        ModelEndpoint(make_script("question", {**DRINK, "multiple": True})) as endpoint,
        run_agent_gateway(OPENCODE, tmp_path / "h", channel, endpoint) as gateway,
    ):
        await channel.say("ask them", sender=ADA)
        await wait_for_card(channel)
        await channel.say("1,2", sender=ADA)
        await wait_for_end(channel)
        await wait_until_settled(gateway)
    assert count_result(endpoint, "Tea, Coffee")


@pytest.mark.slow
@needs_codex
async def test_codexs_own_question_is_asked_in_the_room(tmp_path: Path) -> None:
    channel = FakeChannel()
    async with (
        ModelEndpoint(make_script("request_user_input", {**DRINK, "id": "drink"})) as endpoint,
        run_agent_gateway(CODEX, tmp_path / "h", channel, endpoint) as gateway,
    ):
        await channel.say("ask them", sender=ADA)
        await wait_for_card(channel)
        await channel.say("water", sender=ADA)
        await wait_for_end(channel)
        await wait_until_settled(gateway)
    assert count_result(endpoint, "water")
