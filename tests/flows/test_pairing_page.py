"""A pairing link in a real browser: it says who would be bound to whom, and a button binds."""

import json
import re
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from playwright.async_api import BrowserContext, Page, expect
from tests.browsers import needs_chromium, visit

from gatepost_testing.daemon import DaemonProcess

PHONE = "telegram:user/9"

pytestmark = needs_chromium


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[DaemonProcess]:
    with DaemonProcess(tmp_path / "home", sandbox_kind="process", sessions_provider="scripted") as running:
        yield running


@pytest.fixture
async def page(window: BrowserContext) -> AsyncIterator[Page]:
    async with visit(window, width=420) as page:
        yield page


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
