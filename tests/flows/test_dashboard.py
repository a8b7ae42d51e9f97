"""The dashboard in a real browser before a real daemon: pages, dialogs, palette, keys, and what changes by itself."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from playwright.async_api import BrowserContext, Page, expect
from tests.browsers import needs_chromium, visit

from gatepost.testing.daemon import DaemonProcess

pytestmark = needs_chromium


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DaemonProcess]:
    home: Path = tmp_path_factory.mktemp("dashboard") / "home"
    with DaemonProcess(home, sandbox_kind="process", sessions_provider="scripted") as running:
        yield running


@pytest.fixture
async def page(daemon: DaemonProcess, window: BrowserContext) -> AsyncIterator[Page]:
    """Signed in as the owner."""
    async with visit(window) as page:
        await page.goto(daemon.address)
        await expect(page.get_by_label("Message", exact=True)).to_be_visible()
        yield page


def address(daemon: DaemonProcess, path: str) -> str:
    return f"{daemon.json('status')['listen'].replace('127.0.0.1', 'http://127.0.0.1')}/dashboard{path}"


async def test_the_palette_reaches_every_operation_and_its_form_runs_it(daemon: DaemonProcess, page: Page) -> None:
    await page.goto(address(daemon, "/groups"))
    await page.keyboard.press("Control+k")
    await page.get_by_role("combobox", name="Find a page or an operation").fill("group add")
    await page.keyboard.press("Enter")
    await expect(page.get_by_role("dialog").get_by_role("heading", name="Group: add")).to_be_visible()
    await page.get_by_label("folder").fill("acme")
    await page.get_by_role("button", name="Do it").click()
    await expect(page.get_by_text("Group added.")).to_be_visible()
    await page.keyboard.press("Escape")
    await expect(page.get_by_role("link", name="acme")).to_be_visible()  # the page has asked again by itself
    assert [each["folder"] for each in daemon.json("group", "list")] == ["acme", "home", "root"]


async def test_a_wrong_argument_is_said_beside_the_form_which_keeps_what_was_typed(
    daemon: DaemonProcess, page: Page
) -> None:
    await page.goto(address(daemon, "/groups"))
    await page.get_by_role("button", name="New group").click()
    await page.get_by_label("folder").fill("../up")
    await page.get_by_role("button", name="Do it").click()
    await expect(page.get_by_role("alert")).to_contain_text("../up")
    await expect(page.get_by_label("folder")).to_have_value("../up")


async def test_a_destructive_button_says_what_it_does_and_asks_once(daemon: DaemonProcess, page: Page) -> None:
    daemon.json("group", "add", "gone")
    await page.goto(address(daemon, "/groups/gone"))
    await page.get_by_role("button", name="Remove").click()
    dialog = page.get_by_role("dialog")
    await expect(dialog.get_by_role("heading", name="Remove", exact=True)).to_be_visible()
    await expect(dialog).to_contain_text("gone")
    await dialog.get_by_role("button", name="Do it").click()
    await expect(dialog.get_by_text("Group removed.")).to_be_visible()
    assert "gone" not in [each["folder"] for each in daemon.json("group", "list")]


async def test_a_search_is_part_of_the_address(daemon: DaemonProcess, page: Page) -> None:
    await page.goto(address(daemon, "/audit"))
    await page.keyboard.press("/")
    await page.keyboard.type("nothing-has-this")
    await expect(page.get_by_text("Nothing here has “nothing-has-this”.")).to_be_visible()
    assert page.url.endswith("?q=nothing-has-this")
    await page.reload()
    await expect(page.get_by_text("Nothing here has “nothing-has-this”.")).to_be_visible()


async def test_a_page_follows_what_happens_elsewhere(daemon: DaemonProcess, page: Page) -> None:
    daemon.gatepost("chat", "-m", "hello", "--wait")
    await page.goto(address(daemon, "/tasks"))
    await expect(page.get_by_text("Live", exact=True)).to_be_attached()
    daemon.gatepost("task", "add", "home", "--text", "Stand-up <b>now</b>", "--every", "1h")
    await expect(page.get_by_text("Stand-up <b>now</b>").first).to_be_visible()
    await page.get_by_role("button", name="Pause").click()
    await expect(page.get_by_role("button", name="Resume")).to_be_visible()
    assert [each["state"] for each in daemon.json("task", "list")] == ["paused"]


async def test_a_phone_has_the_navigation_behind_a_button(daemon: DaemonProcess, page: Page) -> None:
    await page.set_viewport_size({"width": 390, "height": 844})
    await page.goto(address(daemon, "/tasks"))
    await expect(page.get_by_role("link", name="Routes")).to_be_hidden()
    await page.get_by_role("button", name="Pages").click()
    await page.get_by_role("link", name="Routes").click()
    await expect(page.get_by_role("heading", name="Routes")).to_be_visible()
    wide = await page.evaluate("document.documentElement.scrollWidth > document.documentElement.clientWidth")
    assert not wide
