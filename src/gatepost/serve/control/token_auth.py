"""The control API's second door, for those who cannot reach its socket: TCP, off unless asked for.

A request must show the token and have a Host of ours. The page of another site can make a browser send requests here,
but cannot choose their Host.
"""

import hmac
import json
import os
import secrets
from pathlib import Path

from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from gatepost.core.errors import SetupError
from gatepost.core.home import Home, expand_user
from gatepost.core.process.listen_address import ListenAddress, parse
from gatepost.core.settings import Config, setting, start_check
from gatepost.core.terminal_text import make_visible
from gatepost.serve.auth_throttle import AuthThrottle
from gatepost.serve.control.answers import ApiErrorKind
from gatepost.serve.web.browser_security import host_allowed, host_of

LISTEN = setting(
    "control.listen",
    "",
    help="A TCP address (host:port) for the control API and MCP, which then ask for a token; empty: only the socket.",
)
TOKEN_FILE = setting(
    "control.token_file",
    "",
    help="The file with the token for control.listen; empty: control.token in the home. Made at the first start.",
)
LARGEST_BODY = setting(
    "control.largest_body", 10 * 1024 * 1024, help="Bytes that one message to MCP over HTTP may have."
)
HOSTS = setting("control.hosts", (), help="Further host names under which control.listen may be asked for.")

SHORTEST = 16  # signs of a token
LONGEST_NAME = 200  # characters of somebody's name that are said back
_KINDS = {400: ApiErrorKind.INVALID, 403: ApiErrorKind.REFUSED, 429: ApiErrorKind.UNAVAILABLE}
OPEN = ("/v1/health", "/mcp/self")  # says nothing that a stranger could use; asks for a token of its own


@start_check
def check_listen(home: Home, config: Config) -> None:
    find_listen_address(config)


def find_listen_address(config: Config) -> ListenAddress | None:
    """None: the control API is on its socket alone."""
    if not config[LISTEN]:
        return None
    wished = parse(config[LISTEN], LISTEN.name)
    if not wished.host:  # a socket file
        raise SetupError("control.listen is for TCP (host:port); where the socket lies, control_socket says")
    return wished


def token_path(home: Home, config: Config) -> Path:
    return expand_user(config[TOKEN_FILE]) if config[TOKEN_FILE] else home.path / "control.token"


def load_token(home: Home, config: Config) -> str:
    """The token, made if there is none yet."""
    path = token_path(home, config)
    try:
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    except FileExistsError:
        pass
    except OSError as error:
        raise SetupError(f"control.token_file: {path} cannot be made: {error.strerror}") from None
    else:
        with os.fdopen(handle, "w") as file:
            file.write(secrets.token_urlsafe(32) + "\n")
    try:
        token, mode = path.read_text(encoding="ascii").strip(), path.stat().st_mode
    except (OSError, ValueError) as error:
        raise SetupError(f"control.token_file: {path} cannot be read: {error}") from None
    if mode & 0o077:
        raise SetupError(f"control.token_file: others can read {path}; `chmod 600` it, or remove it for a new one")
    if len(token) < SHORTEST:
        raise SetupError(f"control.token_file: what is in {path} is too short for a token; remove it for a new one")
    return token


class TokenAuthMiddleware:
    """Stands before the API on TCP. `listens` is the host that it listens on."""

    def __init__(self, app: ASGIApp, token: str, listens: str, further: tuple[str, ...], strikes: AuthThrottle) -> None:
        self._app, self._token, self._listens, self._further = app, f"Bearer {token}".encode(), listens, further
        self._strikes = strikes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        headers = Headers(scope=scope)
        hosts = headers.getlist("host")
        host = hosts[0] if hosts else ""
        foreign = next((each for each in headers.getlist("origin") if not self._is_ours(_strip_scheme(each))), None)
        if len(hosts) > 1:  # whoever reads another one than we do would be let in by the wrong name
            await _error_response(400, "there is more than one Host header; send one")(scope, receive, send)
        elif not self._is_ours(host):
            await _error_response(403, _render_unknown("name", host))(scope, receive, send)
        elif foreign is not None:
            await _error_response(403, _render_unknown("origin", foreign))(scope, receive, send)
        elif scope["path"] in OPEN:
            await self._app(scope, receive, self._counted(scope, send) if "authorization" in headers else send)
        elif not self._is_valid_token(headers.get("authorization", "")):
            await (await self._refusal(scope, shown="authorization" in headers))(scope, receive, send)
        else:
            self._strikes.reset(_peer(scope))
            await self._app(scope, receive, send)

    async def _refusal(self, scope: Scope, *, shown: bool) -> Response:
        """Answer a request without the right token. A missing one is no strike; a wrong one may be a guess. The path of
        the token file is told to neither."""
        if shown and not await self._strikes.strike(_peer(scope)):
            return _error_response(429, "too many wrong tokens came from this address; wait a while")
        answer = _error_response(
            401, "the token is missing or wrong; it is in the file that the setting control.token_file names"
        )
        answer.headers["www-authenticate"] = "Bearer"
        return answer

    def _counted(self, scope: Scope, send: Send) -> Send:
        """Count a 401 of an application behind us as a strike: it asks for a token of its own."""

        async def counted(message: Message) -> None:
            if message["type"] == "http.response.start" and message["status"] == 401:
                await self._strikes.strike(_peer(scope))
            await send(message)

        return counted

    def _is_valid_token(self, shown: str) -> bool:
        return hmac.compare_digest(_bytes(shown), self._token)

    def _is_ours(self, host: str) -> bool:
        return host_allowed(host, self._listens, self._further) or host_of(host).endswith(".localhost")


def _peer(scope: Scope) -> str:
    return str((scope.get("client") or ("",))[0])


def _render_unknown(what: str, given: str) -> str:
    named = make_visible(given)[:LONGEST_NAME]
    return f"the {what} {named!r} is not known here; add its host to the setting control.hosts if it is yours"


def _strip_scheme(origin: str) -> str:
    return origin.partition("://")[2]


def _bytes(text: str) -> bytes:
    return text.encode("latin-1", "replace")


def _error_response(status: int, text: str) -> Response:
    """Both the API's clients and MCP's find the reason in it."""
    kind = _KINDS.get(status, ApiErrorKind.UNAUTHORIZED)
    body = {
        "jsonrpc": "2.0",
        "id": None,
        "ok": False,
        "error": {"code": -32600, "message": text, "kind": kind, "text": text},
    }
    return Response(json.dumps(body), status, media_type="application/json")
