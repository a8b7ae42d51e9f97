"""`runner.sock`, the host's end: one connection of one runner, framed by lines, bounded in size and in number.

Frames are taken off the connection in order and handed over in batches; a runner that talks faster than the ledger can
write is not read from until it has caught up.
"""

import asyncio
from collections.abc import Callable

import msgspec

from gatepost.core.sockets import peer_pid
from gatepost.mailbox import wire

MOST_WAITING = 256


class Line(asyncio.Protocol):
    """One connection. `frames()` gives what has arrived; `lost` is set when it is over."""

    def __init__(self, admit: Callable[["Line", int], bool]) -> None:
        self._admit = admit
        self._buffer = bytearray()
        self._frames: list[wire.FromRunner] = []
        self._arrived = asyncio.Event()
        self._paused = self._full = False
        self._transport: asyncio.Transport | None = None
        self.fault = ""
        self.lost = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override] # uvloop's has no such base
        if not self._admit(self, peer_pid(transport.get_extra_info("socket"))):
            self.lost = True
            transport.abort()
            return
        self._transport = transport

    def pause_writing(self) -> None:
        """It does not read what it is told: then it is not read either."""
        self._full = True
        self._hold()

    def resume_writing(self) -> None:
        self._full = False
        self._release()

    def _hold(self) -> None:
        if self._transport is not None and not self._paused:
            self._paused = True
            self._transport.pause_reading()

    def _release(self) -> None:
        if self._transport is not None and self._paused and not self._full and len(self._frames) <= MOST_WAITING:
            self._paused = False
            self._transport.resume_reading()

    def connection_lost(self, exc: Exception | None) -> None:
        self.lost = True
        self._transport = None
        self._arrived.set()

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        start = 0
        while (end := self._buffer.find(b"\n", start)) >= 0:
            if end - start > wire.LARGEST:
                return self._fail(f"a message of more than {wire.LARGEST} bytes")
            try:
                self._frames.append(wire.read_from_runner(bytes(self._buffer[start:end])))
            except msgspec.DecodeError as error:
                return self._fail(f"a message that cannot be read: {error}")
            start = end + 1
        del self._buffer[:start]
        if len(self._buffer) > wire.LARGEST:
            return self._fail(f"a message of more than {wire.LARGEST} bytes")
        if self._frames:
            self._arrived.set()
        if len(self._frames) > MOST_WAITING:
            self._hold()
        return None

    async def frames(self) -> list[wire.FromRunner]:
        """What has arrived since the last call, at least one; empty when the connection is over."""
        await self._arrived.wait()
        taken, self._frames = self._frames, []
        if not self.lost:
            self._arrived.clear()
        self._release()
        return taken

    def send(self, frame: wire.Frame) -> None:
        if self._transport is not None:
            self._transport.write(wire.line(frame))

    def close(self) -> None:
        if self._transport is not None:
            self._transport.close()

    def _fail(self, fault: str) -> None:
        self.fault = fault
        self.lost = True
        if self._transport is not None:
            self._transport.abort()
        self._arrived.set()
