"""Sockets and the server on them: uvicorn inside our own task, without its signals, its logs and its clock ticks.

A Unix socket belongs to its owner from the first moment, and a file at its path is removed only if it is a socket on
which nobody answers.
"""

import asyncio
import contextlib
import errno
import os
import socket
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import uvicorn

from gatepost.core.errors import SetupError
from gatepost.core.home import LONGEST_SOCKET_PATH
from gatepost.core.listen import Listen

GRACE_S = 1  # how long open requests may hold up the end
IDLE_S = 75  # how long a connection is kept open between requests
BACKLOG = 512
OWNER_ONLY = 0o600


def bind(listen: Listen) -> socket.socket:
    """A listening socket at that address. `port 0` takes a free one: ask the socket for it."""
    return _bind_unix(listen.path) if listen.kind == "unix" else _bind_tcp(listen)


def bound(listen: Listen, sock: socket.socket) -> Listen:
    """The address as it really is: with the port that was taken for 0."""
    if listen.kind == "unix":
        return listen
    return Listen("tcp", listen.host, int(sock.getsockname()[1]))


def _bind_tcp(listen: Listen) -> socket.socket:
    try:
        found = socket.getaddrinfo(listen.host, listen.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except OSError as error:
        raise SetupError(
            f"{listen}: the host is not known here ({error.strerror}); choose another with --listen"
        ) from None
    family, _, _, _, where = found[0]
    sock = socket.socket(family, socket.SOCK_STREAM)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        sock.bind(where)
        sock.listen(BACKLOG)
    except OSError as error:
        sock.close()
        if error.errno == errno.EADDRINUSE:
            raise SetupError(
                f"port {listen.port} on {listen.host} is taken; choose another with --listen (0 takes a free one)"
            ) from None
        raise SetupError(f"{listen} cannot be listened on: {error.strerror}; choose another with --listen") from None
    sock.setblocking(False)
    return sock


def _bind_unix(path: Path) -> socket.socket:
    size = len(os.fsencode(path))
    if size > LONGEST_SOCKET_PATH:
        raise SetupError(
            f"the socket path {path} has {size} bytes, and a socket path has at most {LONGEST_SOCKET_PATH};"
            " choose a shorter one (for the control socket: a shorter --home, or GATEPOST_CONTROL_SOCK)"
        )
    _make_way(path)
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        with _owner_only(sock):
            sock.bind(str(path))
        path.chmod(OWNER_ONLY)
        sock.listen(BACKLOG)
    except OSError as error:
        sock.close()
        raise SetupError(f"the socket {path} cannot be made: {error.strerror}") from None
    sock.setblocking(False)
    return sock


def _make_way(path: Path) -> None:
    """Remove a dead socket; refuse anything else that lies there."""
    try:
        found = path.lstat()
    except FileNotFoundError:
        return
    except OSError as error:
        raise SetupError(f"the socket {path} cannot be made: {error.strerror}") from None
    if not stat.S_ISSOCK(found.st_mode):
        raise SetupError(f"{path} is not a socket and is left as it is; move it away or choose another path")
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.settimeout(1)
        try:
            probe.connect(str(path))
        except (ConnectionRefusedError, FileNotFoundError):
            path.unlink(missing_ok=True)
            return
        except OSError as error:
            raise SetupError(f"{path} is a socket that cannot be asked who serves it: {error.strerror}") from None
    raise SetupError(f"somebody already serves on {path}; stop it, or choose another path")


@contextlib.contextmanager
def _owner_only(sock: socket.socket) -> Iterator[None]:
    """Linux takes the file's mode from the socket; elsewhere only the umask decides it at the moment of binding."""
    try:
        os.fchmod(sock.fileno(), OWNER_ONLY)
    except OSError:
        before = os.umask(0o177)
        try:
            yield
        finally:
            os.umask(before)
    else:
        yield


class _Uvicorn(uvicorn.Server):
    """Waits for an event instead of waking ten times a second, and leaves the signals to the daemon."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.ending = asyncio.Event()

    async def main_loop(self) -> None:
        await self.ending.wait()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


class Server:
    """One ASGI application on one bound socket. The socket's file goes when the server does."""

    def __init__(self, app: Any, sock: socket.socket) -> None:
        self._sock = sock
        self._file = Path(sock.getsockname()) if sock.family == socket.AF_UNIX else None
        self._identity = self._file.lstat() if self._file else None
        self._inner = _Uvicorn(
            uvicorn.Config(
                app,
                http="httptools",
                ws="none",
                lifespan="off",
                log_config=None,
                access_log=False,
                server_header=False,
                date_header=False,
                proxy_headers=False,
                timeout_graceful_shutdown=GRACE_S,
                timeout_keep_alive=IDLE_S,
            )
        )

    async def run(self) -> None:
        """Serve until `stop` is called or the task is cancelled."""
        try:
            await self._inner.serve(sockets=[self._sock])
        finally:
            self._sock.close()
            self._remove_file()

    def stop(self) -> None:
        self._inner.should_exit = True
        self._inner.ending.set()

    def _remove_file(self) -> None:
        """Ours only: another daemon may have put its own there since."""
        if self._file is None or self._identity is None:
            return
        with contextlib.suppress(OSError):
            found = self._file.lstat()
            if (found.st_dev, found.st_ino) == (self._identity.st_dev, self._identity.st_ino):
                self._file.unlink()
