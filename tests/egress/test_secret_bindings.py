"""Secrets bound to hosts, over the real socket: what goes out, what comes back, and who gets them."""

import base64
import html
import json
from collections.abc import Callable
from typing import Any
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gatepost.core.errors import Invalid
from gatepost.core.secret_scrubber import SecretStreamScrubber
from gatepost.egress.secret_bindings import parse_binding_header, parse_binding_host
from gatepost.store.port import Db
from gatepost.store.rights import secret_rows

SECRET = "ghp_the-token-0123456789"


async def bind(way: Any, place: tuple[str, str, int], *, folder: str | None = None, header: str = "") -> None:
    name, template = parse_binding_header(header or "Authorization: Bearer {}")

    def put(db: Db) -> None:
        secret_rows.put_binding(db, folder, "TOKEN", place, name, template, "operator", 1)

    await way.store.write(put)
    way.keys.keys["TOKEN"] = SECRET


async def test_a_request_to_a_bound_host_goes_out_over_tls_with_the_header(way: Any) -> None:
    port = way.safe.port
    await way.allow("localhost", port)
    await bind(way, ("https", "localhost", port))
    answer = await way.post(
        f"/to/localhost:{port}/repos?q=%2e",
        {"a": 1},
        "authorization: Bearer mine\r\nx-kept: 1\r\naccept-encoding: gzip\r\n",
    )

    assert (answer.status, answer.body) == (200, b"ok")
    head = way.safe.heads[0]
    assert head.startswith(f"POST /repos?q=%2e HTTP/1.1\r\nhost: localhost:{port}\r\n")
    assert head.lower().count("authorization") == 1 and f"authorization: Bearer {SECRET}\r\n" in head
    assert "x-kept: 1" in head and "accept-encoding: identity" in head and way.safe.bodies == [b'{"a": 1}']
    assert [(each.target, each.verdict, each.times) for each in await way.log()] == [
        (f"localhost:{port}", "allowed", 1)
    ]
    assert way.keys.purposes == [f"https://localhost:{port}"]


async def test_a_plain_request_gets_only_what_is_bound_to_the_plain_host(way: Any) -> None:
    port = way.host.port
    await way.allow("localhost", port)
    await bind(way, ("https", "localhost", port))
    ask = f"GET http://localhost:{port}/ HTTP/1.1\r\nx-key: mine\r\n\r\n".encode()
    await way.send(ask)
    await bind(way, ("http", "localhost", port), header="X-Key: {}")
    await way.send(ask)

    assert SECRET not in way.host.heads[0] and "x-key: mine" in way.host.heads[0]
    assert f"x-key: {SECRET}\r\n" in way.host.heads[1] and "mine" not in way.host.heads[1]


async def test_an_answer_that_repeats_the_secret_comes_back_without_it(way: Any) -> None:
    await way.allow("localhost", way.safe.port)
    await bind(way, ("https", "localhost", way.safe.port))
    said = f"you said {SECRET}!"
    way.safe.reply = f"HTTP/1.1 302 Go\r\nlocation: /{SECRET}\r\ncontent-length: {len(said)}\r\n\r\n{said}".encode()
    raw = await way.raw(f"GET /to/localhost:{way.safe.port} HTTP/1.1\r\n\r\n".encode())

    assert raw == way.safe.reply.replace(SECRET.encode(), b"*" * len(SECRET))
    assert len(way.safe.heads) == 1  # a redirect is the client's to follow


@pytest.mark.parametrize(
    "write",
    [
        lambda text: json.dumps(text).replace("/", "\\/"),
        lambda text: quote(text, safe=""),
        lambda text: html.escape(text),
        lambda text: base64.b64encode(f"x:{text}".encode()).decode(),
    ],
)
async def test_an_answer_that_repeats_the_secret_in_another_form_comes_back_without_it(
    way: Any, write: Callable[[str], str]
) -> None:
    port, secret = way.safe.port, "ghp/<the>&token/0123456789"
    await way.allow("localhost", port)
    await bind(way, ("https", "localhost", port))
    way.keys.keys["TOKEN"] = secret
    body = f"you sent {write(secret)} to us"
    way.safe.reply = f"HTTP/1.1 400 Bad\r\ncontent-length: {len(body)}\r\n\r\n{body}".encode()
    answer = await way.post(f"/to/localhost:{port}/", {"a": 1})
    assert answer.status == 400 and len(answer.text) == len(body) and "****" in answer.text
    assert write(secret) not in answer.text and answer.text.startswith("you sent ")


async def test_a_secret_that_is_too_short_to_be_struck_out_is_not_used(way: Any) -> None:
    port = way.safe.port
    await way.allow("localhost", port)
    await bind(way, ("https", "localhost", port))
    way.keys.keys["TOKEN"] = "k"
    answer = await way.post(f"/to/localhost:{port}/", {"a": 1})
    assert answer.status == 502 and "fewer than 8 characters" in answer.text and way.safe.heads == []


async def test_without_a_rule_a_bound_host_stays_closed_and_the_secret_shut(way: Any) -> None:
    await bind(way, ("https", "localhost", way.safe.port))
    answer = await way.send(f"GET /to/localhost:{way.safe.port}/ HTTP/1.1\r\n\r\n".encode())
    assert answer.status == 403 and "is not allowed for acme/eng" in answer.text
    assert way.safe.heads == [] and way.keys.purposes == []
    assert [each.verdict for each in await way.log()] == ["denied"]


async def test_a_secret_that_is_not_set_is_named_and_nothing_is_sent(way: Any) -> None:
    await way.allow("localhost", way.safe.port)
    await bind(way, ("https", "localhost", way.safe.port))
    del way.keys.keys["TOKEN"]
    answer = await way.send(f"GET /to/localhost:{way.safe.port}/ HTTP/1.1\r\n\r\n".encode())
    assert answer.status == 401 and "gatepost secret set TOKEN" in answer.text
    way.keys.keys["TOKEN"] = "two\r\nlines: 1"
    assert (await way.send(f"GET /to/localhost:{way.safe.port}/ HTTP/1.1\r\n\r\n".encode())).status == 502
    assert way.safe.heads == []


async def test_a_binding_of_another_group_does_not_hold_and_the_deepest_one_wins(way: Any) -> None:
    place = ("https", "localhost", way.safe.port)
    await way.allow("localhost", way.safe.port)
    await bind(way, place, folder="other", header="X-Other: {}")
    await bind(way, place, folder="root", header="X-Root: {}")
    await bind(way, place, header="X-Key: all {}")
    await bind(way, place, folder="acme/eng", header="X-Key: eng {}")
    await bind(way, place, folder="acme", header="X-Key: acme {}")
    await way.send(f"GET /to/localhost:{way.safe.port}/ HTTP/1.1\r\n\r\n".encode())
    assert f"x-key: eng {SECRET}" in way.safe.heads[0]
    assert way.safe.heads[0].count(SECRET) == 1


async def test_a_host_whose_certificate_is_anothers_gets_nothing(way: Any) -> None:
    way.names["bank.example"] = ["127.0.0.1"]
    await way.allow("bank.example", way.safe.port)
    await bind(way, ("https", "bank.example", way.safe.port))
    answer = await way.send(f"GET /to/bank.example:{way.safe.port}/ HTTP/1.1\r\n\r\n".encode())
    assert answer.status == 502 and "certificate" in answer.text
    assert way.safe.heads == []


@pytest.mark.parametrize(
    "path",
    ["/to/127.0.0.1:{port}/", "/to/[::1]:{port}/", "/to//localhost:{port}/", "/to/", "/to/user@localhost:{port}/",
     "/to/localhost:{port}\\@evil.com/", "/to/localhost%3a{port}/", "/to/localhost:{port}#x",
     "/to/api.anthropic.com/v1"],
)  # fmt: skip
async def test_no_spelling_of_a_place_gets_around_the_rules(way: Any, path: str) -> None:
    await way.allow("localhost", way.safe.port)
    await way.allow("*")
    answer = await way.send(f"GET {path.format(port=way.safe.port)} HTTP/1.1\r\n\r\n".encode())
    assert answer.status in (400, 403)
    assert way.safe.heads == []


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("api.github.com", ("https", "api.github.com", 443)),
        ("API.github.com.:8443", ("https", "api.github.com", 8443)),
        ("http://box.lan", ("http", "box.lan", 80)),
        ("https://x.com/", ("https", "x.com", 443)),
    ],
)
def test_a_place_is_read(text: str, place: tuple[str, str, int]) -> None:
    assert parse_binding_host(text) == place


@pytest.mark.parametrize("text", ["*.x.com", "*", "ftp://x.com", "x.com/path", "127.0.0.1", "a b", "", "u@x.com"])
def test_what_is_no_place_is_refused(text: str) -> None:
    with pytest.raises(Invalid):
        parse_binding_host(text)


@pytest.mark.parametrize(
    "text",
    ["Authorization", "Host: {}", "Content-Length: {}", "Proxy-Authorization: {}", "X: none", "X: {} {}", "X y: {}",
     "X: {}\r\nY: 1", ": {}", "Connection: {}", "X: é{}"],
)  # fmt: skip
def test_what_is_no_header_is_refused(text: str) -> None:
    with pytest.raises(Invalid):
        parse_binding_header(text)


@given(st.lists(st.sampled_from([b"a", b"ab", b"abab", b"abc", b"c", b"x"]), max_size=12))
def test_a_secret_is_struck_out_however_the_bytes_are_cut(pieces: list[bytes]) -> None:
    scrub = SecretStreamScrubber(["ababc"])
    passed = b"".join([*map(scrub.feed, pieces), scrub.rest()])
    assert passed == b"".join(pieces).replace(b"ababc", b"*****")
