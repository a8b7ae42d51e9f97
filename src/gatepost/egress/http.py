"""HTTP/1.1 as egress.sock takes it: one request a connection, read by rules that leave nothing to interpretation.

A request that two parsers could read differently is refused, not repaired: behind us stands another parser. Such are
bare line feeds, folded lines, two lengths, a length beside chunks, and spaces before a colon. So are trailers, and
lines of chunks that could end at different places. Every answer ends its connection.
"""

import asyncio
import re
from collections.abc import AsyncIterator, Iterable
from contextlib import suppress
from enum import Enum, auto

from msgspec import Struct

from gatepost.core.secret_scrubber import SecretStreamScrubber
from gatepost.egress.pace import PIECE, Pace, PacedReader
from gatepost.egress.rules import EgressTarget

LARGEST_LINE = 8 * 1024  # of a chunk's head or a trailer
MOST_CHUNKS = 256  # that are decoded without a break
CHARGE = 2048  # bytes of its session's rate that a chunk costs besides its own, so that tiny ones are slowed

_HEAD = rb"([0-9A-Fa-f]{1,12})(?:[ \t]*;[\t\x20-\x7e]*)?"
_SIZE = re.compile(_HEAD + rb"\Z")
_SIZE_LINE = re.compile(_HEAD + rb"\r\n")
_END = b"\r\n"
LARGEST_HEAD = 64 * 1024
MOST_HEADERS = 100
CHUNK = PIECE
MOST_LINGER = 256 * 1024  # bytes that are read of a request after it was refused
HEAD_S = 30.0  # until the head is there
PAUSE_S = 120.0  # between two pieces of a body
_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+\Z")
_TARGET = re.compile(r"[\x21-\x7e]+\Z")
_VALUE = re.compile(r"[\t\x20-\x7e\x80-\xff]*\Z")
_DIGITS = re.compile(r"[0-9]{1,15}\Z")
_REASONS = {
    100: "Continue",
    200: "OK",
    400: "Bad Request",
    401: "Unauthorized",
    402: "Payment Required",
    403: "Forbidden",
    404: "Not Found",
    408: "Request Timeout",
    413: "Content Too Large",
    429: "Too Many Requests",
    431: "Request Header Fields Too Large",
    502: "Bad Gateway",
    503: "Service Unavailable",
    504: "Gateway Timeout",
}
Headers = tuple[tuple[str, str], ...]
# What asks for a part or a packed form: in either, a secret would not be recognized.
NOT_ASKED = frozenset(("accept-encoding", "range", "if-range", "te"))
MOST_INTERIM = 16  # answers before the final one (1xx)
MOST_LINES = 1000  # of a head
_STATUS = re.compile(rb"http/1\.[01] [2-5][0-9]{2}(?: [^\x00-\x08\x0a-\x1f\x7f]*)?\Z")
_FIELD = re.compile(rb"[!#$%&'*+.^_`|~0-9a-z-]+:[^\x00-\x08\x0a-\x1f\x7f]*\Z")


class TooLarge(Exception):
    """The chunks announce more bytes than the limit."""


class HttpRefusal(Exception):
    """A request ends with this status and this sentence. Its `target` is what was wanted, for the log."""

    def __init__(self, status: int, reason: str, target: str = "", *, retry_after: int | None = None) -> None:
        super().__init__(reason)
        self.status, self.reason, self.target, self.retry_after = status, reason, target, retry_after


class HttpRequestHead(Struct, frozen=True):
    method: str
    target: str
    headers: Headers  # names in lower case
    length: int | None  # None: chunked

    def get(self, name: str) -> str:
        return next((value for key, value in self.headers if key == name), "")

    @property
    def has_body(self) -> bool:
        return self.length != 0


def parse_head(raw: bytes) -> HttpRequestHead:
    """The head without its empty line. Raises Refusal."""
    lines = raw.decode("latin-1").split("\r\n", MOST_HEADERS + 1)
    method, _, rest = lines[0].partition(" ")
    target, _, version = rest.partition(" ")
    if version not in ("HTTP/1.1", "HTTP/1.0") or not _TOKEN.match(method) or not _TARGET.match(target):
        raise HttpRefusal(400, "the request line is not HTTP/1.1")
    if len(lines) - 1 > MOST_HEADERS:
        raise HttpRefusal(431, f"a request may have at most {MOST_HEADERS} header lines")
    headers = []
    for line in lines[1:]:
        name, colon, value = line.partition(":")
        value = value.strip(" \t")
        if not colon or not _TOKEN.match(name) or not _VALUE.match(value):
            raise HttpRefusal(400, "a header line is malformed")
        headers.append((name.lower(), value))
    return HttpRequestHead(method, target, tuple(headers), _length(method, version, headers))


def _length(method: str, version: str, headers: list[tuple[str, str]]) -> int | None:
    """How long the body is; whatever could be read in two ways is refused."""
    lengths = [value for name, value in headers if name == "content-length"]
    codings = [value for name, value in headers if name == "transfer-encoding"]
    hosts = [value for name, value in headers if name == "host"]
    if len(lengths) > 1 or len(codings) > 1 or len(hosts) > 1:
        raise HttpRefusal(400, "a request has one Host and one length")
    if codings:
        if lengths or version != "HTTP/1.1" or codings[0].lower() != "chunked":
            raise HttpRefusal(400, "a body is either chunked or has a Content-Length")
        return None
    if lengths and not _DIGITS.match(lengths[0]):
        raise HttpRefusal(400, "Content-Length is not a number")
    length = int(lengths[0]) if lengths else 0
    if method == "CONNECT" and length:
        raise HttpRefusal(400, "CONNECT has no body")
    return length


async def read_exactly(reader: PacedReader, size: int, pause: float = PAUSE_S) -> AsyncIterator[bytes]:
    """So many bytes, in pieces. Raises IncompleteReadError, TimeoutError."""
    while size:
        async with asyncio.timeout(pause):
            piece = await reader.read(min(size, CHUNK))
        if not piece:
            raise asyncio.IncompleteReadError(b"", size)
        size -= len(piece)
        yield piece


async def read_chunks(reader: PacedReader, limit: int, pause: float = PAUSE_S) -> AsyncIterator[bytes]:
    """Yield what a chunked body holds, many small chunks as one piece. Bytes behind the body may be read, too, and are
    dropped. Also raises ValueError, and Refusal beyond the limit."""
    decoder = ChunkDecoder(limit)
    while not decoder.done:
        async with asyncio.timeout(pause):
            piece = await reader.read(CHUNK)
        if not piece:
            raise asyncio.IncompleteReadError(b"", None)
        decoder.feed(piece)
        try:
            while (taken := decoder.read_chunk()) is not None:
                content, number = taken
                if content:
                    yield content
                await reader.pace.spend(number * CHARGE)
        except TooLarge:
            raise HttpRefusal(413, f"a body may have at most {limit} bytes here") from None


class EgressClient:
    """The one request of a connection, and the way to answer it."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, pace: Pace | None = None) -> None:
        """`pace`: that of the whole session."""
        self.pace = pace or Pace()
        self.reader, self.writer = PacedReader(reader, self.pace), writer
        self.answered = False  # the answer has begun
        self._awaited = False  # the client waits for our word before it sends its body
        self._unread = True  # there may be more of its request on the way

    async def head(self, begun: bytes = b"") -> HttpRequestHead | None:
        """None: it left without a word. `begun`: what was read of it before, none of its lines to the end."""
        try:
            async with asyncio.timeout(HEAD_S):
                raw = begun + await self.reader.until(b"\r\n\r\n", LARGEST_HEAD)
        except asyncio.IncompleteReadError as cut:
            if not cut.partial:
                return None
            raise HttpRefusal(400, "the head of the request is incomplete") from None
        except asyncio.LimitOverrunError:
            raise HttpRefusal(431, f"the head of a request may have at most {LARGEST_HEAD} bytes") from None
        except TimeoutError:
            raise HttpRefusal(408, "the head of the request did not come") from None
        if len(raw) > LARGEST_HEAD:
            raise HttpRefusal(431, f"the head of a request may have at most {LARGEST_HEAD} bytes")
        head = parse_head(raw[:-4])
        self._awaited = head.get("expect").lower() == "100-continue" and head.has_body
        self._unread = head.has_body
        return head

    async def body(self, head: HttpRequestHead, limit: int) -> AsyncIterator[bytes]:
        """The body in pieces, without its framing. Raises Refusal beyond the limit, or where it is malformed."""
        if head.length is not None and head.length > limit:
            raise HttpRefusal(413, f"a body may have at most {limit} bytes here")
        if self._awaited:
            self.writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        try:
            if head.length is None:
                async for piece in read_chunks(self.reader, limit):
                    yield piece
            else:
                async for piece in read_exactly(self.reader, head.length):
                    yield piece
        except asyncio.IncompleteReadError:
            raise HttpRefusal(400, "the body ended before its end") from None
        except ValueError:
            raise HttpRefusal(400, "the body's chunks are malformed") from None
        except TimeoutError:
            raise HttpRefusal(408, "the rest of the body did not come") from None
        self._unread = False

    # Answering.

    def start(self, status: int, headers: Iterable[tuple[str, str]] = (), phrase: str = "") -> None:
        """Begin an answer."""
        self.answered = True
        lines = [f"HTTP/1.1 {status} {phrase or _REASONS.get(status, 'Status')}"]
        lines += [f"{name}: {value}" for name, value in headers]
        self.writer.write("\r\n".join((*lines, "connection: close", "", "")).encode("latin-1"))

    def start_tunnel(self) -> None:
        self.answered = True
        self.writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")

    async def send(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()

    async def send_chunk(self, data: bytes) -> None:
        """Send one chunk of an answer that was started as chunked; b"" ends it. Without that end the client sees that
        it was cut."""
        await self.send(b"%x\r\n%b\r\n" % (len(data), data))

    async def gone(self) -> None:
        """Wait until the client has hung up. Bytes that it sends after its request are dropped."""
        with suppress(OSError):
            while await self.reader.read(CHUNK):
                pass

    async def whole(
        self, status: int, body: bytes, kind: str, headers: Iterable[tuple[str, str]] = (), phrase: str = ""
    ) -> None:
        self.start(status, (("content-type", kind), ("content-length", str(len(body))), *headers), phrase)
        await self.send(body)

    async def drain_request(self) -> None:
        """Read on for a while what the client still sends: else it might see a broken connection, not our answer. Not
        for ever: who sends on nevertheless does not read."""
        if not self._unread or not self.writer.can_write_eof():
            return
        self.writer.write_eof()
        left = MOST_LINGER
        try:
            async with asyncio.timeout(2.0):
                while left > 0 and (piece := await self.reader.read(min(left, CHUNK))):
                    left -= len(piece)
        except (TimeoutError, OSError):
            return


async def send_scrubbed_response(
    upstream: PacedReader,
    client: EgressClient,
    target: EgressTarget,
    scrub: SecretStreamScrubber,
    largest: int,
    pause: float,
) -> None:
    """Send the answer to a request that a secret was put into, with that secret struck out.

    Framing or compression could hide the secret, so chunks are joined and cut anew, and a compressed answer is not
    passed on. Raises HttpRefusal; after its first byte, the answer breaks off.
    """
    try:
        async with asyncio.timeout(pause):
            head = await read_answer_head(upstream)
        framed = _is_chunked(head, target)
        client.answered = True
        await client.send(scrub.feed(head) + scrub.rest())
        if framed:
            async for piece in read_chunks(upstream, largest, pause):
                await _send_piece(client, scrub.feed(piece))
            await _send_piece(client, scrub.rest())
            await client.send_chunk(b"")
            return
        while True:
            async with asyncio.timeout(pause):
                piece = await upstream.read()
            await client.send(scrub.feed(piece) if piece else scrub.rest())
            if not piece:
                return
    except (asyncio.IncompleteReadError, asyncio.LimitOverrunError, ValueError, TimeoutError):
        raise HttpRefusal(502, f"{target} gave no answer, or none that can be read", str(target)) from None


async def _send_piece(client: EgressClient, data: bytes) -> None:
    if data:  # an empty chunk would be the end
        await client.send_chunk(data)


async def read_answer_head(upstream: PacedReader) -> bytes:
    """Return the head of the final answer, without interim ones (1xx). Raises ValueError if these do not end."""
    for _ in range(MOST_INTERIM):
        head = await upstream.until(b"\r\n\r\n", LARGEST_HEAD)
        if not head.startswith((b"HTTP/1.1 1", b"HTTP/1.0 1")):
            return head
    raise ValueError("nothing but interim answers")


def parse_answer_head(raw: bytes) -> tuple[int, dict[str, str]]:
    """Return the status and the headers of an answer, names in lower case; the first of each name counts. Raises
    ValueError."""
    status, *lines = raw.removesuffix(b"\r\n\r\n").decode("latin-1").split("\r\n", MOST_LINES)
    if len(lines) >= MOST_LINES or _STATUS.match(status.lower().encode("latin-1")) is None:
        raise ValueError("no answer of HTTP/1.1")
    found: dict[str, str] = {}
    for line in lines:
        name, colon, value = line.partition(":")
        if not colon or not _TOKEN.match(name):
            raise ValueError("a header line that can be read in two ways")
        found.setdefault(name.lower(), value.strip(" \t"))
    if "transfer-encoding" in found:
        found.pop("content-length", None)
    return int(status.split(" ", 2)[1]), found


def _is_chunked(head: bytes, target: EgressTarget) -> bool:
    """Return True if it comes in chunks. Raises Refusal if something could be hidden in its body."""
    status, *lines = head.lower().removesuffix(b"\r\n\r\n").split(b"\r\n", MOST_LINES)
    if len(lines) == MOST_LINES:
        raise HttpRefusal(502, f"{target} answers with a head of {MOST_LINES} lines or more", str(target))
    if _STATUS.match(status) is None or not all(map(_FIELD.match, lines)):
        # A client might read it otherwise than it was read here: folded lines, lines that end with one sign alone.
        raise HttpRefusal(502, f"{target} answers with a head that can be read in two ways", str(target))
    fields = [line.partition(b":") for line in lines]
    codings = [value.strip() for name, _, value in fields if name == b"transfer-encoding"]
    packed = [value.strip() for name, _, value in fields if name == b"content-encoding"]
    if codings not in ([], [b"chunked"]) or any(each not in (b"", b"identity") for each in packed):
        raise HttpRefusal(502, f"{target} packs its answers, so a secret in one could not be struck out", str(target))
    return bool(codings)


class _State(Enum):
    SIZE = auto()
    DATA = auto()
    DATA_END = auto()
    LAST = auto()
    DONE = auto()


class ChunkDecoder:
    """Fed with bytes as they come; `take` until it says that more must be fed."""

    def __init__(self, limit: int) -> None:
        self._limit, self._seen = limit, 0
        self._buffer, self._at = b"", 0
        self._searched = 0  # how far the buffer was searched for the end of a line
        self._left = 0  # bytes of the present chunk
        self._state = _State.SIZE

    @property
    def done(self) -> bool:
        return self._state is _State.DONE

    def feed(self, data: bytes) -> None:
        """All that was fed before must have been taken."""
        self._buffer = self._buffer[self._at :] + data
        self._searched -= self._at
        self._at = 0

    def read_chunk(self) -> tuple[bytes, int] | None:
        """Return what the next chunks hold, joined, and how many chunks began. None: more must be fed, or the body is
        done. Raises ValueError, TooLarge."""
        out: list[bytes] = []
        begun = 0
        while begun < MOST_CHUNKS and self._state is not _State.DONE:
            if self._state is _State.DATA:
                piece = self._data()
                if not piece:
                    break
                out.append(piece)
                continue
            if self._state is _State.SIZE and (whole := self._read_whole(out, MOST_CHUNKS - begun)):
                begun += whole
                continue
            line = self._line()
            if line is None:
                break
            if self._state is _State.SIZE:
                self._begin(line)
                begun += 1
            elif line:
                raise ValueError("something stands where a chunk, or the body, should end")
            else:
                self._state = _State.SIZE if self._state is _State.DATA_END else _State.DONE
        return (b"".join(out), begun) if out or begun else None

    def _read_whole(self, out: list[bytes], most: int) -> int:
        """Chunks that are there from their head to their end, which most are: several times faster than step by step.
        Stops at the first one about which there is anything to say."""
        buffer, at, begun = self._buffer, self._at, 0
        while begun < most:
            head = _SIZE_LINE.match(buffer, at)
            if head is None or head.end() - at > LARGEST_LINE:
                break
            start, size = head.end(), int(head[1], 16)
            end = start + size
            if not size or self._seen + size > self._limit or buffer[end : end + 2] != _END:
                break
            out.append(buffer[start:end])
            self._seen += size
            at = end + 2
            begun += 1
        self._at = at
        return begun

    def _data(self) -> bytes:
        piece = self._buffer[self._at : self._at + self._left]
        self._at += len(piece)
        self._left -= len(piece)
        if not self._left:
            self._state = _State.DATA_END
        return piece

    def _begin(self, line: bytes) -> None:
        found = _SIZE.match(line)
        if not found:
            raise ValueError("no size of a chunk")
        self._left = int(found[1], 16)
        self._seen += self._left
        if self._seen > self._limit:
            raise TooLarge
        self._state = _State.DATA if self._left else _State.LAST

    def _line(self) -> bytes | None:
        """The next one without its end; None: its end has not come."""
        end = self._buffer.find(_END, max(self._at, self._searched - 1))
        size = (end if end >= 0 else len(self._buffer)) - self._at
        if size + len(_END) > LARGEST_LINE:
            raise ValueError("a line that is too long")
        if end < 0:
            self._searched = len(self._buffer)
            return None
        line = self._buffer[self._at : end]
        if b"\r" in line or b"\n" in line:
            raise ValueError("a line that ends with one sign alone")
        self._at = self._searched = end + len(_END)
        return line
