"""Connections of the HTTP servers: what a stranger may take of connections, time and memory, before anybody is known.

A head has so many lines and bytes, and so long to come; a body must keep coming. When there are too many connections,
one is closed for a new one. First comes the oldest that is not being answered, then one whose request is still
arriving. Last comes one whose client does not read its answer, or sends further requests without waiting for it. So
only requests that are being worked on hold a place for good, one each.

Head and body of an answer leave in one write, so that the reader is woken once. uvicorn writes the two apart: on a unix
socket the second wake-up costs as much as all our work for a short answer.
"""

import asyncio
import socket
from collections import Counter
from collections.abc import Iterator
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from gatepost.serve.peers import peer_of

HEAD = b"HTTP/1.1 "
SMALL = 65_536  # bytes; beyond that a copy costs more than it saves
LARGEST_HEAD = 64 * 1024  # bytes
MOST_HEADERS = 100
HEAD_S = 15.0  # from the connection, or a request's first byte, to the end of its head
BODY_S, LEAST_BODY = 20.0, 20_000  # of a body, so many bytes must come in each such while
STALLED_S = 60.0  # for a client that reads nothing of its answer
MOST_CONNECTIONS = 512  # of one server
PER_PEER = 128
MOST_AHEAD = 8  # requests on a connection before the first is answered; no browser sends two

_TOO_LARGE = f"The head of a request may have at most {MOST_HEADERS} lines and {LARGEST_HEAD} bytes."
_TOO_SLOW = "The request did not come in time."


class Connections:
    """Those of one server, the oldest first."""

    def __init__(self, per_peer: int = PER_PEER) -> None:
        """`per_peer`: 0 for no limit."""
        self._per_peer = per_peer
        self._open: dict[LimitedProtocol, str] = {}
        self._of_peer: Counter[str] = Counter()

    def __len__(self) -> int:
        return len(self._open)

    def __iter__(self) -> Iterator["LimitedProtocol"]:
        return iter(self._open)

    def admit(self, sock: socket.socket) -> bool:
        """Is there a place for a new connection, or can one be made?"""
        peer = _peer(sock)
        if peer:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if 0 < self._per_peer <= self._of_peer[peer] and not self._make_way(peer):
                return False
        return len(self._open) < MOST_CONNECTIONS or self._make_way()

    def _make_way(self, peer: str = "") -> bool:
        some = [each for each, whose in self._open.items() if not peer or whose == peer]
        found = next((each for each in some if each.is_waiting), None)
        # A stranger's body is small or refused, so who has sent the least of one is rather a stranger than an upload.
        found = found or min((each for each in some if each.is_arriving), key=lambda each: each.body, default=None)
        found = found or next((each for each in some if each.is_stalled or each.is_hasty), None)
        if found is None:
            return False
        self.remove(found)
        found.abort()
        return True

    def add(self, connection: "LimitedProtocol", sock: socket.socket | None) -> None:
        peer = self._open[connection] = _peer(sock) if sock is not None else ""
        self._of_peer[peer] += 1

    def remove(self, connection: "LimitedProtocol") -> None:
        peer = self._open.pop(connection, None)
        if peer is not None:
            self._of_peer[peer] -= 1
            if not self._of_peer[peer]:
                del self._of_peer[peer]


def _peer(sock: socket.socket) -> str:
    """'' on a socket file, whose owner is the only one."""
    if sock.family not in (socket.AF_INET, socket.AF_INET6):
        return ""
    try:
        return peer_of(str(sock.getpeername()[0]))
    except OSError:
        return "gone"


class _HeadTooLarge(Exception):
    """Ends the parser."""


class _TooManyAhead(Exception):
    """Ends the parser."""


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


class LimitedProtocol(CoalescingProtocol):
    """One connection."""

    def __init__(self, *, connections: Connections, **given: Any) -> None:
        super().__init__(**given)
        self._limits = connections
        self._raw: asyncio.Transport | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._stalled: asyncio.TimerHandle | None = None
        self._in_head = self._begun = False  # a head is not complete; it began with the bytes at hand
        self._head = self._lines = 0  # of the head: bytes, headers
        self._message = self._body = self._body_seen = 0  # bytes that came since the head, and those of the body
        self._too_large = False
        self.received = 0  # bytes

    @property
    def is_waiting(self) -> bool:
        """Nothing is being answered."""
        return self.cycle is None or self.cycle.response_complete

    @property
    def is_arriving(self) -> bool:
        """The request is not all there, and nothing of its answer was said."""
        return self.cycle is not None and self.cycle.more_body and not self.cycle.response_started

    @property
    def is_stalled(self) -> bool:
        """The client does not read its answer."""
        return self._stalled is not None

    @property
    def is_hasty(self) -> bool:
        """The client has sent further requests and waits for no answer."""
        return bool(self.pipeline)

    @property
    def body(self) -> int:
        """Bytes of the request's body that came so far."""
        return self._body

    def abort(self) -> None:
        if self._raw is not None:
            self._raw.abort()

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn has it
        super().connection_made(transport)
        self._raw = transport
        self._limits.add(self, transport.get_extra_info("socket"))
        self._wait(HEAD_S)

    def connection_lost(self, exc: Exception | None) -> None:
        self._wait(None)
        self._flows()
        self._limits.remove(self)
        self._raw = None
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self.transport.is_closing():
            return
        self.received += len(data)
        self._begun, in_body = False, not self._in_head
        super().data_received(data)
        if self._in_head:
            self._head += 0 if self._begun else len(data)
            if self._head > LARGEST_HEAD and not self.transport.is_closing():
                self._refuse()
        elif in_body and not self._begun:
            self._message += len(data)
            if self._message - self._body > LARGEST_HEAD + 16 * self._body:  # chunks' sizes and trailers
                self.abort()

    def _refuse(self) -> None:
        self._too_large = True
        self.send_400_response(_TOO_LARGE)

    def send_400_response(self, msg: str) -> None:
        """uvicorn has no other way to refuse a request that it did not read."""
        if not self.is_waiting:
            self.transport.close()
            return
        if self._too_large:
            self._send_error(b"431 Request Header Fields Too Large", _TOO_LARGE)
        else:
            self._send_error(b"400 Bad Request", msg)

    def _send_error(self, status: bytes, text: str) -> None:
        body = text.encode()
        head = b"content-type: text/plain; charset=utf-8\r\ncontent-length: %d\r\nconnection: close\r\n\r\n" % len(body)
        self.transport.write(b"HTTP/1.1 " + status + b"\r\n" + head + body)
        self.transport.close()
        self._wait(HEAD_S)  # if it does not read its answer either

    # The parser's callbacks. What is raised here ends it.

    def on_message_begin(self) -> None:
        if len(self.pipeline) >= MOST_AHEAD:
            self.pipeline.clear()  # none of it is begun
            raise _TooManyAhead
        super().on_message_begin()
        self._in_head = self._begun = True
        self._head = self._lines = 0
        self._wait(HEAD_S)

    def on_url(self, url: bytes) -> None:
        self._count(len(url))
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        self._lines += 1
        self._count(len(name) + len(value))
        if self._in_head:  # trailers are nobody's business
            super().on_header(name, value)

    def _count(self, size: int) -> None:
        self._head += size
        if self._head > LARGEST_HEAD or self._lines > MOST_HEADERS:
            self._too_large = True
            raise _HeadTooLarge

    def on_headers_complete(self) -> None:
        self._in_head = False
        self._message = self._body = self._body_seen = 0
        self._wait(BODY_S)
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        self._body += len(body)
        super().on_body(body)

    def on_message_complete(self) -> None:
        self._wait(None)
        super().on_message_complete()

    # Time.

    def pause_writing(self) -> None:
        """It does not read its answer: for a while that is the network, then it is not."""
        super().pause_writing()
        self._stalled = self.loop.call_later(STALLED_S, self.abort)

    def resume_writing(self) -> None:
        super().resume_writing()
        self._flows()

    def _flows(self) -> None:
        if self._stalled is not None:
            self._stalled.cancel()
            self._stalled = None

    def _wait(self, seconds: float | None) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self.loop.call_later(seconds, self.late) if seconds is not None else None

    def late(self) -> None:
        self._timer = None
        if self._raw is None:
            return
        if self.transport.is_closing():
            self.abort()
        elif self._in_head or self.cycle is None:
            self._send_error(b"408 Request Timeout", _TOO_SLOW) if self.is_waiting and self._in_head else self.abort()
        elif self.flow.read_paused or self.cycle.waiting_for_100_continue or self._body - self._body_seen >= LEAST_BODY:
            self._body_seen = self._body
            self._wait(BODY_S)
        else:
            self.abort()
