"""`codex app-server` as a process: requests and their answers, by number.

One JSON object a line, both ways. When it ends, every request that waits fails, and so does the turn.
"""

import asyncio
import os
import signal
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any
from uuid import uuid4

import msgspec

from gatepost.inside.provider_errors import ProviderError

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


class AppServerError(ProviderError):
    """It answered a request with an error, or not at all."""

    def __init__(self, why: str) -> None:
        super().__init__(f"Codex could not go on: {why}"[:LONGEST], "retryable")


class _Error(msgspec.Struct):
    message: str = ""


class _JsonRpcMessage(msgspec.Struct):
    id: int | str | None = None
    method: str = ""
    params: dict[str, Any] | None = None
    result: Any = None
    error: _Error | None = None


NotificationHandler = Callable[[AppServerNotification | ProviderError], None]  # an error: it has ended
RequestHandler = Callable[[AppServerRequest], None]  # it wants to know something; `answer` or `respond_error` tells it

_read_line = msgspec.json.Decoder(_JsonRpcMessage).decode
_encode = msgspec.json.Encoder().encode


class AppServer:
    def __init__(
        self, process: asyncio.subprocess.Process, log: Path, notified: NotificationHandler, asked: RequestHandler
    ) -> None:
        self._process, self._log = process, log
        self._notified, self._asked = notified, asked
        self.name = uuid4().hex[:12]  # of this process, and of no other
        self._waiting: dict[int, asyncio.Future[Any]] = {}
        self._last = 0
        self._ended = ""
        self._reading = asyncio.create_task(self._read())

    @classmethod
    async def start(
        cls,
        command: Sequence[str],
        *,
        env: Mapping[str, str],
        folder: Path,
        log: Path,
        notified: NotificationHandler,
        asked: RequestHandler,
    ) -> "AppServer":
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
        return cls(process, log, notified, asked)

    @property
    def is_alive(self) -> bool:
        return not self._ended

    async def ask(self, method: str, **params: object) -> dict[str, Any]:
        """Raises AppServerError, also when the process is gone."""
        if self._ended:
            raise AppServerError(self._ended)
        self._last += 1
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._waiting[self._last] = future
        self._send({"id": self._last, "method": method, "params": params})
        answer = await future
        return answer if isinstance(answer, dict) else {}

    def notify(self, method: str) -> None:
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
                self._receive(_read_line(line))
            self._end(self._last_words())
        except (ValueError, msgspec.MsgspecError, OSError) as error:  # ValueError: a line without an end
            self._end(f"it said what nobody understands: {error}")
        finally:
            self._end("it was ended")

    def _receive(self, line: _JsonRpcMessage) -> None:
        if line.method and line.id is not None:
            self._asked(AppServerRequest(line.id, line.method, line.params or {}))
        elif line.method:
            self._notified(AppServerNotification(line.method, line.params or {}))
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
        self._notified(ProviderError(f"Codex ended: {why}"[:LONGEST], "retryable"))

    def _last_words(self) -> str:
        try:
            words = self._log.read_bytes()[-LONGEST:].decode(errors="replace").split()
        except OSError:
            words = []
        return " ".join(words) or "it ended"
