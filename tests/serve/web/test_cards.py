"""Cards over HTTP: what the page gets of one, and what a click on a button does."""

from typing import Any

import httpx2
import pytest
from msgspec import to_builtins

from gatepost.core.clock import HOUR
from gatepost.flow.requests.decide import NOT_YOURS
from gatepost.messages.card import LONGEST_VALUE, MOST_FIELDS, Card, CardButton, CardField, render_text
from gatepost.messages.inbound import CLICK
from gatepost.messages.outbound import Op
from gatepost.serve.room_events import parse_card
from gatepost.serve.web.signin.one_time_link import make_login_url
from gatepost.store.messages import messages as ledger
from gatepost.store.messages import outbox
from gatepost.store.messages.messages import Message
from gatepost.store.messages.outbox import EffectOrigin, NewEffect
from gatepost.store.people import users
from gatepost.store.port import Db
from gatepost.store.rights import request_cards, requests
from gatepost.store.rights.requests import NewRequest, RequestKind, RequestState

HOME, ANN = "web:home", "fake:user/ann"
ARGUMENTS = {"text": "a\r\nb" * 900, "at": 12345678901234567890, "to": ["é"]}
BUTTON = "card-token:0"
ASKED = Card(
    title="Home asks <b>",
    text="**Why**, and <script>no</script>",
    fields=(CardField("to", "<i>everybody</i>"),),
    buttons=(CardButton(BUTTON, "Allow once", "primary"), CardButton("card-token:1", "Deny", "danger")),
)
DECIDED = Card(title="Home asks <b>", fields=ASKED.fields, done="Allowed by web:user/owner.")


async def show(site: Any, card: Card, key: str, op: Op = Op.CARD, target_id: int | None = None) -> int:
    """Put a card on its way and deliver it; its id in the ledger."""
    text = render_text(card)
    new = NewEffect(
        key=key,
        op=op,
        origin=EffectOrigin.NOTICE,
        instance="web",
        address=HOME,
        text=text,
        payload={"text": text, "card": to_builtins(card)},
        target_id=target_id,
    )
    effect = await site.store.write(outbox.add, new, site.answerer.clock.now())
    await site.answerer.deliver(HOME, key)
    return int(effect.message_id)


async def show_with_token(site: Any, instance: str = "web") -> None:
    message_id, now = await show(site, ASKED, "asked"), site.answerer.clock.now()

    def add(db: Db) -> None:
        new = NewRequest(kind=RequestKind.SENDER, name="fake:user/eve", folder="home", input={}, expires_at=now + HOUR)
        request, _ = requests.add(db, new, now)
        request_cards.add(db, "card-token", request.id, "web:user/owner", instance, HOME, message_id, now)

    await site.store.write(add)


async def read_clicks(site: Any) -> list[Message]:
    def read(db: Db) -> list[Message]:
        return [each for each in ledger.list_latest_in_room(db, "web", HOME, None, 50) if each.event == CLICK]

    found: list[Message] = await site.store.read(read)
    return found


async def click(browser: httpx2.AsyncClient, button: str) -> httpx2.Response:
    return await browser.post("/api/clicks", json={"button": button})


@pytest.mark.slow
async def test_history_has_a_card_with_its_buttons_and_its_decision(site: Any) -> None:
    async with site.signed_in() as browser:
        message_id = await show(site, ASKED, "asked")
        await show(site, DECIDED, "decided", Op.EDIT, message_id)
        page = (await browser.get("/api/messages", params={"room": HOME})).json()

    asked, decided = page["messages"]
    assert asked["card"] == {
        "title": "Home asks <b>",
        "html": "<p><strong>Why</strong>, and &lt;script&gt;no&lt;/script&gt;</p>",
        "fields": [{"name": "to", "value": "<i>everybody</i>"}],
        "buttons": [
            {"id": BUTTON, "label": "Allow once", "style": "primary", "about": ""},
            {"id": "card-token:1", "label": "Deny", "style": "danger", "about": ""},
        ],
        "freeText": False,
        "done": "",
        "many": False,
        "token": "",
        "editable": False,
    }
    assert (asked["name"], asked["notice"]) == ("Gatepost", True)
    assert (decided["verb"], decided["target"]) == ("edit", message_id)
    assert (decided["card"]["done"], decided["card"]["buttons"]) == ("Allowed by web:user/owner.", [])


@pytest.mark.slow
async def test_a_click_is_what_the_signed_in_person_does_in_the_cards_room_and_no_message_to_read(site: Any) -> None:
    site.answerer.by_itself = False
    async with site.signed_in() as browser:
        await show_with_token(site)
        first, second = await click(browser, BUTTON), await click(browser, BUTTON)
        page = (await browser.get("/api/messages", params={"room": HOME})).json()

    assert first.json() == second.json() == {"ok": True, "decided": False}
    clicks = await read_clicks(site)
    assert [(each.sender, each.address, each.text) for each in clicks] == [("web:user/owner", HOME, "")] * 2
    assert clicks[0].platform_id != clicks[1].platform_id
    assert [one["verb"] for one in page["messages"]] == ["card"]


@pytest.mark.parametrize("button", ["made-up:0", "", ":0", "card-toke:0", "x" * 201, "card-token:0" + "x" * 200])
async def test_a_made_up_button_does_nothing_and_is_answered(site: Any, button: str) -> None:
    async with site.signed_in() as browser:
        await show_with_token(site)
        answer = await click(browser, button)

    assert answer.status_code == 404
    assert answer.json()["error"]["text"] == "This button is not known any more."
    assert await read_clicks(site) == []


async def test_a_button_of_another_channel_does_nothing_here(site: Any) -> None:
    async with site.signed_in() as browser:
        await show_with_token(site, instance="telegram")
        assert (await click(browser, BUTTON)).status_code == 404
    assert await read_clicks(site) == []


@pytest.mark.parametrize(
    "body", [b"", b"[]", b"{}", b'{"button": 7}', b"[" * 500, b'{"button": "' + b"x" * 50_000 + b'"}']
)
async def test_a_body_that_is_no_click_is_refused(site: Any, body: bytes) -> None:
    async with site.signed_in() as browser:
        answer = await browser.post("/api/clicks", content=body)
    assert answer.status_code == 400
    assert await read_clicks(site) == []


@pytest.mark.slow
async def test_a_click_needs_a_login_our_origin_and_our_header(site: Any) -> None:
    await show_with_token(site)
    async with site.browser() as stranger:
        assert (await click(stranger, BUTTON)).status_code == 401
    async with site.signed_in() as browser:
        body = {"button": BUTTON}
        elsewhere = await browser.post("/api/clicks", json=body, headers={"origin": "https://evil.example"})
        bare = await browser.post("/api/clicks", json=body, headers={"x-gatepost": ""})
    assert (elsewhere.status_code, bare.status_code) == (403, 403)
    assert await read_clicks(site) == []


async def ask_call(site: Any, folder: str = "home", **more: Any) -> str:
    """A call that is held, with a card; the id of the request."""
    message_id, now = await show(site, ASKED, "asked"), site.answerer.clock.now()
    given = {"kind": RequestKind.CALL, "input": ARGUMENTS, "editable": True, "quorum": 1, **more}

    def add(db: Db) -> str:
        request, _ = requests.add(db, NewRequest(name="c/1", folder=folder, expires_at=now + HOUR, **given), now)
        request_cards.add(db, "card-token", request.id, "web:user/owner", "web", HOME, message_id, now)
        return request.id

    found: str = await site.store.write(add)
    return found


async def read_form(browser: httpx2.AsyncClient, token: str = "card-token") -> httpx2.Response:
    return await browser.post("/api/clicks/arguments", json={"token": token})


async def test_the_form_of_a_card_gets_the_arguments_whole_and_numbers_with_all_their_digits(site: Any) -> None:
    async with site.signed_in() as browser:
        await ask_call(site)
        answer = await read_form(browser)

    assert answer.json()["arguments"] == [
        {"name": "text", "label": "text", "value": "a\r\nb" * 900, "text": True},
        {"name": "at", "label": "at", "value": "12345678901234567890", "text": False},
        {"name": "to", "label": "to", "value": '[\n  "é"\n]', "text": False},
    ]


@pytest.mark.parametrize(
    ("more", "status", "why"),
    [
        ({"cut": True}, 400, "cannot be edited"),
        ({"editable": False}, 400, "cannot be edited"),
        ({"quorum": 2}, 400, "cannot be edited"),
        ({"kind": RequestKind.PLAN}, 400, "cannot be edited"),
    ],
)
async def test_what_cannot_be_edited_has_no_form(site: Any, more: dict[str, Any], status: int, why: str) -> None:
    async with site.signed_in() as browser:
        await ask_call(site, **more)
        answer = await read_form(browser)
    assert (answer.status_code, why in answer.json()["error"]["text"]) == (status, True)


async def test_the_form_of_a_card_that_was_decided_says_by_whom(site: Any) -> None:
    async with site.signed_in() as browser:
        request_id, now = await ask_call(site), site.answerer.clock.now()
        denied = (RequestState.DENIED, "no", {}, "web:user/ada", now)
        await site.store.write(requests.record_answer, request_id, *denied)
        answer = await read_form(browser)
        unknown = await read_form(browser, "made-up")
    assert (answer.status_code, unknown.status_code) == (400, 404)
    assert "Denied by web:user/ada: no." in answer.json()["error"]["text"]


async def test_who_may_not_decide_does_not_read_what_is_asked(site: Any) -> None:
    await site.store.write(users.add, ANN, "Ann", site.answerer.clock.now())
    await ask_call(site)
    login = (site.store, site.answerer.clock, site.answerer.hub, site.base, ANN)
    async with site.browser() as browser:
        token = (await make_login_url(*login)).partition("#token=")[2]
        assert (await browser.post("/login", json={"token": token})).status_code == 200
        answer = await read_form(browser)
    assert (answer.status_code, NOT_YOURS in answer.json()["error"]["text"]) == (400, True)
    assert "12345678901234567890" not in answer.text


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "one JSON object"),
        ("{}", "an empty object says nothing"),
        ("[1]", "one JSON object"),
        ('{"text": "' + "x" * 20_000 + '"}', "20000 bytes at most"),
        ("[" * 1000, "one JSON object"),
    ],
)
async def test_other_arguments_that_would_not_be_taken_are_answered_at_once(site: Any, text: str, why: str) -> None:
    async with site.signed_in() as browser:
        await ask_call(site)
        answer = await browser.post("/api/clicks", json={"button": "card-token:changed", "text": text})
    assert (answer.status_code, why in answer.json()["error"]["text"]) == (400, True)
    assert await read_clicks(site) == []


async def test_other_arguments_for_what_cannot_be_edited_are_refused(site: Any) -> None:
    async with site.signed_in() as browser:
        await ask_call(site, quorum=2)
        answer = await browser.post("/api/clicks", json={"button": "card-token:changed", "text": '{"text": "x"}'})
    assert answer.status_code == 400
    assert "2 people must agree" in answer.json()["error"]["text"]
    assert await read_clicks(site) == []


def test_a_card_is_cut_to_what_a_page_shows_and_something_else_is_no_card() -> None:
    huge = Card(title="t", fields=(CardField("n", "v" * (LONGEST_VALUE + 1)),) * (MOST_FIELDS + 1))
    cut = parse_card({"card": to_builtins(huge)})
    assert cut is not None
    assert (len(cut.fields), len(cut.fields[0].value)) == (MOST_FIELDS, LONGEST_VALUE)
    assert [parse_card({"card": wrong}) for wrong in (None, "x", 7, {}, {"title": 7})] == [None] * 5
