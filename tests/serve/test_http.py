"""Sockets that are the owner's from the first moment, and a server that stops when it is told to."""

import asyncio
import os
import socket
import stat
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import uvloop
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route

from gatepost.core.errors import SetupError
from gatepost.core.process.listen_address import ListenAddress, parse
from gatepost.core.token_bucket import Rate
from gatepost.serve.http import ARRIVALS, HttpServer, bind, get_bound_address, open_listener
from gatepost_testing.waiting import PATIENCE_S

HELLO = Starlette(routes=[Route("/", lambda request: PlainTextResponse("hello"))])


async def ask(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bytes:
    writer.write(b"GET / HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n")
    answer = await reader.read()
    writer.close()
    return answer


@asynccontextmanager
async def serving(app: Starlette, sock: socket.socket, arrivals: Rate = ARRIVALS) -> AsyncIterator[HttpServer]:
    server = HttpServer(app, sock, arrivals=arrivals)
    running = asyncio.create_task(server.run())
    try:
        yield server
    finally:
        server.stop()
        await asyncio.wait_for(running, PATIENCE_S)


async def test_port_zero_takes_a_free_port_and_tells_it() -> None:
    listen = parse("127.0.0.1:0")
    sock = bind(listen)
    port = get_bound_address(listen, sock).port

    async with serving(HELLO, sock):
        answer = await ask(*await asyncio.open_connection("127.0.0.1", port))

    assert port > 0
    assert answer.endswith(b"hello")
    assert b"server:" not in answer.lower()


async def test_ipv6_loopback_is_served() -> None:
    listen = parse("[::1]:0")
    try:
        sock = bind(listen)
    except SetupError as error:
        pytest.skip(f"no IPv6 here: {error}")
    async with serving(HELLO, sock):
        assert (await ask(*await asyncio.open_connection("::1", get_bound_address(listen, sock).port))).endswith(
            b"hello"
        )


async def test_stranger_05_connections_beyond_the_rate_wait_in_the_kernels_queue() -> None:
    listen = parse("127.0.0.1:0")
    sock = bind(listen)
    where = ("127.0.0.1", get_bound_address(listen, sock).port)

    async with serving(HELLO, sock, Rate(per_second=0.001, burst=2, patience_s=0)) as server:
        some = [await asyncio.open_connection(*where) for _ in range(12)]
        answers = [await ask(*each) for each in some[:3]]  # the third is taken on credit
        waiting = len(server.connections)
        for _, writer in some[3:]:
            writer.close()

    assert all(answer.endswith(b"hello") for answer in answers)
    assert waiting <= 3, "those in the queue are not the server's yet"


def test_a_taken_port_is_named_with_the_way_out() -> None:
    with bind(parse("127.0.0.1:0")) as first:
        port = first.getsockname()[1]
        with pytest.raises(SetupError, match=rf"port {port} .*--listen"):
            bind(parse(str(port)))


@pytest.mark.parametrize("umask", [0o000, 0o077])
def test_a_socket_is_the_owners_from_the_first_moment(tmp_path: Path, umask: int) -> None:
    before = os.umask(umask)
    try:
        with bind(ListenAddress("unix", path=tmp_path / "s.sock")):
            mode = (tmp_path / "s.sock").lstat().st_mode
    finally:
        os.umask(before)
    assert stat.S_ISSOCK(mode)
    assert stat.S_IMODE(mode) == 0o600


def test_a_regular_file_at_the_socket_path_is_refused_and_left_intact(tmp_path: Path) -> None:
    path = tmp_path / "control.sock"
    path.write_text("precious")

    with pytest.raises(SetupError, match="not a socket"):
        bind(ListenAddress("unix", path=path))

    assert path.read_text() == "precious"


def test_a_link_at_the_socket_path_is_not_followed(tmp_path: Path) -> None:
    with bind(ListenAddress("unix", path=tmp_path / "live.sock")):
        (tmp_path / "link.sock").symlink_to(tmp_path / "live.sock")
        with pytest.raises(SetupError, match="not a socket"):
            bind(ListenAddress("unix", path=tmp_path / "link.sock"))
        assert (tmp_path / "live.sock").exists()


def test_a_dead_socket_is_replaced_and_a_live_one_is_not(tmp_path: Path) -> None:
    listen = ListenAddress("unix", path=tmp_path / "s.sock")
    bind(listen).close()  # leaves its file behind, as a killed daemon does

    with bind(listen):
        with pytest.raises(SetupError, match="already serves"):
            bind(listen)
        assert (tmp_path / "s.sock").exists()


def test_a_path_beyond_107_bytes_is_refused_with_its_length(tmp_path: Path) -> None:
    path = tmp_path / ("x" * (108 - len(os.fsencode(tmp_path)) - 1))
    assert len(os.fsencode(path)) == 108
    with pytest.raises(SetupError, match=r"108 bytes.*at most 107.*GATEPOST_CONTROL_SOCK"):
        bind(ListenAddress("unix", path=path))


def test_a_missing_folder_is_named(tmp_path: Path) -> None:
    with pytest.raises(SetupError, match="nowhere"):
        bind(ListenAddress("unix", path=tmp_path / "nowhere" / "s.sock"))


async def test_the_sockets_file_goes_with_its_block_unless_somebody_else_took_its_place(tmp_path: Path) -> None:
    path = tmp_path / "s.sock"
    with open_listener(ListenAddress("unix", path=path)) as sock:
        async with serving(HELLO, sock):
            assert (await ask(*await asyncio.open_unix_connection(path))).endswith(b"hello")
    assert not path.exists()

    with open_listener(ListenAddress("unix", path=path)):
        path.unlink()
        path.write_text("somebody else's")
    assert path.read_text() == "somebody else's"


def test_unix_sockets_are_served_on_uvloop_too(tmp_path: Path) -> None:
    async def serve_and_ask() -> bytes:
        path = tmp_path / "s.sock"
        async with serving(HELLO, bind(ListenAddress("unix", path=path))):
            return await ask(*await asyncio.open_unix_connection(path))

    assert uvloop.run(serve_and_ask()).endswith(b"hello")


@pytest.mark.slow
async def test_a_stream_that_never_ends_is_cut_when_the_server_stops() -> None:
    ended = asyncio.Event()

    async def forever() -> AsyncIterator[bytes]:
        try:
            yield b"first"
            await asyncio.Event().wait()
        finally:
            ended.set()

    async def stream(request: Request) -> Response:
        return StreamingResponse(forever())

    listen = parse("0")
    sock = bind(listen)
    async with serving(Starlette(routes=[Route("/", stream)]), sock):
        reader, writer = await asyncio.open_connection("127.0.0.1", get_bound_address(listen, sock).port)
        writer.write(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n")
        await reader.readuntil(b"first")
    await asyncio.wait_for(ended.wait(), PATIENCE_S)
    writer.close()
