"""An answer's head and its body leave together, in order, and nothing is held back beyond the moment."""

import asyncio

import pytest

from gatepost.serve.coalescing_transport import SMALL, CoalescingTransport

HEAD = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n"


class Wire(asyncio.Transport):
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
async def wire() -> Wire:
    return Wire()


def corked(wire: Wire) -> CoalescingTransport:
    return CoalescingTransport(wire, asyncio.get_running_loop())


async def test_a_short_answer_is_one_write(wire: Wire) -> None:
    transport = corked(wire)
    for _ in range(2):
        transport.write(HEAD)
        transport.write(b"ok")
    await asyncio.sleep(0)
    assert wire.written == [HEAD + b"ok"] * 2


async def test_the_head_of_a_stream_does_not_wait_for_its_first_event(wire: Wire) -> None:
    transport = corked(wire)
    transport.write(HEAD)
    assert wire.written == []
    await asyncio.sleep(0)
    assert wire.written == [HEAD]
    transport.write(b"data: x\n\n")
    assert wire.written == [HEAD, b"data: x\n\n"]


async def test_a_large_body_is_not_copied_and_comes_behind_its_head(wire: Wire) -> None:
    transport = corked(wire)
    transport.write(HEAD)
    transport.write(b"x" * SMALL)
    assert wire.written == [HEAD, b"x" * SMALL]


async def test_what_looks_like_a_head_keeps_its_place(wire: Wire) -> None:
    transport = corked(wire)
    for piece in (HEAD, b"HTTP/1.1 says a body", b"HTTP/1.1 again", b"end"):
        transport.write(piece)
    await asyncio.sleep(0)
    assert b"".join(wire.written) == HEAD + b"HTTP/1.1 says a bodyHTTP/1.1 againend"


async def test_who_closes_loses_nothing_and_a_lost_connection_is_not_written_to(wire: Wire) -> None:
    transport = corked(wire)
    transport.write(HEAD)
    transport.close()
    assert wire.written == [HEAD] and transport.is_closing()

    gone = Wire()
    transport = corked(gone)
    transport.write(HEAD)
    gone.close()
    await asyncio.sleep(0)
    assert gone.written == []
