"""Signing in by name and password: who gets in, what strangers learn, and whom their guesses slow down."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx2
import pytest

from gatepost.core.clock import HOUR, SystemClock
from gatepost.core.records import replace
from gatepost.serve import passwords as password_rules
from gatepost.store.people import logins, passwords
from gatepost.store.port import Db
from gatepost.store.rights import audit

SECRET, OTHER = "four words of hers", "another four words"
OWNER = "web:user/owner"


@pytest.fixture
def given() -> dict[str, Any]:
    return {"web.password_login": True}


async def set_password(browser: httpx2.AsyncClient, new: str, old: str = "") -> httpx2.Response:
    given = {"new_password": new} | ({"old_password": old} if old else {})
    return await browser.post("/dashboard/do/login.set_password", data=given)


async def try_password(browser: httpx2.AsyncClient, name: str, password: str) -> httpx2.Response:
    return await browser.post("/login/password", json={"name": name, "password": password})


@asynccontextmanager
async def with_password(site: Any) -> AsyncIterator[httpx2.AsyncClient]:
    """A browser of the owner, who has set a password."""
    async with site.signed_in() as browser:
        answer = await set_password(browser, SECRET)
        assert answer.status_code == 200, answer.text
        yield browser


def age_browsers(db: Db, by: int) -> None:
    db.run("UPDATE logins SET created_at = created_at - ?", (by,))


async def test_the_page_offers_it_and_the_right_password_lets_in(site: Any) -> None:
    async with with_password(site), site.browser() as browser:
        (way,) = (await browser.get("/login/ways")).json()["ways"]
        assert (way["name"], way["script"]) == ("password", "signin_password.js")
        answer = await try_password(browser, "owner", SECRET)
        assert answer.status_code == 200
        assert all("httponly" in each.lower() for each in answer.headers.get_list("set-cookie"))
        assert (await browser.get("/api/start")).status_code == 200
    found = await site.store.read(lambda db: logins.list_all(db, SystemClock().now()))
    assert {each.way for each in found} == {"password", "one_time_link"}


@pytest.mark.slow
async def test_what_is_wrong_is_not_told(site: Any) -> None:
    async with with_password(site), site.browser() as browser:
        tried = [("owner", OTHER), ("nobody", SECRET), ("", SECRET), ("\ud800", "\ud800"), ("web:user/owner", "")]
        answers = [await browser.post("/login/password", content=_encode(*each)) for each in tried]
    assert {(each.status_code, each.text) for each in answers} == {(403, answers[0].text)}


def _encode(name: str, password: str) -> bytes:
    return json.dumps({"name": name, "password": password}).encode()


@pytest.mark.parametrize("body", [b"", b"{}", b'{"name": "x"}', b'{"name": 1, "password": 2}', b"x" * 9000])
async def test_what_is_no_try_is_refused_in_words(site: Any, body: bytes) -> None:
    async with site.browser() as browser:
        answer = await browser.post("/login/password", content=body)
    assert answer.status_code == 400 and answer.json()["error"]["text"]


@pytest.mark.slow
async def test_guesses_of_a_stranger_are_stopped_and_the_owner_gets_in_all_the_same(
    site: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(password_rules, "TRIES", replace(password_rules.TRIES, burst=2))
    monkeypatch.setattr(password_rules, "LONGEST_S", 0.0)
    async with with_password(site), site.browser() as known, site.browser() as stranger:
        assert (await try_password(known, "owner", SECRET)).status_code == 200
        assert (await known.post("/logout")).status_code == 200
        assert [(await try_password(stranger, "owner", OTHER)).status_code for _ in range(4)] == [403, 403, 429, 429]
        assert (await try_password(stranger, "owner", SECRET)).status_code == 429, "a guess that is right is not told"
        assert (await try_password(known, "owner", SECRET)).status_code == 200, "her browser is known"
        async with site.signed_in() as anew:
            assert (await anew.get("/api/start")).status_code == 200, "the one-time address always works"


@pytest.mark.slow
async def test_a_changed_password_signs_the_other_browsers_out(site: Any) -> None:
    async with with_password(site) as first, site.browser() as second:
        assert (await try_password(second, "owner", SECRET)).status_code == 200
        await site.store.write(age_browsers, HOUR)
        assert (await set_password(second, OTHER, SECRET)).status_code == 200
        assert (await first.get("/api/start")).status_code == 401
        assert (await second.get("/api/start")).status_code == 200
        assert (await try_password(first, "owner", SECRET)).status_code == 403
        assert (await try_password(first, "owner", OTHER)).status_code == 200


async def test_who_finds_an_open_browser_cannot_set_a_password(site: Any) -> None:
    async with with_password(site) as browser:
        await site.store.write(age_browsers, HOUR)
        for old in ("", OTHER):
            refused = await set_password(browser, OTHER, old)
            assert refused.status_code in (400, 403) and "old" in refused.text
        stored = await site.store.read(passwords.get, OWNER)
        assert (await set_password(browser, OTHER, SECRET)).status_code == 200
        assert await site.store.read(passwords.get, OWNER) != stored


async def test_no_password_stands_in_the_audit_or_in_an_answer(site: Any) -> None:
    async with with_password(site) as browser:
        shown = await set_password(browser, OTHER, SECRET)
        assert SECRET not in shown.text and OTHER not in shown.text and "argon2" not in shown.text
        form = await browser.get("/dashboard/do/login.set_password")
        assert form.text.count('type="password"') == 2
    rows = str(await site.store.read(audit.list_latest, 50))
    assert "login.set_password" in rows and SECRET not in rows and OTHER not in rows and "argon2" not in rows
