"""Pages of groups over HTTP: what is shown to whom, and what is not in the folder stays where it is."""

import asyncio
import http.client
import logging
import os
import re
import socket
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from gatepost.core.clock import SystemClock
from gatepost.core.home import Home
from gatepost.core.keyring import Keyring
from gatepost.flow.web.web_routes import NewWebRoute, RouteMaker, bind_host, set_route
from gatepost.serve.rate_limit import PeerRateLimiter
from gatepost.serve.web.signin.one_time_link import make_login_url
from gatepost.serve.web.signin.tickets import WebKeys
from gatepost.serve.web.sites.handlers import LONGEST_TICKET, TICKET_LASTS, SiteTickets
from gatepost.store.people import logins, users
from gatepost.store.port import Store
from gatepost.store.sessions import groups
from gatepost.store.web.web_routes import WebAccess
from gatepost_testing.waiting import PATIENCE_S

PERSON = RouteMaker(folder="", name="operator", now=1, reaches=lambda folder: True)
MARK = "nothing of this may come out"
HOST = "docs.example.com"


@pytest.fixture
async def pages(site: Any) -> Any:
    """acme's are public, but for /pub/acme/team; other's are not."""
    for folder in ("acme", "acme/eng", "other"):
        await site.store.write(groups.add, folder, folder, "", 1)
        for kind in ("public_html", "private_html"):
            place = site.home.group(folder) / kind
            (place / "docs").mkdir(parents=True)
            (place / "index.html").write_text(f"<h1>{folder} {kind}</h1>")
            (place / "docs" / "index.html").write_text(f"docs of {folder}")
            (place / "a.txt").write_text(f"{folder} {kind} text")
        (site.home.group(folder) / "AGENTS.md").write_text(MARK)
    await add_route(site, "/pub/acme", WebAccess.PUBLIC)
    await add_route(site, "/pub/acme/team", WebAccess.AUTH)
    await add_route(site, "/pub/acme/closed", WebAccess.DENY)
    await add_route(site, "/pub/acme/old", WebAccess.REDIRECT, "/pub/acme/docs/")
    return site


FRAMED = {"sec-fetch-dest": "iframe", "sec-fetch-mode": "navigate", "sec-fetch-site": "same-origin"}
LOADED = {"sec-fetch-dest": "image", "sec-fetch-mode": "no-cors", "sec-fetch-site": "cross-site"}


def read_frame(answer: Any) -> str:
    """The address of the agent's page in the page that frames it."""
    assert answer.status_code == 200 and 'sandbox="allow-scripts allow-forms"' in answer.text
    return str(re.search('<iframe [^>]* src="([^"]+)"', answer.text)[1])  # type: ignore[index]


async def add_route(site: Any, path: str, access: WebAccess, to: str = "") -> None:
    await site.store.write(set_route, NewWebRoute(path=path, access=access, redirect_to=to), PERSON)


def ask_raw(site: Any, path: str, host: str = "", method: str = "GET", **headers: str) -> tuple[int, Any, bytes]:
    """A path as it is written, which clients would clean."""
    where = urlsplit(site.base)
    connection = http.client.HTTPConnection(where.hostname or "", where.port, timeout=PATIENCE_S)
    try:
        connection.putrequest(method, path, skip_host=True)
        connection.putheader("Host", host or where.netloc)
        for name, value in headers.items():
            connection.putheader(name.replace("_", "-"), value)
        connection.endheaders()
        answer = connection.getresponse()
        return answer.status, answer.headers, answer.read(2_000_000)
    finally:
        connection.close()


async def ask(site: Any, path: str, host: str = "", method: str = "GET", **headers: str) -> tuple[int, Any, bytes]:
    return await asyncio.to_thread(lambda: ask_raw(site, path, host, method, **headers))


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/pub/acme/", b"<h1>acme public_html</h1>"),
        ("/pub/acme/docs/", b"docs of acme"),
        ("/pub/acme/a.txt", b"acme public_html text"),
        ("/pub//acme/./docs/%2e/index.html", b"docs of acme"),
        ("/pub/%61cme/a.txt", b"acme public_html text"),
    ],
)
async def test_public_files_are_shown_to_everybody(pages: Any, path: str, body: bytes) -> None:
    status, headers, found = await ask(pages, path)
    assert (status, found) == (200, body)
    policy = headers["content-security-policy"]
    assert policy.startswith("sandbox allow-scripts allow-forms allow-popups;") and "allow-same-origin" not in policy
    assert "default-src 'none'" in policy and "frame-ancestors 'none'" in policy
    assert f"connect-src {urlsplit(pages.base).netloc}/pub/acme/;" in policy
    assert (headers["x-content-type-options"], headers["x-frame-options"]) == ("nosniff", "DENY")
    assert (headers["referrer-policy"], headers["cross-origin-resource-policy"]) == ("no-referrer", "cross-origin")
    assert "set-cookie" not in headers


async def test_a_folder_without_a_slash_leads_to_the_one_with_it_and_none_is_listed(pages: Any) -> None:
    for path, to in (("/pub/acme", "/pub/acme/"), ("/pub/acme/docs", "/pub/acme/docs/")):
        status, headers, _ = await ask(pages, path)
        assert (status, headers["location"]) == (303, to)
    empty = pages.home.group("acme") / "public_html" / "empty"
    empty.mkdir()
    (empty / "x.txt").write_text("x")
    for path in ("/pub/acme/empty", "/pub/acme/empty/", "/pub/acme/a.txt/", "/pub/acme/none.html"):
        assert (await ask(pages, path))[0] == 404


@pytest.mark.parametrize(
    "path",
    [
        *("/pub/acme/../AGENTS.md", "/pub/acme/%2e%2e/AGENTS.md", "/pub/acme/..%2fAGENTS.md", "/pub/acme/docs/../../x"),
        *("/pub/acme/%2e%2e%2fAGENTS.md", "/pub/acme/%252e%252e/AGENTS.md", "/pub/acme/..%5cAGENTS.md", "/pub/..;/x"),
        *("/pub/acme/a.txt%00.html", "/pub/acme/a%0d%0ax", "/pub/acme%2fa.txt", "/pub/acme/%c0%ae%c0%ae/AGENTS.md"),
        *("/pub/../etc/passwd", "/pub/acme//../../../../etc/passwd", "/pub/", "/pub/acme/%"),
    ],
)
async def test_no_path_leads_out_of_the_folder(pages: Any, path: str) -> None:
    status, headers, body = await ask(pages, path)
    assert (
        status in (400, 401, 404) and MARK.encode() not in body and b"root:" not in body and "location" not in headers
    )


async def test_no_link_no_second_name_no_pipe_and_no_hidden_file_is_opened(pages: Any, tmp_path: Path) -> None:
    place, outside = pages.home.group("acme") / "public_html", tmp_path / "outside.txt"
    outside.write_text(MARK)
    (place / "link.txt").symlink_to(outside)
    (place / "up").symlink_to("..")
    (place / "linked").symlink_to(pages.home.group("other"))
    (place / "near.txt").symlink_to("a.txt")
    os.link(outside, place / "hard.txt")
    os.mkfifo(place / "pipe.txt")
    os.mkfifo(place / "docs" / "pipe")
    os.mknod(place / "sock.txt", stat.S_IFSOCK | 0o600)
    if os.geteuid() == 0:
        os.mknod(place / "zero.txt", stat.S_IFCHR | 0o600, os.makedev(1, 5))
    (place / ".env").write_text(MARK)
    (place / ".git").mkdir()
    (place / ".git" / "config").write_text(MARK)
    (place / ".well-known").mkdir()
    (place / ".well-known" / "security.txt").write_text("contact")
    for path in (
        *("link.txt", "up/AGENTS.md", "linked/AGENTS.md", "linked/public_html/a.txt", "near.txt", "hard.txt"),
        *("pipe.txt", "docs/pipe", "sock.txt", "zero.txt", ".env", ".git/config"),
    ):
        status, _, body = await ask(pages, f"/pub/acme/{path}")
        assert (status, MARK.encode() in body) == (404, False), path
    assert (await ask(pages, "/pub/acme/.well-known/security.txt"))[2] == b"contact"


async def test_a_folder_of_pages_that_is_a_link_is_not_followed(pages: Any) -> None:
    place = pages.home.group("acme") / "public_html"
    place.rename(place.with_name("kept"))
    place.symlink_to("kept")
    assert (await ask(pages, "/pub/acme/a.txt"))[0] == 404
    place.unlink()
    place.symlink_to("../other/public_html")
    assert (await ask(pages, "/pub/acme/a.txt"))[0] == 404


async def test_a_file_that_is_too_large_is_not_shown(pages: Any) -> None:
    with (pages.home.group("acme") / "public_html" / "huge.bin").open("wb") as file:
        file.truncate(300 * 1024 * 1024)
    assert (await ask(pages, "/pub/acme/huge.bin"))[0] == 404


async def test_ranges_tags_and_heads_are_answered(pages: Any) -> None:
    data = os.urandom(700_000)
    (pages.home.group("acme") / "public_html" / "data.bin").write_bytes(data)
    status, headers, body = await ask(pages, "/pub/acme/data.bin")
    assert (status, body == data, headers["content-length"]) == (200, True, "700000")
    assert (headers["content-type"], headers["content-disposition"]) == ("application/octet-stream", "attachment")
    tag = headers["etag"]
    assert (await ask(pages, "/pub/acme/data.bin", if_none_match=tag))[0] == 304
    status, headers, body = await ask(pages, "/pub/acme/data.bin", range="bytes=600000-699999")
    assert (status, headers["content-range"], body == data[600_000:]) == (206, "bytes 600000-699999/700000", True)
    status, _, body = await ask(pages, "/pub/acme/data.bin", range="bytes=-5")
    assert (status, body) == (206, data[-5:])
    assert (await ask(pages, "/pub/acme/data.bin", range="bytes=700000-"))[0] == 416
    for whole in ("bytes=0-1,3-4", "lines=1-2", "bytes=9-1", "bytes=-"):
        assert (await ask(pages, "/pub/acme/data.bin", range=whole))[0] == 200
    assert (await ask(pages, "/pub/acme/data.bin", range="bytes=0-1", if_range='"other"'))[0] == 200
    status, headers, body = await ask(pages, "/pub/acme/data.bin", method="HEAD")
    assert (status, headers["content-length"], body) == (200, "700000", b"")
    assert (await ask(pages, "/pub/acme/data.bin", method="POST"))[0] == 403
    origin = {"origin": pages.base, "x_gatepost": "1"}
    assert (await ask(pages, "/pub/acme/data.bin", method="POST", **origin))[0] == 405


async def test_a_file_that_becomes_shorter_while_it_is_sent_ends_the_connection_and_no_more(
    pages: Any, caplog: pytest.LogCaptureFixture
) -> None:
    place = pages.home.group("acme") / "public_html" / "large.bin"
    with place.open("wb") as file:
        file.truncate(200_000_000)
    caplog.set_level(logging.INFO)
    sent = await asyncio.to_thread(read_while, pages, "/pub/acme/large.bin", lambda: os.truncate(place, 10))
    assert 0 < sent < 200_000_000
    assert [(each.name, each.msg) for each in caplog.records if each.name in ("web", "uvicorn.error")] == [
        ("web", "a file became shorter while it was sent")
    ]
    assert (await ask(pages, "/pub/acme/large.bin"))[2] == bytes(10)


def read_while(site: Any, path: str, act: Callable[[], None]) -> int:
    """How many bytes came, if something happens after the first of them."""
    where = urlsplit(site.base)
    with socket.create_connection((where.hostname or "", where.port or 0), timeout=PATIENCE_S) as sock:
        sock.sendall(f"GET {path} HTTP/1.1\r\nHost: {where.netloc}\r\n\r\n".encode())
        count = len(sock.recv(1000))
        act()
        while part := sock.recv(1_000_000):
            count += len(part)
    return count


async def test_deny_redirect_and_auth_hold(pages: Any) -> None:
    assert (await ask(pages, "/pub/acme/closed/x"))[0] == 403
    status, headers, _ = await ask(pages, "/pub/acme/old/anything")
    assert (status, headers["location"]) == (303, "/pub/acme/docs/")
    strangers = ("/pub/acme/team/x", "/priv/acme/", "/pub/other/", "/pub/acme/eng/", "/pub/none/", "/priv/none/x")
    for path in strangers:  # which groups there are is nobody's business
        status, headers, body = await ask(pages, path)
        assert (status, b"login.js" in body) == (401, True), path
        assert "sandbox" not in headers["content-security-policy"]


async def test_who_may_see_a_group_gets_its_private_pages_by_a_ticket(pages: Any) -> None:
    async with pages.signed_in() as browser:
        answer = await browser.get("/priv/acme/docs/")
        ticketed = read_frame(answer)
        assert ticketed.startswith("/priv/~") and ticketed.endswith("/acme/docs/")
        base = ticketed.removesuffix("docs/")
        assert f"frame-src {urlsplit(pages.base).netloc}{base};" in answer.headers["content-security-policy"]
        shown = await browser.get(ticketed, headers=FRAMED)
        assert (shown.status_code, shown.text) == (200, "docs of acme")
        policy = shown.headers["content-security-policy"]
        assert policy.startswith("sandbox allow-scripts allow-forms;") and "webrtc 'block'" in policy
        assert policy.endswith("frame-ancestors 'self'")
        assert shown.headers["connection-allowlist"] == "(response-origin)"
        assert shown.headers["cache-control"] == "private, no-cache"
        again = read_frame(await browser.get("/priv/acme/docs/"))
        assert again.split("/")[2] != ticketed.split("/")[2], "nothing is kept of a ticket"
        assert (await browser.get("/priv/none/")).status_code == 404
        beside = await browser.get(f"{base}a.txt", headers=LOADED)
        assert (beside.status_code, beside.text) == (200, "acme private_html text")  # what the page itself loads
        assert beside.headers["access-control-allow-origin"] == "null"
        for path in (ticketed.replace("/acme/", "/acme/eng/"), ticketed.replace("/acme/", "/other/")):
            assert (await browser.get(path, headers=LOADED)).status_code == 404
        status, headers, _ = await ask(pages, "/priv/~nonsense/acme/docs/")
        assert (status, headers["location"]) == (303, "/priv/acme/docs/")
        assert (await browser.post("/logout")).status_code == 200
        assert (await browser.get(f"{base}a.txt", headers=LOADED)).status_code == 404


async def test_an_address_with_a_ticket_is_of_no_use_outside_of_its_frame_and_its_browser(pages: Any) -> None:
    async with pages.signed_in() as browser:
        ticketed = read_frame(await browser.get("/priv/acme/docs/"))
        alone = await browser.get(ticketed, headers={"sec-fetch-dest": "document", "sec-fetch-mode": "navigate"})
        assert (alone.status_code, alone.headers["location"]) == (303, "/priv/acme/docs/")
        for path in (ticketed, ticketed.replace("docs/", "a.txt")):  # another program at the same address
            status, _, body = await ask(pages, path, sec_fetch_mode="no-cors", user_agent="curl/8")
            assert (status, body) == (404, b"There is nothing here.\n")


async def test_a_private_file_without_scripts_needs_no_frame(pages: Any) -> None:
    async with pages.signed_in() as browser:
        shown = await browser.get("/priv/acme/a.txt")
        assert (shown.status_code, shown.text) == (200, "acme private_html text")
        assert shown.headers["content-security-policy"].startswith("sandbox; default-src 'none';")


async def test_a_page_of_somebody_else_gets_no_private_page_by_the_visitors_cookie(pages: Any) -> None:
    async with pages.signed_in() as browser:
        for where in ("cross-site", "same-site"):
            asked = {"sec-fetch-site": where, "sec-fetch-mode": "no-cors", "sec-fetch-dest": "image"}
            assert (await browser.get("/priv/acme/a.txt", headers=asked)).status_code == 401
            assert (await browser.get("/pub/acme/a.txt", headers=asked)).status_code == 200


async def sign_in_as(pages: Any, browser: Any, person: str) -> None:
    address = await make_login_url(pages.store, SystemClock(), pages.answerer.hub, pages.base, person)
    answer = await browser.post("/login", json={"token": address.partition("#token=")[2]})
    assert answer.status_code == 200


async def test_rights_are_judged_with_each_request(pages: Any) -> None:
    await pages.store.write(users.add, "web:user/ada", "Ada", 1)
    async with pages.browser() as browser:
        await sign_in_as(pages, browser, "web:user/ada")
        assert (await browser.get("/priv/acme/a.txt")).status_code == 404
        await pages.store.write(users.add_member, "web:user/ada", "acme", "operator", 1)
        ticketed = read_frame(await browser.get("/priv/acme/")) + "a.txt"
        assert (await browser.get(ticketed, headers=LOADED)).text == "acme private_html text"
        assert (await browser.get("/priv/acme/eng/a.txt")).status_code == 404
        await pages.store.write(lambda db: db.run("DELETE FROM group_members"))
        assert (await browser.get(ticketed, headers=LOADED)).status_code == 404
        await pages.store.write(logins.remove_user, "web:user/ada")
        assert (await browser.get("/priv/acme/a.txt")).status_code == 401


async def test_a_host_name_of_a_group_leads_to_its_public_pages_and_never_to_ours(pages: Any) -> None:
    await pages.store.write(bind_host, HOST, "other", PERSON)
    for host in (HOST, f"{HOST}:8420", HOST.upper(), f"{HOST}."):
        assert (await ask(pages, "/", host))[2] == b"<h1>other public_html</h1>"
    status, headers, body = await ask(pages, "/docs/", HOST)
    assert (status, body) == (200, b"docs of other") and f"connect-src {HOST}/;" in headers["content-security-policy"]
    async with pages.signed_in() as browser:
        cookie = "; ".join(f"{name}={value}" for name, value in browser.cookies.items())
    ours = ("/dashboard/ledger", "/api/start", "/static/chat.js", "/health", "/metrics", "/login", "/priv/other/a.txt")
    for path in (*ours, "/pub/acme/a.txt", "/v1/ops/group.list", "/openapi.json"):
        status, headers, body = await ask(pages, path, HOST, cookie=cookie)
        assert (status, body) == (404, b"There is nothing here.\n"), path
        assert (await ask(pages, path, HOST, "POST", origin=f"http://{HOST}", x_gatepost="1", cookie=cookie))[0] == 405
    for odd in ("/../AGENTS.md", "/%2e%2e/AGENTS.md", "/..%2fAGENTS.md", "//evil.example/..", "/a.txt%00"):
        assert (await ask(pages, odd, HOST))[0] == 400


async def test_routes_hold_under_a_host_name_and_redirects_stay_there(pages: Any) -> None:
    await pages.store.write(bind_host, HOST, "acme", PERSON)
    assert (await ask(pages, "/closed/x", HOST))[0] == 403
    assert (await ask(pages, "/team/x", HOST))[0] == 404
    status, headers, _ = await ask(pages, "/old", HOST)
    assert (status, headers["location"]) == (303, "/docs/")
    await add_route(pages, "/pub/acme/inner", WebAccess.REDIRECT, "/priv/acme/a.txt")
    assert (await ask(pages, "/inner", HOST))[0] == 404
    status, headers, _ = await ask(pages, "/docs", HOST)
    assert (status, headers["location"]) == (303, "/docs/")
    status, headers, _ = await ask(pages, "//evil.example//docs", HOST)
    assert status == 404 and "location" not in headers


async def test_names_that_nobody_has_and_our_own_names_lead_to_no_group(pages: Any) -> None:
    await pages.store.write(bind_host, HOST, "acme", PERSON)
    await pages.store.write(bind_host, "agents.example", "acme", PERSON)  # it became ours later: web.hosts
    for host in (f"x.{HOST}", "example.com", f"{HOST}.evil.example", f"{HOST}@evil.example", "evil.example"):
        assert (await ask(pages, "/", host))[0] == 403, host
    for host in ("agents.example", "AGENTS.example:99", "localhost", "127.0.0.1"):
        assert b"acme public_html" not in (await ask(pages, "/", host))[2]


async def test_a_request_of_what_has_no_origin_writes_and_reads_nothing_of_ours(pages: Any) -> None:
    """As a browser would send it for a page of a group, if it sent the cookie."""
    async with pages.signed_in() as browser:
        asked = {"origin": "null", "sec-fetch-site": "cross-site", "sec-fetch-mode": "cors"}
        for path in ("/dashboard/do/group.add", "/api/messages", "/logout", "/login"):
            assert (await browser.post(path, data={"folder": "planted"}, headers=asked)).status_code == 403, path
        for path in ("/", "/api/start", "/api/events", "/dashboard/live", "/dashboard/ledger?format=json"):
            assert (await browser.get(path, headers=asked)).status_code == 403, path
        assert (await browser.get("/api/start")).status_code == 200
    assert await pages.store.read(groups.get, "planted") is None


async def test_no_page_of_ours_loads_an_agents_file(pages: Any) -> None:
    asked = {"sec_fetch_site": "same-origin", "sec_fetch_mode": "no-cors"}
    for path in ("/pub/acme/a.txt", "/priv/acme/a.txt"):
        assert (await ask(pages, path, **asked))[0] == 403
    assert (await ask(pages, "/pub/acme/a.txt", sec_fetch_site="same-origin", sec_fetch_mode="navigate"))[0] == 200


async def test_one_agents_files_are_not_shown_as_another_type_than_the_table_says(pages: Any) -> None:
    place = pages.home.group("acme") / "public_html"
    for name, kind in (
        ("a.svg", "image/svg+xml"),
        ("a.HTML", "text/html; charset=utf-8"),
        ("a.html.unknown", "application/octet-stream"),
        ("html", "text/html; charset=utf-8"),
        ("a.pdf", "application/pdf"),
    ):
        (place / name).write_text("<script>alert(1)</script>")
        _, headers, _ = await ask(pages, f"/pub/acme/{name}")
        assert (headers["content-type"], headers["x-content-type-options"]) == (kind, "nosniff"), name
        assert "default-src 'none'" in headers["content-security-policy"]


async def test_a_file_that_shrinks_while_it_is_sent_ends_its_own_connection_alone(pages: Any) -> None:
    place = pages.home.group("acme") / "public_html" / "shrinks.bin"
    with place.open("wb") as file:
        file.truncate(60 * 1024 * 1024)
    where = urlsplit(pages.base)
    reader, writer = await asyncio.open_connection(where.hostname, where.port, limit=1024)
    writer.write(f"GET /pub/acme/shrinks.bin HTTP/1.1\r\nHost: {where.netloc}\r\n\r\n".encode())
    await writer.drain()
    assert b"200 OK" in await reader.readline()
    os.truncate(place, 10)
    rest = await asyncio.wait_for(reader.read(-1), PATIENCE_S)
    assert len(rest) < 60 * 1024 * 1024
    writer.close()
    assert (await ask(pages, "/pub/acme/a.txt"))[0] == 200


@pytest.mark.slow
async def test_the_descriptors_of_files_are_closed(pages: Any) -> None:
    await ask(pages, "/pub/acme/a.txt")
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(20):
        await ask(pages, "/pub/acme/a.txt")
        await ask(pages, "/pub/acme/a.txt", method="HEAD")
        await ask(pages, "/pub/acme/a.txt", range="bytes=999-")
        await ask(pages, "/pub/acme/docs")
    assert len(os.listdir("/proc/self/fd")) <= before + 3


@pytest.mark.parametrize("path", ["/api/a.txt", "/dashboard/a.txt", "/v1/a.txt"])
@pytest.mark.parametrize("host", [HOST, "nobody.example"])
async def test_by_other_names_than_ours_no_path_is_free_of_the_limit_on_strangers(
    pages: Any, host: str, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    held: list[str] = []

    async def hold(self: PeerRateLimiter, scope: Any) -> None:
        held.append(scope["path"])

    monkeypatch.setattr(PeerRateLimiter, "hold", hold)
    await pages.store.write(bind_host, HOST, "acme", PERSON)
    await ask(pages, path, host)
    assert held == [path]


@pytest.fixture
def tickets(home: Home, store: Store) -> SiteTickets:
    return SiteTickets(WebKeys(Keyring(home, {}), store))


async def test_a_ticket_is_for_one_group_and_ends(tickets: SiteTickets) -> None:
    made = await tickets.issue("browser", "acme", "here", 1)
    found = await tickets.find(made, "acme", "here", TICKET_LASTS)
    assert found is not None and found.browser == "browser"
    assert await tickets.find(made, "acme/eng", "here", 2) is None
    assert await tickets.find(made, "acme", "elsewhere", 2) is None
    assert await tickets.find(made, "acme", "here", 1 + TICKET_LASTS) is None


async def test_every_gateway_with_the_same_ring_knows_it(tickets: SiteTickets, home: Home, store: Store) -> None:
    made = await tickets.issue("browser", "acme", "here", 1)
    other = SiteTickets(WebKeys(Keyring(home, {}), store))  # the same as after a restart
    assert await other.find(made, "acme", "here", 2) is not None


async def test_a_ring_of_another_home_opens_none(
    tickets: SiteTickets, store: Store, tmp_path_factory: pytest.TempPathFactory
) -> None:
    elsewhere = Keyring(Home(tmp_path_factory.mktemp("elsewhere")), {})
    elsewhere.add_key()
    made = await tickets.issue("browser", "acme", "here", 1)
    assert await SiteTickets(WebKeys(elsewhere, store)).find(made, "acme", "here", 2) is None


async def test_the_page_that_has_it_does_not_learn_the_cookie(tickets: SiteTickets) -> None:
    made = await tickets.issue("token-of-the-cookie", "acme", "here", 1)
    assert "token" not in made and made != await tickets.issue("token-of-the-cookie", "acme", "here", 1)
    assert len(await tickets.issue("x" * 64, "acme", "here", 1)) <= LONGEST_TICKET


async def test_what_was_changed_opens_nothing(tickets: SiteTickets) -> None:
    made = await tickets.issue("browser", "acme", "here", 1)
    key, _, data = made.partition(".")
    other = "A" if data[0] != "A" else "B"
    changed = [f"{key}.{data[:-2]}", f"{key}.{other}{data[1:]}", f".{data}", f"{key}.", key, ""]
    changed += [
        f"{key}.\N{SNOWMAN}",
        f"{key}.!!!",
        f"b3du.{data}",
        "." * LONGEST_TICKET,
        "A" * (LONGEST_TICKET + 1) + f".{data}",
    ]
    for each in changed:
        assert await tickets.find(each, "acme", "here", 2) is None, each
