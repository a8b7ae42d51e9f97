"""Requests to the OpenID provider: bounded in size and time, and no redirect is followed. Importing this loads the HTTP
library, which takes a while."""

import asyncio
from typing import Any
from urllib.parse import urlsplit

import httpx2

from gatepost.core.errors import Unavailable
from gatepost.serve.web.signin.provider_client import WHAT

LARGEST_ANSWER = 256 * 1024  # bytes
TIMEOUT_S = 10.0  # for one answer, whole


class ProviderTransport:
    def __init__(self) -> None:
        self._tls = httpx2.create_ssl_context()  # the certificates are read once

    async def ask(self, method: str, url: str, **given: Any) -> tuple[int, bytes]:
        """The status and the body of an answer."""
        try:
            async with asyncio.timeout(TIMEOUT_S), self._make_client() as http:
                async with http.stream(method, url, **given) as answer:
                    return answer.status_code, await _read(answer)
        except (httpx2.HTTPError, httpx2.InvalidURL, TimeoutError) as error:
            raise Unavailable(WHAT, f"{urlsplit(url).netloc} does not answer ({type(error).__name__})") from None

    def _make_client(self) -> httpx2.AsyncClient:
        """Sign-ins are few, so no connection is kept."""
        return httpx2.AsyncClient(
            verify=self._tls,
            timeout=TIMEOUT_S,
            follow_redirects=False,
            trust_env=False,
            headers={"accept-encoding": "identity"},
        )


async def _read(answer: httpx2.Response) -> bytes:
    raw = bytearray()
    async for chunk in answer.aiter_raw():  # packed answers were not asked for: a small one may be huge inside
        raw += chunk
        if len(raw) > LARGEST_ANSWER:
            raise Unavailable(WHAT, f"it answers with more than {LARGEST_ANSWER} bytes")
    return bytes(raw)
