"""A web server of files on this machine's loopback, and what it was asked; where sandboxes reach nothing without a
rule.

async with serving(folder) as web:
    …  # at web.url, a name that this process knows
"""

import socket
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

HOST = "origin.test"  # an address can never be allowed, and to localhost programs go without asking the proxy
LOOPBACK = "127.0.0.1"


@dataclass
class FileServer:
    port: int = 0
    asked: list[str] = field(default_factory=list)  # paths

    @property
    def url(self) -> str:
        return f"http://{HOST}:{self.port}"


class _RecordingHandler(SimpleHTTPRequestHandler):
    web: FileServer

    def __init__(self, *args: object, web: FileServer, **more: object) -> None:
        self.web = web
        super().__init__(*args, **more)  # type: ignore[arg-type]

    def do_GET(self) -> None:
        self.web.asked.append(self.path)
        super().do_GET()

    def log_message(self, format: str, *args: object) -> None:
        pass


@contextmanager
def _resolve_test_host() -> Iterator[None]:
    """The resolver of this process, which is the gateway's, knows the name."""
    real = socket.getaddrinfo

    def look_up(host: Any, *args: Any, **more: Any) -> Any:
        return real(LOOPBACK if host == HOST else host, *args, **more)

    socket.getaddrinfo = look_up
    try:
        yield
    finally:
        socket.getaddrinfo = real


@asynccontextmanager
async def serve_files(folder: Path) -> AsyncIterator[FileServer]:
    web = FileServer()
    with (
        _resolve_test_host(),
        ThreadingHTTPServer((LOOPBACK, 0), partial(_RecordingHandler, web=web, directory=str(folder))) as server,
    ):
        web.port = server.server_address[1]
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield web
        finally:
            server.shutdown()
            thread.join()
