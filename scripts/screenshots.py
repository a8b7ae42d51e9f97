"""`make screenshots`: every page in light, dark and phone size, of a gateway of its own with a few things in it; and
the one that says that there is no such page.

    python scripts/screenshots.py [FOLDER]     docs/screenshots unless it is named

A page of one thing (`/tasks/{id}`) is that of the first thing which its list links to; one without any is left out.
"""

import asyncio
import shutil
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from playwright.async_api import Browser, Page, async_playwright

from gatepost.core.clock import DAY, MINUTE, SystemClock
from gatepost.core.home import Home
from gatepost.serve.web.dashboard.contract import PAGES
from gatepost.store.engine.sqlite_db import SqliteDb, connect
from gatepost.store.money import costs
from gatepost.store.money.costs import NewCost
from gatepost.store.port import Db
from gatepost.store.rights import requests
from gatepost.store.rights.requests import NewRequest, RequestKind
from gatepost_testing.daemon import DaemonProcess
from gatepost_testing.waiting import PATIENCE_S

FOLDER = Path(__file__).resolve().parents[1] / "docs" / "screenshots"
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
FLAGS = ["--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking"]
LOOKS = {"light": ("light", 1280, 800), "dark": ("dark", 1280, 800), "phone": ("light", 390, 844)}
CONTENTS: tuple[tuple[str, ...], ...] = (
    ("group", "add", "acme", "--name", "Acme"),
    ("group", "add", "acme/eng", "--name", "Engineering"),
    ("group", "add", "acme/sales", "--name", "Sales"),
    ("user", "add", "telegram:user/1001", "--name", "Ada Brandt"),
    ("user", "add", "slack:user/U2002", "--name", "Ben Okafor"),
    ("user", "role", "telegram:user/1001", "admin", "--folder", "acme"),
    ("user", "member", "slack:user/U2002", "acme/eng"),
    ("budget", "set", "acme", "--daily", "5", "--monthly", "80"),
    ("grant", "add", "acme/eng", "hold send_file"),
    ("egress", "allow", "api.github.com", "--folder", "acme/eng"),
    ("invite", "add", "acme/eng", "--label", "new colleagues", "--uses", "5"),
    ("token", "add", "webhook", "acme/eng", "--label", "Deploys"),
    ("site", "set", "acme/eng", "/pub/acme/eng/docs", "public"),
    ("secret", "set", "GITHUB_TOKEN", "for-pictures-only", "--folder", "acme/eng"),
    ("agent", "run", "Collect what was decided this week.", "--title", "Decisions"),
    ("chat", "-m", "hello", "--wait"),
    ("chat", "-m", "note The release goes out on Friday at noon.", "--wait"),
    ("task", "add", "home", "--prompt", "Write what changed since yesterday.", "--cron", "0 8 * * 1-5"),
    ("task", "add", "home", "--text", "Stand-up in ten minutes.", "--every", "1d"),
)
DAYS, SPENDER = 14, "telegram:user/1001"
SPENT = (("acme/eng", "claude-sonnet-4-5", 840_000), ("acme/sales", "gpt-5-mini", 310_000))
ASKED: tuple[tuple[str, dict[str, Any]], ...] = (
    ("send_file", {"path": "reports/november.pdf", "caption": "The report of November"}),
    ("send_file", {"path": "invoices/2026-117.pdf", "caption": "For Ada, as asked"}),
)
WORDS = ("Hello!", "note The release goes out on **Friday** at noon.", "What do you know about the release?")


def fill(daemon: DaemonProcess) -> None:
    for words in CONTENTS:
        done = daemon.gatepost(*words)
        if done.returncode:
            raise SystemExit(f"screenshots: gatepost {' '.join(words)}: {done.stderr.strip()}")
    connection = connect(Home(daemon.home).store)
    try:
        db = SqliteDb(connection)
        db.run("BEGIN IMMEDIATE")
        add_past(db, SystemClock().now())
        db.run("COMMIT")
    finally:
        connection.close()


def add_past(db: Db, now: int) -> None:
    """What no command makes: two weeks of spending, and a call that waits for a person."""
    for day in range(DAYS):
        for folder, model, micro in SPENT:
            key, at = f"picture/{day}/{folder}", now - day * DAY
            spent = micro * (3 + day * 5 % 7) // 6
            costs.add_external(db, NewCost(key=key, at=at, folder=folder, model=model, micro=spent, user=SPENDER), now)
    for number, (tool, given) in enumerate(ASKED):
        asked = NewRequest(
            kind=RequestKind.CALL,
            name=f"picture-{number}",
            digest=str(number),
            folder="acme/eng",
            tool=tool,
            input=given,
            why="the rule `hold` of acme/eng",
            expires_at=now + DAY,
        )
        requests.add(db, asked, now - number * MINUTE)


async def enter(page: Page, daemon: DaemonProcess) -> str:
    """Sign in; the address of the site."""
    address = daemon.address
    await page.goto(address)
    await page.locator(".live.on").wait_for()
    return address.partition("/#")[0]


async def talk(page: Page) -> None:
    """So that the chat shows one."""
    for number, words in enumerate(WORDS, 1):
        await page.get_by_label("Message", exact=True).fill(words)
        await page.keyboard.press("Enter")
        await page.locator(".message:not(.mine) .body").nth(number - 1).wait_for()


async def find_address(page: Page, base: str, path: str) -> str:
    """Of the page at a path; '' if there is nothing to show."""
    start, hole, _ = path.partition("{")
    if not hole:
        return f"{base}/dashboard{path}"
    lists = [each for each, _ in PAGES.items() if "{" not in each and start.startswith(each)]
    await page.goto(f"{base}/dashboard{max(lists, key=len)}")
    links = page.locator(f'main a[href^="/dashboard{start}"]')
    return f"{base}{await links.first.get_attribute('href')}" if await links.count() else ""


async def take(browser: Browser, daemon: DaemonProcess, folder: Path, look: str, paths: Sequence[str]) -> list[str]:
    """Every page in one look; those that have nothing to show."""
    scheme, width, height = LOOKS[look]
    context = await browser.new_context(
        viewport={"width": width, "height": height},
        color_scheme="dark" if scheme == "dark" else "light",
        locale="en-GB",
        reduced_motion="reduce",
    )
    context.set_default_timeout(PATIENCE_S * 1000)
    page = await context.new_page()
    base = await enter(page, daemon)
    if look == "light":
        await talk(page)
    await page.screenshot(path=folder / f"chat-{look}.png")
    left = []
    for path in paths:
        address = await find_address(page, base, path)
        if not address:
            left.append(path)
            continue
        await page.goto(address)
        await page.locator("#live.on").wait_for(state="attached")
        await page.screenshot(path=folder / f"{get_name(path)}-{look}.png")
    await page.goto(f"{base}/dashboard/nothing-is-here")
    await page.screenshot(path=folder / f"not-found-{look}.png")
    await context.close()
    return left


def get_name(path: str) -> str:
    """`/tasks/{id}` is `tasks-id`; the first page of the dashboard is `overview`."""
    return path.strip("/").replace("/", "-").replace("{", "").replace("}", "") or "overview"


async def run(folder: Path) -> None:
    paths = sorted(path for path, _ in PAGES.items())
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as home:
        with DaemonProcess(Path(home) / "home", sessions_provider="demo") as daemon:
            fill(daemon)
            async with async_playwright() as playwright:
                browser = await playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
                for look in LOOKS:
                    left = await take(browser, daemon, folder, look, paths)
                await browser.close()
    print(f"screenshots: {len(paths) + 1 - len(left)} pages in {len(LOOKS)} looks, in {folder}")
    for path in left:
        print(f"screenshots: there is nothing to show on {path}")


def main() -> int:
    if CHROMIUM is None:
        print("screenshots: Chromium is not installed (`apt-get install chromium`)", file=sys.stderr)
        return 2
    asyncio.run(run(Path(sys.argv[1]) if len(sys.argv) > 1 else FOLDER))
    return 0


if __name__ == "__main__":
    sys.exit(main())
