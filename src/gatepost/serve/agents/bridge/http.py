"""HTTP/1.1 to the gateway: connections that are kept, requests, and responses that are read in pieces."""

from __future__ import annotations

import _socket as socket  # the other one makes enumerations at every start, longer than a call takes
import errno
import os
import select

from gatepost.jsonrpc.errors import INTERNAL_ERROR, JsonRpcFailure
from gatepost.serve.agents.bridge.client import read_buffer
from gatepost.serve.agents.bridge.loop import PollWait, now

CRLF = b"\r\n"
CONNECT_S = 5.0
IDLE_S = 2.0  # a kept connection is used again within this time; servers hang up after five seconds
TAIL_S = 1.0  # a stream ends this soon after its answer, or is left
HUNG_UP = "the gateway hung up before its answer was complete; whether the call ran is not known"
USAGE = "usage: gatepost bridge --url unix:PATH:/mcp/agents | http://HOST:PORT/mcp/agents [--token-file FILE]"


class BridgeFailure(JsonRpcFailure):
    """This message got no answer; the text says why."""

    def __init__(self, text: str, code: int = INTERNAL_ERROR) -> None:
        super().__init__(code, text)


class GatewayHungUp(BridgeFailure):
    """The gateway hung up in the middle."""

    def __init__(self) -> None:
        super().__init__(HUNG_UP)


class GatewayUnreachable(BridgeFailure):
    """Nobody listens: nothing was sent."""


class BridgeConnection:
    def __init__(self, sock: socket.socket) -> None:
        self.sock, self.fd = sock, sock.fileno()
        self.buffer = bytearray()
        self.until = 0.0  # when waiting ends; 0: never, a call may take hours
        self.used, self.left_at = False, 0.0
        self.whole = True  # the gateway accepted all of every request

    @property
    def usable(self) -> bool:
        """It was left a short while ago, and the gateway has not hung up since."""
        try:
            self.sock.recv(1, socket.MSG_PEEK)
        except BlockingIOError:
            return now() - self.left_at <= IDLE_S
        except OSError:
            pass
        return False

    async def send(self, data: bytes) -> bool:
        """False: the gateway did not accept all. It may have answered nevertheless."""
        rest = memoryview(data)
        while rest:
            try:
                rest = rest[self.sock.send(rest) :]
            except BlockingIOError:
                events = await self._wait(select.POLLOUT | select.POLLIN)
                self.whole = bool(events & select.POLLOUT) or not events & select.POLLIN
            except OSError:
                self.whole = False
            if not self.whole:
                break
        return self.whole

    async def receive(self) -> bool:
        """False: the gateway has ended its side."""
        await self._wait(select.POLLIN)
        try:
            size = self.sock.recv_into(read_buffer)
        except OSError:
            return False
        self.buffer += read_buffer[:size]
        return size > 0

    async def read_until(self, mark: bytes) -> bytes:
        """Return what comes before the mark, which is dropped."""
        start = 0
        while (end := self.buffer.find(mark, start)) < 0:
            start = max(0, len(self.buffer) - len(mark))
            if not await self.receive():
                raise GatewayHungUp
        data = self.read(end + len(mark))
        return data[:end]

    def read(self, size: int) -> bytes:
        """At most so many of the bytes that have arrived."""
        data = bytes(self.buffer[:size])
        del self.buffer[:size]
        return data

    async def _wait(self, events: int) -> int:
        seen = await PollWait(self.fd, events, self.until)
        if not seen:
            raise BridgeFailure("the gateway did not answer in time")
        return seen


class BridgeResponse:
    """A response of which the head has arrived. The body comes in pieces, as the reader asks for them."""

    def __init__(
        self, client: BridgeHttpClient, connection: BridgeConnection, status: int, headers: dict[str, str]
    ) -> None:
        self.status, self.headers = status, headers
        self.media_type = headers.get("content-type", "").partition(";")[0].strip().lower()
        self._client, self.connection = client, connection
        self._chunked = "chunked" in headers.get("transfer-encoding", "").lower()
        length = headers.get("content-length", "")
        empty = status in (204, 304)
        self._sized = self._chunked or empty or length.isdigit()
        self._left = 0 if empty or self._chunked or not length.isdigit() else int(length)
        self._done = empty or (not self._chunked and self._sized and not self._left)
        self._body: bytes | None = None
        self._released = False

    @property
    def streams(self) -> bool:
        return self.status == 200 and self.media_type == "text/event-stream"

    async def read(self) -> bytes:
        """The next piece; nothing when the body is complete. BridgeFailure if it was cut."""
        connection = self.connection
        if self._chunked and not self._left and not self._done:
            await self._read_chunk_size()
        if self._done:
            return b""
        if not connection.buffer and not await connection.receive():
            if self._sized:
                self._client.losses += 1
                raise GatewayHungUp
            self._done = True
            return b""
        piece = connection.read(self._left if self._sized else len(connection.buffer))
        if self._sized:
            self._left -= len(piece)
            if not self._left and self._chunked:
                await connection.read_until(CRLF)
            self._done = not self._left and not self._chunked
        return piece

    async def _read_chunk_size(self) -> None:
        size = (await self.connection.read_until(CRLF)).partition(b";")[0]
        try:
            self._left = int(size, 16)
        except ValueError:
            raise BridgeFailure("the gateway's answer is not HTTP") from None
        if not self._left:
            while await self.connection.read_until(CRLF):
                pass  # trailers
            self._done = True

    async def read_all(self) -> bytes:
        if self._body is None:
            pieces = []
            while piece := await self.read():
                pieces.append(piece)
            self._body = b"".join(pieces)
        return self._body

    async def finish(self) -> None:
        """Read to the end, so that the connection can be kept; not for long."""
        self.connection.until = now() + TAIL_S
        try:
            while await self.read():
                pass
        except BridgeFailure:
            return

    def release(self) -> None:
        """Keep the connection, if it can be used again. A second time does nothing."""
        if self._released:
            return
        self._released = True
        closing = "close" in self.headers.get("connection", "").lower() or not self._sized
        if self._done and not closing and self.connection.whole and not self.connection.buffer:
            self._client.keep(self.connection)
        else:
            self.connection.sock.close()


class BridgeHttpClient:
    """The gateway's address, and the connections to it that are kept."""

    def __init__(self, url: str, token: str = "") -> None:
        self.url = url
        self._address, self._host, self._path = parse_url(url)
        self._always = f"Host: {self._host}\r\nAccept: application/json, text/event-stream\r\n"
        self._always += f"Authorization: Bearer {token}\r\n" if token else ""
        self._idle: list[BridgeConnection] = []
        self.losses = 0  # how often the gateway was seen to leave

    async def request(self, method: str, headers: str, body: bytes = b"", until: float = 0.0) -> BridgeResponse:
        """BridgeFailure if nobody answers. Sent again only where the gateway cannot have seen all of it."""
        sized = f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n" if method == "POST" else ""
        data = f"{method} {self._path} HTTP/1.1\r\n{self._always}{sized}{headers}\r\n".encode("latin-1") + body
        while True:
            connection = self._reuse() or await self._connect()
            try:
                connection.until = until
                sent = await connection.send(data)
                if sent or not connection.used or connection.buffer or await connection.receive():
                    return await self._read_head(connection)
                connection.sock.close()
            except BaseException as error:
                self.losses += isinstance(error, GatewayHungUp)
                connection.sock.close()
                raise

    async def _read_head(self, connection: BridgeConnection) -> BridgeResponse:
        while True:
            first, *lines = (await connection.read_until(b"\r\n\r\n")).decode("latin-1").split("\r\n")
            version, _, rest = first.partition(" ")
            if not version.startswith("HTTP/1.") or not rest[:3].isdigit():
                raise BridgeFailure(f"what answers at {self.url} is not a gateway")
            headers = {}
            for line in lines:
                name, _, value = line.partition(":")
                headers[name.lower()] = value.strip()
            if int(rest[:3]) >= 200:
                return BridgeResponse(self, connection, int(rest[:3]), headers)

    def keep(self, connection: BridgeConnection) -> None:
        connection.used, connection.left_at = True, now()
        self._idle.append(connection)

    def _reuse(self) -> BridgeConnection | None:
        while self._idle:
            connection = self._idle.pop()
            if connection.usable:
                return connection
            self.losses += 1
            connection.sock.close()
        return None

    async def _connect(self) -> BridgeConnection:
        until, sock = now() + CONNECT_S, None
        try:
            family: int = socket.AF_UNIX
            address: str | tuple[str, int] = self._address
            if not isinstance(address, str):
                family, _, _, _, found = socket.getaddrinfo(*address, type=socket.SOCK_STREAM)[0]
                address = str(found[0]), address[1]
            sock = socket.socket(family, socket.SOCK_STREAM)
            sock.setblocking(False)
            if family != socket.AF_UNIX:
                sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            while (code := sock.connect_ex(address)) == errno.EAGAIN and now() < until:  # its queue is full just now
                await PollWait(until=now() + 0.01)
            if code == errno.EINPROGRESS and await PollWait(sock.fileno(), select.POLLOUT, until):
                code = sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
            if code:
                raise OSError(code, os.strerror(code))
            return BridgeConnection(sock)
        except BaseException as error:
            if sock is not None:
                sock.close()
            if isinstance(error, OSError):
                raise self._unreachable(error) from None
            raise

    def _unreachable(self, error: OSError) -> GatewayUnreachable:
        self.losses += 1
        return GatewayUnreachable(
            f"no gateway answers at {self.url}: {error.strerror or error}; `gatepost up` starts it"
        )


def parse_url(url: str) -> tuple[str | tuple[str, int], str, str]:
    """(socket path or host and port, Host, path)."""
    scheme, _, rest = url.partition(":")
    if any(ord(each) <= 32 or ord(each) > 126 for each in url.rpartition(":/")[2]):
        raise ValueError(f"{url!r}: the path must be plain ASCII without spaces; percent-encode the rest")
    if scheme == "unix":
        rest = "/" + rest.lstrip("/") if rest.startswith("//") else rest
        path, cut, name = rest.rpartition(":/")
        # With a port: a server that checks Host at all, as the official SDK's does, accepts localhost only so.
        return (path if cut else rest) or "?", "localhost:80", "/" + name if cut else "/mcp/agents"
    if scheme != "http" or not rest.startswith("//"):
        raise ValueError(f"{url!r} is no address for a bridge; {USAGE}")
    host, slash, path = rest[2:].partition("/")
    name, colon, port = host.rpartition(":") if not host.endswith("]") else (host, "", "")
    if "@" in host or (colon and not port.isdigit()) or not (name or host):
        raise ValueError(f"{url!r} is no address for a bridge; {USAGE}")
    return (((name if colon else host).strip("[]"), int(port) if colon else 80), host, slash + path or "/mcp/agents")
