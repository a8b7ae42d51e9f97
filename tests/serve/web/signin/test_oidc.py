"""Signing in by an OpenID provider over HTTP: the emulated one, and a browser's worth of cookies and redirects."""

import json
import re
from collections.abc import Iterator
from html import unescape
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx2
import pytest

from gatepost.core import json_web_tokens
from gatepost.core.clock import SystemClock
from gatepost.core.errors import SetupError
from gatepost.core.home import Home
from gatepost.core.json_web_tokens import NotProven
from gatepost.core.keyring import Keyring
from gatepost.core.settings import Config
from gatepost.flow import pairing
from gatepost.serve import auth_throttle
from gatepost.serve.web.signin.oidc import (
    LONGEST_KEPT_NEXT,
    SECRET,
    OidcClaim,
    TokenExpectation,
    check_settings,
    check_sign_in,
    parse_next,
    read_value,
)
from gatepost.store.people import identities, users
from gatepost.store.people.users import UserRole
from gatepost.store.port import Db
from gatepost.store.rights import secrets
from gatepost.store.rights.secret_rows import SecretOwner, is_channel_secret
from gatepost_testing.servers.oidc_provider import CLIENT_ID, CLIENT_SECRET, OidcAccount, OidcProvider, ProviderFault
from gatepost_testing.waiting import PATIENCE_S

ANN, LINKED = "telegram:user/9", "oidc:ann-1"
AWAY = (
    "",
    "evil.example",
    "//evil.example",
    "///evil.example",
    "/\\evil.example",
    "\\\\evil.example",
    "/\\/evil.example",
    "https://evil.example/",
    "https:evil.example",
    "javascript:alert(1)",
    "data:text/html,x",
    "/%2Fevil.example",
    "/%5Cevil.example",
    "/%252Fevil.example",
    "/%25252525252Fevil.example",
    "%2F%2Fevil.example",
    "/\t/evil.example",
    "/\n/evil.example",
    "/%09/evil.example",
    "/%0d%0aset-cookie:x",
    "/ /evil.example",
    "/x\r\nlocation: //evil.example",
    "/x\x00",
    "/\u2028",
    "/\uff0fevil.example",
    "/a" * 5000,
    "/login",
    "/login/ways",
    "/logout",
    "/api/start",
)
OURS = (
    "/",
    "/dashboard/tasks",
    "/dashboard/groups/acme%2Feng?q=a%20b&state=all",
    "/dashboard/people/web%3Auser%2Fann",
    "/session#id=s-1",
    "/pair/abc",
)


@pytest.fixture
def provider() -> Iterator[OidcProvider]:
    with OidcProvider() as running:
        yield running


@pytest.fixture
def claim() -> str:
    return "sub"


@pytest.fixture
def given(provider: OidcProvider, claim: str) -> dict[str, Any]:
    return {
        "web.oidc_issuer": provider.issuer,
        "web.oidc_client_id": CLIENT_ID,
        "web.oidc_claim": claim,
        "web.hosts": ("agents.example",),
    }


@pytest.fixture
async def people(site: Any) -> None:
    """Ann is known and linked, and the gateway has the client's secret."""
    now = SystemClock().now()

    def write(db: Db) -> None:
        users.add(db, ANN, "Ann", now)
        identities.add(db, LINKED, ANN, "operator", now)
        secrets.put(db, Keyring(site.home), SecretOwner(), SECRET, CLIENT_SECRET, now)

    await site.store.write(write)


class OidcBrowser:
    """Leads itself to the provider and back, as a browser does."""

    def __init__(self, site: Any, scheme: str = "http", host: str = "") -> None:
        self.base, self.origin = site.base, f"{scheme}://{host or site.base.partition('//')[2]}"
        headers = {"host": self.origin.partition("//")[2], "user-agent": "Firefox/1 Linux"}
        self.http = httpx2.AsyncClient(base_url=site.base, headers=headers, timeout=PATIENCE_S, verify=False)

    async def __aenter__(self) -> "OidcBrowser":
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.http.aclose()

    async def begin(self, following: str = "/") -> httpx2.Response:
        headers = {"origin": self.origin, "x-gatepost": "1"}
        return await self.http.post("/login/oidc", json={"next": following}, headers=headers)

    async def visit_provider(self, address: str) -> str:
        """The path that it leads back to, with the code in it."""
        async with httpx2.AsyncClient(timeout=PATIENCE_S, verify=False) as other:
            page = await other.get(address)
        found = re.search(r'href="([^"]+)"', page.text)
        assert found is not None, page.text
        back = unescape(found[1])
        assert back.startswith(f"{self.origin}/login/oidc/back?")
        return back.removeprefix(self.origin)

    async def come_back(self, path: str) -> httpx2.Response:
        return await self.http.get(path, headers={"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate"})

    async def sign_in(self, following: str = "/") -> httpx2.Response:
        begun = await self.begin(following)
        assert begun.status_code == 200, begun.text
        return await self.come_back(await self.visit_provider(begun.json()["location"]))

    async def get_user(self) -> str:
        """'': nobody is signed in."""
        answer = await self.http.get("/dashboard/logins", headers={"sec-fetch-site": "same-origin"})
        found = re.search(r'who-is-here" title="([^"]*)"', answer.text)
        return unescape(found[1]) if found is not None and answer.status_code == 200 else ""


@pytest.mark.slow
async def test_a_linked_person_is_signed_in_as_herself(site: Any, people: None) -> None:
    async with OidcBrowser(site) as browser:
        done = await browser.sign_in("/dashboard/tasks?state=failed")
        assert done.status_code == 200
        assert 'href="/dashboard/tasks?state=failed"' in done.text
        assert await browser.get_user() == "web:user/ann"
        cookies = done.headers.get_list("set-cookie")
        assert any("samesite=strict" in each.lower() and "Max-Age=0" not in each for each in cookies)
        assert any("oidc_sign_in" in each and "Max-Age=0" in each for each in cookies)


@pytest.mark.slow
async def test_the_button_is_on_the_sign_in_page_and_the_way_there_has_what_it_needs(
    site: Any, people: None, provider: OidcProvider
) -> None:
    async with OidcBrowser(site) as browser:
        ways = (await browser.http.get("/login/ways")).json()["ways"]
        assert [(each["name"], each["script"]) for each in ways] == [("oidc", "oidc.js")]
        begun = await browser.begin()
        asked = parse_qs(urlsplit(begun.json()["location"]).query)
        assert asked["scope"] == ["openid"] and asked["code_challenge_method"] == ["S256"]
        assert asked["redirect_uri"] == [f"{site.base}/login/oidc/back"]
        assert len(asked["state"][0]) >= 43 and len(asked["nonce"][0]) >= 43 and asked["state"] != asked["nonce"]
        cookie = begun.headers["set-cookie"]
        assert "HttpOnly" in cookie and "samesite=lax" in cookie.lower() and "Max-Age=300" in cookie


async def test_over_https_the_cookies_are_secure(site: Any, people: None) -> None:
    async with OidcBrowser(site, "https", "agents.example") as browser:
        begun = await browser.begin()
        cookie = begun.headers["set-cookie"]
        assert cookie.startswith("__Host-") and "Secure" in cookie
        path = await browser.visit_provider(begun.json()["location"])
        browser.http.headers["cookie"] = cookie.partition(";")[0]  # the client itself is on http
        done = await browser.come_back(path)
        mine = [each for each in done.headers.get_list("set-cookie") if "oidc" not in each]
        assert len(mine) == 1 and mine[0].startswith("__Host-") and "Secure" in mine[0]


@pytest.mark.slow
async def test_an_unknown_account_is_told_what_to_ask_for_and_gets_none(
    site: Any, people: None, provider: OidcProvider
) -> None:
    before = await site.store.read(users.list_all)
    provider.account = OidcAccount(sub="owner")
    async with OidcBrowser(site) as browser:
        for sub in ("owner", "user/owner", "x'; rm -rf <b>", "*"):
            provider.account = OidcAccount(sub=sub.replace(" ", "_"))
            done = await browser.sign_in()
            assert done.status_code == 403 and "Nobody here has linked this account" in done.text
            assert "<b>" not in done.text and await browser.get_user() == ""
        provider.account = OidcAccount(sub="x';rm")
        assert "gatepost user add &#39;oidc:x&#39;&#34;&#39;&#34;&#39;;rm&#39;" in (await browser.sign_in()).text
    assert await site.store.read(users.list_all) == before


@pytest.mark.slow
async def test_an_unknown_account_does_not_make_up_for_wrong_tokens(
    site: Any, people: None, provider: OidcProvider
) -> None:
    provider.account = OidcAccount(sub="stranger")
    async with OidcBrowser(site) as browser, site.browser() as other:
        await other.post("/login", json={"token": "wrong"})
        assert (await browser.sign_in()).status_code == 403
        await other.post("/login", json={"token": "wrong"})
    sql = "SELECT details FROM audit WHERE action = 'door.token' ORDER BY seq"
    rows = await site.store.read(lambda db: db.rows(sql))
    assert [json.loads(row[0])["times"] for row in rows] == [1, 2]


@pytest.mark.slow
async def test_codes_that_a_stranger_made_up_do_not_fill_the_record_of_secrets(site: Any, people: None) -> None:
    async with OidcBrowser(site) as browser:
        for _ in range(3):
            begun = (await browser.begin()).json()["location"]
            state = parse_qs(urlsplit(begun).query)["state"][0]
            assert (await browser.come_back(f"/login/oidc/back?state={state}&code=made-up")).status_code == 403
    rows = await site.store.read(lambda db: db.rows("SELECT outcome FROM secret_uses WHERE name = ?", (SECRET,)))
    assert [row[0] for row in rows] == ["used"]


async def test_who_was_made_known_by_that_account_comes_in_and_is_no_owner(
    site: Any, people: None, provider: OidcProvider
) -> None:
    provider.account = OidcAccount(sub="bob-2")
    await site.store.write(users.add, "oidc:bob-2", "Bob", 1)
    async with OidcBrowser(site) as browser:
        assert (await browser.sign_in()).status_code == 200
        assert await browser.get_user() == "web:user/bob"
    roles = await site.store.read(users.get_roles, "oidc:bob-2")
    assert (UserRole.OWNER, "") not in roles.roles


async def test_an_unlinked_account_does_not_come_in_any_more(site: Any, people: None) -> None:
    async with OidcBrowser(site) as browser:
        assert (await browser.sign_in()).status_code == 200
        await site.store.write(pairing.unpair, LINKED)
    async with OidcBrowser(site) as browser:
        assert (await browser.sign_in()).status_code == 403


async def test_an_answer_is_good_once_and_in_the_browser_that_began(site: Any, people: None) -> None:
    async with OidcBrowser(site) as browser, OidcBrowser(site) as other:
        begun = await browser.begin()
        held = dict(browser.http.cookies)
        path = await browser.visit_provider(begun.json()["location"])
        stolen = await other.come_back(path)
        assert stolen.status_code == 403 and "did not begin in this browser" in stolen.text
        await other.begin()
        assert (await other.come_back(path)).status_code == 403  # its own ticket is for another state
        assert (await browser.come_back(path)).status_code == 200
        assert (await browser.come_back(path)).status_code == 403
        other.http.cookies.clear()
        other.http.cookies.update(held)  # even with the cookie of that moment
        assert (await other.come_back(path)).status_code == 403
        assert await other.get_user() == ""


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda path: path.replace("state=", "state=x"), "another sign-in"),
        (lambda path: re.sub(r"state=[^&]*", "", path), "another sign-in"),
        (lambda path: re.sub(r"code=[^&]*", "code=", path), "no code"),
        (lambda path: re.sub(r"code=[^&]*", "code=made-up", path), "invalid_grant"),
        (lambda path: path + "&error=server_error", "says no"),
    ],
)
async def test_a_changed_way_back_leads_nowhere(site: Any, people: None, change: Any, why: str) -> None:
    async with OidcBrowser(site) as browser:
        begun = await browser.begin()
        done = await browser.come_back(change(await browser.visit_provider(begun.json()["location"])))
        assert done.status_code == 403 and why in unescape(done.text)
        assert await browser.get_user() == ""


@pytest.mark.parametrize(
    "fault",
    [
        ProviderFault.WRONG_NONCE,
        ProviderFault.WRONG_AUDIENCE,
        ProviderFault.EXPIRED,
        ProviderFault.ALGORITHM_NONE,
        ProviderFault.SHARED_SECRET,
        ProviderFault.OTHER_ISSUER,
        ProviderFault.OTHER_ISSUER_BACK,
        ProviderFault.DENIED,
        ProviderFault.HUGE_KEYS,
        ProviderFault.MOVED_TOKEN,
    ],
)
async def test_a_provider_that_misbehaves_signs_nobody_in(
    site: Any, people: None, provider: OidcProvider, fault: ProviderFault
) -> None:
    provider.fault = fault
    async with OidcBrowser(site) as browser:
        done = await browser.sign_in()
        assert done.status_code == 403 and "You are not signed in" in done.text
        assert await browser.get_user() == ""
    assert provider.moved_to == []


async def test_a_provider_whose_document_is_not_its_own_is_not_led_to(
    site: Any, people: None, provider: OidcProvider
) -> None:
    provider.fault = ProviderFault.OTHER_ISSUER_FOUND
    async with OidcBrowser(site) as browser:
        begun = await browser.begin()
        assert begun.status_code == 400 and "other.example" not in begun.text


@pytest.mark.parametrize("following", ["https://evil.example/", "//evil.example", "/\\evil.example", "/login", "x"])
async def test_after_signing_in_no_other_site_is_led_to(site: Any, people: None, following: str) -> None:
    async with OidcBrowser(site) as browser:
        done = await browser.sign_in(following)
        assert done.status_code == 200 and 'id="next" href="/"' in done.text


async def test_a_page_whose_path_no_cookie_holds_is_not_led_to(site: Any, people: None) -> None:
    async with OidcBrowser(site) as browser:
        for size, found in ((LONGEST_KEPT_NEXT, True), (LONGEST_KEPT_NEXT + 1, False)):
            path = "/dashboard/".ljust(size, "x")
            assert parse_next(path) == path
            done = await browser.sign_in(path)
            assert (f'id="next" href="{path}"' in done.text) is found


async def test_no_other_page_can_begin_a_sign_in(site: Any, people: None) -> None:
    async with OidcBrowser(site) as browser:
        for headers in ({}, {"origin": browser.origin}, {"origin": "https://evil.example", "x-gatepost": "1"}):
            assert (await browser.http.post("/login/oidc", json={"next": "/"}, headers=headers)).status_code == 403
        assert (await browser.http.get("/login/oidc")).status_code == 405


async def test_failed_returns_of_one_address_wait_and_are_bounded(
    site: Any, people: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(auth_throttle, "MOST_WAITING", 0)  # all places for those who wait are taken
    async with OidcBrowser(site) as browser:
        await browser.begin()
        done = await browser.come_back("/login/oidc/back?state=x&code=y")
        assert done.status_code == 429 and "wait a while" in done.text
        assert (await browser.sign_in()).status_code == 200


async def test_a_secret_that_is_changed_counts_at_once(site: Any, people: None) -> None:
    async with OidcBrowser(site) as browser:
        for value, expected in (("wrong", 403), (CLIENT_SECRET, 200), ("wrong", 403)):
            await site.store.write(secrets.put, Keyring(site.home), SecretOwner(), SECRET, value, SystemClock().now())
            assert (await browser.sign_in()).status_code == expected


class TestEmail:
    @pytest.fixture
    def claim(self) -> str:
        return "email"

    async def test_an_address_counts_if_the_provider_has_verified_it(
        self, site: Any, people: None, provider: OidcProvider
    ) -> None:
        await site.store.write(identities.add, "oidc:ann@example.com", ANN, "operator", 1)
        async with OidcBrowser(site) as browser:
            assert parse_qs(urlsplit((await browser.begin()).json()["location"]).query)["scope"] == ["openid email"]
            provider.account = OidcAccount(sub="eve", email="ann@example.com")
            refused = await browser.sign_in()
            assert refused.status_code == 403 and "not verified" in refused.text
            provider.account = OidcAccount(sub="eve", email="ann@example.com", email_verified=True)
            assert (await browser.sign_in()).status_code == 200


def test_an_issuer_needs_a_client_id_and_its_secret_goes_to_no_agent(home: Home) -> None:
    with pytest.raises(SetupError, match=r"web\.oidc_client_id"):
        check_settings(Config({"web.oidc_issuer": "https://id.example"}))
    with pytest.raises(SetupError, match=r"web\.oidc_issuer"):
        check_settings(Config({"web.oidc_issuer": "http://id.example", "web.oidc_client_id": "us"}))
    check_settings(Config())
    assert is_channel_secret(SECRET)


@pytest.mark.parametrize("given", AWAY)
def test_what_may_lead_away_leads_to_the_first_page(given: str) -> None:
    assert parse_next(given) == "/"


@pytest.mark.parametrize("given", OURS)
def test_a_page_of_ours_stays_as_it_was_asked_for(given: str) -> None:
    assert parse_next(given) == given


NOW_S = 1_800_000_000
EXPECTED = TokenExpectation(issuer="https://id.example", client_id="us", nonce="n-1", claim=OidcClaim.SUB)
CLAIMS: dict[str, Any] = {
    "iss": "https://id.example",
    "aud": "us",
    "sub": "ann-1",
    "nonce": "n-1",
    "iat": NOW_S - 5,
    "exp": NOW_S + 300,
}


def check_claims(claims: dict[str, Any]) -> None:
    json_web_tokens.check_claims(claims, EXPECTED.terms, NOW_S)
    check_sign_in(claims, EXPECTED, NOW_S)


def test_claims_for_the_sign_in_that_we_began_are_taken() -> None:
    check_claims(CLAIMS)
    assert read_value(CLAIMS, OidcClaim.SUB) == "ann-1"
    check_claims({**CLAIMS, "aud": ["us"], "azp": "us"})
    check_claims({**CLAIMS, "aud": ["us", "them"], "azp": "us"})


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"iss": "https://id.example/"}, "another issuer"),
        ({"iss": None}, "another issuer"),
        ({"aud": "them"}, "another program"),
        ({"aud": []}, "another program"),
        ({"aud": None}, "another program"),
        ({"aud": ["us", "them"]}, "several programs"),
        ({"azp": "them"}, "another program asked"),
        ({"azp": None}, "another program asked"),
        ({"exp": NOW_S - 60}, "expired"),
        ({"exp": float("nan")}, "no time exp"),
        ({"exp": "soon"}, "no time exp"),
        ({"exp": True}, "no time exp"),
        ({"exp": None}, "no time exp"),
        ({"iat": None}, "no time iat"),
        ({"iat": NOW_S + 61}, "future"),
        ({"nbf": NOW_S + 61}, "future"),
        ({"nonce": "n-2"}, "another sign-in"),
        ({"nonce": None}, "another sign-in"),
        ({"nonce": ["n-1"]}, "another sign-in"),
    ],
)
def test_claims_of_another_sign_in_are_refused(change: dict[str, Any], why: str) -> None:
    with pytest.raises(NotProven, match=why):
        check_claims({**CLAIMS, **change})


def test_clocks_may_differ_by_a_minute() -> None:
    check_claims({**CLAIMS, "exp": NOW_S - 59, "iat": NOW_S + 60})
    check_claims({**CLAIMS, "exp": 10**400})  # larger than a float


@pytest.mark.parametrize("verified", [None, False, "true", 1])
def test_an_email_address_counts_only_if_the_provider_has_verified_it(verified: object) -> None:
    claims = {**CLAIMS, "email": "ann@example.com"}
    with pytest.raises(NotProven, match="not verified"):
        read_value({**claims, "email_verified": verified}, OidcClaim.EMAIL)
    assert read_value({**claims, "email_verified": True}, OidcClaim.EMAIL) == "ann@example.com"


@pytest.mark.parametrize("value", ["", None, 5, "a b", "a\nb", "a\u202eb", "x" * 401, ["ann"]])
def test_a_claim_that_cannot_be_an_identity_is_refused(value: object) -> None:
    with pytest.raises(NotProven):
        read_value({**CLAIMS, "sub": value}, OidcClaim.SUB)


def test_half_a_character_as_nonce_is_another_sign_in_and_no_break() -> None:
    with pytest.raises(NotProven, match="another sign-in"):
        check_claims({**CLAIMS, "nonce": "\ud800"})
