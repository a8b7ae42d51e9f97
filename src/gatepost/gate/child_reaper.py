"""Keeps one program and all that comes of it, and ends all of it when told: `python -I -S child_reaper.py PROGRAM …`.

A script that uses the standard library alone. It stands between the gateway and a server, so that every process that
the server starts stays below us, even one in a session of its own. It ends all of them on SIGTERM, or when the gateway
ends.
"""

import contextlib
import ctypes
import os
import signal
import sys
from collections.abc import Iterator
from typing import NoReturn

_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER = 1, 36


def main(command: list[str]) -> NoReturn:
    """Start it, and wait for the word. That it ended by itself is seen by its pipes, which we do not hold."""
    _close_strays()
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM, signal.SIGCHLD})
    above = os.getppid()
    system = ctypes.CDLL(None)
    system.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    system.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
    if os.getppid() != above:
        sys.exit()
    as_usual = [signal.SIGPIPE, signal.SIGXFSZ, signal.SIGINT]  # Python has its own ways with them
    try:
        os.posix_spawnp(command[0], command, os.environ, setsid=True, setsigmask=(), setsigdef=as_usual)
    except OSError as error:
        sys.exit(f"{command[0]} cannot be started: {error.strerror}")
    nothing = os.open(os.devnull, os.O_RDWR)
    for fd in range(3):
        os.dup2(nothing, fd)
    while signal.sigwait({signal.SIGTERM, signal.SIGCHLD}) != signal.SIGTERM:
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
    _end_all()
    sys.exit()


def _close_strays() -> None:
    """The gateway's event loop leaves us its pipes under other numbers, too. Held, they would never end."""
    for name in os.listdir("/proc/self/fd"):
        if int(name) > 2:
            with contextlib.suppress(OSError):  # that of the listing is closed already
                os.close(int(name))


def _end_all() -> None:
    """Kill all descendants. A process that loses its parent becomes our child, so nothing is left once we have no
    child."""
    with contextlib.suppress(ChildProcessError):
        while True:
            for pid in _children():
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, signal.SIGKILL)
            os.waitpid(-1, 0)


def _children() -> Iterator[int]:
    own = str(os.getpid())
    for name in os.listdir("/proc"):
        if not name.isdecimal():
            continue
        with contextlib.suppress(OSError):
            with open(f"/proc/{name}/stat", errors="replace") as file:
                if file.read().rpartition(")")[2].split()[1] == own:
                    yield int(name)


if __name__ == "__main__":
    main(sys.argv[1:])
