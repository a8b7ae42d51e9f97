"""`codex app-server` as a process: requests and their answers, by number; all else that it says goes to `heard`.

One JSON object a line, both ways. When it ends, whatever waits is told so, and `heard` ends with Ended.
"""

import asyncio
import os
import signal
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any
from uuid import uuid4

import msgspec

LARGEST_LINE = 64 * 1024 * 1024  # a tool's result is one
PATIENCE = 3.0  # seconds in which it may end by itself
LONGEST = 500  # characters of its last words


class AppServerNotification(msgspec.Struct, frozen=True):
    """Something happened."""

    method: str
    params: dict[str, Any]


class AppServerRequest(msgspec.Struct, frozen=True):
    """It wants an answer from us."""

    id: int | str
    method: str
    params: dict[str, Any]


class AppServerEnded(msgspec.Struct, frozen=True):
    """It is gone."""

    why: str


class AppServerError(Exception):
    """It answered a request with an error."""


class _Error(msgspec.Struct):
    message: str = ""


class _JsonRpcMessage(msgspec.Struct):
    id: int | str | None = None
    method: str = ""
    params: dict[str, Any] | None = None
    result: Any = None
    error: _Error | None = None


_read_line = msgspec.json.Decoder(_JsonRpcMessage).decode
_encode = msgspec.json.Encoder().encode


class AppServer:
    def __init__(self, process: asyncio.subprocess.Process, log: Path) -> None:
        self.heard: asyncio.Queue[AppServerNotification | AppServerRequest | AppServerEnded] = asyncio.Queue()
        self._process, self._log = process, log
        self.name = uuid4().hex[:12]  # of this process, and of no other
        self._waiting: dict[int, asyncio.Future[Any]] = {}
        self._last = 0
        self._ended = ""
        self._reading = asyncio.create_task(self._read())

    @classmethod
    async def start(cls, command: Sequence[str], env: Mapping[str, str], folder: Path, log: Path) -> "AppServer":
        """`log`: a file for what it says to nobody."""
        with log.open("wb") as errors:
            process = await asyncio.create_subprocess_exec(
                *command,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=errors,
                env=dict(env),
                cwd=folder,
                limit=LARGEST_LINE,
                start_new_session=True,
            )
        return cls(process, log)

    @property
    def alive(self) -> bool:
        return not self._ended

    async def ask(self, method: str, **params: object) -> dict[str, Any]:
        """Raises Refused, also when there is nobody any more."""
        if self._ended:
            raise AppServerError(self._ended)
        self._last += 1
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._waiting[self._last] = future
        self._send({"id": self._last, "method": method, "params": params})
        answer = await future
        return answer if isinstance(answer, dict) else {}

    def tell(self, method: str) -> None:
        self._send({"method": method})

    def answer(self, request: int | str, result: Mapping[str, object]) -> None:
        self._send({"id": request, "result": result})

    def respond_error(self, request: int | str, why: str) -> None:
        self._send({"id": request, "error": {"code": -32601, "message": why}})

    async def close(self) -> None:
        """It may write down what it knows; then it and what it started are ended."""
        stdin = self._process.stdin
        assert stdin is not None
        stdin.close()
        with suppress(TimeoutError):
            async with asyncio.timeout(PATIENCE):
                await self._process.wait()
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        await self._process.wait()
        self._reading.cancel()
        await asyncio.wait([self._reading])

    def _send(self, message: Mapping[str, object]) -> None:
        stdin = self._process.stdin
        assert stdin is not None
        if not stdin.is_closing():
            stdin.write(_encode(message) + b"\n")

    async def _read(self) -> None:
        stdout = self._process.stdout
        assert stdout is not None
        try:
            while line := await stdout.readline():
                self._hear(_read_line(line))
            self._end(self._last_words())
        except (ValueError, msgspec.MsgspecError, OSError) as error:  # ValueError: a line without an end
            self._end(f"it said what nobody understands: {error}")
        finally:
            self._end("it was ended")

    def _hear(self, line: _JsonRpcMessage) -> None:
        if line.method and line.id is not None:
            self.heard.put_nowait(AppServerRequest(line.id, line.method, line.params or {}))
        elif line.method:
            self.heard.put_nowait(AppServerNotification(line.method, line.params or {}))
        elif isinstance(line.id, int) and (future := self._waiting.pop(line.id, None)) is not None:
            if future.done():
                return  # who asked has left
            if line.error is not None:
                future.set_exception(AppServerError(line.error.message))
            else:
                future.set_result(line.result)

    def _end(self, why: str) -> None:
        if self._ended:
            return
        self._ended = why
        for future in self._waiting.values():
            if not future.done():
                future.set_exception(AppServerError(why))
        self._waiting.clear()
        self.heard.put_nowait(AppServerEnded(why))

    def _last_words(self) -> str:
        try:
            said = self._log.read_bytes()[-LONGEST:].decode(errors="replace").split()
        except OSError:
            said = []
        return " ".join(said) or "it ended"
