"""Every button of every page is reached and pressed by keyboard: it runs its operation, or asks in a dialog first.

Operations answer with made-up rows here, so that each page has all that it can have, and pressing changes nothing.
"""

from pathlib import Path

import pytest
from playwright.async_api import BrowserContext, Locator, Page, expect
from tests.browsers import needs_chromium, visit

from gatepost.store.engine.sqlite_store import SqliteStore

from .page_desk import PageSite, serve_pages

BUTTONS = "main button.button[hx-get], main button.button[hx-post]"

pytestmark = [pytest.mark.slow, needs_chromium]


async def press(button: Locator) -> None:
    await button.focus()
    await expect(button).to_be_focused()
    await button.press("Enter")


async def press_asking(page: Page, button: Locator) -> str:
    """Return what is wrong with it; '' if it asks, and Escape takes it back."""
    await press(button)
    dialog = page.locator("#dialog")
    await expect(dialog.locator("form.operation, .note-line")).to_have_count(1)
    refused = await dialog.locator(".note-line.bad").count()
    has_button = await dialog.locator("form.operation button[type=submit]").count()
    await page.keyboard.press("Escape")
    await expect(dialog).to_be_hidden()
    return "" if has_button and not refused else "does not ask"


async def press_running(page: Page, button: Locator) -> str:
    """Return what is wrong with it; '' if its operation was run."""
    await page.evaluate("document.getElementById('toast').replaceChildren()")
    await press(button)
    told = page.locator("#toast .note-line")
    await expect(told).to_have_count(1)
    return await told.inner_text() if await page.locator("#toast .note-line.bad").count() else ""


async def press_all(page: Page, site: PageSite, address: str) -> tuple[set[str], list[str]]:
    """The labels of one page's buttons, one of each, and what is wrong."""
    await page.goto(address)
    await page.wait_for_function("window.htmx !== undefined")
    buttons, pressed, wrong = page.locator(BUTTONS), set[str](), list[str]()
    for index in range(await buttons.count()):
        button = buttons.nth(index)
        label, asked = (await button.inner_text()).strip(), await button.get_attribute("hx-get")
        runs = asked or await button.get_attribute("hx-post") or ""
        if label in pressed or site.text in runs.partition("?")[0]:  # an answer names the operation, and is made up
            continue
        if runs.endswith("/user.view"):  # it leads away, to the page as somebody else sees it
            continue
        pressed.add(label)
        trouble = await (press_asking(page, button) if asked else press_running(page, button))
        wrong += [f"{address.removeprefix(site.base)} {label}: {trouble}"] if trouble else []
    return pressed, wrong


async def test_every_button_of_every_page_works_by_keyboard(
    store: SqliteStore, tmp_path: Path, window: BrowserContext
) -> None:
    pressed, wrong = dict[str, set[str]](), list[str]()
    async with serve_pages(store, tmp_path, "calm words") as site, visit(window) as page:
        await site.enter(page)
        for address in site.list_addresses():
            pressed[address], found = await press_all(page, site, address)
            wrong += found
    assert wrong == []
    assert sum(map(len, pressed.values())) > 60, pressed
