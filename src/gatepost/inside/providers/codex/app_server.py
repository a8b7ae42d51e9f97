"""`codex app-server` as a child process. When it ends, every request that waits fails, and so does the turn."""

import asyncio
import os
import signal
from asyncio.subprocess import Process
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any
from uuid import uuid4

import msgspec

from gatepost.inside.provider_errors import ProviderError
from gatepost.jsonrpc import messages
from gatepost.jsonrpc.child import JsonRpcChild, spawn
from gatepost.jsonrpc.protocol import METHOD_NOT_FOUND, JsonRpcFailure
from gatepost.mailbox.runner_frames import TurnErrorClass

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

    def __init__(self, why: str, what: str = "could not go on") -> None:
        super().__init__(f"Codex {what}: {why}"[:LONGEST], TurnErrorClass.RETRYABLE)


NotificationHandler = Callable[[AppServerNotification | Exception], None]  # an error: it has ended
RequestHandler = Callable[[AppServerRequest], Awaitable[None]]  # answers with `answer` or `respond_error`

_parse_params = msgspec.json.Decoder(dict[str, Any] | None).decode


class AppServer(JsonRpcChild):
    def __init__(self, process: Process, notified: NotificationHandler, asked: RequestHandler) -> None:
        super().__init__(process)
        self._notified, self._asked = notified, asked
        self.name = uuid4().hex[:12]  # of this process, and of no other

    @classmethod
    async def start(
        cls,
        command: Sequence[str],
        *,
        env: Mapping[str, str],
        folder: Path,
        notified: NotificationHandler,
        asked: RequestHandler,
    ) -> "AppServer":
        return cls(await spawn(command, env, folder, LARGEST_LINE), notified, asked)

    async def ask(self, method: str, **params: object) -> dict[str, Any]:
        """Raises AppServerError, also when the process is gone."""
        try:
            answer = msgspec.json.decode(await self.request(method, params))
        except JsonRpcFailure as error:
            raise AppServerError(error.message) from None
        return answer if isinstance(answer, dict) else {}

    async def answer(self, request: int | str, result: Mapping[str, object]) -> None:
        await self._respond(messages.render_result(request, messages.encode(result)))

    async def respond_error(self, request: int | str, why: str) -> None:
        await self._respond(messages.render_error(request, METHOD_NOT_FOUND, why))

    async def _respond(self, message: bytes) -> None:
        with suppress(AppServerError):  # it left without waiting
            await self.write(message)

    async def close(self) -> None:
        """It may write down what it knows; then it and what it started are ended."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        with suppress(TimeoutError):
            async with asyncio.timeout(PATIENCE):
                await self._process.wait()
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        await self._process.wait()
        tasks = (self._reading, self._reading_errors)
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
        self.fail(AppServerError("it was ended", "ended"))

    def fail(self, failure: Exception) -> None:
        if self.is_alive:
            self._notified(failure)
        super().fail(failure)

    async def _receive(self, line: bytes) -> AppServerError | None:
        try:
            message = messages.parse_message(line)
            params = _parse_params(message.params) or {}
        except (ValueError, RecursionError) as error:
            return AppServerError(f"it said what nobody understands: {error}", "ended")
        if not message.method:
            self._pending.answer(message)
        elif isinstance(message.id, int | str):
            await self._asked(AppServerRequest(message.id, message.method, params))
        else:
            self._notified(AppServerNotification(message.method, params))
        return None

    async def _output_ended(self) -> AppServerError:
        await asyncio.wait([self._reading_errors], timeout=PATIENCE)  # something that it started may hold it open
        words = self._errors[-LONGEST:].decode(errors="replace").split()
        return AppServerError(" ".join(words) or "it ended", "ended")

    async def _input_closed(self) -> AppServerError:
        return await self._output_ended()

    def _line_too_long(self) -> AppServerError:
        return AppServerError(f"it said a line of more than {LARGEST_LINE // 1024 // 1024} MiB", "ended")
