"""What a tunnel's client says first."""

import asyncio
import socket
import ssl
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gatepost.egress.http import HttpRefusal
from gatepost.egress.pace import PacedReader
from gatepost.egress.proxy import read_greeting
from gatepost.egress.rules import EgressTarget
from gatepost.egress.tls_client_hello import ClientHello, MalformedClientHello, begins_tls, parse_client_hello
from gatepost.store.rights import audit
from gatepost_testing.waiting import PATIENCE_S

from .conftest import certified


def greeting(name: str | None) -> bytes:
    """A real client's."""
    context = ssl.create_default_context()
    context.check_hostname = False
    inside, outside = ssl.MemoryBIO(), ssl.MemoryBIO()
    talk = context.wrap_bio(inside, outside, server_hostname=name)
    with pytest.raises(ssl.SSLWantReadError):
        talk.do_handshake()
    return outside.read()


WHOLE = greeting("Example.COM")


def cut(data: bytes, size: int) -> bytes:
    """The same greeting in records of at most that size."""
    said = data[5:]
    pieces = [said[at : at + size] for at in range(0, len(said), size)]
    return b"".join(b"\x16\x03\x01" + len(piece).to_bytes(2) + piece for piece in pieces)


def test_a_real_greeting_names_its_host_or_none() -> None:
    assert parse_client_hello(WHOLE) == ClientHello("example.com")
    assert parse_client_hello(greeting(None)) == ClientHello("")


@given(st.integers(1, 600))
def test_a_greeting_in_several_records_is_read_as_one(size: int) -> None:
    assert parse_client_hello(cut(WHOLE, size) + b"\x17\x03\x03 and more") == ClientHello("example.com")


@given(st.integers(0, len(WHOLE) - 1))
def test_what_is_not_all_there_yet_waits(size: int) -> None:
    assert parse_client_hello(WHOLE[:size]) is None


@given(st.binary(max_size=400))
def test_nothing_but_a_greeting_is_read_as_one(data: bytes) -> None:
    with suppress(MalformedClientHello):
        parse_client_hello(data)


@given(st.integers(0, len(WHOLE) - 1), st.integers(0, 255))
def test_a_changed_greeting_is_read_or_refused_and_never_breaks_anything(at: int, value: int) -> None:
    data = WHOLE[:at] + bytes([value]) + WHOLE[at + 1 :]
    try:
        found = parse_client_hello(data)
    except MalformedClientHello:
        return
    assert found is None or found.name.isascii()


def extended(*extensions: bytes) -> bytes:
    body = b"\x03\x03" + bytes(32) + b"\x00" + b"\x00\x02\x13\x01" + b"\x01\x00"
    joined = b"".join(extensions)
    body += len(joined).to_bytes(2) + joined
    said = b"\x01" + len(body).to_bytes(3) + body
    return b"\x16\x03\x01" + len(said).to_bytes(2) + said


def named(*names: bytes) -> bytes:
    listed = b"".join(b"\x00" + len(name).to_bytes(2) + name for name in names)
    content = len(listed).to_bytes(2) + listed
    return b"\x00\x00" + len(content).to_bytes(2) + content


def test_more_than_one_name_is_refused() -> None:
    assert parse_client_hello(extended(named(b"a.com"))) == ClientHello("a.com")
    for data in (extended(named(b"a.com"), named(b"b.com")), extended(named(b"a.com", b"b.com")), extended(named())):
        with pytest.raises(MalformedClientHello):
            parse_client_hello(data)


@pytest.mark.parametrize("data", [b"GET / HTTP/1.1", b"\x80\x2e\x01", b"SSH-2.0-x", b"\x16\x04"])
def test_what_is_no_tls_is_seen_by_its_first_bytes(data: bytes) -> None:
    assert not begins_tls(data)


async def tunnel(way: Any, port: int, said: bytes, host: str = "localhost", size: int = 100) -> bytes:
    """Return what comes back to the first words in a tunnel; `size` -1: until the gateway closes it."""
    reader, writer = await asyncio.open_unix_connection(way.path)
    async with asyncio.timeout(PATIENCE_S):
        writer.write(f"CONNECT {host}:{port} HTTP/1.1\r\n\r\n".encode())
        assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 200")
        writer.write(said)
        back = await reader.read(size)
        writer.close()
    return back


async def test_a_tunnel_whose_client_names_another_host_is_cut_and_written_down(way: Any) -> None:
    await way.allow("localhost", way.safe.port)
    for said in (greeting("evil.com"), greeting(None)):
        alert = await tunnel(way, way.safe.port, said, size=-1)  # it is written down between the alert and the end
        assert alert == b"\x15\x03\x01\x00\x02\x02\x70"  # unrecognized name
    log = await way.log()
    assert {each.reason.partition("greeting")[2] for each in log if each.verdict == "denied"} == {
        f" in a tunnel to localhost:{way.safe.port} names 'evil.com'",
        f" in a tunnel to localhost:{way.safe.port} names no host",
    }
    assert [row[3] for row in await way.store.read(audit.list_latest, 10)] == ["egress", "egress"]
    assert way.safe.heads == []


async def test_the_greeting_of_the_allowed_host_is_answered_also_if_it_comes_in_pieces(way: Any) -> None:
    await way.allow("localhost", way.safe.port)
    assert (await tunnel(way, way.safe.port, cut(greeting("LOCALHOST"), 50)))[:1] == b"\x16"


async def test_a_whole_conversation_goes_through_a_tunnel(way: Any) -> None:
    await way.allow("localhost", way.safe.port)

    def talk() -> bytes:
        with socket.socket(socket.AF_UNIX) as raw:
            raw.settimeout(PATIENCE_S)
            raw.connect(str(way.path))
            raw.sendall(f"CONNECT localhost:{way.safe.port} HTTP/1.1\r\n\r\n".encode())
            assert raw.recv(1000).startswith(b"HTTP/1.1 200")
            with certified().client.wrap_socket(raw, server_hostname="localhost") as safe:
                safe.sendall(b"GET / HTTP/1.1\r\n\r\n")
                return safe.recv(1000)

    assert (await asyncio.to_thread(talk)).endswith(b"ok")


@pytest.mark.parametrize(("said", "port"), [(b"SSH-2.0-x\r\n", 22), (b"GET / HTTP/1.1\r\n\r\n", 8080), (b"", 443)])
async def test_other_ports_are_for_whatever_is_spoken_there(said: bytes, port: int) -> None:
    begun = await read_greeting(fed(said), EgressTarget("x.com", port))
    assert said.startswith(begun) and bool(begun) == bool(said)  # what comes behind it is passed on as it comes


@pytest.mark.parametrize(
    ("said", "port"),
    [(b"GET / HTTP/1.1\r\n\r\n", 443), (WHOLE[:50], 443), (WHOLE[:50], 8443)],
    ids=["http", "cut", "cut elsewhere"],
)
async def test_a_tunnel_to_the_tls_port_is_for_tls_alone(said: bytes, port: int) -> None:
    with pytest.raises(HttpRefusal, match="is for TLS"):
        await read_greeting(fed(said), EgressTarget("x.com", port))


def fed(said: bytes) -> PacedReader:
    reader = asyncio.StreamReader()
    reader.feed_data(said)
    reader.feed_eof()
    return PacedReader(reader)
