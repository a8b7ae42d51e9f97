"""The web page: who gets in, and what is served to whom. Nobody sees anything but the sign-in page without a cookie."""

import asyncio
import hashlib
import os
from collections.abc import Mapping
from pathlib import Path

from msgspec import Struct, field
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import FileResponse, JSONResponse, PlainTextResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Receive, Scope, Send

from gatepost.channels.contract import Channel
from gatepost.channels.local_channel import LocalChannel
from gatepost.core.clock import DAY, SECOND, Clock
from gatepost.core.errors import GatepostError, Invalid, NotFound, Unavailable
from gatepost.core.event_bus import EventBus
from gatepost.core.home import Home
from gatepost.core.settings import Config, setting
from gatepost.flow.delivery.outgoing_messages import ChannelInstances
from gatepost.serve.auth_throttle import AuthThrottle, make_audit_recorder
from gatepost.serve.http import CONNECTIONS
from gatepost.serve.metrics import MetricsPage
from gatepost.serve.rate_limit import PeerRateLimiter, RateLimitMiddleware
from gatepost.serve.web import hooks, login
from gatepost.serve.web.browser_security import BrowserSecurityMiddleware, port_of
from gatepost.serve.web.browser_streams import BrowserStreams
from gatepost.serve.web.chat import Chat
from gatepost.serve.web.dashboard.contract import PREFIX
from gatepost.serve.web.dashboard.handlers import Dashboard, DashboardDeps
from gatepost.serve.web.dashboard.live import ChangeStreams
from gatepost.serve.web.first_run import FirstRun
from gatepost.serve.web.json_body import read_text_field
from gatepost.serve.web.login import WebVisitor
from gatepost.serve.web.machines import API_PREFIX, MachineDeps, Machines
from gatepost.serve.web.message_form import UploadTooLarge
from gatepost.serve.web.pairing import PairingLinks
from gatepost.serve.web.widget import handlers as widget
from gatepost.serve.web.widget.handlers import ChatWidget, WidgetDeps
from gatepost.store import logins
from gatepost.store.port import Store

HOSTS = setting("web.hosts", (), help="Further host names under which the web page may be asked for.")
STATIC = Path(__file__).parent / "static"
LARGEST_LOGIN = 4096  # bytes
EMBEDDED = "/static/widget.js"  # the one file that pages of others load


class WebDeps(Struct, frozen=True, kw_only=True):
    """What the site is made of. `listens`: the host that it is bound to; None on a socket file."""

    store: Store
    clock: Clock
    config: Config
    home: Home
    channel: LocalChannel
    stopping: asyncio.Event
    bells: EventBus = field(default_factory=EventBus)
    listens: str | None = "127.0.0.1"
    reach: ChannelInstances | None = None  # None: what happens here is said in no other channel
    channels: Mapping[str, Channel] = field(default_factory=dict)  # by instance, for what platforms send to us
    dashboard: DashboardDeps | None = None  # None: a site without operations has no dashboard
    metrics: MetricsPage | None = None


def make_site(parts: WebDeps) -> Starlette:
    parts.channel.set_file_folder(parts.home.media / parts.channel.platform)
    chat = Chat(parts.store, parts.clock, parts.config, parts.home, parts.channel, parts.stopping)
    door, pace = LoginHandlers(parts, chat.streams), PeerRateLimiter()
    links = PairingLinks(parts.store, parts.clock, parts.bells, parts.reach)
    first_run, chat_widget = FirstRun(parts.store, parts.config), _make_widget(parts, chat)
    dashboard = Dashboard(parts.dashboard, ChangeStreams(parts.bells, parts.stopping)) if parts.dashboard else None
    return Starlette(
        routes=[
            Route("/", door.page, methods=["GET"]),
            Route("/session", door.session_page, methods=["GET"]),
            Route("/login", door.sign_in, methods=["POST"]),
            Route("/logout", door.sign_out, methods=["POST"]),
            Route("/health", door.health, methods=["GET"]),
            Route("/pair/{token}", _show_pairing, methods=["GET"]),
            *chat_widget.routes(),
            *_list_machine_routes(parts, door),
            Mount("/static", _Assets(directory=STATIC)),
            Mount(hooks.PREFIX, hooks.ChannelHooks(parts.channels, parts.config, pace)),
            Mount(
                PREFIX,
                routes=dashboard.routes() if dashboard else [],
                middleware=[Middleware(LoginRequiredMiddleware, door=door, pace=pace, page=True)],
            ),
            Mount(
                "/api",
                routes=[*chat.routes(), *links.routes(), *first_run.routes()],
                middleware=[Middleware(LoginRequiredMiddleware, door=door, pace=pace)],
            ),
        ],
        middleware=[
            Middleware(RateLimitMiddleware, pace=pace, judged=("/api/", f"{PREFIX}/", f"{hooks.PREFIX}/", API_PREFIX)),
            Middleware(
                BrowserSecurityMiddleware,
                listens=parts.listens,
                further=parts.config[HOSTS],
                open_to_all=f"{hooks.PREFIX}/",
                by_token=(API_PREFIX, widget.API_PREFIX),
                embedded=EMBEDDED,
            ),
        ],
        exception_handlers={
            GatepostError: render_error,
            HTTPException: render_http_error,
            Exception: render_internal_error,
        },
    )


def _list_machine_routes(parts: WebDeps, door: "LoginHandlers") -> list[Route]:
    if parts.dashboard is None:
        return []

    async def is_signed_in(request: Request) -> bool:
        return await door.find_visitor(request) is not None

    deps = MachineDeps(
        office=parts.dashboard.office,
        operations=parts.dashboard.operations,
        throttle=AuthThrottle(make_audit_recorder(parts.store, parts.clock, "the API")),
        is_serving=lambda: not parts.stopping.is_set(),
        is_signed_in=is_signed_in,
        metrics=parts.metrics,
    )
    return Machines(deps).routes()


def _make_widget(parts: WebDeps, chat: Chat) -> ChatWidget:
    return ChatWidget(
        WidgetDeps(
            store=parts.store,
            clock=parts.clock,
            hub=parts.channel,
            bells=parts.bells,
            stopping=parts.stopping,
            rendering=chat.rendering,
            has_proxy=parts.config[CONNECTIONS] == 0,
        )
    )


async def _show_pairing(request: Request) -> Response:
    """The same page for every link, valid or not: what it says is asked for by a browser that is signed in."""
    return FileResponse(STATIC / "pair.html")


class LoginHandlers:
    """Sign in, sign out, and who is signed in."""

    def __init__(self, parts: WebDeps, streams: BrowserStreams) -> None:
        self._parts, self._streams = parts, streams
        self._home_id = hashlib.sha256(os.fsencode(parts.home.path)).hexdigest()[:8]
        self._strikes = AuthThrottle(make_audit_recorder(parts.store, parts.clock, "the web page"))

    async def find_visitor(self, request: Request) -> WebVisitor | None:
        token = self.token(request)
        return await self._parts.store.read(login.find_visitor, token, self._parts.clock.now()) if token else None

    async def page(self, request: Request) -> Response:
        return FileResponse(STATIC / ("chat.html" if await self.find_visitor(request) else "login.html"))

    async def session_page(self, request: Request) -> Response:
        """Leads on to the page of the conversation that the fragment of the address names."""
        return FileResponse(STATIC / ("session.html" if await self.find_visitor(request) else "login.html"))

    async def health(self, request: Request) -> Response:
        return JSONResponse({"status": "ok"})

    async def sign_in(self, request: Request) -> Response:
        """Redeem a one-time token for a cookie. Unknown, used and too old look alike."""
        days = self._parts.config[login.BROWSER_DAYS]
        given, now = await read_text_field(request, "token", LARGEST_LOGIN), self._parts.clock.now()
        if await self.find_visitor(request):
            await self._parts.store.write(logins.redeem, given, now)  # used up all the same, so that nobody else can
            return JSONResponse({"ok": True})
        token = await self._parts.store.write(login.redeem, given, now, days)
        peer = request.client.host if request.client is not None else ""
        if token is None:
            if not await self._strikes.strike(peer):
                return _error_response("refused", "Too many wrong addresses were tried from here; wait a while.", 429)
            return _error_response("refused", "This address was used before or is too old.", 403)
        self._strikes.reset(peer)
        answer = JSONResponse({"ok": True})
        secure = request.headers["origin"].startswith("https://")
        answer.set_cookie(
            self._cookies(request)[0 if secure else 1],
            token,
            max_age=days * DAY // SECOND,
            httponly=True,
            samesite="strict",
            secure=secure,
        )
        return answer

    async def sign_out(self, request: Request) -> Response:
        token = self.token(request)
        if token:
            await self._parts.store.write(logins.sign_out, token)
            self._streams.end(token)
        answer = JSONResponse({"ok": True})
        for name in self._cookies(request):
            answer.delete_cookie(name, httponly=True, samesite="strict", secure=name.startswith("__Host-"))
        return answer

    def token(self, request: Request) -> str:
        """The browser's own, '' if it has shown none."""
        return next((request.cookies[name] for name in self._cookies(request) if name in request.cookies), "")

    def _cookies(self, request: Request) -> tuple[str, str]:
        """The names of our cookie, over https and over http. Browsers send cookies to every port of a host, so the
        name holds the port and the home: two gateways never take or overwrite each other's. Over https the prefix
        keeps other hosts of the domain from setting it."""
        name = f"gatepost-{port_of(request.headers.get('host', '')) or 'web'}-{self._home_id}"
        return f"__Host-{name}", name


class LoginRequiredMiddleware:
    """Lets only signed-in browsers through, and says who they are. `page`: the others see the sign-in page, which then
    leads back."""

    def __init__(self, app: ASGIApp, door: LoginHandlers, pace: PeerRateLimiter, page: bool = False) -> None:
        self._app, self._door, self._pace, self._page = app, door, pace, page

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope)
        visitor = await self._door.find_visitor(request)
        if visitor is None:
            await self._pace.hold(scope)
            if self._page and request.method == "GET" and "hx-request" not in request.headers:
                await FileResponse(STATIC / "login.html", 401)(scope, receive, send)
                return
            text = "You are not signed in. `gatepost login` prints an address that does it."
            await _error_response("signed_out", text, 401)(scope, receive, send)
            return
        request.state.visitor, request.state.user = visitor, visitor.user
        request.state.browser = self._door.token(request)
        await self._app(scope, receive, send)


class _Assets(StaticFiles):
    """Ours and public: a browser may keep them, and asks whether they changed."""

    async def get_response(self, path: str, scope: Scope) -> Response:
        answer = await super().get_response(path, scope)
        answer.headers["cache-control"] = "no-cache"
        if scope["path"] == EMBEDDED:
            answer.headers["cross-origin-resource-policy"] = "cross-origin"
        return answer


def _error_response(kind: str, text: str, status: int) -> Response:
    return JSONResponse({"ok": False, "error": {"kind": kind, "text": text}}, status)


async def render_error(request: Request, error: Exception) -> Response:
    if isinstance(error, UploadTooLarge):
        return _error_response("too_large", str(error), 413)
    if isinstance(error, NotFound):
        return _error_response("not_found", str(error), 404)
    if isinstance(error, Unavailable):
        return _error_response("unavailable", str(error), 503)
    return _error_response("invalid" if isinstance(error, Invalid) else "refused", str(error), 400)


async def render_http_error(request: Request, error: Exception) -> Response:
    status = error.status_code if isinstance(error, HTTPException) else 404
    return PlainTextResponse("There is nothing here.\n" if status == 404 else "Not possible here.\n", status)


async def render_internal_error(request: Request, error: Exception) -> Response:
    return _error_response("internal", "Something went wrong inside; `gatepost logs` has it.", 500)
