"""The chat page before a real daemon: the stop button ends a busy agent, and the head says who answers and what it
cost."""

import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from playwright.async_api import BrowserContext, Page, expect
from tests.browsers import needs_chromium, visit

from gatepost.core.home import Home
from gatepost.serve.web.static_pages import STATIC
from gatepost_testing.daemon import DaemonProcess
from gatepost_testing.provider import ScriptBuilder

pytestmark = needs_chromium


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DaemonProcess]:
    home: Path = tmp_path_factory.mktemp("chat") / "home"
    script = ScriptBuilder().turn("dig").status("digging").hang().turn("hello").say("hi there")
    script = script.turn("wave").say("waved back").turn("flag").say("flag is up")
    script = script.turn("look around").call("refresh_groups").wait_for("go").call("refresh_groups").say("seen all")
    script = script.turn("bake").status("kneading").wait(0.5).status("baking").wait(0.5).status("cooling").say("bread")
    with DaemonProcess(home, sandbox_kind="process", sessions_provider="scripted") as running:
        script.write(Home(home).group("home")).chmod(0o644)
        yield running


@pytest.fixture
async def page(daemon: DaemonProcess, window: BrowserContext) -> AsyncIterator[Page]:
    """Signed in as the owner."""
    async with visit(window) as page:
        await page.goto(daemon.address)
        await expect(page.locator(".live.on")).to_be_visible()
        yield page


async def write(page: Page, text: str) -> None:
    await page.get_by_label("Message", exact=True).fill(text)
    await page.keyboard.press("Enter")


@pytest.mark.slow
async def test_the_stop_button_ends_a_busy_agent_and_what_follows_is_answered(
    daemon: DaemonProcess, page: Page
) -> None:
    await write(page, "dig")
    await expect(page.locator("#typing")).to_contain_text("Working on it")

    pressed = time.monotonic()
    await page.get_by_role("button", name="Stop the agent").click()

    await expect(page.locator(".message.notice .body", has_text="Stopped")).to_be_visible()
    print(f"the agent was stopped {(time.monotonic() - pressed) * 1000:.0f} ms after the button was pressed")  # noqa: T201
    await expect(page.get_by_role("button", name="Stop the agent")).to_be_hidden()
    rows = {row["text"]: row for row in daemon.json("ledger", "list") if row["direction"] == "in"}
    assert rows["dig"]["state"] == "cancelled"
    assert rows["/stop"]["state"] == "answered"
    await write(page, "hello")
    await expect(page.locator(".message:not(.mine) .body", has_text="hi there")).to_be_visible()
    assert daemon.json("ledger", "check")["unaccounted"] == 0


async def test_the_head_names_the_agent_its_provider_its_model_and_what_it_cost(
    daemon: DaemonProcess, page: Page
) -> None:
    facts = page.get_by_role("list", name="Who answers here").get_by_role("listitem")
    await expect(facts).to_have_count(1)
    await expect(facts.locator(".fact")).to_have_text(["Provider: scripted", "Cost so far: $0.00"])
    daemon.json("group", "set", "home", "model=deep-thought")
    await page.reload()
    await expect(facts.locator(".fact").nth(1)).to_have_text("Model: deep-thought")


@pytest.mark.slow
async def test_a_message_without_an_answer_says_why_and_its_button_helps(daemon: DaemonProcess, page: Page) -> None:
    assert daemon.gatepost("group", "rest", "home").returncode == 0
    await write(page, "hello again")
    why = page.locator(".message.mine", has_text="hello again").last.locator(".why")
    await expect(why).to_contain_text("is at rest. It is kept.", timeout=15_000)
    assert daemon.gatepost("group", "wake", "home").returncode == 0
    assert daemon.gatepost("panic").returncode == 0
    await write(page, "hello once more")
    why = page.locator(".message.mine", has_text="hello once more").last.locator(".why")
    await expect(why).to_contain_text("Everything is stopped here. It is kept.", timeout=15_000)
    await why.get_by_role("button", name="Go on").press("Enter")
    await expect(page.locator(".message:not(.mine) .body", has_text="hi there").last).to_be_visible()
    await expect(page.locator(".why")).to_have_count(0)
    assert daemon.json("overview")["panic"] is None


@pytest.mark.slow
async def test_another_agent_is_picked_for_a_conversation_and_answers_in_it(daemon: DaemonProcess, page: Page) -> None:
    await expect(page.get_by_label("Agent that answers here")).to_be_hidden()
    daemon.json("group", "add", "home/garden")
    await page.get_by_role("button", name="New conversation").click()
    pick = page.get_by_label("Agent that answers here")
    await expect(pick).to_have_value("home")

    await pick.select_option("home/garden")

    await expect(page.get_by_role("list", name="Who answers here")).to_contain_text("garden")
    await write(page, "water the roses")
    await expect(page.locator(".message:not(.mine) .body", has_text="echo: water the roses")).to_be_visible()
    rows = {row["text"]: row for row in daemon.json("ledger", "list") if row["direction"] == "in"}
    assert rows["water the roses"]["folder"] == "home/garden"


@pytest.mark.slow
async def test_the_steps_of_an_agent_are_folded_into_one_line(page: Page) -> None:
    await page.get_by_role("button", name="New conversation").click()
    await write(page, "bake")
    await expect(page.locator(".message:not(.mine) .body", has_text="bread")).to_be_visible()

    steps = page.locator(".message.notice .steps")
    await expect(steps.locator("summary")).to_have_text("cooling3 steps")
    await expect(steps.get_by_role("listitem").first).to_be_hidden()
    await steps.locator("summary").press("Enter")
    await expect(steps.get_by_role("listitem")).to_have_text(["kneading", "baking", "cooling"])


@pytest.mark.slow
async def test_the_tools_that_a_turn_uses_are_one_line_which_grows_and_opens(daemon: DaemonProcess, page: Page) -> None:
    await page.get_by_role("button", name="New conversation").click()
    await write(page, "look around")
    await expect(page.locator("#doing summary")).to_have_text("Used 1 tool")
    (Home(daemon.home).group("home") / "go").touch()

    await expect(page.locator(".message:not(.mine) .body", has_text="seen all")).to_be_visible()
    used = page.locator(".message .work")
    await expect(used.locator("summary")).to_have_text("Used 2 tools")
    await expect(page.locator("#doing summary")).to_have_count(0)
    await expect(used.get_by_role("listitem").first).to_be_hidden()
    await used.locator("summary").press("Enter")
    await expect(used.locator("li b")).to_have_text(["refresh_groups", "refresh_groups"])
    await page.reload()
    await page.get_by_role("button", name="look around").click()
    await expect(used.locator("summary")).to_have_text("Used 2 tools")


@pytest.mark.slow
async def test_a_message_is_pinned_by_keys_found_above_the_room_and_unpinned(page: Page) -> None:
    await write(page, "raise the flag")
    answer = page.locator(".message:not(.mine)", has_text="flag is up").last
    pins = page.locator("#pins")
    await expect(answer).to_be_visible()
    await expect(pins).to_be_hidden()
    await answer.get_by_label("Pin", exact=True).press("Enter")
    await expect(pins.locator("summary")).to_have_text("1 pinned")
    await expect(answer.get_by_label("Unpin", exact=True)).to_be_focused()
    for on in (False, True):  # by somebody else, who has the same room open
        await page.evaluate(
            """async (on) => (await import("/static/wire.js")).ask("/api/pins", {
                method: "POST", headers: { "content-type": "application/json" },
                body: JSON.stringify({ room: "web:home", message: Number(document.querySelector(
                  ".message:not(.mine):last-of-type")?.dataset.id), on }) })""",
            on,
        )
        await expect(pins).to_be_visible(visible=on)
    await page.get_by_role("button", name="New conversation").click()
    await page.reload()
    await expect(pins).to_be_visible()
    await pins.locator("summary").press("Enter")
    await pins.get_by_role("button", name="flag is up").first.press("Enter")
    await expect(page.locator(".message.found, .message:focus")).to_contain_text("flag is up")
    await pins.locator("summary").press("Enter")
    await pins.get_by_label("Unpin: flag is up").press("Enter")
    await expect(pins).to_be_hidden()


@pytest.mark.slow  # looks alone: that files arrive and are served is in tests/serve/web
async def test_pictures_are_seen_large_one_after_another_by_keys(page: Page) -> None:
    await page.get_by_role("button", name="New conversation").click()
    await page.locator("#picker").set_input_files([STATIC / "icon-192.png", STATIC / "icon-512.png"])
    await write(page, "two pictures")
    pictures = page.locator("#message-list a.picture")
    await expect(pictures).to_have_count(2)

    await pictures.first.press("Enter")

    large = page.get_by_role("dialog", name="Picture")
    await expect(large).to_contain_text("icon-192.png (1 of 2)")
    await page.keyboard.press("ArrowRight")
    await page.keyboard.press("ArrowRight")
    await expect(large).to_contain_text("icon-512.png (2 of 2)")
    await expect(large.get_by_role("img")).to_have_js_property("naturalWidth", 512)
    await page.keyboard.press("Escape")
    await expect(large).to_be_hidden()
    await expect(pictures.last).to_be_focused()


@pytest.mark.slow  # test_page.py shows reactions, test_chat.py keeps them
async def test_a_reaction_stands_below_what_it_is_about_also_after_a_reload(page: Page) -> None:
    await write(page, "wave")  # no other test does: an older answer would be the last one until this comes
    answer = page.locator(".message:not(.mine)", has_text="waved back").last
    await answer.hover()
    await answer.get_by_label("React", exact=True).click()
    await answer.get_by_role("button", name="React with 🎉").click()
    await expect(answer.locator(".reactions span")).to_have_text("🎉")
    await page.reload()
    await expect(answer.locator(".reactions span")).to_have_text("🎉")
    await expect(page.locator(".message.mine", has_text="🎉")).to_have_count(0)
