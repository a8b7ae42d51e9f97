"""Server-sent events: the messages of an event stream, and the place where the next stream continues."""

from __future__ import annotations

from gatepost.serve.agents.bridge.http import BridgeResponse

RETRY_S, LONGEST_RETRY_S = 1.0, 30.0


class EventStreamReader:
    def __init__(self) -> None:
        self.last_id, self.retry_s = "", RETRY_S
        self._buffer = bytearray()

    def start(self) -> None:
        """The next event is of another stream."""
        self._buffer.clear()

    async def next(self, response: BridgeResponse) -> bytes:
        """The next message; nothing at the end."""
        data: list[bytes] = []
        other = False  # an event that is no message
        while (line := await self._line(response)) is not None:
            name, _, value = line.partition(b":")
            value = value.removeprefix(b" ")
            if name == b"data":
                data.append(value)
            elif name == b"event":
                other = value != b"message"
            elif name == b"id" and min(value, default=32) >= 32:  # it becomes a header
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
