"""The dashboard in a real browser before a real daemon: pages, dialogs, palette, keys, and what changes by itself."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from playwright.async_api import BrowserContext, Page, expect
from tests.browsers import needs_chromium, visit

from gatepost_testing.daemon import DaemonProcess

pytestmark = needs_chromium
PRESSES_AT_ONCE = """
addEventListener("load", () => document.body.dispatchEvent(
  new KeyboardEvent("keydown", { key: "k", ctrlKey: true, bubbles: true })));
"""


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


@pytest.mark.slow
async def test_the_palette_reaches_every_operation_and_its_form_runs_it(daemon: DaemonProcess, page: Page) -> None:
    await page.goto(address(daemon, "/groups"))
    await page.keyboard.press("Control+k")
    await page.get_by_role("combobox", name="Find a page or something to do").fill("group add")
    await page.keyboard.press("Enter")
    await expect(page.get_by_role("dialog").get_by_role("heading", name="Agent: add")).to_be_visible()
    await page.locator("[name=folder]").fill("acme")
    await page.locator("#dialog button[type=submit]").click()
    await expect(page.locator("#toast")).to_contain_text("The agent acme is made.")
    await page.keyboard.press("Escape")
    await expect(page.get_by_role("link", name="acme")).to_be_visible()  # the page has asked again by itself
    assert [each["folder"] for each in daemon.json("group", "list")] == ["acme", "home", "root"]


async def test_a_key_pressed_in_the_moment_that_the_page_is_there_opens_a_filled_palette(
    daemon: DaemonProcess, page: Page
) -> None:
    tab = await page.context.new_page()  # of its own: the script stays in it
    await tab.add_init_script(PRESSES_AT_ONCE)
    await tab.goto(address(daemon, "/groups"))
    await expect(tab.get_by_role("combobox", name="Find a page or something to do")).to_be_visible()


@pytest.mark.slow
async def test_what_is_shown_once_is_copied_by_a_button(daemon: DaemonProcess, page: Page) -> None:
    await page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    await page.goto(address(daemon, "/api"))
    await page.get_by_role("button", name="New token").first.click()
    dialog = page.get_by_role("dialog")
    await dialog.get_by_label("Scopes").fill("status.read")
    await dialog.locator("button[type=submit]").click()
    await expect(dialog.get_by_text("The token is made.")).to_be_visible()
    await expect(dialog.get_by_text("It is shown only this once")).to_be_visible()
    await dialog.get_by_role("button", name="Copy").press("Enter")
    await expect(dialog.get_by_role("button", name="Copied")).to_be_visible()
    copied = str(await page.evaluate("navigator.clipboard.readText()"))
    assert copied.startswith("gp_api_") and copied == await dialog.get_by_label("The token").inner_text()
    await page.context.clear_permissions()


@pytest.mark.slow
async def test_a_wrong_path_leads_back_by_its_link_and_by_the_palette(daemon: DaemonProcess, page: Page) -> None:
    await page.goto(address(daemon, "/no/such/page"))
    await expect(page.get_by_role("heading", name="Not found")).to_be_visible()
    await page.keyboard.press("Control+k")
    await page.get_by_role("combobox", name="Find a page or something to do").fill("/tasks")
    await page.keyboard.press("Enter")
    await expect(page.get_by_role("heading", name="Tasks")).to_be_visible()
    await page.go_back()
    await page.get_by_role("link", name="Back to the agents").click()
    await expect(page.get_by_role("heading", name="Agents")).to_be_visible()


@pytest.mark.slow
@pytest.mark.page("settings", "settings.unset: Remove it")
async def test_a_setting_is_removed_after_its_change_was_seen(daemon: DaemonProcess, page: Page) -> None:
    daemon.json("settings", "set", "log.level", "debug")
    await page.goto(address(daemon, "/settings/log.level"))
    await page.get_by_role("link", name="Back to the default").click()
    await expect(page.locator(".diff .removed")).to_have_text('-level = "debug"')
    await page.get_by_role("button", name="Remove it").press("Enter")
    await expect(page.get_by_text("The setting is removed.")).to_be_visible()
    assert "debug" not in (daemon.home / "gatepost.toml").read_text()


@pytest.mark.slow
async def test_a_wrong_argument_is_said_beside_the_form_which_keeps_what_was_typed(
    daemon: DaemonProcess, page: Page
) -> None:
    await page.goto(address(daemon, "/groups"))
    await page.get_by_role("button", name="New agent").click()
    await page.locator("[name=folder]").fill("../up")
    await page.locator("#dialog button[type=submit]").click()
    await expect(page.get_by_role("alert")).to_contain_text("../up")
    await expect(page.locator("[name=folder]")).to_have_value("../up")


@pytest.mark.slow
async def test_a_destructive_button_says_what_it_does_and_asks_once(daemon: DaemonProcess, page: Page) -> None:
    daemon.json("group", "add", "gone")
    await page.goto(address(daemon, "/groups/gone"))
    await page.get_by_role("button", name="Remove").click()
    dialog = page.get_by_role("dialog")
    await expect(dialog.get_by_role("heading", name="Remove", exact=True)).to_be_visible()
    await expect(dialog).to_contain_text("gone")
    await dialog.locator("button[type=submit]").click()
    await expect(page.locator("#toast [data-done='group.rm']")).to_be_visible()
    assert "gone" not in [each["folder"] for each in daemon.json("group", "list")]


@pytest.mark.slow
async def test_a_search_is_part_of_the_address(daemon: DaemonProcess, page: Page) -> None:
    await page.goto(address(daemon, "/audit"))
    await page.keyboard.press("/")
    await page.keyboard.type("nothing-has-this")
    await expect(page.get_by_text("Nothing here has “nothing-has-this”.")).to_be_visible()
    assert page.url.endswith("?q=nothing-has-this")
    await page.reload()
    await expect(page.get_by_text("Nothing here has “nothing-has-this”.")).to_be_visible()


@pytest.mark.slow
async def test_a_page_follows_what_happens_elsewhere(daemon: DaemonProcess, page: Page) -> None:
    daemon.gatepost("chat", "-m", "hello", "--wait")
    await page.goto(address(daemon, "/tasks"))
    await expect(page.get_by_text("Live", exact=True)).to_be_attached()
    daemon.gatepost("task", "add", "home", "--text", "Stand-up <b>now</b>", "--every", "1h")
    await expect(page.get_by_text("Stand-up <b>now</b>").first).to_be_visible()
    await page.get_by_role("button", name="Pause").click()
    await expect(page.get_by_role("button", name="Resume")).to_be_visible()
    assert [each["state"] for each in daemon.json("task", "list")] == ["paused"]


@pytest.mark.slow
async def test_a_phone_has_the_navigation_behind_a_button(daemon: DaemonProcess, page: Page) -> None:
    await page.set_viewport_size({"width": 390, "height": 844})
    await page.goto(address(daemon, "/tasks"))
    await expect(page.get_by_role("link", name="Channels")).to_be_hidden()
    await page.get_by_role("button", name="Pages").click()
    await page.get_by_role("link", name="Channels").click()
    await page.get_by_role("link", name="Routes").click()
    await expect(page.get_by_role("heading", name="Routes")).to_be_visible()
    wide = await page.evaluate("document.documentElement.scrollWidth > document.documentElement.clientWidth")
    assert not wide
