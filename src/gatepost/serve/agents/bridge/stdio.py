"""The client's side: lines from stdin, messages to stdout, and everything else to stderr."""

from __future__ import annotations

import os
import select
import stat
from _collections_abc import Callable

from gatepost.serve.agents.bridge.loop import GONE, PollCondition, PollLoop, PollWait

CHUNK = 64 * 1024

read_buffer = memoryview(bytearray(CHUNK))  # a fresh one for every read would cost its pages anew


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
