"""The chat page in a browser, for tests of it: how to enter, what to type, where to look."""

from pathlib import Path
from typing import Any

from playwright.async_api import BrowserContext, Locator, Page, expect

ARTIFACTS = Path(__file__).parents[2] / "artifacts"


async def enter(context: BrowserContext, site: Any) -> Page:
    """In a tab that shows nothing yet, if there is one."""
    unused = [each for each in context.pages if each.url == "about:blank"]
    page = unused[0] if unused else await context.new_page()
    await page.goto(f"{site.base}/#token={await site.new_token()}")
    await expect(page.locator(".live.on")).to_be_visible()
    return page


async def write(page: Page, text: str) -> None:
    await page.get_by_label("Message", exact=True).fill(text)
    await page.keyboard.press("Enter")


def reply(page: Page, text: str) -> Locator:
    return page.locator(".message:not(.mine) .body", has_text=text)


async def take_pictures(page: Page, name: str) -> None:
    """Light, dark, and as a phone shows it."""
    ARTIFACTS.mkdir(exist_ok=True)
    await page.emulate_media(reduced_motion="reduce")
    await page.screenshot(path=ARTIFACTS / f"{name}-light.png")
    await page.emulate_media(color_scheme="dark", reduced_motion="reduce")
    await page.screenshot(path=ARTIFACTS / f"{name}-dark.png")
    await page.set_viewport_size({"width": 390, "height": 844})
    await page.screenshot(path=ARTIFACTS / f"{name}-phone.png")
    assert await page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    await page.set_viewport_size({"width": 1180, "height": 760})
    await page.emulate_media(color_scheme="light")
