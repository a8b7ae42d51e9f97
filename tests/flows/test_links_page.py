"""Links in a real browser: an invitation is accepted by a press, and a webhook's address is shown once."""

import re
import shutil
from collections.abc import AsyncIterator, Iterator

import httpx2
import pytest
from playwright.async_api import Page, async_playwright, expect

from gatepost_testing.daemon import DaemonProcess
from gatepost_testing.waiting import PATIENCE_S

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking"]
EVE = "web:user/eve"
expect.set_options(timeout=PATIENCE_S * 1000)

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed: the page is not looked at"),
]


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DaemonProcess]:
    home = tmp_path_factory.mktemp("links") / "home"
    with DaemonProcess(home, sandbox_kind="process", sessions_provider="scripted") as running:
        yield running


@pytest.fixture
async def page() -> AsyncIterator[Page]:
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        context = await browser.new_context(viewport={"width": 1000, "height": 760}, locale="en-GB")
        context.set_default_timeout(PATIENCE_S * 1000)
        page = await context.new_page()
        await page.add_init_script(
            "for (const kind of ['error', 'securitypolicyviolation', 'unhandledrejection'])"
            " addEventListener(kind, () => { window.troubles = (window.troubles ?? 0) + 1; });"
        )
        yield page
        await browser.close()


async def test_an_invitation_is_accepted_by_the_person_who_is_signed_in(daemon: DaemonProcess, page: Page) -> None:
    made = daemon.json("invite", "add", "home")
    link, code = made["url"], made["secret"]
    assert daemon.gatepost("user", "add", EVE, "--name", "Eve").returncode == 0
    state, accept = page.get_by_role("status"), page.get_by_role("button", name="Accept")
    await page.goto(link)
    await expect(state).to_have_text(re.compile("You are not signed in here"))
    await expect(page.get_by_text(f"/join {code}")).to_be_visible()
    await expect(accept).to_be_hidden()

    await page.goto(daemon.gatepost("login", "--user", EVE).stdout.strip())
    await expect(page.locator(".live.on")).to_be_visible()
    await page.goto(link)
    await expect(page.get_by_text("Eve may talk to Home")).to_be_visible()
    assert daemon.json("user", "show", EVE)["member_of"] == []
    await accept.focus()
    await page.keyboard.press("Enter")
    await expect(state).to_have_text(re.compile("Welcome!"))
    assert daemon.json("user", "show", EVE)["member_of"] == ["home"]

    await page.goto(link)
    await expect(state).to_have_text(re.compile("You have accepted this invitation"))
    await expect(accept).to_be_hidden()
    assert await page.evaluate("window.troubles ?? 0") == 0


async def test_a_webhook_is_made_shown_once_and_revoked_in_the_dashboard(daemon: DaemonProcess, page: Page) -> None:
    await page.goto(daemon.address)
    await expect(page.locator(".live.on")).to_be_visible()
    await page.goto(f"{page.url.partition('/#')[0].rstrip('/')}/dashboard/links")
    await page.get_by_role("button", name="New webhook").first.click()
    dialog = page.get_by_role("dialog")
    await dialog.locator("[name=folder]").fill("home")
    await dialog.locator("[name=label]").fill("ci")
    await dialog.locator("button[type=submit]").click()
    shown = dialog.locator(".shown-once pre, .shown-once code, .shown-once output").first
    await expect(shown).to_have_text(re.compile("/hook/"))
    await expect(dialog.locator("button[type=submit]")).to_be_hidden()  # a second press would make another
    link = await shown.inner_text()
    assert httpx2.post(link, content="hello", timeout=PATIENCE_S).status_code == 204

    await dialog.get_by_role("button", name="Close").click()
    row = page.get_by_role("row", name=re.compile("ci"))
    await row.get_by_role("button", name="Revoke").click()
    await dialog.locator("button[type=submit]").click()
    await expect(row.get_by_text("revoked")).to_be_visible()
    assert httpx2.post(link, content="hello", timeout=PATIENCE_S).status_code == 404
    assert link.rpartition("/")[2] not in await page.content()
    assert await page.evaluate("window.troubles ?? 0") == 0
