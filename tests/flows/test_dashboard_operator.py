"""The operator's pages in a real browser before a real daemon: a setting, the panic switch, a channel, the doctor."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from playwright.async_api import BrowserContext, Page, expect
from tests.browsers import needs_chromium, visit

from gatepost_testing.daemon import DaemonProcess

pytestmark = needs_chromium


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DaemonProcess]:
    with DaemonProcess(tmp_path_factory.mktemp("operator") / "home", sessions_provider="demo") as running:
        yield running


@pytest.fixture
async def page(daemon: DaemonProcess, window: BrowserContext) -> AsyncIterator[Page]:
    async with visit(window) as page:
        await page.goto(daemon.address)
        await page.wait_for_selector("#text")
        yield page


async def open_page(page: Page, path: str) -> None:
    await page.goto(f"{page.url.partition('#')[0].rstrip('/').partition('/dashboard')[0]}/dashboard{path}")


@pytest.mark.slow
@pytest.mark.page("settings", "settings.set: Write it")
async def test_a_setting_is_changed_after_its_diff_was_seen(page: Page, daemon: DaemonProcess) -> None:
    path: Path = daemon.home / "gatepost.toml"
    await open_page(page, "/settings/log.level")
    await page.get_by_label("New value").select_option("debug")
    await page.get_by_role("button", name="Show the change").click()
    await expect(page.locator(".diff .added").last).to_have_text('+level = "debug"')
    assert not path.exists()
    await page.get_by_role("button", name="Write it").click()
    await expect(page.locator("#toast")).to_contain_text("The setting is saved.")
    assert path.read_text() == '[log]\nlevel = "debug"\n'
    await open_page(page, "/settings?which=pending")
    await expect(page.get_by_role("link", name="log.level")).to_be_visible()


@pytest.mark.slow
@pytest.mark.page("sidebar", "panic.on: Stop everything", "panic.off: Go on")
async def test_everything_is_stopped_after_one_question_and_goes_on(page: Page, daemon: DaemonProcess) -> None:
    await open_page(page, "/keep")
    await page.get_by_role("button", name="Stop everything").click()
    await page.locator("#dialog button[type=submit]").click()
    await expect(page.locator("#panic")).to_contain_text("Everything is stopped")
    assert daemon.json("status")["store"]["panic"] is not None
    await page.get_by_role("button", name="Close").click()
    await page.get_by_role("button", name="Go on").click()
    await expect(page.get_by_role("button", name="Stop everything")).to_be_visible()


@pytest.mark.slow
@pytest.mark.page("channels", "channel.add: Ask the platform whether it accepts us")
async def test_a_channel_is_added_by_its_form_which_says_what_is_wrong(page: Page, daemon: DaemonProcess) -> None:
    await open_page(page, "/channels")
    await page.get_by_role("link", name="Webhook", exact=True).click()
    await page.get_by_label("Secret").fill("short")
    await page.keyboard.press("Enter")
    await expect(page.locator(".form-steps li")).to_have_class("failed")
    await expect(page.locator(".form-steps li")).to_contain_text("16")
    await page.get_by_label("Secret").fill("0123456789abcdef0123456789abcdef")
    await page.get_by_role("button", name="Add", exact=True).click()
    await expect(page.locator(".form-steps li")).to_have_class("passed")
    assert "0123456789abcdef" not in await page.content()
    await page.get_by_role("link", name="See how it is").click()
    await expect(page.get_by_role("row").filter(has_text="Connected")).to_contain_text("Webhook")


@pytest.mark.slow
@pytest.mark.page("gateways", "*: *")
async def test_the_doctor_says_what_was_looked_at_and_mends_what_is_safe(page: Page, daemon: DaemonProcess) -> None:
    logs = daemon.home / "logs"
    logs.chmod(0o755)
    await open_page(page, "/doctor")
    await page.get_by_text("things are well").click()
    await expect(page.get_by_role("cell", name="python", exact=True)).to_be_visible()
    await page.get_by_role("button", name="Close them to others").click()
    await expect(page.get_by_text("may be read or written by others")).to_have_count(0)
    assert logs.stat().st_mode & 0o777 == 0o711
