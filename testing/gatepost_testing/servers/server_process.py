"""The common part of drivers of real servers: free ports, a process in a folder of its own, and its end."""

import atexit
import os
import shutil
import signal
import socket
import subprocess
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from gatepost_testing.waiting import block_until

PLACES = os.pathsep.join((os.environ.get("PATH", os.defpath), "/usr/local/sbin", "/usr/sbin", "/sbin"))


def find_server(program: str) -> str | None:
    """Return where a server is installed, which is seldom on the path of a user."""
    return shutil.which(program, path=PLACES)


def find_ports(count: int) -> list[int]:
    """Ports of loopback that nobody uses."""
    probes = [socket.socket() for _ in range(count)]
    for probe in probes:
        probe.bind(("127.0.0.1", 0))
    ports = [int(probe.getsockname()[1]) for probe in probes]
    for probe in probes:
        probe.close()
    return ports


class ServerProcess:
    """A server of others. It may be killed and started again, on the same ports and with what it kept."""

    def __init__(self, name: str) -> None:
        self.name, self.folder = name, Path(tempfile.mkdtemp(prefix=f"gatepost-{name.lower()}-"))
        self.folder.chmod(0o755)  # a server that root starts reads it as another user
        self._command: Sequence[str] = ()
        self._ports: tuple[int, ...] = ()
        self._environ: dict[str, str] = {}
        self._process: subprocess.Popen[bytes] | None = None
        atexit.register(self.stop)  # of a test that did not come to its end

    def launch(self, command: Sequence[str], ports: Iterable[int], environ: Mapping[str, str] | None = None) -> None:
        """`ports`: those that answer once it is up. `environ`: what is added to our own."""
        self._command, self._ports, self._environ = command, tuple(ports), dict(environ or {})
        self.start_again()

    def start_again(self) -> None:
        """In a process group of its own: some servers are several processes, and all of them end together."""
        with (self.folder / "output").open("ab") as output:
            self._process = subprocess.Popen(
                self._command,
                cwd=self.folder,
                env={**os.environ, **self._environ},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )

    def wait_until_up(self) -> None:
        """Raise AssertionError with the end of its log if it ends before all of its ports answer."""

        def answers() -> bool:
            assert self._process is not None
            if self._process.poll() is not None:
                raise AssertionError(f"{self.name} ended: {self.read_log()[-2000:]}")
            return all(_is_open(port) for port in self._ports)

        block_until(answers, self.name)

    def read_log(self) -> str:
        found = [self.folder / name for name in ("log", "output")]
        return "\n".join(each.read_text(errors="replace") for each in found if each.exists())

    def kill(self) -> None:
        """As a crash of its machine would: no process of it says goodbye."""
        process, self._process = self._process, None
        if process is None:
            return
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()

    def stop(self) -> None:
        atexit.unregister(self.stop)
        self.kill()  # nothing of it is kept, and some would wait for their clients
        shutil.rmtree(self.folder, ignore_errors=True)


def _is_open(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0
