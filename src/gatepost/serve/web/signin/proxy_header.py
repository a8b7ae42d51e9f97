"""Signing in by what a trusted reverse proxy says. It names an identity `proxy:NAME` that is known here, and no more:
nobody gets an account, a role or a right by it. The login holds as long as the proxy says the same."""

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from gatepost.core.settings import Config
from gatepost.flow.web.page_logins import get_page_identity
from gatepost.serve.web.json_api import error_response
from gatepost.serve.web.signin.browser_login import PROXY_WAY
from gatepost.serve.web.signin.contract import PREFIX, SignInDeps, sign_in_method
from gatepost.serve.web.trusted_proxies import check_proxy_settings, find_proxy_user, get_proxy_identity, names_users
from gatepost.store.people import identities, users
from gatepost.store.port import Db

UNKNOWN = "{name} is known to the proxy and not here; `gatepost user add {identity}` makes them known."
NOBODY = "The proxy before this page names nobody, or is not trusted (web.trusted_proxies)."


def make_label(request: Request, config: Config) -> str | None:
    name = find_proxy_user(request, config)
    return f"Continue as {name}" if name else None


@sign_in_method(PROXY_WAY, "Continue", wanted=names_users, offer=make_label, script="signin_proxy_header.js", order=5)
class ProxyHeaderSignIn:
    def __init__(self, deps: SignInDeps) -> None:
        check_proxy_settings(deps.config)
        self._deps = deps

    def routes(self) -> list[Route]:
        return [Route(f"{PREFIX}/{PROXY_WAY}", self.sign_in, methods=["POST"])]

    async def sign_in(self, request: Request) -> Response:
        name = find_proxy_user(request, self._deps.config)
        if not name:
            return error_response("refused", NOBODY, 403)
        answer = await self._deps.browsers.sign_in(request, PROXY_WAY, lambda db, now: _find_user(db, name, now))
        return answer or error_response("refused", UNKNOWN.format(name=name, identity=get_proxy_identity(name)), 403)


def _find_user(db: Db, name: str, now: int) -> str | None:
    """The identity on the page of the person who has this one. None: nobody has."""
    identity = get_proxy_identity(name)
    if users.get(db, identity) is None and identities.get(db, identity) is None:
        return None
    return get_page_identity(db, identity, now)
