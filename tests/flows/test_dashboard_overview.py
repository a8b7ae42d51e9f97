"""The first screen in a real browser: it follows what happens without a flicker, and its one button works by keyboard.
One daemon for all: a start is dear."""

from collections.abc import AsyncIterator, Iterator

import pytest
from playwright.async_api import BrowserContext, Page, expect
from tests.browsers import needs_chromium, visit

from gatepost_testing.daemon import DaemonProcess

CARD = "#card-home"
# Counts what is taken out of the page: what is only changed in place stays.
WATCH = """() => {
  window.removed = 0;
  new MutationObserver((found) => found.forEach((each) => each.removedNodes.forEach((node) => {
    if (node.nodeType === Node.ELEMENT_NODE && node.matches("#card-home, header, form.tools")) window.removed += 1;
  }))).observe(document.getElementById("main"), { childList: true, subtree: true });
}"""

pytestmark = needs_chromium


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DaemonProcess]:
    place = tmp_path_factory.mktemp("overview") / "home"
    with DaemonProcess(place, sandbox_kind="process", sessions_provider="scripted") as running:
        yield running


@pytest.fixture
async def page(daemon: DaemonProcess, window: BrowserContext) -> AsyncIterator[Page]:
    """Signed in, on the first screen, which follows what happens."""
    async with visit(window) as page:
        await page.goto(daemon.address)
        await expect(page.locator(".live.on")).to_be_visible()
        await page.goto(page.url.partition("#")[0] + "dashboard/")
        await expect(page.locator("#live.on")).to_be_visible()
        yield page


@pytest.mark.slow
async def test_a_message_appears_on_its_card_in_place_and_focus_stays(daemon: DaemonProcess, page: Page) -> None:
    await expect(page.get_by_role("heading", name="Agents", exact=True)).to_be_visible()
    await expect(page.locator(CARD)).to_be_visible()
    assert daemon.gatepost("group", "add", "acme", "--provider", "demo").returncode == 0
    button = page.locator("#card-acme").get_by_role("button", name="Connect an agent")
    await expect(button).to_be_visible()
    await page.evaluate(WATCH)
    await button.focus()
    assert daemon.gatepost("chat", "-m", "good morning", "--wait").returncode == 0
    await expect(page.locator(f"{CARD} .last")).to_contain_text("echo: good morning")
    await expect(page.locator(f"{CARD} .badge")).to_have_text("Ready")
    await expect(page.locator(f"{CARD} dl")).to_contain_text("awake")
    await expect(button).to_be_focused()
    assert await page.evaluate("window.removed") == 0


@pytest.mark.slow
@pytest.mark.page("overview", "panic.off: Go on")
async def test_a_panic_stands_above_everything_and_is_ended_by_keyboard(daemon: DaemonProcess, page: Page) -> None:
    assert daemon.gatepost("panic", "--reason", "smoke <b>here</b>").returncode == 0
    banner = page.locator(".findings")
    await expect(banner).to_contain_text("smoke <b>here</b>")
    await banner.get_by_role("button", name="Go on").focus()
    await page.keyboard.press("Enter")
    dialog = page.get_by_role("dialog")
    await expect(dialog.get_by_role("heading", name="Go on")).to_be_visible()
    await dialog.locator("button[type=submit]").focus()
    await page.keyboard.press("Enter")
    await expect(page.locator("#toast").get_by_text("Everything goes on.")).to_be_visible()
    await page.keyboard.press("Escape")
    await expect(banner.get_by_text("smoke")).to_have_count(0)
    assert daemon.json("overview")["panic"] is None


@pytest.mark.slow
async def test_what_happened_is_told_in_words_filtered_searched_and_followed_to_its_exact_view(
    daemon: DaemonProcess, page: Page
) -> None:
    assert daemon.gatepost("chat", "-m", "a day at the lake", "--wait").returncode == 0
    await page.get_by_role("link", name="Activity", exact=True).click()
    entries = page.locator(".timeline-list > li:not(.day)")
    await expect(entries.filter(has_text="signed in").first).to_be_visible()
    await page.get_by_label("Kind").select_option("message")
    await expect(entries.filter(has_text="signed in")).to_have_count(0)
    await page.get_by_role("searchbox", name="Search this page").fill("lake")
    await expect(entries).to_have_count(2)
    assert "kind=message" in page.url and "q=lake" in page.url
    await expect(entries.last).to_contain_text("wrote to Home in Terminal")
    await entries.last.get_by_role("link", name="How it went").click()
    await expect(page.locator(".timeline-list")).to_contain_text("The model has it")
    await expect(page.locator("main")).not_to_contain_text("_")
    await page.get_by_role("link", name="See it exactly").click()
    await expect(page.locator("main")).to_contain_text("Its life")


@pytest.mark.slow
async def test_agents_are_searched_and_the_search_is_part_of_the_address(daemon: DaemonProcess, page: Page) -> None:
    assert daemon.gatepost("group", "add", "find-me").returncode == 0
    await page.keyboard.press("/")
    await page.keyboard.type("find-me")
    await expect(page.locator(".agent-cards > li")).to_have_count(1)
    await expect(page.get_by_role("searchbox", name="Search this page")).to_be_focused()
    assert page.url.endswith("?q=find-me")


def test_the_command_says_the_same_as_the_page(daemon: DaemonProcess) -> None:
    said = daemon.gatepost("overview", "--words", "home")
    assert said.returncode == 0 and "home" in said.stdout and "state" in said.stdout
    found = daemon.json("overview", "--part", "attention")
    assert (found["extent"], found["agents"]) == ("all", [])
