"""From the demo to the first answer of a real agent, through the browser alone."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from playwright.async_api import BrowserContext, Page, expect
from tests.browsers import needs_chromium, visit

from gatepost.sandboxes.bubblewrap import find_bwrap
from gatepost_testing.daemon import DaemonProcess
from gatepost_testing.models import ModelEndpoint

KEY = "sk-very-secret-000"
ANTHROPIC = "A model behind Anthropic's API"
SCRIPT = {"turns": [{"when": "one word: ready", "do": [{"say": "ready"}]}]}
NO_KEYS = {"ANTHROPIC_API_KEY": "", "ANTHROPIC_AUTH_TOKEN": "", "OPENAI_API_KEY": ""}

pytestmark = [
    needs_chromium,
    pytest.mark.skipif(find_bwrap() is None, reason="bubblewrap is not installed"),
]


class ClickCounter:
    def __init__(self, page: Page) -> None:
        self.page, self.count = page, 0

    async def __call__(self, role: str, name: str) -> None:
        self.count += 1
        await self.page.get_by_role(role, name=name, exact=role != "link").first.click()


@pytest.fixture
async def page(window: BrowserContext) -> AsyncIterator[Page]:
    async with visit(window) as page:
        yield page


@pytest.mark.slow
@pytest.mark.page(
    "agents",
    "user.rename: Keep the name",
    "connect.check: Look what is here",
    "connect.try: Ask it for one word",
    "connect.keep: Let it answer in the chat",
)
async def test_a_real_agent_answers_after_at_most_six_clicks_and_one_paste(page: Page, tmp_path: Path) -> None:
    tmp_path.chmod(0o711)
    async with ModelEndpoint(SCRIPT, key=KEY) as endpoint:
        daemon = DaemonProcess(tmp_path / "home", anthropic_base_url=endpoint.anthropic)
        daemon.env |= NO_KEYS
        with daemon:
            clicks = ClickCounter(page)
            await page.goto(daemon.address)
            await clicks("link", "Connect an agent")
            await page.get_by_label("Your name").fill("Ada")
            await clicks("button", "Save")
            await expect(page.get_by_role("heading", name="Connect an agent")).to_be_visible()
            await clicks("link", ANTHROPIC)
            await page.get_by_label("Key", exact=True).fill("sk-wrong-0000000000")
            await page.keyboard.press("Enter")
            await expect(page.locator(".form-steps .failed")).to_contain_text("Paste another key")
            assert daemon.json("group", "show", "home")["provider"] == ""

            await page.get_by_label("Key", exact=True).fill(KEY)
            await clicks("button", "Connect")
            await expect(page.locator(".form-steps .passed")).to_have_count(3)
            await clicks("link", "Go on")
            await clicks("link", "Say hello")
            await expect(page.locator(".live.on")).to_be_visible()  # else what is typed stays in the field
            await page.get_by_label("Message", exact=True).fill("hello there")
            await page.keyboard.press("Enter")
            replies = page.locator(".message:not(.mine) .body")
            await expect(replies.filter(has_text="hello there").first).to_be_visible()

            assert clicks.count <= 6
            await expect(page.locator("#first-run")).to_be_hidden()
            assert daemon.json("group", "show", "home")["provider"] == "anthropic"
            assert endpoint.calls[-1].headers["x-api-key"] == KEY
            assert KEY not in await page.content() and KEY not in daemon.stderr()
            [person] = daemon.json("user", "list")
            assert person["name"] == "Ada"


# Stands in for npm: what it is told to fetch is there, for every platform.
NPM = """#!/bin/sh
while [ "$1" != --prefix ]; do shift; done
folder="$2/node_modules/@openai/codex-linux-$(uname -m | sed s/aarch64/arm64/ | sed s/x86_64/x64/)/vendor/any/codex"
mkdir -p "$folder" && cp /bin/true "$folder/codex"
"""
NO_NPM = "#!/bin/sh\necho the registry is away >&2\nexit 1\n"


@pytest.mark.slow
@pytest.mark.page("agents", "connect.install: Install it")
async def test_an_agent_that_is_missing_is_installed_from_the_page_which_says_what_failed(
    page: Page, tmp_path: Path
) -> None:
    npm = tmp_path / "bin" / "npm"
    npm.parent.mkdir()
    npm.write_text(NO_NPM)
    npm.chmod(0o755)
    daemon = DaemonProcess(tmp_path / "home")
    daemon.env |= NO_KEYS | {"PATH": f"{npm.parent}:/usr/bin:/bin"}
    with daemon:
        await page.goto(daemon.address)
        await expect(page.locator(".live.on")).to_be_visible()
        await page.goto(f"{daemon.address.partition('/#')[0]}/dashboard/welcome/agent")
        await page.get_by_role("link", name="Codex").click()
        await page.get_by_label("Key", exact=True).fill(KEY)
        await page.get_by_role("button", name="Connect", exact=True).click()
        step = page.locator('.form-steps [data-operation="connect.install"]')
        await expect(step).to_have_class("failed")
        await expect(step).to_contain_text("the registry is away")
        npm.write_text(NPM)
        await page.get_by_role("button", name="Connect", exact=True).click()
        await expect(step).to_have_class("passed")
        await expect(step).to_contain_text("was installed")
        assert (daemon.home / "programs" / "codex").resolve().is_file()
