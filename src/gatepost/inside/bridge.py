"""A byte pump between stdin/stdout and a unix socket, for clients that speak MCP over stdio. Messages are opaque to it.

    python -I -S bridge.py SOCKET        gatepost bridge --socket SOCKET

It imports a small part of the standard library: an agent waits for it at every start. Each direction is a thread that
blocks. When stdin ends, the socket's half is closed, and later answers are still passed on. A gateway that hangs up
before any answer has refused the connection.
"""

import _socket as socket  # the other one makes enumerations at every start
import _thread
import os
import select
import sys
import time

PYTHON_LIBRARIES = "GATEPOST_PYTHON_LIBRARIES"  # where our interpreter finds its own library, if nothing else says so
CHUNK = 256 * 1024
PATIENCE_S = 10.0  # how long answers may take after stdin has ended
HUNG_UP = "the gateway closed the connection"
TURNED_AWAY = f"{HUNG_UP}: only processes of that session's sandbox may connect"
USAGE = "usage: gatepost bridge --socket PATH"


def get_python_variables() -> dict[str, str]:
    """Return what a program that our interpreter runs is to be given besides its environment."""
    libraries = os.environ.get(PYTHON_LIBRARIES, "")
    return {"LD_LIBRARY_PATH": libraries} if libraries else {}


def command(path: str) -> list[str]:
    """How a client in the same sandbox starts it."""
    given = [f"{name}={value}" for name, value in get_python_variables().items()]
    before = ["/usr/bin/env", *given] if given else []
    return [*before, sys.executable, "-I", "-S", __file__, "--socket", path]


class BytePump:
    def __init__(self, link: socket.socket, source: int, sink: int) -> None:
        self._link, self._source, self._sink = link, source, sink
        self._reading = True  # stdin is open
        self._received = 0  # how often the gateway has sent something

    def run(self) -> str:
        """Until both sides are done. '' if that was orderly, else what the gateway did."""
        _thread.start_new_thread(self._wait_for_reader, ())
        _thread.start_new_thread(self._send, ())
        buffer = bytearray(CHUNK)
        view = memoryview(buffer)
        while size := self._receive(buffer):
            self._received += 1
            start = 0
            while start < size:
                start += os.write(self._sink, view[start:size])
        return TURNED_AWAY if not self._received else HUNG_UP if self._reading else ""

    def _receive(self, buffer: bytearray) -> int:
        try:
            return self._link.recv_into(buffer)
        except ConnectionResetError:
            return 0

    def _send(self) -> None:
        """From stdin to the socket; then end the process when nobody answers any more."""
        buffer = bytearray(CHUNK)
        view = memoryview(buffer)
        try:
            while size := os.readv(self._source, [buffer]):
                self._link.sendall(view[:size])
            self._reading = False
            self._link.shutdown(socket.SHUT_WR)
        except OSError:
            return  # the gateway hung up; what it sent before is still read
        received = -1
        while received != self._received:
            received = self._received
            time.sleep(PATIENCE_S)
        os._exit(0)

    def _wait_for_reader(self) -> None:
        """End the process when nobody reads its output: a pipe tells that also while nothing is written."""
        poll = select.poll()
        poll.register(self._sink, 0)
        poll.poll()
        os._exit(0)


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
    for fd in (0, 1):
        os.set_blocking(fd, True)  # a client may have given us its own end
    try:
        trouble = BytePump(link, 0, 1).run()
    except BrokenPipeError:
        return 0  # whoever read us has enough
    except KeyboardInterrupt:
        return 130
    if trouble:
        sys.stderr.write(f"gatepost bridge: {trouble}\n")
    return 1 if trouble else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
