"""Every page judged by axe-core, in light and dark, wide and on a phone: nothing serious is found."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from playwright.async_api import Browser, Page
from tests.browsers import needs_chromium

from gatepost.serve.web.pages.groups import VIEWS
from gatepost.store.engine.sqlite_store import SqliteStore
from gatepost_testing.waiting import PATIENCE_S

from .page_desk import serve_pages

AXE = Path(sys.prefix, "programs", "axe", "node_modules", "axe-core", "axe.min.js")  # `make test-all` puts it there
SERIOUS = ("serious", "critical")
LOOKS = [("light", 1180), ("dark", 1180), ("light", 390)]
RUN = """() => axe.run(document, { resultTypes: ["violations"] }).then((found) => JSON.stringify(
  found.violations.map((each) => [each.impact, each.id, each.nodes.slice(0, 3).map((at) => at.html.slice(0, 160))])))"""

pytestmark = [
    pytest.mark.slow,
    needs_chromium,
    pytest.mark.skipif(not AXE.exists(), reason="axe-core is not installed (`make test-all` does it)"),
]


async def find_serious(page: Page) -> list[Any]:
    await page.evaluate(AXE.read_text(encoding="utf-8"))  # past the policy of the page, as a tool of the browser's
    return [each for each in json.loads(await page.evaluate(RUN)) if each[0] in SERIOUS]


@pytest.mark.parametrize(("scheme", "width"), LOOKS)
async def test_no_page_has_a_serious_finding(
    store: SqliteStore, tmp_path: Path, browser: Browser, scheme: Any, width: int
) -> None:
    async with serve_pages(store, tmp_path, "calm words") as site:
        context = await browser.new_context(viewport={"width": width, "height": 844}, color_scheme=scheme)
        context.set_default_timeout(PATIENCE_S * 1000)
        page = await context.new_page()
        found: dict[str, list[Any]] = {}
        await page.goto(site.base)  # not signed in
        found["signed out"] = await find_serious(page)
        await site.enter(page)
        forms = ["/dashboard/do/task.add", "/dashboard/do/group.rm?folder=x"]
        tabs = [f"/dashboard/groups/home?view={view}" for view in VIEWS]
        further = ["/", "/chat/", "/session", "/pair/x", "/invite/x", *forms, *tabs]
        for address in (*site.list_addresses(), *(f"{site.base}{path}" for path in further)):
            answer = await page.goto(address)
            assert answer is not None and answer.status == 200, address
            found[address] = await find_serious(page)
        await page.goto(site.list_addresses()[0])
        await page.wait_for_function("window.htmx !== undefined")
        await page.keyboard.press("Control+k")
        await page.locator("#palette-list li").first.wait_for()
        found["palette"] = await find_serious(page)
        await context.close()
        assert {address: serious for address, serious in found.items() if serious} == {}
