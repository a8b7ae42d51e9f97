"""Real Claude Code asks by the tool of the gateway, and is answered in the terminal and on the web page."""

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from playwright.async_api import Page, expect
from tests.browsers import needs_chromium
from tests.flows import test_card_page, test_card_terminal
from tests.flows.test_card_page import said, write
from tests.flows.test_questions_of_agents import CLAUDE, DRINK, count_result, make_script, needs_claude

from gatepost_testing.agent_profiles import run_agent_gateway
from gatepost_testing.channel import FakeChannel
from gatepost_testing.daemon import DaemonProcess
from gatepost_testing.models import ModelEndpoint
from gatepost_testing.waiting import block_until

page = test_card_page.page
pytestmark = [pytest.mark.slow, needs_claude]


@asynccontextmanager
async def run_claude_daemon(tmp_path: Path) -> AsyncIterator[tuple[DaemonProcess, ModelEndpoint]]:
    home = tmp_path / "h"
    async with ModelEndpoint(make_script("ask_user_question", DRINK)) as endpoint:
        async with run_agent_gateway(CLAUDE, home, FakeChannel(), endpoint):
            pass  # the group has its model and its key
        daemon = DaemonProcess(
            home,
            sandbox_kind="bubblewrap",
            sandbox_least_free_mb="0",
            sessions_provider=CLAUDE.provider,
            anthropic_base_url=endpoint.anthropic,
        )
        await asyncio.to_thread(daemon.start)
        try:
            yield daemon, endpoint
        finally:
            await asyncio.to_thread(daemon.stop)


def wait_until_quiet(daemon: DaemonProcess) -> None:
    block_until(lambda: daemon.json("ledger", "check")["in_flight"] == 0, "the end of what is in flight")
    assert daemon.json("ledger", "check")["unaccounted"] == 0


async def test_claude_gets_the_choice_that_somebody_types_in_the_terminal(tmp_path: Path) -> None:
    async with run_claude_daemon(tmp_path) as (daemon, endpoint):
        assert (await asyncio.to_thread(daemon.gatepost, "chat", "-m", "ask them")).returncode == 0
        (asked,) = await asyncio.to_thread(test_card_terminal.wait_for_requests, daemon, 1)
        answer = f"/answer {asked['request']['id']} 2"
        assert (await asyncio.to_thread(daemon.gatepost, "chat", "-m", answer, "--wait")).returncode == 0
        await asyncio.to_thread(test_card_terminal.wait_for_requests, daemon, 0)
        await asyncio.to_thread(wait_until_quiet, daemon)
    assert count_result(endpoint, "Coffee") and count_result(endpoint, "answered")


@needs_chromium
async def test_claude_gets_the_choice_that_somebody_clicks_on_the_page(tmp_path: Path, page: Page) -> None:
    async with run_claude_daemon(tmp_path) as (daemon, endpoint):
        await page.goto(await asyncio.to_thread(lambda: daemon.address))
        await expect(page.locator(".live.on")).to_be_visible()
        await write(page, "ask them")
        card = page.get_by_role("region", name=re.compile("asks"))
        await card.get_by_role("button", name="Coffee").click()
        await expect(card.locator(".card-done")).to_have_text("Answered by Owner: Coffee.")
        await expect(said(page, "That is settled.")).to_have_count(1)
        await asyncio.to_thread(wait_until_quiet, daemon)
    assert count_result(endpoint, "Coffee") and count_result(endpoint, "answered")
