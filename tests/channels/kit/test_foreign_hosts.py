"""Files whose address a stranger chose."""

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any
from urllib.parse import urlsplit

import pytest

from gatepost.channels.kit.foreign_hosts import find_public_address, pin_request, split_host
from gatepost.channels.kit.http import PlatformHttp
from gatepost.core.errors import Invalid, Refused, Unavailable


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
