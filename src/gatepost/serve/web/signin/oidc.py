"""OpenID Connect: a provider that people have an account with says who somebody is (authorization code, PKCE).

The provider proves a value, and no more. Whom that lets in is what an owner has linked: the identity `oidc:VALUE` of a
person who is known here. Nobody gets an account, a role or a right by what a provider says.

`core/json_web_tokens.py` checks what every signed token has. Here is checked that an ID token is for the sign-in that
we began, and who it names.
"""

import asyncio
import base64
import hashlib
import hmac
import re
import shlex
from collections.abc import Mapping
from enum import StrEnum
from typing import Any
from urllib.parse import unquote, urlencode, urlsplit

from msgspec import Struct
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.routing import Route

from gatepost.core import ids, json_web_tokens, log
from gatepost.core.clock import SECOND
from gatepost.core.errors import GatepostError, Invalid, SetupError
from gatepost.core.home import Home
from gatepost.core.json_web_tokens import FUTURE, NotProven, TokenTerms, list_audience, read_header, read_time
from gatepost.core.settings import Config, setting, start_check
from gatepost.flow.people.page_logins import get_page_identity
from gatepost.serve.web.dashboard.renderer import render_apart
from gatepost.serve.web.json_api import get_text, read_object
from gatepost.serve.web.signin.contract import PREFIX, SignInDeps, sign_in_method
from gatepost.serve.web.signin.provider_client import ClientIdentity, CodeExchange, ProviderClient, check_issuer
from gatepost.serve.web.signin.tickets import SignInTicket, TicketCookies, TicketPurpose, spend
from gatepost.store.people import identities, users
from gatepost.store.port import Db
from gatepost.store.rights.secret_rows import get_channel_secret_name
from gatepost.store.rights.secrets import KeptSecrets


class OidcClaim(StrEnum):
    """The claim that says who somebody is. Other claims can be changed by people themselves at many providers."""

    SUB = "sub"
    EMAIL = "email"


ISSUER = setting(
    "web.oidc_issuer",
    "",
    help="The OpenID provider by which people sign in to the web page: its issuer, exactly as its discovery document"
    " has it (empty: none).",
)
SECRET = get_channel_secret_name("web", "oidc_secret")
CLIENT_ID = setting(
    "web.oidc_client_id",
    "",
    help=f"This gateway's client id at the OpenID provider. `gatepost secret set {SECRET}` sets the secret for it.",
)
CLAIM = setting(
    "web.oidc_claim",
    OidcClaim.SUB.value,
    choices=tuple(OidcClaim),
    help="The claim that identifies a person at the OpenID provider: sub, or email if the provider has verified it.",
)
NAME = "oidc"
BACK = f"{PREFIX}/oidc/back"
PURPOSE = TicketPurpose.OIDC_SIGN_IN
LARGEST_BODY = 8192  # bytes
LONGEST_KEPT_NEXT = 1000  # characters: a cookie holds it, with the rest of the ticket
LONGEST_CODE = 4096
LONGEST_VALUE = 400  # characters of the claim that says who it is
SKEW_S = 60  # between two clocks
TOO_LATE = "This sign-in did not begin in this browser, was finished before, or took longer than five minutes."
TOO_MANY = "too many sign-ins from here have failed; wait a while"
_log = log.get("oidc")
FIRST_PAGE = "/"  # for a browser that is signed in and asked for no other
LONGEST_NEXT = 2000  # characters of such a path
MOST_DECODED = 3  # times that something may be encoded
_PATH = re.compile(r"/[!#-\[\]^_a-z|~]*\Z")  # printable ASCII without quotes, backslashes and braces
_LEADS_AWAY = re.compile(r"[/\\]{2}|/[\s\x00-\x1f]")  # a host, to a browser that reads `\` as `/` or skips white space
_NO_PAGE = ("/login", "/logout", "/api/", "/static/")


class TokenExpectation(Struct, frozen=True, kw_only=True):
    """The values that the sign-in that we began must come back with."""

    issuer: str
    client_id: str
    nonce: str
    claim: OidcClaim

    @property
    def terms(self) -> TokenTerms:
        return TokenTerms(issuer=self.issuer, audience=self.client_id, skew_s=SKEW_S)


def get_identity(value: str) -> str:
    return f"{NAME}:{value}"


def find_linked_user(db: Db, identity: str, ticket: SignInTicket, now: int) -> str | None:
    """The identity on the page of whoever an owner linked this one to, for whom the ticket is spent. None: nobody has
    linked it. Anybody may have an account at the provider, so theirs is not spent: only so many are remembered."""
    person = identities.get_person(db, identity)
    if users.get(db, person) is None:
        return None
    if not spend(db, ticket, now):
        raise NotProven("it was finished before")
    return get_page_identity(db, person, now)


def render_address(place: str, client_id: str, redirect_uri: str, ticket: dict[str, str], claim: OidcClaim) -> str:
    """Return where the browser is led to."""
    proof = hashlib.sha256(ticket["verifier"].encode()).digest()
    asked = {
        "response_type": "code",
        "client_id": client_id,
        "redirect_uri": redirect_uri,
        "scope": "openid email" if claim is OidcClaim.EMAIL else "openid",
        "state": ticket["state"],
        "nonce": ticket["nonce"],
        "code_challenge": base64.urlsafe_b64encode(proof).rstrip(b"=").decode(),
        "code_challenge_method": "S256",
    }
    return f"{place}{'&' if urlsplit(place).query else '?'}{urlencode(asked)}"


def read_code(request: Request, ticket: SignInTicket, issuer: str) -> str:
    """Return what the provider gave the browser for us. Raises NotProven."""
    given = request.query_params
    if not hmac.compare_digest(given.get("state", "").encode(), ticket.values["state"].encode()):
        raise NotProven("it is the answer to another sign-in")
    if given.get("iss", issuer) != issuer:
        raise NotProven("another provider answered")
    if "error" in given:
        raise NotProven(f"the provider says no ({given['error'][:100]!r})")
    code = given.get("code", "")
    if not 0 < len(code) <= LONGEST_CODE:
        raise NotProven("the provider gave no code")
    return code


def check_settings(config: Config) -> None:
    """Raises SetupError if there is a provider that cannot be asked."""
    if not config[ISSUER]:
        return
    check_issuer(config[ISSUER])
    if not config[CLIENT_ID]:
        raise SetupError(
            "web.oidc_issuer is set, and web.oidc_client_id is not: set that first, as the provider gave it"
        )


@start_check
def check_provider(home: Home, config: Config) -> None:
    check_settings(config)


@sign_in_method(
    NAME,
    "Single sign-on",
    wanted=lambda config: bool(config[ISSUER]),
    module="jwt",
    extra="oidc",
    script="oidc.js",
    order=11,
)
class OidcSignIn:
    def __init__(self, deps: SignInDeps) -> None:
        check_settings(deps.config)
        self._deps, self._client_id = deps, deps.config[CLIENT_ID]
        self._claim = OidcClaim(deps.config[CLAIM])
        self._provider = ProviderClient(deps.config[ISSUER])
        self._tickets = TicketCookies(deps.browsers, deps.clock, deps.tickets, comes_back=True)
        self._secrets = KeptSecrets(deps.secrets, deps.store, deps.clock, 1)

    def routes(self) -> list[Route]:
        return [
            Route(f"{PREFIX}/oidc", self.begin, methods=["POST"]),
            Route(BACK, self.finish, methods=["GET"]),
        ]

    async def begin(self, request: Request) -> Response:
        """Return where the page leads the browser to. A write, so that no other site can begin it, and with the Origin
        that the browser comes back to."""
        following = parse_next(get_text(await read_object(request, LARGEST_BODY), "next"))
        values = {
            "state": ids.token(),
            "nonce": ids.token(),
            "verifier": ids.token(48),
            "origin": request.headers["origin"],
            "next": following if len(following) <= LONGEST_KEPT_NEXT else parse_next(""),
        }
        try:
            places = await self._provider.get_places()
        except SetupError as error:  # of the provider: the visitor is told that much, the log the rest
            _log.warning("the provider cannot be used", error=str(error))
            raise Invalid("", "The provider cannot be used now; `gatepost logs` says why.") from None
        back = values["origin"] + BACK
        answer = JSONResponse(
            {"location": render_address(places.authorization, self._client_id, back, values, self._claim)}
        )
        await self._tickets.set(request, answer, PURPOSE, values)
        return answer

    async def finish(self, request: Request) -> Response:
        """Finish a sign-in when the provider leads back. The ticket is used up, also if the sign-in fails."""
        ticket = await self._tickets.find(request, PURPOSE)
        if ticket is None:
            answer = await _render_page("begin_again", 403, text=TOO_LATE)
        else:
            try:
                answer = await self._sign_in(request, ticket)
            except (NotProven, GatepostError) as error:
                _log.warning("a sign-in by OpenID failed", error=str(error))
                answer = await self._render_failure(request, str(error))
        self._tickets.clear(request, answer, PURPOSE)
        return answer

    async def _render_failure(self, request: Request, why: str) -> Response:
        """Show a failure, after a wait that grows with the failures of the address. The number of waiting requests is
        bounded."""
        if not await self._deps.throttle.strike(self._deps.browsers.get_peer(request)):
            return await _render_page("failed", 429, text=TOO_MANY)
        return await _render_page("failed", 403, text=why)

    async def _sign_in(self, request: Request, ticket: SignInTicket) -> Response:
        value = await self._find_value(read_code(request, ticket, self._provider.issuer), ticket)
        identity, secure = get_identity(value), ticket.values["origin"].startswith("https://")
        # The browser's cookie is not sent along while another site leads it: our own page leads on.
        done = await _render_page("done", 200, next=ticket.values["next"])
        answer = await self._deps.browsers.sign_in(
            request, NAME, lambda db, now: find_linked_user(db, identity, ticket, now), done, secure
        )
        if answer is not None:  # only then: anybody may have an account at the provider
            self._deps.throttle.reset(self._deps.browsers.get_peer(request))
        return answer or await _render_page("unknown", 403, identity=identity, typed=shlex.quote(identity))

    async def _find_value(self, code: str, ticket: SignInTicket) -> str:
        """Return who it is at the provider. Raises NotProven."""
        values, issuer = ticket.values, self._provider.issuer
        secret = await self._secrets.get(SECRET, "", purpose=f"sign-in at {issuer}")
        client = ClientIdentity(issuer=issuer, client_id=self._client_id, secret=secret)
        exchange = CodeExchange(code=code, verifier=values["verifier"], redirect_uri=values["origin"] + BACK)
        token = await self._provider.fetch_id_token(exchange, client)
        key = await self._provider.find_key(await asyncio.to_thread(read_header, token))
        expected = TokenExpectation(issuer=issuer, client_id=self._client_id, nonce=values["nonce"], claim=self._claim)
        return await asyncio.to_thread(check_token, token, key, expected, self._deps.clock.now() // SECOND)


async def _render_page(outcome: str, status: int, **values: str) -> Response:
    return HTMLResponse(await render_apart("sign_in_result.html", outcome=outcome, **values), status)


def parse_next(given: str) -> str:
    """Return the page for a browser once it is signed in: the given path if it is one of ours, else the first page.

    A path that leads away once decoded is not ours.
    """
    if len(given) > LONGEST_NEXT or not _PATH.match(given) or given.startswith(_NO_PAGE):
        return FIRST_PAGE
    decoded = given
    for _ in range(MOST_DECODED + 1):
        if _LEADS_AWAY.match(decoded):
            return FIRST_PAGE
        if (further := unquote(decoded)) == decoded:
            return given
        decoded = further
    return FIRST_PAGE


def check_token(token: str, key: Mapping[str, Any], expected: TokenExpectation, now_s: int) -> str:
    """Return who it is: the value of the claim. Raises NotProven."""
    claims = json_web_tokens.check_token(token, key, expected.terms, now_s)
    check_sign_in(claims, expected, now_s)
    return read_value(claims, expected.claim)


def check_sign_in(claims: Mapping[str, Any], expected: TokenExpectation, now_s: int) -> None:
    """Raises NotProven unless claims that meet the terms are for the sign-in that we began."""
    if len(list_audience(claims)) > 1 and "azp" not in claims:
        raise NotProven("it is for several programs, and does not say which of them asked")
    if claims.get("azp", expected.client_id) != expected.client_id:
        raise NotProven("another program asked for it")
    if read_time(claims, "iat") - SKEW_S > now_s:
        raise NotProven(FUTURE)
    nonce = claims.get("nonce")
    if not isinstance(nonce, str) or not hmac.compare_digest(nonce.encode(errors="replace"), expected.nonce.encode()):
        raise NotProven("it is for another sign-in")


def read_value(claims: Mapping[str, Any], claim: OidcClaim) -> str:
    """Raises NotProven if the claim is not there, or if the provider has not checked that an e-mail address is the
    person's."""
    if claim is OidcClaim.EMAIL and claims.get("email_verified") is not True:
        raise NotProven("the provider has not verified the e-mail address")
    value = claims.get(claim)
    if not isinstance(value, str) or not 0 < len(value) <= LONGEST_VALUE:
        raise NotProven(f"it has no usable {claim}")
    if any(not each.isprintable() or each.isspace() for each in value):
        raise NotProven(f"its {claim} has spaces or characters that cannot be shown")
    return value
