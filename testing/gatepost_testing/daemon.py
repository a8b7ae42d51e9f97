"""A real daemon as a child process, on a home of its own: for what only a process can show (kill -9, locks, signals).

with Daemon(tmp_path / "home", provider="scripted") as daemon:
    daemon.gatepost("chat", "-m", "hello", "--wait")
"""

import json
import os
import signal
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any, TextIO

from gatepost.core.home import Home
from gatepost.flow.sessions.sandbox.sandbox_plan import name_prefix
from gatepost.sandboxes import cgroups
from gatepost_testing import fork_server
from gatepost_testing.waiting import PATIENCE_S, block_until

READY = "gatepost is ready at "


class DaemonProcess:
    def __init__(self, home: Path, **env: str) -> None:
        """`env`: settings by their variable without the prefix, `sessions_retry_s="0.1"`."""
        self.home = home
        self.env = {
            **{key: value for key, value in os.environ.items() if not key.startswith("GATEPOST_")},
            "GATEPOST_HOME": str(home),
            "GATEPOST_LISTEN": "127.0.0.1:0",
            "XDG_STATE_HOME": str(home.parent / "state"),  # never the user's own
            **{f"GATEPOST_{name.upper()}": value for name, value in env.items()},
        }
        self.anew = False  # in an interpreter of its own, which reads the whole of `env`
        self.enter: list[str] = []  # a command before its own, which becomes it; then it is in such an interpreter, too
        self.banner: list[str] = []  # what it said when it was ready
        self._process: fork_server.ForkedProcess | subprocess.Popen[bytes] | None = None
        self._stdout: TextIO | None = None

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def start(self) -> "DaemonProcess":
        """Start it and wait for its ready line."""
        self.home.parent.mkdir(parents=True, exist_ok=True)
        reads, writes = os.pipe()
        with (self.home.parent / f"{self.home.name}.stderr").open("ab") as stderr, open(writes, "wb") as stdout:
            self._process = self._spawn(stdout, stderr)
        self._stdout = open(reads, encoding="utf-8")  # noqa: SIM115  closed with the daemon
        for line in self._stdout:
            if line.startswith(READY):
                self.banner = [line.strip(), *(self._stdout.readline().strip() for _ in range(2))]
                return self
        raise AssertionError(f"the daemon did not start: {self.stderr()[-2000:]}")

    def _spawn(self, stdout: IO[bytes], stderr: IO[bytes]) -> "fork_server.ForkedProcess | subprocess.Popen[bytes]":
        return fork_server.start(["up"], self.env, stdout, stderr, anew=self.anew, enter=self.enter)

    @property
    def address(self) -> str:
        """A new one-time address of its page."""
        return self.gatepost("login").stdout.strip()

    def stderr(self) -> str:
        return (self.home.parent / f"{self.home.name}.stderr").read_text(errors="replace")

    def stop(self, number: int = signal.SIGTERM) -> int:
        """Send a signal and wait for the end; its exit code."""
        assert self._process is not None
        if self._process.poll() is None:
            self._process.send_signal(number)
        code = self._process.wait(PATIENCE_S)
        if self._stdout is not None:
            self._stdout.close()
        return code

    def kill(self) -> None:
        """kill -9: nothing of it gets to say a word."""
        self.stop(signal.SIGKILL)

    def pause(self) -> None:
        """Stop the process (SIGSTOP) until `resume`. Processes that it has started go on."""
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        assert self._process is not None
        self._process.send_signal(signal.SIGCONT)

    def __enter__(self) -> "DaemonProcess":
        return self.start()

    def __exit__(self, *_: object) -> None:
        if self.stop() < 0:
            self.sweep()

    def sweep(self) -> None:
        """Remove the cgroups of a daemon that was killed for good, as its next start would."""
        cgroups.sweep(name_prefix(Home(self.home)), Path("/proc/self/mounts").read_text())

    def gatepost(self, *args: str, env: Mapping[str, str] | None = None) -> subprocess.CompletedProcess[str]:
        """Run a command of the command line against this home."""
        return fork_server.run(args, {**self.env, **(env or {})}, timeout=PATIENCE_S)

    def read_audit(self, action: str, count: int = 1) -> list[dict[str, Any]]:
        """The rows of actions that begin so, once there are so many: some are written behind the call."""
        found: list[dict[str, Any]] = []

        def read() -> bool:
            found[:] = [row for row in self.json("audit", "list") if row["action"].startswith(action)]
            return len(found) >= count

        block_until(read, f"{count} rows of {action}")
        return found

    def json(self, *args: str) -> Any:
        """Run a command with --json and read what it prints."""
        done = self.gatepost(*args, "--json")
        if not done.stdout.strip():
            raise AssertionError(f"gatepost {' '.join(args)} printed nothing: {done.stderr}")
        return json.loads(done.stdout)
