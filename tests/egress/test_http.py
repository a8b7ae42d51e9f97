"""Answers of a host that a secret is bound to, in every form in which one could come back unrecognized."""

from typing import Any

import pytest

from gatepost.egress.secret_bindings import parse_binding_header
from gatepost.store.port import Db
from gatepost.store.rights import secret_rows

from .conftest import read_answer

SECRET = "ghp_the-token-0123456789"
STARS = "*" * len(SECRET)


async def ask(way: Any, reply: bytes, extra: str = "") -> bytes:
    """Return what comes back from a host that answers so."""
    port = way.host.port
    name, template = parse_binding_header("Authorization: Bearer {}")

    def put(db: Db) -> None:
        secret_rows.put_binding(db, None, "TOKEN", ("http", "localhost", port), name, template, "operator", 1)

    await way.store.write(put)
    await way.allow("localhost", port)
    way.keys.keys["TOKEN"], way.host.reply = SECRET, reply
    raw: bytes = await way.raw(f"GET http://localhost:{port}/ HTTP/1.1\r\n{extra}\r\n".encode())
    return raw


@pytest.mark.parametrize("size", [1, 5, 1000])
async def test_chunks_are_joined_before_the_secret_is_looked_for(way: Any, size: int) -> None:
    said = f"you said {SECRET}, {SECRET}!".encode()
    parts = [said[at : at + size] for at in range(0, len(said), size)]
    body = b"".join(b"%x;x=y\r\n%b\r\n" % (len(part), part) for part in (*parts, b""))
    raw = await ask(way, b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + body)

    answer = read_answer(raw.replace(b"Transfer-Encoding", b"transfer-encoding"))
    assert answer.text == f"you said {STARS}, {STARS}!"
    assert raw.endswith(b"0\r\n\r\n")


async def test_parts_and_packed_forms_are_not_asked_for(way: Any) -> None:
    await ask(way, way.host.reply, "range: bytes=0-9\r\nif-range: x\r\naccept-encoding: gzip\r\n")
    head = way.host.heads[0].lower()
    assert "range" not in head and "gzip" not in head


@pytest.mark.parametrize(
    "field", ["content-encoding: gzip", "transfer-encoding: gzip, chunked", "Content-Encoding: br"]
)
async def test_a_packed_answer_is_not_passed_on(way: Any, field: str) -> None:
    answer = read_answer(await ask(way, f"HTTP/1.1 200 OK\r\n{field}\r\n\r\nxyz".encode()))
    assert answer.status == 502 and "packs its answers" in answer.text


@pytest.mark.parametrize(
    "head",
    ["HTTP/1.1 200 OK\r\ncontent-encoding:\r\n gzip", "HTTP/1.1 200 OK\ncontent-encoding: gzip\nx: y",
     "HTTP/1.1 200 OK\r\nx: y\ncontent-encoding: gzip", "HTTP/1.1 200 OK\r\ncontent-encoding : gzip",
     "HTTP/1.1 200 OK\r\nx: y\rcontent-encoding: gzip", "HTTP/1.1 200 OK\r\nno colon", "HTTP/2 200 OK\r\nx: y"],
)  # fmt: skip
async def test_a_head_that_could_be_read_in_two_ways_is_not_passed_on(way: Any, head: str) -> None:
    answer = read_answer(await ask(way, f"{head}\r\n\r\nxyz".encode()))
    assert answer.status == 502 and "in two ways" in answer.text


async def test_an_answer_that_breaks_off_breaks_off_for_the_client_too(way: Any) -> None:
    raw = await ask(way, b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhel")
    assert raw.startswith(b"HTTP/1.1 200 OK") and not raw.endswith(b"0\r\n\r\n")
    assert read_answer(await ask(way, b"not HTTP")).status == 502


async def test_what_goes_before_an_answer_is_left_out(way: Any) -> None:
    raw = await ask(way, b"HTTP/1.1 103 Early\r\nlink: x\r\n\r\nHTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok")
    assert raw == b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"
