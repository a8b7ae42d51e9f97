"""Attacks on the web site by texts of strangers, by pages of others and by odd requests. All of them fail."""

import asyncio
import html.parser
import http.client
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from urllib.parse import quote, urlsplit

import httpx2
import pytest
from playwright.async_api import Browser, BrowserContext, Page, expect
from tests.browsers import needs_chromium

from gatepost.serve.web.dashboard.contract import PAGES
from gatepost.store.engine.sqlite_store import SqliteStore
from gatepost_testing.clients.web_manners import make_manners
from gatepost_testing.daemon import DaemonProcess
from gatepost_testing.waiting import PATIENCE_S

from .foreign_page import FOLLOW, PRESS, READ, ForeignServer, serve_foreign_page
from .page_desk import HOLE, get_address, serve_pages

pytestmark = needs_chromium

# Leaves a text, an attribute of either quote, a script, a comment, a title, a text box; and is an address that runs.
HOSTILE = (
    "javascript:hurt()//\"' data-planted='1' data-planted=\"1\" autofocus onfocus='hurt()'>"
    "</script></style></title></textarea></select></pre>--><b data-planted>x</b>"
    "<img data-planted src=/none onerror=hurt()><svg data-planted onload=hurt()>{{7*7}}"
)
WATCH = """
window.troubles = [];
window.hurt = () => window.troubles.push("a script ran");
addEventListener("securitypolicyviolation", (e) => window.troubles.push(`${e.violatedDirective} ${e.blockedURI}`));
addEventListener("error", (e) => window.troubles.push(String(e.message)));
"""
# Whatever a browser would go to, by itself or when somebody clicks.
FIND_PLANTED = """() => {
  const addresses = [...document.querySelectorAll("[href], [src], [action], [formaction], [hx-get], [hx-post]")]
    .flatMap((at) => ["href", "src", "action", "formaction", "hx-get", "hx-post"].map((name) => at.getAttribute(name)))
    .filter((address) => address !== null && new URL(address, location.href).origin !== location.origin);
  const planted = [...document.querySelectorAll("[data-planted]")].map((at) => at.outerHTML);
  return [...window.troubles, ...addresses, ...planted];
}"""
MARK = "No text of the gateway's files may come out."


@pytest.fixture
async def context(browser: Browser) -> AsyncIterator[BrowserContext]:
    made = await browser.new_context(viewport={"width": 1180, "height": 760}, locale="en-GB")
    made.set_default_timeout(PATIENCE_S * 1000)
    await made.add_init_script(WATCH)
    yield made
    await made.close()


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DaemonProcess]:
    home = tmp_path_factory.mktemp("attacked") / "home"
    with DaemonProcess(home, sandbox_kind="process", sessions_provider="demo") as running:
        (home / "mark.txt").write_text(MARK)
        yield running


@pytest.fixture(scope="module")
def foreign() -> Iterator[ForeignServer]:
    with serve_foreign_page() as server:
        yield server


def get_base(daemon: DaemonProcess) -> str:
    return daemon.banner[0].split()[-1].rstrip("/")


@pytest.fixture(scope="module")
def client(daemon: DaemonProcess) -> Iterator[httpx2.Client]:
    """Signed in, with what our page sends."""
    base, _, token = daemon.address.partition("/#token=")
    with httpx2.Client(base_url=base, timeout=PATIENCE_S, **make_manners(base)) as made:
        assert made.post("/login", json={"token": token}).status_code == 200
        yield made


async def enter(context: BrowserContext, daemon: DaemonProcess) -> Page:
    page = await context.new_page()
    await page.goto(daemon.address)
    await expect(page.locator(".live.on")).to_be_visible()
    return page


class PlantedTags(html.parser.HTMLParser):
    """The tags and attributes that a text has brought into a fragment."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            runs = name in ("href", "src", "action", "hx-get", "hx-post") and (value or "").startswith("javascript:")
            if name == "data-planted" or name.startswith("on") or runs:
                self.found.append(f"{tag} {name}={value}")


# Texts of strangers


@pytest.mark.slow
async def test_no_field_of_any_page_becomes_markup_or_an_address_that_runs(
    store: SqliteStore, tmp_path: Path, context: BrowserContext
) -> None:
    """Whatever an operation answers as a text: names, titles, texts, arguments, ids, labels."""
    async with serve_pages(store, tmp_path, HOSTILE) as site:
        page = await context.new_page()
        await site.enter(page)
        found, unseen = dict[str, list[str]](), []
        for address in site.list_addresses():
            answer = await page.goto(address)
            assert answer is not None and answer.status in (200, 400), address  # 400: too long for a name
            await page.wait_for_function("window.htmx !== undefined")
            found[address] = await page.evaluate(FIND_PLANTED)
            if "javascript:hurt" not in await page.locator("main").inner_text():
                unseen.append(address)
        assert {address: planted for address, planted in found.items() if planted} == {}
        assert len(unseen) <= len(found) // 4, unseen  # else the texts did not even arrive


async def test_no_text_in_a_form_a_refusal_or_an_answer_becomes_markup(store: SqliteStore, tmp_path: Path) -> None:
    async with serve_pages(store, tmp_path, HOSTILE) as site, site.client() as client:
        shown = [await client.get(f"/dashboard/do/task.add?folder={quote(HOSTILE)}&text={quote(HOSTILE)}")]
        shown += [await client.post("/dashboard/do/task.add", data={"folder": HOSTILE, "text": HOSTILE, "at": "+1h"})]
        shown += [await client.post("/dashboard/do/task.show", data={"id": HOSTILE, "runs": HOSTILE})]
        shown += [await client.post("/dashboard/do/task.add", data={HOSTILE: HOSTILE})]
        shown += [await client.get("/dashboard/palette")]
        for answer in shown:
            parser = PlantedTags()
            parser.feed(answer.text)
            assert parser.found == [] and "<b data-planted>" not in answer.text
        assert ["hurt(" in answer.text for answer in shown] == [True, True, True, True, False]


@pytest.mark.slow
async def test_no_text_of_an_address_becomes_markup(
    store: SqliteStore, tmp_path: Path, context: BrowserContext
) -> None:
    """A link that somebody sends: a search, a filter, a page that is not there."""
    given = quote(HOSTILE, safe="")
    async with serve_pages(store, tmp_path, "calm") as site:
        page = await context.new_page()
        await site.enter(page)
        names = ("q", "state", "which", "folder", "by", "days", "after", "before", "person", "scope", "action", "at")
        query = "&".join(f"{name}={given}" for name in names)
        for each in (page for _, page in PAGES.items() if not HOLE.search(page.path)):
            await page.goto(f"{site.base}{get_address(each, '')}?{query}")
            assert await page.evaluate(FIND_PLANTED) == [], each.path
        for address in (
            f"/dashboard/{given}",
            f"/pair/{given}",
            f"/invite/{given}",
            f"/session?x={given}#id={given}",
            f"/{given}",
        ):
            await page.goto(f"{site.base}{address}")
            assert await page.evaluate(FIND_PLANTED) == [], address


@pytest.mark.slow
async def test_no_text_of_a_person_or_an_agent_becomes_markup_in_the_chat(
    daemon: DaemonProcess, context: BrowserContext
) -> None:
    """The demo repeats what it is told, so the text comes from both sides."""
    page = await enter(context, daemon)
    await page.get_by_label("Message", exact=True).fill(HOSTILE)
    await page.keyboard.press("Enter")
    await expect(page.locator(".message:not(.mine) .body", has_text="hurt()").first).to_be_visible()
    assert await page.evaluate(FIND_PLANTED) == []
    await page.goto(f"{get_base(daemon)}/dashboard/ledger")
    await expect(page.get_by_text("javascript:hurt").first).to_be_visible()
    assert await page.evaluate(FIND_PLANTED) == []


# Pages of others

WRITES = (
    "/dashboard/do/group.add",
    "/v1/ops/group.add",
    "/api/messages",
    "/logout",
    "/login",
    "/api/clicks",
    "/api/pairing/confirm",
    "/api/invitation/accept",
)


@pytest.mark.slow
@pytest.mark.parametrize("place", ["origin", "near_origin"])
async def test_a_page_of_somebody_else_presses_no_button(
    daemon: DaemonProcess, context: BrowserContext, foreign: ForeignServer, place: str
) -> None:
    """Not even one on another port of this machine, to which browsers give the same cookies."""
    page = await enter(context, daemon)
    before = len(daemon.json("ledger", "list"))
    foreign.html = "<!doctype html><title>Free</title><iframe name=hidden></iframe>"
    other = await context.new_page()
    await other.goto(getattr(foreign, place))
    await other.evaluate(PRESS, [get_base(daemon), list(WRITES)])
    assert "planted" not in {group["folder"] for group in daemon.json("group", "list")}
    assert len(daemon.json("ledger", "list")) == before
    await page.reload()
    await expect(page.locator("#text")).to_be_visible()  # nobody was signed out


@pytest.mark.slow
@pytest.mark.parametrize("place", ["origin", "near_origin"])
async def test_a_page_of_somebody_else_reads_and_follows_nothing(
    daemon: DaemonProcess, context: BrowserContext, foreign: ForeignServer, place: str
) -> None:
    page = await enter(context, daemon)
    await expect(page.locator(".live.on")).to_be_visible()
    foreign.html = "<!doctype html><title>Free</title>"
    other = await context.new_page()
    await other.goto(getattr(foreign, place))
    for path in ("/api/events", "/dashboard/live"):
        assert await other.evaluate(FOLLOW, [get_base(daemon), path]) == "refused"
    for path in ("/", "/api/start", "/dashboard/ledger?format=json", "/static/chat.js", "/metrics", "/openapi.json"):
        assert await other.evaluate(READ, [get_base(daemon), path]) == "refused"
    await page.get_by_label("Message", exact=True).fill("still here?")
    await page.keyboard.press("Enter")  # a stream that somebody else asked for ends no stream of ours
    await expect(page.locator(".message:not(.mine) .body", has_text="still here?").first).to_be_visible()


@pytest.mark.slow
def test_a_read_that_another_site_makes_is_refused_before_it_is_answered(client: httpx2.Client) -> None:
    """A browser says for whom it asks. What it follows as a link is shown to the person and to nobody else."""
    for site in ("cross-site", "same-site"):
        asked = {"sec-fetch-site": site, "sec-fetch-mode": "no-cors"}
        for path in ("/api/start", "/dashboard/ledger?format=json", "/dashboard/live"):
            assert client.get(path, headers=asked).status_code == 403
        link = {"sec-fetch-site": site, "sec-fetch-mode": "navigate", "sec-fetch-dest": "document"}
        assert client.get("/dashboard/ledger", headers=link).status_code == 200
    assert client.get("/api/start", headers={"sec-fetch-site": "same-origin"}).status_code == 200


@pytest.mark.slow
async def test_no_page_is_shown_in_a_frame_of_somebody_else(
    daemon: DaemonProcess, context: BrowserContext, client: httpx2.Client, foreign: ForeignServer
) -> None:
    await enter(context, daemon)
    base = get_base(daemon)
    paths = ["/", "/session", "/pair/x", "/invite/x", *(get_address(each, "x") for _, each in PAGES.items())]
    for path in paths:
        headers = client.get(path).headers
        assert "frame-ancestors 'none'" in headers["content-security-policy"], path
        assert headers["x-frame-options"] == "DENY", path
    foreign.html = "".join(f'<iframe src="{base}{path}"></iframe>' for path in ("/", "/dashboard/ledger"))
    other = await context.new_page()
    await other.goto(foreign.near_origin)
    for frame in other.frames[1:]:
        assert await frame.locator("#text, main").count() == 0 and not frame.url.startswith(base)


@pytest.mark.slow
async def test_a_link_out_of_the_chat_says_nothing_of_where_it_was(
    daemon: DaemonProcess, context: BrowserContext, foreign: ForeignServer
) -> None:
    page = await enter(context, daemon)
    assert "token" not in page.url
    foreign.html, foreign.received[:] = "<script>document.title = String(window.opener)</script>", []
    await page.get_by_label("Message", exact=True).fill(f"see {foreign.origin}/outside")
    await page.keyboard.press("Enter")
    link = page.locator(".message .body a[href$='/outside']").first
    async with context.expect_page() as opening:
        await link.click()
    other = await opening.value
    await expect(other).to_have_title("null")
    headers = next(headers for path, headers in foreign.received if path == "/outside")
    assert "referer" not in headers and "cookie" not in headers
    await page.go_back()
    assert "token" not in page.url  # the one-time token is in no history


# Odd requests


def send_raw(base: str, path: str, host: str = "", cookie: str = "") -> tuple[int, dict[str, str], str]:
    """A path as it is written, which clients would clean."""
    where = urlsplit(base)
    connection = http.client.HTTPConnection(where.hostname or "", where.port, timeout=PATIENCE_S)
    try:
        connection.putrequest("GET", path, skip_host=True)
        connection.putheader("Host", host or where.netloc)
        connection.putheader("Cookie", cookie)
        connection.endheaders()
        answer = connection.getresponse()
        headers = {name.lower(): value for name, value in answer.getheaders()}
        return answer.status, headers, answer.read(1_000_000).decode(errors="replace")
    finally:
        connection.close()


def get_cookie(client: httpx2.Client) -> str:
    return "; ".join(f"{name}={value}" for name, value in client.cookies.items())


@pytest.mark.parametrize("path", ["/", "/dashboard/ledger", "/api/start", "/static/chat.js", "/metrics", "/nowhere"])
@pytest.mark.parametrize(
    "host", ["evil.example", "127.0.0.1.evil.example", "localhost@evil.example", "evil.example:80"]
)
def test_a_name_that_was_bent_to_point_here_is_refused(client: httpx2.Client, path: str, host: str) -> None:
    status, headers, body = send_raw(str(client.base_url), path, host, get_cookie(client))
    assert status in (400, 403) and "location" not in headers and "Gatepost" not in body


@pytest.mark.parametrize(
    "path",
    [
        *("//evil.example", "//evil.example/", "///evil.example/%2e%2e", "/\\evil.example/", "/%5cevil.example/"),
        *("/dashboard", "/dashboard//evil.example", "/dashboard/tasks/", "/static//evil.example/", "/static"),
        *("/?next=//evil.example", "/login?next=http://evil.example/", "/dashboard?next=//evil.example", "/api"),
        *("/%0d%0aLocation:%20http://evil.example/", "/dashboard/%0d%0aSet-Cookie:%20a=b", "/pair//evil.example/"),
    ],
)
def test_no_address_leads_elsewhere(client: httpx2.Client, path: str) -> None:
    base = str(client.base_url)
    _, headers, _ = send_raw(base, path, cookie=get_cookie(client))
    leads = headers.get("location", "/")
    assert not leads.startswith(("//", "/\\")) and urlsplit(leads).netloc in ("", urlsplit(base).netloc)
    assert not urlsplit(leads).path.startswith("//") and "set-cookie" not in headers


STEPS = (
    "../",
    "..%2f",
    "%2e%2e/",
    "%2e%2e%2f",
    "..%5c",
    "..\\",
    "..;/",
    "%252e%252e%252f",
    "./.././",
    "..%c0%af",
    "..%00/",
)


@pytest.mark.parametrize(
    "start", ["/static/", "/static/vendor/", "/api/files/", "/dashboard/", "/dashboard/groups/", "/"]
)
def test_no_path_leaves_its_folder(client: httpx2.Client, daemon: DaemonProcess, start: str) -> None:
    base, cookie, home = str(client.base_url), get_cookie(client), str(daemon.home).lstrip("/")
    for step in STEPS:
        for wanted in (f"{step * 12}{home}/mark.txt", f"{step}site.py", f"{step}templates/page.html", "/etc/passwd"):
            status, _, body = send_raw(base, f"{start}{wanted}", cookie=cookie)
            assert MARK not in body and "root:" not in body and "import asyncio" not in body, (start, wanted)
            assert "{% block" not in body and status < 500, (start, wanted)


UPLOADS = {
    "picture.svg": (
        "image/svg+xml",
        "<svg xmlns='http://www.w3.org/2000/svg' onload='hurt()'><script>hurt()</script></svg>",
    ),
    "page.html": ("text/html", "<script>hurt()</script>"),
    "page.xhtml": (
        "application/xhtml+xml",
        "<html xmlns='http://www.w3.org/1999/xhtml'><script>hurt()</script></html>",
    ),
    "sniffed.png": ("image/png", "<html><script>hurt()</script></html>"),
    "feed.xml": ("text/xml", "<?xml-stylesheet href='javascript:hurt()'?><a/>"),
}


@pytest.mark.slow
async def test_no_file_that_somebody_sends_is_a_document_of_ours(
    daemon: DaemonProcess, context: BrowserContext, client: httpx2.Client
) -> None:
    files = [("file", (name, text.encode(), mime)) for name, (mime, text) in UPLOADS.items()]
    sent = client.post("/api/messages", data={"text": "files", "id": "attack-0001"}, files=files)
    assert sent.status_code == 200, sent.text
    message = next(each for each in client.get("/api/messages").json()["messages"][::-1] if each["files"])
    assert len(message["files"]) == len(UPLOADS)
    page = await enter(context, daemon)
    for file in message["files"]:
        headers = client.get(file["url"]).headers
        shown = headers["content-type"] == "image/png"
        assert shown or (headers["content-type"], headers["content-disposition"][:10]) == (
            "application/octet-stream",
            "attachment",
        )
        assert (
            headers["x-content-type-options"] == "nosniff"
            and "default-src 'none'" in headers["content-security-policy"]
        )
        if shown:
            await page.goto(f"{get_base(daemon)}{file['url']}")
            assert await page.evaluate("window.troubles") == [] and await page.locator("script").count() == 0
        else:
            async with page.expect_download():
                await asyncio.gather(page.goto(f"{get_base(daemon)}{file['url']}"), return_exceptions=True)
