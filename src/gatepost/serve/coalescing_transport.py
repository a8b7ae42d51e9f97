"""Head and body of an answer in one write, so that the reader is woken once.

uvicorn writes the two apart. On a unix socket the second wake-up costs as much as all our work for a short answer.
"""

import asyncio

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

HEAD = b"HTTP/1.1 "
SMALL = 65_536  # bytes; beyond that a copy costs more than it saves


class CoalescingTransport(asyncio.Transport):
    """The part of a transport that uvicorn uses.

    At most one head is held back, and never beyond this turn of the loop. Data that only looks like a head keeps its
    order all the same.
    """

    def __init__(self, inner: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__()
        self._inner, self._loop = inner, loop
        self._held: bytes | bytearray | memoryview = b""

    def write(self, data: bytes | bytearray | memoryview) -> None:
        if self._held and len(data) < SMALL:
            data, self._held = bytes(self._held) + bytes(data), b""
        elif self._held:
            self._flush()
        elif data[: len(HEAD)] == HEAD:
            self._held = data
            self._loop.call_soon(self._flush)
            return
        self._inner.write(data)

    def _flush(self) -> None:
        held, self._held = self._held, b""
        if held and not self._inner.is_closing():
            self._inner.write(held)

    def close(self) -> None:
        self._flush()
        self._inner.close()

    def is_closing(self) -> bool:
        return self._inner.is_closing()


class CoalescingProtocol(HttpToolsProtocol):
    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn has it
        super().connection_made(transport)
        self.transport = CoalescingTransport(transport, self.loop)
        if self.server is not None and self.server[1] is None:
            self.server = None  # a socket's path: whoever gives no Host would be told it in addresses and redirects
