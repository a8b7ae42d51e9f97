"""Conversations of the chat page in a browser: each has an address, a name, and its place in the list."""

import re
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from playwright.async_api import BrowserContext, Page, expect
from tests.browsers import visit

from gatepost_testing.daemon import DaemonProcess

from .dashboard_desk import get_base


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[DaemonProcess]:
    with DaemonProcess(tmp_path / "home", sessions_provider="demo") as running:
        yield running


@pytest.fixture
async def chat(daemon: DaemonProcess, window: BrowserContext) -> AsyncIterator[Page]:
    """The page of the owner, with two conversations beside the room's own."""
    async with visit(window) as page:
        await page.goto(daemon.address)
        await expect(page.locator(".live.on")).to_be_visible()
        for words in ("Plan the release", "Plan the party"):
            await page.get_by_role("button", name="New conversation", exact=True).first.click()
            await page.get_by_label("Message", exact=True).fill(words)
            await page.keyboard.press("Enter")
            await expect(page.locator(".message:not(.mine) .body").first).to_be_visible()
        yield page


async def test_a_conversation_has_an_address_for_reload_back_and_others(chat: Page, daemon: DaemonProcess) -> None:
    party = chat.url
    assert re.search(r"/chat/with/home\?in=t-[0-9a-f]{12}$", party)
    await chat.get_by_role("button", name="Plan the release", exact=True).click()
    await expect(chat.locator("#thread-name")).to_have_text("Plan the release")
    assert chat.url != party
    await chat.reload()
    await expect(chat.locator(".message.mine .body")).to_have_text("Plan the release")
    await chat.go_back()
    await expect(chat.locator(".message.mine .body")).to_have_text("Plan the party")
    assert chat.url == party
    for path in ("/chat/with/nowhere", "/chat/with/home?in=never", "/chat/with/%E0%A4%A"):
        await chat.goto(get_base(daemon) + path)
        await expect(chat.get_by_role("heading", name="Not found")).to_be_visible()
        await expect(chat.get_by_label("Message", exact=True)).to_be_hidden()
    await chat.get_by_role("link", name="To your conversations").click()
    await chat.get_by_role("button", name="Plan the party", exact=True).click()
    await expect(chat.locator(".message.mine .body")).to_have_text("Plan the party")
    assert chat.url == party


async def test_a_conversation_is_renamed_pinned_and_archived_by_keys(chat: Page) -> None:
    async def do(title: str, act: str) -> None:
        more = chat.get_by_label(f"What to do with {title}", exact=True)
        await more.focus()
        await more.press("Enter")
        await chat.locator(".thread-menu[open]").get_by_role("button", name=act, exact=True).press("Enter")

    await do("Plan the release", "Rename")
    await chat.locator("#rename-text").fill("Release 3")
    await chat.keyboard.press("Enter")
    await do("Release 3", "Pin")
    await expect(chat.locator("#rooms ul ul > li").first).to_contain_text("Release 3")
    await chat.get_by_role("button", name="Release 3, pinned").click()
    await do("Plan the party", "Archive")
    await expect(chat.get_by_text("Archived (1)")).to_be_visible()
    await expect(chat.get_by_role("button", name="Plan the party", exact=True)).to_be_hidden()
    await chat.reload()
    await expect(chat.locator("#thread-name")).to_have_text("Release 3")
    await expect(chat.locator("#rooms ul ul > li").first).to_contain_text("Release 3")
    await chat.get_by_text("Archived (1)").click()
    await do("Plan the party", "Restore")
    await expect(chat.get_by_text("Archived")).to_have_count(0)


async def test_the_box_offers_commands_and_agents_by_keys_and_says_so_to_screen_readers(
    chat: Page, daemon: DaemonProcess
) -> None:
    assert daemon.gatepost("group", "add", "home/garden", "--name", "Garden").returncode == 0
    await chat.reload()
    await expect(chat.locator("#agent-pick")).to_be_visible()
    box, offered = (
        chat.get_by_role("combobox", name="Message", exact=True),
        chat.locator("#completion").get_by_role("option"),
    )
    await box.press_sequentially("/us")
    await expect(offered).to_have_count(1)
    await expect(box).to_have_attribute("aria-expanded", "true")
    chosen = await box.get_attribute("aria-activedescendant")
    await expect(chat.locator(f"#{chosen}")).to_contain_text("What this conversation has cost")
    await box.press("Enter")
    await expect(box).to_have_value("/usage ")
    await expect(box).to_have_attribute("aria-expanded", "false")

    await box.fill("")
    await box.press_sequentially("@")
    await expect(offered).to_have_count(2)
    await box.press("ArrowDown")
    await expect(chat.locator("#completion [aria-selected=true]")).to_contain_text("Garden")
    await box.press("Escape")
    await expect(offered).to_have_count(0)
    await box.press_sequentially("gar")
    await offered.click()
    await expect(box).to_have_value("@home/garden ")
    await box.fill("a mail to ann@example.org costs 3/4")
    await expect(offered).to_have_count(0)
