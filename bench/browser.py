"""The web face as a browser meets it: a real gateway with 1,000 groups, 100,000 messages and 10,000 open requests, and
a real Chromium. How much the first view brings, how long the server takes for each page, what 200 open pages cost; and
how soon the first words of an answer are on the page after the runner has them."""

import asyncio
import re
import shutil
import statistics
import tempfile
from collections.abc import Sequence
from pathlib import Path

import httpx2
from msgspec import Struct
from playwright.async_api import Browser, Page, async_playwright

import dashboard
from gatepost.core.clock import SystemClock
from gatepost.core.home import Home
from gatepost.store.engine.sqlite_db import connect
from gatepost_testing.daemon import DaemonProcess
from gatepost_testing.provider import ScriptBuilder
from measure import Figure, at_most

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
FLAGS = ["--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking"]
PAGES = ("", "/requests", "/sessions", "/ledger", "/groups", "/costs", "/people", "/rooms", "/tasks")
TIMES = 5
LARGEST_KB, SLOWEST_MS, OPEN_PAGES, LARGEST_MB = 150.0, 200.0, 200, 100.0
ANSWERS, FIRST_TOKEN_MS = 30, 50.0
# From the request's last byte to the answer's first, as the browser has it; and all that came over the wire.
TIMING = """() => {
  const page = performance.getEntriesByType("navigation")[0];
  const all = [page, ...performance.getEntriesByType("resource")];
  return [page.responseStart - page.requestStart, all.reduce((sum, each) => sum + each.transferSize, 0)];
}"""

# A draft says when it was written, in microseconds; the page says how many milliseconds later it has it. All processes
# of a machine have one clock.
WATCH = """() => {
  window.taken = [];
  const seen = new Set();
  new MutationObserver(() => {
    const now = performance.timeOrigin + performance.now();
    for (const each of document.querySelectorAll(".message.draft .body")) {
      const text = each.textContent.trim();
      if (/^\\d{16}$/.test(text) && !seen.has(text)) {
        seen.add(text);
        window.taken.push(now - Number(text) / 1000);
      }
    }
  }).observe(document.body, { childList: true, subtree: true, characterData: true });
}"""


class PageVisit(Struct, frozen=True):
    path: str
    server_ms: float
    bytes: int


async def figures(
    groups: int = 1000,
    messages: int = 100_000,
    asked: int = 10_000,
    open_pages: int = OPEN_PAGES,
    answers: int = ANSWERS,
) -> list[Figure]:
    if CHROMIUM is None:
        raise RuntimeError("there is no Chromium here: `make setup-test` says how to get one")
    with tempfile.TemporaryDirectory() as folder:
        home = Home(Path(folder) / "home")
        home.prepare()
        dashboard.build(home.store, groups, messages, asked, SystemClock().now())
        settle(home.store)
        # 200 pages of one address are a proxy's.
        with DaemonProcess(home.path, http_connections_per_peer="0") as daemon:
            first, visits = await _visit(daemon)
            grown_mb = await measure_open_pages(daemon, open_pages)
    tokens = await measure_first_tokens(answers)
    slowest = max(visits, key=lambda each: each.server_ms)
    print("browser:", ", ".join(f"{each.path or '/'} {each.server_ms:.0f} ms" for each in visits))
    return [
        at_most("browser_first_view_kb", first.bytes / 1000, "kB", LARGEST_KB, LARGEST_KB),
        at_most("browser_overview_ms", visits[0].server_ms, "ms", SLOWEST_MS, SLOWEST_MS),
        at_most("browser_slowest_ms", slowest.server_ms, "ms", SLOWEST_MS, SLOWEST_MS),
        at_most("browser_open_pages_mb", grown_mb, "MB", LARGEST_MB, LARGEST_MB),
        *make_token_figures(tokens),
    ]


def make_token_figures(taken: Sequence[float]) -> list[Figure]:
    """The worst of them is the promise; the median says what people usually have."""
    return [
        at_most("browser_first_token_ms", statistics.median(taken), "ms", FIRST_TOKEN_MS, FIRST_TOKEN_MS),
        at_most("browser_first_token_worst_ms", max(taken), "ms", FIRST_TOKEN_MS, FIRST_TOKEN_MS),
    ]


async def measure_first_tokens(count: int) -> list[float]:
    """In milliseconds, from the provider's clock to the page's. The first answer starts the sandbox and the renderer,
    and is left out."""
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder) / "h"
        script = ScriptBuilder().turn().draft("{now}").wait(0.1).say("done")
        script.write(Home(home).group("home")).chmod(0o644)
        settings = {"sandbox_kind": "process", "sandbox_least_free_mb": "0", "sessions_provider": "scripted"}
        with DaemonProcess(home, **settings) as daemon:
            async with async_playwright() as playwright:
                browser = await playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
                page = await _sign_in(browser, daemon)
                await page.evaluate(WATCH)
                for number in range(count + 1):
                    await _have_answer(page, number)
                taken = await page.evaluate("window.taken")
                await browser.close()
    assert len(taken) == count + 1, f"{len(taken)} of {count + 1} drafts were seen"
    return [float(each) for each in taken[1:]]


async def _have_answer(page: Page, number: int) -> None:
    await page.get_by_label("Message", exact=True).fill(f"go {number}")
    await page.keyboard.press("Enter")
    await page.locator(".message:not(.mine):not(.draft) .body", has_text="done").nth(number).wait_for()


def settle(path: Path) -> None:
    """Nothing waits for an agent: else the gateway wakes a hundred of them, and it is they who are measured."""
    connection = connect(path)
    connection.execute("UPDATE inbox SET state = 'answered', next_at = NULL WHERE next_at IS NOT NULL")
    connection.close()


async def _visit(daemon: DaemonProcess) -> tuple[PageVisit, list[PageVisit]]:
    """The first view, with an empty cache, and the medians of every page."""
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        try:
            page = await _sign_in(browser, daemon)
            base = page.url.partition("/#")[0].rstrip("/")
            client = await page.context.new_cdp_session(page)
            await client.send("Network.clearBrowserCache")
            first = await _open(page, base, "")
            return first, [await _measure(page, base, path) for path in PAGES]
        finally:
            await browser.close()


async def _sign_in(browser: Browser, daemon: DaemonProcess) -> Page:
    page = await browser.new_page()
    await page.goto(daemon.address)
    await page.locator(".live.on").wait_for()
    return page


async def _open(page: Page, base: str, path: str) -> PageVisit:
    await page.goto(f"{base}/dashboard{path}", wait_until="load")
    server_ms, size = await page.evaluate(TIMING)
    return PageVisit(path, server_ms, int(size))


async def _measure(page: Page, base: str, path: str) -> PageVisit:
    visits = [await _open(page, base, path) for _ in range(TIMES)]
    return PageVisit(path, statistics.median(each.server_ms for each in visits), visits[-1].bytes)


async def measure_open_pages(daemon: DaemonProcess, count: int) -> float:
    """By how many megabytes the gateway grows while so many pages are open, each of which has shown the overview once
    and follows what changes."""
    base, _, token = daemon.address.partition("/#token=")
    async with httpx2.AsyncClient(
        base_url=base, limits=httpx2.Limits(max_connections=count + 8), timeout=120
    ) as client:
        ours = {"x-gatepost": "1", "origin": base}
        (await client.post("/login", json={"token": token}, headers=ours)).raise_for_status()
        for _ in range(TIMES):  # what the first page needs is not the price of a further one
            (await client.get("/dashboard/")).raise_for_status()
        before = _read_resident_mb(daemon.pid)
        opened = [await _follow(client) for _ in range(count)]
        await _ask_all(client, count)
        grown = _read_resident_mb(daemon.pid) - before
        for each in opened:
            await each.aclose()
    return max(grown, 0.0)


async def _follow(client: httpx2.AsyncClient) -> httpx2.Response:
    stream = await client.send(client.build_request("GET", "/dashboard/live"), stream=True)
    stream.raise_for_status()
    return stream


async def _ask_all(client: httpx2.AsyncClient, count: int) -> Sequence[httpx2.Response]:
    """As pages do that are told of a change: all at once, as far as the gateway lets them."""

    async def ask() -> httpx2.Response:
        answer = await client.get("/dashboard/", headers={"hx-request": "true"})
        while answer.status_code == 429:
            await asyncio.sleep(float(answer.headers.get("retry-after", "1")))
            answer = await client.get("/dashboard/", headers={"hx-request": "true"})
        return answer.raise_for_status()

    return await asyncio.gather(*(ask() for _ in range(count)))


def _read_resident_mb(pid: int) -> float:
    found = re.search(r"VmRSS:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())
    assert found is not None
    return int(found[1]) / 1000
