"""Unix sockets: the owner's alone from the first moment, never in the place of something else, and who is at the other
end of them."""

import contextlib
import os
import secrets
import select
import socket
import stat
import struct
import sys
from collections.abc import Iterator
from pathlib import Path

from gatepost.core import error_classification
from gatepost.core.errors import SetupError
from gatepost.core.home import LONGEST_SOCKET_PATH

BACKLOG = 512
OWNER_ONLY = 0o600
_SO_PASSRIGHTS = 83  # Linux 6.16; Python has no name for it
_CREDENTIALS = struct.Struct("3i")
_SOL_LOCAL, _LOCAL_PEERPID = 0, 2  # macOS, where Python has no names for them


def bind_unix(path: Path, uid: int | None = None) -> socket.socket:
    """A listening socket at `path`: made under a name that nobody knows, given to `uid`, and only then put in place."""
    size = len(os.fsencode(path))
    if size > LONGEST_SOCKET_PATH:
        raise SetupError(
            f"the socket path {path} has {size} bytes, and a socket path has at most {LONGEST_SOCKET_PATH} bytes;"
            " choose a shorter one (a shorter --home, or GATEPOST_CONTROL_SOCK for the control socket)"
        )
    _remove_dead_socket(path)
    hidden = path.with_name("." + secrets.token_hex(8)[: max(len(path.name) - 1, 1)])
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    before = os.umask(0o777 & ~OWNER_ONLY)
    try:
        listener.bind(os.fspath(hidden))
        if uid is not None:
            os.chown(hidden, uid, -1)
        refuse_descriptors(listener)
        listener.listen(BACKLOG)
        os.rename(hidden, path)
    except OSError as error:
        listener.close()
        hidden.unlink(missing_ok=True)
        otherwise = SetupError(f"the socket {path} cannot be made: {error.strerror}")
        raise error_classification.to_gatepost_error(f"the socket {path}", error, otherwise) from None
    finally:
        os.umask(before)
    listener.setblocking(False)
    return listener


def refuse_descriptors(sock: socket.socket) -> bool:
    """Nobody sends descriptors over this socket, nor over the connections that it accepts. False: this kernel cannot.

    The kernel closes a descriptor that nobody receives in the thread that reads the bytes beside it. A close may take
    long (a TCP socket that lingers, a deleted file of many pieces), and everybody waits for that thread.
    """
    if sys.platform != "linux":
        return False
    try:
        sock.setsockopt(socket.SOL_SOCKET, _SO_PASSRIGHTS, 0)
    except OSError:
        return False
    return True


def can_refuse_descriptors() -> bool:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        return refuse_descriptors(probe)


@contextlib.contextmanager
def remove_at_exit(path: Path) -> Iterator[None]:
    """Take the file away at the end, if it is still the one that was there at the beginning."""
    before = path.lstat()
    try:
        yield
    finally:
        with contextlib.suppress(OSError):
            now = path.lstat()
            if (now.st_dev, now.st_ino) == (before.st_dev, before.st_ino):
                path.unlink()


def _remove_dead_socket(path: Path) -> None:
    """Remove a dead socket; refuse anything else that lies there."""
    try:
        found = path.lstat()
    except FileNotFoundError:
        return
    except OSError as error:
        otherwise = SetupError(f"the socket {path} cannot be made: {error.strerror}")
        raise error_classification.to_gatepost_error(f"the socket {path}", error, otherwise) from None
    if not stat.S_ISSOCK(found.st_mode):
        raise SetupError(f"{path} is not a socket and is left as it is; move it away or choose another path")
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.setblocking(False)
        try:
            probe.connect(os.fspath(path))
        except (ConnectionRefusedError, FileNotFoundError):
            path.unlink(missing_ok=True)
            return
        except BlockingIOError:
            pass  # its queue is full: somebody has it open
        except OSError as error:
            otherwise = SetupError(f"{path} is a socket that cannot be asked who serves it: {error.strerror}")
            raise error_classification.to_gatepost_error(f"the socket {path}", error, otherwise) from None
    raise SetupError(f"somebody already serves on {path}; stop it, or choose another path")


def peer_pid(sock: socket.socket) -> int:
    """The process that connected, as this process sees its number; 0 if the kernel does not tell."""
    try:
        if hasattr(socket, "SO_PEERCRED"):
            answer = sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
            return int(_CREDENTIALS.unpack(answer)[0])
        return sock.getsockopt(_SOL_LOCAL, _LOCAL_PEERPID)
    except OSError:
        return 0


def is_hung_up(sock: socket.socket) -> bool:
    """Return True if the peer has closed both directions, not only its own."""
    poll = select.poll()
    poll.register(sock.fileno(), 0)
    return bool(poll.poll(0))
