"""A child process that speaks JSON-RPC, one message a line, on its stdin and stdout. It is not trusted."""

import asyncio
from abc import ABC, abstractmethod
from asyncio.subprocess import PIPE, Process
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from gatepost.jsonrpc.messages import PendingRequests, render_request

ERRORS_KEPT = 2048  # bytes of stderr


async def spawn(command: Sequence[str], env: Mapping[str, str], cwd: Path, longest_line: int) -> Process:
    """Start a program in a session of its own, so that whatever it starts can be ended with it. Raises OSError."""
    return await asyncio.create_subprocess_exec(
        *command,
        stdin=PIPE,
        stdout=PIPE,
        stderr=PIPE,
        env=dict(env),
        cwd=cwd,
        limit=longest_line,
        start_new_session=True,
    )


class JsonRpcChild(ABC):
    """A subclass bounds what the child may send, and names each way in which it fails."""

    def __init__(self, process: Process) -> None:
        self._process, self._pending = process, PendingRequests()
        self._failure: Exception | None = None
        self._errors = b""  # the end of what it wrote to stderr
        self._reading = asyncio.create_task(self._read())
        self._reading_errors = asyncio.create_task(self._read_errors())

    @property
    def is_alive(self) -> bool:
        return self._failure is None

    async def request(self, method: str, params: object) -> bytes:
        """The result, as JSON. Raises JsonRpcFailure for an error, and the failure of the child."""
        if self._failure is not None:
            raise self._failure
        request, answer = self._pending.add()
        try:
            await self.write(render_request(request, method, params))
            return await answer
        finally:
            self._pending.remove(request)

    async def write(self, message: bytes) -> None:
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(message + b"\n")
            await self._process.stdin.drain()
        except (OSError, RuntimeError):  # uvloop raises the latter once the pipe is closed
            raise await self._input_closed() from None

    def fail(self, failure: Exception) -> None:
        """Nothing is answered any more. The first failure stays."""
        self._failure = self._failure or failure
        self._pending.fail(self._failure)

    async def _read(self) -> None:
        assert self._process.stdout is not None
        failure: Exception | None = None
        try:
            while failure is None and (line := await self._process.stdout.readline()):
                failure = await self._receive(line)
            failure = failure or await self._output_ended()
        except ValueError:  # of the reader: nobody knows where the next message begins
            failure = self._line_too_long()
        except OSError:
            failure = await self._output_ended()
        if failure is not None:
            self.fail(failure)

    async def _read_errors(self) -> None:
        assert self._process.stderr is not None
        with suppress(OSError):
            while piece := await self._process.stderr.read(65536):
                self._errors = (self._errors + piece)[-ERRORS_KEPT:]

    @abstractmethod
    async def _receive(self, line: bytes) -> Exception | None:
        """Handle one line. A failure ends the reading."""

    @abstractmethod
    async def _output_ended(self) -> Exception | None: ...

    @abstractmethod
    async def _input_closed(self) -> Exception: ...

    @abstractmethod
    def _line_too_long(self) -> Exception: ...
