"""A byte pump between stdin/stdout and a unix socket, for clients that speak MCP over stdio. Messages are opaque to it.

    python -I -S bridge.py SOCKET        gatepost bridge --socket SOCKET

The standard library alone, and little of it: an agent waits for it at every start. When stdin ends, the socket's half
is closed, and what is still answered is passed on. A gateway that hangs up before any answer has turned us away.
"""

import os
import select
import socket
import sys

CHUNK = 256 * 1024
SMALL = 4096  # a pipe that says it is writable takes this much without blocking
PATIENCE_MS = 10_000  # how long answers may take after stdin has ended
HUNG_UP = "the gateway closed the connection"
TURNED_AWAY = f"{HUNG_UP}: only processes of that session's sandbox may connect"
USAGE = "usage: gatepost bridge --socket PATH"

_READ = select.POLLIN
_NOT = -1  # not asked at all: a hang-up that cannot be acted on yet would be told again and again
_GONE = select.POLLHUP | select.POLLERR | select.POLLNVAL


def command(path: str) -> list[str]:
    """How a client in the same sandbox starts it."""
    return [sys.executable, "-I", "-S", __file__, "--socket", path]


class PumpBuffer:
    """One direction: a kept buffer and what of it is not written yet."""

    def __init__(self) -> None:
        self.buffer = bytearray(CHUNK)
        self.view = memoryview(self.buffer)
        self.start = self.end = 0

    @property
    def waiting(self) -> bool:
        return self.start < self.end

    def filled(self, size: int) -> None:
        self.start, self.end = 0, size

    def rest(self, most: int = CHUNK) -> memoryview:
        return self.view[self.start : min(self.end, self.start + most)]


def pump(link: socket.socket, source: int, sink: int) -> str:
    """Until both sides are done. '' if that was orderly, else what the gateway did."""
    link.setblocking(False)
    wire, poll = link.fileno(), select.poll()
    up, down = PumpBuffer(), PumpBuffer()
    reading = True  # stdin is open
    answered = False
    asked = {source: _NOT, sink: _NOT, wire: _NOT}
    while True:
        _ask(poll, asked, source, _READ if reading and not up.waiting else _NOT)
        _ask(poll, asked, sink, select.POLLOUT if down.waiting else 0)  # 0: tell only if its reader is gone
        _ask(poll, asked, wire, (0 if down.waiting else _READ) | (select.POLLOUT if up.waiting else 0) or _NOT)
        ready = dict(poll.poll(None if reading or up.waiting else PATIENCE_MS))
        if not ready:
            return ""  # nobody answers any more
        if ready.get(sink, 0) & _GONE:
            return ""  # whoever started us has left
        if down.waiting and ready.get(sink, 0) & select.POLLOUT:
            down.start += os.write(sink, down.rest(SMALL))
        if not up.waiting and ready.get(source, 0) & (_READ | _GONE):
            up.filled(os.readv(source, [up.buffer]))
            reading = up.waiting
            if not reading:
                _shut(link)
        if up.waiting:
            up.start += _send(link, up.rest())
        if not down.waiting and ready.get(wire, 0) & (_READ | _GONE):
            size = _receive(link, down.buffer)
            if not size:
                return TURNED_AWAY if not answered else HUNG_UP if reading else ""
            down.filled(size)
            answered = True


def _ask(poll: "select.poll", asked: dict[int, int], fd: int, events: int) -> None:
    """Tell the kernel what is wanted of a descriptor, if that has changed."""
    if asked[fd] == events:
        return
    if events == _NOT:
        poll.unregister(fd)
    else:
        poll.register(fd, events)
    asked[fd] = events


def _send(link: socket.socket, data: memoryview) -> int:
    try:
        return link.send(data)
    except BlockingIOError:
        return 0
    except (BrokenPipeError, ConnectionResetError):
        return len(data)  # nobody takes it; what was answered before is still read


def _shut(link: socket.socket) -> None:
    try:
        link.shutdown(socket.SHUT_WR)
    except OSError:
        return  # it hung up; what it said before is still read


def _receive(link: socket.socket, buffer: bytearray) -> int:
    try:
        return link.recv_into(buffer)
    except ConnectionResetError:
        return 0


def main(arguments: list[str]) -> int:
    wanted = [each.removeprefix("--socket=") for each in arguments if each != "--socket"]
    if len(wanted) != 1 or wanted[0].startswith("-"):
        sys.stderr.write(f"{USAGE}\n")
        return 2
    link = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        link.connect(wanted[0])
    except OSError as error:
        sys.stderr.write(
            f"gatepost bridge: {wanted[0]} cannot be reached: {error.strerror or error}; is the session awake?\n"
        )
        return 1
    try:
        trouble = pump(link, 0, 1)
    except BrokenPipeError:
        return 0  # whoever read us has enough
    except KeyboardInterrupt:
        return 130
    if trouble:
        sys.stderr.write(f"gatepost bridge: {trouble}\n")
    return 1 if trouble else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
