"""Cards that an agent sends: what they become on a channel that has cards, and on one that has none."""

import json
from pathlib import Path
from typing import Any

import pytest

from gatepost.access.tiers import Tier
from gatepost.core.registry import load_package
from gatepost.messages.card import CardField
from gatepost.messages.outbound import Feature, Op
from gatepost.serve.room_events import parse_card
from gatepost.serve.web.markdown import render
from gatepost.store.engine.sqlite_store import SqliteStore
from gatepost.store.messages import destinations, messages, outbox
from gatepost.tools.cards import LONGEST_TEXT, LONGEST_URL, MOST_FIELDS, MOST_LINKS, LinkButton, make_card
from gatepost_testing.channel import EVERYTHING, FakeChannel
from gatepost_testing.gate_agent import FOLDERS, PLATFORM, ROOM, GateAgent
from gatepost_testing.outbox_harness import OutboxHarness

load_package("gatepost.tools")

GOOD: dict[str, Any] = {
    "title": "The build",
    "text": "It **passed**.",
    "fields": [{"name": "tests", "value": "2000"}, {"name": "time", "value": "4 min"}],
    "buttons": [{"label": "Log [full]", "url": "https://ci.example/7?a=b"}],
}
TEXT = """**The build**

It **passed**.

- [Log \\[full\\]](https://ci.example/7?a=b)

- tests: 2000
- time: 4 min"""


@pytest.fixture
async def agent(tmp_path: Path, store: SqliteStore) -> GateAgent:
    return await GateAgent.create(tmp_path, store)


@pytest.mark.parametrize("tier", list(Tier))
async def test_it_is_there_for_every_tier(tier: Tier, tmp_path: Path, store: SqliteStore) -> None:
    agent = await GateAgent.create(tmp_path, store, FOLDERS[tier])
    answer = await agent.call("send_card", **GOOD)
    assert json.loads(answer.text)["ok"] is True


@pytest.mark.parametrize("tier", [Tier.AGENT, Tier.WORKER])
async def test_a_worker_shows_cards_in_the_room_of_its_turn_alone(
    tier: Tier, tmp_path: Path, store: SqliteStore
) -> None:
    agent = await GateAgent.create(tmp_path, store, FOLDERS[tier])
    await store.write(destinations.add_room, FOLDERS[tier], "ops", PLATFORM, "fake:room/2", "", 1)
    there, here = await agent.call("send_card", chatJid="ops", **GOOD), await agent.call("send_card", **GOOD)
    assert not here.failed
    assert there.failed is (tier is Tier.WORKER)
    if there.failed:
        assert "in the room of its turn" in there.text and agent.woken == [(PLATFORM, ROOM)]


@pytest.mark.parametrize("cards", [True, False])
async def test_a_channel_with_cards_gets_one_and_another_gets_its_text(
    cards: bool, tmp_path: Path, store: SqliteStore
) -> None:
    features = EVERYTHING | {Feature.CARDS} if cards else EVERYTHING
    channel = FakeChannel(features=features)
    post = OutboxHarness(store, {"fake": channel})
    agent = await GateAgent.create(tmp_path, store, features=features, clock=post.clock)

    assert not (await agent.call("send_card", **GOOD)).failed
    async with post.running():
        (sent,) = await channel.wait_for(1)

    assert (sent.address, sent.message.text) == (ROOM, TEXT)
    assert sent.message.op is (Op.CARD if cards else Op.SEND)
    assert (sent.message.card is not None) == cards
    if sent.message.card is not None:
        assert sent.message.card.title == "The build"
        assert sent.message.card.fields == (CardField("tests", "2000"), CardField("time", "4 min"))
        assert (sent.message.card.buttons, sent.message.card.done) == ((), "")


async def test_the_same_call_twice_is_one_card_and_its_number_names_it(agent: GateAgent, store: SqliteStore) -> None:
    first = json.loads((await agent.call("send_card", "call-1", **GOOD)).text)
    again = json.loads((await agent.call("send_card", "call-1", **GOOD)).text)
    assert first == again
    message = await store.read(messages.find_by_seq, agent.session.id, first["seq"])
    assert message is not None
    (effect,) = await store.read(outbox.list_for_message, message.id)
    assert (effect.op, message.folder) == (Op.CARD, "acme/eng")


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({"title": " \n"}, "title: has 0 characters; 1 to 200 are possible"),
        ({"title": "x" * 201}, "title: has 201 characters"),
        ({"text": "x" * (LONGEST_TEXT + 1)}, "text: has 6001 characters"),
        ({"fields": [{"name": "n", "value": "v"}] * (MOST_FIELDS + 1)}, "fields: has 26 items; 25 are possible"),
        ({"fields": [{"name": "", "value": "v"}]}, "fields: item 1: name: has 0 characters"),
        ({"fields": [{"name": "n", "value": "x" * 1001}]}, "fields: item 1: value: has 1001 characters"),
        ({"buttons": [{"label": "l", "url": "https://a.b"}] * (MOST_LINKS + 1)}, "buttons: has 11 items"),
        ({"buttons": [{"label": "", "url": "https://a.b"}]}, "buttons: item 1: label: has 0 characters"),
        ({"buttons": [{"label": "l", "url": "javascript:alert(1)"}]}, "buttons: item 1: url: an http or https"),
        ({"buttons": [{"label": "l", "url": "https://a.b/) [x](https://c.d"}]}, "buttons: item 1: url: an http"),
        ({"buttons": [{"label": "l", "url": "https://a.b/\n"}]}, "buttons: item 1: url: an http"),
    ],
)
async def test_bad_input_is_named_and_nothing_is_sent(given: dict[str, Any], why: str, agent: GateAgent) -> None:
    answer = await agent.call("send_card", **{**GOOD, **given})
    assert answer.failed
    assert answer.text.startswith(why)
    assert agent.woken == []


async def test_a_card_that_is_too_long_for_one_message_of_the_channel_is_refused(
    tmp_path: Path, store: SqliteStore
) -> None:
    agent = await GateAgent.create(tmp_path, store, max_text=50)
    answer = await agent.call("send_card", **GOOD)
    assert answer.failed
    assert answer.text.startswith("card: has ") and "one message takes 50 here" in answer.text


def test_a_label_is_text_and_the_largest_card_is_shown_whole() -> None:
    label = "`a` [b](https://evil.example) <i> *c* _d_ \\"
    card = make_card("t", "", [], [LinkButton(label, "https://good.example/x")])
    html = render(card.text)
    assert html.count("<a ") == 1 and 'href="https://good.example/x"' in html
    assert "&lt;i&gt; *c* _d_ \\</a>" in html

    links = [LinkButton("[" * 100, "https://" + "x" * (LONGEST_URL - 8))] * MOST_LINKS
    card = make_card("t", "y" * LONGEST_TEXT, [], links)
    assert parse_card({"card": {"title": card.title, "text": card.text}}) == card
