"""The whole way in a real browser: the address that `gatepost up` prints, a message, the agent's reply, no reload."""

import shutil
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from playwright.async_api import Page, async_playwright, expect

from gatepost.testing.daemon import DaemonProcess
from gatepost.testing.waiting import PATIENCE_S

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
ARTIFACTS = Path(__file__).parents[1] / "artifacts"
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking"]
expect.set_options(timeout=PATIENCE_S * 1000)  # else 5 s, whatever the context has

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed: the page is not looked at")


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[DaemonProcess]:
    with DaemonProcess(tmp_path / "home", sessions_provider="demo") as running:
        yield running


@pytest.fixture
async def page() -> AsyncIterator[Page]:
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        context = await browser.new_context(viewport={"width": 1180, "height": 760}, locale="en-GB")
        context.set_default_timeout(PATIENCE_S * 1000)
        yield await context.new_page()
        await browser.close()


async def test_a_message_is_sent_and_the_agents_reply_appears_without_a_reload(
    daemon: DaemonProcess, page: Page
) -> None:
    await page.goto(daemon.address)
    await expect(page.locator(".live.on")).to_be_visible()
    await page.evaluate("window.neverReloaded = true")

    await page.get_by_label("Message", exact=True).fill("note buy milk")
    await page.keyboard.press("Enter")

    replies = page.locator(".message:not(.mine) .body")
    await expect(replies.filter(has_text="Noted").first).to_be_visible()
    await expect(page.locator(".message.mine")).to_have_count(1)
    await expect(page.locator("#typing")).to_be_hidden()
    assert await page.evaluate("window.neverReloaded")
    assert "token" not in page.url
    assert daemon.json("ledger", "check")["unaccounted"] == 0
    ARTIFACTS.mkdir(exist_ok=True)
    await page.screenshot(path=ARTIFACTS / "web-page.png")
