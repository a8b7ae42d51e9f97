"""Markdown off the loop: a process of its own renders one text at a time, within a deadline, once.

A thread would not do: it cannot be ended, and while it works it takes the interpreter from the event loop. The process
is started when it is first needed and ended when it has been idle. A text that it does not render in time, or that ends
it, is shown as it is written. The same holds for a text that waits too long behind others.
"""

import asyncio
import contextlib
import socket
import struct
import subprocess
import sys
import weakref
from collections import OrderedDict

from gatepost.core import log
from gatepost.serve.web.plain_html import render_plain

DEADLINE_S = 3.0  # for one text
PATIENCE_S = 5.0  # for its turn: a room full of heavy texts must not keep the others from being shown
IDLE_S = 300.0
LARGEST_CACHE = 8_000_000  # characters of texts and their HTML
LONGEST = 20_000  # characters; as the renderer has it

_SIZE = struct.Struct("!I")

_log = log.get("web")


class MarkdownProcess:
    """The process. It serves one caller at a time."""

    def __init__(self) -> None:
        ours, theirs = socket.socketpair()
        with theirs:
            try:
                process = subprocess.Popen(
                    [sys.executable, "-I", "-m", "gatepost.serve.web.markdown"],
                    stdin=theirs.fileno(),
                    stdout=theirs.fileno(),
                    stderr=subprocess.DEVNULL,
                    process_group=0,  # Ctrl-C in the terminal is the daemon's
                )
            except BaseException:
                ours.close()
                raise
        ours.setblocking(False)
        self._sock = ours
        self._end = weakref.finalize(self, _stop_process, process, ours)

    async def ask(self, text: str) -> str:
        loop, raw = asyncio.get_running_loop(), text.encode("utf-8", "surrogatepass")
        await loop.sock_sendall(self._sock, _SIZE.pack(len(raw)) + raw)
        size = _SIZE.unpack(await self._read(_SIZE.size))[0]
        return (await self._read(size)).decode()

    async def _read(self, size: int) -> bytes:
        loop, read = asyncio.get_running_loop(), bytearray()
        while len(read) < size:
            chunk = await loop.sock_recv(self._sock, size - len(read))
            if not chunk:
                raise ConnectionResetError("the renderer has ended")
            read += chunk
        return bytes(read)

    def close(self) -> None:
        self._end()


def _stop_process(process: subprocess.Popen[bytes], sock: socket.socket) -> None:
    process.kill()
    process.wait()
    sock.close()


class MarkdownRenderer:
    """The HTML of texts. Readers of the same text wait for one rendering; what was rendered is remembered."""

    def __init__(
        self, deadline: float = DEADLINE_S, largest: int = LARGEST_CACHE, patience: float = PATIENCE_S
    ) -> None:
        self._deadline, self._largest, self._patience = deadline, largest, patience
        self._worker: MarkdownProcess | None = None
        self._turn = asyncio.Lock()
        self._under_way: dict[str, asyncio.Task[str]] = {}
        self._cache: OrderedDict[str, str] = OrderedDict()
        self._size = 0
        self._idle: asyncio.TimerHandle | None = None
        self.rendered = 0  # texts that the process was asked for

    @property
    def is_started(self) -> bool:
        return self._worker is not None

    async def html(self, text: str, *, remember: bool = True) -> str:
        if not text:
            return ""
        if len(text) > LONGEST:
            return render_plain(text)
        if text in self._cache:
            self._cache.move_to_end(text)
            return self._cache[text]
        task = self._under_way.get(text)
        if task is None:
            task = self._under_way[text] = asyncio.create_task(self._render(text, remember))
            task.add_done_callback(lambda done: self._under_way.pop(text, None))
        return await asyncio.shield(task)  # a reader that leaves takes nothing from the others

    async def _render(self, text: str, remember: bool) -> str:
        try:
            async with asyncio.timeout(self._patience):
                await self._turn.acquire()
        except TimeoutError:
            return render_plain(text)  # not remembered: it may be rendered when it is asked for again
        try:
            html = await self._ask(text)
        finally:
            self._turn.release()
        if remember:
            self._remember(text, html)
        return html

    async def _ask(self, text: str) -> str:
        self.rendered += 1
        try:
            if self._worker is None:
                self._worker = MarkdownProcess()
            async with asyncio.timeout(self._deadline):
                html = await self._worker.ask(text)
        except (TimeoutError, OSError) as error:
            _log.warning("a text was not rendered", length=len(text), error=str(error) or "it took too long")
            self.close()
            return render_plain(text)
        except BaseException:
            self.close()  # an answer that nobody took would be given to the next
            raise
        self._put_off_end()
        return html

    def _remember(self, text: str, html: str) -> None:
        self._cache[text] = html
        self._size += len(text) + len(html)
        while self._size > self._largest and self._cache:
            old, gone = self._cache.popitem(last=False)
            self._size -= len(old) + len(gone)

    def _put_off_end(self) -> None:
        if self._idle is not None:
            self._idle.cancel()
        self._idle = asyncio.get_running_loop().call_later(IDLE_S, self.close)

    def close(self) -> None:
        """End the process. The next text starts another."""
        if self._idle is not None:
            self._idle.cancel()
            self._idle = None
        if self._worker is not None:
            with contextlib.suppress(OSError):
                self._worker.close()
            self._worker = None
