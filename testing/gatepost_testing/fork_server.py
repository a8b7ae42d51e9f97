"""Commands of the command line, each in a process of its own that is forked from one which has imported everything.

    done = run(["group", "list", "--json"], env)

A new interpreter spends half a second on imports, a fork nothing. Everything else is as in a real start: argv,
environment, standard streams, signals, the end of threads, exit functions. If the system forks badly (macOS), or a test
is about the start itself, a command is started the long way.
"""

import atexit
import gc
import importlib
import importlib.util
import json
import os
import select
import selectors
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import IO

FORKS = sys.platform == "linux"
_LONGEST_PID = 10  # digits


class ForkedProcess:
    """A process that our template forked; what `subprocess.Popen` offers, as far as tests need it."""

    def __init__(self, argv: Sequence[str], env: Mapping[str, str], streams: Sequence[int]) -> None:
        """`streams`: its standard input, output and error."""
        self.returncode: int | None = None
        self._line, theirs = socket.socketpair()
        with theirs:
            _template().order(theirs, streams)
        order = {"argv": list(argv), "env": dict(env), "cwd": os.getcwd()}
        self._line.sendall(json.dumps(order).encode() + b"\n")
        # The handle comes with the number: a command that has ended by now may have left its number to another.
        pid, (self._handle,), _, _ = socket.recv_fds(self._line, _LONGEST_PID, 1, socket.MSG_CMSG_CLOEXEC)
        self.pid = int(pid)
        self._told = self._line.makefile("r")

    def send_signal(self, number: int) -> None:
        if self.returncode is None:
            with suppress(ProcessLookupError):  # it has ended, and its exit code is on the way
                signal.pidfd_send_signal(self._handle, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def poll(self) -> int | None:
        """Its exit code, if it has ended."""
        return self.wait() if self._has_ended(0) else None

    def wait(self, timeout: float | None = None) -> int:
        """Its exit code; that of a process which a signal ended is the signal's number below zero."""
        if not self._has_ended(timeout):
            raise TimeoutError(f"process {self.pid} still runs after {timeout} s")
        if self.returncode is None:
            self.returncode = int(self._told.readline())
            os.close(self._handle)
            self._told.close()
            self._line.close()
        return self.returncode

    def _has_ended(self, timeout: float | None) -> bool:
        return self.returncode is not None or bool(select.select([self._line], [], [], timeout)[0])


def start(
    argv: Sequence[str],
    env: Mapping[str, str],
    stdout: IO[bytes],
    stderr: IO[bytes],
    *,
    anew: bool = False,
    enter: Sequence[str] = (),
) -> ForkedProcess | subprocess.Popen[bytes]:
    """A command that runs beside us, without input. `anew`: in an interpreter of its own, as a shell starts it.
    `enter`: a command before it, which becomes it (`nsenter`)."""
    with open(os.devnull, "rb") as nothing:
        if anew or enter or not FORKS:
            command = [*enter, sys.executable, "-m", "gatepost", *argv]
            return subprocess.Popen(command, env=env, stdin=nothing, stdout=stdout, stderr=stderr)
        return ForkedProcess(argv, env, [each.fileno() for each in (nothing, stdout, stderr)])


def run(
    argv: Sequence[str], env: Mapping[str, str], *, said: str | bytes = "", timeout: float = 60.0
) -> subprocess.CompletedProcess[str]:
    """Run a command to its end: its code and what it printed. `said` is its standard input."""
    said = said.encode() if isinstance(said, str) else said
    if not FORKS:
        command = [sys.executable, "-m", "gatepost", *argv]
        done = subprocess.run(command, env=env, input=said, capture_output=True, timeout=timeout, check=False)
        return subprocess.CompletedProcess(command, done.returncode, done.stdout.decode(), done.stderr.decode())
    with tempfile.TemporaryFile() as given, tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        given.write(said)
        given.seek(0)
        process = ForkedProcess(argv, env, [each.fileno() for each in (given, out, err)])
        try:
            code = process.wait(timeout)
        except TimeoutError:
            process.kill()
            process.wait()
            raise
        for each in (out, err):
            each.seek(0)
        return subprocess.CompletedProcess(list(argv), code, out.read().decode(), err.read().decode())


class _ForkServer:
    """The process that has imported everything and waits for orders. It ends with us."""

    def __init__(self) -> None:
        self._orders, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            command = [sys.executable, "-m", __name__, str(theirs.fileno())]
            self._process = subprocess.Popen(command, pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL)
        atexit.register(self.close)

    def order(self, line: socket.socket, streams: Sequence[int]) -> None:
        socket.send_fds(self._orders, [b"."], [line.fileno(), *streams])

    def close(self) -> None:
        self._orders.close()
        self._process.wait()


_made: list[_ForkServer] = []
_making = threading.Lock()


def _template() -> _ForkServer:
    """One for the life of this process, made when it is first needed."""
    with _making:
        if not _made:
            _made.append(_ForkServer())
        return _made[0]


# From here on: the template's side.


def _import_everything() -> None:
    from gatepost import declarations
    from gatepost.cli import commands
    from gatepost.core import log_targets  # noqa: F401  with its library
    from gatepost.core.registry import load_package
    from gatepost.store import postgres

    declarations.load_package()
    if importlib.util.find_spec("psycopg") is not None:  # an extra
        load_package(postgres.__name__)
    load_package(commands.__name__)


class _ForkServerLoop:
    def __init__(self, orders: socket.socket) -> None:
        self._orders = orders
        self._waiting = selectors.DefaultSelector()
        self._waiting.register(orders, selectors.EVENT_READ)
        self._children: dict[int, tuple[int, socket.socket]] = {}  # by their handles

    def serve(self) -> bool:
        """Until nobody gives orders any more; or, in a fork, at once and true: the command is to be run."""
        while True:
            for key, _ in self._waiting.select():
                if key.fd in self._children:
                    self._bury(key.fd)
                    continue
                message, handles, _, _ = socket.recv_fds(self._orders, 1, 4)
                if not message:
                    return False
                if self._fork(socket.socket(fileno=handles[0]), handles[1:]):
                    return True

    def _fork(self, line: socket.socket, streams: list[int]) -> bool:
        with line.makefile("r") as asked:
            order = json.loads(asked.readline())
        pid = os.fork()
        if pid == 0:
            self._become(line, streams, order)
            return True
        for each in streams:
            os.close(each)
        handle = os.pidfd_open(pid)
        socket.send_fds(line, [f"{pid:{_LONGEST_PID}}".encode()], [handle])
        self._children[handle] = (pid, line)
        self._waiting.register(handle, selectors.EVENT_READ)
        return False

    def _bury(self, handle: int) -> None:
        pid, line = self._children.pop(handle)
        self._waiting.unregister(handle)
        os.close(handle)
        _, status = os.waitpid(pid, 0)
        with line:
            try:
                line.sendall(f"{os.waitstatus_to_exitcode(status)}\n".encode())
            except OSError:
                return  # nobody wants to know

    def _become(self, line: socket.socket, streams: list[int], order: dict[str, object]) -> None:
        """Turn this fork into the process of a command: its streams, environment and arguments."""
        self._waiting.close()
        self._orders.close()
        line.close()
        for handle, (_, other) in self._children.items():
            os.close(handle)
            other.close()
        for number, given in enumerate(streams):
            os.dup2(given, number)
            os.close(given)
        argv, env, cwd = order["argv"], order["env"], order["cwd"]
        assert isinstance(argv, list) and isinstance(env, dict) and isinstance(cwd, str)
        os.chdir(cwd)
        os.environ.clear()
        os.environ.update(env)
        sys.argv = ["gatepost", *argv]
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _exit_without_clearing(code: object) -> None:
    """End as the interpreter does, but leave its modules as they are. Return if there is an error to print at the end.

    Clearing the modules copies nearly all the memory that forks share, six sevenths of the work of a short command.
    """
    if not isinstance(code, int | None):
        return
    threading._shutdown()  # type: ignore[attr-defined]  # what `multiprocessing` calls at the end of its forks
    atexit._run_exitfuncs()
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except (OSError, ValueError):
        return
    os._exit(code or 0)


def _main() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # whoever gives the orders decides what ends
    _import_everything()
    gc.freeze()  # what all forks share is not to be copied for having been looked at
    with socket.socket(fileno=int(sys.argv[1])) as orders:
        serving = _ForkServerLoop(orders)
        if not serving.serve():
            return
    from gatepost.cli.main import main

    try:
        sys.exit(main())
    except SystemExit as end:
        _exit_without_clearing(end.code)
        raise


if __name__ == "__main__":
    _main()
