"""PDF files of the chat: drawn by the browser's own viewer, and never more than that."""

import asyncio
import re
from collections.abc import AsyncIterator
from typing import Any

import pytest
from playwright.async_api import Browser, BrowserContext, Locator, Page, expect
from tests.browsers import WHOLE_CHROMIUM, start_browser, visit
from tests.serve.web.page_desk import enter

from gatepost_testing.waiting import PATIENCE_S

pytestmark = pytest.mark.skipif(WHOLE_CHROMIUM is None, reason="Chromium is not installed: no page is looked at")


@pytest.fixture(scope="module")
async def browser() -> AsyncIterator[Browser]:
    """The one for machines without a screen has no viewer of PDF files."""
    async with start_browser(program=WHOLE_CHROMIUM) as started:
        yield started


@pytest.fixture
async def context(window: BrowserContext) -> AsyncIterator[BrowserContext]:
    """`enter` takes its one tab."""
    async with visit(window) as page:
        yield page.context


async def send_file(page: Page, name: str, kind: str, data: bytes) -> Locator:
    await page.set_input_files("#picker", {"name": name, "mimeType": kind, "buffer": data})
    await page.get_by_label("Message", exact=True).press("Enter")
    return page.locator(".message.mine a.document", has_text=name)


@pytest.mark.slow
async def test_a_pdf_is_drawn_above_the_chat_and_closed_again(site: Any, context: BrowserContext) -> None:
    page, drawn = await enter(context, site), await context.new_page()
    await drawn.set_content("<p>one</p><p style='break-before: page'>two</p>")
    paper = await send_file(page, "paper.pdf", "application/pdf", await drawn.pdf())
    await drawn.close()
    await page.bring_to_front()
    await paper.press("Enter")
    dialog = page.get_by_role("dialog", name="PDF")
    await expect(dialog.get_by_text("paper.pdf")).to_be_visible()
    await expect(dialog.get_by_role("link", name="Open in a tab")).to_have_attribute("href", re.compile("/api/files/"))
    async with asyncio.timeout(PATIENCE_S):  # the viewer is an extension of the browser's: no selector waits for it
        while not (viewer := [each for each in page.frames if each.url.startswith("chrome-extension:")]):
            await page.wait_for_event("framenavigated")
    await expect(viewer[0].locator("#pagelength")).to_have_text("2")
    await dialog.get_by_role("button", name="Close the PDF").click()
    await expect(dialog).to_be_hidden()
    await expect(page.locator("iframe")).to_have_count(0)
    await expect(paper).to_be_focused()
    assert await page.evaluate("window.troubles ?? 0") == 0


@pytest.mark.slow
async def test_a_page_that_calls_itself_a_pdf_never_runs(site: Any, context: BrowserContext) -> None:
    page, told = await enter(context, site), list[str]()
    context.on("request", lambda each: told.append(each.url))
    evil = b"<!doctype html><script>top.ran = 1; fetch('/api/ran')</script><img src='/api/ran'>"
    paper = await send_file(page, "evil.pdf", "application/pdf", evil)
    address = f"{site.base}{await paper.get_attribute('href')}"
    async with page.expect_response(lambda each: each.url.startswith(address)):
        await paper.click()
    answer = await context.request.get(address)  # a viewer's own headers take the place of ours in what a page sees
    assert answer.headers["content-type"] == "application/pdf" and answer.headers["x-content-type-options"] == "nosniff"
    policy = answer.headers["content-security-policy"]
    assert "default-src 'none'" in policy and "script-src" not in policy and "frame-ancestors 'self'" in policy
    tab = await context.new_page()
    await tab.goto(address)
    await tab.wait_for_load_state("load")
    assert await page.evaluate("window.ran") is None and not [each for each in told if each.endswith("/api/ran")]


async def test_only_a_pdf_may_be_framed_and_only_by_our_own_chat(site: Any) -> None:
    async with site.signed_in() as browser:
        answers = [
            await browser.get(path) for path in ("/", "/session", "/dashboard/", "/api/start", "/static/page.css")
        ]
        assert {each.headers["x-frame-options"] for each in answers} == {"DENY"}
        framing = ["frame-src 'self'" in each.headers["content-security-policy"] for each in answers]
        assert framing == [True, False, False, False, False]
        assert all("frame-ancestors 'none'" in each.headers["content-security-policy"] for each in answers)
