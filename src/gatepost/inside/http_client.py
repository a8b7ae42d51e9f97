"""Requests to a model's endpoint, over TCP or over `egress.sock`: just enough of HTTP/1.1, on asyncio and nothing else.

One request a connection. An answer may take long and come in pieces. If it ends early, or a silence lasts too long,
`IncompleteResponse` is raised. The request may then be made again, because nobody has seen anything of its answer.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Coroutine, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import msgspec

LARGEST = 64 * 1024 * 1024  # bytes of an answer
LONGEST_LINE = 1024 * 1024
LONGEST_WAIT = 604_800.0  # seconds; nobody is asked to wait longer than a week


class IncompleteResponse(Exception):
    """No whole answer came, and why."""


class ClientEndpoint(msgspec.Struct, frozen=True):
    """The target of requests: a host, or a socket; and what the paths begin with."""

    prefix: str = ""
    host: str = ""
    port: int = 0
    tls: bool = False
    socket: Path | None = None

    @property
    def authority(self) -> str:
        return f"{self.host}:{self.port}" if self.host else "egress"


def parse_endpoint(base: str) -> ClientEndpoint:
    """From a base URL. Raises ValueError, with what is wrong about it."""
    parts = urlsplit(base.strip())
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError(f"{base!r} is no base URL; write it like http://127.0.0.1:8080/v1")
    tls = parts.scheme == "https"
    return ClientEndpoint(
        prefix=parts.path.rstrip("/"), host=parts.hostname, port=parts.port or (443 if tls else 80), tls=tls
    )


class ClientResponse:
    """A status and headers, and a body that is still coming."""

    def __init__(self, reader: asyncio.StreamReader, silence: float) -> None:
        self._reader, self._silence = reader, silence
        self.status = 0
        self.headers: dict[str, str] = {}

    @property
    def is_stream(self) -> bool:
        return "text/event-stream" in self.headers.get("content-type", "")

    @property
    def retry_after(self) -> float | None:
        return parse_retry_after(self.headers.get("retry-after", ""), time.time())

    async def read_head(self) -> None:
        while not self.status or self.status == 100:
            first = (await self._line()).split(None, 2)
            if len(first) < 2 or not first[0].startswith(b"HTTP/1.") or not first[1].isdigit():
                raise IncompleteResponse("the model's endpoint does not speak HTTP")
            self.status = int(first[1])
            while line := await self._line():
                name, _, value = line.partition(b":")
                self.headers[name.decode("latin-1").lower()] = value.decode("latin-1").strip()

    async def read(self, largest: int = LARGEST) -> bytes:
        parts, size = [], 0
        announced = self.headers.get("content-length", "")
        if announced.isdigit() and int(announced) > largest:
            raise IncompleteResponse("the model's answer is too large")
        async for part in self._parts():
            size += len(part)
            if size > largest:
                raise IncompleteResponse("the model's answer is too large")
            parts.append(part)
        return b"".join(parts)

    async def events(self) -> AsyncIterator[bytes]:
        """The data of one server-sent event after another."""
        rest, size = b"", 0
        data: list[bytes] = []
        async for part in self._parts():
            size += len(part)
            *lines, rest = (rest + part).split(b"\n")
            if size > LARGEST or len(rest) > LARGEST:
                raise IncompleteResponse("the model's answer is too large")
            for line in lines:
                line = line.rstrip(b"\r")
                if line.startswith(b"data:"):
                    data.append(line[5:].lstrip(b" "))
                elif not line and data:
                    yield b"\n".join(data)
                    data = []
        if rest.startswith(b"data:"):  # some end without an empty line
            data.append(rest[5:].strip())
        if data:
            yield b"\n".join(data)

    async def _parts(self) -> AsyncIterator[bytes]:
        if self.headers.get("transfer-encoding", "").lower() == "chunked":
            while size := await self._chunk_size():
                yield await self._exactly(size)
                await self._line()
        elif length := self.headers.get("content-length"):
            if not length.isdigit() or int(length) > LARGEST:
                raise IncompleteResponse("the model's answer is too large")
            yield await self._exactly(int(length))
        else:
            while part := await self._with_timeout(self._reader.read(65536)):
                yield part

    async def _chunk_size(self) -> int:
        line = (await self._line()).split(b";")[0]
        try:
            size = int(line, 16)
        except ValueError:
            raise IncompleteResponse("the model's answer broke off") from None
        if not 0 <= size <= LARGEST:
            raise IncompleteResponse("the model's answer is too large")
        return size

    async def _line(self) -> bytes:
        line = await self._with_timeout(self._reader.readline())
        if not line.endswith(b"\n"):
            raise IncompleteResponse("the model's answer broke off")
        return line.rstrip(b"\r\n")

    async def _exactly(self, size: int) -> bytes:
        return await self._with_timeout(self._reader.readexactly(size))

    async def _with_timeout(self, reading: Coroutine[Any, Any, bytes]) -> bytes:
        try:
            async with asyncio.timeout(self._silence):
                return await reading
        except TimeoutError:
            raise IncompleteResponse(f"the model said nothing for {self._silence:g} seconds") from None
        except (OSError, EOFError, ValueError) as error:  # ValueError: a line beyond all bounds
            raise IncompleteResponse(f"the model's answer broke off ({type(error).__name__})") from None


def post_request(
    endpoint: ClientEndpoint, path: str, headers: Mapping[str, str], body: bytes, silence: float
) -> AbstractAsyncContextManager[ClientResponse]:
    """Make a request; the answer's head has come when the block begins. Leaving the block ends it. Raises
    IncompleteResponse."""
    about = {"content-type": "application/json", "content-length": str(len(body)), **headers}
    return _send_request("POST", endpoint, path, about, body, silence)


def get_request(
    endpoint: ClientEndpoint, path: str, headers: Mapping[str, str], silence: float
) -> AbstractAsyncContextManager[ClientResponse]:
    """The same without a body."""
    return _send_request("GET", endpoint, path, headers, b"", silence)


@asynccontextmanager
async def _send_request(
    method: str, endpoint: ClientEndpoint, path: str, headers: Mapping[str, str], body: bytes, silence: float
) -> AsyncIterator[ClientResponse]:
    try:
        async with asyncio.timeout(silence):
            reader, writer = await _connect(endpoint)
    except (OSError, TimeoutError) as error:
        why = getattr(error, "strerror", None) or "no answer"
        raise IncompleteResponse(f"the model's endpoint at {endpoint.authority} cannot be reached: {why}") from None
    try:
        about = {"host": endpoint.authority, "connection": "close", **headers}
        lines = [f"{method} {endpoint.prefix}{path} HTTP/1.1", *(f"{name}: {value}" for name, value in about.items())]
        writer.write("\r\n".join([*lines, "", ""]).encode() + body)
        response = ClientResponse(reader, silence)
        await response.read_head()
        yield response
    finally:
        writer.close()


async def _connect(endpoint: ClientEndpoint) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    if endpoint.socket is not None:
        return await asyncio.open_unix_connection(str(endpoint.socket), limit=LONGEST_LINE)
    return await asyncio.open_connection(
        endpoint.host, endpoint.port, ssl=True if endpoint.tls else None, limit=LONGEST_LINE
    )


def parse_retry_after(text: str, now: float) -> float | None:
    """Seconds, from a number or a date; None if it is neither."""
    try:
        seconds = float(text)
    except ValueError:
        try:
            seconds = parsedate_to_datetime(text).timestamp() - now
        except ValueError:
            return None
    return min(max(seconds, 0.0), LONGEST_WAIT) if seconds == seconds else None
