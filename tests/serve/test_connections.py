"""What a stranger may use of the HTTP servers, without a login and without an end; an answer leaves in one write."""

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from gatepost.core.process.listen_address import parse
from gatepost.serve import connections
from gatepost.serve.connections import LARGEST_HEAD, MOST_AHEAD, MOST_HEADERS, SMALL, CoalescingTransport
from gatepost.serve.http import HttpServer, bind, get_bound_address
from gatepost_testing.waiting import PATIENCE_S, until

Wire = tuple[asyncio.StreamReader, asyncio.StreamWriter]


async def take(request: Request) -> Response:
    return PlainTextResponse(str(len(await request.body())))


async def think(request: Request) -> Response:
    """At work until the request's own event is set."""
    await THOUGHT[request.path_params["name"]].wait()
    return PlainTextResponse("thought")


THOUGHT: defaultdict[str, asyncio.Event] = defaultdict(asyncio.Event)
APP = Starlette(routes=[Route("/", take, methods=["GET", "POST"]), Route("/think/{name}", think)])


@pytest.fixture(params=["asyncio", "uvloop"])
def anyio_backend(request: pytest.FixtureRequest) -> tuple[str, dict[str, bool]]:
    return "asyncio", {"use_uvloop": request.param == "uvloop"}


class Served:
    def __init__(self, server: HttpServer, port: int) -> None:
        self.server, self.port = server, port
        self.wires: list[Wire] = []

    async def connect(self, said: bytes = b"") -> Wire:
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        writer.write(said)
        self.wires.append((reader, writer))
        return reader, writer

    async def ask(self, said: bytes) -> bytes:
        reader, _ = await self.connect(said)
        async with asyncio.timeout(PATIENCE_S):
            return await reader.read()


@asynccontextmanager
async def serving(per_peer: int = 128) -> AsyncIterator[Served]:
    listen = parse("127.0.0.1:0")
    sock = bind(listen)
    served = Served(HttpServer(APP, sock, per_peer), get_bound_address(listen, sock).port)
    running = asyncio.create_task(served.server.run())
    try:
        yield served
    finally:
        for _, writer in served.wires:
            writer.close()
        served.server.stop()
        await asyncio.wait_for(running, PATIENCE_S)


CLOSE = b"GET / HTTP/1.1\r\nhost: x\r\nconnection: close\r\n"


async def test_stranger_05_a_head_has_so_many_lines_and_bytes() -> None:
    async with serving() as served:
        fits = CLOSE + b"a: b\r\n" * (MOST_HEADERS - 2) + b"\r\n"
        many = CLOSE + b"a: b\r\n" * (MOST_HEADERS - 1) + b"\r\n"
        long = CLOSE + b"a: " + b"b" * LARGEST_HEAD + b"\r\n\r\n"
        path = b"GET /?" + b"a" * LARGEST_HEAD + b" HTTP/1.1\r\nhost: x\r\n\r\n"

        assert (await served.ask(fits)).startswith(b"HTTP/1.1 200")
        for said in (many, long, path):
            assert (await served.ask(said)).startswith(b"HTTP/1.1 431")


async def test_stranger_05_a_header_that_never_ends_is_not_kept() -> None:
    async with serving() as served:
        _, writer = await served.connect(CLOSE + b"a: ")
        await until(lambda: len(served.server.connections) == 1)
        (connection,) = served.server.connections
        with pytest.raises(ConnectionError):
            for _ in range(300):
                writer.write(b"b" * 1_000_000)
                await writer.drain()

        assert connection.received < 2_000_000  # the head, and what is read at once


async def test_stranger_05_trailers_that_never_end_are_not_kept() -> None:
    async with serving() as served:
        said = b"POST / HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n1\r\na\r\n0\r\na: "
        _, writer = await served.connect(said)
        await until(lambda: len(served.server.connections) == 1)
        (connection,) = served.server.connections
        with pytest.raises(ConnectionError):
            for _ in range(300):
                writer.write(b"b" * 1_000_000)
                await writer.drain()

        assert connection.received < 2_000_000


async def test_a_body_in_small_chunks_is_taken_and_trailers_are_left_out() -> None:
    said = b"POST / HTTP/1.1\r\nhost: x\r\nconnection: close\r\ntransfer-encoding: chunked\r\n\r\n"
    async with serving() as served:
        answer = await served.ask(said + b"1\r\na\r\n" * 20_000 + b"0\r\nx: y\r\n\r\n")

    assert answer.endswith(b"20000")


async def test_stranger_05_unfinished_requests_make_way_for_the_one_that_is_finished() -> None:
    async with serving(per_peer=20) as served:
        for _ in range(100):
            await served.connect(b"GET / HTTP/1.1\r\nhost: x\r\n")
        answer = await served.ask(CLOSE + b"\r\n")

        assert answer.startswith(b"HTTP/1.1 200")
        assert len(served.server.connections) <= 20


async def test_stranger_05_a_connection_that_is_being_answered_is_not_taken_away() -> None:
    async with serving(per_peer=2) as served:
        THOUGHT.clear()
        asked = b"GET /think/it HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n"
        first, second = await served.connect(asked), await served.connect(asked)
        await until(lambda: [each.is_waiting for each in served.server.connections] == [False, False])
        assert await served.ask(CLOSE + b"\r\n") == b""  # refused: both places are at work
        THOUGHT["it"].set()
        for reader, _ in (first, second):
            assert (await reader.read()).endswith(b"thought")


async def test_stranger_new_a_body_that_does_not_come_makes_way_and_the_larger_one_goes_on() -> None:
    async with serving(per_peer=2) as served:
        half = b"POST / HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: %d\r\n\r\n%s"
        upload, slow = await served.connect(half % (1001, b"a" * 1000)), await served.connect(half % (2, b"a"))
        await until(lambda: {each.body for each in served.server.connections} == {1000, 1})
        assert (await served.ask(CLOSE + b"\r\n")).endswith(b"0")
        with pytest.raises(ConnectionResetError):
            assert await slow[0].read() == b""
            raise ConnectionResetError
        upload[1].write(b"b")
        assert (await upload[0].read()).endswith(b"1001")


async def test_stranger_new_requests_far_ahead_of_their_answers_are_refused() -> None:
    async with serving(per_peer=1) as served:
        THOUGHT.clear()
        asked = b"GET /think/it HTTP/1.1\r\nhost: x\r\n\r\n"
        reader, _ = await served.connect(asked * (MOST_AHEAD + 2))
        assert await reader.read() == b""
        await served.connect(asked * 2)
        await until(lambda: [each.is_hasty for each in served.server.connections] == [True])
        assert (await served.ask(CLOSE + b"\r\n")).endswith(b"0")
        THOUGHT["it"].set()


async def test_stranger_05_a_head_that_does_not_come_and_a_body_that_stops_end_the_connection() -> None:
    async with serving() as served:
        head, body = b"GET / HTTP/1.1\r\nhost", b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 100000\r\n\r\na"
        slow, silent, stops = await served.connect(head), await served.connect(), await served.connect(body)
        came = {len(head), 0, len(body)}
        await until(lambda: {each.received for each in served.server.connections} == came)
        for each in list(served.server.connections):
            each.late()  # as the timer does

        assert (await slow[0].read()).startswith(b"HTTP/1.1 408")
        for reader, _ in (silent, stops):
            with pytest.raises(ConnectionResetError):
                assert await reader.read() == b""
                raise ConnectionResetError


@pytest.mark.parametrize(
    ("limit", "said", "told"),
    [
        ("HEAD_S", b"", b""),
        ("HEAD_S", b"GET / HTTP/1.1\r\nhost", b"HTTP/1.1 408"),
        ("BODY_S", b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 9\r\n\r\na", b""),
    ],
    ids=["nothing", "half a head", "half a body"],
)
async def test_stranger_05_who_says_no_more_is_not_waited_for(
    monkeypatch: pytest.MonkeyPatch, limit: str, said: bytes, told: bytes
) -> None:
    monkeypatch.setattr(connections, limit, 0.01)
    async with serving() as served:
        with suppress(ConnectionResetError):
            assert (await served.ask(said))[: len(b"HTTP/1.1 408")] == told
        await until(lambda: len(served.server.connections) == 0)


HEAD = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n"


class RecordingTransport(asyncio.Transport):
    """Writes down what reaches it."""

    def __init__(self) -> None:
        super().__init__()
        self.written: list[bytes] = []
        self.closed = False

    def write(self, data: bytes | bytearray | memoryview) -> None:
        assert not self.closed
        self.written.append(bytes(data))

    def close(self) -> None:
        self.closed = True

    def is_closing(self) -> bool:
        return self.closed


@pytest.fixture
async def wire() -> RecordingTransport:
    return RecordingTransport()


def corked(wire: RecordingTransport) -> CoalescingTransport:
    return CoalescingTransport(wire, asyncio.get_running_loop())


async def test_a_short_answer_is_one_write(wire: RecordingTransport) -> None:
    transport = corked(wire)
    for _ in range(2):
        transport.write(HEAD)
        transport.write(b"ok")
    await asyncio.sleep(0)
    assert wire.written == [HEAD + b"ok"] * 2


async def test_the_head_of_a_stream_does_not_wait_for_its_first_event(wire: RecordingTransport) -> None:
    transport = corked(wire)
    transport.write(HEAD)
    assert wire.written == []
    await asyncio.sleep(0)
    assert wire.written == [HEAD]
    transport.write(b"data: x\n\n")
    assert wire.written == [HEAD, b"data: x\n\n"]


async def test_a_large_body_is_not_copied_and_comes_behind_its_head(wire: RecordingTransport) -> None:
    transport = corked(wire)
    transport.write(HEAD)
    transport.write(b"x" * SMALL)
    assert wire.written == [HEAD, b"x" * SMALL]


async def test_what_looks_like_a_head_keeps_its_place(wire: RecordingTransport) -> None:
    transport = corked(wire)
    for piece in (HEAD, b"HTTP/1.1 says a body", b"HTTP/1.1 again", b"end"):
        transport.write(piece)
    await asyncio.sleep(0)
    assert b"".join(wire.written) == HEAD + b"HTTP/1.1 says a bodyHTTP/1.1 againend"


async def test_who_closes_loses_nothing_and_a_lost_connection_is_not_written_to(wire: RecordingTransport) -> None:
    transport = corked(wire)
    transport.write(HEAD)
    transport.close()
    assert wire.written == [HEAD] and transport.is_closing()

    gone = RecordingTransport()
    transport = corked(gone)
    transport.write(HEAD)
    gone.close()
    await asyncio.sleep(0)
    assert gone.written == []
