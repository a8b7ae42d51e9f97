"""The session of an account: its tokens are short-lived, and renewed when the server says so."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import httpx2

from gatepost.channels.bluesky import wire
from gatepost.channels.contract import ChannelEnded, EndReason
from gatepost.channels.kit.http import PlatformHttp, PlatformRefusal

WAY_OUT = "make a new app password in Settings, and set it with `gatepost channel set`"
EXPIRED = frozenset({"ExpiredToken", "InvalidToken"})
CHAT = {"atproto-proxy": "did:web:api.bsky.chat#bsky_chat"}


class BlueskySession:
    def __init__(self, url: str, handle: str, read_password: Callable[[], Awaitable[str]]) -> None:
        self._url, self._handle, self._read_password = url, handle, read_password
        self._http: PlatformHttp | None = None
        self._access, self._refresh = "", ""
        self._renewing = asyncio.Lock()
        self.did, self.inactive = "", ""  # why the account is not active; '': it is
        self.handle = handle

    async def call(
        self,
        method: str,
        name: str,
        *,
        action: str,
        chat: bool = False,
        reads: bool | None = None,
        headers: Mapping[str, str] | None = None,
        **body: Any,
    ) -> Any:
        """One XRPC method, with a token that holds. `chat`: the service for private conversations answers it."""
        for is_last in (False, True):
            http, token = await self._open()
            given = {"Authorization": f"Bearer {token}", **(CHAT if chat else {}), **(headers or {})}
            try:
                return await http.call(method, f"xrpc/{name}", action=action, reads=reads, headers=given, **body)
            except PlatformRefusal as refusal:
                if is_last or wire.get_in(refusal.answer, "error") not in EXPIRED:
                    raise
            except ChannelEnded:
                if is_last:
                    raise
            await self._renew(token)
        raise AssertionError("the last try returns or raises")

    async def close(self) -> None:
        if self._http is not None:
            await self._http.close()
        self._http, self._access = None, ""

    async def get_http(self) -> PlatformHttp:
        return (await self._open())[0]

    async def _open(self) -> tuple[PlatformHttp, str]:
        if self._http is None:
            self._http = PlatformHttp("Bluesky", self._url, remedy=WAY_OUT, find_retry_after=_find_retry_after)
        if not self._access:
            await self._renew("")
        return self._http, self._access

    async def _renew(self, old: str) -> None:
        """By the refresh token, else by the password. Somebody else may have done it meanwhile."""
        async with self._renewing:
            if self._access != old:
                return
            http = self._http
            assert http is not None
            answer = None
            if self._refresh:
                headers, self._refresh = {"Authorization": f"Bearer {self._refresh}"}, ""
                try:
                    name = "xrpc/com.atproto.server.refreshSession"
                    answer = await http.call("POST", name, headers=headers, reads=True, action="stay logged in")
                except (PlatformRefusal, ChannelEnded):
                    answer = None
            answer = answer or await self._log_in(http)
            self._access, self._refresh = str(answer["accessJwt"]), str(answer["refreshJwt"])
            self.inactive = str(answer.get("status") or "not active") if answer.get("active") is False else ""
            self.did, self.handle = str(answer["did"]), str(answer.get("handle") or self._handle)

    async def _log_in(self, http: PlatformHttp) -> Any:
        password = await self._read_password()
        if not self._handle or not password:
            raise ChannelEnded(EndReason.SETTING, "the Bluesky account has no handle or app password", WAY_OUT)
        asked = {"identifier": self._handle, "password": password}
        name = "xrpc/com.atproto.server.createSession"
        try:
            return await http.call("POST", name, json=asked, reads=True, action="log in")
        except PlatformRefusal as refusal:
            raise ChannelEnded(EndReason.TOKEN, f"Bluesky does not let it in ({refusal.detail})", WAY_OUT) from None


def _find_retry_after(response: httpx2.Response, answer: Any) -> float | None:
    """The moment at which the window ends is in seconds since 1970, by the server's clock."""
    try:
        end, now = float(response.headers["ratelimit-reset"]), wire.read_date(response.headers.get("date", ""))
    except (KeyError, ValueError):
        return None
    return max(end - now, 0.0) if "retry-after" not in response.headers else None
