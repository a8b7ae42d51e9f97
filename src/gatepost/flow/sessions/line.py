"""`runner.sock`, the host's end: one connection of one runner, framed by lines, bounded in size and in number.

Frames are taken off the connection in order and handed over in batches; a runner that talks faster than the ledger can
write is not read from until it has caught up.
"""

import asyncio
import os
import socket
import struct
import sys
from collections.abc import Callable
from pathlib import Path

import msgspec

from gatepost.core.errors import SetupError
from gatepost.core.home import LONGEST_SOCKET_PATH
from gatepost.mailbox import wire

MOST_WAITING = 256


class Line(asyncio.Protocol):
    """One connection. `frames()` gives what has arrived; `lost` is set when it is over."""

    def __init__(self, admit: Callable[["Line", int], bool]) -> None:
        self._admit = admit
        self._buffer = bytearray()
        self._frames: list[wire.FromRunner] = []
        self._arrived = asyncio.Event()
        self._paused = False
        self._transport: asyncio.Transport | None = None
        self.fault = ""
        self.lost = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override] # uvloop's has no such base
        if not self._admit(self, peer_pid(transport)):
            self.lost = True
            transport.abort()
            return
        self._transport = transport

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
        if len(self._frames) > MOST_WAITING and not self._paused and self._transport is not None:
            self._paused = True
            self._transport.pause_reading()
        return None

    async def frames(self) -> list[wire.FromRunner]:
        """What has arrived since the last call, at least one; empty when the connection is over."""
        await self._arrived.wait()
        taken, self._frames = self._frames, []
        if not self.lost:
            self._arrived.clear()
        if self._paused and self._transport is not None:
            self._paused = False
            self._transport.resume_reading()
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


def peer_pid(transport: asyncio.BaseTransport) -> int:
    """The pid that connected, as this process sees it; 0 where the system does not tell."""
    if sys.platform != "linux":
        return 0
    sock = transport.get_extra_info("socket")
    pid, _, _ = struct.unpack("3i", sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
    return int(pid)


def bind_private(path: Path, uid: int | None = None) -> socket.socket:
    """A listening socket that belongs to its owner alone from the first moment: made under another name in the same
    folder, given away, then renamed into place."""
    if len(os.fsencode(path)) > LONGEST_SOCKET_PATH - 4:
        raise SetupError(
            f"the socket path {path} is too long (107 bytes are the system's limit); choose a shorter home"
        )
    fresh = path.with_name(f".{path.name[:2]}")
    for each in (fresh, path):
        if each.is_socket():
            each.unlink()
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    before = os.umask(0o177)
    try:
        sock.bind(str(fresh))
    finally:
        os.umask(before)
    if uid is not None:
        os.chown(fresh, uid, uid)
    sock.listen(16)
    sock.setblocking(False)
    fresh.rename(path)
    return sock
