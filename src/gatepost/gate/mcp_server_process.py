"""An MCP server as a child of the gateway, asked over its stdin and stdout: the client's half of the 2025 handshake.

Each run is a process session of its own with the given environment and no other. It is killed with all its descendants
when the block is left. Its output is not trusted: it is bounded, and lines that are no message are skipped.
"""

import asyncio
import os
import shutil
import signal
import sys
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar

from gatepost import __version__
from gatepost.core.json_limits import DEEPEST, check_depth
from gatepost.gate import mcp_messages
from gatepost.gate.mcp_messages import McpListedTool, RemoteCallResult
from gatepost.jsonrpc import messages
from gatepost.jsonrpc.child import ERRORS_KEPT, JsonRpcChild, spawn
from gatepost.jsonrpc.protocol import METHOD_NOT_FOUND, initialize_params

LARGEST_OUTPUT = 10 * 1024 * 1024  # of one run, in bytes
MOST_LINES = 20_000  # of one run
LARGE = 64 * 1024  # bytes of an answer; more is read off the loop
MOST_PAGES = 50
REAP_S = 5.0

KEEPS = sys.platform == "linux"  # elsewhere what leaves the process group is not ended
_KEEPER = Path(__file__).with_name("child_reaper.py")

T = TypeVar("T")


class McpServerError(Exception):
    """It does not work. `words`, the end of its stderr, are for the operator alone."""

    def __init__(self, why: str, words: str = "") -> None:
        super().__init__(f"{why}; it said: {words}" if words else why)
        self.why, self.words = why, words


class McpServerProcess(JsonRpcChild):
    """A server that runs."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        super().__init__(process)
        self._bytes = self._lines = 0

    async def start(self) -> None:
        """The handshake."""
        await self.request("initialize", initialize_params("gatepost", __version__))
        await self.write(messages.render_notification("notifications/initialized"))

    async def list_tools(self) -> list[McpListedTool]:
        found: list[McpListedTool] = []
        cursor: str | None = None
        for _ in range(MOST_PAGES):
            raw = await self.request("tools/list", {"cursor": cursor} if cursor else {})
            try:
                page = await _decode_off_loop(raw, _read_list)
            except (ValueError, RecursionError) as error:
                raise self._trouble(f"its list of tools cannot be read: {error}") from None
            found += page.tools
            cursor = page.nextCursor
            if not cursor:
                return found
        raise self._trouble(f"its list of tools has no end after {MOST_PAGES} pages")

    async def call(self, tool: str, arguments: Mapping[str, Any]) -> RemoteCallResult:
        raw = await self.request("tools/call", {"name": tool, "arguments": arguments})
        try:
            return await _decode_off_loop(raw, _read_given)
        except (ValueError, RecursionError) as error:
            raise self._trouble(f"its answer cannot be read: {error}") from None

    async def _receive(self, line: bytes) -> McpServerError | None:
        self._bytes, self._lines = self._bytes + len(line), self._lines + 1
        if self._lines > MOST_LINES:
            return self._trouble(f"it says more than {MOST_LINES} lines")
        if self._bytes > LARGEST_OUTPUT:
            return self._line_too_long()
        try:
            message = messages.parse_message(line)
        except RecursionError:
            return self._trouble(f"it says something that is nested deeper than {DEEPEST} levels")
        except ValueError:
            return None
        if message.method is None:
            self._pending.answer(message)
        elif isinstance(message.id, int | str):  # we are there, and offer nothing
            reply = messages.render_result(message.id, b"{}")
            if message.method != "ping":
                reply = messages.render_error(message.id, METHOD_NOT_FOUND, "Method not found")
            with suppress(McpServerError):  # what it sent before is still read
                await self.write(reply)
        return None

    async def _output_ended(self) -> McpServerError:
        with suppress(TimeoutError):  # something that it started may hold its stderr open
            async with asyncio.timeout(REAP_S):
                await asyncio.shield(self._reading_errors)
        return self._trouble("it ended before it answered")

    async def _input_closed(self) -> McpServerError:
        return await self._output_ended()

    def _line_too_long(self) -> McpServerError:
        return self._trouble(f"it says more than {LARGEST_OUTPUT} bytes")

    def _trouble(self, why: str) -> McpServerError:
        words = self._errors.decode(errors="replace").split()
        whole = words[1:] if len(self._errors) == ERRORS_KEPT else words  # half a word may be half a secret
        return McpServerError(why, " ".join(whole))

    async def end(self) -> None:
        with suppress(ProcessLookupError):
            self._process.send_signal(signal.SIGTERM if KEEPS else signal.SIGKILL)
        if not KEEPS:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process.pid, signal.SIGKILL)
        self._reading.cancel()
        self._reading_errors.cancel()
        if self._process.stdin is not None:
            self._process.stdin.close()
        with suppress(TimeoutError):
            async with asyncio.timeout(REAP_S):
                await self._process.wait()
            return
        with suppress(ProcessLookupError):  # a busy machine, or somebody holds the keeper up; without it none is ended
            self._process.send_signal(signal.SIGCONT if KEEPS else signal.SIGKILL)


def _read_list(raw: bytes) -> mcp_messages.ToolListResult:
    page = mcp_messages.read_list_result(raw)
    for each in page.tools:
        check_depth([each.inputSchema, each.outputSchema, each.annotations])
    return page


def _read_given(raw: bytes) -> RemoteCallResult:
    given = mcp_messages.read_given_result(raw)
    check_depth([given.content, given.structuredContent])
    return given


async def _decode_off_loop(raw: bytes, read: Callable[[bytes], T]) -> T:
    return read(raw) if len(raw) <= LARGE else await asyncio.to_thread(read, raw)


def _check_exists(program: str, env: Mapping[str, str], cwd: Path) -> None:
    """Said here, where it is known for sure; what else keeps it from starting the keeper says."""
    there = (cwd / program).exists() if "/" in program else shutil.which(program, path=env.get("PATH", os.defpath))
    if not there:
        raise McpServerError(f"{program} cannot be started: No such file or directory")


async def _begin(command: Sequence[str], env: Mapping[str, str], cwd: Path) -> McpServerProcess:
    kept = (sys.executable, "-I", "-S", str(_KEEPER), *command) if KEEPS else command
    try:
        return McpServerProcess(await spawn(kept, env, cwd, LARGEST_OUTPUT))
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise McpServerError(f"{command[0]} cannot be started: {why}") from None


async def _end(beginning: asyncio.Task[McpServerProcess]) -> None:
    with suppress(McpServerError):
        await (await beginning).end()


async def _finish_uncancelled(work: Coroutine[Any, Any, None]) -> None:
    """Cancelled or not; if we were, that is raised afterwards."""
    task = asyncio.create_task(work)
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.wait({task})
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is not None:
        raise cancelled
    task.result()


@asynccontextmanager
async def run_mcp_server(command: Sequence[str], env: Mapping[str, str], cwd: Path) -> AsyncIterator[McpServerProcess]:
    """A server after its handshake. Raises McpServerError if it does not start, JsonRpcFailure if it refuses.

    To begin and to end are not broken off: asyncio would kill the keeper, and nobody then ends what it keeps.
    """
    _check_exists(command[0], env, cwd)
    beginning = asyncio.create_task(_begin(command, env, cwd))
    try:
        program = await asyncio.shield(beginning)
        await program.start()
        yield program
    finally:
        await _finish_uncancelled(_end(beginning))
