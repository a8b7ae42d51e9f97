"""How every way of signing in ends, and who is here."""

import asyncio
from typing import Any

import httpx2
import pytest

from gatepost.core.clock import HOUR, SystemClock
from gatepost.serve.web.signin.browser_login import parse_device
from gatepost.store.people import logins
from gatepost.store.port import Db
from gatepost.store.rights import audit
from gatepost_testing.waiting import PATIENCE_S

FIREFOX = "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0"
SAID = {
    "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0": "Firefox on Linux",
    "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/126.0.0.0 Safari/537.36"
    " Edg/126.0.0.0": "Edge on Windows",
    "Mozilla/5.0 (iPhone; CPU iPhone OS 17_5 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/17.5"
    " Mobile/15E148 Safari/604.1": "Safari on iPhone",
    "Mozilla/5.0 (Linux; Android 14; Pixel 8) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/126.0 Mobile"
    " Safari/537.36": "Chrome on Android",
    "Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/17.5"
    " Safari/605.1.15": "Safari on macOS",
    "curl/8.5.0": "curl",
    "": "",
    "<script>alert(1)</script>": "",
}


def list_browsers(db: Db) -> list[logins.BrowserLogin]:
    return logins.list_all(db, SystemClock().now())


def _age(db: Db, by: int) -> None:
    db.run("UPDATE logins SET last_seen_at = last_seen_at - ?", (by,))


async def sign_in(site: Any, browser: httpx2.AsyncClient) -> httpx2.Response:
    return await browser.post("/login", json={"token": await site.new_token()}, headers={"user-agent": FIREFOX})


async def test_a_browser_is_known_by_its_way_device_and_address_and_the_audit_has_it(site: Any) -> None:
    async with site.browser() as browser:
        assert (await sign_in(site, browser)).status_code == 200
    (row,) = await site.store.read(list_browsers)
    assert (row.user_id, row.way, row.device, row.peer) == (
        "web:user/owner",
        "one_time_link",
        "Firefox on Linux",
        "127.0.0.1",
    )
    (record,) = await site.store.read(audit.list_latest, 1)
    assert record[2:5] == ("web:user/owner", "login.sign_in", "done") and row.id in str(record)


async def test_that_a_browser_was_here_is_written_once_an_hour_and_not_with_each_request(site: Any) -> None:
    async with site.signed_in() as browser:
        (row,) = await site.store.read(list_browsers)
        await browser.get("/api/start")
        assert await site.store.read(list_browsers) == [row]
        await site.store.write(_age, HOUR)
        await browser.get("/api/start")
        await site.store.write(lambda db: None)  # what was posted is written before this
        (seen,) = await site.store.read(list_browsers)
        assert seen.last_seen_at >= row.last_seen_at
        await site.store.write(_age, HOUR)
        await browser.get("/api/start")
        await site.store.write(lambda db: None)
        (again,) = await site.store.read(list_browsers)
        assert again.last_seen_at == seen.last_seen_at - HOUR, "one process writes it once an hour, whatever it reads"


async def test_who_is_not_signed_in_is_told_which_ways_are_on_and_no_more(site: Any) -> None:
    async with site.browser() as browser:
        assert (await browser.get("/login/ways")).json() == {"ways": []}


@pytest.mark.parametrize("cookie", ["", "made-up", "%00", "x" * 4000])
async def test_a_cookie_that_is_none_of_ours_is_nobodys(site: Any, cookie: str) -> None:
    async with site.signed_in() as known, site.browser() as browser:
        name = next(iter(known.cookies))
        answer = await browser.get("/api/start", headers={"cookie": f"{name}={cookie}"})
    assert answer.status_code == 401


async def read_to_end(stream: httpx2.Response) -> str:
    async with asyncio.timeout(PATIENCE_S):
        return "".join([line async for line in stream.aiter_lines()])


@pytest.mark.slow
@pytest.mark.parametrize("path", ["/api/events", "/dashboard/live"])
async def test_a_browser_that_is_signed_out_from_elsewhere_loses_what_it_has_open(site: Any, path: str) -> None:
    async with site.signed_in() as lost, site.signed_in() as other:
        (id_of_other, id_of_lost) = [each.id for each in await site.store.read(list_browsers)]
        async with lost.stream("GET", path) as stream, other.stream("GET", path) as kept:
            lines = kept.aiter_lines()
            assert (await anext(lines)).startswith("retry")
            ended = await other.post("/dashboard/do/login.end", data={"id": id_of_lost})
            assert ended.status_code == 200, ended.text
            assert "message" not in await read_to_end(stream)
            await site.store.read(list_browsers)
            assert not kept.is_closed
        assert (await lost.get("/api/start")).status_code == 401
        page = await other.get("/dashboard/logins")
        assert page.status_code == 200 and id_of_other in page.text and "this browser" in page.text


async def test_signing_out_ends_the_streams_of_this_browser_alone(site: Any) -> None:
    async with site.signed_in() as browser:
        async with browser.stream("GET", "/dashboard/live") as stream:
            assert (await browser.post("/logout")).status_code == 200
            await read_to_end(stream)


class TestBehindProxy:
    @pytest.fixture
    def given(self) -> dict[str, Any]:
        return {"web.trusted_proxies": ("127.0.0.1",), "web.proxy_address_header": "X-Forwarded-For"}

    async def test_a_login_has_the_address_that_the_proxy_names(self, site: Any) -> None:
        async with site.browser() as browser:
            browser.headers["x-forwarded-for"] = "198.51.100.1, 203.0.113.9"
            assert (await sign_in(site, browser)).status_code == 200
        (row,) = await site.store.read(list_browsers)
        assert row.peer == "203.0.113.9"


@pytest.mark.parametrize("said", SAID)
def test_a_browser_is_named_as_people_know_it(said: str) -> None:
    assert parse_device(said) == SAID[said]


def test_only_our_own_words_and_only_the_beginning_count() -> None:
    assert parse_device("x" * 1_000_000 + "Firefox/1 Linux") == ""
    assert len(parse_device("Firefox/" * 100_000 + "Linux")) < 40
