"""A write of a signed-in browser carries the token that belongs to its cookie, or it is refused."""

from typing import Any

import pytest

from gatepost.serve.web.csrf import make_csrf_token
from gatepost.store.sessions import groups

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
