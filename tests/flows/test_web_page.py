"""The whole way in a real browser: the address that `gatepost up` prints, a message, the agent's reply, no reload."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from playwright.async_api import BrowserContext, Page, expect
from tests.browsers import needs_chromium, take_picture, visit

from gatepost_testing.daemon import DaemonProcess

pytestmark = needs_chromium


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[DaemonProcess]:
    with DaemonProcess(tmp_path / "home", sessions_provider="demo") as running:
        yield running


@pytest.fixture
async def page(window: BrowserContext) -> AsyncIterator[Page]:
    async with visit(window) as page:
        yield page


@pytest.mark.slow  # test_page.py shows it on the page, test_chat_page.py and test_card_page.py before a real daemon
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
    await take_picture(page, "web-page")
