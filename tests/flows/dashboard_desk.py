"""The dashboard of a real daemon in a browser, for tests of what its buttons do: press one, fill in what it asks for,
and ask the gateway itself what came of it."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from playwright.async_api import BrowserContext, Locator, Page, expect
from tests.browsers import visit

from gatepost.core.clock import SystemClock
from gatepost.core.home import Home
from gatepost.serve.control.client import ControlClient
from gatepost.store.engine.sqlite_db import SqliteDb, connect
from gatepost.store.rights import egress
from gatepost.store.rights.egress import EgressOutcome
from gatepost_testing.daemon import DaemonProcess
from gatepost_testing.waiting import PATIENCE_S


class DashboardDesk:
    def __init__(self, daemon: DaemonProcess, page: Page) -> None:
        self.daemon, self.page = daemon, page
        self.base = get_base(daemon)
        self._control = ControlClient(Home(daemon.home).control)

    async def open(self, path: str) -> None:
        await self.page.goto(f"{self.base}/dashboard{path}")
        await expect(self.page.locator("#live.on")).to_be_attached()

    def ask(self, operation: str, **args: Any) -> Any:
        """Return what the gateway's own operator is answered."""
        return self._control.post(f"/v1/ops/{operation}", args, timeout=PATIENCE_S)["result"]

    def row(self, *words: str) -> Locator:
        """The row of a table in which each of the words stands."""
        found = self.page.locator("main tbody tr")
        for each in words:
            found = found.filter(has_text=each)
        return found

    async def press(
        self, label: str, operation: str, within: Locator | None = None, /, *, by_key: bool = False, **given: str
    ) -> None:
        """Press a button, say what it asks for, if it asks, and wait until its operation was run."""
        button = (within or self.page.locator("main")).get_by_role("button", name=label, exact=True).first
        asks = await button.get_attribute("hx-get")
        await self._clear()
        await (button.press("Enter") if by_key else button.click())
        if asks:
            await self.submit(operation, by_key=by_key, **given)
        else:
            await expect_done(self.page.locator("#toast"), operation)

    async def submit(self, operation: str, /, *, by_key: bool = False, **given: str) -> str:
        """Fill in the dialog and send it; what was said. It closes by itself, and by Escape where it has to be read."""
        dialog = self.page.locator("#dialog")
        await expect(dialog.locator("form.operation")).to_be_visible()
        for name, value in given.items():
            await fill(dialog, name, value)
        send = dialog.locator("button[type=submit]")
        await (send.press("Enter") if by_key else send.click())
        said = await expect_done(self.page.locator("#dialog-result:not(:empty), #toast:not(:empty)"), operation)
        await self.page.keyboard.press("Escape")
        await expect(dialog).to_be_hidden()
        return said

    async def _clear(self) -> None:
        await self.page.evaluate("document.getElementById('toast').replaceChildren()")


async def expect_done(place: Locator, operation: str) -> str:
    """That an operation was run, and what it answered."""
    said = place.locator("[data-done], [role=alert]")
    await expect(said).to_be_visible()
    assert await said.get_attribute("data-done") == operation, await said.inner_text()
    return await place.inner_text()


async def fill(form: Locator, name: str, value: str) -> None:
    """An input of a form, also one of those that are folded away."""
    field = form.locator(f"[name='{name}']")
    folded = form.locator("details:not([open])", has=form.page.locator(f"[name='{name}']"))
    if await folded.count():
        await folded.locator("summary").click()
    kind = await field.evaluate("each => each.type")
    if kind == "checkbox":
        await field.check()
    elif kind == "file":
        await field.set_input_files(value)
    elif kind == "select-one":
        await field.select_option(value)
    else:
        await field.fill(value)


def refuse_host(daemon: DaemonProcess, target: str) -> None:
    """As the way out does."""
    connection = connect(Home(daemon.home).store)
    try:
        db = SqliteDb(connection)
        db.run("BEGIN IMMEDIATE")
        denied = EgressOutcome.DENIED
        egress.record_attempt(db, "home", "s1", target, denied, "it is not allowed", SystemClock().now())
        db.run("COMMIT")
    finally:
        connection.close()


def get_base(daemon: DaemonProcess) -> str:
    return daemon.banner[0].split()[-1].rstrip("/")


@asynccontextmanager
async def open_desk(daemon: DaemonProcess, window: BrowserContext) -> AsyncIterator[DashboardDesk]:
    """Signed in as the owner. Whatever the page complains of meanwhile fails the test."""
    async with visit(window) as page:
        await page.goto(daemon.address)
        await expect(page.locator(".live.on")).to_be_visible()
        yield DashboardDesk(daemon, page)
