"""The web page: who gets in, and what is served to whom. Nobody sees anything but the sign-in page without a cookie."""

import asyncio
from collections.abc import Callable, Mapping

from msgspec import Struct, field
from starlette.applications import Starlette
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Mount, Route, Router
from starlette.staticfiles import StaticFiles
from starlette.types import Scope

from gatepost.channels.contract import Channel
from gatepost.channels.local_channel import LocalChannel
from gatepost.core.clock import Clock
from gatepost.core.errors import GatepostError, Invalid, NotFound, Unavailable, render_retry_after
from gatepost.core.event_bus import EventBus
from gatepost.core.home import Home
from gatepost.core.keyring import Keyring
from gatepost.core.settings import Config
from gatepost.flow.delivery.outgoing_messages import ChannelInstances
from gatepost.flow.web_routes import HOSTS, SiteKind, list_own_names
from gatepost.serve.auth_throttle import AuthThrottle, make_audit_recorder
from gatepost.serve.metrics import MetricsPage
from gatepost.serve.rate_limit import PeerRateLimiter, RateLimitMiddleware
from gatepost.serve.web import hooks
from gatepost.serve.web import widget as widget
from gatepost.serve.web.api_routes import API_PREFIX, ApiRouteDeps, ApiRoutes
from gatepost.serve.web.browser_security import HEADERS, BrowserSecurityMiddleware, host_allowed, show_csrf_token
from gatepost.serve.web.chat import Chat
from gatepost.serve.web.chat_files import UploadTooLarge
from gatepost.serve.web.dashboard.contract import PREFIX
from gatepost.serve.web.dashboard.handlers import Dashboard, DashboardDeps
from gatepost.serve.web.dashboard.live import ChangeStreams
from gatepost.serve.web.json_api import error_response
from gatepost.serve.web.links import hook
from gatepost.serve.web.links.hook import HookDeps, HookLinks
from gatepost.serve.web.links.invite import InviteLinks, show_invitation
from gatepost.serve.web.links.pairing import PairingLinks
from gatepost.serve.web.signin.browser_login import (
    SIGN_IN_PAGE,
    BrowserLoginDeps,
    BrowserLogins,
    LoginRequiredMiddleware,
)
from gatepost.serve.web.signin.contract import SignInDeps, list_routes
from gatepost.serve.web.signin.tickets import SignInTickets, WebKeys
from gatepost.serve.web.sites import handlers as sites
from gatepost.serve.web.sites.handlers import GroupSites, SiteDeps
from gatepost.serve.web.static_pages import STATIC, make_page_response
from gatepost.serve.web.trusted_proxies import make_client_addresses
from gatepost.serve.web.widget import ChatWidget, WidgetDeps
from gatepost.store.port import Store
from gatepost.store.rights.secrets import SecretReader

OPEN_TO_ALL = (f"{hooks.PREFIX}/", f"{hook.PREFIX}/")  # where programs post: by any name, and from no page
# Paths for programs, visitors and pages of groups: nothing of the dashboard stands there.
WITHOUT_FRAME = (*OPEN_TO_ALL, "/api/", "/static/", API_PREFIX, "/chat/", *sites.PREFIXES)
# It shows a PDF in its viewer. All else of ours refuses to be framed, and so does the chat.
CHAT_HEADERS = {**HEADERS, "content-security-policy": f"{HEADERS['content-security-policy']}; frame-src 'self'"}
EMBEDDED = "/static/widget.js"  # the one file that pages of others load


class WebDeps(Struct, frozen=True, kw_only=True):
    """Parts of the site. `listens`: the host that it is bound to; None on a socket file."""

    store: Store
    clock: Clock
    config: Config
    home: Home
    channel: LocalChannel
    stopping: asyncio.Event
    events: EventBus = field(default_factory=EventBus)
    listens: str | None = "127.0.0.1"
    channels: ChannelInstances | None = None  # None: what happens here is said in no other channel
    adapters: Mapping[str, Channel] = field(default_factory=dict)  # by instance, for what platforms send to us
    dashboard: DashboardDeps | None = None  # None: a site without operations has no dashboard
    metrics: MetricsPage | None = None
    store_id: str = ""  # of a store that several gateways share
    find_unready: Callable[[], str] = str  # why nobody should be sent here now; '': it serves


def make_site(deps: WebDeps) -> Starlette:
    deps.channel.set_file_folder(deps.home.media / deps.channel.platform)
    chat = Chat(deps.store, deps.clock, deps.config, deps.home, deps.channel, deps.stopping)
    browsers, pace = _make_browsers(deps, chat), PeerRateLimiter(make_client_addresses(deps.config))
    links = PairingLinks(deps.store, deps.clock, deps.events, deps.channels)
    invites = InviteLinks(deps.store, deps.clock, deps.events, deps.channel)
    chat_widget = _make_widget(deps, chat)
    pages = _make_group_sites(deps, browsers)
    dashboard = Dashboard(deps.dashboard, ChangeStreams(deps.events, deps.stopping)) if deps.dashboard else None
    return Starlette(
        routes=[
            *SitePages(browsers).routes(),
            *chat_widget.routes(),
            *list_routes(_make_sign_in(deps, browsers)),
            *_list_api_routes(deps, browsers, pace),
            *_list_hook_routes(deps, pace),
            Mount("/static", _Assets(directory=STATIC)),
            *(Mount(f"/{kind}", pages) for kind in SiteKind),
            Mount(hooks.PREFIX, hooks.ChannelHooks(deps.adapters, deps.config, pace)),
            Mount(
                PREFIX,
                app=dashboard or Router(),
                middleware=[Middleware(LoginRequiredMiddleware, browsers=browsers, pace=pace, page=True)],
            ),
            Mount(
                "/api",
                routes=[
                    *chat.routes(),
                    *links.routes(),
                    *invites.routes(),
                    Route("/csrf", show_csrf_token, methods=["GET"]),
                ],
                middleware=[Middleware(LoginRequiredMiddleware, browsers=browsers, pace=pace)],
            ),
        ],
        middleware=[
            Middleware(
                RateLimitMiddleware,
                pace=pace,
                judged=("/api/", f"{PREFIX}/", *OPEN_TO_ALL, API_PREFIX),
                gets_in=lambda scope: _is_by_our_name(scope, deps),
            ),
            Middleware(
                BrowserSecurityMiddleware,
                listens=deps.listens,
                further=deps.config[HOSTS],
                open_to_all=OPEN_TO_ALL,
                by_token=(API_PREFIX, widget.API_PREFIX),
                sites=sites.PREFIXES,
                hosted=pages,
                embedded=EMBEDDED,
            ),
        ],
        exception_handlers={
            GatepostError: render_error,
            HTTPException: MissingPages(browsers, dashboard).render_error,
            Exception: render_internal_error,
        },
    )


def _is_by_our_name(scope: Scope, deps: WebDeps) -> bool:
    """By another name a request is for a group's pages, or for nobody, whatever its path is."""
    host, names = Headers(scope=scope).get("host", ""), deps.config[HOSTS]
    return scope["path"].startswith(OPEN_TO_ALL) or host_allowed(host, deps.listens or "", names)


def _make_group_sites(deps: WebDeps, browsers: BrowserLogins) -> GroupSites:
    sites = SiteDeps(
        store=deps.store,
        clock=deps.clock,
        home=deps.home,
        keys=WebKeys(Keyring(deps.home), deps.store),
        get_browser=browsers.get_token,
        find_visitor=browsers.find_by_token,
        get_address=make_client_addresses(deps.config).get,
        make_sign_in=lambda request: make_page_response(request, SIGN_IN_PAGE, status=401),
        own_names=frozenset(list_own_names(deps.config)),
    )
    return GroupSites(sites)


def _make_browsers(deps: WebDeps, chat: Chat) -> BrowserLogins:
    deps.events.on_logins(deps.channel.ring_all)  # a stream then sees that its browser was signed out
    return BrowserLogins(
        BrowserLoginDeps(
            store=deps.store,
            clock=deps.clock,
            config=deps.config,
            home=deps.home,
            streams=chat.streams,
            events=deps.events,
            store_id=deps.store_id,
        )
    )


def _make_sign_in(deps: WebDeps, browsers: BrowserLogins) -> SignInDeps:
    return SignInDeps(
        store=deps.store,
        clock=deps.clock,
        config=deps.config,
        channel=deps.channel,
        browsers=browsers,
        throttle=AuthThrottle(make_audit_recorder(deps.store, deps.clock, "the web page")),
        secrets=SecretReader(deps.store, Keyring(deps.home), deps.clock),
        tickets=SignInTickets(WebKeys(Keyring(deps.home), deps.store), deps.store),
    )


def _list_api_routes(deps: WebDeps, browsers: BrowserLogins, pace: PeerRateLimiter) -> list[Route]:
    if deps.dashboard is None:
        return []

    async def is_signed_in(request: Request) -> bool:
        return await browsers.find_visitor(request) is not None

    routing = ApiRouteDeps(
        operation_deps=deps.dashboard.operation_deps,
        operations=deps.dashboard.operations,
        throttle=AuthThrottle(make_audit_recorder(deps.store, deps.clock, "the API")),
        pace=pace,
        clients=make_client_addresses(deps.config),
        is_serving=lambda: not deps.stopping.is_set(),
        find_unready=deps.find_unready,
        is_signed_in=is_signed_in,
        metrics=deps.metrics,
    )
    return ApiRoutes(routing).routes()


def _list_hook_routes(deps: WebDeps, pace: PeerRateLimiter) -> list[Route]:
    if deps.channels is None:
        return []
    hooking = HookDeps(
        store=deps.store,
        clock=deps.clock,
        config=deps.config,
        home=deps.home,
        events=deps.events,
        stopping=deps.stopping,
        channels=deps.channels,
        pace=pace,
    )
    return HookLinks(hooking).routes()


def _make_widget(deps: WebDeps, chat: Chat) -> ChatWidget:
    return ChatWidget(
        WidgetDeps(
            store=deps.store,
            clock=deps.clock,
            hub=deps.channel,
            events=deps.events,
            stopping=deps.stopping,
            rendering=chat.rendering,
            clients=make_client_addresses(deps.config),
        )
    )


class SitePages:
    """Pages that say by themselves who may see them."""

    def __init__(self, browsers: BrowserLogins) -> None:
        self._browsers = browsers

    def routes(self) -> list[Route]:
        return [
            Route("/", self.show_chat, methods=["GET"]),
            Route("/chat/with/{room:path}", self.show_chat, methods=["GET"]),
            Route("/session", self.show_session, methods=["GET"]),
            Route("/logout", self._browsers.sign_out, methods=["POST"]),
            Route("/health", _show_health, methods=["GET"]),
            Route("/pair/{token}", _show_pairing, methods=["GET"]),
            Route("/invite/{token}", show_invitation, methods=["GET"]),
        ]

    async def show_chat(self, request: Request) -> Response:
        return await self._show(request, "chat.html", CHAT_HEADERS)

    async def show_session(self, request: Request) -> Response:
        """Leads on to the page of the conversation that the fragment of the address names."""
        return await self._show(request, "session.html")

    async def _show(self, request: Request, name: str, headers: Mapping[str, str] | None = None) -> Response:
        visitor = await self._browsers.find_visitor(request)
        if visitor is None:
            return make_page_response(request, SIGN_IN_PAGE)
        return make_page_response(request, name, visitor.language, headers=headers)


async def _show_health(request: Request) -> Response:
    return JSONResponse({"status": "ok"})


async def _show_pairing(request: Request) -> Response:
    """The same page for every link, valid or not: what it says is asked for by a browser that is signed in."""
    return make_page_response(request, "pair.html")


class _Assets(StaticFiles):
    """Ours and public: a browser may keep them, and asks whether they changed."""

    async def get_response(self, path: str, scope: Scope) -> Response:
        answer = await super().get_response(path, scope)
        answer.headers["cache-control"] = "no-cache"
        if scope["path"] == EMBEDDED:
            answer.headers["cross-origin-resource-policy"] = "cross-origin"
        return answer


async def render_error(request: Request, error: Exception) -> Response:
    if isinstance(error, UploadTooLarge):
        return error_response("too_large", str(error), 413)
    if isinstance(error, NotFound):
        return error_response("not_found", str(error), 404)
    if isinstance(error, Unavailable):
        answer = error_response("unavailable", str(error), 503)
        answer.headers["retry-after"] = render_retry_after(error)
        return answer
    return error_response("invalid" if isinstance(error, Invalid) else "refused", str(error), 400)


class MissingPages:
    """The answer to a path that leads nowhere: to a browser of somebody who is signed in a page with the way back."""

    def __init__(self, browsers: BrowserLogins, dashboard: Dashboard | None) -> None:
        self._browsers, self._dashboard = browsers, dashboard

    async def render_error(self, request: Request, error: Exception) -> Response:
        if self._dashboard is None or not isinstance(error, HTTPException) or error.status_code != 404:
            return await render_http_error(request, error)
        accepts, path = request.headers.get("accept", ""), request.url.path
        if path.startswith(f"{PREFIX}/") and accepts.startswith("application/json"):
            return error_response("not_found", "There is nothing at this address.", 404)
        if request.method != "GET" or "text/html" not in accepts or path.startswith(WITHOUT_FRAME):
            return await render_http_error(request, error)
        visitor = await self._browsers.find_visitor(request)
        return await (self._dashboard.show_missing(request, visitor) if visitor else render_http_error(request, error))


async def render_http_error(request: Request, error: Exception) -> Response:
    status = error.status_code if isinstance(error, HTTPException) else 404
    if status == 404:
        return PlainTextResponse("There is nothing here.\n", status)
    allowed = (error.headers or {}).get("Allow", "") if isinstance(error, HTTPException) else ""
    if allowed:
        return PlainTextResponse(f"Not possible here: this address takes {allowed}.\n", status, {"Allow": allowed})
    return PlainTextResponse("Not possible here.\n", status)


async def render_internal_error(request: Request, error: Exception) -> Response:
    return error_response("internal", "Something went wrong inside; `gatepost logs` has it.", 500)
