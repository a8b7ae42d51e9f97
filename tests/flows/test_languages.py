"""Our own texts in the language of each person, on the page in a real browser."""

import re
from collections.abc import AsyncIterator, Iterator

import pytest
from playwright.async_api import BrowserContext, Page, expect
from tests.browsers import needs_chromium, visit

from gatepost_testing.daemon import DaemonProcess

pytestmark = needs_chromium


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DaemonProcess]:
    with DaemonProcess(tmp_path_factory.mktemp("languages") / "home", sessions_provider="demo") as running:
        yield running


@pytest.fixture
async def page(daemon: DaemonProcess, window: BrowserContext) -> AsyncIterator[Page]:
    async with visit(window) as page:
        await page.goto(daemon.address)
        await page.wait_for_selector("#text")
        yield page


@pytest.mark.page("credentials", "user.language: *")
async def test_a_person_chooses_a_language_and_the_whole_page_changes(page: Page) -> None:
    await page.goto(f"{page.url.partition('#')[0].rstrip('/')}/dashboard/logins")
    await page.get_by_role("button", name="Deutsch").click()
    await expect(page.get_by_role("link", name="Kosten")).to_be_visible()
    assert await page.locator("html").get_attribute("lang") == "de"
    await page.reload()
    await expect(page.get_by_role("heading", name="Sprache")).to_be_visible()
    await page.get_by_role("link", name="Aktivität").click()
    await expect(page.locator(".timeline-list .day").first).to_have_text("Heute")
    first = page.locator(".timeline-list li:not(.day)").last
    await expect(first).to_contain_text("hat sich angemeldet")
    await expect(first.locator("time")).to_have_text(re.compile(r"\d\d?:\d\d"))
    await page.go_back()
    await page.get_by_role("button", name="English").click()
    await expect(page.get_by_role("link", name="Costs")).to_be_visible()
