"""The connection to Reddit: access tokens that hold for a while, and the requests that a window of time allows."""

import asyncio
import base64
import math
from collections.abc import Mapping
from typing import Any

import httpx2
from msgspec import Struct

from gatepost import __version__
from gatepost.channels.contract import ChannelDeps, ChannelEnded, EndReason
from gatepost.channels.kit.http import PlatformAnswer, PlatformHttp, PlatformRefusal
from gatepost.channels.reddit import API_URL, CLIENT_ID, CLIENT_SECRET, PASSWORD, REFRESH_TOKEN, TOKEN_URL, USERNAME
from gatepost.core.clock import SECOND
from gatepost.core.errors import GatepostError, Unavailable

WAY_OUT = "set the app's id and secret and the account's password or refresh token with `gatepost channel set`"
NEW_PASSWORD = "set the account's name and password with `gatepost channel set`"
NEW_APP = "set the app's id and secret with `gatepost channel set`"
NEW_TOKEN = "make a refresh token with the scopes identity, read, history, privatemessages, submit and edit"
ALL_SCOPES = "*"
NEEDED_SCOPES = {"identity": "say who it is", "privatemessages": "read its inbox", "submit": "say anything"}
SHORTEST_TOKEN_S, LONGEST_TOKEN_S, USUAL_TOKEN_S = 30.0, 86_400.0, 3600.0
RENEWED_BEFORE_S = 60.0
LONGEST_WINDOW_S = 900.0  # Reddit's windows have ten minutes


class AccessToken(Struct, frozen=True):
    value: str
    scopes: frozenset[str]
    until: int  # on the monotonic clock

    def allows(self, scope: str) -> bool:
        return ALL_SCOPES in self.scopes or scope in self.scopes


class RedditSession:
    def __init__(self, deps: ChannelDeps) -> None:
        self._deps, self._config = deps, deps.config
        self._api: PlatformHttp | None = None
        self._issuer: PlatformHttp | None = None
        self._token: AccessToken | None = None
        self._renewing = asyncio.Lock()
        self._closed_until = 0  # the window's requests are used up until then, on the monotonic clock

    async def call(self, method: str, path: str, *, action: str, **more: Any) -> Any:
        """The answer. A token that ran out is renewed, once: a request that gets 401 did nothing."""
        token = await self.get_token()
        try:
            return await self._exchange(token, method, path, action, more)
        except ChannelEnded as error:
            if error.reason is not EndReason.TOKEN:
                raise
        if self._token is token:
            self._token = None
        return await self._exchange(await self.get_token(), method, path, action, more)

    async def _exchange(self, token: AccessToken, method: str, path: str, action: str, more: Mapping[str, Any]) -> Any:
        self._check_window()
        if self._api is None:
            self._api = self._make_http(self._config[API_URL])
        headers = {"Authorization": f"bearer {token.value}"}
        try:
            response, answer = await self._api.exchange(method, path, action=action, headers=headers, **more)
        except Unavailable as error:
            error.everywhere |= error.retry_after is not None  # Reddit counts by app and account, not by room
            raise
        if _read_seconds(response, "x-ratelimit-remaining", 1.0) < 1.0:
            self._close_window(_read_seconds(response, "x-ratelimit-reset", 0.0))
        return answer

    def _make_http(self, url: str) -> PlatformHttp:
        """Reddit demands a name of the program, and the account that is responsible for it."""
        name = self._config[USERNAME].removeprefix("u/") or "unknown"
        agent = {"User-Agent": f"python:gatepost:v{__version__} (by /u/{name})"}
        find = self._find_retry_after
        return PlatformHttp("Reddit", url, headers=agent, remedy=WAY_OUT, find_retry_after=find, read_error=_read_error)

    # The window.

    def _check_window(self) -> None:
        left = self._closed_until - self._deps.clock.monotonic()
        if left > 0:
            why = "the requests that it allows are used up for now"
            raise Unavailable("Reddit", why, retry_after=left / SECOND, everywhere=True)

    def _close_window(self, seconds: float) -> None:
        wait = min(max(seconds, 0.0), LONGEST_WINDOW_S)
        self._closed_until = self._deps.clock.monotonic() + int(wait * SECOND)

    def _find_retry_after(self, response: httpx2.Response, answer: Any) -> float | None:
        """Return the wait after a refusal: until the window ends, unless the usual header says something else."""
        if response.status_code != 429:  # every answer names the end of the window
            return None
        wait = _read_seconds(response, "retry-after", _read_seconds(response, "x-ratelimit-reset", -1.0))
        if wait < 0:
            return None
        self._close_window(wait)
        return wait

    # The token.

    async def get_token(self) -> AccessToken:
        async with self._renewing:
            token = self._token
            if token is None or token.until <= self._deps.clock.monotonic():
                token = self._token = await self._renew()
            return token

    async def _renew(self) -> AccessToken:
        client, secret = self._config[CLIENT_ID], await self._deps.secret(CLIENT_SECRET)
        asked = await self._make_grant()
        if not client or not secret:
            raise ChannelEnded(EndReason.SETTING, "the id or the secret of the Reddit app is not set", NEW_APP)
        basic = base64.b64encode(f"{client}:{secret}".encode()).decode()
        if self._issuer is None:
            self._issuer = self._make_http(self._config[TOKEN_URL])
        try:
            answer = await self._issuer.call(
                "POST",
                "api/v1/access_token",
                action="get an access token",
                reads=True,
                data=asked,
                headers={"Authorization": f"Basic {basic}"},
            )
        except ChannelEnded as error:
            if error.reason is EndReason.TOKEN:
                raise ChannelEnded(EndReason.TOKEN, "Reddit does not accept the app's id and secret", NEW_APP) from None
            raise
        except PlatformRefusal as refusal:
            if refusal.status == 400:  # so it answers to a refresh token that was revoked
                raise _no_grant(asked["grant_type"], refusal.detail) from None
            raise
        return self._read_token(answer, asked["grant_type"])

    async def _make_grant(self) -> dict[str, str]:
        refresh, password = await self._deps.secret(REFRESH_TOKEN), await self._deps.secret(PASSWORD)
        name = self._config[USERNAME].removeprefix("u/")
        if refresh:
            return {"grant_type": "refresh_token", "refresh_token": refresh}
        if not name or not password:
            why = "the Reddit account has neither a refresh token nor a name and a password"
            raise ChannelEnded(EndReason.SETTING, why, WAY_OUT)
        return {"grant_type": "password", "username": name, "password": password}

    def _read_token(self, answer: Any, grant: str) -> AccessToken:
        given = answer if isinstance(answer, Mapping) else {}
        if given.get("error"):  # with the status 200
            raise _no_grant(grant, str(given["error"])[:80])
        value, scope = given.get("access_token"), given.get("scope")
        if not isinstance(value, str) or not value.isascii() or not value.isprintable() or not value:
            raise Unavailable("Reddit", "its answer has no access token")
        expires_in = given.get("expires_in")
        lasts = (
            float(expires_in) if isinstance(expires_in, int | float) and math.isfinite(expires_in) else USUAL_TOKEN_S
        )
        lasts = min(max(lasts - RENEWED_BEFORE_S, SHORTEST_TOKEN_S), LONGEST_TOKEN_S)
        scopes = frozenset(str(scope or ALL_SCOPES).replace(",", " ").split())
        token = AccessToken(value, scopes, self._deps.clock.monotonic() + int(lasts * SECOND))
        for needed, use in NEEDED_SCOPES.items():
            if not token.allows(needed):
                why = f"the token lacks the scope {needed}, without which the bot cannot {use}"
                raise ChannelEnded(EndReason.RIGHTS, why, NEW_TOKEN)
        return token

    async def close(self) -> None:
        for each in (self._api, self._issuer):
            if each is not None:
                await each.close()
        self._api = self._issuer = None


def _read_error(given: PlatformAnswer) -> GatepostError | None:
    """Return the refusal of a token that lacks a scope, which a header alone tells; None for any other answer."""
    if given.status != 403 or "insufficient_scope" not in given.response.headers.get("www-authenticate", ""):
        return None
    why = f"the token lacks the scope for it; {NEW_TOKEN}"
    return PlatformRefusal("Reddit", given.action, given.status, given.body, why)


def _no_grant(grant: str, said: str) -> ChannelEnded:
    if said in ("unsupported_grant_type", "unauthorized_client"):
        why = f"Reddit gives this app no token by a {grant.replace('_', ' ')} ({said})"
        return ChannelEnded(EndReason.SETTING, why, "make an app of the type script with the bot's own account")
    if grant == "password":
        why = f"Reddit does not accept the name and password ({said})"
        return ChannelEnded(EndReason.TOKEN, why, f"{NEW_PASSWORD}; two-factor login needs a refresh token")
    why = f"Reddit does not accept the refresh token ({said or 400})"
    return ChannelEnded(EndReason.TOKEN, why, "set a new refresh token with `gatepost channel set`")


def _read_seconds(response: httpx2.Response, name: str, default: float) -> float:
    try:
        found = float(response.headers.get(name, ""))
    except ValueError:
        return default
    return found if math.isfinite(found) else default
