"""The control API's client, on the standard library alone: a command must start fast."""

import http.client
import json
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from gatepost.core.errors import GatepostError, Unavailable

TIMEOUT_S = 75.0  # longer than the longest wait of the API
LARGEST_ANSWER = 512 * 1024 * 1024  # bytes
STRANGE = "what answers on its socket does not speak its language"
_PIECE = 1024 * 1024  # bytes that are read at once


class ControlError(GatepostError):
    """The gateway said no, in its own words. `kind`: an ApiErrorKind, or a word of another version."""

    def __init__(self, kind: str, text: str) -> None:
        super().__init__(text)
        self.kind = kind


class NotRunning(Unavailable):
    """Nobody listens there at all."""

    def __init__(self, where: Path) -> None:
        super().__init__("the gateway", "it is not running")
        self.args = (
            f"no gateway runs in {where}; `gatepost up` starts one, `--home` or GATEPOST_HOME chooses another home",
        )


class _UnixConnection(http.client.HTTPConnection):
    def __init__(self, path: Path, timeout: float) -> None:
        super().__init__("localhost", timeout=timeout)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(str(self._path))


class ControlClient:
    """One gateway, by its control socket. Every call is a connection of its own."""

    def __init__(self, path: Path, home: Path | None = None) -> None:
        """`home` is what people are told if nobody is there."""
        self.path, self._home = path, home or path.parent

    def get(self, path: str, timeout: float = TIMEOUT_S) -> dict[str, Any]:
        return self._call("GET", path, None, timeout)

    def post(self, path: str, body: dict[str, Any] | None = None, timeout: float = TIMEOUT_S) -> dict[str, Any]:
        """The answer's whole object; NotDone if the gateway refuses, Unavailable if nobody answers."""
        return self._call("POST", path, body or {}, timeout)

    def stream(self, path: str) -> Iterator[dict[str, Any]]:
        """The objects of a stream, until the gateway ends it."""
        connection, response = self._ask("GET", path, None, TIMEOUT_S)
        try:
            if response.status != 200:
                _parse_response(_read_all(response, TIMEOUT_S))
            while line := response.readline():
                yield _parse_object(line)
        except (OSError, http.client.HTTPException):
            raise Unavailable("the gateway", "it went away") from None
        finally:
            connection.close()

    def _call(self, method: str, path: str, body: dict[str, Any] | None, timeout: float) -> dict[str, Any]:
        connection, response = self._ask(method, path, body, timeout)
        try:
            raw = _read_all(response, timeout)
        except (OSError, http.client.HTTPException):
            raise Unavailable("the gateway", "it went away before it answered", uncertain=True) from None
        finally:
            connection.close()
        return _parse_response(raw)

    def _ask(
        self, method: str, path: str, body: dict[str, Any] | None, timeout: float
    ) -> tuple[http.client.HTTPConnection, http.client.HTTPResponse]:
        connection = _UnixConnection(self.path, timeout)
        try:
            connection.connect()
        except OSError as error:
            connection.close()
            if isinstance(error, (FileNotFoundError, ConnectionRefusedError)):
                raise NotRunning(self._home) from None
            raise Unavailable("the gateway", _explain_error(error, self.path)) from None
        try:
            headers = {"content-type": "application/json"} if body is not None else {}
            connection.request(method, path, None if body is None else json.dumps(body).encode(), headers)
            return connection, connection.getresponse()
        except (OSError, http.client.HTTPException):
            connection.close()
            raise Unavailable("the gateway", "it went away before it answered", uncertain=True) from None


def _explain_error(error: OSError, path: Path) -> str:
    if isinstance(error, PermissionError):
        return f"{path} belongs to another user"
    return f"{path}: {error}"


def get_result(answer: dict[str, Any]) -> Any:
    """Return the result in an answer. Raises Unavailable for one without."""
    if "result" not in answer:
        raise _make_strange()
    return answer["result"]


def _read_all(response: http.client.HTTPResponse, timeout: float) -> bytes:
    """Read an answer to its end. A socket's timeout begins anew with each byte; this one holds for all of them."""
    until, raw = time.monotonic() + timeout, bytearray()
    while piece := response.read1(_PIECE):
        raw += piece
        if len(raw) > LARGEST_ANSWER or time.monotonic() > until:
            raise Unavailable("the gateway", "its answer does not end", uncertain=True, lasting=True)
    if response.length:
        raise http.client.IncompleteRead(bytes(raw), response.length)
    return bytes(raw)


def _parse_response(raw: bytes) -> dict[str, Any]:
    answer = _parse_object(raw)
    if answer.get("ok") is False:
        found = answer.get("error")
        error = found if isinstance(found, dict) else {}
        raise ControlError(str(error.get("kind", "error")), str(error.get("text", "the gateway refused")))
    return answer


def _parse_object(raw: bytes) -> dict[str, Any]:
    try:
        found = json.loads(raw)
    except (ValueError, RecursionError):
        raise _make_strange() from None
    if not isinstance(found, dict):
        raise _make_strange()
    return found


def _make_strange() -> Unavailable:
    """Return the error of an answer that cannot be read. Its giver had the whole request, and may have acted."""
    return Unavailable("the gateway", STRANGE, uncertain=True)
