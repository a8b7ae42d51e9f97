"""A process of our own for work that may take too long, too much memory, or be attacked: parsing what others wrote.

A thread would not do: it cannot be ended, and while it works it takes the interpreter from the event loop. Requests
and answers are bytes behind their size; `worker_loop` is the other end. The caller sets the deadline, and closes it.
"""

import asyncio
import socket
import struct
import subprocess
import sys
import threading
import weakref

SIZE = struct.Struct("!I")
ENVIRONMENT = {"LANG": "C.UTF-8"}  # nothing of the gateway's, which may hold keys


class WorkerProcess:
    """Serves one caller at a time."""

    def __init__(self, module: str, largest: int) -> None:
        """`module` is run with `python -m`; `largest`: bytes of one answer."""
        self._largest = largest
        ours, theirs = socket.socketpair()
        with theirs:
            try:
                process = subprocess.Popen(
                    [sys.executable, "-I", "-m", module],
                    stdin=theirs.fileno(),
                    stdout=theirs.fileno(),
                    stderr=subprocess.DEVNULL,
                    env=ENVIRONMENT,
                    process_group=0,  # Ctrl-C in the terminal is the daemon's
                )
            except BaseException:
                ours.close()
                raise
        ours.setblocking(False)
        self._sock, self._process = ours, process
        self._end = weakref.finalize(self, _stop_process, process, ours)

    async def ask(self, *request: bytes) -> bytes:
        """Send the parts of one request and return the answer. Raises OSError."""
        loop = asyncio.get_running_loop()
        await loop.sock_sendall(self._sock, SIZE.pack(sum(map(len, request))))
        for part in request:
            await loop.sock_sendall(self._sock, part)
        size = SIZE.unpack(await self._read(SIZE.size))[0]
        if size > self._largest:
            raise ConnectionAbortedError("the worker answers with too much")
        return await self._read(size)

    async def _read(self, size: int) -> bytes:
        loop, read = asyncio.get_running_loop(), bytearray()
        while len(read) < size:
            chunk = await loop.sock_recv(self._sock, size - len(read))
            if not chunk:
                raise ConnectionResetError("the worker has ended")
            read += chunk
        return bytes(read)

    def close(self) -> None:
        """End it at once. It is not waited for: the kernel takes long to take its memory back, by what somebody had it
        read, and nothing else would run on the caller's loop meanwhile."""
        if self._end.detach() is not None:
            self._process.kill()
            self._sock.close()
            threading.Thread(target=self._process.wait, daemon=True).start()


def _stop_process(process: subprocess.Popen[bytes], sock: socket.socket) -> None:
    process.kill()
    process.wait()
    sock.close()
