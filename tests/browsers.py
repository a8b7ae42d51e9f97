"""Chromium for tests of pages.

To start one costs a second of a processor, another tab less, another page in the same tab a tenth of one.
So the tests of a module share a browser (`browser`), and those that look through one tab share it, too: each
`visit` to their window (`window`) begins without cookies, storage or routes, as in a new one.

Pictures of pages are for people. They are taken where GATEPOST_TEST_PICTURES names a folder, as in `make test-all`.
"""

import os
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from playwright.async_api import (
    Browser,
    BrowserContext,
    ConsoleMessage,
    Error,
    Page,
    async_playwright,
    expect,
)

from gatepost_testing.waiting import PATIENCE_S

# The first is Chromium without what a desktop needs: the same pages for less than half of the work.
PROGRAMS = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
CHROMIUM = next(filter(None, map(shutil.which, PROGRAMS)), None)
WHOLE_CHROMIUM = next(filter(None, map(shutil.which, PROGRAMS[1:])), None)  # with its viewer of PDF files
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--renderer-process-limit=1",
]
WIDTH, HEIGHT = 1180, 760
PHONE_WIDTH, PHONE_HEIGHT = 390, 844
PICTURES = os.environ.get("GATEPOST_TEST_PICTURES", "")
# Counts in `window.troubles` what goes wrong in a page.
COUNT_TROUBLES = """
for (const kind of ["error", "securitypolicyviolation", "unhandledrejection"])
  addEventListener(kind, () => { window.troubles = (window.troubles ?? 0) + 1; });
"""
AUTHENTICATOR = {
    "protocol": "ctap2",
    "transport": "internal",
    "hasResidentKey": True,
    "hasUserVerification": True,
    "isUserVerified": True,
    "automaticPresenceSimulation": True,
}
NOWHERE = "http://127.0.0.1:9/"
FORGET = "() => { localStorage.clear(); sessionStorage.clear(); }"

needs_chromium = pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed: no page is looked at")
expect.set_options(timeout=PATIENCE_S * 1000)  # else 5 s, whatever the context has


@asynccontextmanager
async def start_browser(*flags: str, program: str | None = CHROMIUM) -> AsyncIterator[Browser]:
    if program is None:
        pytest.skip("Chromium is not installed: no page is looked at")
    async with async_playwright() as playwright:
        started = await playwright.chromium.launch(executable_path=program, args=[*FLAGS, *flags])
        yield started
        await started.close()


async def add_context(browser: Browser) -> BrowserContext:
    """A browser of its own to the site: nothing of another's cookies and storage."""
    made = await browser.new_context(
        viewport={"width": WIDTH, "height": HEIGHT}, locale="en-GB", reduced_motion="reduce"
    )
    made.set_default_timeout(PATIENCE_S * 1000)
    await made.add_init_script(COUNT_TROUBLES)
    return made


@asynccontextmanager
async def visit(window: BrowserContext, *, width: int = WIDTH, height: int = HEIGHT) -> AsyncIterator[Page]:
    """A test's turn at a window: its one tab. Whatever the page complains of meanwhile fails the test."""
    complaints: list[str] = []

    def record_error(error: Error) -> None:
        complaints.append(str(error))

    def record_line(line: ConsoleMessage) -> None:
        if "Content Security" in line.text:
            complaints.append(line.text)

    tab = window.pages[0] if window.pages else await window.new_page()
    await tab.bring_to_front()  # else it has no focus after a tab that the test before had opened
    await tab.set_viewport_size({"width": width, "height": height})
    tab.on("pageerror", record_error)
    tab.on("console", record_line)
    try:
        yield tab
    finally:
        tab.remove_listener("pageerror", record_error)
        tab.remove_listener("console", record_line)
        await _clear(window)
    assert complaints == []


async def _clear(window: BrowserContext) -> None:
    """What a test left of cookies, storage, routes and tabs is gone, and one tab shows nothing."""
    await window.unroute_all(behavior="ignoreErrors")
    await window.set_offline(False)
    for tab in window.pages[1:]:
        await tab.close()
    for tab in window.pages:
        await tab.unroute_all(behavior="ignoreErrors")
        await tab.emulate_media(color_scheme="null", reduced_motion="reduce")
        if tab.url.startswith("http"):
            await tab.evaluate(FORGET)
        await _leave(tab)
    await window.clear_cookies()


async def _leave(tab: Page) -> None:
    """A page that goes on asks a gateway that may be gone. An empty one of the same site needs no new process."""
    await tab.route(NOWHERE, lambda route: route.fulfill(body="", content_type="text/html"))
    await tab.goto(NOWHERE)
    await tab.unroute(NOWHERE)


async def take_picture(page: Page, name: str) -> None:
    if PICTURES:
        await page.screenshot(path=Path(PICTURES) / f"{name}.png")


async def take_pictures(page: Page, name: str) -> None:
    """Light, dark, and as a phone shows it, which nothing is too wide for."""
    await page.emulate_media(reduced_motion="reduce")
    await take_picture(page, f"{name}-light")
    await page.emulate_media(color_scheme="dark", reduced_motion="reduce")
    await take_picture(page, f"{name}-dark")
    await page.set_viewport_size({"width": PHONE_WIDTH, "height": PHONE_HEIGHT})
    await take_picture(page, f"{name}-phone")
    assert await page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    await page.set_viewport_size({"width": WIDTH, "height": HEIGHT})
    await page.emulate_media(color_scheme="light")


async def add_authenticator(page: Page) -> None:
    """A device that keeps passkeys and says yes to everything."""
    session = await page.context.new_cdp_session(page)
    await session.send("WebAuthn.enable")
    await session.send("WebAuthn.addVirtualAuthenticator", {"options": AUTHENTICATOR})
