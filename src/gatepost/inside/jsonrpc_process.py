"""A third-party program that speaks JSON-RPC, one message a line, on its stdin and stdout.

It is not trusted. A line that is too long, lines that are no messages, a missing answer and an unexpected end each
become a ProviderError. No wait is without an end but the one that its caller chose.
"""

import asyncio
import os
import signal
from asyncio.subprocess import Process
from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec

from gatepost.inside.provider_errors import ProviderError
from gatepost.jsonrpc import messages
from gatepost.jsonrpc.child import JsonRpcChild, spawn
from gatepost.jsonrpc.messages import RequestId
from gatepost.jsonrpc.protocol import INTERNAL_ERROR, INVALID_PARAMS, METHOD_NOT_FOUND, JsonRpcFailure
from gatepost.mailbox.runner_frames import TurnErrorClass

__all__ = ["FAILED", "INVALID", "UNKNOWN_METHOD", "Json", "JsonRpcFailure", "JsonRpcProcess"]

LARGEST_LINE = 32 * 1024 * 1024
MOST_GARBAGE = 20  # lines on end that are no messages; programs print a greeting where they should not
MOST_ASKED = 100  # of its questions that wait for our answer
LONGEST_WORDS = 300  # characters of its own that stand in our messages
FAREWELL = 0.5  # seconds between being asked to end and being ended
UNKNOWN_METHOD, INVALID, FAILED = METHOD_NOT_FOUND, INVALID_PARAMS, INTERNAL_ERROR

Json = dict[str, Any]
NotificationHandler = Callable[[str, bytes], Awaitable[None]]
RequestHandler = Callable[[str, bytes], Awaitable[Json]]  # raises JsonRpcFailure


class JsonRpcProcess(JsonRpcChild):
    """One such program, from its start to its end."""

    def __init__(self, name: str, process: Process, notified: NotificationHandler, asked: RequestHandler) -> None:
        super().__init__(process)
        self._name, self._notified, self._asked = name, notified, asked
        self._garbage: deque[str] = deque(maxlen=MOST_GARBAGE)
        self._answering: set[asyncio.Task[None]] = set()
        self._watching = asyncio.create_task(self._watch())

    @classmethod
    async def start(
        cls,
        command: Sequence[str],
        *,
        env: Mapping[str, str],
        cwd: Path,
        notified: NotificationHandler,
        asked: RequestHandler,
    ) -> "JsonRpcProcess":
        name = os.path.basename(command[0])
        try:
            return cls(name, await spawn(command, env, cwd, LARGEST_LINE), notified, asked)
        except OSError as error:
            raise ProviderError(f"{name} does not start: {error.strerror or error}") from None

    async def ask(self, method: str, params: Json, patience: float | None) -> bytes:
        """The result, as JSON. Raises JsonRpcFailure for an error, ProviderError if it ends or is late."""
        try:
            async with asyncio.timeout(patience):
                return await self.request(method, params)
        except TimeoutError:
            raise self._trouble(f"does not answer to {method}{self._last_words()}") from None

    async def notify(self, method: str, params: Json) -> None:
        await self.write(messages.render_notification(method, params))

    def end(self, why: str) -> None:
        """Kill it at once. Callers that wait for it get the reason."""
        self.fail(ProviderError(why, TurnErrorClass.RETRYABLE))

    def fail(self, failure: Exception) -> None:
        super().fail(failure)
        self._signal(signal.SIGKILL)

    async def close(self) -> None:
        """Ask it to end, then end it, with whatever it started."""
        super().fail(self._trouble("was ended"))
        tasks = (self._reading, self._reading_errors, self._watching, *self._answering)
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
        if self._process.returncode is None:
            self._signal(signal.SIGTERM)
            with suppress(TimeoutError):
                async with asyncio.timeout(FAREWELL):
                    await self._process.wait()
        self._signal(signal.SIGKILL)

    # What it sends.

    async def _receive(self, line: bytes) -> ProviderError | None:
        line = line.strip()
        if not line:
            return None
        try:
            message = messages.parse_message(line)
            self._garbage.clear()
            if message.method is None:
                self._pending.answer(message)
            elif isinstance(message.id, int | str):
                return self._handle_request(message.method, bytes(message.params), message.id)
            else:
                await self._notified(message.method, bytes(message.params))
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            self._garbage.append(line[:LONGEST_WORDS].decode(errors="replace"))
            if len(self._garbage) == MOST_GARBAGE:
                return self._trouble(f"says what is not understood, such as {self._garbage[-1][:LONGEST_WORDS]!r}")
        except ProviderError as trouble:  # of the handler
            return ProviderError(trouble.message, TurnErrorClass.RETRYABLE)
        return None

    def _handle_request(self, method: str, params: bytes, request: RequestId) -> ProviderError | None:
        if len(self._answering) >= MOST_ASKED:
            return self._trouble(f"asks more than {MOST_ASKED} things at once")
        task = asyncio.create_task(self._answer(method, params, request))
        self._answering.add(task)
        task.add_done_callback(self._answering.discard)
        return None

    async def _answer(self, method: str, params: bytes, request: RequestId) -> None:
        try:
            reply = messages.render_result(request, messages.encode(await self._asked(method, params)))
        except JsonRpcFailure as error:
            reply = messages.render_error(request, error.code, error.message)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            reply = messages.render_error(request, INVALID, f"{method}: {error}")
        with suppress(ProviderError):  # it left without waiting
            await self.write(reply)

    # Its end.

    async def _output_ended(self) -> ProviderError | None:
        """Nothing more will come, also of one that continues without its output."""
        await asyncio.wait([asyncio.ensure_future(self._process.wait())], timeout=FAREWELL)
        return self._trouble(f"closed its output{self._last_words()}") if self._process.returncode is None else None

    async def _input_closed(self) -> Exception:
        await asyncio.wait([self._watching], timeout=2 * FAREWELL)  # it may have ended, and then it is known how
        return self._failure or self._trouble(f"reads no more{self._last_words()}")

    def _line_too_long(self) -> ProviderError:
        return self._trouble(f"said a line of more than {LARGEST_LINE // 1024 // 1024} MiB")

    async def _watch(self) -> None:
        """Wait for the end of the process, and fail what waits for it. Its last output is read first, for a bounded
        time: processes that it started may hold its pipes open for ever."""
        code = await self._process.wait()
        await asyncio.wait([self._reading, self._reading_errors], timeout=FAREWELL)
        how = f"signal {-code}" if code < 0 else f"code {code}"
        super().fail(self._trouble(f"ended by itself ({how}){self._last_words()}"))

    def _trouble(self, why: str) -> ProviderError:
        return ProviderError(f"{self._name} {why}", TurnErrorClass.RETRYABLE)

    def _signal(self, number: signal.Signals) -> None:
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, number)

    def _last_words(self) -> str:
        lines = self._errors.decode(errors="replace").splitlines()
        words = " ".join(" ".join(lines[-3:]).split()) or " ".join(list(self._garbage)[-1:])
        return f"; it said: {words[-LONGEST_WORDS:]}" if words else ""
