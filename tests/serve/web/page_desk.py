"""The chat page in a browser, for tests of it: how to enter, what to type, where to look."""

from typing import Any

from playwright.async_api import BrowserContext, Locator, Page, expect
from tests.browsers import NOWHERE


async def enter(context: BrowserContext, site: Any) -> Page:
    """In a tab that shows nothing yet, if there is one."""
    unused = [each for each in context.pages if each.url in ("about:blank", NOWHERE)]
    page = unused[0] if unused else await context.new_page()
    await page.goto(f"{site.base}/#token={await site.new_token()}")
    await expect(page.locator(".live.on")).to_be_visible()
    return page


async def write(page: Page, text: str) -> None:
    await page.get_by_label("Message", exact=True).fill(text)
    await page.keyboard.press("Enter")


def reply(page: Page, text: str) -> Locator:
    return page.locator(".message:not(.mine) .body", has_text=text)
