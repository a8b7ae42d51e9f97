"""The provider as we ask it: the emulated one, on a real port, well and badly behaved."""

import base64
import hashlib
import re
from collections.abc import Iterator
from html import unescape
from urllib.parse import parse_qs, urlencode, urlsplit

import httpx2
import pytest

from gatepost.core.clock import SECOND, SystemClock
from gatepost.core.errors import SetupError, Unavailable
from gatepost.core.json_web_tokens import NotProven, read_header
from gatepost.serve.web.signin.oidc import OidcClaim, TokenExpectation, check_token
from gatepost.serve.web.signin.provider_client import (
    AGAIN_S,
    FAILED_S,
    KEPT_S,
    ClientIdentity,
    CodeExchange,
    ProviderClient,
    check_issuer,
    check_place,
)
from gatepost_testing.servers.oidc_provider import CLIENT_ID, CLIENT_SECRET, OidcProvider, ProviderFault
from gatepost_testing.waiting import PATIENCE_S

BACK, VERIFIER, NONCE = "http://localhost:1/login/oidc/back", "v" * 43, "nonce-1"


class Seconds:
    """A clock that stands still until it is moved."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def provider() -> Iterator[OidcProvider]:
    with OidcProvider() as running:
        yield running


@pytest.fixture
def seconds() -> Seconds:
    return Seconds()


@pytest.fixture
def client(provider: OidcProvider, seconds: Seconds) -> ProviderClient:
    return ProviderClient(provider.issuer, seconds)


async def get_code(client: ProviderClient) -> str:
    """As a browser does: the provider's page is opened, and its link leads back with a code."""
    proof = base64.urlsafe_b64encode(hashlib.sha256(VERIFIER.encode()).digest()).rstrip(b"=").decode()
    asked = {
        "client_id": CLIENT_ID,
        "response_type": "code",
        "scope": "openid",
        "redirect_uri": BACK,
        "nonce": NONCE,
        "state": "s",
        "code_challenge": proof,
        "code_challenge_method": "S256",
    }
    places = await client.get_places()
    async with httpx2.AsyncClient(timeout=PATIENCE_S, verify=False) as browser:
        page = (await browser.get(f"{places.authorization}?{urlencode(asked)}")).text
    found = re.search(r'href="([^"]+)"', page)
    assert found is not None, page
    return parse_qs(urlsplit(unescape(found[1])).query)["code"][0]


async def sign_in(client: ProviderClient, secret: str = CLIENT_SECRET) -> str:
    exchange = CodeExchange(code=await get_code(client), verifier=VERIFIER, redirect_uri=BACK)
    identity = ClientIdentity(issuer=client.issuer, client_id=CLIENT_ID, secret=secret)
    token = await client.fetch_id_token(exchange, identity)
    key = await client.find_key(read_header(token))
    expected = TokenExpectation(issuer=client.issuer, client_id=CLIENT_ID, nonce=NONCE, claim=OidcClaim.SUB)
    return check_token(token, key, expected, SystemClock().now() // SECOND)


@pytest.mark.parametrize("takes_basic", [True, False])
async def test_a_code_becomes_a_proven_person(
    provider: OidcProvider, client: ProviderClient, takes_basic: bool
) -> None:
    provider.takes_basic = takes_basic
    assert await sign_in(client) == "ann-1"


async def test_a_wrong_secret_is_said_to_be_one(provider: OidcProvider, client: ProviderClient) -> None:
    with pytest.raises(NotProven, match="invalid_client"):
        await sign_in(client, "wrong")


@pytest.mark.parametrize(
    ("fault", "why"),
    [
        (ProviderFault.WRONG_NONCE, "another sign-in"),
        (ProviderFault.NO_NONCE, "another sign-in"),
        (ProviderFault.WRONG_AUDIENCE, "another program"),
        (ProviderFault.SEVERAL_AUDIENCES, "several programs"),
        (ProviderFault.WRONG_PARTY, "another program asked"),
        (ProviderFault.EXPIRED, "expired"),
        (ProviderFault.FUTURE, "future"),
        (ProviderFault.OTHER_ISSUER, "another issuer"),
        (ProviderFault.ALGORITHM_NONE, "algorithm"),
        (ProviderFault.SHARED_SECRET, "algorithm"),
        (ProviderFault.FOREIGN_KEY, "signature"),
        (ProviderFault.CHANGED_CLAIMS, "signature"),
        (ProviderFault.UNKNOWN_KEY, "not the provider's"),
        (ProviderFault.MOVED_TOKEN, "status 307"),
    ],
)
async def test_a_token_that_proves_nothing_signs_nobody_in(
    provider: OidcProvider, client: ProviderClient, fault: ProviderFault, why: str
) -> None:
    provider.fault = fault
    with pytest.raises(NotProven, match=why):
        await sign_in(client)
    assert provider.moved_to == []


@pytest.mark.parametrize(
    ("fault", "error", "why"),
    [
        (ProviderFault.OTHER_ISSUER_FOUND, SetupError, "https://other.example"),
        (ProviderFault.PLAIN_PLACE, SetupError, "not https"),
        (ProviderFault.HUGE_DISCOVERY, Unavailable, "more than"),
        (ProviderFault.HUGE_KEYS, Unavailable, "more than"),
        (ProviderFault.HUGE_TOKEN, Unavailable, "more than"),
        (ProviderFault.MOVED_DISCOVERY, Unavailable, "status 302"),
        (ProviderFault.MOVED_KEYS, Unavailable, "status 302"),
    ],
)
async def test_a_provider_that_answers_something_else_is_not_believed(
    provider: OidcProvider, client: ProviderClient, fault: ProviderFault, error: type[Exception], why: str
) -> None:
    provider.fault = fault
    with pytest.raises(error, match=why):
        await sign_in(client)
    assert provider.moved_to == []


@pytest.mark.slow
async def test_documents_are_kept_and_a_new_key_is_fetched_once_a_minute(
    provider: OidcProvider, client: ProviderClient, seconds: Seconds
) -> None:
    await sign_in(client)
    await sign_in(client)
    assert (provider.asked.count("discovery"), provider.asked.count("keys")) == (1, 1)
    provider.replace_key("key-2")
    with pytest.raises(NotProven, match="not the provider's"):
        await sign_in(client)
    assert provider.asked.count("keys") == 1
    seconds.now += AGAIN_S
    assert await sign_in(client) == "ann-1"
    provider.fault = ProviderFault.UNKNOWN_KEY
    for _ in range(3):
        with pytest.raises(NotProven):
            await sign_in(client)
    assert provider.asked.count("keys") == 2
    provider.fault = None
    seconds.now += KEPT_S
    await sign_in(client)
    assert (provider.asked.count("discovery"), provider.asked.count("keys")) == (2, 3)


async def test_a_provider_that_just_failed_is_left_alone_for_a_while(
    provider: OidcProvider, client: ProviderClient, seconds: Seconds
) -> None:
    provider.fault = ProviderFault.OTHER_ISSUER_FOUND
    with pytest.raises(SetupError):
        await client.get_places()
    provider.fault = None
    with pytest.raises(Unavailable, match=r"other\.example"):
        await client.get_places()
    assert provider.asked == ["discovery"]
    seconds.now += FAILED_S
    await client.get_places()


async def test_a_provider_that_is_not_there_is_named(seconds: Seconds) -> None:
    with OidcProvider() as gone:
        issuer = gone.issuer
    with pytest.raises(Unavailable, match=r"127\.0\.0\.1:\d+ does not answer"):
        await ProviderClient(issuer, seconds).get_places()


@pytest.mark.parametrize(
    "issuer",
    ["", "id.example", "http://id.example", "ftp://127.0.0.1", "https://", "https://a@id.example", "https://id.example#x",
     "https://id.example?x=1", "https://id.example /x", "https://[::1", "javascript:alert(1)"],
)  # fmt: skip
def test_an_issuer_is_https_or_on_this_machine(issuer: str) -> None:
    with pytest.raises(SetupError, match=r"web\.oidc_issuer"):
        check_issuer(issuer)


def test_a_provider_elsewhere_cannot_name_a_place_on_this_machine() -> None:
    assert check_place("http://127.0.0.1:5/token", "http://localhost:5") == "http://127.0.0.1:5/token"
    with pytest.raises(SetupError):
        check_place("http://127.0.0.1:5/token", "https://id.example")
