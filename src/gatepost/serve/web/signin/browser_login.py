"""Browsers that are signed in: by which cookie each is known, how every way of signing in ends, and who is here.

A cookie holds a token of which only the hash is kept. Even on loopback nobody gets in without one.
"""

import hashlib
import os
from collections.abc import Callable
from typing import Literal

from msgspec import Struct
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send

from gatepost.core.clock import DAY, HOUR, SECOND, Clock
from gatepost.core.event_bus import EventBus
from gatepost.core.home import Home
from gatepost.core.languages.catalogue import choose_language, speaking
from gatepost.core.settings import Config, setting
from gatepost.serve.rate_limit import PeerRateLimiter
from gatepost.serve.web.browser_security import is_write_proven, port_of, render_csrf_refusal
from gatepost.serve.web.browser_streams import BrowserStreams
from gatepost.serve.web.json_api import error_response
from gatepost.serve.web.signin.visitors import WebVisitor, find_browser_visitor
from gatepost.serve.web.static_pages import make_page_response
from gatepost.serve.web.trusted_proxies import find_proxy_user, get_proxy_identity, make_client_addresses
from gatepost.store.people import logins
from gatepost.store.people.logins import BrowserLogin, NewBrowser
from gatepost.store.port import Db, Store
from gatepost.store.rights import audit

BROWSER_DAYS = setting("web.login_days", 30, help="How long a browser stays signed in to the web page, in days.")
PROXY_WAY = "proxy_header"  # the way whose logins hold only while it says the same
SEEN_EVERY = HOUR  # that a browser was here is written down so often at most
MOST_SEEN = 1000  # browsers of which we remember that
LONGEST_PEER = 80  # characters
SIGN_IN_PAGE = "login.html"

FindUser = Callable[[Db, int], str | None]  # (store, now): who signs in; None: nobody
LONGEST_READ = 400  # characters of a User-Agent that are looked at
# Words of a User-Agent, and the names that people know. The first match counts: most browsers claim to be others, too.
_BROWSERS = (
    ("Edg/", "Edge"),
    ("EdgA/", "Edge"),
    ("OPR/", "Opera"),
    ("SamsungBrowser/", "Samsung Internet"),
    ("Firefox/", "Firefox"),
    ("FxiOS/", "Firefox"),
    ("CriOS/", "Chrome"),
    ("Chromium/", "Chromium"),
    ("Chrome/", "Chrome"),
    ("Safari/", "Safari"),
    ("curl/", "curl"),
    ("python-", "a Python program"),
)
_SYSTEMS = (
    ("iPhone", "iPhone"),
    ("iPad", "iPad"),
    ("Android", "Android"),
    ("CrOS", "ChromeOS"),
    ("Windows", "Windows"),
    ("Mac OS X", "macOS"),
    ("Macintosh", "macOS"),
    ("Linux", "Linux"),
)


class BrowserLoginDeps(Struct, frozen=True, kw_only=True):
    store: Store
    clock: Clock
    config: Config
    home: Home
    streams: BrowserStreams
    events: EventBus
    store_id: str = ""  # of a store that several gateways share: a browser is signed in at all of them


class BrowserLogins:
    def __init__(self, deps: BrowserLoginDeps) -> None:
        self._store, self._clock, self._streams, self._events = deps.store, deps.clock, deps.streams, deps.events
        self._config, self._days = deps.config, deps.config[BROWSER_DAYS]
        self._store_id = hashlib.sha256(deps.store_id.encode() or os.fsencode(deps.home.path)).hexdigest()[:8]
        self._clients = make_client_addresses(deps.config)
        self._seen_at: dict[str, int] = {}  # what was written of late, or is being written

    async def find_visitor(self, request: Request) -> WebVisitor | None:
        """Return who is signed in with the cookie of this request."""
        return await self.find_by_token(request, self.get_token(request))

    async def find_by_token(self, request: Request, token: str) -> WebVisitor | None:
        """The same for a request that shows the token of a browser in another way than by its cookie."""
        now = self._clock.now()
        found = await self._store.read(find_browser_visitor, token, now) if token else None
        if found is None:
            return None
        visitor, browser = found
        if browser.way == PROXY_WAY and not self._is_named(request, visitor):
            return None
        if now - browser.last_seen_at >= SEEN_EVERY:
            self._record_seen(browser.id, now)
        return visitor

    def _is_named(self, request: Request, visitor: WebVisitor) -> bool:
        """Return True if the proxy by which the person came in still says that it is them."""
        name = find_proxy_user(request, self._config)
        return bool(name) and get_proxy_identity(name) in visitor.names

    def _record_seen(self, login: str, now: int) -> None:
        """Nobody waits for it. A page asks for many things at once: one of them writes."""
        if now - self._seen_at.get(login, 0) < SEEN_EVERY:
            return
        if len(self._seen_at) >= MOST_SEEN:
            self._seen_at.clear()
        self._seen_at[login] = now
        self._store.post(logins.record_seen, login, now - SEEN_EVERY, now, lane=f"login:{login}")

    async def sign_in(
        self,
        request: Request,
        way: str,
        find_user: FindUser,
        answer: Response | None = None,
        secure: bool | None = None,
    ) -> Response | None:
        """How every way of signing in ends: the browser's row and the audit's in one transaction, and the cookie.
        `find_user` runs in it: what it uses up is used up for this browser alone. None: it found nobody, and nothing
        but its own writes has changed. `answer`: what is sent; the default is `{"ok": true}`. `secure`: whether the
        browser came by https; None: as the Origin of the request has it."""
        now, before = self._clock.now(), self.get_token(request)

        def write(db: Db) -> tuple[str, BrowserLogin] | None:
            user = find_user(db, now)
            if user is None:
                return None
            new = NewBrowser(
                user_id=user, way=way, device=get_device(request), peer=self.get_peer(request)[:LONGEST_PEER]
            )
            if before:
                logins.sign_out(db, before)  # its cookie is overwritten
            token, row = logins.add_browser(db, new, now + self._days * DAY, now)
            details = {"way": way, "login": row.id, "device": row.device, "peer": row.peer}
            audit.append(db, audit.AuditRecord(now, user, "login.sign_in", "done", details))
            return token, row

        made = await self._store.write(write)
        if made is None:
            return None
        if before:
            self._end_streams(before)
        answer = answer or JSONResponse({"ok": True})
        self.set_cookie(request, answer, made[0], self._days * DAY, secure=secure)
        return answer

    def set_cookie(
        self,
        request: Request,
        answer: Response,
        token: str,
        age: int,
        suffix: str = "",
        secure: bool | None = None,
        same_site: Literal["lax", "strict"] = "strict",
    ) -> None:
        """`age` is in microseconds. `suffix`: of another cookie of ours than the one that signs in. `same_site` lax: it
        is sent along where another site leads here."""
        secure = is_secure(request) if secure is None else secure
        answer.set_cookie(
            self._list_cookies(request, suffix)[0 if secure else 1],
            token,
            max_age=age // SECOND,
            httponly=True,
            samesite=same_site,
            secure=secure,
        )

    async def sign_out(self, request: Request) -> Response:
        token = self.get_token(request)
        if token and not is_write_proven(request, token):
            return render_csrf_refusal()
        if token:
            await self._store.write(logins.sign_out, token)
            self._end_streams(token)
        answer = JSONResponse({"ok": True})
        self.clear_cookie(request, answer)
        return answer

    def clear_cookie(self, request: Request, answer: Response, suffix: str = "") -> None:
        for name in self._list_cookies(request, suffix):
            answer.delete_cookie(name, httponly=True, samesite="strict", secure=name.startswith("__Host-"))

    def _end_streams(self, token: str) -> None:
        self._streams.end(token)
        self._events.logins()

    def get_peer(self, request: Request) -> str:
        """The address that a request comes from, as the limits on strangers know it."""
        return self._clients.get(request.scope)

    def get_token(self, request: Request) -> str:
        """The browser's own, '' if it has shown none."""
        return self.get_cookie(request)

    def get_cookie(self, request: Request, suffix: str = "") -> str:
        names = self._list_cookies(request, suffix)
        return next((request.cookies[name] for name in names if name in request.cookies), "")

    def _list_cookies(self, request: Request, suffix: str = "") -> tuple[str, str]:
        """The names of our cookie, over https and over http. Browsers send cookies to every port of a host, so the
        name holds the port and the store: two gateways never take or overwrite each other's. Over https the prefix
        keeps other hosts of the domain from setting it."""
        name = f"gatepost-{port_of(request.headers.get('host', '')) or 'web'}-{self._store_id}" + (
            f"-{suffix}" if suffix else ""
        )
        return f"__Host-{name}", name


class LoginRequiredMiddleware:
    """Lets only signed-in browsers through, and says who they are. `page`: the others see the sign-in page, which then
    leads back."""

    def __init__(self, app: ASGIApp, browsers: BrowserLogins, pace: PeerRateLimiter, page: bool = False) -> None:
        self._app, self._browsers, self._pace, self._page = app, browsers, pace, page

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope)
        visitor = await self._browsers.find_visitor(request)
        if visitor is None:
            await self._pace.hold(scope)
            if self._page and request.method == "GET" and "hx-request" not in request.headers:
                await make_page_response(request, SIGN_IN_PAGE, status=401)(scope, receive, send)
                return
            text = "You are not signed in. `gatepost login` prints an address that does it."
            answer = error_response("signed_out", text, 401)
            answer.headers["hx-refresh"] = "true"  # the page's own address then shows the sign-in page
            await answer(scope, receive, send)
            return
        request.state.visitor, request.state.user = visitor, visitor.user
        request.state.browser = self._browsers.get_token(request)
        if not is_write_proven(request, request.state.browser):
            await render_csrf_refusal()(scope, receive, send)
            return
        with speaking(find_language(request, visitor)):
            await self._app(scope, receive, send)


def find_language(request: Request, visitor: WebVisitor | None) -> str:
    """Return the language that a person chose, else the one that their browser asks for."""
    chosen = visitor.language if visitor is not None else ""
    return chosen or choose_language(request.headers.get("accept-language", ""))


def get_device(request: Request) -> str:
    return parse_device(request.headers.get("user-agent", ""))


def is_secure(request: Request) -> bool:
    """Return True if the browser came by https. Behind a proxy only the Origin of its write says so."""
    origin = request.headers.get("origin", "")
    return origin.startswith("https://") if origin else request.url.scheme == "https"


def parse_device(user_agent: str) -> str:
    """Name a browser as people know it, like "Firefox on Linux"; '' if unknown. A User-Agent may say anything."""
    said = user_agent[:LONGEST_READ]
    browser = next((name for sign, name in _BROWSERS if sign in said), "")
    system = next((name for sign, name in _SYSTEMS if sign in said), "")
    return f"{browser} on {system}" if browser and system else browser or system
