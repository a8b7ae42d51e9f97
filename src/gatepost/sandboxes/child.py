"""A process that a sandbox started: reaped on the event loop without a watcher thread, its last words kept.

Its stderr is not trusted: it is read as it comes, so that the process never blocks, and kept up to a size.
"""

import asyncio
import os
import resource
import signal
import subprocess
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

LARGEST_LOG = 256 * 1024
TAIL = 4 * 1024
NICE = 5  # everybody waits for the gateway, and only its own people for a sandbox


def cap_rlimit(which: int, most: int) -> int:
    """The value for an rlimit that is at most `most`. It is never raised: that needs a capability that even root may
    not have."""
    _, hard = resource.getrlimit(which)
    return most if hard == resource.RLIM_INFINITY else min(most, hard)


def lower_priority(pid: int) -> None:
    """Let others go first. Processes that it started before keep their own priority."""
    with suppress(ProcessLookupError, PermissionError):
        os.setpriority(os.PRIO_PROCESS, pid, NICE)


class Child:
    def __init__(self, process: subprocess.Popen[bytes], words: int | None, log: Path | None) -> None:
        """`words` is the reading end of its stderr, which is ours from now on."""
        self._process, self._words, self._tail = process, words, b""
        self._loop = asyncio.get_running_loop()
        self._ended: asyncio.Future[int] = self._loop.create_future()
        self._after: list[Callable[[], None]] = []
        self._log_left = LARGEST_LOG
        self._log: int | None = None
        lower_priority(process.pid)
        if words is not None:
            if log is not None:
                self._log = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
            os.set_blocking(words, False)
            self._loop.add_reader(words, self._read_stderr)
        self._watch()

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def ended(self) -> bool:
        return self._ended.done()

    @property
    def last_words(self) -> str:
        return self._tail.decode(errors="replace").strip()

    def on_end(self, act: Callable[[], None]) -> None:
        """Called on the loop once it has ended, also if nobody waits."""
        self._after.append(act)

    async def wait(self) -> int:
        return await asyncio.shield(self._ended)

    def kill(self) -> None:
        with suppress(ProcessLookupError):
            self._process.kill()

    def kill_group(self) -> None:
        """With all that it started and that did not leave its process group."""
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)

    def kill_after(self, seconds: float) -> None:
        """If it does not end by itself."""
        self._loop.call_later(seconds, lambda: None if self.ended else self.kill())

    def _watch(self) -> None:
        try:
            handle = os.pidfd_open(self._process.pid)
        except (AttributeError, OSError):  # an older Linux, or none
            threading.Thread(target=self._wait_in_thread, daemon=True).start()
            return

        def reap() -> None:
            self._loop.remove_reader(handle)
            os.close(handle)
            self._end(self._process.wait())

        self._loop.add_reader(handle, reap)

    def _wait_in_thread(self) -> None:
        code = self._process.wait()
        with suppress(RuntimeError):  # the loop is closed: nobody wants to know
            self._loop.call_soon_threadsafe(self._end, code)

    def _end(self, code: int) -> None:
        self._read_stderr()
        self._close()
        if not self._ended.done():
            self._ended.set_result(code)
        for act in self._after:
            act()

    def _read_stderr(self) -> None:
        if self._words is None:
            return
        try:
            said = os.read(self._words, 65536)
        except BlockingIOError:
            return
        if not said:
            self._close()
            return
        self._tail = (self._tail + said)[-TAIL:]
        if self._log is not None and self._log_left > 0:
            with suppress(OSError):  # a full disk: the words are lost, the session is not
                self._log_left -= os.write(self._log, said[: self._log_left])

    def _close(self) -> None:
        if self._words is not None:
            self._loop.remove_reader(self._words)
            os.close(self._words)
            self._words = None
        if self._log is not None:
            os.close(self._log)
            self._log = None
