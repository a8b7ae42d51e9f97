"""Passkeys over HTTP, with an authenticator in software: add, sign in, and what is not to work."""

import json
from typing import Any

import httpx2
import pytest

from gatepost.core.clock import SystemClock
from gatepost.flow import pairing
from gatepost.serve.control.operations.credentials import FRESH_LOGIN
from gatepost.store.people import identities, passkeys, users
from gatepost.store.rights import audit
from gatepost_testing.clients.web_manners import make_async_manners
from gatepost_testing.waiting import PATIENCE_S

from .authenticator import PRESENT, SoftAuthenticator

pytest.importorskip("fido2")


@pytest.fixture
def given() -> dict[str, Any]:
    return {"web.passkey_login": True, "web.hosts": ("agents.example",)}


class PasskeyBrowser:
    """A browser at http://localhost, or at another name of the site. `port`: what a program says that it asked for."""

    def __init__(self, site: Any, host: str = "localhost", scheme: str = "http", port: str = "") -> None:
        self.site, port = site, port or site.base.rpartition(":")[2]
        self.origin = f"{scheme}://{host}:{port}"
        manners = make_async_manners(self.origin)
        manners["headers"]["host"] = f"{host}:{port}"
        self.http = httpx2.AsyncClient(base_url=site.base, timeout=PATIENCE_S, verify=False, **manners)

    async def __aenter__(self) -> "PasskeyBrowser":
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.http.aclose()

    async def enter(self) -> None:
        answer = await self.http.post("/login", json={"token": await self.site.new_token()})
        assert answer.status_code == 200, answer.text

    async def leave(self) -> None:
        await self.http.post("/logout")
        assert not await self.is_signed_in()

    async def is_signed_in(self) -> bool:
        return (await self.http.get("/dashboard/logins")).status_code == 200

    async def begin(self, path: str = "/login/passkey/begin") -> dict[str, Any]:
        answer = await self.http.post(path, json={})
        assert answer.status_code == 200, answer.text
        options: dict[str, Any] = answer.json()["options"]
        return options

    async def finish(self, given: dict[str, Any]) -> httpx2.Response:
        return await self.http.post("/login/passkey/finish", json=given)

    async def add(self, device: SoftAuthenticator, label: str = "Phone", **more: Any) -> httpx2.Response:
        options = await self.begin("/login/passkey/add/begin")
        body = {"credential": device.create(options, **{"origin": self.origin, **more}), "label": label}
        return await self.http.post("/login/passkey/add/finish", json=body)


@pytest.fixture
def device() -> SoftAuthenticator:
    return SoftAuthenticator()


async def test_a_passkey_is_added_and_signs_in_without_a_name(site: Any, device: SoftAuthenticator) -> None:
    async with PasskeyBrowser(site) as browser:
        await browser.enter()
        assert (await browser.add(device)).status_code == 200
        await browser.leave()
        options = await browser.begin()
        assert options["userVerification"] == "required" and "allowCredentials" not in options
        assert (await browser.finish(device.get(options, browser.origin))).status_code == 200
        assert await browser.is_signed_in()
    found = await site.store.read(passkeys.list_all, 10)
    assert [(each.label, each.host) for each in found] == [("Phone", browser.origin.partition("//")[2])]
    assert found[0].last_used_at is not None
    done = [(action, details.get("way")) for action, details in await list_audit(site)]
    assert ("passkey.add", None) in done and ("login.sign_in", "passkey") in done


async def list_audit(site: Any) -> list[tuple[str, dict[str, Any]]]:
    """Return what was done, and the details."""
    return [(row[3], json.loads(row[5])) for row in await site.store.read(audit.list_latest, 50)]


async def test_a_copied_answer_signs_nobody_in_a_second_time(site: Any, device: SoftAuthenticator) -> None:
    async with PasskeyBrowser(site) as browser, PasskeyBrowser(site) as thief:
        await browser.enter()
        await browser.add(device)
        await browser.leave()
        options = await browser.begin()
        ticket = dict(browser.http.cookies)
        said = device.get(options, browser.origin)
        assert (await browser.finish(said)).status_code == 200
        thief.http.cookies.update(ticket)  # even with the cookie of that moment
        assert (await thief.finish(said)).status_code == 403
        thief.http.cookies.clear()
        await thief.begin()
        assert (await thief.finish(said)).status_code == 403
        assert not await thief.is_signed_in()


@pytest.mark.parametrize(
    "lie",
    [
        {"origin": "http://localhost:1"},
        {"origin": "https://evil.example"},
        {"host": "evil.example"},
        {"flags": PRESENT},
    ],
    ids=["another port", "another site", "another host's key", "nobody was verified"],
)
async def test_an_answer_for_another_page_or_person_is_refused(
    site: Any, device: SoftAuthenticator, lie: dict[str, Any]
) -> None:
    async with PasskeyBrowser(site) as browser:
        await browser.enter()
        await browser.add(device)
        await browser.leave()
        said = device.get(await browser.begin(), **{"origin": browser.origin, **lie})
        assert (await browser.finish(said)).status_code == 403
        assert not await browser.is_signed_in()


async def test_a_page_on_another_port_of_the_host_gets_nothing_that_works_here(
    site: Any, device: SoftAuthenticator
) -> None:
    """Its browser signs for the same host. A program behind it asks us by that port, as if we were there, too."""
    async with PasskeyBrowser(site) as browser, PasskeyBrowser(site, port="1") as thief:
        await browser.enter()
        assert (await browser.add(device)).status_code == 200
        said = device.get(await thief.begin(), thief.origin)
        assert (await thief.finish(said)).status_code == 403
        assert not await thief.is_signed_in()


@pytest.mark.parametrize("lie", [{"origin": "https://evil.example"}, {"flags": PRESENT}])
async def test_a_passkey_that_proves_nothing_is_not_added(
    site: Any, device: SoftAuthenticator, lie: dict[str, Any]
) -> None:
    async with PasskeyBrowser(site) as browser:
        await browser.enter()
        answer = await browser.add(device, **lie)
        assert answer.status_code == 400 and "was not added" in answer.text
    assert await site.store.read(passkeys.list_all, 10) == []


@pytest.mark.slow
async def test_a_signature_of_another_key_or_person_is_refused(site: Any, device: SoftAuthenticator) -> None:
    async with PasskeyBrowser(site) as browser:
        await browser.enter()
        await browser.add(device)
        await browser.leave()
        other = SoftAuthenticator()
        other.handle = device.handle
        assert (await browser.finish(other.get(await browser.begin(), browser.origin))).status_code == 403
        other.id = device.id
        assert (await browser.finish(other.get(await browser.begin(), browser.origin))).status_code == 403
        device.handle = b"somebody else"
        assert (await browser.finish(device.get(await browser.begin(), browser.origin))).status_code == 403
        assert not await browser.is_signed_in()


async def test_a_counter_that_falls_back_is_refused_and_on_record(site: Any, device: SoftAuthenticator) -> None:
    async with PasskeyBrowser(site) as browser:
        await browser.enter()
        await browser.add(device)
        assert (await browser.finish(device.get(await browser.begin(), browser.origin))).status_code == 200
        device.counter -= 1
        await browser.leave()
        assert (await browser.finish(device.get(await browser.begin(), browser.origin))).status_code == 403
        assert not await browser.is_signed_in()
    refused = [details["why"] for action, details in await list_audit(site) if action == "passkey.use"]
    assert len(refused) == 1 and "copy" in refused[0]


async def test_a_removed_passkey_and_one_of_an_unpaired_identity_sign_nobody_in(
    site: Any, device: SoftAuthenticator
) -> None:
    now = SystemClock().now()
    async with PasskeyBrowser(site) as browser:
        await browser.enter()
        await browser.add(device)
        made = (await site.store.read(passkeys.list_all, 10))[0]
        page = await browser.http.post("/dashboard/do/passkey.rm", data={"id": made.id})
        assert page.status_code == 200
        await browser.leave()
        assert (await browser.finish(device.get(await browser.begin(), browser.origin))).status_code == 403

    def pair(db: Any) -> None:
        users.add(db, "telegram:user/9", "Ann", now)
        users.add(db, "web:user/ann", "Ann", now)
        identities.add(db, "web:user/ann", "telegram:user/9", "test", now)
        new = passkeys.NewPasskey(
            credential_id=b"x",
            credential=b"x",
            user_id="web:user/ann",
            user_handle=b"h",
            host="a",
            sign_count=0,
            label="P",
        )
        passkeys.add(db, new, now)
        pairing.unpair(db, "web:user/ann")

    await site.store.write(pair)
    assert await site.store.read(passkeys.list_all, 10) == []


async def test_passkeys_are_for_https_and_localhost_alone(site: Any) -> None:
    for host, scheme, status in (
        ("127.0.0.1", "http", 400),
        ("agents.example", "http", 400),
        ("agents.example", "https", 200),
        ("localhost", "http", 200),
    ):
        async with PasskeyBrowser(site, host, scheme) as browser:
            answer = await browser.http.post("/login/passkey/begin", json={})
            assert answer.status_code == status, host
            if status == 400:
                assert "https" in answer.json()["error"]["text"]
            elif scheme == "https":
                cookie = answer.headers["set-cookie"]
                assert cookie.startswith("__Host-") and "Secure" in cookie and "SameSite=strict" in cookie
            else:
                assert "HttpOnly" in answer.headers["set-cookie"]


async def test_only_who_is_signed_in_adds_a_passkey_and_as_herself_alone(site: Any, device: SoftAuthenticator) -> None:
    async with PasskeyBrowser(site) as browser, PasskeyBrowser(site) as stranger:
        assert (await stranger.http.post("/login/passkey/add/begin", json={})).status_code == 401
        await browser.enter()
        unproven = await browser.http.post("/login/passkey/add/begin", json={}, headers={"x-csrf-token": "x"})
        assert unproven.status_code == 403
        options = await browser.begin("/login/passkey/add/begin")
        body = {"credential": device.create(options, browser.origin), "label": "Phone"}
        stranger.http.cookies.update(
            {name: value for name, value in browser.http.cookies.items() if "add_passkey" in name}
        )
        assert (await stranger.http.post("/login/passkey/add/finish", json=body)).status_code == 401
        assert (await browser.http.post("/login/passkey/add/finish", json={**body, "label": " "})).status_code == 400
        assert (
            await browser.http.post("/login/passkey/add/finish", json={**body, "label": "x" * 61})
        ).status_code == 400
        assert (await browser.http.post("/login/passkey/add/finish", json=body)).status_code == 200
        assert (await browser.http.post("/login/passkey/add/finish", json=body)).status_code == 400
    assert len(await site.store.read(passkeys.list_all, 10)) == 1


@pytest.mark.parametrize(
    "said",
    [
        {},
        {"rawId": 5},
        {"rawId": "!", "response": None},
        {"id": "YQ", "rawId": "YQ", "type": "public-key", "response": {}},
        {"id": "YQ", "rawId": "YQ", "type": "public-key", "response": {"clientDataJSON": "e30"}},
    ],
)
async def test_what_no_authenticator_says_is_refused(site: Any, said: dict[str, Any]) -> None:
    async with PasskeyBrowser(site) as browser:
        await browser.begin()
        assert (await browser.finish(said)).status_code == 403
        await browser.enter()
        await browser.begin("/login/passkey/add/begin")
        answer = await browser.http.post("/login/passkey/add/finish", json={"credential": said, "label": "x"})
        assert answer.status_code == 400


async def test_an_authenticator_with_nested_nonsense_costs_nothing(site: Any) -> None:
    nested = "gYGB" * 4000  # CBOR: lists of lists
    given = {"id": "YQ", "rawId": "YQ", "type": "public-key"}
    async with PasskeyBrowser(site) as browser:
        await browser.enter()
        options = await browser.begin("/login/passkey/add/begin")
        said = SoftAuthenticator().create(options, browser.origin)["response"]["clientDataJSON"]
        body = {
            "credential": {**given, "response": {"clientDataJSON": said, "attestationObject": nested}},
            "label": "x",
        }
        assert (await browser.http.post("/login/passkey/add/finish", json=body)).status_code == 400
        large = await browser.http.post("/login/passkey/add/finish", json={"label": "x" * 40_000})
        assert large.status_code == 400


async def test_a_browser_that_was_left_open_gets_no_passkey(site: Any, device: SoftAuthenticator) -> None:
    async with PasskeyBrowser(site) as browser:
        await browser.enter()
        options = await browser.begin("/login/passkey/add/begin")
        await site.store.write(lambda db: db.run("UPDATE logins SET created_at = created_at - ?", (FRESH_LOGIN,)))
        body = {"credential": device.create(options, browser.origin), "label": "Phone"}
        late = await browser.http.post("/login/passkey/add/finish", json=body)
        assert late.status_code == 400 and "ten minutes" in late.text
        begun = await browser.http.post("/login/passkey/add/begin", json={})
        assert begun.status_code == 400 and "ten minutes" in begun.text
    assert await site.store.read(passkeys.list_all, 10) == []
