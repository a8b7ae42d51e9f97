"""HTTP to a platform: its address is checked, and no error shows what stands behind the host."""

import asyncio
import socket
import sys
import threading
from collections.abc import Iterator
from contextvars import copy_context
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any
from urllib.parse import urlsplit

import httpx2
import pytest

from gatepost.channels.contract import ChannelDeps, ChannelEnded, EndReason
from gatepost.channels.kit.http import (
    PlatformAnswer,
    PlatformHttp,
    PlatformRefusal,
    check_web_address,
    explain_no_connection,
    explain_unreached,
    find_public_address,
    list_socket_options,
    pin_request,
    split_host,
)
from gatepost.channels.mastodon import adapter as mastodon_adapter
from gatepost.channels.telegram.api import TelegramApi
from gatepost.core.errors import GatepostError, Invalid, Refused, Unavailable
from gatepost.core.process.fencing import MAY_ACT
from gatepost.core.settings import Config
from gatepost.flow.delivery.retry import DeliveryRetryPolicy, next_try
from gatepost.store.postgres.gateway_lease import LEASE_S
from gatepost_testing.clock import FixedClock

KEY = "123456:hush-hush-hush-hush"


@pytest.mark.parametrize(
    ("address", "shown"),
    [
        ("127.0.0.1:1", "'127.0.0.1:1'"),
        ("ftp://x", "'ftp://x'"),
        ("", "''"),
        ("http://", "'http://'"),
        ("http://[x", "'http://[x'"),
        ("http://x:port", "'http://x:port'"),
        (f"ftp://{KEY}@x", "'ftp://x'"),
    ],
)
def test_an_address_that_is_none_is_named_without_what_follows_the_host(address: str, shown: str) -> None:
    with pytest.raises(ChannelEnded, match="is no web address; write it as https://host") as plain:
        check_web_address(address)
    assert plain.value.reason is EndReason.SETTING and shown in str(plain.value)
    deps = ChannelDeps(instance="telegram", config=Config(), clock=FixedClock())
    with pytest.raises(ChannelEnded) as joined:
        TelegramApi(address, KEY, deps)
    with pytest.raises(ChannelEnded) as whole:
        PlatformHttp("Telegram", f"{address}/bot{KEY}/")
    assert KEY not in f"{plain.value} {joined.value} {whole.value}"


async def test_a_platform_that_cannot_be_reached_is_named_with_its_reason() -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    http = PlatformHttp("Toy", f"http://127.0.0.1:{port}")
    with pytest.raises(Unavailable) as failed:
        await http.call("GET", "me")
    await http.close()
    why = f"it cannot be reached at 127.0.0.1:{port} (the connection was refused)"
    assert str(failed.value) == f"Toy is unavailable: {why}"


def test_the_reason_is_found_below_what_the_client_says() -> None:
    error = httpx2.ConnectError("all attempts failed")
    error.__cause__ = ExceptionGroup("both", [OSError("no number"), socket.gaierror(-2, "not known")])
    found = explain_unreached("https://nobody.invalid/bot/secret", error)
    assert found == "it cannot be reached at nobody.invalid:443 (there is no such name)"
    assert "(no answer in time)" in explain_unreached("http://x", httpx2.ConnectTimeout("late"))
    assert explain_no_connection("irc.test", 6697, TimeoutError()).endswith("at irc.test:6697 (no answer in time)")


async def test_one_that_speaks_no_tls_is_named_so() -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        writer.close()

    async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        http = PlatformHttp("Toy", f"https://127.0.0.1:{port}")
        with pytest.raises(Unavailable, match=rf"at 127\.0\.0\.1:{port} \(TLS failed: "):
            await http.call("GET", "me")
        await http.close()


def read_wait(http: PlatformHttp, told: str) -> float | None:
    with pytest.raises(Unavailable) as raised:
        http._raise_error(httpx2.Response(429, headers={"retry-after": told}), {}, "send", True)
    next_try(1, raised.value, 0, DeliveryRetryPolicy())
    return raised.value.retry_after


@pytest.mark.parametrize(
    ("told", "wait"), [("7", 7.0), ("0.5", 0.5), ("-3", 0.0), ("nan", None), ("inf", None), ("-inf", None), ("x", None)]
)
def test_a_wait_that_is_no_number_of_seconds_is_none(told: str, wait: float | None) -> None:
    assert read_wait(PlatformHttp("it", "https://example.org"), told) == wait


@pytest.mark.parametrize(("found", "wait"), [(3.0, 3.0), (float("nan"), None), (float("inf"), None)])
def test_so_is_one_that_stands_in_the_answer(found: float, wait: float | None) -> None:
    http = PlatformHttp("it", "https://example.org", find_retry_after=lambda response, answer: found)
    assert read_wait(http, "9") == wait


async def test_a_platform_may_have_words_of_its_own_for_an_error() -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked = await reader.readuntil(b"\r\n\r\n")
        body = b'{"fault": "closed"}' if asked.startswith(b"GET /closed") else b'{"fault": ""}'
        head = f"content-type: application/json\r\nretry-after: 7\r\ncontent-length: {len(body)}\r\nconnection: close"
        writer.write(f"HTTP/1.1 200 OK\r\n{head}\r\n\r\n".encode() + body)
        writer.close()

    def read_error(given: PlatformAnswer) -> GatepostError | None:
        if given.body["fault"]:
            return Unavailable("Shop", f"{given.action}: {given.body['fault']}", retry_after=given.retry_after)
        return None

    async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        http = PlatformHttp("Shop", f"http://127.0.0.1:{port}", read_error=read_error)
        assert await http.call("GET", "open") == {"fault": ""}
        with pytest.raises(Unavailable, match="ask: closed") as raised:
            await http.call("GET", "closed", action="ask")
        await http.close()
    assert raised.value.retry_after == 7


def test_a_thing_that_a_server_does_not_offer_is_refused_and_not_tried_again() -> None:
    http = PlatformHttp("it", "https://example.org")
    with pytest.raises(PlatformRefusal, match="501 storage is off"):
        http._raise_error(httpx2.Response(501), {"message": "storage is off"}, "upload a file", True)
    for status in (408, 425, 502):  # these are for later
        with pytest.raises(Unavailable):
            http._raise_error(httpx2.Response(status), {}, "upload a file", True)


@pytest.mark.parametrize(("told", "wait"), [("90", 90.0), ("0", None), ("soon", None), ("864000", 120.0)])
def test_a_service_that_is_away_is_left_alone_for_as_long_as_it_says(told: str, wait: float | None) -> None:
    """But not for days: nobody would be heard meanwhile, and messages would be given up."""
    http = PlatformHttp("it", "https://example.org")
    with pytest.raises(Unavailable) as raised:
        http._raise_error(httpx2.Response(503, headers={"retry-after": told}), {}, "send", True)
    assert (raised.value.retry_after, raised.value.uncertain) == (wait, True)


@pytest.mark.parametrize(
    ("date", "wait"),
    [
        ("Wed, 18 Nov 2026 10:00:00 GMT", 90.0),
        ("Wed, 18 Nov 2026 10:05:00 GMT", 0.0),
        ("Wed, 18 Nov 2026 10:00:00 -0000", None),
        ("Wed, 18 Nov 99999999999 10:00:00 GMT", None),
        ("", None),
    ],
)
def test_a_wait_may_be_told_as_a_moment_of_the_servers_own_clock(date: str, wait: float | None) -> None:
    headers = {"retry-after": "Wed, 18 Nov 2026 10:01:30 GMT", "date": date}
    with pytest.raises(Unavailable) as raised:
        PlatformHttp("it", "https://example.org")._raise_error(httpx2.Response(429, headers=headers), {}, "send", True)
    assert raised.value.retry_after == wait


def test_a_platform_is_asked_for_its_wait_only_where_it_limits_us() -> None:
    asked: list[int] = []

    def find(response: httpx2.Response, answer: object) -> float:
        asked.append(response.status_code)
        return 9.0

    http = PlatformHttp("it", "https://example.org", find_retry_after=find)
    http._raise_error(httpx2.Response(200), {}, "read", False)
    assert asked == [] and read_wait(http, "3") == 9.0 and asked == [429]


@pytest.mark.skipif(sys.platform != "linux", reason="the option is Linux's")
def test_the_kernel_gives_up_what_another_gateway_might_say_meanwhile() -> None:
    assert list_socket_options() == []  # nobody else would

    def list_shared() -> list[tuple[int, int, int]]:
        MAY_ACT.set(lambda: True)
        return list_socket_options()

    ((level, option, given),) = copy_context().run(list_shared)
    with socket.socket() as made:
        made.setsockopt(level, option, given)
        assert made.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT) < LEASE_S * 1000


def test_the_end_of_a_limit_without_a_time_zone_is_not_known() -> None:
    http = PlatformHttp("it", "https://example.org", find_retry_after=mastodon_adapter._find_retry_after)
    with pytest.raises(Unavailable) as raised:
        http._raise_error(httpx2.Response(429, headers={"x-ratelimit-reset": "2026-11-18T10:00:00"}), {}, "send", True)
    assert raised.value.retry_after is None


class _Internal(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()
        self.wfile.write(self.headers["host"].encode())

    def log_message(self, *args: Any) -> None: ...


@pytest.fixture
def internal() -> Iterator[int]:
    """The port of something that listens on this machine alone."""
    server = HTTPServer(("127.0.0.1", 0), _Internal)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield server.server_address[1]
    server.shutdown()
    thread.join()
    server.server_close()


async def fetch(http: PlatformHttp, url: str, **more: Any) -> bytes:
    try:
        return b"".join([chunk async for chunk in http.download(url, **more)])
    finally:
        await http.close()


@pytest.mark.slow
@pytest.mark.parametrize(
    "host",
    ["127.0.0.1", "localhost", "[::1]", "[::ffff:127.0.0.1]", "2130706433", "0x7f.1", "0.0.0.0", "eve@127.0.0.1"],
)
async def test_a_file_is_not_fetched_from_inside_our_own_network(internal: int, host: str) -> None:
    http = PlatformHttp("Toy", "https://toy.example")
    with pytest.raises((Refused, Unavailable)):
        await fetch(http, f"http://{host}:{internal}/latest/meta-data/")


@pytest.mark.parametrize("address", ["10.0.0.1", "192.168.1.1", "169.254.169.254", "fd00::1", "fe80::1", "100.64.0.1"])
async def test_no_private_address_is_public(address: str) -> None:
    with pytest.raises(Refused, match="public web"):
        await find_public_address("Toy", address, 80)


async def test_a_public_address_is_and_is_asked_under_its_name() -> None:
    assert await find_public_address("Toy", "1.1.1.1", 443) == "1.1.1.1"
    parts = urlsplit("https://ann:pw@bücher.example/a?b=c#d")
    pinned = pin_request(parts, *split_host(parts), "2606:4700::1111")
    assert pinned.url == "https://[2606:4700::1111]:443/a?b=c"
    assert pinned.host == pinned.name == "xn--bcher-kva.example"
    other = urlsplit("http://media.example:8080")
    assert pin_request(other, *split_host(other), "1.1.1.1").host == "media.example:8080"


@pytest.mark.slow
async def test_the_platforms_own_origin_and_a_host_that_the_operator_named_may_be_private(internal: int) -> None:
    own = f"http://127.0.0.1:{internal}"
    assert await fetch(PlatformHttp("Toy", own), f"{own}/file") == f"127.0.0.1:{internal}".encode()
    away = PlatformHttp("Toy", "https://toy.example")
    assert await fetch(away, f"{own}/file", known_host=True) == f"127.0.0.1:{internal}".encode()


@pytest.mark.parametrize(
    "url", ["http://[", "http://a:99999/", "file:///etc/passwd", "http:///x", "http://" + "a" * 80]
)
async def test_an_address_that_cannot_be_read_is_named_as_such(url: str) -> None:
    with pytest.raises(Invalid):
        await fetch(PlatformHttp("Toy", "https://toy.example"), url)
