"""Signing in by the header of a reverse proxy: whose counts, whom it names, and what nobody gets by it."""

from typing import Any

import pytest
from starlette.requests import Request

from gatepost.core.clock import SystemClock
from gatepost.core.errors import SetupError
from gatepost.core.settings import Config
from gatepost.serve.web.signin.contract import check_sign_in
from gatepost.serve.web.trusted_proxies import check_proxy_settings, find_proxy_user
from gatepost.store.people import identities, logins, users
from gatepost.store.port import Db

ANN = {"remote-user": "ann"}


@pytest.fixture
def given() -> dict[str, Any]:
    return {"web.proxy_user_header": "Remote-User", "web.trusted_proxies": ("127.0.0.1", "10.0.0.0/30", "unix")}


def make_request(peer: str | None, *names: str) -> Request:
    headers = [(b"remote-user", each.encode("latin-1")) for each in names]
    client = (peer, 1) if peer is not None else None
    return Request({"type": "http", "method": "GET", "path": "/", "headers": headers, "client": client})


@pytest.mark.parametrize("peer", ["127.0.0.1", "::ffff:127.0.0.1", "10.0.0.3", None])
def test_a_trusted_peer_names_somebody(given: dict[str, Any], peer: str | None) -> None:
    assert find_proxy_user(make_request(peer, "ann@example.com"), Config(given)) == "ann@example.com"


@pytest.mark.parametrize("peer", ["127.0.0.2", "10.0.0.4", "::1", "192.0.2.1", "unix", "", "localhost"])
def test_nobody_else_does(given: dict[str, Any], peer: str) -> None:
    assert find_proxy_user(make_request(peer, "ann"), Config(given)) == ""


@pytest.mark.parametrize("trusted", [(), ("10.0.0.1",)])
def test_without_its_address_among_the_trusted_a_socket_file_is_nobodys(trusted: tuple[str, ...]) -> None:
    config = Config({"web.proxy_user_header": "Remote-User", "web.trusted_proxies": trusted})
    assert find_proxy_user(make_request(None, "ann"), config) == ""


@pytest.mark.parametrize(
    "names", [(), ("",), ("ann", "owner"), ("ann,owner",), ("a b",), ("ann\t",), ("x" * 101,), ("/",)]
)
def test_what_is_not_one_clear_name_names_nobody(given: dict[str, Any], names: tuple[str, ...]) -> None:
    assert find_proxy_user(make_request("127.0.0.1", *names), Config(given)) == ""


@pytest.mark.parametrize(
    ("header", "trusted"),
    [("Remote User", ("10.0.0.1",)), ("Remote-User", ("proxy.local",)), ("Remote-User", ("0.0.0.0/0",)),
     ("Remote-User", ("::/0",)), ("Remote-User", ("10.0.0.1/24",))],
)  # fmt: skip
def test_settings_that_cannot_be_meant_are_refused_by_name(header: str, trusted: tuple[str, ...]) -> None:
    config = Config({"web.proxy_user_header": header, "web.trusted_proxies": trusted})
    with pytest.raises(SetupError, match=r"web\.(proxy_user_header|trusted_proxies)"):
        check_proxy_settings(config)


def test_the_doctor_warns_of_a_header_that_nobody_is_trusted_with(given: dict[str, Any]) -> None:
    (found,) = check_sign_in(Config({"web.proxy_user_header": "Remote-User"}))
    assert found.level == "warn" and "web.trusted_proxies" in found.remedy
    assert list(check_sign_in(Config(given))) == [] == list(check_sign_in(Config()))


def add_ann(db: Db) -> None:
    users.add(db, "telegram:user/9", "Ann", 1)
    users.add(db, "proxy:ann", "Ann", 1)
    identities.add(db, "proxy:ann", "telegram:user/9", "test", 1)


async def sign_in(browser: Any, headers: dict[str, str]) -> Any:
    return await browser.post("/login/proxy_header", json={}, headers=headers)


async def test_the_person_who_has_the_name_is_signed_in_as_herself_while_the_proxy_says_so(site: Any) -> None:
    await site.store.write(add_ann)
    async with site.browser() as browser:
        (way,) = (await browser.get("/login/ways", headers=ANN)).json()["ways"]
        assert way["label"] == "Continue as ann"
        assert (await sign_in(browser, ANN)).status_code == 200
        assert (await browser.get("/api/start", headers=ANN)).json()["room"] == "web:people/ann"
        for headers in ({}, {"remote-user": "ben"}, {"remote-user": "owner"}):
            assert (await browser.get("/api/start", headers=headers)).status_code == 401
    (row,) = await site.store.read(lambda db: logins.list_all(db, SystemClock().now()))
    assert (row.user_id, row.way) == ("web:user/ann", "proxy_header")
    assert (await site.store.read(users.get_roles, "web:user/ann")).roles == ()


@pytest.mark.parametrize("name", ["owner", "web:user/owner", "terminal:owner", "nobody", "user/owner"])
async def test_a_name_that_nobody_has_linked_lets_nobody_in_and_makes_nobody(site: Any, name: str) -> None:
    await site.new_token()  # there is an owner
    before = await site.store.read(users.list_all)
    async with site.browser() as browser:
        assert (await sign_in(browser, {"remote-user": name})).status_code == 403
        assert (await browser.get("/api/start", headers={"remote-user": name})).status_code == 401
    assert await site.store.read(users.list_all) == before


async def test_the_header_alone_opens_nothing(site: Any) -> None:
    """A read or a write without a login stays refused, whatever the proxy says."""
    await site.store.write(add_ann)
    async with site.browser() as browser:
        for path in ("/api/start", "/dashboard/tasks"):
            assert (await browser.get(path, headers=ANN)).status_code == 401
        assert (await browser.post("/dashboard/do/group.add", data={"folder": "x"}, headers=ANN)).status_code == 401


@pytest.mark.parametrize(
    "given", [{"web.proxy_user_header": "Remote-User", "web.trusted_proxies": ("192.0.2.1",)}], ids=["elsewhere"]
)
async def test_the_header_of_a_stranger_is_ignored(site: Any) -> None:
    await site.store.write(add_ann)
    async with site.browser() as browser:
        assert (await browser.get("/login/ways", headers=ANN)).json()["ways"] == []
        forwarded = {**ANN, "x-forwarded-for": "192.0.2.1", "forwarded": "for=192.0.2.1", "x-real-ip": "192.0.2.1"}
        assert (await sign_in(browser, forwarded)).status_code == 403
    async with site.signed_in() as owner:
        assert (await owner.get("/api/start", headers=ANN)).json()["room"] == "web:home"
