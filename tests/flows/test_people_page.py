"""People on the page, in browsers: somebody new comes in by a link, and an owner sees the page as somebody does."""

import re
from collections.abc import Iterator

import pytest
from playwright.async_api import Browser, expect

from gatepost_testing.daemon import DaemonProcess
from gatepost_testing.waiting import PATIENCE_S

from .dashboard_desk import DashboardDesk


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DaemonProcess]:
    with DaemonProcess(tmp_path_factory.mktemp("people") / "home", sessions_provider="demo") as running:
        yield running


async def make_link(desk: DashboardDesk, label: str) -> str:
    page = desk.page
    await page.get_by_label("They may").select_option(label="manage this agent")
    await page.get_by_label("For whom").fill(label)
    await page.get_by_role("button", name="Make the link").click()
    await expect(desk.row(label)).to_be_visible()
    link = await page.locator("#toast .shown-once pre").inner_text()
    await page.locator("#toast").get_by_role("button", name="Close").click()
    return link


@pytest.mark.page("users", "invite.create: Make the link", "token.rm: Withdraw")
async def test_somebody_new_comes_in_by_a_link_of_the_page(desk: DashboardDesk, browser: Browser) -> None:
    await desk.open("/people/invite")
    links = [await make_link(desk, label) for label in ("For Ada", "For nobody")]
    await desk.press("Withdraw", "token.rm", desk.row("For nobody"))
    await expect(desk.row("For nobody", "revoked")).to_be_visible()

    window = await browser.new_context(viewport={"width": 390, "height": 844}, color_scheme="dark")
    window.set_default_timeout(PATIENCE_S * 1000)
    ada = await window.new_page()
    await ada.goto(links[1])
    await expect(ada.get_by_role("status")).to_have_text(re.compile("You are not signed in here"))
    await ada.goto(links[0])
    await expect(ada.get_by_text("You may manage Home.")).to_be_visible()
    for name, said in (("Owner", "is taken"), ("Ada Brandt", "You are signed in here as Ada Brandt")):
        await ada.get_by_label("Your name").fill(name)
        await ada.keyboard.press("Enter")
        await expect(ada.get_by_role("status")).to_have_text(re.compile(said))
    await ada.get_by_role("link", name="To the chat").click()
    await expect(ada.locator(".live.on")).to_be_visible()
    await ada.goto(f"{desk.base}/dashboard/groups/home?view=costs")
    await expect(ada.get_by_role("heading", name="Home", exact=True)).to_be_visible()
    await expect(ada.get_by_text("In 30 days")).to_be_visible()
    await window.close()
    shown = desk.ask("user.show", id="web:user/ada-brandt")
    assert (shown["name"], shown["member_of"]) == ("Ada Brandt", ["home"])


@pytest.mark.page("users", "user.view: See the page as they do")
async def test_an_owner_sees_the_page_as_somebody_does(desk: DashboardDesk) -> None:
    assert desk.daemon.gatepost("user", "add", "telegram:user/7", "--name", "Eve").returncode == 0
    await desk.open("/people/telegram:user/7")
    page, said = desk.page, desk.page.get_by_text("You see the page as Eve does.")
    await page.get_by_role("button", name="See the page as they do").click()
    await expect(said).to_be_visible()
    await expect(page.get_by_role("link", name="Channels")).to_be_hidden()
    await page.get_by_role("button", name="Be yourself again").click()
    await expect(page.get_by_role("link", name="Channels")).to_be_visible()
    await expect(said).to_be_hidden()
