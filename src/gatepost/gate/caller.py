"""Who is on the other end of a socket: its group is known by which socket it is, its sandbox by the peer's pid."""

import select
import socket
import struct

from gatepost.tools.contract import Caller

__all__ = ["Caller", "hung_up", "peer_pid"]

_CREDENTIALS = struct.Struct("3i")
_SOL_LOCAL, _LOCAL_PEERPID = 0, 2  # macOS, where Python has no names for them


def peer_pid(sock: socket.socket) -> int:
    """The process that connected, as this process sees its number; 0 if the kernel does not tell."""
    try:
        if hasattr(socket, "SO_PEERCRED"):
            answer = sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
            return int(_CREDENTIALS.unpack(answer)[0])
        return sock.getsockopt(_SOL_LOCAL, _LOCAL_PEERPID)
    except OSError:
        return 0


def hung_up(sock: socket.socket) -> bool:
    """Whether the peer has closed both directions, not only its own."""
    poll = select.poll()
    poll.register(sock.fileno(), 0)
    return bool(poll.poll(0))
