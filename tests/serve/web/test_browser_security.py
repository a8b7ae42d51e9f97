"""Under which names the page may be asked for, and by which token a signed-in browser may write."""

from typing import Any

import pytest
from starlette.datastructures import Headers

from gatepost.serve.web.browser_security import host_allowed, make_csrf_token, write_allowed
from gatepost.store.sessions import groups


@pytest.mark.parametrize(
    ("header", "listens", "allowed"),
    [
        ("127.0.0.1:8420", "127.0.0.1", True),
        ("localhost:9000", "127.0.0.1", True),
        ("[::1]:8420", "127.0.0.1", True),
        ("LOCALHOST", "127.0.0.1", True),
        ("agents.example", "127.0.0.1", True),
        ("evil.example:8420", "127.0.0.1", False),
        ("127.0.0.1.evil.example", "127.0.0.1", False),
        ("192.168.1.5:8420", "127.0.0.1", False),
        ("192.168.1.5:8420", "0.0.0.0", True),
        ("[fe80::1]:8420", "::", True),
        ("evil.example", "0.0.0.0", False),
        ("box.lan", "box.lan", True),
        ("", "127.0.0.1", False),
        ("[::1", "127.0.0.1", False),
        ("localhost@evil.example", "127.0.0.1", False),
    ],
)
def test_a_name_must_be_ours(header: str, listens: str, allowed: bool) -> None:
    assert host_allowed(header, listens, ("agents.example",)) is allowed


@pytest.mark.parametrize(
    ("origins", "allowed"),
    [
        ((), False),
        (("http://box.lan",), True),
        (("http://box.lan", "http://box.lan"), True),
        (("http://box.lan", "http://evil.example"), False),
        (("http://evil.example",), False),
    ],
)
def test_a_write_comes_from_our_page_by_every_origin_that_it_names(origins: tuple[str, ...], allowed: bool) -> None:
    given = [("host", "box.lan"), ("x-gatepost", "1"), *(("origin", each) for each in origins)]
    raw = [(name.encode(), value.encode()) for name, value in given]
    assert write_allowed(Headers(raw=raw)) is allowed


SENT = {"text": "hi", "id": "key-00001"}
WRITES = ("/api/messages", "/api/stop", "/api/clicks", "/api/pairing/confirm", "/dashboard/do/group.add", "/logout")


def test_a_token_belongs_to_one_cookie_and_does_not_tell_it() -> None:
    assert make_csrf_token("one") == make_csrf_token("one") != make_csrf_token("two")
    assert "one" not in make_csrf_token("one")


@pytest.mark.parametrize("path", WRITES)
async def test_a_write_without_the_token_of_its_browser_changes_nothing(site: Any, path: str) -> None:
    async with site.signed_in() as browser, site.signed_in() as other:
        foreign = (await other.get("/api/csrf")).json()["token"]
        for shown in ("", "made-up", "0" * 64, foreign, "é", "x" * 9000):
            answer = await browser.post(path, data={"folder": "planted"}, headers={"x-csrf-token": shown.encode()})
            assert answer.status_code == 403 and answer.headers["x-csrf-token"] == "refused", shown
        assert (await browser.get("/api/start")).status_code == 200, "nobody was signed out"
    assert await site.store.read(groups.get, "planted") is None


async def test_the_token_is_told_to_who_is_signed_in_and_works(site: Any) -> None:
    async with site.signed_in() as browser, site.browser() as stranger:
        assert (await stranger.get("/api/csrf")).status_code == 401
        answer = await browser.get("/api/csrf")
        headers = {"x-csrf-token": answer.json()["token"]}
        assert "access-control-allow-origin" not in answer.headers and answer.headers["cache-control"] == "no-store"
        sent = await browser.post("/api/messages", data=SENT, files=[("none", ("", b""))], headers=headers)
        assert sent.status_code == 200
        assert (await browser.get("/api/csrf", headers={"sec-fetch-site": "same-site"})).status_code == 403


async def test_the_token_ends_with_the_cookie(site: Any) -> None:
    async with site.signed_in() as browser:
        old = (await browser.get("/api/csrf")).json()["token"]
        assert (await browser.post("/logout")).status_code == 200
        await browser.post("/login", json={"token": await site.new_token()})
        answer = await browser.post("/dashboard/do/group.add", data={"folder": "x"}, headers={"x-csrf-token": old})
        assert answer.status_code == 403
