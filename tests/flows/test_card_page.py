"""A card on the chat page in a real browser: an agent's call is held, the owner is asked there and decides there."""

import re
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from playwright.async_api import BrowserContext, Locator, Page, Route, expect
from tests.browsers import needs_chromium, take_picture, take_pictures, visit

from gatepost.core.home import Home
from gatepost_testing.daemon import DaemonProcess
from gatepost_testing.provider import ScriptBuilder

PLAN = "The release goes out on Friday at noon. Please check the notes before then."
CHANGED_PLAN = "The release goes out on **Saturday** at noon.\nThe notes are checked."
HOSTILE = "<img src=x onerror=alert(1)>"
REPORT = {
    "title": f"Build {HOSTILE}",
    "text": f"It **passed**. {HOSTILE}",
    "fields": [{"name": "tests", "value": "2000"}, {"name": HOSTILE, "value": HOSTILE}],
    "buttons": [{"label": "Log", "url": "https://ci.example/7"}],
}

QUESTIONS = [
    {
        "question": f"Which **drink**? {HOSTILE}",
        "header": "Drink",
        "options": [{"label": "Tea", "description": HOSTILE}, {"label": HOSTILE}],
    },
    {"question": "With?", "options": [{"label": "Milk"}, {"label": "Sugar"}, {"label": "Cake"}], "multiSelect": True},
    {"question": "Where?", "options": [{"label": "Here"}, {"label": "There"}], "freeText": True},
]

pytestmark = needs_chromium


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[DaemonProcess]:
    """The agent may send only what somebody allows."""
    running = DaemonProcess(tmp_path / "home", sandbox_kind="process", sessions_provider="scripted")
    script = ScriptBuilder().turn("go").call("send", text=PLAN).say("asked").turn("hello").say("hi")
    script = script.turn("report").call("send_card", **REPORT).say("done")
    script = script.turn("ask me").call("ask_user_question", questions=QUESTIONS).say("They said {result}")
    with running:
        script.write(Home(running.home).group("home")).chmod(0o644)
        assert running.gatepost("grant", "add", "home", "hold send").returncode == 0
        yield running


@pytest.fixture
async def page(window: BrowserContext) -> AsyncIterator[Page]:
    async with visit(window) as page:
        yield page


async def write(page: Page, text: str) -> None:
    await page.get_by_label("Message", exact=True).fill(text)
    await page.keyboard.press("Enter")


def said(page: Page, text: str) -> Locator:
    return page.locator(".message:not(.mine) > .body", has_text=text)


async def ask(daemon: DaemonProcess, page: Page) -> Locator:
    """The owner writes, so that they can be reached; the agent asks. Return the card."""
    await page.goto(daemon.address)
    await expect(page.locator(".live.on")).to_be_visible()
    await write(page, "hello")
    await expect(said(page, "hi")).to_be_visible()
    await write(page, "go")
    card = page.get_by_role("region", name=re.compile("wants to send"))
    await expect(card).to_be_visible()
    await expect(said(page, "asked")).to_be_visible()
    return card


@pytest.mark.slow
async def test_the_owner_allows_a_held_call_by_its_button_and_the_card_says_who_decided(
    daemon: DaemonProcess, page: Page
) -> None:
    card = await ask(daemon, page)
    await expect(card.locator("dd", has_text=PLAN)).to_be_visible()
    await expect(card.get_by_role("button")).to_have_text(
        ["Allow once", "Allow in this conversation", "Always allow", "Deny", "Change…"]
    )
    assert await said(page, PLAN).count() == 0
    await take_pictures(page, "web-card")

    await card.get_by_role("button", name="Allow once").click()

    await expect(said(page, PLAN)).to_be_visible()
    await expect(card.locator(".card-done")).to_have_text("Allowed by Owner.")
    await expect(card.get_by_role("button")).to_have_count(0)
    await expect(page.locator("#typing")).to_be_hidden()
    await expect(page.locator(".message.mine")).to_have_count(2)  # a click is no message
    await take_pictures(page, "web-card-decided")
    await page.reload()
    await expect(card.locator(".card-done")).to_have_text("Allowed by Owner.")
    await expect(card.get_by_role("button")).to_have_count(0)
    await expect(said(page, PLAN)).to_have_count(1)
    assert not await page.evaluate("window.troubles")
    assert daemon.json("ledger", "check")["unaccounted"] == 0


@pytest.mark.slow
async def test_a_card_is_decided_from_the_keyboard_and_its_buttons_rest_while_that_is_sent(
    daemon: DaemonProcess, page: Page
) -> None:
    card = await ask(daemon, page)
    deny = card.get_by_role("button", name="Deny")
    await card.get_by_role("button", name="Always allow").focus()
    await page.keyboard.press("Tab")
    await expect(deny).to_be_focused()
    disabled: list[int] = []

    async def look(route: Route) -> None:
        disabled.append(await card.locator("button:disabled").count())
        await route.continue_()

    await page.route("**/api/clicks", look)
    await page.keyboard.press("Enter")

    await expect(card.locator(".card-done")).to_have_text("Denied by Owner.")
    assert disabled == [5]
    await expect(card).to_be_focused()
    assert await said(page, PLAN).count() == 0


@pytest.mark.slow
async def test_the_owner_changes_what_is_asked_and_that_is_what_is_sent(daemon: DaemonProcess, page: Page) -> None:
    card = await ask(daemon, page)
    change = card.get_by_role("button", name="Change…")
    await change.click()
    field = card.get_by_label("text", exact=True)
    await expect(field).to_be_focused()
    await expect(field).to_have_value(PLAN)
    await expect(card.get_by_role("button")).to_have_text(["Allow with changes", "Cancel"])
    await card.get_by_role("button", name="Cancel").click()
    await expect(field).to_have_count(0)
    await expect(change).to_be_focused()

    await change.click()
    await field.fill("x" * 20_001)
    await card.get_by_role("button", name="Allow with changes").click()
    await expect(card.locator(".bad")).to_contain_text("other arguments may have 20000 bytes at most")
    await expect(field).to_have_value("x" * 20_001)  # nothing that was written is lost
    assert await said(page, PLAN).count() == 0

    await field.fill(CHANGED_PLAN)
    await take_pictures(page, "web-card-change")
    await card.get_by_role("button", name="Allow with changes").click()

    await expect(card.locator(".card-done")).to_have_text("Allowed with changes by Owner.")
    await expect(said(page, "Saturday")).to_have_count(1)
    await expect(card.locator("textarea")).to_have_count(0)
    assert await said(page, PLAN).count() == 0
    assert not await page.evaluate("window.troubles")
    assert daemon.json("ledger", "check")["unaccounted"] == 0


@pytest.mark.slow
async def test_what_is_no_text_is_changed_as_json_and_the_rest_stays_as_it_was(
    daemon: DaemonProcess, page: Page
) -> None:
    assert daemon.gatepost("grant", "add", "home", "hold send_card").returncode == 0
    await page.goto(daemon.address)
    await expect(page.locator(".live.on")).to_be_visible()
    await write(page, "hello")
    await expect(said(page, "hi")).to_be_visible()
    await write(page, "report")
    card = page.get_by_role("region", name=re.compile("wants to send a card"))
    await card.get_by_role("button", name="Change…").click()
    fields, buttons = card.get_by_label("fields"), card.get_by_label("buttons")
    await fields.fill('[{"name": "tests", ')
    await card.get_by_role("button", name="Allow with changes").click()
    assert "This is no JSON" in await fields.evaluate("area => area.validationMessage")
    await expect(card.get_by_role("button", name="Allow with changes")).to_be_enabled()

    await fields.fill('[{"name": "tests", "value": "2001"}]')
    await buttons.fill("")
    await take_pictures(page, "web-card-change-json")
    await card.get_by_role("button", name="Allow with changes").click()

    await expect(card.locator(".card-done")).to_have_text("Allowed with changes by Owner.")
    report = page.get_by_role("region", name=f"Build {HOSTILE}")
    await expect(report.locator("dd")).to_have_text(["2001"])
    await expect(report.locator("strong")).to_have_text("passed")
    await expect(report.get_by_role("link")).to_have_count(0)
    assert await page.locator(".card img").count() == 0
    assert not await page.evaluate("window.troubles")


@pytest.mark.slow
async def test_a_click_that_the_gateway_cannot_place_is_said_on_the_card(daemon: DaemonProcess, page: Page) -> None:
    card = await ask(daemon, page)
    await page.route("**/api/clicks", lambda route: route.continue_(post_data='{"button": "made-up:0"}'))

    await card.get_by_role("button", name="Allow once").click()

    await expect(card.locator(".bad")).to_have_text("Not decided: This button is not known any more.")
    await expect(card.locator("button:enabled")).to_have_count(5)
    assert await said(page, PLAN).count() == 0


@pytest.mark.slow
async def test_a_card_that_is_decided_elsewhere_says_so_without_a_reload(daemon: DaemonProcess, page: Page) -> None:
    card = await ask(daemon, page)
    details = await card.locator("dd").last.text_content()
    assert details is not None
    request_id = details.split()[0]

    said = daemon.gatepost("chat", "-m", f"/deny {request_id} not now", "--wait")

    assert said.stdout == "Denied by Owner: not now.\n"
    await expect(card.locator(".card-done")).to_have_text("Denied by Owner: not now.")
    await expect(card.get_by_role("button")).to_have_count(0)


@pytest.mark.slow
async def test_an_agents_card_is_for_reading_and_its_words_are_text(daemon: DaemonProcess, page: Page) -> None:
    await page.goto(daemon.address)
    await expect(page.locator(".live.on")).to_be_visible()
    await write(page, "report")

    card = page.get_by_role("region", name=f"Build {HOSTILE}")
    await expect(card).to_be_visible()
    await expect(card.locator("strong")).to_have_text("passed")
    await expect(card.locator("dt")).to_have_text(["tests", HOSTILE])
    await expect(card.locator("dd")).to_have_text(["2000", HOSTILE])
    await expect(card.get_by_role("link", name="Log")).to_have_attribute("href", "https://ci.example/7")
    await expect(card.get_by_role("button")).to_have_count(0)
    await expect(page.locator(".message", has=card).locator(".who b")).to_have_text("Home")
    assert await card.locator("img").count() == 0
    assert not await page.evaluate("window.troubles")
    await take_picture(page, "web-card-agent")


@pytest.mark.slow
async def test_questions_are_answered_by_a_button_by_boxes_and_in_ones_own_words(
    daemon: DaemonProcess, page: Page
) -> None:
    await page.goto(daemon.address)
    await expect(page.locator(".live.on")).to_be_visible()
    await write(page, "ask me")

    first = page.get_by_role("region", name=re.compile("question 1 of 3"))
    await expect(first.get_by_role("button")).to_have_text([f"Tea{HOSTILE}", HOSTILE])
    await expect(first).to_contain_text("**drink**")  # marks are words
    assert await first.locator("strong").count() == 0
    await first.get_by_role("button", name="Tea").click()
    await expect(first.locator(".card-done")).to_have_text("Answered by Owner: Tea.")

    second = page.get_by_role("region", name=re.compile("question 2 of 3"))
    send = second.get_by_role("button", name="Send")
    await expect(send).to_be_disabled()
    await second.get_by_label("Cake").check()
    await second.get_by_label("Milk").check()
    await take_pictures(page, "web-question")
    await send.click()
    await expect(second.locator(".card-done")).to_have_text("Answered by Owner: Milk, Cake.")

    third = page.get_by_role("region", name=re.compile("question 3 of 3"))
    await third.get_by_label("Your answer").fill("In the garden")
    await page.keyboard.press("Enter")
    await expect(third.locator(".card-done")).to_have_text("Answered by Owner: In the garden.")
    await expect(said(page, "They said")).to_contain_text("In the garden")
    await expect(page.locator(".message.mine")).to_have_count(1)  # an answer is no message
    assert await page.locator(".card img").count() == 0
    assert not await page.evaluate("window.troubles")
    assert daemon.json("ledger", "check")["unaccounted"] == 0
