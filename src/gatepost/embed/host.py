"""ToolHost: the program's own functions, served to bridges on a unix socket for as long as the `async with` lasts.

Functions run here, in the program that offers them: async ones on its loop, others in threads. To stop is to close the
listener, then the connections with what still runs on them, then to remove the files; no wait in it is unbounded.
"""

import asyncio
import contextvars
import inspect
import os
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any, Self

import msgspec

from gatepost.embed import host_files
from gatepost.embed.connection import LIMIT, MessageSizeError, ToolHostConnection, ToolNotFoundError
from gatepost.embed.tool import FunctionTool, Progress, read_function
from gatepost.jsonrpc.bridge_command import bridge_command
from gatepost.jsonrpc.mcp_clients import configuration, configuration_text

BACKLOG = 1024
LEAVE_S = 0.5  # what a function gets to end when it is cancelled


class ToolHost:
    """`name` is what clients call the server. `folder` is where its files are, else the temporary folder."""

    def __init__(
        self,
        tools: Iterable[Callable[..., Any] | FunctionTool],
        *,
        name: str = "tools",
        folder: Path | None = None,
        threads: int = 32,
    ) -> None:
        self.name = name
        self._tools: dict[str, FunctionTool] = {}
        for each in tools:
            tool = each if isinstance(each, FunctionTool) else read_function(each)
            if tool.name in self._tools:
                raise ValueError(f"two tools are called {tool.name}")
            self._tools[tool.name] = tool
        self._folder, self._threads = folder, threads
        self._pool: ThreadPoolExecutor | None = None
        self._files: host_files.HostFiles | None = None
        self._server: asyncio.AbstractServer | None = None
        self._living: set[ToolHostConnection] = set()

    @property
    def tools(self) -> Mapping[str, FunctionTool]:
        return MappingProxyType(self._tools)

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    async def start(self) -> None:
        if self._files is not None:
            raise RuntimeError("this host is running")
        host_files.remove_stale_files(self._folder)
        self._files = made = host_files.make_files(self._described(), self._folder)
        try:
            self._server = await asyncio.get_running_loop().create_unix_server(
                lambda: ToolHostConnection(self.run, self._living, lambda: self._server is not None),
                sock=made.listener,
                backlog=BACKLOG,
            )
        except BaseException:
            made.listener.close()
            made.remove()
            self._files = None
            raise

    async def stop(self) -> None:
        """Stop serving; may be called again. Running calls are cancelled; a thread cannot be, and is left to its
        end."""
        server, made, pool = self._server, self._files, self._pool
        self._server = self._files = self._pool = None
        if server is not None:
            server.close()
        connections = list(self._living)
        tasks = [task for each in connections for task in each.tasks]
        for each in connections:
            each.abort()
        try:
            if connections:
                await asyncio.wait([each.closed for each in connections], timeout=LEAVE_S)
            if tasks:
                await asyncio.wait(tasks, timeout=LEAVE_S)
        finally:
            if made is not None:
                made.remove()
            if pool is not None:
                pool.shutdown(wait=False, cancel_futures=True)

    def run(self, name: str, arguments: bytes, progress: Progress) -> Awaitable[object]:
        """Call a tool with its arguments as JSON; to be awaited at once. Raises what the function raises, and
        ValueError for arguments that do not fit."""
        tool = self._tools.get(name)
        if tool is None:
            raise ToolNotFoundError(f"there is no tool {name[:80]!r}; there are {', '.join(self._tools) or 'none'}")
        given = tool.read(b"{}" if arguments == b"null" else arguments)
        if tool.progress:
            given[tool.progress] = progress
        if tool.blocking:
            return self._in_thread(tool, given)
        found: Awaitable[object] = tool.function(**given)
        return found

    async def _in_thread(self, tool: FunctionTool, given: dict[str, Any]) -> object:
        if self._pool is None:
            self._pool = ThreadPoolExecutor(self._threads, thread_name_prefix=f"tool-{self.name}")
        call = partial(contextvars.copy_context().run, partial(tool.function, **given))
        found, error = await asyncio.get_running_loop().run_in_executor(self._pool, _outcome, call)
        try:
            if isinstance(error, Exception) and not isinstance(error, StopIteration):
                raise error
            if error is not None:  # a future does not carry it, or the loop would end by it: it was only a thread's
                raise RuntimeError(f"{tool.name} raised {type(error).__name__}") from error
        finally:
            del error  # it holds this frame
        return await found if inspect.isawaitable(found) else found

    # Answers to clients.

    @property
    def socket_path(self) -> Path:
        return self._running().socket

    @property
    def schema_path(self) -> Path:
        return self._running().schema

    def command(self) -> list[str]:
        """The command that a client starts."""
        made = self._running()
        return bridge_command("gatepost.embed.bridge", str(made.socket), str(made.schema))

    def mcp_config(self, client: str = "claude") -> dict[str, Any]:
        """The client's configuration with this server in it."""
        return configuration(client, self.name, self.command())

    def mcp_config_text(self, client: str = "claude") -> str:
        """The same as it stands in the client's file."""
        return configuration_text(client, self.name, self.command())

    def _running(self) -> host_files.HostFiles:
        if self._files is None:
            raise RuntimeError("this host is not running: use `async with ToolHost(…) as host`")
        return self._files

    def _described(self) -> bytes:
        answer = {
            "server": {"name": self.name, "version": "1"},
            "owner": {"pid": os.getpid(), "since": time.time()},  # for whoever looks; the lock is what counts
            "tools": [tool.listed() for tool in self._tools.values()],
        }
        written = msgspec.json.encode(answer)
        if len(written) > LIMIT:
            raise MessageSizeError("the description of the tools", len(written))
        return written


def _outcome(call: Callable[[], object]) -> tuple[object, BaseException | None]:
    try:
        return call(), None
    except BaseException as error:  # noqa: BLE001  the dispatching loop: it is raised again where it is waited for
        return None, error
