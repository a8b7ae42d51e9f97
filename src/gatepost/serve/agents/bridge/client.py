"""The client's side: its messages from stdin, messages to stdout, and everything else to stderr.

Only what the transport needs is read of a message. Everything else passes as it is.
"""

from __future__ import annotations

import os
import select
import stat
from _collections_abc import Callable

from gatepost.jsonrpc.plain_json import decode, encode_ascii
from gatepost.jsonrpc.protocol import INVALID_REQUEST, PARSE_ERROR, VERSION, Json, JsonRpcFailure
from gatepost.serve.agents.bridge.loop import GONE, PollCondition, PollLoop, PollTask, PollWait

CHUNK = 64 * 1024
read_buffer = memoryview(bytearray(CHUNK))  # a fresh one for every read would cost its pages anew
NAMES = {"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}  # what Mcp-Name repeats


class MalformedLine(JsonRpcFailure):
    def __init__(self, code: int, text: str, request: object = None) -> None:
        super().__init__(code, text)
        self.request = request


class ClientMessage:
    """A line of the client, and what has become of it."""

    def __init__(self, line: bytes, replayed: bool = False) -> None:
        """`replayed`: the bridge sends it for itself, and the client does not get the answer."""
        self.line, self.replayed = line, replayed
        self.owed: dict[str, object] = {}  # ids that are not answered yet, by their JSON: 1 is neither "1" nor 1.0
        self.method, self.version, self.name = "", "", ""
        self.params: Json = {}
        self.sent = self.cancelled = self.done = False
        self.answer: Json = {}
        self.task: PollTask | None = None
        self._parse(line)

    def _parse(self, line: bytes) -> None:
        try:
            content = decode(line.decode())
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
                self.owed[encode_ascii(known)] = known
        if not parts:
            raise MalformedLine(INVALID_REQUEST, "Invalid request: an empty batch")
        if isinstance(content, dict):
            self._parse_fields(content)

    def _parse_fields(self, content: Json) -> None:
        self.method = str(content.get("method", ""))
        params = content.get("params")
        if not isinstance(params, dict):
            return
        self.params = params
        meta = params.get("_meta")
        version = meta.get(VERSION) if isinstance(meta, dict) else None
        self.version = version if isinstance(version, str) else ""
        name = params.get(NAMES.get(self.method, ""))
        self.name = name if isinstance(name, str) else ""

    @property
    def is_handshake(self) -> bool:
        """Later messages wait for its end."""
        return self.method in ("initialize", "notifications/initialized")

    @property
    def is_subscription(self) -> bool:
        """It is open for as long as the client lives: nobody waits for its end."""
        return self.method == "subscriptions/listen"


def render_error(request: object, error: object) -> bytes:
    return encode_ascii({"jsonrpc": "2.0", "id": request, "error": error}).encode()


def encode_header(value: str) -> str:
    """A value as the 2026-07-28 revision writes it in a header: what would not survive there is in base64."""
    if all(" " <= each <= "~" for each in value) and value == value.strip() and not value.startswith("=?base64?"):
        return value
    import binascii  # rare

    return f"=?base64?{binascii.b2a_base64(value.encode('utf-8', 'replace'), newline=False).decode()}?="


def list_answers(message: object) -> list[Json]:
    """The answers among one message, or several."""
    several = message if isinstance(message, list) else [message]
    return [each for each in several if isinstance(each, dict) and "method" not in each and "id" in each]


def read_json(data: bytes) -> object:
    """None: it is not JSON."""
    try:
        return decode(data.decode())
    except (ValueError, RecursionError):
        return None


def log(text: str) -> None:
    """Write to stderr, if somebody reads it: a full pipe must not stop the messages."""
    poll = select.poll()
    poll.register(2, select.POLLOUT)
    if dict(poll.poll(0)).get(2, 0) == select.POLLOUT:
        os.write(2, f"gatepost bridge: {text}"[:1000].encode("utf-8", "replace") + b"\n")


async def read_lines(fd: int, receive: Callable[[bytes], None]) -> None:
    """Pass each line on as it arrives, until the descriptor ends. The last line may lack its newline."""
    data, rest = b"?", bytearray()
    while data:
        await PollWait(fd, select.POLLIN)
        data = bytes(read_buffer[: os.readv(fd, [read_buffer])])
        first, *others = data.split(b"\n")
        rest += first
        for other in others:
            receive(bytes(rest))
            rest = bytearray(other)
    receive(bytes(rest))


class StdoutWriter:
    """Messages to stdout. It keeps what the pipe does not accept at once, and whoever has more waits."""

    def __init__(self, loop: PollLoop, fd: int, reader_left: Callable[[], None]) -> None:
        self.broken = False  # nobody reads
        self._reader_left = reader_left
        self._fd, self._unsent = fd, bytearray()
        self._emptied = PollCondition(loop)
        self._loop = loop
        self._writer = self._write()
        loop.spawn(self._writer)
        kind = os.fstat(fd).st_mode
        if stat.S_ISFIFO(kind) or stat.S_ISSOCK(kind):
            os.set_blocking(fd, False)

    def add(self, line: bytes) -> None:
        """Add one message. Line ends inside JSON are only space."""
        if b"\n" in line or b"\r" in line:
            line = line.replace(b"\n", b" ").replace(b"\r", b" ")
        waited = bool(self._unsent)
        self._unsent += line + b"\n"
        if not waited:
            self._flush()
            if self._unsent or self.broken:
                self._loop.wake(self._writer)

    async def drain(self, moment: float = 0.0) -> None:
        if self._unsent:
            await self._emptied.until(lambda: not self._unsent, moment)

    def _flush(self) -> None:
        try:
            while self._unsent and not self.broken:
                del self._unsent[: os.write(self._fd, self._unsent)]
        except BlockingIOError:
            return
        except OSError:
            self.broken = True
        if self.broken:
            self._unsent.clear()

    async def _write(self) -> None:
        """Write what is unsent. While there is nothing, the wait ends only when the reader has left."""
        while not self.broken:
            events = await PollWait(self._fd, select.POLLOUT if self._unsent else 0)
            if events & GONE:
                self.broken = True
            self._flush()
            if not self._unsent:
                self._emptied.notify()
        self._reader_left()
