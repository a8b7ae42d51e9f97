"""An acceptor of connections that takes a few at a time, at a bounded rate. When descriptors run short it waits, and
clients wait in the kernel's queue. An event loop's own server does none of this."""

import asyncio
import socket
from collections.abc import Callable

from gatepost.core import log
from gatepost.core.token_bucket import TokenBucket

MOST_AT_ONCE = 2  # connections in one turn of the loop: between two of them everybody else is served
SHORTAGE_S = 0.25  # between tries while there are no descriptors

_log = log.get("sockets")


class Acceptor:
    """Owns its listener. `admit` looks at a connection before anything is made of it."""

    def __init__(
        self,
        listener: socket.socket,
        factory: Callable[[], asyncio.BaseProtocol],
        *,
        admit: Callable[[socket.socket], bool] = lambda sock: True,
        bucket: TokenBucket | None = None,
    ) -> None:
        self._listener, self._factory, self._admit, self._bucket = listener, factory, admit, bucket
        self._loop = asyncio.get_running_loop()
        self._paused: asyncio.TimerHandle | None = None
        self._connecting: set[asyncio.Task[None]] = set()
        self._short = False  # of descriptors, and it was logged
        self._closed = False
        self._listener.setblocking(False)
        self._loop.add_reader(self._listener, self._accept)

    def close(self) -> None:
        """Accept nobody new. Connections that were accepted stay open."""
        if self._closed:
            return
        self._closed = True
        if self._paused is not None:
            self._paused.cancel()
        else:
            self._loop.remove_reader(self._listener)
        self._listener.close()

    def _accept(self) -> None:
        for _ in range(MOST_AT_ONCE):
            try:
                sock, _ = self._listener.accept()
            except (BlockingIOError, InterruptedError):
                return
            except ConnectionAbortedError:
                continue
            except OSError as error:  # EMFILE, ENFILE, ENOBUFS, ENOMEM: they pass
                if not self._short:
                    self._short = True
                    _log.warning("connections have to wait", error=error.strerror)
                self._pause(SHORTAGE_S)
                return
            self._short = False
            self._begin(sock)
            wait = self._bucket.charge(1, self._loop.time()) if self._bucket is not None else 0.0
            if wait:
                self._pause(wait)
                return

    def _begin(self, sock: socket.socket) -> None:
        sock.setblocking(False)
        if not self._admit(sock):
            sock.close()
            return
        task = self._loop.create_task(self._connect(sock))
        self._connecting.add(task)
        task.add_done_callback(self._connecting.discard)

    async def _connect(self, sock: socket.socket) -> None:
        try:
            await self._loop.connect_accepted_socket(self._factory, sock)
        except OSError as error:
            sock.close()
            _log.warning("a connection was lost at once", error=error.strerror)

    def _pause(self, seconds: float) -> None:
        self._loop.remove_reader(self._listener)
        self._paused = self._loop.call_later(seconds, self._resume)

    def _resume(self) -> None:
        self._paused = None
        self._loop.add_reader(self._listener, self._accept)
