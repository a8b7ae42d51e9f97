"""A small OpenID provider on loopback: real keys, real codes, and ways to misbehave.

    with OidcProvider() as provider:
        provider.account = OidcAccount(sub="ann-1", email="ann@example.com")
        provider.fault = ProviderFault.WRONG_NONCE

Its page asks whether to go on as that account. The code that it then gives is good for one exchange, with the verifier
and the redirect URI of the request it was made for. It runs in a thread of its own.
"""

import base64
import hashlib
import hmac
import html
import json
import secrets
import socket
import time
from enum import StrEnum
from functools import cache
from typing import Any
from urllib.parse import parse_qs, unquote_plus, urlencode

from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import padding, rsa
from msgspec import Struct
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, RedirectResponse, Response
from starlette.routing import Route

from gatepost_testing.servers.loop_thread import AsgiServer, LoopThread

CLIENT_ID, CLIENT_SECRET = "gatepost-client", "s3cret/with:signs"
HUGE = 8 * 1024 * 1024  # bytes
LASTS_S = 300


class ProviderFault(StrEnum):
    WRONG_NONCE = "wrong_nonce"
    NO_NONCE = "no_nonce"
    WRONG_AUDIENCE = "wrong_audience"
    SEVERAL_AUDIENCES = "several_audiences"
    WRONG_PARTY = "wrong_party"  # azp
    EXPIRED = "expired"
    FUTURE = "future"
    OTHER_ISSUER = "other_issuer"
    ALGORITHM_NONE = "algorithm_none"
    SHARED_SECRET = "shared_secret"  # HS256, with the public key as the secret
    FOREIGN_KEY = "foreign_key"  # signed by another key than the one that it names
    UNKNOWN_KEY = "unknown_key"
    CHANGED_CLAIMS = "changed_claims"  # after they were signed
    OTHER_ISSUER_FOUND = "other_issuer_found"  # in the discovery document
    PLAIN_PLACE = "plain_place"  # the token endpoint is elsewhere, without https
    HUGE_DISCOVERY = "huge_discovery"
    HUGE_KEYS = "huge_keys"
    HUGE_TOKEN = "huge_token"
    MOVED_DISCOVERY = "moved_discovery"  # redirects
    MOVED_KEYS = "moved_keys"
    MOVED_TOKEN = "moved_token"
    DENIED = "denied"  # the person says no
    OTHER_ISSUER_BACK = "other_issuer_back"  # in the address that it leads back to


class OidcAccount(Struct, frozen=True, kw_only=True):
    sub: str
    email: str = ""
    email_verified: bool = False


class _GivenCode(Struct, frozen=True, kw_only=True):
    nonce: str
    challenge: str
    redirect_uri: str
    account: OidcAccount


class OidcProvider(LoopThread):
    def __init__(self) -> None:
        super().__init__("oidc provider")
        self.account = OidcAccount(sub="ann-1", email="ann@example.com", email_verified=True)
        self.fault: ProviderFault | None = None
        self.takes_basic = True
        self.asked: list[str] = []  # the paths of all requests
        self.moved_to: list[str] = []  # requests that followed a redirect
        self._codes: dict[str, _GivenCode] = {}
        self._key, self._key_id = _make_key("key-1"), "key-1"

    @property
    def issuer(self) -> str:
        return f"http://127.0.0.1:{self.port}/realm"

    def replace_key(self, key_id: str) -> None:
        """Sign with another key from now on, and publish that alone."""
        self._key, self._key_id = _make_key(key_id), key_id

    async def _open(self, port: int) -> None:
        bound = socket.socket()
        bound.bind(("127.0.0.1", port))
        bound.listen(64)
        self.port = int(bound.getsockname()[1])
        self._app_server = await AsgiServer.start(self._make_app(), bound)

    async def _close(self) -> None:
        await self._app_server.close()

    def _make_app(self) -> Starlette:
        return Starlette(
            routes=[
                Route("/realm/.well-known/openid-configuration", self._discover, methods=["GET"]),
                Route("/realm/authorize", self._authorize, methods=["GET"]),
                Route("/realm/token", self._give_tokens, methods=["POST"]),
                Route("/realm/keys", self._list_keys, methods=["GET"]),
                Route("/moved/{path:path}", self._record_moved, methods=["GET", "POST"]),
            ]
        )

    async def _record_moved(self, request: Request) -> Response:
        self.moved_to.append(request.url.path)
        return JSONResponse({})

    async def _discover(self, request: Request) -> Response:
        self.asked.append("discovery")
        if self.fault is ProviderFault.MOVED_DISCOVERY:
            return RedirectResponse("/moved/discovery", 302)
        base = self.issuer
        plain = self.fault is ProviderFault.PLAIN_PLACE
        document = {
            "issuer": "https://other.example" if self.fault is ProviderFault.OTHER_ISSUER_FOUND else base,
            "authorization_endpoint": f"{base}/authorize",
            "token_endpoint": "http://other.example/token" if plain else f"{base}/token",
            "jwks_uri": f"{base}/keys",
            "response_types_supported": ["code"],
            "id_token_signing_alg_values_supported": ["RS256"],
            "token_endpoint_auth_methods_supported": [
                "client_secret_basic" if self.takes_basic else "client_secret_post"
            ],
            **({"filling": "x" * HUGE} if self.fault is ProviderFault.HUGE_DISCOVERY else {}),
        }
        return JSONResponse(document)

    async def _authorize(self, request: Request) -> Response:
        """A page with one link: a person goes on as the account."""
        self.asked.append("authorize")
        given = request.query_params
        wrong = given.get("client_id") != CLIENT_ID or given.get("response_type") != "code"
        if wrong or "openid" not in given.get("scope", "").split() or given.get("code_challenge_method") != "S256":
            return HTMLResponse("<p>This program is not known here.</p>", 400)
        code = secrets.token_urlsafe(16)
        self._codes[code] = _GivenCode(
            nonce=given.get("nonce", ""),
            challenge=given.get("code_challenge", ""),
            redirect_uri=given["redirect_uri"],
            account=self.account,
        )
        answer = {"error": "access_denied"} if self.fault is ProviderFault.DENIED else {"code": code}
        issuer = "https://other.example" if self.fault is ProviderFault.OTHER_ISSUER_BACK else self.issuer
        back = f"{given['redirect_uri']}?{urlencode({**answer, 'state': given.get('state', ''), 'iss': issuer})}"
        return HTMLResponse(
            f'<!doctype html><html lang="en"><title>Provider</title><h1>Provider</h1>'
            f'<p><a href="{html.escape(back)}">Go on as {html.escape(self.account.sub)}</a></p></html>'
        )

    async def _list_keys(self, request: Request) -> Response:
        self.asked.append("keys")
        if self.fault is ProviderFault.MOVED_KEYS:
            return RedirectResponse("/moved/keys", 302)
        if self.fault is ProviderFault.HUGE_KEYS:
            return JSONResponse({"keys": [], "filling": "x" * HUGE})
        numbers = self._key.public_key().public_numbers()
        published = {
            "kty": "RSA",
            "use": "sig",
            "alg": "RS256",
            "kid": self._key_id,
            "n": _encode(numbers.n.to_bytes(256, "big")),
            "e": _encode(numbers.e.to_bytes(3, "big")),
        }
        return JSONResponse({"keys": [published]})

    async def _give_tokens(self, request: Request) -> Response:
        self.asked.append("token")
        if self.fault is ProviderFault.MOVED_TOKEN:
            return RedirectResponse("/moved/token", 307)
        if self.fault is ProviderFault.HUGE_TOKEN:
            return JSONResponse({"id_token": "x" * HUGE})
        form = {name: values[0] for name, values in parse_qs((await request.body()).decode()).items()}
        if not self._is_client(request, form):
            return JSONResponse({"error": "invalid_client"}, 401)
        given = self._codes.pop(form.get("code", ""), None)
        proof = _encode(hashlib.sha256(form.get("code_verifier", "").encode()).digest())
        if given is None or proof != given.challenge or form.get("redirect_uri") != given.redirect_uri:
            return JSONResponse({"error": "invalid_grant"}, 400)
        return JSONResponse({"access_token": "unused", "token_type": "Bearer", "id_token": self._make_token(given)})

    def _is_client(self, request: Request, form: dict[str, str]) -> bool:
        if not self.takes_basic:
            return (form.get("client_id"), form.get("client_secret")) == (CLIENT_ID, CLIENT_SECRET)
        kind, _, rest = request.headers.get("authorization", "").partition(" ")
        name, _, secret = base64.b64decode(rest).decode().partition(":") if kind == "Basic" else ("", "", "")
        return (unquote_plus(name), unquote_plus(secret)) == (CLIENT_ID, CLIENT_SECRET)

    def _make_token(self, given: _GivenCode) -> str:
        now, fault = int(time.time()), self.fault
        claims: dict[str, Any] = {
            "iss": self.issuer,
            "sub": given.account.sub,
            "aud": CLIENT_ID,
            "iat": now,
            "exp": now + LASTS_S,
            "nonce": given.nonce,
            **({"email": given.account.email} if given.account.email else {}),
            **({"email_verified": True} if given.account.email_verified else {}),
        }
        claims |= _CHANGES.get(fault, {}) if fault is not None else {}
        if fault is ProviderFault.NO_NONCE:
            del claims["nonce"]
        if fault is ProviderFault.EXPIRED:
            claims |= {"iat": now - 7200, "exp": now - 3600}
        if fault is ProviderFault.FUTURE:
            claims |= {"iat": now + 3600, "exp": now + 7200}
        return self._sign(claims)

    def _sign(self, claims: dict[str, Any]) -> str:
        fault, header = self.fault, {"typ": "JWT", "alg": "RS256", "kid": self._key_id}
        if fault is ProviderFault.ALGORITHM_NONE:
            return f"{_render({**header, 'alg': 'none'})}.{_render(claims)}."
        if fault is ProviderFault.SHARED_SECRET:
            pem = self._key.public_key().public_bytes(
                serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
            )
            signed = f"{_render({**header, 'alg': 'HS256'})}.{_render(claims)}"
            return f"{signed}.{_encode(hmac.digest(pem, signed.encode(), hashlib.sha256))}"
        if fault is ProviderFault.UNKNOWN_KEY:
            header["kid"] = "nobody"
        key = _make_key("foreign") if fault is ProviderFault.FOREIGN_KEY else self._key
        signed = f"{_render(header)}.{_render(claims)}"
        signature = _encode(key.sign(signed.encode(), padding.PKCS1v15(), hashes.SHA256()))
        if fault is ProviderFault.CHANGED_CLAIMS:
            signed = f"{_render(header)}.{_render({**claims, 'sub': 'somebody-else'})}"
        return f"{signed}.{signature}"


_CHANGES: dict[ProviderFault, dict[str, Any]] = {
    ProviderFault.WRONG_NONCE: {"nonce": "another"},
    ProviderFault.WRONG_AUDIENCE: {"aud": "another-client"},
    ProviderFault.SEVERAL_AUDIENCES: {"aud": [CLIENT_ID, "another-client"]},
    ProviderFault.WRONG_PARTY: {"azp": "another-client"},
    ProviderFault.OTHER_ISSUER: {"iss": "https://other.example"},
}


@cache
def _make_key(key_id: str) -> rsa.RSAPrivateKey:
    """Made once for a whole run: it takes a while."""
    return rsa.generate_private_key(public_exponent=65537, key_size=2048)


def _encode(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


def _render(value: dict[str, Any]) -> str:
    return _encode(json.dumps(value).encode())
