"""The head of an answer waits for what is said in the same breath: one write, and whoever reads is woken once.

uvicorn writes the two apart, and on a unix socket the second waking costs as much as all that we do for a short answer.
"""

import asyncio

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

HEAD = b"HTTP/1.1 "
SMALL = 65_536  # bytes; beyond that a copy costs more than it saves


class CoalescingTransport(asyncio.Transport):
    """The part of a transport that uvicorn uses. Held back is never more than one head, and never beyond this turn of
    the loop; what is no head but looks like one comes in its order all the same."""

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
