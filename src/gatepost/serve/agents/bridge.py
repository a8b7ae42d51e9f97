"""stdio ⇄ Streamable HTTP, for MCP clients that start their servers as a process.

    gatepost bridge --url unix:PATH:/mcp/agents [--token-file FILE]

Messages pass as they are; only what the transport needs is read from them. Every request is answered exactly once, on
every path; one that the client has cancelled gets no answer of ours. stdout carries messages alone, stderr the rest.
The standard library alone, and little of it: an agent waits for it at every start. One thread: each message is a task
of a small loop, which pauses where its descriptor does, so a client that reads slowly slows the gateway's stream.
"""

from __future__ import annotations

import _socket as socket  # the other one makes enumerations at every start, longer than a call takes
import errno
import json
import os
import select
import signal
import stat
import sys
import time
from collections import deque
from collections.abc import Callable, Coroutine, Generator

CHUNK = 64 * 1024
CRLF = b"\r\n"
PATIENCE_S = 10.0  # how long answers may take after stdin has ended
FAREWELL_S = 2.0  # for the last lines, and for the DELETE
CONNECT_S = 5.0
HANDSHAKE_S = 30.0  # for an initialize of our own
HANDSHAKES = 5  # that the gateway may cut before it is left
AWAY_S, AGAIN_S = 5.0, 0.1  # a gateway that was there may be away so long, and is looked for so often
IDLE_S = 2.0  # a kept connection is used again within this time; servers hang up after five seconds
TAIL_S = 1.0  # a stream ends this soon after its answer, or is left
RETRY_S, LONGEST_RETRY_S = 1.0, 30.0
RESUMES = 2  # of a stream that was cut, without a message in between
MOST_AT_ONCE = 256  # requests that hold a connection; the others wait for their turn
PARSE_ERROR, INVALID_REQUEST, METHOD_NOT_FOUND, INTERNAL_ERROR = -32700, -32600, -32601, -32603
NAMES = {"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}  # what Mcp-Name repeats
HUNG_UP = "the gateway hung up before its answer was complete; whether the call ran is not known"
USAGE = "usage: gatepost bridge --url unix:PATH:/mcp/agents | http://HOST:PORT/mcp/agents [--token-file FILE]"

_VERSION = "io.modelcontextprotocol/protocolVersion"
_GONE = select.POLLHUP | select.POLLERR | select.POLLNVAL
_kept = memoryview(bytearray(CHUNK))  # a fresh one for every read would cost its pages anew
_now = time.monotonic
_encode = json.JSONEncoder(separators=(",", ":")).encode  # in ASCII: half a surrogate pair survives in an id
_decode = json.JSONDecoder().decode

Json = dict[str, object]


_START = "import sys; sys.path.append(sys.argv.pop(1)); from gatepost.serve.agents import bridge; "


def command(url: str, token_file: str = "") -> list[str]:
    """How a client on this machine starts it. Imported, not run as a script: Python keeps the compiled form of modules
    alone, and to compile this one takes as long as all the rest of the start."""
    source = os.path.abspath(__file__ + "/../../../..")
    named = ["--token-file", token_file] if token_file else []
    start = f"{_START}sys.exit(bridge.main(sys.argv[1:]))"
    return [sys.executable, "-I", "-S", "-c", start, source, "--url", url, *named]


def log(text: str) -> None:
    """To stderr, if anybody reads it: a full pipe must not stop the messages."""
    poll = select.poll()
    poll.register(2, select.POLLOUT)
    if dict(poll.poll(0)).get(2, 0) == select.POLLOUT:
        os.write(2, f"gatepost bridge: {text}"[:1000].encode("utf-8", "replace") + b"\n")


class BridgeFailure(Exception):
    """This message got no answer; the text says why."""

    def __init__(self, text: str, code: int = INTERNAL_ERROR) -> None:
        super().__init__(text)
        self.code = code


class GatewayHungUp(BridgeFailure):
    """The gateway hung up in the middle."""

    def __init__(self) -> None:
        super().__init__(HUNG_UP)


class GatewayUnreachable(BridgeFailure):
    """Nobody listens: nothing was sent."""


# The loop.


class PollWait:
    """What a task waits for: a descriptor, a moment, or to be woken. Gives the events, 0 when the moment came."""

    __slots__ = ("events", "fd", "until")

    def __init__(self, fd: int = -1, events: int = 0, until: float = 0.0) -> None:
        self.fd, self.events, self.until = fd, events, until

    def __await__(self) -> Generator[PollWait, int | None, int]:
        return (yield self) or 0


class PollTask:
    __slots__ = ("steps", "wait")

    def __init__(self, steps: Coroutine[PollWait, int | None, None]) -> None:
        self.steps = steps
        self.wait: PollWait | None = None


class PollLoop:
    def __init__(self) -> None:
        self.tasks: set[PollTask] = set()
        self.current: PollTask | None = None
        self._poll = select.poll()
        self._ready: deque[tuple[PollTask, int | None]] = deque()
        self._watched: dict[int, PollTask] = {}
        self._timed: set[PollTask] = set()

    def spawn(self, steps: Coroutine[PollWait, int | None, None]) -> PollTask:
        task = PollTask(steps)
        self.tasks.add(task)
        self._ready.append((task, None))
        return task

    def wake(self, task: PollTask, events: int = 1) -> None:
        if task.wait is not None:
            self._forget(task)
            self._ready.append((task, events))

    def cancel(self, task: PollTask) -> None:
        """Its `finally` runs, nothing else of it."""
        if task in self.tasks and task is not self.current:
            self._forget(task)
            self.tasks.discard(task)
            task.steps.close()

    def run(self, steps: Coroutine[PollWait, int | None, None]) -> None:
        """Until these are done."""
        main = self.spawn(steps)
        while main in self.tasks:
            while self._ready:
                task, given = self._ready.popleft()
                if task in self.tasks:
                    self._step(task, given)
            if main not in self.tasks:
                break
            for fd, events in self._poll.poll(self._patience()):
                self.wake(self._watched[fd], events)
            if self._timed:
                now = _now()
                for task in [each for each in self._timed if each.wait and each.wait.until <= now]:
                    self.wake(task, 0)
        for task in list(self.tasks):
            self.cancel(task)

    def _step(self, task: PollTask, events: int | None) -> None:
        self.current = task
        try:
            wait = task.steps.send(events)
        except StopIteration:
            self.tasks.discard(task)
            return
        finally:
            self.current = None
        task.wait = wait
        if wait.fd >= 0:
            self._poll.register(wait.fd, wait.events)
            self._watched[wait.fd] = task
        if wait.until:
            self._timed.add(task)

    def _forget(self, task: PollTask) -> None:
        if task.wait is not None and task.wait.fd >= 0:
            self._poll.unregister(task.wait.fd)
            del self._watched[task.wait.fd]
        self._timed.discard(task)
        task.wait = None

    def _patience(self) -> float | None:
        moments = [task.wait.until for task in self._timed if task.wait]
        return max(0.0, min(moments) - _now()) * 1000 + 1 if moments else None


class PollCondition:
    """Tasks that wait until something has changed, and look for themselves whether it is what they wait for."""

    def __init__(self, loop: PollLoop) -> None:
        self._loop = loop
        self._waiting: list[PollTask] = []

    async def until(self, true: Callable[[], bool], moment: float = 0.0) -> bool:
        """False: the moment came first."""
        while not true():
            if self._loop.current is not None:
                self._waiting.append(self._loop.current)
            if not await PollWait(until=moment):
                self._waiting = [each for each in self._waiting if each is not self._loop.current]
                return true()
        return True

    def ring(self) -> None:
        if self._waiting:
            waiting, self._waiting = self._waiting, []
            for task in waiting:
                self._loop.wake(task)


class StdoutWriter:
    """stdout: what it does not take at once is kept, and whoever has more waits."""

    def __init__(self, loop: PollLoop, fd: int, left: Callable[[], None]) -> None:
        self.broken = False  # nobody reads
        self._left = left
        self._fd, self._kept = fd, bytearray()
        self._drained = PollCondition(loop)
        self._loop = loop
        self._writer = loop.spawn(self._write())
        kind = os.fstat(fd).st_mode
        if stat.S_ISFIFO(kind) or stat.S_ISSOCK(kind):
            os.set_blocking(fd, False)

    def add(self, line: bytes) -> None:
        """One message; line ends inside JSON are only space."""
        if b"\n" in line or b"\r" in line:
            line = line.replace(b"\n", b" ").replace(b"\r", b" ")
        waited = bool(self._kept)
        self._kept += line + b"\n"
        if not waited:
            self._flush()
            if self._kept or self.broken:
                self._loop.wake(self._writer)

    async def drained(self, moment: float = 0.0) -> None:
        if self._kept:
            await self._drained.until(lambda: not self._kept, moment)

    def _flush(self) -> None:
        try:
            while self._kept and not self.broken:
                del self._kept[: os.write(self._fd, self._kept)]
        except BlockingIOError:
            return
        except OSError:
            self.broken = True
        if self.broken:
            self._kept.clear()

    async def _write(self) -> None:
        """Writes what was kept; while there is nothing, it learns that the reader has left."""
        while not self.broken:
            events = await PollWait(self._fd, select.POLLOUT if self._kept else 0)
            if events & _GONE:
                self.broken = True
            self._flush()
            if not self._kept:
                self._drained.ring()
        self._left()


# HTTP.


class BridgeConnection:
    def __init__(self, sock: socket.socket) -> None:
        self.sock, self.fd = sock, sock.fileno()
        self.buffer = bytearray()
        self.until = 0.0  # when waiting ends; 0: never, a call may take hours
        self.used, self.left_at = False, 0.0
        self.whole = True  # it took all of every request

    @property
    def usable(self) -> bool:
        """It was left a short while ago, and the other side has not hung up since."""
        if _now() - self.left_at > IDLE_S:
            return False
        try:
            self.sock.recv(1, socket.MSG_PEEK)
        except BlockingIOError:
            return True
        except OSError:
            return False
        return False

    async def send(self, data: bytes) -> bool:
        """False: it did not take all. It may have answered nevertheless."""
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

    async def more(self) -> bool:
        """False: the other side has ended."""
        await self._wait(select.POLLIN)
        try:
            size = self.sock.recv_into(_kept)
        except OSError:
            return False
        self.buffer += _kept[:size]
        return size > 0

    async def read_until(self, mark: bytes) -> bytes:
        """What comes before the mark, which is dropped."""
        start = 0
        while (end := self.buffer.find(mark, start)) < 0:
            start = max(0, len(self.buffer) - len(mark))
            if not await self.more():
                raise GatewayHungUp
        data = self.take(end + len(mark))
        return data[:end]

    def take(self, size: int) -> bytes:
        data = bytes(self.buffer[:size])
        del self.buffer[:size]
        return data

    async def _wait(self, events: int) -> int:
        seen = await PollWait(self.fd, events, self.until)
        if not seen:
            raise BridgeFailure("the gateway did not answer in time")
        return seen


class BridgeResponse:
    """An answer of which the head has arrived. The body comes in pieces, as the reader takes them."""

    def __init__(
        self, link: BridgeHttpClient, connection: BridgeConnection, status: int, headers: dict[str, str]
    ) -> None:
        self.status, self.headers = status, headers
        self.kind = headers.get("content-type", "").partition(";")[0].strip().lower()
        self._link, self.connection = link, connection
        self._chunked = "chunked" in headers.get("transfer-encoding", "").lower()
        length = headers.get("content-length", "")
        empty = status in (204, 304)
        self._sized = self._chunked or empty or length.isdigit()
        self._left = 0 if empty or self._chunked or not length.isdigit() else int(length)
        self._done = empty or (not self._chunked and self._sized and not self._left)
        self._all: bytes | None = None
        self._released = False

    @property
    def streams(self) -> bool:
        return self.status == 200 and self.kind == "text/event-stream"

    async def read(self) -> bytes:
        """The next piece; nothing when it is complete. Failed if it was cut."""
        connection = self.connection
        if self._chunked and not self._left and not self._done:
            await self._next_chunk()
        if self._done:
            return b""
        if not connection.buffer and not await connection.more():
            if self._sized:
                self._link.losses += 1
                raise GatewayHungUp
            self._done = True
            return b""
        piece = connection.take(self._left if self._sized else len(connection.buffer))
        if self._sized:
            self._left -= len(piece)
            if not self._left and self._chunked:
                await connection.read_until(CRLF)
            self._done = not self._left and not self._chunked
        return piece

    async def _next_chunk(self) -> None:
        size = (await self.connection.read_until(CRLF)).partition(b";")[0]
        try:
            self._left = int(size, 16)
        except ValueError:
            raise BridgeFailure("the gateway's answer is not HTTP") from None
        if not self._left:
            while await self.connection.read_until(CRLF):
                pass  # trailers
            self._done = True

    async def all(self) -> bytes:
        if self._all is None:
            pieces = []
            while piece := await self.read():
                pieces.append(piece)
            self._all = b"".join(pieces)
        return self._all

    async def finish(self) -> None:
        """Read to its end, so that the connection can be kept; not for long."""
        self.connection.until = _now() + TAIL_S
        try:
            while await self.read():
                pass
        except BridgeFailure:
            return

    def release(self) -> None:
        """Keep its connection, if it can be used again. A second time does nothing."""
        if self._released:
            return
        self._released = True
        closing = "close" in self.headers.get("connection", "").lower() or not self._sized
        if self._done and not closing and self.connection.whole and not self.connection.buffer:
            self._link.keep(self.connection)
        else:
            self.connection.sock.close()


class BridgeHttpClient:
    """Where the gateway listens, and the connections to it that are kept."""

    def __init__(self, url: str, token: str = "") -> None:
        self.url = url
        self._address, self._host, self._path = parse_url(url)
        self._always = f"Host: {self._host}\r\nAccept: application/json, text/event-stream\r\n"
        self._always += f"Authorization: Bearer {token}\r\n" if token else ""
        self._kept: list[BridgeConnection] = []
        self.losses = 0  # how often the gateway was seen to leave

    async def request(self, method: str, headers: str, body: bytes = b"", until: float = 0.0) -> BridgeResponse:
        """Failed if nobody answers. Sent again only where the gateway cannot have seen all of it."""
        sized = f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n" if method == "POST" else ""
        data = f"{method} {self._path} HTTP/1.1\r\n{self._always}{sized}{headers}\r\n".encode("latin-1") + body
        while True:
            connection = self._pick() or await self._connect()
            try:
                connection.until = until
                sent = await connection.send(data)
                if sent or not connection.used or connection.buffer or await connection.more():
                    return await self._head(connection)
                connection.sock.close()
            except BaseException as error:
                self.losses += isinstance(error, GatewayHungUp)
                connection.sock.close()
                raise

    async def _head(self, connection: BridgeConnection) -> BridgeResponse:
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
        connection.used, connection.left_at = True, _now()
        self._kept.append(connection)

    def _pick(self) -> BridgeConnection | None:
        while self._kept:
            connection = self._kept.pop()
            if connection.usable:
                return connection
            self.losses += 1
            connection.sock.close()
        return None

    async def _connect(self) -> BridgeConnection:
        until = _now() + CONNECT_S
        try:
            family, address = self._resolve()
            sock = socket.socket(family, socket.SOCK_STREAM)
        except OSError as error:
            raise self._away(error) from None
        try:
            sock.setblocking(False)
            if family != socket.AF_UNIX:
                sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            while (code := sock.connect_ex(address)) == errno.EAGAIN and _now() < until:  # its queue is full just now
                await PollWait(until=_now() + 0.01)
            if code == errno.EINPROGRESS and await PollWait(sock.fileno(), select.POLLOUT, until):
                code = sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
            if code:
                raise OSError(code, os.strerror(code))
        except OSError as error:
            sock.close()
            raise self._away(error) from None
        except BaseException:
            sock.close()
            raise
        return BridgeConnection(sock)

    def _resolve(self) -> tuple[int, str | tuple[str, int]]:
        if isinstance(self._address, str):
            return socket.AF_UNIX, self._address
        family, _, _, _, address = socket.getaddrinfo(*self._address, type=socket.SOCK_STREAM)[0]
        return family, (str(address[0]), self._address[1])

    def _away(self, error: OSError) -> GatewayUnreachable:
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
        # With a port: a server that looks at Host at all, as the official SDK's does, knows localhost only so.
        return (path if cut else rest) or "?", "localhost:80", "/" + name if cut else "/mcp/agents"
    if scheme != "http" or not rest.startswith("//"):
        raise ValueError(f"{url!r} is no address for a bridge; {USAGE}")
    host, slash, path = rest[2:].partition("/")
    name, colon, port = host.rpartition(":") if not host.endswith("]") else (host, "", "")
    if "@" in host or (colon and not port.isdigit()) or not (name or host):
        raise ValueError(f"{url!r} is no address for a bridge; {USAGE}")
    return (((name if colon else host).strip("[]"), int(port) if colon else 80), host, slash + path or "/mcp/agents")


class EventStreamReader:
    """The messages of an event stream, one after the other; and where to go on after its end."""

    def __init__(self) -> None:
        self.last_id, self.retry_s = "", RETRY_S
        self._buffer = bytearray()

    def begin(self) -> None:
        self._buffer.clear()

    async def next(self, response: BridgeResponse) -> bytes:
        """Nothing at its end."""
        data: list[bytes] = []
        other = False  # an event that is no message
        while (line := await self._line(response)) is not None:
            name, _, value = line.partition(b":")
            value = value.removeprefix(b" ")
            if name == b"data":
                data.append(value)
            elif name == b"event":
                other = value != b"message"
            elif name == b"id" and min(value, default=32) >= 32:  # it is to be a header
                self.last_id = value.decode("latin-1")
            elif name == b"retry" and value.isdigit():
                self.retry_s = min(int(value) / 1000, LONGEST_RETRY_S)
            elif not line:
                if not other and any(data):
                    return b"\n".join(data)
                data, other = [], False
        return b""

    async def _line(self, response: BridgeResponse) -> bytes | None:
        start = 0
        while (end := self._buffer.find(b"\n", start)) < 0:
            start = len(self._buffer)
            piece = await response.read()
            if not piece:
                return None
            self._buffer += piece
        line = bytes(self._buffer[: end + 1]).rstrip(b"\r\n")
        del self._buffer[: end + 1]
        return line


# Messages.


class MalformedLine(Exception):
    def __init__(self, code: int, text: str, request: object = None) -> None:
        super().__init__(text)
        self.code, self.request = code, request


def render_error(request: object, code: int, text: str) -> bytes:
    return render_error_object(request, {"code": code, "message": text})


def render_error_object(request: object, error: object) -> bytes:
    return _encode({"jsonrpc": "2.0", "id": request, "error": error}).encode()


def encode_header(value: str) -> str:
    """A value as the 2026-07-28 revision writes it in a header: what would not survive there is in base64."""
    if all(" " <= each <= "~" for each in value) and value == value.strip() and not value.startswith("=?base64?"):
        return value
    import binascii  # rare

    return f"=?base64?{binascii.b2a_base64(value.encode('utf-8', 'replace'), newline=False).decode()}?="


def key_of(request: object) -> str:
    """An id as text: 1 is neither "1" nor 1.0."""
    return str(request) if type(request) is int else _encode(request)


def list_answers(message: object) -> list[Json]:
    """The answers among what a line holds: one message, or several."""
    several = message if isinstance(message, list) else [message]
    return [each for each in several if isinstance(each, dict) and "method" not in each and "id" in each]


class ClientMessage:
    """A line of the client, with what the transport has to know of it."""

    def __init__(self, line: bytes) -> None:
        self.line = line
        self.owed: dict[str, object] = {}  # the ids that are not answered yet
        self.method, self.version, self.name = "", "", ""
        self.params: Json = {}
        self.sent = self.cancelled = self.done = False
        self.replayed = False  # not the client's: its answer is kept from it
        self.answer: Json = {}
        self.task: PollTask | None = None
        self._read(line)

    def _read(self, line: bytes) -> None:
        try:
            content = _decode(line.decode())
        except (ValueError, RecursionError) as error:
            raise MalformedLine(PARSE_ERROR, f"Parse error: {error}") from None
        parts = content if isinstance(content, list) else [content]
        for part in parts:
            request = part.get("id") if isinstance(part, dict) else None
            known = request if isinstance(request, str | int | float) and not isinstance(request, bool) else None
            if not isinstance(part, dict) or not ("method" in part or "result" in part or "error" in part):
                raise MalformedLine(INVALID_REQUEST, "Invalid request: this is no JSON-RPC message", known)
            if "method" in part and "id" in part:
                if known is None:
                    raise MalformedLine(INVALID_REQUEST, "Invalid request: `id` must be text or a number")
                self.owed[key_of(known)] = known
        if not parts:
            raise MalformedLine(INVALID_REQUEST, "Invalid request: an empty batch")
        if isinstance(content, dict):
            self._read_fields(content)

    def _read_fields(self, content: Json) -> None:
        self.method = str(content.get("method", ""))
        params = content.get("params")
        if not isinstance(params, dict):
            return
        self.params = params
        meta = params.get("_meta")
        version = meta.get(_VERSION) if isinstance(meta, dict) else None
        self.version = version if isinstance(version, str) else ""
        name = params.get(NAMES.get(self.method, ""))
        self.name = name if isinstance(name, str) else ""

    @property
    def opens(self) -> bool:
        """It is of the handshake: what comes after it waits for its end."""
        return self.method in ("initialize", "notifications/initialized")

    @property
    def standing(self) -> bool:
        """It is open for as long as the client lives: nobody waits for its end."""
        return self.method == "subscriptions/listen"


class BridgeSession:
    """What the 2025 handshake has agreed on, and the client's own messages to agree on it again."""

    def __init__(self) -> None:
        self.id = ""
        self.version = ""
        self.lost = False  # the gateway has forgotten it, or never answered the handshake
        self.renewing = False
        self.trouble = ""  # why it was not renewed
        self.opening: bytes = b""
        self.ready: bytes = b""

    @property
    def headers(self) -> str:
        named = f"Mcp-Session-Id: {self.id}\r\n" if self.id else ""
        return named + (f"MCP-Protocol-Version: {encode_header(self.version)}\r\n" if self.version else "")

    def forget(self) -> None:
        self.id, self.version, self.lost = "", "", True

    def opened(self, session_id: str, answer: Json) -> None:
        result = answer.get("result")
        if isinstance(result, dict):
            self.id, self.version, self.lost = session_id, str(result.get("protocolVersion", "")), False


# The bridge.


class StdioHttpBridge:
    def __init__(self, link: BridgeHttpClient, source: int = 0, sink: int = 1) -> None:
        self.loop = PollLoop()
        self.link, self.session = link, BridgeSession()
        self.out = StdoutWriter(self.loop, sink, self._end)
        self._told_to_end = False
        self._source, self._reading = source, True
        self._under_way: set[ClientMessage] = set()
        self._flying: dict[str, ClientMessage] = {}  # those of them that owe an answer, by its id
        self._handshake: ClientMessage | None = None
        self._modern = ""  # the stateless revision that the client spoke last
        self._at_once = 0
        self._met, self._away_since = False, 0.0  # whether the gateway ever answered; since when it does not
        self._changed, self._freed = PollCondition(self.loop), PollCondition(self.loop)
        self._listening: PollTask | None = None

    def run(self, waking: int) -> None:
        """Until stdin ends, nobody reads stdout, or a signal has written to `waking`."""
        self.loop.run(self._live(waking))

    async def _wait_for_signal(self, waking: int) -> None:
        await PollWait(waking, select.POLLIN)
        self._end()

    def _end(self) -> None:
        self._told_to_end = True
        self._changed.ring()

    async def _live(self, waking: int) -> None:
        """From the first line to the DELETE."""
        self.loop.spawn(self._wait_for_signal(waking))
        reader = self.loop.spawn(self._read())
        await self._changed.until(lambda: self._told_to_end or not self._reading)
        self.loop.cancel(reader)
        await self._changed.until(lambda: self._told_to_end or not self._awaited(), _now() + PATIENCE_S)
        for message in list(self._flying.values()):
            self._fail(message, BridgeFailure("the bridge ended before there was an answer"))
            if message.task is not None:
                self.loop.cancel(message.task)
        if self._listening is not None:
            self.loop.cancel(self._listening)
        await self.out.drained(_now() + FAREWELL_S)
        await self._end_session()

    def _awaited(self) -> bool:
        """Something is under way that has an end, were it a notification."""
        return any(not message.standing and not message.cancelled for message in self._under_way)

    async def _read(self) -> None:
        """Lines of the client, as they come."""
        data, rest = b"?", bytearray()
        while data:
            await PollWait(self._source, select.POLLIN)
            data = bytes(_kept[: os.readv(self._source, [_kept])])
            first, *others = data.split(b"\n")
            rest += first
            for other in others:
                self.hear(bytes(rest))
                rest = bytearray(other)
        self.hear(bytes(rest))  # a last line may lack its end
        self._reading = False
        self._changed.ring()

    # From the client.

    def hear(self, line: bytes) -> None:
        """Whatever it is, the bridge lives. Blank lines are none."""
        if not line.strip():
            return
        try:
            message = ClientMessage(line)
        except MalformedLine as error:
            log(f"a line of {len(line)} bytes: {error}")
            self.out.add(render_error(error.request, error.code, str(error)))
            return
        if message.method == "notifications/cancelled" and not self._cancel(message.params.get("requestId")):
            return
        for key, request in message.owed.items():
            if key in self._flying:
                used = f"the request id {key[:80]} is already in use: wait for its answer, or take another id"
                self.out.add(render_error(request, INVALID_REQUEST, used))
                return
        self._flying.update(dict.fromkeys(message.owed, message))
        if message.version or message.method == "initialize":
            self._modern = message.version
        before = self._handshake
        if message.opens:
            self._handshake = message
        self._under_way.add(message)
        message.task = self.loop.spawn(self._process_message(message, before))

    def _cancel(self, request: object) -> bool:
        """True: the gateway is to hear of it. On the stateless wire, hanging up is how it hears."""
        message = self._flying.get(key_of(request))
        if message is None:
            return not self._modern
        message.cancelled = True
        if message.sent and not message.version:
            self.loop.spawn(self._cancel_later(message))
            return True
        if message.task is not None:
            self.loop.cancel(message.task)
        return False

    async def _cancel_later(self, message: ClientMessage) -> None:
        """A cancelled request may be answered, and need not be."""
        await PollWait(until=_now() + TAIL_S)
        if message.task is not None:
            self.loop.cancel(message.task)

    async def _process_message(self, message: ClientMessage, before: ClientMessage | None) -> None:
        """One message to the gateway, and all that it is answered."""
        counted = False
        try:
            if before is not None and not before.done:
                await self._changed.until(lambda: before.done)
            if message.owed and not message.standing:
                if self._at_once >= MOST_AT_ONCE:
                    await self._freed.until(lambda: self._at_once < MOST_AT_ONCE)
                self._at_once, counted = self._at_once + 1, True
            await self._exchange(message)
        except BridgeFailure as failed:
            self._fail(message, failed)
        finally:
            message.done = True
            self._under_way.discard(message)
            self._at_once -= counted
            for key in message.owed:
                self._flying.pop(key, None)
            if message.opens or not self._reading:
                self._changed.ring()
            self._freed.ring()

    def _fail(self, message: ClientMessage, failed: BridgeFailure) -> None:
        if message.method == "initialize":
            self.session.lost = True  # a client that goes on all the same is initialized then
        elif message.method == "notifications/initialized" and not self._modern:
            self.session.ready = message.line  # the gateway that comes next is to hear it
        if not message.owed:
            log(f"{message.method or 'an answer'} was not delivered: {failed}")
        for key, request in message.owed.items():
            self._flying.pop(key, None)
            if not message.cancelled:
                self.out.add(render_error(request, failed.code, str(failed)))
        message.owed = {}

    # To the gateway.

    async def _exchange(self, message: ClientMessage) -> None:
        """Once more, if the gateway has forgotten the session; and again, if it was seen to leave meanwhile."""
        session = self.session
        opening, modern = message.method == "initialize", bool(message.version or self._modern)
        if opening:
            await self._end_session()
            session.opening, session.ready, session.lost = message.line, b"", False
        tries, losses = 0, -1
        while True:
            while (session.lost or session.renewing) and not modern and not opening:
                await self._renew(session.id)
            tried, message.sent = "" if modern or opening else session.id, True
            response = await self._post(self._headers(message), message.line)
            try:
                more = tried and tries < HANDSHAKES and self.link.losses != losses
                if more and response.status in (400, 404) and is_unknown_session(response, await response.all()):
                    tries, losses = tries + 1, self.link.losses
                    await self._renew(tried)
                    continue
                await self._deliver(response, message)
            finally:
                response.release()
            if opening:
                session.opened(response.headers.get("mcp-session-id", ""), message.answer)
            elif message.method == "notifications/initialized" and not modern and response.status < 300:
                session.ready = message.line
                self._listen()
            return

    async def _post(self, headers: str, body: bytes, until: float = 0.0) -> BridgeResponse:
        """A gateway that was there a moment ago is given one to come back: nothing was sent to it yet."""
        while True:
            try:
                response = await self.link.request("POST", headers, body, until)
            except GatewayUnreachable:
                now = _now()
                self._away_since = self._away_since or now
                if not self._met or now >= self._away_since + AWAY_S:
                    raise
                await PollWait(until=now + AGAIN_S)
            else:
                self._met, self._away_since = True, 0.0
                return response

    def _headers(self, message: ClientMessage) -> str:
        if message.method == "initialize":
            return ""
        version = message.version or self._modern
        if not version:
            return self.session.headers
        named = f"Mcp-Name: {encode_header(message.name)}\r\n" if message.name else ""
        return (
            f"MCP-Protocol-Version: {encode_header(version)}\r\nMcp-Method: {encode_header(message.method)}\r\n{named}"
        )

    async def _renew(self, stale: str) -> None:
        """A session in the place of the stale one, by the client's own words. Of several that miss it, one does it, and
        the others are told the same."""
        session = self.session
        if session.renewing:
            if not await self._changed.until(lambda: not session.renewing, _now() + HANDSHAKE_S):
                raise BridgeFailure("the gateway is slow to open another session; the call was not sent")
            if session.lost and session.trouble:  # without: whoever did it was cancelled
                raise BridgeFailure(session.trouble)
            return
        if session.id != stale:
            return
        session.renewing, session.trouble = True, ""
        session.forget()
        try:
            if stale:  # else none was ever opened, and whoever hears of that knows why
                log("the gateway does not know the session; opening another")
            await self._reopen()
        except BridgeFailure as failed:
            session.forget()
            session.trouble = str(failed)
            raise
        finally:
            session.renewing = False
            self._changed.ring()
        if session.ready:
            self._listen()

    async def _reopen(self) -> None:
        """Also by a gateway that ends meanwhile: to agree once more does no harm."""
        until = _now() + HANDSHAKE_S
        for _ in range(HANDSHAKES):
            try:
                return await self._replay(until)
            except GatewayHungUp:
                self.session.forget()
        raise BridgeFailure("the gateway hangs up whenever another session is opened; the call was not sent")

    async def _replay(self, until: float) -> None:
        session = self.session
        for line in (session.opening, session.ready):
            if not line:
                continue
            message = ClientMessage(line)
            message.replayed = True
            response = await self._post(self._headers(message), line, until)
            try:
                await self._deliver(response, message)
            finally:
                response.release()
            if line is session.opening:
                session.opened(response.headers.get("mcp-session-id", ""), message.answer)
                if session.lost:
                    raise BridgeFailure(
                        f"the gateway does not open another session: {_encode(message.answer.get('error'))}"
                    )

    async def _end_session(self) -> None:
        """End the session, if there is one. Nobody waits long for that."""
        session, headers = self.session, self.session.headers
        known, session.id, session.version = session.id, "", ""
        if known and not session.lost:
            try:
                (await self.link.request("DELETE", headers, until=_now() + FAREWELL_S)).release()
            except BridgeFailure as failed:
                log(f"the session was not ended: {failed}")

    # From the gateway.

    async def _deliver(self, response: BridgeResponse, message: ClientMessage) -> None:
        """What a POST was answered."""
        if message.owed and response.streams:
            await self._stream(response, message)
            return
        body = await response.all()
        content = read_json(body) if response.kind == "application/json" else None
        if not message.owed:
            if response.status >= 300:
                log(f"{message.method or 'an answer'}: {render_refusal(response.status, self.link.url)}")
            return
        if response.status < 300 and content is not None:
            self._forward(body, content, message)
        if not message.owed:
            return
        for answer in list_answers(content):
            if isinstance(answer.get("error"), dict):  # of a request that was refused before its id was read
                self._settle(message, answer["error"])
                return
        unknown = response.status == 404 and not self.session.id
        raise BridgeFailure(
            render_refusal(response.status, self.link.url), METHOD_NOT_FOUND if unknown else INTERNAL_ERROR
        )

    def _settle(self, message: ClientMessage, error: object) -> None:
        for key, request in message.owed.items():
            self._flying.pop(key, None)
            message.answer = {"id": request, "error": error}
            if not message.replayed:
                self.out.add(render_error_object(request, error))
        message.owed = {}

    async def _stream(self, response: BridgeResponse, message: ClientMessage) -> None:
        """Its messages, as they come and as stdout takes them. Cut off, it is resumed if the gateway can do that."""
        events, resumes = EventStreamReader(), RESUMES
        try:
            while True:
                if await self._follow(response, events, message):
                    resumes = RESUMES
                if not message.owed:
                    return await response.finish()
                if not events.last_id or message.version or message.replayed or not resumes:
                    raise GatewayHungUp
                response.release()
                resumes -= 1
                await PollWait(until=_now() + events.retry_s)
                try:
                    response = await self._open_stream(events)
                except GatewayUnreachable:
                    raise GatewayHungUp from None  # the call was sent, long ago
                if not response.streams:
                    raise GatewayHungUp
        finally:
            response.release()

    async def _open_stream(self, events: EventStreamReader) -> BridgeResponse:
        events.begin()
        place = f"Last-Event-ID: {events.last_id}\r\n" if events.last_id else ""
        return await self.link.request("GET", self.session.headers + place)

    async def _follow(
        self, response: BridgeResponse, events: EventStreamReader, message: ClientMessage | None = None
    ) -> int:
        """To the end of a stream, or until all that is owed has come; how many messages there were."""
        count = 0
        try:
            while (message is None or message.owed) and (data := await events.next(response)):
                self._forward(data, read_json(data), message)
                await self.out.drained()
                count += 1
        except BridgeFailure:
            return count  # whoever reads it knows what is missing
        return count

    def _forward(self, line: bytes, content: object, message: ClientMessage | None = None) -> None:
        """To the client, unless it is an answer that nobody waits for."""
        if content is None:
            log("the gateway sent what is not JSON; it was dropped")
            return
        answers = list_answers(content)
        for answer in answers:
            key = key_of(answer["id"])
            asked = message or self._flying.get(key)
            if asked is None or asked.owed.pop(key, self) is self:
                return  # answered before, or never asked
            asked.answer = answer
            if asked.replayed:
                return
            self._flying.pop(key, None)
        self.out.add(line)

    def _listen(self) -> None:
        """Hear what the gateway says by itself; anew, if the session is."""
        if self._listening is None or self._listening is not self.loop.current:
            if self._listening is not None:
                self.loop.cancel(self._listening)
            self._listening = self.loop.spawn(self._read_gateway_stream())

    async def _read_gateway_stream(self) -> None:
        """Its stream, opened again and again while it has one."""
        events, failures = EventStreamReader(), 0
        while True:
            session = self.session.id
            try:
                response = await self._open_stream(events)
                try:
                    if response.streams:
                        await self._follow(response, events)
                    elif response.status == 404 and session:
                        events.last_id = ""
                        await self._renew(session)
                    elif response.status < 500:
                        return  # it has no such stream
                finally:
                    response.release()
                failures = 0
            except BridgeFailure as failed:
                if not failures:
                    log(f"the gateway's own messages cannot be heard: {failed}")
                failures = min(failures + 1, 5)
            await PollWait(until=_now() + min(events.retry_s * 2**failures, LONGEST_RETRY_S))


def is_unknown_session(response: BridgeResponse, body: bytes) -> bool:
    """The gateway does not know the session: 404 says so, and 400 unless it finds fault with the message itself."""
    if response.status == 404:
        return True
    content = read_json(body)
    error = content.get("error") if isinstance(content, dict) else None
    return not isinstance(error, dict) or error.get("code") in (-32000, INVALID_REQUEST)


def render_refusal(status: int, url: str) -> str:
    if status == 401:
        return f"{url} wants a token (401): name its file with --token-file"
    if status == 202:
        return "the gateway took the request and will not answer it (202)"
    return f"the gateway at {url} answered with HTTP {status} and nothing that can be passed on"


def read_json(data: bytes) -> object:
    try:
        return _decode(data.decode())
    except (ValueError, RecursionError):
        return None


# The process.


def read_token(path: str) -> str:
    """The token in a file that nobody else can read. Raises ValueError with what is wrong."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    except OSError as error:
        raise ValueError(f"{path} cannot be read: {error.strerror}") from None
    with open(fd, encoding="ascii", errors="replace") as file:
        facts = os.fstat(fd)
        if not stat.S_ISREG(facts.st_mode):
            raise ValueError(f"{path} is not a file")
        if facts.st_mode & 0o077:
            raise ValueError(f"others can read {path}; `chmod 600` it, and make a new token if they may have")
        token = file.read(4096).strip()
    if not token or not all("!" <= each <= "~" for each in token):
        raise ValueError(f"{path} holds no token: one line of plain characters")
    return token


def parse_options(arguments: list[str]) -> tuple[str, str]:
    """(url, token file). Raises ValueError."""
    words = [part for each in arguments for part in (each.split("=", 1) if each.startswith("--") else [each])]
    given = dict(zip(words[::2], words[1::2], strict=False))
    if len(words) % 2 or given.keys() - {"--url", "--token-file"} or "--url" not in given:
        raise ValueError(USAGE)
    return given["--url"], given.get("--token-file", "")


def main(arguments: list[str]) -> int:
    try:
        url, token_file = parse_options(arguments)
        link = BridgeHttpClient(url, read_token(token_file) if token_file else "")
    except ValueError as error:
        sys.stderr.write(f"gatepost bridge: {error}\n")
        return 2
    bridge = StdioHttpBridge(link)
    waking, woken = os.pipe()
    os.set_blocking(woken, False)
    signal.set_wakeup_fd(woken, warn_on_full_buffer=False)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda *_: None)
    bridge.run(waking)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
