"""Connections are taken at a bounded rate, and a shortage of descriptors is waited for."""

import asyncio
import resource
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path

import pytest

from gatepost.core.process.acceptor import Acceptor
from gatepost.core.process.unix_sockets import bind_unix
from gatepost.core.token_bucket import Rate, TokenBucket
from gatepost_testing.waiting import PATIENCE_S


class Greeting(asyncio.Protocol):
    made = 0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # uvloop's has no such base
        Greeting.made += 1
        transport.write(b"hello")


@pytest.fixture(params=["asyncio", "uvloop"])
def anyio_backend(request: pytest.FixtureRequest) -> tuple[str, dict[str, bool]]:
    return "asyncio", {"use_uvloop": request.param == "uvloop"}


@pytest.fixture
async def path(tmp_path: Path) -> AsyncIterator[Path]:
    Greeting.made = 0
    yield tmp_path / "s"


async def greeted(path: Path) -> None:
    reader, writer = await asyncio.open_unix_connection(path)
    assert await reader.readexactly(5) == b"hello"
    writer.close()


@contextmanager
def few_descriptors() -> Iterator[None]:
    """No descriptor is left in this process."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with ExitStack() as stack:
        last = stack.enter_context(socket.socket()).fileno()
        resource.setrlimit(resource.RLIMIT_NOFILE, (last + 1, hard))
        stack.callback(resource.setrlimit, resource.RLIMIT_NOFILE, (soft, hard))
        with ExitStack() as used:
            try:
                while True:
                    used.enter_context(socket.socket())
            except OSError:
                pass
            yield


async def test_whoever_connects_is_served_until_it_is_closed(path: Path) -> None:
    with closing(Acceptor(bind_unix(path), Greeting)):
        for _ in range(3):
            await greeted(path)
    with pytest.raises(ConnectionRefusedError):
        await greeted(path)


async def test_who_is_not_admitted_is_closed_at_once(path: Path) -> None:
    with closing(Acceptor(bind_unix(path), Greeting, admit=lambda sock: False)):
        with pytest.raises(asyncio.IncompleteReadError):
            await greeted(path)
    assert Greeting.made == 0


async def test_stranger_05_a_shortage_of_descriptors_is_waited_for(path: Path) -> None:
    with closing(Acceptor(bind_unix(path), Greeting)), socket.socket(socket.AF_UNIX) as client:
        client.setblocking(False)
        with few_descriptors():
            client.connect(str(path))
            await asyncio.sleep(0)
            await asyncio.sleep(0)
        loop = asyncio.get_running_loop()
        async with asyncio.timeout(PATIENCE_S):
            assert await loop.sock_recv(client, 5) == b"hello"


async def test_stranger_04_who_connects_too_fast_waits_in_the_queue(path: Path) -> None:
    bucket = TokenBucket(Rate(per_second=0.001, burst=2, patience_s=1), asyncio.get_running_loop().time())
    with closing(Acceptor(bind_unix(path), Greeting, bucket=bucket)), ExitStack() as stack:
        clients = [stack.enter_context(socket.socket(socket.AF_UNIX)) for _ in range(10)]
        for client in clients:
            client.setblocking(False)
            client.connect(str(path))
        loop = asyncio.get_running_loop()
        for client in clients[:3]:
            assert await loop.sock_recv(client, 5) == b"hello"
        assert Greeting.made == 3
