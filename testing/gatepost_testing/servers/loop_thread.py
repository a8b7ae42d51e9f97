"""Servers of tests in a loop and a thread of their own: a gateway in this process or another can use them."""

import asyncio
import threading
from collections.abc import Callable, Coroutine
from contextlib import suppress
from socket import socket
from typing import TYPE_CHECKING, Any, Self, TypeVar

from gatepost_testing.waiting import PATIENCE_S

if TYPE_CHECKING:
    import uvicorn

T = TypeVar("T")


class LoopThread:
    """A subclass says how it is opened and closed. Both run in its own loop; all else may be called from any thread."""

    def __init__(self, name: str) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name=name, daemon=True)

    async def _open(self, port: int) -> None:
        raise NotImplementedError

    async def _close(self) -> None:
        raise NotImplementedError

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self, port: int = 0) -> None:
        self._thread.start()
        self._run_in_loop(self._open(port))

    def stop(self) -> None:
        self._run_in_loop(self._close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(PATIENCE_S)
        self._loop.close()

    def _run_in_loop(self, work: Coroutine[Any, Any, T], patience: float = PATIENCE_S) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(patience)

    async def _cancel_others(self) -> None:
        """Everything else that runs in this loop."""
        others = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)


class AsgiServer:
    """An ASGI application that is served in the loop it was started in."""

    def __init__(self, server: "uvicorn.Server", bound: socket) -> None:
        self.server = server
        self._serving = asyncio.create_task(server.serve(sockets=[bound]))

    @classmethod
    async def start(cls, app: Callable[..., Any], bound: socket, **options: Any) -> Self:
        import uvicorn

        # A log configuration of its own would change the log of the process that it runs in.
        config = uvicorn.Config(app, log_config=None, access_log=False, lifespan="off", **options)
        made = cls(uvicorn.Server(config), bound)
        while not made.server.started:  # noqa: ASYNC110  uvicorn has no event for it
            await asyncio.sleep(0.001)
        return made

    def list_connections(self) -> list[Any]:
        return list(self.server.server_state.connections)

    async def close(self) -> None:
        self.server.should_exit = self.server.force_exit = True
        try:
            with suppress(asyncio.CancelledError):
                async with asyncio.timeout(PATIENCE_S):
                    await self._serving
        except Exception as error:
            if not type(error).__module__.startswith("websockets."):  # uvicorn closes one that is closing already
                raise
