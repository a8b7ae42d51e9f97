"""Who gets in, and what is refused to everybody else."""

import asyncio
import hashlib
import os
from typing import Any

import httpx2
import pytest

from gatepost.channels.web import WebChannel
from gatepost.core.clock import MINUTE, SystemClock
from gatepost.serve.web.signin.one_time_link import issue_for_owner
from gatepost.store.people import logins, users
from gatepost.store.port import Db
from gatepost.store.rights import audit


def cookie_name(site: Any) -> str:
    home_id = hashlib.sha256(os.fsencode(site.home.path)).hexdigest()[:8]
    return f"gatepost-{site.base.rpartition(':')[2]}-{home_id}"


PRIVATE = ("/api/start", "/api/messages", "/api/events", "/api/files/1/0")


@pytest.mark.parametrize("path", PRIVATE)
async def test_nothing_private_is_shown_without_a_cookie(site: Any, path: str) -> None:
    async with site.browser() as browser:
        assert (await browser.get(path)).status_code == 401
        browser.cookies.set(cookie_name(site), "made-up")
        assert (await browser.get(path)).status_code == 401


async def test_without_a_cookie_the_page_says_how_to_get_in(site: Any) -> None:
    async with site.browser() as browser:
        page = await browser.get("/")
    assert "gatepost login" in page.text
    assert "message-list" not in page.text


async def test_a_one_time_address_lets_one_browser_in_once(site: Any) -> None:
    token = await site.new_token()
    async with site.browser() as first, site.browser() as second:
        answer = await first.post("/login", json={"token": token})
        cookie = answer.headers["set-cookie"].lower()

        assert answer.status_code == 200
        assert "httponly" in cookie and "samesite=strict" in cookie and "secure" not in cookie
        assert (await first.get("/api/start")).status_code == 200
        assert (await second.post("/login", json={"token": token})).status_code == 403
        assert (await second.get("/api/start")).status_code == 401


@pytest.mark.slow
async def test_of_many_who_redeem_at_once_one_gets_in(site: Any) -> None:
    token = await site.new_token()
    async with site.browser() as browser:
        answers = await asyncio.gather(*(browser.post("/login", json={"token": token}) for _ in range(8)))
    assert sorted(answer.status_code for answer in answers) == [200] + [403] * 7


def test_a_one_time_address_is_good_for_ten_minutes_and_its_opener_is_the_owner(db: Db) -> None:
    now = SystemClock().now()
    early, late = (issue_for_owner(db, WebChannel.owner, now) for _ in range(2))

    assert logins.redeem(db, early, now + 10 * MINUTE - 1) == WebChannel.owner
    assert logins.redeem(db, late, now + 10 * MINUTE) is None
    assert users.get_roles(db, WebChannel.owner).roles == (("owner", ""),)


async def test_a_browsers_token_is_no_one_time_token(site: Any) -> None:
    async with site.signed_in() as browser, site.browser() as other:
        token = next(iter(browser.cookies.values()))
        assert (await other.post("/login", json={"token": token})).status_code == 403
        assert (await browser.get("/api/start")).status_code == 200


async def test_a_browser_that_is_signed_in_uses_an_address_up_and_stays_who_it_is(site: Any) -> None:
    async with site.signed_in() as browser, site.browser() as other:
        before, token = dict(browser.cookies), await site.new_token()

        assert (await browser.post("/login", json={"token": token})).status_code == 200
        assert dict(browser.cookies) == before
        assert (await other.post("/login", json={"token": token})).status_code == 403


async def test_signing_out_ends_it(site: Any) -> None:
    async with site.signed_in() as browser:
        kept = dict(browser.cookies)
        assert (await browser.post("/logout")).status_code == 200
        browser.cookies.update(kept)
        assert (await browser.get("/api/start")).status_code == 401


async def test_a_foreign_host_is_refused_even_with_a_cookie(site: Any) -> None:
    async with site.signed_in() as browser:
        for path in ("/", "/api/start", "/static/chat.js"):
            assert (await browser.get(path, headers={"host": "evil.example"})).status_code == 403
        assert (await browser.get("/", headers={"host": "agents.example"})).status_code == 200


@pytest.mark.parametrize(
    "headers",
    [
        {"origin": "http://evil.example"},
        {"origin": "null"},
        {"origin": ""},
        {"x-gatepost": ""},
        {"origin": "http://127.0.0.1:1"},
    ],
)
async def test_a_write_from_elsewhere_is_refused_even_with_a_cookie(site: Any, headers: dict[str, str]) -> None:
    async with site.signed_in() as browser:
        answer = await browser.post(
            "/api/messages", data={"text": "hi", "id": "abcdefgh1"}, files={"x": b""}, headers=headers
        )
        assert answer.status_code == 403
        token = await site.new_token()
        assert (await browser.post("/login", json={"token": token}, headers=headers)).status_code == 403
    assert site.answerer.accepted == []


async def test_a_write_without_our_header_or_origin_at_all_is_refused(site: Any) -> None:
    token = await site.new_token()
    async with httpx2.AsyncClient(base_url=site.base) as plain:
        assert (await plain.post("/login", json={"token": token})).status_code == 403


@pytest.mark.parametrize("path", ["/", "/static/chat.js", "/api/start", "/nowhere"])
async def test_every_answer_carries_the_strict_headers(site: Any, path: str) -> None:
    async with site.signed_in() as browser:
        headers = (await browser.get(path)).headers
    policy = headers["content-security-policy"]

    assert "default-src 'none'" in policy and "unsafe" not in policy and "frame-ancestors 'none'" in policy
    assert headers["x-frame-options"] == "DENY"
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["cache-control"] == ("no-cache" if path.startswith("/static") else "no-store")
    assert "access-control-allow-origin" not in headers


async def test_the_pages_have_no_script_or_style_of_their_own_inside(site: Any) -> None:
    async with site.signed_in() as browser, site.browser() as stranger:
        for page in ((await browser.get("/")).text, (await stranger.get("/")).text):
            assert "<style" not in page and "style=" not in page and "onclick" not in page
            assert page.count("<script") == page.count('<script src="/static/')
            assert "http://" not in page and "https://" not in page


@pytest.mark.parametrize("path", ["/static/../site.py", "/static/%2e%2e/site.py", "/static//etc/passwd"])
async def test_only_the_assets_are_served(site: Any, path: str) -> None:
    async with site.browser() as browser:
        assert (await browser.get(path)).status_code == 404


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b'{"token": 1}', b"x" * 5000, b"[" * 4000])
async def test_a_bad_sign_in_is_refused_in_words(site: Any, body: bytes) -> None:
    async with site.browser() as browser:
        answer = await browser.post("/login", content=body)
    assert answer.status_code == 400
    assert answer.json()["error"]["text"]


async def test_numbers_and_tokens_that_mean_nothing_are_answered_and_not_broken_over(site: Any) -> None:
    huge = "9" * 40
    async with site.signed_in() as browser:
        assert (await browser.get(f"/api/files/{huge}/0")).status_code == 404
        assert (await browser.get(f"/api/messages?room=web:home&before={huge}")).status_code == 200
    async with site.browser() as stranger:
        answer = await stranger.post("/login", content=b'{"token": "\\ud800"}')
        assert answer.status_code == 403


async def test_stranger_e_the_cookie_is_named_for_port_and_home_and_bound_to_the_host_over_https(site: Any) -> None:
    async with site.browser() as plain, site.browser() as behind:
        await plain.post("/login", json={"token": await site.new_token()})
        assert list(plain.cookies) == [cookie_name(site)]
        headers = {"origin": "https://agents.example", "host": "agents.example"}
        answer = await behind.post("/login", json={"token": await site.new_token()}, headers=headers)
        cookie = answer.headers["set-cookie"]
        assert cookie.startswith("__Host-gatepost-web-") and "Secure" in cookie and "Path=/" in cookie
        shown = {"cookie": cookie.partition(";")[0], "host": "agents.example"}
        assert (await behind.get("/api/start", headers=shown)).status_code == 200


async def test_stranger_e_a_wrong_login_is_counted_in_the_audit(site: Any) -> None:
    async with site.browser() as browser:
        assert (await browser.post("/login", json={"token": "made-up"})).status_code == 403
    row = (await site.store.read(audit.list_latest, 1))[0]
    assert row[2:5] == ("peer:127.0.0.1", "door.token", "refused")
