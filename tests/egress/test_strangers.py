"""What strangers found in the way out: each test is named after its finding."""

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gatepost.core.errors import Invalid
from gatepost.core.secret_scrubber import SecretStreamScrubber
from gatepost.egress import request_bodies, rules, tls_client_hello
from gatepost.egress.http import HttpRefusal, HttpRequestHead
from gatepost.egress.upstream import NO_KEY, request_headers

SECRETS = ("sk-0123456789abcdefghij", "zz-9876543210ABCDEFGHIJ", "s" * 200)


@given(st.lists(st.binary(max_size=300) | st.sampled_from([SECRETS[0][:n].encode() for n in range(1, 23)]), max_size=9))
def test_stranger_12_where_an_answer_is_cut_does_not_depend_on_the_secret(pieces: list[bytes]) -> None:
    """An agent that has a host repeat its words must not read a secret out of the sizes of the pieces."""
    cuts = set()
    for secret in SECRETS:
        scrub = SecretStreamScrubber([secret])
        cuts.add((*(len(scrub.feed(piece)) for piece in pieces), len(scrub.rest())))
    assert len(cuts) == 1


def test_stranger_12_a_long_secret_is_struck_out_across_pieces() -> None:
    for size in (1, 255, 256, 257, 5000):
        secret = bytes(65 + at % 26 for at in range(size))
        said, scrub = b"x" * 300 + secret + b"y" * 300, SecretStreamScrubber([secret.decode()])
        passed = b"".join([*(scrub.feed(said[at : at + 7]) for at in range(0, len(said), 7)), scrub.rest()])
        assert passed == said.replace(secret, b"*" * size)


HTTP = b"GET / HTTP/1.1\r\nHost: evil.example\r\n\r\n"


@pytest.mark.parametrize("lead", [b" ", b"\t", b"\x0b", b"\x0c", b"\r", b"\r\n \x0b", b"\n\n"])
async def test_stranger_e_no_blank_before_a_plain_request_hides_its_host(way: Any, lead: bytes) -> None:
    await _is_held_to_its_host(way, lead + HTTP)


@pytest.mark.parametrize("blank", [b"\t", b"\x0b", b"\x0c", b"\r"])
async def test_stranger_e_no_odd_blank_within_a_plain_request_hides_its_host(way: Any, blank: bytes) -> None:
    await _is_held_to_its_host(way, HTTP.replace(b" ", blank, 2))


async def _is_held_to_its_host(way: Any, said: bytes) -> None:
    await way.allow("localhost", way.host.port)
    await way.raw(f"CONNECT localhost:{way.host.port} HTTP/1.1\r\n\r\n".encode() + said)
    assert way.host.heads == []
    assert "denied" in [each.verdict for each in await way.log()]


@pytest.mark.parametrize("kind", [0xFE0D, 0xFFCE])
def test_stranger_e_a_greeting_that_may_name_another_host_in_secret_is_refused(kind: int) -> None:
    def block(data: bytes, size: int) -> bytes:
        return len(data).to_bytes(size) + data

    name = block(b"\x00" + block(b"allowed.example", 2), 2)
    plain = b"\x00\x00" + block(name, 2)

    def greeting(extensions: bytes) -> bytes:
        body = b"\x03\x03" + bytes(32) + block(b"", 1) + block(b"\x13\x01", 2) + block(b"\x00", 1)
        said = b"\x01" + block(body + block(extensions, 2), 3)
        return b"\x16\x03\x01" + block(said, 2)

    assert tls_client_hello.parse_client_hello(greeting(plain)) == tls_client_hello.ClientHello("allowed.example")
    with pytest.raises(tls_client_hello.MalformedClientHello, match="ECH"):
        tls_client_hello.parse_client_hello(greeting(plain + kind.to_bytes(2) + block(b"\x00" * 40, 2)))


SHAPES = {"messages": request_bodies.MESSAGES, "chat": request_bodies.CHAT, "responses": request_bodies.RESPONSES}
ODD: list[Any] = [None, True, 0, -1, 1.5, "", "x", [], [None], [[]], {}, {"edits": None}, {"type": None}, {"a": [1]}]
THINKING = {"type": "enabled", "budget_tokens": 5000}


@pytest.mark.parametrize("name", SHAPES)
def test_stranger_e_no_odd_value_of_a_listed_field_breaks_the_judge(name: str) -> None:
    """Refused with a sentence, or passed on; `context_management: null` was neither."""
    shape = SHAPES[name]
    field = "input" if name == "responses" else "messages"
    plain = {"model": "m", "thinking": THINKING, field: [{"role": "user", "content": "hi"}]}
    for listed in sorted(shape.fields | shape.refused.keys()):
        for value in ODD:
            try:
                asked = request_bodies.check_body(shape, plain | {listed: value}, frozenset(), 16_000)
                request_bodies.render_clamped_body(shape, asked, 300)
            except HttpRefusal as refusal:
                assert refusal.status == 400


async def test_stranger_e_a_null_in_context_management_reaches_the_vendor(way: Any) -> None:
    way.vendor.reply = (
        b'HTTP/1.1 200 OK\r\ncontent-length: 59\r\n\r\n{"content":[],"usage":{"input_tokens":1,"output_tokens":1}}'
    )
    ask = {"model": "known-1", "max_tokens": 300, "thinking": THINKING, "context_management": None}
    answer = await way.post("/anthropic/v1/messages", ask | {"messages": [{"role": "user", "content": "hi"}]})
    assert answer.status == 200


@pytest.mark.parametrize(
    ("place", "why"),
    [
        ([{"type": "message", "content": [{"type": "input_image", "image_url": "https://evil.example/x"}]}], "fetch"),
        ([{"id": "msg_1"}], "looked up"),
        ([{"type": "item_reference", "id": "msg_1"}], "kept at the vendor's"),
        ([{"type": "input_file", "file_id": "file-1"}], "file_id"),
    ],
)
def test_stranger_e_instructions_are_judged_like_the_rest_of_the_conversation(place: Any, why: str) -> None:
    body = {"model": "m", "input": "hi", "instructions": place}
    with pytest.raises(HttpRefusal, match=re.escape(why)):
        request_bodies.check_body(request_bodies.RESPONSES, body, frozenset(), 1000)


def test_stranger_e_betas_go_out_by_list() -> None:
    given = (
        "claude-code-20250219,server-side-fallback-2026-07-01,interleaved-thinking-2025-05-14,context-1m-2025-08-07,"
        "unheard-of-2027-01-01,advanced-tool-use-2025-11-20,effort,-2025-01-01"
    )
    head = HttpRequestHead("POST", "/anthropic/v1/messages", (("anthropic-beta", given),), 0)
    sent = request_headers(head, "anthropic", NO_KEY)["anthropic-beta"]
    assert sent == "claude-code-20250219,interleaved-thinking-2025-05-14,advanced-tool-use-2025-11-20"


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("http://example.com", "example.com:80"),
        ("https://example.com/a/b", "example.com:443"),
        ("https://example.com:8443/", "example.com:8443"),
        ("example.com/path", "example.com"),
        ("http://127.0.0.1/", "like example.com"),
    ],
)
def test_stranger_e_an_address_in_the_place_of_a_host_is_answered_with_the_host(text: str, meant: str) -> None:
    with pytest.raises(Invalid, match=re.escape(meant)):
        rules.read_pattern(text)


@pytest.mark.slow
async def test_stranger_16_a_refused_request_can_be_asked_for_its_reason(way: Any) -> None:
    """Of a refused CONNECT, curl shows a number and nothing else."""
    await way.raw(b"CONNECT blocked.example:443 HTTP/1.1\r\n\r\n")
    told = (await way.send(b"GET /refused HTTP/1.1\r\n\r\n")).text
    assert "blocked.example:443 is not allowed" in told
    assert "gatepost egress allow blocked.example:443 --folder acme/eng" in told
    for number in range(100):
        await way.raw(f"CONNECT h{number}.example:443 HTTP/1.1\r\n\r\n".encode())
    lines = (await way.send(b"GET /refused HTTP/1.1\r\n\r\n")).text.splitlines()
    assert len(lines) == 20 and "h99.example" in lines[-1]
