"""The OpenID provider, as we ask it: its discovery document, its keys and its tokens.

Its answers are bounded in size and time, and redirects are not followed. Only https is asked, or a provider on this
machine. Documents are kept for an hour. An unknown key has them fetched anew, once a minute at most: else anybody who
shows us made-up keys could have us ask the provider as often as they like.
"""

import asyncio
import base64
import ipaddress
import json
import time
from collections.abc import Callable, Mapping
from functools import cache
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import quote_plus, urlsplit

from msgspec import Struct

from gatepost.core.errors import SetupError, Unavailable
from gatepost.core.json_web_tokens import NotProven, TokenHeader, find_key, read_keys

if TYPE_CHECKING:
    from gatepost.serve.web.provider_transport import ProviderTransport

T = TypeVar("T")
WHAT = "the sign-in provider"
DISCOVERY = "/.well-known/openid-configuration"
KEPT_S = 3600.0
AGAIN_S = 60.0  # between two fetches of the keys
FAILED_S = 10.0  # after a failure the provider is left alone for so long
MOST_AT_ONCE = 16  # people whose sign-in waits for the provider


class ProviderPlaces(Struct, frozen=True, kw_only=True):
    """The addresses in the discovery document."""

    authorization: str
    token: str
    keys: str
    takes_basic: bool  # the secret in a header; else in the body


class ClientIdentity(Struct, frozen=True, kw_only=True):
    """Our own identity to the provider. `secret` '': a public client."""

    issuer: str
    client_id: str
    secret: str = ""


class CodeExchange(Struct, frozen=True, kw_only=True):
    code: str
    verifier: str
    redirect_uri: str


def is_loopback(url: str) -> bool:
    host = urlsplit(url).hostname or ""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def check_place(url: Any, issuer: str) -> str:
    """An address of the provider that may be asked. A provider elsewhere cannot name a place on this machine."""
    if not isinstance(url, str) or len(url) > 2000 or not url.isascii() or not url.isprintable() or " " in url:
        raise SetupError(f"{WHAT} at {issuer} names an address that is none")
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError:
        raise SetupError(f"{WHAT} at {issuer} names an address that is none") from None
    safe = parts.scheme == "https" or (parts.scheme == "http" and is_loopback(url) and is_loopback(issuer))
    if not safe or not host or parts.username is not None or parts.fragment:
        raise SetupError(f"{WHAT} at {issuer} names an address that is not https: {url[:200]}")
    return url


def check_issuer(issuer: str) -> str:
    """As the setting has it. It is compared exactly, so nothing is added or taken away."""
    try:
        place = check_place(issuer, issuer)
    except SetupError:
        raise SetupError(f"web.oidc_issuer = {issuer!r} is neither https://… nor on this machine") from None
    if urlsplit(place).query:
        raise SetupError(f"web.oidc_issuer = {issuer!r} has a query, which no issuer has")
    return place


def read_discovery(document: Any, issuer: str) -> ProviderPlaces:
    if not isinstance(document, Mapping) or document.get("issuer") != issuer:
        given = document.get("issuer") if isinstance(document, Mapping) else None
        raise SetupError(
            f"{WHAT} calls itself {str(given)[:200]!r}; set web.oidc_issuer to exactly that if it is right"
        )
    methods = document.get("token_endpoint_auth_methods_supported", ["client_secret_basic"])
    return ProviderPlaces(
        authorization=check_place(document.get("authorization_endpoint"), issuer),
        token=check_place(document.get("token_endpoint"), issuer),
        keys=check_place(document.get("jwks_uri"), issuer),
        takes_basic=isinstance(methods, list) and "client_secret_basic" in methods,
    )


def render_code_request(
    exchange: CodeExchange, client: ClientIdentity, places: ProviderPlaces
) -> tuple[dict[str, str], dict[str, str]]:
    """Headers and form of the request that has a code become tokens."""
    form = {
        "grant_type": "authorization_code",
        "code": exchange.code,
        "redirect_uri": exchange.redirect_uri,
        "code_verifier": exchange.verifier,
        "client_id": client.client_id,
    }
    headers = {"accept": "application/json"}
    if client.secret and places.takes_basic:
        pair = f"{quote_plus(client.client_id)}:{quote_plus(client.secret)}"
        headers["authorization"] = f"Basic {base64.b64encode(pair.encode()).decode()}"
    elif client.secret:
        form["client_secret"] = client.secret
    return headers, form


class ProviderClient:
    """`now`: seconds that only rise."""

    def __init__(self, issuer: str, now: Callable[[], float] = time.monotonic) -> None:
        self.issuer, self._now = check_issuer(issuer), now
        self._places: ProviderPlaces | None = None
        self._keys: list[Mapping[str, Any]] = []
        self._places_at = self._keys_at = self._failed_at = float("-inf")
        self._failure = ""
        self._turn = asyncio.Lock()  # whoever comes while a document is fetched gets the same one
        self._at_once = 0

    async def get_places(self) -> ProviderPlaces:
        async with self._turn:
            if self._places is None or self._now() - self._places_at >= KEPT_S:
                url = self.issuer.rstrip("/") + DISCOVERY
                self._places = await self._fetch(url, lambda document: read_discovery(document, self.issuer))
                self._places_at = self._now()
            return self._places

    async def find_key(self, header: TokenHeader) -> Mapping[str, Any]:
        """The key that a token names. Raises NotProven if the provider has none such."""
        places = await self.get_places()
        async with self._turn:
            age = self._now() - self._keys_at
            if age >= KEPT_S or (find_key(self._keys, header) is None and age >= AGAIN_S):
                self._keys, self._keys_at = await self._fetch(places.keys, read_keys), self._now()
            key = find_key(self._keys, header)
        if key is None:
            raise NotProven("its key is not the provider's")
        return key

    async def fetch_id_token(self, exchange: CodeExchange, client: ClientIdentity) -> str:
        places = await self.get_places()
        headers, form = render_code_request(exchange, client, places)
        status, document = await self._ask("POST", places.token, headers=headers, data=form)
        token = document.get("id_token") if isinstance(document, Mapping) else None
        if status != 200 or not isinstance(token, str):
            said = document.get("error") if isinstance(document, Mapping) else None
            raise NotProven(f"the provider gave no token: {str(said)[:100] if said else f'status {status}'}")
        return token

    async def _fetch(self, url: str, read: Callable[[Any], T]) -> T:
        """A document, read. A provider that just failed is not asked again at once."""
        if self._now() - self._failed_at < FAILED_S:
            raise Unavailable(WHAT, self._failure, retry_after=FAILED_S)
        try:
            status, document = await self._ask("GET", url, headers={"accept": "application/json"})
            if status != 200:
                raise Unavailable(WHAT, f"{url} answers with status {status}")
            return read(document)
        except (SetupError, Unavailable) as error:
            self._failed_at = self._now()
            self._failure = error.why if isinstance(error, Unavailable) else str(error)
            raise

    async def _ask(self, method: str, url: str, **given: Any) -> tuple[int, Any]:
        """The status and the JSON of an answer, None if it is none."""
        transport = await asyncio.to_thread(_get_transport)
        if self._at_once >= MOST_AT_ONCE:
            raise Unavailable(WHAT, "too many people wait for it; try again", retry_after=FAILED_S)
        self._at_once += 1
        try:
            status, raw = await transport.ask(method, url, **given)
        finally:
            self._at_once -= 1
        return status, _parse(raw)


@cache
def _get_transport() -> "ProviderTransport":
    """Takes a while: the library is loaded, and the certificates are read."""
    from gatepost.serve.web.provider_transport import ProviderTransport

    return ProviderTransport()


def _parse(raw: bytes) -> Any:
    try:
        return json.loads(raw)
    except (ValueError, RecursionError):
        return None
