"""What a sandbox can make the loop do on its way out, counted: turns of other tasks, reads, and steps of Python.

Data that has already arrived is read without suspending, so a loop over it must give others their turn by itself.
"""

import asyncio
import socket
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from types import FrameType
from typing import Any, TypeVar

import httpx2
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gatepost.core.json_limits import LONGEST_NUMBER, limit_numbers
from gatepost.core.token_bucket import Rate
from gatepost.egress import audio, request_bodies, tls_client_hello, token_usage, tool_costs, upstream
from gatepost.egress.http import MOST_LINGER, EgressClient, HttpRefusal, HttpRequestHead, parse_head, read_chunks
from gatepost.egress.model_proxy import VALUE_CHARGE
from gatepost.egress.pace import LEAST_CHARGE, Pace, PacedReader
from gatepost.egress.proxy import MOST_BLANKS, read_greeting
from gatepost.egress.rules import EgressTarget
from gatepost.egress.upstream import NO_KEY, Bill, request_headers

from .conftest import connect_line
from .test_http import ask
from .test_tls_client_hello import WHOLE, cut

T = TypeVar("T")
ELSEWHERE = EgressTarget("example.com", 8080)


class CountingReader(asyncio.StreamReader):
    """Everything has arrived; gives at most `most` bytes a read."""

    def __init__(self, data: bytes, most: int = 1 << 30) -> None:
        super().__init__(limit=1 << 30)
        self.reads, self._most = 0, most
        self.feed_data(data)
        self.feed_eof()

    async def read(self, n: int = -1) -> bytes:
        self.reads += 1
        return await super().read(min(n, self._most) if n >= 0 else n)


async def turns_during(work: Awaitable[T]) -> tuple[T, int]:
    """The result, and how often another task had its turn meanwhile."""
    turns = 0

    async def other() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    task = asyncio.ensure_future(other())
    try:
        return await work, turns
    finally:
        task.cancel()


@contextmanager
def counted_steps() -> Iterator[list[int]]:
    """Lines of Python that are run."""
    steps = [0]

    def trace(frame: FrameType, event: str, arg: object) -> Any:
        steps[0] += event == "line"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        yield steps
    finally:
        sys.settrace(before)


@asynccontextmanager
async def a_client(said: bytes = b"") -> AsyncIterator[tuple[EgressClient, CountingReader, asyncio.Task[bytes]]]:
    """A client that has said all of it; the task reads what it is answered."""
    ours, theirs = socket.socketpair()
    _, writer = await asyncio.open_connection(sock=ours)
    far, far_writer = await asyncio.open_connection(sock=theirs)
    answer = asyncio.ensure_future(far.read())
    reader = CountingReader(said)
    try:
        yield EgressClient(reader, writer), reader, answer
    finally:
        writer.close()
        far_writer.close()
        await answer


# Chunks.


async def all_of(pieces: AsyncIterator[bytes]) -> list[bytes]:
    return [piece async for piece in pieces]


async def test_stranger_new_chunks_of_one_byte_are_joined_and_let_others_run() -> None:
    reader = CountingReader(b"1\r\nx\r\n" * 20_000 + b"0\r\n\r\n")
    pieces, turns = await turns_during(all_of(read_chunks(PacedReader(reader), 1 << 20)))

    assert b"".join(pieces) == b"x" * 20_000
    assert len(pieces) < 200 and reader.reads < 10
    assert turns >= len(pieces) > 50


async def test_stranger_new_tiny_chunks_are_charged_to_the_session_as_the_work_that_they_are() -> None:
    few, many = Pace(), Pace()
    await all_of(read_chunks(PacedReader(CountingReader(b"2710\r\n" + b"x" * 10_000 + b"\r\n0\r\n\r\n"), few), 1 << 20))
    await all_of(read_chunks(PacedReader(CountingReader(b"1\r\nx\r\n" * 10_000 + b"0\r\n\r\n"), many), 1 << 20))
    assert few.spent < 20_000 and many.spent > 5_000_000


@given(st.lists(st.binary(min_size=1, max_size=20), max_size=30), st.integers(1, 40))
async def test_stranger_new_a_chunked_body_is_the_same_however_it_is_cut(parts: list[bytes], most: int) -> None:
    said = b"".join(b"%x;a=b\r\n%b\r\n" % (len(part), part) for part in parts) + b"0\r\n\r\n"
    reader = PacedReader(CountingReader(said, most))
    assert b"".join(await all_of(read_chunks(reader, 1000))) == b"".join(parts)


@pytest.mark.parametrize(
    "said",
    [b"1\r\nxx\r\n0\r\n\r\n", b"1\nx\r\n0\r\n\r\n", b"1\r\nx\n0\r\n\r\n", b"0\r\na: b\r\n\r\n", b"g\r\n", b"\r\n",
     b"1;" + b"x" * 9000 + b"\r\nx\r\n0\r\n\r\n", b"1;" + b"x" * 9000, b"-1\r\nx\r\n0\r\n\r\n"],
)  # fmt: skip
async def test_stranger_new_chunks_that_lie_are_refused_however_they_are_cut(said: bytes) -> None:
    for most in (7, 1000) if len(said) > 1000 else (1, 7, 1000):  # thousands of single bytes take seconds
        with pytest.raises(ValueError):
            await all_of(read_chunks(PacedReader(CountingReader(said, most)), 1000))


async def test_stranger_new_a_body_of_chunks_that_is_too_large_is_refused_at_their_heads() -> None:
    with pytest.raises(HttpRefusal, match="at most 1000 bytes"):
        await all_of(read_chunks(PacedReader(CountingReader(b"3e8\r\n" + b"x" * 1000 + b"\r\n1\r\n")), 1000))


# Answers.


async def test_stranger_new_a_host_that_only_sends_interim_answers_is_left(way: Any) -> None:
    final = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"
    assert (await ask(way, b"HTTP/1.1 100 Continue\r\n\r\n" * 3 + final)).endswith(b"ok")
    assert (await ask(way, b"HTTP/1.1 100 Continue\r\n\r\n" * 1000 + final)).startswith(b"HTTP/1.1 502")


async def test_stranger_new_an_answer_with_thousands_of_header_lines_is_refused(way: Any) -> None:
    assert (await ask(way, b"HTTP/1.1 200 OK\r\n" + b"a:\r\n" * 5000 + b"\r\nok")).startswith(b"HTTP/1.1 502")


def test_stranger_new_a_head_of_many_lines_is_not_cut_into_all_of_them() -> None:
    with pytest.raises(HttpRefusal, match="header lines"):
        parse_head(b"GET / HTTP/1.1" + b"\r\na:" * 15_000)


async def tiny(number: int, piece: bytes) -> AsyncIterator[bytes]:
    """They have arrived: nothing here waits."""
    for _ in range(number):
        yield piece


async def test_stranger_new_a_models_answer_in_tiny_pieces_lets_others_run() -> None:
    response = httpx2.Response(200, content=tiny(2000, b" "))
    async with a_client() as (client, _, answer):
        _, turns = await turns_during(upstream.send_response(client, response, "", Bill()))
        client.writer.close()
        assert (await answer).endswith(b" " * 2000)
    assert turns >= 2000


@pytest.mark.parametrize("number", [1, 500])
async def test_stranger_new_tiny_events_of_a_model_let_others_run(number: int) -> None:
    response = httpx2.Response(200, content=tiny(number, b": \n\n" * (16_000 // number)))
    async with a_client() as (client, _, answer):
        _, turns = await turns_during(upstream.stream_response(client, response, "", Bill(), drop_usage=False))
        client.writer.close()
        assert (await answer).endswith(b"0\r\n\r\n")
    assert turns >= max(number, 15)


class Searches(bytearray):
    """Counts the bytes that are searched for the end of an event."""

    bytes = 0

    def find(self, mark: Any, start: Any = 0, end: Any = None) -> int:
        Searches.bytes += len(self) - start
        return super().find(mark, start)


def test_stranger_new_events_are_found_in_one_pass_over_the_bytes() -> None:
    events = token_usage.UsageEventFilter()
    events._buffer = Searches()
    assert events.feed(b"a\n\n" * 5000 + b"b\r\n\r\nc\r\rd") == b"a\n\n" * 5000 + b"b\r\n\r\nc\r\r"
    assert Searches.bytes < 100_000 and events.rest() == b"d"


def test_stranger_new_an_answer_of_too_many_values_or_lines_is_not_read_for_its_usage() -> None:
    told = b'{"usage":{"input_tokens":1,"output_tokens":1},"x":[' + b"1," * 300_000 + b"1]}"
    assert token_usage.read_response_usage(told) == token_usage.MeasuredUsage()
    events = token_usage.UsageEventFilter()
    events.feed(b"data:\n" * 20_000 + b'data:{"usage":{"input_tokens":1,"output_tokens":1}}\n\n')
    assert events.measured == token_usage.MeasuredUsage()


# The first words in a tunnel.


async def test_stranger_new_line_feeds_in_a_plain_tunnel_are_few_reads_and_refused() -> None:
    reader = CountingReader(b"\n" * 16_384)
    with pytest.raises(HttpRefusal, match="blanks"):
        await read_greeting(PacedReader(reader), ELSEWHERE)
    assert reader.reads < 5


@pytest.mark.parametrize("blanks", [MOST_BLANKS + 1, 10_000, 70_000])
async def test_stranger_new_no_number_of_blanks_hides_a_request_from_the_rules(way: Any, blanks: int) -> None:
    await way.allow("localhost", way.host.port)
    said = b"\r\n" * (blanks // 2 + 1) + b"GET / HTTP/1.1\r\nHost: evil.example\r\n\r\n"
    await way.raw(connect_line(way.host.port) + said)
    assert way.host.heads == []


async def test_stranger_new_a_request_after_a_few_blanks_may_have_a_long_body_behind_it() -> None:
    line, rest = b"\r\nPOST / HTTP/1", b".1\r\n\r\n" + b"x" * 60_000
    reader = PacedReader(CountingReader(line + rest))
    assert await read_greeting(reader, ELSEWHERE) == line
    assert await reader.read(1 << 20) == rest


def first_line(said: bytes) -> bytes:
    """As the rules were when it was read sign by sign."""
    for end in range(1, len(said) + 1):
        line = said[:end]
        if line[-1:].isdigit() and line[-6:-1].upper() == b"HTTP/":
            return line
        if line[-1] < ord(" ") and line[-1] not in b"\t\v\f\r" and line.strip(b"\t\n\v\f\r "):
            return line
    return said


@given(
    st.lists(st.sampled_from([*b"\n\r\t ", *b"aZ\x00\x7f", b"HTTP/", b"http/1", b"1"]), max_size=40), st.integers(1, 9)
)
async def test_stranger_new_the_first_line_is_the_same_however_it_is_cut(said: list[Any], most: int) -> None:
    raw = b"".join(each if isinstance(each, bytes) else bytes([each]) for each in said)
    reader = PacedReader(CountingReader(raw, most))
    line = await read_greeting(reader, ELSEWHERE)
    rest = b""
    while piece := await reader.read():
        rest += piece
    assert (line, line + rest) == (first_line(raw), raw)


async def steps_of_greeting(size: int) -> int:
    """Steps for a greeting that comes byte by byte, and is that long."""
    said = b"\x16\x03\x01\x3f\xff\x01\x00\x3f\xf0" + bytes(size)
    with counted_steps() as steps, pytest.raises(HttpRefusal):
        await read_greeting(PacedReader(CountingReader(said, 1)), ELSEWHERE)
    return steps[0]


async def test_stranger_new_a_dribbled_tls_greeting_is_read_in_one_pass() -> None:
    """Looked at as bytes, not as steps: a pass over all of it for every byte is what must not be."""
    reader, looked_at = tls_client_hello.HelloReader(), 0

    class Piece(bytes):
        def __getitem__(self, key: Any) -> Any:
            nonlocal looked_at
            found = super().__getitem__(key)
            looked_at += len(found) if isinstance(found, bytes) else 1
            return found

    for at in range(len(WHOLE) - 1):
        assert reader.feed(Piece(WHOLE[at : at + 1])) is None
    assert reader.feed(WHOLE[-1:]) == tls_client_hello.ClientHello("example.com")
    assert looked_at < 3 * len(WHOLE)
    assert await steps_of_greeting(2000) < 3 * await steps_of_greeting(1000)


async def test_stranger_new_records_of_one_byte_that_are_dribbled_are_not_read_anew() -> None:
    async def steps(number: int) -> int:
        said = b"\x16\x03\x01\x00\x04\x01\x00\xff\xff" + b"\x16\x03\x01\x00\x01\x00" * number
        with counted_steps() as steps, pytest.raises(HttpRefusal):
            await read_greeting(PacedReader(CountingReader(said, 6)), ELSEWHERE)
        return steps[0]

    assert await steps(400) < 3 * await steps(200)


@given(st.integers(1, 600), st.integers(1, 700))
def test_stranger_new_a_greeting_is_the_same_however_it_is_cut(size: int, most: int) -> None:
    said, reader, found = cut(WHOLE, size) + b"\x17\x03\x03 and more", tls_client_hello.HelloReader(), None
    for at in range(0, len(said), most):
        found = found or reader.feed(said[at : at + most])
        if found:
            break
    assert found == tls_client_hello.ClientHello("example.com")


def test_stranger_new_a_greeting_of_very_many_records_or_extensions_is_refused_early() -> None:
    records = b"\x16\x03\x01\x00\x04\x01\x00\xff\xff" + b"\x16\x03\x01\x00\x01\x00" * 10_000
    extensions = bytes.fromhex("0015") + b"\x00\x00"
    body = b"\x03\x03" + bytes(32) + b"\x00" + b"\x00\x02\x13\x01" + b"\x01\x00"
    body += (4 * 3000).to_bytes(2) + extensions * 3000
    many = b"\x16\x03\x01" + (len(body) + 4).to_bytes(2) + b"\x01" + len(body).to_bytes(3) + body
    for said, why, most in ((records, "records", 30_000), (many, "extensions", 5_000)):
        with counted_steps() as steps, pytest.raises(tls_client_hello.MalformedClientHello, match=why):
            tls_client_hello.parse_client_hello(said)
        assert steps[0] < most


# Numbers, and other bodies that are more work than they look.


@pytest.fixture
def limited() -> Iterator[None]:
    before = sys.get_int_max_str_digits()
    limit_numbers()
    yield
    sys.set_int_max_str_digits(before)


@pytest.mark.usefixtures("limited")
def test_stranger_new_integers_of_thousands_of_digits_are_no_body() -> None:
    assert request_bodies.decode(b'{"a":' + b"9" * LONGEST_NUMBER + b"}") == {"a": int("9" * LONGEST_NUMBER)}
    with pytest.raises(HttpRefusal, match="out of range"):
        request_bodies.decode(b'{"a":' + b"9" * (LONGEST_NUMBER + 1) + b"}")


async def test_stranger_new_a_body_of_many_small_parts_is_judged_off_the_loop(way: Any) -> None:
    here: list[str] = []

    def seen(frame: FrameType, event: str, arg: object) -> None:
        if event == "call" and frame.f_code is request_bodies.check_body.__code__:
            here.append(frame.f_code.co_name)

    content = [{"type": "text", "text": "x"} for _ in range(1500)]
    body = {"model": "known-1", "max_tokens": 300, "messages": [{"role": "user", "content": content}]}
    sys.setprofile(seen)  # of this thread alone
    try:
        await way.post("/anthropic/v1/messages", body | {"messages": body["messages"]})
        assert here == []
        await way.post("/anthropic/v1/messages", body | {"messages": [{"role": "user", "content": "x"}]})
        assert here == ["check_body"]
    finally:
        sys.setprofile(None)
    assert len(way.vendor.asked["messages"]) == 1


@given(st.integers(0, 2_000_000), st.lists(st.integers(0, 12), min_size=1, max_size=5), st.integers(0, 60_000))
def test_stranger_new_the_tokens_of_tools_are_computed_and_not_counted_up(
    prompt: int, uses: list[int], most: int
) -> None:
    tools = tuple(tool_costs.DeclaredTool("x", tool_costs.ToolCost(declared=7, tokens=most), each) for each in uses)
    read = prompt + tool_costs.ANY_TOOL + 7 * len(uses)
    window = max(read, tool_costs.WINDOW)  # type: ignore[attr-defined]
    added = sum(min(read + number * most, window) for number in range(sum(uses) + 1)) - prompt
    assert tool_costs.Surcharge(tools).tokens(prompt) == added
    with counted_steps() as steps:
        tool_costs.Surcharge(tuple(tool_costs.DeclaredTool("x", tools[0].cost, 100_000) for _ in range(3))).tokens(
            prompt
        )
    assert steps[0] < 100


def test_stranger_new_a_form_whose_part_has_an_endless_head_is_refused_early() -> None:
    part = b'content-disposition: form-data; name="model"\r\n' + b"content-type: x\r\n" * 5000 + b"\r\nwhisper"
    raw = b"--x\r\n" + part + b"\r\n--x--\r\n"
    with suppress(HttpRefusal):
        audio.read_form("multipart/form-data; boundary=x", b"")  # patterns are compiled once
    with counted_steps() as steps, pytest.raises(HttpRefusal, match="head of more than"):
        audio.read_form("multipart/form-data; boundary=x", raw)
    assert steps[0] < 3000


def test_stranger_new_thousands_of_betas_are_not_looked_at_one_by_one() -> None:
    head = HttpRequestHead("POST", "/anthropic/v1/messages", (("anthropic-beta", "effort-2025-11-24," * 3000),), 0)
    with counted_steps() as steps:
        sent = request_headers(head, "anthropic", NO_KEY)["anthropic-beta"]
    assert sent.count("effort") == upstream.MOST_BETAS and steps[0] < 1000


def test_stranger_new_a_body_of_nothing_but_escapes_is_not_read() -> None:
    with pytest.raises(HttpRefusal, match="escaped signs"):
        request_bodies.decode(b'{"a":"' + b"\\u0001" * 2_000_001 + b'"}')


async def test_stranger_new_a_connection_header_of_thousands_of_names_is_refused(way: Any) -> None:
    await way.allow("localhost", way.host.port)
    head = f"GET http://localhost:{way.host.port}/ HTTP/1.1\r\nconnection: {'a,' * 20_000}\r\n\r\n"
    assert (await way.send(head.encode())).status == 400
    assert way.host.heads == []


# Bytes.


async def settle() -> None:
    for _ in range(200):
        await asyncio.sleep(0)


async def test_stranger_new_all_connections_of_a_session_share_one_rate() -> None:
    pace = Pace(Rate(per_second=0.001, burst=300_000, patience_s=float("inf")))
    readers = [CountingReader(bytes(200_000)) for _ in range(5)]

    async def drain(reader: PacedReader) -> None:
        while await reader.read():
            pass

    tasks = [asyncio.ensure_future(drain(PacedReader(each, pace))) for each in readers]
    await settle()
    taken = sum(200_000 - len(each._buffer) for each in readers)  # type: ignore[attr-defined]
    for task in tasks:
        task.cancel()
    assert 300_000 <= taken <= 300_000 + 5 * 65_536  # a burst, and one piece each


async def test_stranger_new_a_refused_request_with_an_endless_body_is_not_read_on() -> None:
    async with a_client(b"POST /nowhere HTTP/1.1\r\ncontent-length: 99999999\r\n\r\n" + bytes(2_000_000)) as (
        client,
        reader,
        _,
    ):
        await client.head()
        await client.drain_request()
        assert len(reader._buffer) >= 2_000_000 - MOST_LINGER - 65_536  # type: ignore[attr-defined]


@pytest.mark.parametrize("ask_by", ["tunnel", "put", "gone"])
async def test_stranger_new_bytes_of_every_way_out_are_charged_to_the_session(way: Any, ask_by: str) -> None:
    await way.allow("localhost", way.host.port)
    way.host.reply = b"HTTP/1.1 200 OK\r\ncontent-length: 300000\r\n\r\n" + bytes(300_000)
    data, put = bytes(500_000), f"PUT http://localhost:{way.host.port}/ HTTP/1.1\r\ncontent-length: 500000\r\n\r\n"
    inner = f"PUT / HTTP/1.1\r\nhost: localhost:{way.host.port}\r\ncontent-length: 500000\r\n\r\n"
    said: dict[str, Callable[[], bytes]] = {
        "tunnel": lambda: connect_line(way.host.port) + inner.encode() + data,
        "put": lambda: put.encode() + data,
        "gone": lambda: connect_line(way.host.port) + inner.encode() + data + data,
    }
    raw = await way.raw(said[ask_by]())
    assert raw.endswith(bytes(300_000)) and len(way.host.bodies[0]) == 500_000
    assert way.socket.way.pace.spent >= 800_000


async def test_stranger_new_a_models_bytes_are_charged_to_the_session(way: Any) -> None:
    way.vendor.reply = b"HTTP/1.1 200 OK\r\ncontent-length: 300000\r\n\r\n" + b" " * 300_000
    ask = {"model": "known-1", "max_tokens": 300, "messages": [{"role": "user", "content": "x" * 200_000}]}
    assert (await way.post("/anthropic/v1/messages", ask)).status == 200
    assert way.socket.way.pace.spent >= 500_000
    assert int(way.vendor.heads[0].lower().partition("content-length: ")[2].split()[0]) == len(way.vendor.bodies[0])


async def test_stranger_new_every_value_that_a_model_is_asked_with_is_charged_to_the_session(way: Any) -> None:
    part = {"type": "text", "text": "x"}
    ask = {"model": "known-1", "max_tokens": 300, "messages": [{"role": "user", "content": [part] * 5000}]}
    assert (await way.post("/anthropic/v1/messages", ask)).status == 200
    assert way.socket.way.pace.spent >= 10_000 * VALUE_CHARGE


async def test_stranger_new_a_small_piece_costs_the_session_more_than_its_byte() -> None:
    pace = Pace()
    reader = PacedReader(CountingReader(bytes(10), 1), pace)
    while await reader.read():
        pass
    assert pace.spent == 10 * LEAST_CHARGE
