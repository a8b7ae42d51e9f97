"""Signing in by name and password. A name that nobody has, one without a password and a wrong password look alike."""

import asyncio

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from gatepost.core.clock import DAY
from gatepost.flow.groups import WEB_PERSON
from gatepost.messages.text import clean
from gatepost.serve.passwords import EXTRA, HASHING, MODULE, PASSWORD_LOGIN, PasswordLimits
from gatepost.serve.web.json_api import error_response, get_text, read_object
from gatepost.serve.web.signin.contract import PREFIX, SignInDeps, sign_in_method
from gatepost.store.people import passwords
from gatepost.store.people.passwords import Password
from gatepost.store.port import Db

NAME = "password"
LARGEST_BODY = 8192  # bytes
LONGEST_NAME = 100  # characters
KNOWN, KNOWN_DAYS = "known", 400  # the cookie of a known browser, and for how long it keeps it
WRONG = "The name or the password is wrong."
TOO_MANY = "Too many passwords were tried. Wait a minute, or type `gatepost login` on the machine of the gateway."


@sign_in_method(
    NAME,
    "Sign in",
    wanted=lambda config: config[PASSWORD_LOGIN],
    module=MODULE,
    extra=EXTRA,
    script="signin_password.js",
    order=10,
)
class PasswordSignIn:
    def __init__(self, deps: SignInDeps) -> None:
        self._deps, self._limits = deps, PasswordLimits()

    def routes(self) -> list[Route]:
        return [Route(f"{PREFIX}/{NAME}", self.sign_in, methods=["POST"])]

    async def sign_in(self, request: Request) -> Response:
        given = await read_object(request, LARGEST_BODY)
        name, password = clean(get_text(given, "name")[:LONGEST_NAME]).strip(), get_text(given, "password")
        user, peer = WEB_PERSON + name.removeprefix(WEB_PERSON), self._deps.browsers.get_peer(request)
        known = await self._find_known(request, user)
        wait = self._limits.admit(peer, user, known)
        if wait is None:
            return error_response("refused", TOO_MANY, 429)
        await asyncio.sleep(wait)
        stored = await self._deps.store.read(passwords.get, user)
        if not await HASHING.verify(stored.hash if stored else None, password) or stored is None:
            return await self._refuse(peer)
        answer = await self._deps.browsers.sign_in(request, NAME, lambda db, now: _find_user(db, stored))
        if answer is None:
            return await self._refuse(peer)
        self._limits.forgive(peer, user, known)
        if not known:
            await self._remember(request, answer, user)
        return answer

    async def _refuse(self, peer: str) -> Response:
        """Refuse a wrong password, after a wait that grows each time."""
        if not await self._deps.throttle.strike(peer):
            return error_response("refused", TOO_MANY, 429)
        return error_response("refused", WRONG, 403)

    async def _find_known(self, request: Request, user: str) -> str:
        """The cookie of a browser in which this person has signed in before; '' if it is another one."""
        token = self._deps.browsers.get_cookie(request, KNOWN)
        if not token or not await self._deps.store.read(passwords.is_known_browser, user, token):
            return ""
        return token

    async def _remember(self, request: Request, answer: Response, user: str) -> None:
        token = await self._deps.store.write(passwords.add_known_browser, user, self._deps.clock.now())
        self._deps.browsers.set_cookie(request, answer, token, KNOWN_DAYS * DAY, KNOWN)


def _find_user(db: Db, checked: Password) -> str | None:
    """Return the person who still has this password. It may have been changed while it was checked."""
    return checked.user_id if passwords.get(db, checked.user_id) == checked else None
