"""A chat link before a real daemon and a real browser: a site of somebody else shows it, and gets nothing else."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from playwright.async_api import Browser, BrowserContext, Frame, Page, Route, expect
from tests.browsers import add_context, needs_chromium

from gatepost.core.home import Home
from gatepost_testing.daemon import DaemonProcess
from gatepost_testing.provider import ScriptBuilder

from .foreign_page import ForeignServer, serve_foreign_page

pytestmark = needs_chromium
ASK = """async (paths) => {
  const headers = { "x-gatepost": "1" };
  const ask = (path) => fetch(path, { headers }).then((answer) => answer.status, () => "blocked");
  return await Promise.all(paths.map(ask));
}"""
FOLLOW = """() => new Promise((done) => {
  const source = new EventSource("/api/events");
  source.onopen = () => done("open");
  source.onerror = () => done("blocked");
})"""


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DaemonProcess]:
    home: Path = tmp_path_factory.mktemp("widget") / "home"
    with DaemonProcess(home, sandbox_kind="process", sessions_provider="scripted") as running:
        running.json("group", "add", "shop")
        script = (
            ScriptBuilder().turn("open").say("We open at **nine**.").turn("attack").say("<img src=x onerror=alert(1)>")
        )
        script.write(Home(home).group("shop")).chmod(0o644)
        yield running


@pytest.fixture
def foreign() -> Iterator[ForeignServer]:
    with serve_foreign_page() as server:
        yield server


@pytest.fixture
async def context(browser: Browser) -> AsyncIterator[BrowserContext]:
    made = await add_context(browser)
    yield made
    await made.close()


def issue(daemon: DaemonProcess, *origins: str) -> tuple[str, str]:
    """Its id and its address."""
    options = [part for each in origins for part in ("--origins", each)]
    made = daemon.json("token", "add", "chat_link", "shop", *options)
    return str(made["token"]["id"]), str(made["url"])


def embed(foreign: ForeignServer, url: str) -> None:
    base = url.partition("/chat/")[0]
    script = f'<script src="{base}/static/widget.js" data-link="{url}" data-label="Ask the shop"></script>'
    foreign.html = f"<!doctype html><title>Shop</title><h1>Roses</h1>{script}"


async def open_widget(context: BrowserContext, address: str) -> tuple[Page, Frame]:
    page = await context.new_page()
    await page.goto(address)
    await page.get_by_role("button", name="Ask the shop").press("Enter")
    handle = await page.locator("iframe").element_handle()
    assert handle is not None
    frame = await handle.content_frame()
    assert frame is not None
    return page, frame


async def write(frame: Frame | Page, text: str) -> None:
    await frame.get_by_label("Message", exact=True).fill(text)
    await frame.get_by_label("Message", exact=True).press("Enter")


@pytest.mark.slow
@pytest.mark.parametrize("place", ["origin", pytest.param("near_origin", marks=pytest.mark.slow)])
async def test_a_site_that_the_link_names_shows_the_chat_and_its_visitor_is_answered(
    daemon: DaemonProcess, context: BrowserContext, foreign: ForeignServer, place: str
) -> None:
    token, url = issue(daemon, getattr(foreign, place))
    embed(foreign, url)
    await (await context.new_page()).goto(daemon.address)  # the owner is signed in beside it
    page, frame = await open_widget(context, getattr(foreign, place))
    await expect(frame.get_by_role("heading", level=1)).to_have_text("shop")

    await write(frame, "when do you open?")

    await expect(frame.locator(".message:not(.mine) .body strong")).to_have_text("nine")
    assert frame.url.endswith(f"/chat/#{url.rpartition('/')[2]}")
    rows = [row for row in daemon.json("ledger", "list") if row["text"] == "when do you open?"]
    assert rows[0]["folder"] == "shop" and rows[0]["sender"].startswith("web:visitor/")
    # The owner's cookie, which this browser has, gives the frame nothing: it may ask for nothing but its own.
    assert await frame.evaluate(ASK, ["/api/start", "/dashboard/", "/v1/ops/status"]) == ["blocked"] * 3
    assert await frame.evaluate(FOLLOW) == "blocked"
    await frame.get_by_label("Message", exact=True).press("Escape")
    await expect(page.locator("iframe")).to_be_hidden()
    await expect(page.get_by_role("button", name="Ask the shop")).to_be_focused()
    assert all(url.rpartition("/")[2] not in headers.get("referer", "") for _, headers in foreign.received)
    daemon.json("token", "rm", token)
    await page.get_by_role("button", name="Ask the shop").press("Enter")
    await expect(frame.get_by_role("alert")).to_have_text("This chat is closed.")


@pytest.mark.slow
async def test_a_site_that_the_link_does_not_name_cannot_show_it(
    daemon: DaemonProcess, context: BrowserContext, foreign: ForeignServer
) -> None:
    for origins in ((), ("https://shop.example",), (foreign.near_origin,)):
        _, url = issue(daemon, *origins)
        embed(foreign, url)
        page, frame = await open_widget(context, foreign.origin)
        await page.wait_for_load_state("load")
        await expect(frame.get_by_label("Message", exact=True)).to_have_count(0)
        assert "/chat/" not in frame.url
        await page.close()


async def test_what_was_lost_on_its_way_back_is_sent_again_and_said_once(
    daemon: DaemonProcess, context: BrowserContext
) -> None:
    _, url = issue(daemon)
    page = await context.new_page()
    await page.goto(url)
    lost = 0

    async def lose(route: Route) -> None:
        nonlocal lost
        if route.request.method == "POST" and not lost:
            lost += 1
            await route.fetch()  # it arrives, and nobody hears of it
            await route.abort()
        else:
            await route.continue_()

    await page.route("**/chat/api/messages", lose)
    await write(page, "open on mondays?")
    await expect(page.get_by_role("alert")).to_contain_text("does not answer")
    await expect(page.get_by_label("Message", exact=True)).to_have_value("open on mondays?")
    await page.get_by_label("Message", exact=True).press("Enter")
    await expect(page.get_by_role("alert")).to_be_hidden()
    await expect(page.locator(".message:not(.mine) .body strong")).to_have_text("nine")
    await expect(page.locator(".message.mine")).to_have_count(1)
    assert len([row for row in daemon.json("ledger", "list") if row["text"] == "open on mondays?"]) == 1


@pytest.mark.slow
async def test_the_address_alone_is_a_page_that_keeps_its_conversation_over_a_reload(
    daemon: DaemonProcess, context: BrowserContext
) -> None:
    complaints: list[str] = []
    _, url = issue(daemon)
    page = await context.new_page()
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("console", lambda said: complaints.append(said.text) if "Content Security" in said.text else None)
    await page.goto(url)
    await write(page, "this is an attack")
    answer = page.locator(".message:not(.mine) .body")
    await expect(answer).to_contain_text("<img src=x onerror=alert(1)>")
    await page.reload()
    await expect(answer).to_contain_text("<img src=x onerror=alert(1)>")
    await expect(page.locator(".message.mine")).to_have_count(1)
    other = await context.new_page()  # another tab is another visitor
    await other.goto(url)
    await expect(other.locator("#empty")).to_be_visible()
    assert complaints == []
    log = "".join(each.read_text(errors="replace") for each in daemon.home.rglob("*.log")) + daemon.stderr()
    assert url.rpartition("/")[2] not in log
