"""A third-party program that speaks JSON-RPC, one message a line, on its stdin and stdout.

It is not trusted. A line that is too long, lines that are no messages, a missing answer and an unexpected end each
become a ProviderError. No wait is without an end but the one that its caller chose.
"""

import asyncio
import os
import signal
from asyncio.subprocess import PIPE, Process
from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec

from gatepost.inside.provider_errors import ProviderError
from gatepost.jsonrpc import messages
from gatepost.jsonrpc.errors import INTERNAL_ERROR, INVALID_PARAMS, METHOD_NOT_FOUND, JsonRpcFailure
from gatepost.jsonrpc.messages import RequestId
from gatepost.jsonrpc.pending import PendingRequests

__all__ = ["FAILED", "INVALID", "UNKNOWN_METHOD", "Json", "JsonRpcFailure", "JsonRpcProcess"]

LARGEST_LINE = 32 * 1024 * 1024
MOST_GARBAGE = 20  # lines on end that are no messages; programs print a greeting where they should not
MOST_ASKED = 100  # of its questions that wait for our answer
LAST_LINES = 20  # of what it wrote to stderr
LONGEST_WORDS = 300  # characters of its own that stand in our messages
FAREWELL = 0.5  # seconds between being asked to end and being ended
UNKNOWN_METHOD, INVALID, FAILED = METHOD_NOT_FOUND, INVALID_PARAMS, INTERNAL_ERROR

Json = dict[str, Any]
NotificationHandler = Callable[[str, bytes], Awaitable[None]]
RequestHandler = Callable[[str, bytes], Awaitable[Json]]  # raises JsonRpcFailure


class JsonRpcProcess:
    """One such program, from its start to its end."""

    def __init__(self, name: str, process: Process, notified: NotificationHandler, asked: RequestHandler) -> None:
        self._name, self._process = name, process
        self._notified, self._asked = notified, asked
        self._pending = PendingRequests()
        self._garbage: deque[str] = deque(maxlen=MOST_GARBAGE)
        self._errors: deque[str] = deque(maxlen=LAST_LINES)
        self._ended: ProviderError | None = None
        self._answering: set[asyncio.Task[None]] = set()
        self._tasks = [asyncio.create_task(work) for work in (self._read(), self._read_errors(), self._watch())]

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
            process = await asyncio.create_subprocess_exec(
                *command,
                env=env,
                cwd=cwd,
                stdin=PIPE,
                stdout=PIPE,
                stderr=PIPE,
                limit=LARGEST_LINE,
                start_new_session=True,  # so that what it started ends with it
            )
        except OSError as error:
            raise ProviderError(f"{name} does not start: {error.strerror or error}") from None
        return cls(name, process, notified, asked)

    @property
    def is_alive(self) -> bool:
        return self._ended is None

    async def ask(self, method: str, params: Json, patience: float | None) -> bytes:
        """The result, as JSON. Raises JsonRpcFailure for an error, ProviderError if it ends or is late."""
        if self._ended is not None:
            raise self._ended
        request, answer = self._pending.add()
        try:
            async with asyncio.timeout(patience):
                await self._write(messages.render_request(request, method, params))
                return await answer
        except TimeoutError:
            raise ProviderError(f"{self._name} does not answer to {method}{self._last_words()}", "retryable") from None
        finally:
            self._pending.remove(request)

    async def tell(self, method: str, params: Json) -> None:
        await self._write(messages.render_notification(method, params))

    def end(self, why: str) -> None:
        """Now, and whoever waits for it is told."""
        self._give_up(ProviderError(why, "retryable"))
        self._signal(signal.SIGKILL)

    async def close(self) -> None:
        """Ask it to end, then end it, with whatever it started."""
        self._give_up(ProviderError(f"{self._name} was ended", "retryable"))
        for task in (*self._tasks, *self._answering):
            task.cancel()
        await asyncio.wait([*self._tasks, *self._answering])
        if self._process.returncode is None:
            self._signal(signal.SIGTERM)
            with suppress(TimeoutError):
                async with asyncio.timeout(FAREWELL):
                    await self._process.wait()
        self._signal(signal.SIGKILL)

    # What it says.

    async def _read(self) -> None:
        assert self._process.stdout is not None
        try:
            while line := await self._process.stdout.readline():
                await self._hear(line.strip())
            await self._end_of_output()
        except ValueError:  # of the reader: nobody knows where the next message begins
            self.end(f"{self._name} said a line of more than {LARGEST_LINE // 1024 // 1024} MiB")
        except ProviderError as trouble:
            self.end(trouble.message)

    async def _end_of_output(self) -> None:
        """Nothing more will come, also of one that goes on without its output."""
        await asyncio.wait([asyncio.ensure_future(self._process.wait())], timeout=FAREWELL)
        if self._process.returncode is None:
            self.end(f"{self._name} closed its output{self._last_words()}")

    async def _hear(self, line: bytes) -> None:
        if not line:
            return
        try:
            message = messages.parse_message(line)
            self._garbage.clear()
            if message.method is None:
                self._pending.answer(message)
            elif isinstance(message.id, int | str):
                self._handle_request(message.method, bytes(message.params), message.id)
            else:
                await self._notified(message.method, bytes(message.params))
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            self._garbage.append(line[:LONGEST_WORDS].decode(errors="replace"))
            if len(self._garbage) == MOST_GARBAGE:
                raise ProviderError(
                    f"{self._name} says what is not understood, such as {self._garbage[-1][:LONGEST_WORDS]!r}"
                ) from None

    def _handle_request(self, method: str, params: bytes, request: RequestId) -> None:
        if len(self._answering) >= MOST_ASKED:
            raise ProviderError(f"{self._name} asks more than {MOST_ASKED} things at once")
        task = asyncio.create_task(self._answer(method, params, request))
        self._answering.add(task)
        task.add_done_callback(self._answering.discard)

    async def _answer(self, method: str, params: bytes, request: RequestId) -> None:
        try:
            reply = messages.render_result(request, messages.encode(await self._asked(method, params)))
        except JsonRpcFailure as error:
            reply = messages.render_error(request, error.code, error.message)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            reply = messages.render_error(request, INVALID, f"{method}: {error}")
        with suppress(ProviderError):  # it left without waiting
            await self._write(reply)

    async def _write(self, message: bytes) -> None:
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(message + b"\n")
            await self._process.stdin.drain()
        except (ConnectionError, RuntimeError):  # the latter: the pipe is closed already
            await asyncio.wait(self._tasks[2:], timeout=2 * FAREWELL)  # it may have ended, and then it is known how
            raise self._ended or ProviderError(
                f"{self._name} listens no more{self._last_words()}", "retryable"
            ) from None

    async def _read_errors(self) -> None:
        assert self._process.stderr is not None
        while piece := await self._process.stderr.read(4096):
            self._errors.extend(piece.decode(errors="replace").splitlines())

    # Its end.

    async def _watch(self) -> None:
        """What it said before is heard first; what it started may hold its pipes open for ever."""
        code = await self._process.wait()
        await asyncio.wait(self._tasks[:2], timeout=FAREWELL)
        how = f"signal {-code}" if code < 0 else f"code {code}"
        self._give_up(ProviderError(f"{self._name} ended by itself ({how}){self._last_words()}", "retryable"))

    def _give_up(self, trouble: ProviderError) -> None:
        self._ended = self._ended or trouble
        self._pending.fail(self._ended)

    def _signal(self, number: signal.Signals) -> None:
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, number)

    def _last_words(self) -> str:
        words = " ".join(" ".join(list(self._errors)[-3:]).split()) or " ".join(list(self._garbage)[-1:])
        return f"; it said: {words[-LONGEST_WORDS:]}" if words else ""
