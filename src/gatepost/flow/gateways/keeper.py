"""The gateway's side of its keeper: starts it, starts another when it is gone, and tells it what it must know."""

import json
import os
import subprocess
import sys
import threading
from contextlib import suppress
from typing import Any

from gatepost.core import log
from gatepost.core.process import keeper_process
from gatepost.core.process.keeper_process import read_start_time
from gatepost.sandboxes.contract import Sandbox

_log = log.get("gateways")


class Keeper:
    """Its methods may be called in any thread. The process is started with the first sandbox: by then this gateway has
    arranged its cgroups, which it cannot once it has children."""

    def __init__(self) -> None:
        self._sandboxes: dict[str, dict[str, Any]] = {}
        self._time: dict[str, Any] = {}
        self._process: subprocess.Popen[bytes] | None = None
        self._lock = threading.Lock()
        self.starts = 0

    @property
    def pid(self) -> int | None:
        return None if self._process is None else self._process.pid

    def add(self, sandbox: Sandbox, freezer: str) -> None:
        """`freezer`: the file of its cgroup that freezes it; '' if it has none."""
        pid = sandbox.inner_pid
        with self._lock:
            epoch = self._time.get("epoch", 0)
            entry = {"add": _key(sandbox), "pid": pid, "started": read_start_time(pid), "freezer": freezer}
            self._sandboxes[_key(sandbox)] = entry | {"epoch": epoch}
            self._send_or_restart(self._sandboxes[_key(sandbox)])

    def remove(self, sandbox: Sandbox) -> None:
        with self._lock:
            if self._sandboxes.pop(_key(sandbox), None) is not None:
                self._send_or_restart({"remove": _key(sandbox)})

    def set_time(self, until: float, epoch: int) -> None:
        """How long sandboxes may run without a further word, by the clock that counts sleep, too."""
        with self._lock:
            self._time = {"until": until, "epoch": epoch}
            if self._sandboxes or self._process is not None:
                self._send_or_restart(self._time)

    def stop(self) -> None:
        """It kills what is left, and ends."""
        with self._lock:
            process, self._process = self._process, None
            if process is not None and process.stdin is not None:
                with suppress(OSError):
                    process.stdin.close()
                with suppress(subprocess.TimeoutExpired):
                    process.wait(2.0)

    def _send_or_restart(self, line: dict[str, Any]) -> None:
        if self._send(line):
            return
        if self._process is not None:
            _log.warning("the keeper of sandboxes is gone; another one is started", pid=self._process.pid)
            _end(self._process)
        try:
            self._process = self._start()
        except OSError as error:  # the next word tries again
            self._process = None
            _log.error("the keeper of sandboxes cannot be started", error=str(error))

    def _send(self, line: dict[str, Any]) -> bool:
        """False: there is nobody who reads."""
        process = self._process
        if process is None or process.poll() is not None or process.stdin is None:
            return False
        data = _render(line)
        try:
            return os.write(process.stdin.fileno(), data) == len(data)
        except OSError:  # also if it has not read for very long
            return False

    def _start(self) -> subprocess.Popen[bytes]:
        process = subprocess.Popen(
            [sys.executable, "-I", "-S", keeper_process.__file__],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            bufsize=0,
            env={name: value for name, value in os.environ.items() if not name.startswith("GATEPOST_")},  # no password
            start_new_session=True,  # what is sent to the gateway's group is for the gateway
        )
        self.starts += 1
        assert process.stdin is not None
        known = [self._time, *self._sandboxes.values()] if self._time else [*self._sandboxes.values()]
        with suppress(OSError):
            process.stdin.write(b"".join(map(_render, known)))
        os.set_blocking(process.stdin.fileno(), False)
        return process


def _render(line: dict[str, Any]) -> bytes:
    return json.dumps(line).encode() + b"\n"


def _end(process: subprocess.Popen[bytes]) -> None:
    """One that is of no use any more."""
    process.kill()
    process.wait()
    if process.stdin is not None:
        process.stdin.close()


def _key(sandbox: Sandbox) -> str:
    return str(sandbox.pid)
