"""A command at a terminal of its own, as a person has it: line editing, Ctrl-C and Ctrl-D included."""

import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Mapping

from gatepost_testing.waiting import PATIENCE_S

CTRL_C, CTRL_D = "\x03", "\x04"
_OURS = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")  # colours, and what line editing draws with


class PtyTerminal:
    """
    with Terminal(daemon.env, "agent", "attach", "Report") as terminal:
        terminal.expect("is idle")
        terminal.type("sweep")
    """

    def __init__(self, env: Mapping[str, str], *words: str) -> None:
        self._far, near = pty.openpty()
        fcntl.ioctl(near, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 200, 0, 0))
        self.process = subprocess.Popen(
            [sys.executable, "-m", "gatepost", *words],
            env={**env, "TERM": "xterm"},
            stdin=near,
            stdout=near,
            stderr=near,
            start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),  # so that Ctrl-C is a signal
        )
        os.close(near)
        self.raw = ""
        self._seen = 0

    def __enter__(self) -> "PtyTerminal":
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait(PATIENCE_S)
        os.close(self._far)

    @property
    def text(self) -> str:
        """Everything that was on it, without colours."""
        return _OURS.sub("", self.raw)

    def press(self, keys: str) -> None:
        os.write(self._far, keys.encode())

    def type(self, line: str) -> None:
        self.press(line + "\r")

    def expect(self, wanted: str) -> None:
        """Read on until it is there, behind what was expected before."""
        until = time.monotonic() + PATIENCE_S
        while (at := self.text.find(wanted, self._seen)) < 0:
            if not self._read(until):
                raise AssertionError(f"{wanted!r} is not there, but: {self.text[self._seen :]!r}")
        self._seen = at + len(wanted)

    def press_until(self, key: str, wanted: str) -> None:
        """Press it until this is there, for the same reason as `insist`."""
        for _ in range(int(PATIENCE_S)):
            self.press(key)
            until = time.monotonic() + 1
            while wanted not in self.text[self._seen :] and self._read(until):
                pass
            if wanted in self.text[self._seen :]:
                break
        self.expect(wanted)

    def wait(self) -> int:
        """Until it has ended; its exit code."""
        until = time.monotonic() + PATIENCE_S
        while self._read(until):
            pass
        return self.process.wait(PATIENCE_S)

    def insist(self, key: str) -> int:
        """Press it until the command has ended. A signal between a prompt and the reading of the line waits there for
        the next one; nobody is as quick as that but a test."""
        for _ in range(int(PATIENCE_S)):
            self.press(key)
            while self._read(time.monotonic() + 1):
                pass
            if self.process.poll() is not None:
                break
        return self.process.wait(PATIENCE_S)

    def _read(self, until: float) -> bool:
        ready, _, _ = select.select([self._far], [], [], max(0.0, until - time.monotonic()))
        try:
            data = os.read(self._far, 65536) if ready else b""
        except OSError:  # nobody has the other end any more
            return False
        self.raw += data.decode(errors="replace")
        return bool(data)
