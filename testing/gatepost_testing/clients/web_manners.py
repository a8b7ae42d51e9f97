"""Headers that our pages send with each request, for clients that are no browsers."""

import re
from typing import Any

import httpx2

from gatepost.serve.web.browser_security import CSRF_HEADER, make_csrf_token

_COOKIE = re.compile(r"(?:^|; )(?:__Host-)?gatepost-[^-=]+-[0-9a-f]{8}=([^;]+)")


def make_manners(base: str) -> dict[str, Any]:
    """Arguments for `httpx2.Client`."""
    return {"headers": {"origin": base, "x-gatepost": "1"}, "event_hooks": {"request": [add_csrf_token]}}


def make_async_manners(base: str) -> dict[str, Any]:
    """The same for `httpx2.AsyncClient`."""

    async def add(request: httpx2.Request) -> None:
        add_csrf_token(request)

    return {**make_manners(base), "event_hooks": {"request": [add]}}


def add_csrf_token(request: httpx2.Request) -> None:
    """As the page does that has asked for it. One that a test has set itself stays."""
    shown = _COOKIE.search(request.headers.get("cookie", ""))
    if shown and CSRF_HEADER not in request.headers:
        request.headers[CSRF_HEADER] = make_csrf_token(shown[1])
