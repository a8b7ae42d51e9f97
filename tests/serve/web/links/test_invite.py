"""Invitation links on the page: to open one uses nothing up; the person who is signed in accepts it, from our page."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx2
import pytest

from gatepost.core.clock import SystemClock
from gatepost.flow import invitations
from gatepost.flow.invitations import LIMITED, NOT_VALID, NewInvitation
from gatepost.serve.web.signin.one_time_link import make_login_url
from gatepost.store.people import logins, newcomers, pairing_codes, users
from gatepost.store.people.pairing_codes import MOST_GUESSES
from gatepost.store.port import Db
from gatepost.store.rights import acl, tokens
from gatepost.store.rights.acl import AclEffect, AclRow
from gatepost.store.sessions import groups
from gatepost_testing.waiting import until

ANN, BEA = "web:user/ann", "web:user/bea"


async def invite(site: Any, **given: Any) -> str:
    now = SystemClock().now()

    def issue(db: Db) -> str:
        groups.add(db, "acme", "Acme & <b>sons</b>", "", now)
        wanted: dict[str, Any] = {"folder": "acme", "uses": 1, "expires_at": None, "created_by": "operator"}
        return invitations.issue(db, NewInvitation(**{**wanted, **given}), now).code

    return str(await site.store.write(issue))


@asynccontextmanager
async def signed_in_as(site: Any, person: str) -> AsyncIterator[httpx2.AsyncClient]:
    await site.store.write(users.add, person, person.rpartition("/")[2].title(), 1)
    url = await make_login_url(site.store, SystemClock(), site.answerer.hub, site.base, person)
    async with site.browser() as browser:
        answer = await browser.post("/login", json={"token": url.partition("#token=")[2]})
        assert answer.status_code == 200, answer.text
        yield browser


async def post(browser: httpx2.AsyncClient, path: str, code: str, **given: Any) -> httpx2.Response:
    return await browser.post(f"/api/invitation/{path}", json={"token": code}, **given)


async def list_groups(site: Any, person: str) -> tuple[str, ...]:
    return tuple((await site.store.read(users.get_roles, person)).member_of)


async def count_left(site: Any) -> int:
    return sum(each.uses_left or 0 for each in await site.store.read(tokens.list_all))


async def test_the_page_says_what_it_gives_and_a_press_accepts_it(site: Any) -> None:
    code = await invite(site)
    async with signed_in_as(site, ANN) as browser:
        page = await browser.get(f"/invite/{code}")
        assert page.status_code == 200 and "/static/invite.js" in page.text and code not in page.text
        offer = (await post(browser, "read", code)).json()
        assert offer == {
            "group": "Acme & <b>sons</b>",
            "ownGroup": False,
            "obstacle": "",
            "accepted": "",
            "person": "Ann",
            "gives": "talk to Acme & <b>sons</b>",
        }
        assert await list_groups(site, ANN) == () and await count_left(site) == 1  # nothing has changed so far
        done = (await post(browser, "accept", code)).json()
        assert done["ok"] and "Welcome" in done["text"]
        assert await list_groups(site, ANN) == ("acme",) and await count_left(site) == 0
        again = (await post(browser, "accept", code)).json()
        assert (again["ok"], again["text"]) == (False, NOT_VALID)
        reloaded = (await post(browser, "read", code)).json()
        assert reloaded["accepted"].startswith("You have accepted this invitation") and reloaded["obstacle"] == ""
    async with signed_in_as(site, BEA) as other:
        assert (await post(other, "read", code)).json()["obstacle"] == NOT_VALID


async def test_opening_a_link_never_redeems_it(site: Any) -> None:
    code = await invite(site)
    async with site.browser() as stranger, signed_in_as(site, ANN) as browser:
        for visitor in (stranger, browser):
            known, unknown = await visitor.get(f"/invite/{code}"), await visitor.get("/invite/made-up")
            assert known.status_code == 200 and known.text == unknown.text
            assert known.headers["referrer-policy"] == "no-referrer" and known.headers["cache-control"] == "no-store"
            assert (await visitor.post(f"/invite/{code}")).status_code == 405
        assert (await browser.get(f"/api/invitation/accept?token={code}")).status_code == 405
        for path in ("read", "accept"):
            assert (await post(stranger, path, code)).status_code == 401
    assert await count_left(site) == 1


async def test_another_page_cannot_accept_it(site: Any) -> None:
    code = await invite(site)
    async with signed_in_as(site, ANN) as browser:
        for headers in ({"origin": "https://evil.example"}, {"x-gatepost": ""}):
            assert (await post(browser, "accept", code, headers=headers)).status_code == 403
    assert await list_groups(site, ANN) == () and await count_left(site) == 1


async def test_of_two_who_accept_the_last_use_at_once_one_is_let_in(site: Any) -> None:
    code = await invite(site)
    async with signed_in_as(site, ANN) as ann, signed_in_as(site, BEA) as bea:
        answers = await asyncio.gather(post(ann, "accept", code), post(bea, "accept", code))
    assert sorted(each.json()["ok"] for each in answers) == [False, True]
    assert sorted((await list_groups(site, ANN)) + (await list_groups(site, BEA))) == ["acme"]


@pytest.mark.parametrize("why", ["unknown", "revoked", "shut out"])
async def test_what_gives_nothing_looks_alike(site: Any, why: str) -> None:
    code = await invite(site)
    if why == "revoked":
        (token,) = await site.store.read(tokens.list_all)
        await site.store.write(tokens.revoke, token.id, SystemClock().now())
    if why == "shut out":
        row = AclRow(id=0, principal=ANN, action="interact", scope="acme", effect=AclEffect.DENY)
        await site.store.write(acl.put, row, SystemClock().now())
    tried = "GI-AAAA-BBBB-CCCC-DDDD" if why == "unknown" else code
    async with signed_in_as(site, ANN) as browser:
        offer = (await post(browser, "read", tried)).json()
        assert (offer["group"], offer["obstacle"]) == ("", NOT_VALID)
        assert (await post(browser, "accept", tried)).json() == {"ok": False, "text": NOT_VALID}
    assert await list_groups(site, ANN) == ()


@pytest.mark.slow
async def test_wrong_codes_are_limited_as_in_a_chat(site: Any) -> None:
    code = await invite(site)
    async with signed_in_as(site, ANN) as browser:
        for _ in range(MOST_GUESSES):
            assert not (await post(browser, "accept", "GI-AAAA-BBBB-CCCC-DDDD")).json()["ok"]
        assert await site.store.read(pairing_codes.count_guesses, ANN, SystemClock().now()) == MOST_GUESSES
        assert (await post(browser, "read", code)).json()["obstacle"] == LIMITED
        assert (await post(browser, "accept", code)).json() == {"ok": False, "text": LIMITED}
    assert await count_left(site) == 1


async def test_who_may_write_there_already_does_not_use_it_up(site: Any) -> None:
    code = await invite(site)
    async with site.signed_in() as owner:
        assert "already" in (await post(owner, "read", code)).json()["obstacle"]
        assert "already" in (await post(owner, "accept", code)).json()["text"]
    assert await count_left(site) == 1


async def test_an_invitation_to_a_group_of_her_own_is_accepted_in_her_own_room(site: Any) -> None:
    code = await invite(site, own_group=True)
    woken: list[None] = []
    site.events.on_newcomers(lambda: woken.append(None))
    async with signed_in_as(site, ANN) as browser:
        assert (await post(browser, "read", code)).json()["ownGroup"]
        assert (await post(browser, "accept", code)).json()["ok"]
        await until(lambda: bool(woken))
    found = await site.store.read(newcomers.find, ANN, "acme")
    assert found is not None and found.state == "admitted"


async def test_who_is_signed_out_meanwhile_accepts_nothing(site: Any) -> None:
    code = await invite(site)
    async with signed_in_as(site, ANN) as browser:
        await site.store.write(logins.remove_user, ANN)
        assert (await post(browser, "accept", code)).status_code == 401
    assert await count_left(site) == 1


async def test_a_malformed_request_is_answered(site: Any) -> None:
    async with site.signed_in() as browser:
        for content in (b"[]", b"{" + b" " * 2000, b'{"token": 7}'):
            assert (await browser.post("/api/invitation/read", content=content)).status_code == 400
        for token in ("", "x" * 300, "\\ud800", "../.."):
            answer = await browser.post("/api/invitation/read", content=f'{{"token": "{token}"}}'.encode())
            assert answer.json()["obstacle"] == NOT_VALID
