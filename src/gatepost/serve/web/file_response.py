"""A file as an answer: piece by piece, a range of it, or nothing if the browser has it already."""

import os
import re
from collections.abc import AsyncIterator, Mapping
from functools import partial

from msgspec import Struct
from starlette.datastructures import Headers
from starlette.responses import Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from gatepost.core import log
from gatepost.core.process.thread_pools import BoundedThreadPool
from gatepost.serve.http import AnswerCutShort

_log = log.get("web")
CHUNK = 256 * 1024
_RANGE = re.compile(r"bytes=([0-9]{0,18})-([0-9]{0,18})\Z")


class ByteRange(Struct, frozen=True):
    """`end` is the first byte that is not sent."""

    start: int
    end: int


def parse_range(header: str, size: int) -> ByteRange | None:
    """One range; several at once are answered by the whole file. Raises ValueError if the file has no such bytes."""
    found = _RANGE.match(header.strip())
    if found is None or not any(found.groups()):
        return None
    first, last = found.groups()
    start = int(first) if first else max(size - int(last), 0)
    end = min(int(last) + 1, size) if first and last else size
    if first and last and int(last) < int(first):
        return None
    if start >= end:
        raise ValueError("there is nothing")
    return ByteRange(start, end)


class OpenFile(Struct, frozen=True):
    """An open file; its holder closes `fd`."""

    fd: int
    size: int
    tag: str
    media_type: str


def make_open_file(fd: int, media_type: str) -> OpenFile:
    found = os.fstat(fd)
    return OpenFile(fd, found.st_size, f'"{found.st_ino:x}-{found.st_ctime_ns:x}-{found.st_size:x}"', media_type)


class OpenFileResponse:
    """Closes the file, whatever happens."""

    def __init__(self, file: OpenFile, headers: Mapping[str, str], threads: BoundedThreadPool) -> None:
        self._file, self._headers, self._threads = (
            file,
            {**headers, "etag": file.tag, "accept-ranges": "bytes"},
            threads,
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            answer = self._make(Headers(scope=scope), has_body=scope["method"] != "HEAD")
            await answer(scope, receive, send)
        finally:
            os.close(self._file.fd)

    def _make(self, asked: Headers, *, has_body: bool) -> Response:
        if self._file.tag in asked.get("if-none-match", ""):
            return Response(status_code=304, headers=self._headers)
        size, status, headers = self._file.size, 200, dict(self._headers)
        try:
            wanted = parse_range(asked.get("range", ""), size) if self._is_current(asked) else None
        except ValueError:
            return Response(status_code=416, headers={**headers, "content-range": f"bytes */{size}"})
        if wanted is not None:
            status, headers["content-range"] = 206, f"bytes {wanted.start}-{wanted.end - 1}/{size}"
        part = wanted or ByteRange(0, size)
        headers["content-length"] = str(part.end - part.start)
        if not has_body:
            return Response(status_code=status, headers=headers)
        return StreamingResponse(self._read(part), status, headers)

    def _is_current(self, asked: Headers) -> bool:
        return asked.get("if-range", self._file.tag) == self._file.tag

    async def _read(self, part: ByteRange) -> AsyncIterator[bytes]:
        """As many bytes as were promised. A file that became shorter meanwhile ends the connection: its owner may do
        that at will."""
        at = part.start
        while at < part.end:
            try:
                chunk = await self._threads.run(partial(os.pread, self._file.fd, min(CHUNK, part.end - at), at))
            except OSError:
                chunk = b""
            if not chunk:
                _log.info("a file became shorter while it was sent", size=self._file.size, sent=at - part.start)
                raise AnswerCutShort
            at += len(chunk)
            yield chunk
