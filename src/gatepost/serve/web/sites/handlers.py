"""Serves the pages of groups: at `/pub/` and `/priv/` of our own address, and under host names that groups have.

Nothing here has the power of a cookie: a page is shown in a sandbox, and where it is not public, in a frame of ours and
by a ticket. Under a group's own name there is no sign-in, so public pages are all that is there.

An agent wrote the page, so it gets an origin of its own that nobody else has: no cookie, no storage, no request with
the visitor's rights. It loads nothing from other hosts. A page that is not public may hold what nobody else is to see.
Our policy says where its frame may go, so no script of the agent's carries data elsewhere by leading the browser there.
"""

import hashlib
import html
import os
from collections.abc import Awaitable, Callable

import msgspec
from msgspec import Struct
from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send

from gatepost.core.clock import HOUR, Clock
from gatepost.core.errors import GatepostError, Invalid, Unavailable
from gatepost.core.home import Home
from gatepost.core.keyring import NONCE_BYTES, SealedValue, UnsealError
from gatepost.core.late_pattern import late_pattern
from gatepost.core.process.thread_pools import BoundedThreadPool
from gatepost.core.records import replace
from gatepost.flow import web_routes
from gatepost.flow.gateways.folder_check import is_here
from gatepost.flow.web_routes import (
    SiteKind,
    SitePage,
    SitePath,
    normalize_host,
    parse_segments,
    parse_site_path,
    render_url,
)
from gatepost.serve.web.browser_security import READS, read_allowed
from gatepost.serve.web.chat_files import PDF_POLICY
from gatepost.serve.web.file_response import OpenFile, OpenFileResponse
from gatepost.serve.web.signin.tickets import WebKeys, decode_text, encode_text
from gatepost.serve.web.signin.visitors import WebVisitor
from gatepost.serve.web.sites.site_files import PDF, UNKNOWN_TYPE, FileAbsence, open_site_file
from gatepost.store.port import Store
from gatepost.store.web import web_routes as rows
from gatepost.store.web.web_routes import WebAccess

PREFIXES = tuple(f"/{kind}/" for kind in SiteKind)
THREADS = 4  # for all visitors together
NOTHING = "There is nothing here.\n"
OUTDATED = "This page was open for too long, or moved to another network. Reload it.\n"
INERT = (
    "sandbox; default-src 'none'; img-src 'self'; media-src 'self'; style-src 'unsafe-inline'; frame-ancestors 'none'"
)
TICKET_LASTS = 2 * HOUR
LONGEST_TICKET = 600  # characters
TICKET_MARK = "~"  # no folder begins with it
TICKET_PURPOSE = "site ticket"
PUBLIC_SANDBOX = "sandbox allow-scripts allow-forms allow-popups"
FRAMED_SANDBOX = "allow-scripts allow-forms"
# Browsers that know it open no connection elsewhere for the page: none of WebRTC, and none in advance.
ALLOWED_CONNECTIONS = {"connection-allowlist": "(response-origin)", "x-dns-prefetch-control": "off"}
ACTIVE = ("text/html; charset=utf-8", "image/svg+xml", "text/xml; charset=utf-8")
_HOST = late_pattern(r"[A-Za-z0-9.-]+(?::[0-9]{1,5})?\Z")  # what a policy can name
_STYLE = (
    "html,body{margin:0;height:100%}body{display:flex;flex-direction:column;font:13px system-ui,sans-serif;"
    "color-scheme:light dark}p{margin:0;padding:6px 12px;opacity:.75}iframe{flex:1;border:0;width:100%;background:#fff}"
)


class SiteTicket(Struct, frozen=True):
    """`browser`: the token of its cookie, by which the person is judged anew with each request. `client`: where that
    browser is, and what it calls itself, as a digest: an address that was passed on is of no use elsewhere."""

    browser: str
    until: int
    client: str = ""


def _digest_client(address: str, agent: str) -> str:
    return hashlib.sha256(f"{address}\0{agent}".encode("utf-8", "replace")).hexdigest()[:16]


class SiteTickets:
    """Tickets for pages that are not public. Such a page has no origin, so browsers send no cookie with what it loads.

    A ticket stands in its address instead: for one browser at one place of the network, for one group, and as long as
    that browser is signed in. The page itself can read its ticket, but not what is sealed in it. It opens nothing but
    the pages of the same group, which the same agent wrote. Nothing is kept of a ticket, so every gateway with the same
    key ring knows it.
    """

    def __init__(self, keys: WebKeys) -> None:
        self._keys = keys

    async def issue(self, browser: str, folder: str, client: str, now: int) -> str:
        value = msgspec.json.encode(SiteTicket(browser, now + TICKET_LASTS, client))
        sealed = (await self._keys.read()).seal(value, (TICKET_PURPOSE, folder))
        return f"{encode_text(sealed.key_id.encode())}.{encode_text(sealed.nonce + sealed.data)}"

    async def find(self, text: str, folder: str, client: str, now: int) -> SiteTicket | None:
        """None: it is not ours, for another group or browser, or too old."""
        key_id, _, data = text.partition(".")
        if not data or len(text) > LONGEST_TICKET or not text.isascii():
            return None
        raw = decode_text(data)
        sealed = SealedValue(decode_text(key_id).decode("ascii", "replace"), raw[:NONCE_BYTES], raw[NONCE_BYTES:])
        try:
            value = (await self._keys.read()).open(sealed, (TICKET_PURPOSE, folder))
        except UnsealError:
            return None
        ticket = msgspec.json.decode(value, type=SiteTicket)
        return ticket if ticket.until > now and ticket.client == client else None


class SiteDeps(Struct, frozen=True, kw_only=True):
    """`get_browser`: the token of a browser's cookie, '' without one. `find_visitor`: who is signed in with such a
    token. `get_address`: of whoever asks. `make_sign_in`: the page for who is not. `own_names`: of the gateway, which
    lead to no group, whatever was bound before they were ours."""

    store: Store
    clock: Clock
    home: Home
    keys: WebKeys
    get_browser: Callable[[Request], str]
    find_visitor: Callable[[Request, str], Awaitable[WebVisitor | None]]
    get_address: Callable[[Scope], str]
    make_sign_in: Callable[[Request], Response]
    own_names: frozenset[str] = frozenset()


class _Place(Struct, frozen=True, kw_only=True):
    """The place of a page that is asked for. `base`: what stands before the path within the group, without a slash at
    its end."""

    path: SitePath
    page: SitePage
    base: str
    ticket: str = ""
    hosted: bool = False


class GroupSites:
    def __init__(self, deps: SiteDeps) -> None:
        self._deps = deps
        self._tickets, self._threads = SiteTickets(deps.keys), BoundedThreadPool(THREADS)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Below `/pub/` and `/priv/`."""
        await self._answer(scope, receive, send, self._serve_path)

    async def find_host(self, header: str) -> str | None:
        """The group that a Host header leads to."""
        name = normalize_host(header)
        if name in self._deps.own_names:
            return None
        found = await self._deps.store.read(rows.get_host, name)
        return found.folder if found is not None else None

    async def serve_host(self, folder: str, scope: Scope, receive: Receive, send: Send) -> None:
        """Under a group's own name."""

        async def serve(request: Request) -> ASGIApp:
            return await self._serve_hosted(request, folder)

        await self._answer(scope, receive, send, serve)

    async def _answer(
        self, scope: Scope, receive: Receive, send: Send, serve: Callable[[Request], Awaitable[ASGIApp]]
    ) -> None:
        answer: ASGIApp
        if scope["method"] not in READS:
            answer = PlainTextResponse("Pages are read here, nothing else.\n", 405, headers={"allow": "GET, HEAD"})
        else:
            try:
                answer = await serve(Request(scope))
            except Invalid:
                answer = PlainTextResponse("This is no address of a page.\n", 400)
            except Unavailable:
                answer = PlainTextResponse("Not now; try again.\n", 503, headers={"retry-after": "5"})
            except GatepostError:
                answer = PlainTextResponse(NOTHING, 404)
        await answer(scope, receive, send)

    async def _serve_path(self, request: Request) -> ASGIApp:
        if _is_loaded_by_us(request.headers):
            return PlainTextResponse("No page of the gateway loads this.\n", 403)
        path = parse_site_path(_get_raw_path(request))
        ticket = path.segments[0].removeprefix(TICKET_MARK) if path.segments[0].startswith(TICKET_MARK) else ""
        if ticket:
            path = replace(path, segments=path.segments[1:])
        page = await self._deps.store.read(web_routes.find_page, path) if path.segments else None
        if page is None:  # a stranger learns nothing of which groups there are
            known = await self._deps.find_visitor(request, self._deps.get_browser(request))
            return PlainTextResponse(NOTHING, 404) if known is not None else self._deps.make_sign_in(request)
        base = render_url(page.kind, *((f"{TICKET_MARK}{ticket}",) if ticket else ()), *page.folder.split("/"))
        return await self._serve_page(request, _Place(path=path, page=page, base=base, ticket=ticket))

    async def _serve_hosted(self, request: Request, folder: str) -> ASGIApp:
        raw = _get_raw_path(request)
        segments = (*folder.split("/"), *parse_segments(raw))
        path = SitePath(SiteKind.PUBLIC, segments, raw.endswith("/"))
        page = await self._deps.store.read(web_routes.find_hosted_page, path, folder)
        if page is None or page.access is WebAccess.AUTH:  # nobody can sign in there
            return PlainTextResponse(NOTHING, 404)
        return await self._serve_page(request, _Place(path=path, page=page, base="", hosted=True))

    async def _serve_page(self, request: Request, place: _Place) -> ASGIApp:
        match place.page.access:
            case WebAccess.DENY:
                return PlainTextResponse("This page is closed.\n", 403)
            case WebAccess.REDIRECT:
                return _redirect(place, place.page.redirect_to)
            case WebAccess.AUTH if place.ticket:
                refusal = await self._check_ticket(request, place)
                return refusal if refusal is not None else await self._send_file(request, place)
            case WebAccess.AUTH:
                return await self._serve_visitor(request, place)
            case WebAccess.PUBLIC:
                return await self._send_file(request, place)

    async def _check_ticket(self, request: Request, place: _Place) -> Response | None:
        """None: the ticket in the address is that of this browser, and its person may see the page. Outside of our
        frame nothing is shown by it."""
        folder, client = place.page.folder, self._get_client(request)
        shown_alone = request.headers.get("sec-fetch-dest") == "document"
        ticket = await self._tickets.find(place.ticket, folder, client, self._deps.clock.now())
        if ticket is not None and not shown_alone and await self._may_see(request, ticket.browser, folder):
            return None
        if shown_alone or (_is_navigation(request.headers) and "sec-fetch-dest" not in request.headers):
            return _make_redirect(render_url(place.page.kind, *place.path.segments, slash=place.path.slash))
        return PlainTextResponse(OUTDATED if _is_navigation(request.headers) else NOTHING, 404)

    async def _serve_visitor(self, request: Request, place: _Place) -> ASGIApp:
        """The person themselves comes, with the cookie: no page of somebody else may load this with their rights."""
        folder = place.page.folder
        browser = self._deps.get_browser(request) if read_allowed(request.headers) else ""
        if await self._deps.find_visitor(request, browser) is None:
            return self._deps.make_sign_in(request)
        if not await self._may_see(request, browser, folder):
            return PlainTextResponse(NOTHING, 404)
        found = await self._open_file(place)
        if not isinstance(found, OpenFile):
            return found
        if found.media_type not in ACTIVE:
            headers = make_site_headers(found.media_type, INERT, public=False)
            return OpenFileResponse(found, headers, self._threads)
        os.close(found.fd)
        text = await self._tickets.issue(browser, folder, self._get_client(request), self._deps.clock.now())
        kind, host = place.page.kind, request.headers.get("host", "")
        base = render_url(kind, f"{TICKET_MARK}{text}", *folder.split("/"), slash=True)
        address = render_url(kind, f"{TICKET_MARK}{text}", *place.path.segments, slash=place.path.slash)
        return HTMLResponse(render_frame(folder, address), headers=make_frame_headers(host, base))

    def _get_client(self, request: Request) -> str:
        return _digest_client(self._deps.get_address(request.scope), request.headers.get("user-agent", ""))

    async def _may_see(self, request: Request, browser: str, folder: str) -> bool:
        """By the rights of now."""
        visitor = await self._deps.find_visitor(request, browser)
        return visitor is not None and await self._deps.store.read(web_routes.may_see, visitor.user, folder)

    async def _send_file(self, request: Request, place: _Place) -> ASGIApp:
        found, public = await self._open_file(place), place.page.access is WebAccess.PUBLIC
        if not isinstance(found, OpenFile):
            return found
        policy = make_policy(request.headers.get("host", ""), f"{place.base}/", framed=not public)
        return OpenFileResponse(found, make_site_headers(found.media_type, policy, public=public), self._threads)

    async def _open_file(self, place: _Place) -> OpenFile | Response:
        page = place.page
        if not await is_here(self._deps.store, self._deps.home, page.folder):
            raise Unavailable("the page", "another gateway has the folder")
        found = await self._threads.run(lambda: open_site_file(self._deps.home, page, place.path.slash))
        if found is FileAbsence.NEEDS_SLASH:
            return _make_redirect(
                f"{place.base}{render_url(*page.parts, slash=True)}" if page.parts else f"{place.base}/"
            )
        return PlainTextResponse(NOTHING, 404) if isinstance(found, FileAbsence) else found


def _redirect(place: _Place, target: str) -> Response:
    """Within the group's pages, by the name and with the ticket that it was asked for."""
    path, page = parse_site_path(target), place.page
    if place.hosted and path.kind is SiteKind.PRIVATE:
        return PlainTextResponse(NOTHING, 404)
    rest = path.segments[page.folder.count("/") + 1 :]
    if place.hosted:
        return _make_redirect(render_url(*rest, slash=path.slash))
    before = (f"{TICKET_MARK}{place.ticket}",) if place.ticket else ()
    return _make_redirect(render_url(path.kind, *before, *path.segments, slash=path.slash))


def _make_redirect(where: str) -> Response:
    return Response(status_code=303, headers={"location": where, "cache-control": "no-store"})


def _is_loaded_by_us(headers: Headers) -> bool:
    """Pages of groups have no origin, so what they load is cross-site to a browser. If one of our own pages seems to
    load an agent's file, somebody has planted that: our policy trusts scripts of our own address."""
    return headers.get("sec-fetch-site") == "same-origin" and not _is_navigation(headers)


def _is_navigation(headers: Headers) -> bool:
    return headers.get("sec-fetch-mode", "navigate") == "navigate"


def _get_raw_path(request: Request) -> str:
    """As it was sent: what it decodes to is decided in one place."""
    raw = request.scope.get("raw_path") or request.scope["path"].encode()
    return bytes(raw).decode("utf-8", "replace")


def render_own(host: str, base: str) -> str:
    """Return the place below `base`, which ends with a slash, as a policy names it."""
    return f"{host}{base}" if _HOST.match(host) else "'self'"


def make_policy(host: str, base: str, *, framed: bool = False) -> str:
    """`base`: the path below which the page may load something, with a slash at its end."""
    own = render_own(host, base)
    sandbox, ancestors = (f"sandbox {FRAMED_SANDBOX}", "self") if framed else (PUBLIC_SANDBOX, "none")
    return (
        f"{sandbox}; default-src 'none'; script-src {own} 'unsafe-inline' 'unsafe-eval'; style-src {own}"
        f" 'unsafe-inline'; img-src {own} data: blob:; font-src {own} data:; media-src {own} data: blob:;"
        f" connect-src {own}; form-action {own}; manifest-src {own}; worker-src blob:; base-uri 'none';"
        f" webrtc 'block'; frame-ancestors '{ancestors}'"
    )


def make_site_headers(media_type: str, policy: str, *, public: bool) -> dict[str, str]:
    """A public file may be loaded by the page beside it, which has no origin: so by each page that knows its address.
    Any other file is for pages without an origin alone."""
    headers = {
        "content-type": media_type,
        "content-security-policy": PDF_POLICY if media_type == PDF else policy,  # no viewer works in a sandbox
        "x-content-type-options": "nosniff",
        "x-frame-options": "DENY" if public else "SAMEORIGIN",
        "access-control-allow-origin": "*" if public else "null",
        "cross-origin-resource-policy": "cross-origin",
        "cross-origin-opener-policy": "unsafe-none",  # a window that such a page opens is as confined as itself
        "permissions-policy": "microphone=(), camera=(), geolocation=(), payment=(), usb=()",
        "cache-control": "no-cache" if public else "private, no-cache",
    }
    if not public:
        headers |= ALLOWED_CONNECTIONS
    if media_type == UNKNOWN_TYPE:
        headers["content-disposition"] = "attachment"
    return headers


def render_frame(folder: str, address: str) -> str:
    """Return a page of ours that shows one of an agent's."""
    named = html.escape(folder)
    return (
        f"<!doctype html><html lang=en><meta charset=utf-8><meta name=viewport content='width=device-width'>"
        f"<title>A page of {named}</title><style>{_STYLE}</style>"
        f"<p>A page that the agent {named} made. Nothing on it leads to other sites.</p>"
        f'<iframe title="The page of {named}" sandbox="{FRAMED_SANDBOX}" src="{html.escape(address)}"></iframe></html>'
    )


def make_frame_headers(host: str, base: str) -> dict[str, str]:
    """`base`: below which the frame stays, wherever its scripts would lead it."""
    policy = (
        f"default-src 'none'; style-src 'unsafe-inline'; frame-src {render_own(host, base)}; base-uri 'none';"
        " form-action 'none'; webrtc 'block'; frame-ancestors 'none'"
    )
    return {"content-security-policy": policy, "cache-control": "no-store", **ALLOWED_CONNECTIONS}
