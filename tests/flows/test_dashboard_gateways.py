"""What the buttons of the page of gateways do, in a real browser before two real gateways on one database."""

from pathlib import Path

import pytest
from playwright.async_api import BrowserContext, expect
from tests.browsers import needs_chromium

from gatepost.testing.cluster import Cluster
from gatepost.testing.postgres import PACKAGE, find_programs

from .dashboard_desk import open_desk

pytestmark = [
    pytest.mark.slow,
    needs_chromium,
    pytest.mark.skipif(find_programs() is None, reason=f"PostgreSQL is not installed: apt-get install {PACKAGE}"),
]


@pytest.mark.page("gateways", "gateway.drain: Drain", "gateway.forget: Forget")
async def test_a_gateway_is_drained_and_forgotten_on_the_page_of_another(
    tmp_path: Path, window: BrowserContext
) -> None:
    with Cluster(tmp_path, ("north", "south"), sandbox_kind="process", sessions_provider="demo") as cluster:
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
