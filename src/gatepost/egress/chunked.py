"""Chunked bodies, decoded in one pass over the bytes, however small the chunks are. Pure.

Read strictly: a line that two parsers could end at different places is an error, and so are trailers.
"""

import re
from enum import Enum, auto

LARGEST_LINE = 8 * 1024  # of a chunk's head or a trailer
MOST_CHUNKS = 256  # that are decoded without a break
CHARGE = 2048  # bytes of its session's rate that a chunk costs besides its own, so that tiny ones are slowed

_HEAD = rb"([0-9A-Fa-f]{1,12})(?:[ \t]*;[\t\x20-\x7e]*)?"
_SIZE = re.compile(_HEAD + rb"\Z")
_SIZE_LINE = re.compile(_HEAD + rb"\r\n")
_END = b"\r\n"


class TooLarge(Exception):
    """The chunks announce more bytes than the limit."""


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
