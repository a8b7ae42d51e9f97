"""Addresses bound, and the server on them: uvicorn inside our own task, without its signals, logs and clock ticks."""

import asyncio
import contextlib
import errno
import logging
import socket
from collections.abc import Iterator
from typing import Any

import uvicorn
from starlette.types import ASGIApp, Receive, Scope, Send

from gatepost.core.errors import SetupError
from gatepost.core.process.acceptor import Acceptor
from gatepost.core.process.listen_address import ListenAddress
from gatepost.core.process.unix_sockets import BACKLOG, bind_unix, remove_at_exit
from gatepost.core.settings import setting
from gatepost.core.token_bucket import Rate, TokenBucket
from gatepost.serve.connections import PER_PEER, Connections, LimitedProtocol
from gatepost.store.port import FailingSoon

CONNECTIONS = setting(
    "http.connections_per_peer",
    PER_PEER,
    help="How many connections one address may hold to the web page or the control API on TCP; 0 is no limit, for"
    " where a reverse proxy is the only peer.",
)

GRACE_S = 1  # how long open requests may hold up the end
IDLE_S = 75  # how long a connection is kept open between requests
# Connections of strangers. Who comes faster waits in the kernel's queue; a page needs less than a dozen.
ARRIVALS = Rate(per_second=300, burst=100, patience_s=float("inf"))


def bind(listen: ListenAddress) -> socket.socket:
    """A listening socket at that address. `port 0` takes a free one: see `bound`."""
    return bind_unix(listen.path) if listen.kind == "unix" else _bind_tcp(listen)


@contextlib.contextmanager
def open_listener(listen: ListenAddress) -> Iterator[socket.socket]:
    """The same for the length of a block: a socket's file goes with it."""
    with contextlib.ExitStack() as stack:
        sock = stack.enter_context(bind(listen))
        if listen.kind == "unix":
            stack.enter_context(remove_at_exit(listen.path))
        yield sock


def get_bound_address(listen: ListenAddress, sock: socket.socket) -> ListenAddress:
    """The address as it really is: with the port that was taken for 0."""
    if listen.kind == "unix":
        return listen
    return ListenAddress("tcp", listen.host, int(sock.getsockname()[1]))


def _bind_tcp(listen: ListenAddress) -> socket.socket:
    # A name in bytes is taken as it is; for one in letters Python loads the tables of international names.
    host = listen.host.encode() if listen.host.isascii() else listen.host
    try:
        found = socket.getaddrinfo(host, listen.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
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
        sock.bind((str(where[0]).encode(), *where[1:]))
        sock.listen(BACKLOG)
    except OSError as error:
        sock.close()
        if error.errno == errno.EADDRINUSE:
            raise SetupError(
                f"port {listen.port} on {listen.host} is taken; choose another with --listen (0 takes a free one;"
                ' of `make run`: ARGS="--listen 127.0.0.1:0")'
            ) from None
        raise SetupError(f"{listen} cannot be listened on: {error.strerror}; choose another with --listen") from None
    sock.setblocking(False)
    return sock


class _Uvicorn(uvicorn.Server):
    """Waits for an event instead of waking ten times a second, leaves the signals to the daemon, and takes no more
    connections than it may."""

    def __init__(self, config: uvicorn.Config, connections: Connections, arrivals: Rate) -> None:
        super().__init__(config)
        self._arrivals = arrivals
        self.ending = asyncio.Event()
        self.servers = []
        self._connections = connections
        self._acceptors: list[Acceptor] = []

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await self.lifespan.startup()
        self._acceptors = [self._accept(sock) for sock in sockets or []]
        self.started = True

    def _accept(self, sock: socket.socket) -> Acceptor:
        """Strangers connect at a bounded rate. A socket file has its owner alone."""
        is_file = sock.family == socket.AF_UNIX
        bucket = None if is_file else TokenBucket(self._arrivals, asyncio.get_running_loop().time())
        return Acceptor(sock, self._protocol, admit=self._connections.admit, bucket=bucket)

    def _protocol(self) -> LimitedProtocol:
        return LimitedProtocol(
            connections=self._connections,
            config=self.config,
            server_state=self.server_state,
            app_state=self.lifespan.state,
        )

    def stop_accepting(self) -> None:
        for acceptor in self._acceptors:
            acceptor.close()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self.stop_accepting()
        await super().shutdown(sockets)

    async def main_loop(self) -> None:
        await self.ending.wait()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


def _fail_soon(app: ASGIApp) -> ASGIApp:
    """Wrap an application so that its requests fail soon while the store is away, and do not wait for it."""

    async def serve(scope: Scope, receive: Receive, send: Send) -> None:
        with FailingSoon():
            await app(scope, receive, send)

    return serve


class HttpServer:
    """One ASGI application on one bound socket."""

    def __init__(self, app: Any, sock: socket.socket, per_peer: int = PER_PEER, arrivals: Rate = ARRIVALS) -> None:
        self._sock = sock
        spare_cut_answers()
        self.connections = Connections(per_peer=per_peer)
        self._inner = _Uvicorn(
            uvicorn.Config(
                _fail_soon(app),
                ws="none",
                lifespan="off",
                log_config=None,
                access_log=False,
                server_header=False,
                date_header=False,
                proxy_headers=False,
                timeout_graceful_shutdown=GRACE_S,
                timeout_keep_alive=IDLE_S,
            ),
            self.connections,
            arrivals,
        )

    async def run(self) -> None:
        """Serve until `stop` is called or the task is cancelled."""
        try:
            await self._inner.serve(sockets=[self._sock])
        finally:
            self._inner.stop_accepting()
            self._sock.close()

    def stop(self) -> None:
        self._inner.should_exit = True
        self._inner.ending.set()


class AnswerCutShort(Exception):
    """Ends an answer before the bytes that it promised, and its connection, which is all that a client can see.

    The server takes each exception of an answer for a mistake of ours, and logs its traceback. This one is none:
    whoever raises it has logged why.
    """


def is_logged(record: logging.LogRecord) -> bool:
    """The filter of the server's log."""
    error = record.exc_info[1] if record.exc_info else None
    while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]
    return not isinstance(error, AnswerCutShort)


def spare_cut_answers() -> None:
    logging.getLogger("uvicorn.error").addFilter(is_logged)
