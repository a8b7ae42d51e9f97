"""Pages that only signed-in browsers get."""

from pathlib import Path

from starlette.requests import Request
from starlette.responses import FileResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from gatepost.serve.rate_limit import PeerRateLimiter
from gatepost.serve.web.csrf import is_write_proven, render_refusal
from gatepost.serve.web.error_response import error_response
from gatepost.serve.web.signin.browser_login import BrowserLogins

SIGN_IN_PAGE = Path(__file__).parents[1] / "static" / "login.html"


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
                await FileResponse(SIGN_IN_PAGE, 401)(scope, receive, send)
                return
            text = "You are not signed in. `gatepost login` prints an address that does it."
            answer = error_response("signed_out", text, 401)
            answer.headers["hx-refresh"] = "true"  # the page's own address then shows the sign-in page
            await answer(scope, receive, send)
            return
        request.state.visitor, request.state.user = visitor, visitor.user
        request.state.browser = self._browsers.get_token(request)
        if not is_write_proven(request, request.state.browser):
            await render_refusal()(scope, receive, send)
            return
        await self._app(scope, receive, send)
