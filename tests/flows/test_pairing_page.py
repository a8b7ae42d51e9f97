"""A pairing link in a real browser: it says who would be bound to whom, and a button binds."""

import json
import re
import shutil
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from playwright.async_api import Page, async_playwright, expect

from gatepost.testing.daemon import DaemonProcess
from gatepost.testing.waiting import PATIENCE_S

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking"]
PHONE = "telegram:user/9"
expect.set_options(timeout=PATIENCE_S * 1000)

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed: the page is not looked at")


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[DaemonProcess]:
    with DaemonProcess(tmp_path / "home", sandbox_kind="process", sessions_provider="scripted") as running:
        yield running


@pytest.fixture
async def page() -> AsyncIterator[Page]:
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        context = await browser.new_context(viewport={"width": 420, "height": 760}, locale="en-GB")
        context.set_default_timeout(PATIENCE_S * 1000)
        page = await context.new_page()
        await page.add_init_script(
            "for (const kind of ['error', 'securitypolicyviolation', 'unhandledrejection'])"
            " addEventListener(kind, () => { window.troubles = (window.troubles ?? 0) + 1; });"
        )
        yield page
        await browser.close()


def gatepost(daemon: DaemonProcess, *args: str) -> str:
    done = daemon.gatepost(*args)
    assert done.returncode == 0, done.stderr
    return str(done.stdout)


def list_owners_identities(daemon: DaemonProcess) -> list[str]:
    found: list[str] = json.loads(gatepost(daemon, "user", "show", "terminal:owner", "--json"))["identities"]
    return found


@pytest.mark.slow
async def test_a_link_is_confirmed_by_the_person_who_is_signed_in(daemon: DaemonProcess, page: Page) -> None:
    link = gatepost(daemon, "pair", PHONE, "--link").splitlines()[0]
    state, button = page.get_by_role("status"), page.get_by_role("button", name="Confirm")
    await page.goto(link)
    await expect(state).to_have_text(re.compile("Sign in on this browser first"))
    await expect(button).to_be_hidden()

    await page.goto(daemon.address)
    await expect(page.locator(".live.on")).to_be_visible()
    await page.goto(link)
    await expect(page.get_by_text(f"{PHONE} becomes an identity of Owner (terminal:owner)")).to_be_visible()
    await expect(page.get_by_text("with all of your rights")).to_be_visible()
    assert PHONE not in list_owners_identities(daemon)

    await button.click()
    await expect(state).to_have_text(re.compile("Paired: you are Owner"))
    assert PHONE in list_owners_identities(daemon)
    await page.goto(link)
    await expect(state).to_have_text(re.compile("was used before"))
    await expect(button).to_be_hidden()
    assert await page.evaluate("window.troubles ?? 0") == 0
