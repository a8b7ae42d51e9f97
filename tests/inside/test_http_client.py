"""Just enough of HTTP: every way in which a body comes, and every way in which it does not."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from gatepost.inside.http_client import (
    ClientEndpoint,
    IncompleteResponse,
    parse_endpoint,
    parse_retry_after,
    post_request,
)


@asynccontextmanager
async def a_server(path: Path, answer: bytes, heard: list[bytes] | None = None) -> AsyncIterator[ClientEndpoint]:
    """Says this to whoever asks, then hangs up."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        if heard is not None:
            heard.append(head)
        writer.write(answer)
        await writer.drain()
        writer.close()

    server = await asyncio.start_unix_server(serve, str(path / "x.sock"))
    try:
        yield ClientEndpoint(prefix="/openai/v1", socket=path / "x.sock")
    finally:
        server.close()


async def body_of(endpoint: ClientEndpoint) -> bytes:
    async with post_request(endpoint, "/chat/completions", {"x-a": "b"}, b"{}", 10) as response:
        return await response.read()


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2;x=y\r\nhe\r\n3\r\nllo\r\n0\r\n\r\n",
        b"HTTP/1.0 200 OK\r\n\r\nhello",
        b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello",
    ],
)
async def test_a_body_comes_in_any_way(tmp_path: Path, answer: bytes) -> None:
    heard: list[bytes] = []
    async with a_server(tmp_path, answer, heard) as endpoint:
        assert await body_of(endpoint) == b"hello"
    assert heard[0].startswith(b"POST /openai/v1/chat/completions HTTP/1.1\r\n") and b"\r\nx-a: b\r\n" in heard[0]


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"HTTP/1.1 200",
        b"SSH-2.0-OpenSSH\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ncontent-length: 50\r\n\r\nhello",
        b"HTTP/1.1 200 OK\r\ncontent-length: 99999999999\r\n\r\nhello",
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhel",
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhello\r\n",
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n",
    ],
)
async def test_whatever_is_not_whole_is_cut(tmp_path: Path, answer: bytes) -> None:
    async with a_server(tmp_path, answer) as endpoint:
        with pytest.raises(IncompleteResponse):
            await body_of(endpoint)


async def test_nobody_there_is_said_with_the_place() -> None:
    with pytest.raises(IncompleteResponse, match=r"127\.0\.0\.1:1 cannot be reached"):
        await body_of(parse_endpoint("http://127.0.0.1:1"))


async def test_events_are_whole_whatever_the_pieces(tmp_path: Path) -> None:
    text = b": hello\n\ndata: one\r\n\r\nevent: x\ndata: two\ndata: more\n\ndata: last"
    pieces = [text[at : at + 7] for at in range(0, len(text), 7)]
    chunks = b"".join(b"%x\r\n%s\r\n" % (len(piece), piece) for piece in pieces) + b"0\r\n\r\n"
    head = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
    async with a_server(tmp_path, head + chunks) as endpoint:
        async with post_request(endpoint, "/", {}, b"", 10) as response:
            assert response.is_stream
            assert [event async for event in response.events()] == [b"one", b"two\nmore", b"last"]


def test_a_base_url_is_read() -> None:
    assert parse_endpoint("https://api.example.com/v1/") == ClientEndpoint("/v1", "api.example.com", 443, True)
    assert parse_endpoint("http://localhost:8080") == ClientEndpoint("", "localhost", 8080, False)
    with pytest.raises(ValueError, match="no base URL"):
        parse_endpoint("localhost:8080")


def test_a_pause_is_a_number_or_a_date() -> None:
    assert parse_retry_after("7.5", 0) == 7.5
    assert parse_retry_after("-1", 0) == 0
    assert parse_retry_after("1e99", 0) == 604_800
    assert parse_retry_after("Thu, 01 Jan 1970 00:01:40 GMT", 40) == 60
    assert (
        parse_retry_after("soon", 0) is None
        and parse_retry_after("nan", 0) is None
        and parse_retry_after("", 0) is None
    )
