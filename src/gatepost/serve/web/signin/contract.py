"""A sign-in method: one file in this folder, with a class that is registered and has routes below `/login`.

Every method ends with `BrowserLogins.sign_in`. The sign-in page shows a button for each method that is on: a link to
`href`, or the button that the module `script` of our static files puts there.
"""

import importlib.util
from collections.abc import Callable
from typing import Any, Protocol, TypeVar

from msgspec import Struct
from starlette.requests import Request
from starlette.routing import Route

from gatepost.channels.local_channel import LocalChannel
from gatepost.core.clock import Clock
from gatepost.core.registry import Registry
from gatepost.core.settings import Config
from gatepost.serve.auth_throttle import AuthThrottle
from gatepost.serve.web.signin.browser_login import BrowserLogins
from gatepost.serve.web.signin.tickets import SignInTickets
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


SIGN_IN_METHODS: Registry[SignInMethod] = Registry("sign-in method")

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
