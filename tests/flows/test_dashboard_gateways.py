"""What the buttons of the page of gateways do, in a real browser before two real gateways on one database."""

import re
from pathlib import Path

import pytest
from playwright.async_api import BrowserContext, expect
from tests.browsers import needs_chromium

from gatepost_testing.servers.postgres import PACKAGE, find_programs
from gatepost_testing.storms.cluster import Cluster
from gatepost_testing.waiting import block_until

from .dashboard_desk import open_desk

pytestmark = [
    pytest.mark.slow,
    needs_chromium,
    pytest.mark.skipif(find_programs() is None, reason=f"PostgreSQL is not installed: apt-get install {PACKAGE}"),
]


INSTRUCTIONS = re.compile("You are acme")


@pytest.mark.page("gateways", "gateway.drain: Drain", "gateway.forget: Forget")
async def test_a_gateway_is_drained_and_forgotten_on_the_page_of_another(
    tmp_path: Path, window: BrowserContext
) -> None:
    with Cluster(tmp_path, ("north", "south"), local=True, sandbox_kind="process", sessions_provider="demo") as cluster:
        cluster["north"].start()
        cluster["south"].start()
        async with open_desk(cluster["north"], window) as desk:
            await desk.open("/gateways")
            await expect(desk.row("north", "up")).to_have_count(1)
            await desk.press("Drain", "gateway.drain", desk.row("south"))
            await expect(desk.row("south", "gone")).to_have_count(1)
            assert [(each["name"], each["state"]) for each in desk.ask("gateway.list")] == [
                ("north", "running"),
                ("south", "gone"),
            ]
            await desk.press("Forget", "gateway.forget", desk.row("south"), by_key=True)
            assert [each["name"] for each in desk.ask("gateway.list")] == ["north"]


@pytest.mark.page("groups", "group.move: Move to another gateway")
async def test_a_group_is_moved_on_its_page_which_shows_the_files_of_another_gateway(
    tmp_path: Path, window: BrowserContext
) -> None:
    with Cluster(tmp_path, ("north", "south"), local=True, sandbox_kind="process", sessions_provider="demo") as cluster:
        cluster["north"].start()
        async with open_desk(cluster["north"], window) as desk:
            desk.ask("group.add", folder="acme")
            await desk.open("/groups/acme")
            move = desk.page.get_by_role("button", name="Move to another gateway")
            await expect(desk.page.get_by_label("Text")).to_have_value(INSTRUCTIONS)
            await expect(move).to_have_count(0)  # there is one gateway
            cluster["south"].start()
            await desk.open("/groups/acme")
            await desk.press("Move to another gateway", "group.move")
            assert desk.ask("group.show", folder="acme")["gateway"] == "south"
            assert (cluster["south"].home / "groups" / "acme" / "AGENTS.md").is_file()
            await desk.open("/groups/acme")
            await expect(desk.page.locator("main")).to_contain_text("south")
            await expect(desk.page.get_by_label("Text")).to_have_value(
                INSTRUCTIONS
            )  # of the other gateway, by this one
            cluster["south"].kill()
            block_until(lambda: not desk.ask("gateway.show", name="south")["alive"], "it to be known as away")
            await desk.open("/groups/acme")
            await expect(desk.page.get_by_text("gateway south is unavailable: it is away")).to_be_visible()
