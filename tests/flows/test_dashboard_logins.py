"""Signing in and out in a real browser: by address, by password, from elsewhere, and back to the page that was asked
for."""

import os
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from playwright.async_api import Browser, Page, expect
from tests.browsers import add_authenticator, needs_chromium

from gatepost_testing.daemon import DaemonProcess
from gatepost_testing.waiting import PATIENCE_S

from .dashboard_desk import DashboardDesk

PICTURES = os.environ.get("GATEPOST_TEST_PICTURES", "")  # a folder: each page is kept there as it looks
SECRET = "four words of mine"

pytestmark = needs_chromium


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DaemonProcess]:
    home = tmp_path_factory.mktemp("logins") / "home"
    with DaemonProcess(home, sandbox_kind="process", web_password_login="true", web_passkey_login="true") as running:
        yield running


@pytest.fixture
async def browser(browser: Browser) -> AsyncIterator[Browser]:
    """What a test opened is closed after it."""
    yield browser
    for context in browser.contexts:
        await context.close()


def get_base(daemon: DaemonProcess) -> str:
    return daemon.banner[0].split()[-1].rstrip("/")


async def open_page(browser: Browser) -> Page:
    """In a browser of its own: its cookies are nobody else's."""
    context = await browser.new_context(viewport={"width": 1180, "height": 800}, locale="en-GB")
    context.set_default_timeout(PATIENCE_S * 1000)
    return await context.new_page()


async def enter(page: Page, daemon: DaemonProcess) -> None:
    await page.goto(daemon.address)
    await expect(page.locator("#text")).to_be_visible()


async def keep_picture(page: Page, name: str) -> None:
    if not PICTURES:
        return
    Path(PICTURES).mkdir(exist_ok=True)
    for scheme, width in (("light", 1180), ("dark", 1180), ("light", 390)):
        await page.emulate_media(color_scheme=scheme, reduced_motion="reduce")  # type: ignore[arg-type]
        await page.set_viewport_size({"width": width, "height": 844 if width < 500 else 800})
        await page.screenshot(path=f"{PICTURES}/{name}-{scheme}-{width}.png")
    await page.set_viewport_size({"width": 1180, "height": 800})


@pytest.mark.slow
@pytest.mark.page("credentials", "login.end: Sign out")
async def test_a_browser_is_signed_out_from_another_one_and_sees_at_once_how_to_get_in(
    daemon: DaemonProcess, browser: Browser
) -> None:
    lost, other = await open_page(browser), await open_page(browser)
    await enter(lost, daemon)
    await lost.goto(f"{get_base(daemon)}/dashboard/tasks")
    await expect(lost.locator("#live.on")).to_be_attached()
    await enter(other, daemon)
    await other.goto(f"{get_base(daemon)}/dashboard/logins")
    await expect(other.get_by_text("this browser")).to_have_count(1)
    await keep_picture(other, "logins")
    row = other.locator("tbody tr").filter(has_not=other.get_by_text("this browser"))
    await row.get_by_role("button", name="Sign out").click()
    await keep_picture(other, "logins-dialog")
    await other.locator("#dialog button[type=submit]").click()
    await expect(other.locator("[data-done='login.end']")).to_be_visible()
    await expect(lost.get_by_text("You are not signed in on this browser.")).to_be_visible()
    assert lost.url.endswith("/dashboard/tasks")
    await expect(other.locator("tbody tr")).to_have_count(1)


@pytest.mark.slow
@pytest.mark.page("credentials", "login.set_password: Set a password")
async def test_a_password_is_set_on_the_page_and_leads_back_to_what_was_asked_for(
    daemon: DaemonProcess, browser: Browser
) -> None:
    first, second = await open_page(browser), await open_page(browser)
    await enter(first, daemon)
    await first.goto(f"{get_base(daemon)}/dashboard/logins")
    await first.get_by_role("button", name="Set a password").click()
    await expect(first.get_by_label("New password")).to_have_attribute("autocomplete", "new-password")
    await expect(first.get_by_label("Old password")).to_have_attribute("autocomplete", "current-password")
    await first.get_by_label("New password").fill(SECRET)
    await first.locator("#dialog button[type=submit]").click()
    await expect(first.locator("[data-done='login.set_password']")).to_have_text("The password is saved.")

    await second.goto(f"{get_base(daemon)}/dashboard/tasks?state=all")
    await second.get_by_label("Name").fill("owner")
    await second.get_by_label("Password").fill("not the right words")
    await keep_picture(second, "sign-in")
    await second.keyboard.press("Enter")
    await expect(second.get_by_text("The name or the password is wrong.")).to_be_visible()
    await second.get_by_label("Password").fill(SECRET)
    await second.keyboard.press("Enter")
    await expect(second.get_by_role("heading", name="Tasks")).to_be_visible()
    assert second.url.endswith("/dashboard/tasks?state=all")
    assert await second.evaluate("document.cookie") == ""  # no script sees what signs in


@pytest.mark.slow
@pytest.mark.page(
    "credentials",
    "login.set_password: Change password",
    "login.remove_password: Remove password",
    "login.end_all: Sign out elsewhere",
    "login.end_all: Sign out everywhere",
)
async def test_a_password_is_changed_and_removed_and_all_browsers_are_signed_out(
    daemon: DaemonProcess, browser: Browser
) -> None:
    page, other = await open_page(browser), await open_page(browser)
    for each in (page, other):
        await enter(each, daemon)
    await page.goto(f"{get_base(daemon)}/dashboard/logins")
    desk = DashboardDesk(daemon, page)
    if await page.get_by_role("button", name="Set a password").count():
        await desk.press("Set a password", "login.set_password", new_password=SECRET)
    await desk.press("Change password", "login.set_password", new_password=f"{SECRET}, again", old_password=SECRET)
    assert await try_password(other, daemon, SECRET) == 403
    assert await try_password(other, daemon, f"{SECRET}, again") == 200
    await desk.press("Remove password", "login.remove_password")
    assert await try_password(other, daemon, f"{SECRET}, again") == 403
    await desk.press("Sign out elsewhere", "login.end_all")
    assert len(desk.ask("login.list")) == 1
    await page.get_by_role("button", name="Sign out everywhere").click()
    await page.locator("#dialog button[type=submit]").click()
    await expect(page.get_by_text("You are not signed in on this browser.")).to_be_visible()
    assert desk.ask("login.list") == []


async def try_password(page: Page, daemon: DaemonProcess, password: str) -> int:
    """As the form for it does."""
    headers = {"x-gatepost": "1", "origin": get_base(daemon)}
    sent = {"name": "owner", "password": password}
    answer = await page.context.request.post(f"{get_base(daemon)}/login/password", data=sent, headers=headers)
    return answer.status


@pytest.mark.slow
async def test_a_page_that_is_open_since_an_earlier_sign_in_still_works(
    daemon: DaemonProcess, browser: Browser
) -> None:
    """Its token is that of another cookie: it asks for the new one by itself."""
    page = await open_page(browser)
    await enter(page, daemon)
    await page.goto(f"{get_base(daemon)}/pair/x")  # which follows nothing, so it does not see the sign-out
    assert await add_group(page, "before") == 200
    tab = await page.context.new_page()
    await tab.goto(f"{get_base(daemon)}/")
    await tab.evaluate("import('/static/csrf.js').then(({ send }) => send('/logout', { method: 'POST' }))")
    await tab.goto("about:blank")  # else the address differs by its fragment alone, and the chat stays as it is
    await enter(tab, daemon)
    assert await add_group(page, "after") == 200
    assert {"before", "after"} <= {each["folder"] for each in daemon.json("group", "list")}


async def add_group(page: Page, folder: str) -> int:
    """As the page sends it."""
    return int(
        await page.evaluate(
            "async (folder) => (await (await import('/static/csrf.js')).send('/dashboard/do/group.add',"
            " { method: 'POST', body: new URLSearchParams({ folder }) })).status",
            folder,
        )
    )


@pytest.mark.slow
async def test_a_passkey_is_offered_where_the_name_is_typed(daemon: DaemonProcess, browser: Browser) -> None:
    page = await open_page(browser)
    base = get_base(daemon).replace("127.0.0.1", "localhost")
    await add_authenticator(page)
    await page.goto(daemon.address.replace("127.0.0.1", "localhost"))
    await expect(page.locator("#text")).to_be_visible()
    await page.goto(f"{base}/dashboard/logins")
    await page.get_by_label("What you call it").fill("Test phone")
    await page.keyboard.press("Enter")
    await expect(page.get_by_role("cell", name="Test phone")).to_be_visible()
    await page.context.clear_cookies()
    await page.goto(f"{base}/dashboard/tasks")  # the authenticator is at hand, and agrees at once
    await expect(page.get_by_role("heading", name="Tasks")).to_be_visible()
    assert {each["way"] for each in daemon.json("login", "list")} >= {"passkey"}
