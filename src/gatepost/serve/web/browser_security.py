"""Checks of a browser's requests: the host name, the origin of a write, the token of a signed-in browser, and the use
of the answer.

A page of somebody else can make a browser send requests here. It cannot choose their Host: a foreign name that was made
to point here is refused. It cannot send our Origin, nor add our header to a write. It cannot hide that a read is not
for our page.

Each write of a signed-in browser carries a token besides, which another page can neither read nor make. The token is
made from the browser's cookie, which no script sees, so it ends with it and nothing is kept. It is in no cookie of its
own: pages on other ports of this host could read that.

Hooks of channels are open to strangers by design: they come by the public name, which may be another than the page's,
and from servers, which have no Origin. They get no cookie, so a browser that is made to send there gains nothing.

Pages of groups are open to reads of other pages, too: they have no origin, so to a browser all that they load is asked
for by somebody else. A host name of a group leads to its pages, never to ours.
"""

import hashlib
import hmac
import ipaddress
from collections.abc import Iterable
from typing import Protocol
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from gatepost.serve.web.json_api import error_response

OUR_HEADER = "x-gatepost"  # only our own page sends it
LOCAL = ("localhost", "127.0.0.1", "::1")
ANY = ("0.0.0.0", "::", "")  # listening on every address
READS = ("GET", "HEAD")
CSRF_HEADER = "x-csrf-token"
REFUSED = "refused"  # the same header of an answer: the page asks for the token anew
_CSRF_PURPOSE = b"gatepost csrf token"
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob:; media-src 'self';"
    " connect-src 'self'; manifest-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "content-security-policy": POLICY,
    "x-frame-options": "DENY",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "microphone=(self), camera=(), geolocation=(), payment=(), usb=()",
    "cache-control": "no-store",
}


def host_of(header: str) -> str:
    """The host of a Host header or of an Origin's rest, without its port; '' if it is no host."""
    try:
        return urlsplit(f"//{header}").hostname or ""
    except ValueError:
        return ""


def port_of(header: str) -> str:
    try:
        return str(urlsplit(f"//{header}").port or "")
    except ValueError:
        return ""


def host_allowed(header: str, listens: str, further: Iterable[str]) -> bool:
    """Return True if a request may name us so. An address in numbers cannot be bent by a name server; a name must be
    known."""
    host = host_of(header)
    if not host:
        return False
    if host in LOCAL or host == listens.lower() or host in {host_of(name) for name in further}:
        return True
    return listens in ANY and _is_number(host)


def _is_number(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def write_allowed(headers: Headers) -> bool:
    """Return True if a write comes from our own page."""
    host, origins = headers.get("host"), [each.partition("://") for each in headers.getlist("origin")]
    ours = all(scheme in ("http", "https") and origin == host for scheme, _, origin in origins)
    return bool(origins) and ours and headers.get(OUR_HEADER) == "1"


def read_allowed(headers: Headers) -> bool:
    """Return True if a read is ours. Browsers say for whom they ask: another page may lead a person here, and no more.
    It could not see the answer, but a stream that it opens would end the person's own."""
    foreign = headers.get("sec-fetch-site") in ("cross-site", "same-site")
    return not foreign or headers.get("sec-fetch-mode") == "navigate"


class HostedSites(Protocol):
    """Pages of groups under host names of their own."""

    async def find_host(self, header: str) -> str | None: ...

    async def serve_host(self, folder: str, scope: Scope, receive: Receive, send: Send) -> None: ...


class BrowserSecurityMiddleware:
    """`listens` None: on a socket file, where whoever stands before us has checked the name. `open_to_all`: the starts
    of paths for which neither the name nor the origin is checked. `by_token`: of those where no cookie counts, and a
    write is judged by the token that it shows. `sites`: of pages of groups, which judge their reads themselves.
    `embedded`: the one path that pages of others may load."""

    def __init__(
        self,
        app: ASGIApp,
        listens: str | None,
        further: tuple[str, ...],
        open_to_all: str | tuple[str, ...] = (),
        by_token: str | tuple[str, ...] = (),
        sites: tuple[str, ...] = (),
        hosted: HostedSites | None = None,
        embedded: str = "",
    ) -> None:
        self._app, self._listens, self._further, self._open = app, listens, further, open_to_all
        self._by_token, self._sites, self._hosted, self._embedded = by_token, sites, hosted, embedded

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        headers = Headers(scope=scope)

        async def send_guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                answer = MutableHeaders(scope=message)
                framed = answer.get("content-security-policy", "")  # a page that says itself who may show it
                for name, value in HEADERS.items():
                    if name != "x-frame-options" or "frame-ancestors" not in framed:
                        answer.setdefault(name, value)
            await send(message)

        host = headers.get("host", "")
        if len(headers.getlist("host")) > 1:
            await PlainTextResponse("There is more than one Host header.\n", 400)(scope, receive, send_guarded)
        elif self._open and scope["path"].startswith(self._open):
            await self._app(scope, receive, send_guarded)
        elif self._hosted is not None and (folder := await self._find_host(self._hosted, host)) is not None:
            await self._hosted.serve_host(folder, scope, receive, send_guarded)
        elif self._listens is not None and not host_allowed(host, self._listens, self._further):
            text = "This name is not known here. Add it to the setting web.hosts if it is yours.\n"
            await PlainTextResponse(text, 403)(scope, receive, send_guarded)
        elif not self._is_ours(scope, headers):
            await PlainTextResponse("This does not come from our page.\n", 403)(scope, receive, send_guarded)
        else:
            await self._app(scope, receive, send_guarded)

    async def _find_host(self, hosted: HostedSites, host: str) -> str | None:
        """The group that a name belongs to. Ours are never a group's, whatever was bound before they were ours."""
        return None if host_allowed(host, self._listens or "", self._further) else await hosted.find_host(host)

    def _is_ours(self, scope: Scope, headers: Headers) -> bool:
        if scope["method"] in READS:
            path = scope["path"]
            return read_allowed(headers) or path == self._embedded or path.startswith(self._sites)
        return bool(self._by_token and scope["path"].startswith(self._by_token)) or write_allowed(headers)


def make_csrf_token(browser: str) -> str:
    """`browser`: the token of its cookie."""
    return hmac.new(browser.encode("utf-8", "surrogatepass"), _CSRF_PURPOSE, hashlib.sha256).hexdigest()


def is_write_proven(request: Request, browser: str) -> bool:
    """Return True if it changes nothing, or carries the token of its browser."""
    shown = request.headers.get(CSRF_HEADER, "").encode("utf-8", "replace")
    return request.method in READS or hmac.compare_digest(shown, make_csrf_token(browser).encode())


def render_csrf_refusal() -> Response:
    answer = error_response("csrf", "This page is out of date. Load it again.", 403)
    answer.headers[CSRF_HEADER] = REFUSED
    return answer


async def show_csrf_token(request: Request) -> Response:
    return JSONResponse({"token": make_csrf_token(request.state.browser)})
