"""Pairing links on the page: to open one changes nothing; the person who is signed in confirms it, from our page."""

from typing import Any

import httpx2
import pytest

from gatepost.core.clock import SystemClock
from gatepost.flow import pairing
from gatepost.flow.groups import OWNER, add_defaults
from gatepost.store.people import identities, logins, users
from gatepost.store.port import Db

CHAT, ROOM = "chat:user/7", ("chat", "chat:direct/7")


def issue(db: Db, now: int) -> str:
    add_defaults(db, now)
    users.add(db, CHAT, "Seven", now)
    return pairing.issue_link(db, CHAT, CHAT, "", now, ROOM).removeprefix("/pair/")


async def make_link(site: Any) -> str:
    return str(await site.store.write(issue, SystemClock().now()))


async def post(browser: httpx2.AsyncClient, path: str, token: str, **given: Any) -> httpx2.Response:
    return await browser.post(f"/api/pairing/{path}", json={"token": token}, **given)


async def find_person(site: Any) -> str:
    return str(await site.store.read(identities.get_person, CHAT))


async def test_the_page_says_who_is_bound_to_whom_and_binds_on_confirmation(site: Any) -> None:
    token = await make_link(site)
    async with site.signed_in() as browser:
        page = await browser.get(f"/pair/{token}")
        assert page.status_code == 200 and "/static/pair.js" in page.text and token not in page.text
        offer = (await post(browser, "read", token)).json()
        assert (offer["identity"], offer["name"], offer["person"]) == (CHAT, "Seven", OWNER)
        assert await find_person(site) == CHAT  # nothing has changed so far
        done = (await post(browser, "confirm", token)).json()
        assert done["ok"] and "Paired" in done["text"]
        assert await find_person(site) == OWNER
        again = await post(browser, "confirm", token)
        assert again.status_code == 404 and "used before" in again.json()["error"]["text"]


async def test_a_link_that_is_opened_by_anybody_changes_nothing(site: Any) -> None:
    token = await make_link(site)
    async with site.browser() as stranger:
        known, unknown = await stranger.get(f"/pair/{token}"), await stranger.get("/pair/made-up")
        assert known.status_code == 200 and known.text == unknown.text
        assert known.headers["referrer-policy"] == "no-referrer" and known.headers["cache-control"] == "no-store"
        for path in ("read", "confirm"):
            assert (await post(stranger, path, token)).status_code == 401
    assert await find_person(site) == CHAT
    async with site.signed_in() as browser:
        assert (await post(browser, "confirm", token)).json()["ok"]  # and it was not used up


@pytest.mark.slow
async def test_another_page_cannot_confirm_it(site: Any) -> None:
    token = await make_link(site)
    async with site.signed_in() as browser:
        for headers in ({"origin": "https://evil.example"}, {"x-gatepost": ""}):
            assert (await post(browser, "confirm", token, headers=headers)).status_code == 403
        assert (await browser.get(f"/api/pairing/confirm?token={token}")).status_code == 405
    assert await find_person(site) == CHAT


async def test_who_is_signed_out_meanwhile_confirms_nothing(site: Any) -> None:
    token = await make_link(site)
    async with site.signed_in() as browser:
        await site.store.write(logins.remove_user, "web:user/owner")
        assert (await post(browser, "confirm", token)).status_code == 401
    assert await find_person(site) == CHAT


async def test_a_malformed_request_is_answered(site: Any) -> None:
    async with site.signed_in() as browser:
        for token in ("", "x" * 300, "made-up", "\ud800"):
            answer = await browser.post(
                "/api/pairing/read", content=('{"token": "' + token.replace("\ud800", "\\ud800") + '"}').encode()
            )
            assert answer.status_code == 404, answer.text
        assert (await browser.post("/api/pairing/read", content=b"[]")).status_code == 400
        assert (await browser.post("/api/pairing/read", content=b"{" + b" " * 2000)).status_code == 400
