"""A sign-in method: one file in this folder, with a class that is registered and has routes below `/login`.

Every method ends with `BrowserLogins.sign_in`. The sign-in page shows a button for each method that is on: a link to
`href`, or the button that the module `script` of our static files puts there.
"""

import importlib.util
from collections.abc import Callable, Iterator
from typing import Any, Protocol, TypeVar

from msgspec import Struct
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from gatepost.channels.local_channel import LocalChannel
from gatepost.core.clock import Clock
from gatepost.core.registry import Registry
from gatepost.core.settings import Config
from gatepost.serve.auth_throttle import AuthThrottle
from gatepost.serve.health.findings import Finding
from gatepost.serve.web.signin.browser_login import BrowserLogins
from gatepost.serve.web.signin.tickets import SignInTickets
from gatepost.serve.web.trusted_proxies import PROXY_USER_HEADER, TRUSTED_PROXIES
from gatepost.store.port import Store
from gatepost.store.rights.secrets import SecretReader

PREFIX = "/login"


class SignInDeps(Struct, frozen=True, kw_only=True):
    """`throttle`: wrong tries by address, of all methods together."""

    store: Store
    clock: Clock
    config: Config
    channel: LocalChannel
    browsers: BrowserLogins
    throttle: AuthThrottle
    secrets: SecretReader
    tickets: SignInTickets


class SignInHandlers(Protocol):
    def routes(self) -> list[Route]:
        """Their paths are whole ones: `/login/password`."""


class SignInMethod(Struct, frozen=True, kw_only=True):
    """`label`: of its button; '': it has none. `wanted`: whether the settings ask for it. `module`: what must be
    installed, which `extra` of the package brings. `offer`: the label for one browser; None: it has no use there."""

    name: str
    label: str
    make: Callable[[SignInDeps], SignInHandlers]
    wanted: Callable[[Config], bool]
    module: str = ""
    extra: str = ""
    href: str = ""
    script: str = ""
    order: int = 100
    offer: Callable[[Request, Config], str | None] | None = None

    @property
    def is_installed(self) -> bool:
        return not self.module or importlib.util.find_spec(self.module) is not None

    def is_on(self, config: Config) -> bool:
        return self.wanted(config) and self.is_installed


SIGN_IN_METHODS: Registry[SignInMethod] = Registry("sign-in method", "gatepost.serve.web.signin")

W = TypeVar("W", bound=Callable[[SignInDeps], SignInHandlers])


def sign_in_method(
    name: str,
    label: str,
    *,
    wanted: Callable[[Config], bool],
    registry: Registry[SignInMethod] = SIGN_IN_METHODS,
    **more: Any,
) -> Callable[[W], W]:
    """Register the class below. `more`: see SignInMethod."""

    def register(make: W) -> W:
        method = SignInMethod(name=name, label=label, make=make, wanted=wanted, **more)
        registry.add(name, method, origin=make.__module__)
        return make

    return register


def list_methods(config: Config, registry: Registry[SignInMethod] = SIGN_IN_METHODS) -> list[SignInMethod]:
    """Those that are on, in the order of their buttons."""
    found = [each for _, each in registry.items() if each.is_on(config)]
    return sorted(found, key=lambda each: (each.order, each.name))


def list_missing_methods(config: Config, registry: Registry[SignInMethod] = SIGN_IN_METHODS) -> list[SignInMethod]:
    """Those that the settings ask for, and whose extra is not installed."""
    return [each for _, each in registry.items() if each.wanted(config) and not each.is_installed]


def describe_missing(method: SignInMethod) -> str:
    return f"signing in by {method.name} is on, and nobody can: its extra is not installed"


def list_routes(deps: SignInDeps, registry: Registry[SignInMethod] = SIGN_IN_METHODS) -> list[Route]:
    enabled = list_methods(deps.config, registry)

    async def show(request: Request) -> Response:
        labels = [(each, each.offer(request, deps.config) if each.offer else each.label) for each in enabled]
        shown = [
            {"name": each.name, "label": label, "href": each.href, "script": each.script}
            for each, label in labels
            if label
        ]
        return JSONResponse({"ways": shown})

    routes = [Route(f"{PREFIX}/ways", show, methods=["GET"])]
    return [*routes, *(route for each in enabled for route in each.make(deps).routes())]


def check_sign_in(config: Config) -> Iterator[Finding]:
    """Report ways of signing in that are set and do not work, or trust nobody."""
    for method in list_missing_methods(config):
        yield Finding("warn", "sign-in", describe_missing(method), f"pip install 'gatepost[{method.extra}]'")
    if config[PROXY_USER_HEADER] and not config[TRUSTED_PROXIES]:
        text = f"web.proxy_user_header is {config[PROXY_USER_HEADER]}, and no proxy is trusted: the header is ignored"
        yield Finding(
            "warn", "sign-in", text, "set web.trusted_proxies to the address of the proxy, or unset the header"
        )
