"""Strangers on the web: hooks, and addresses of files that a stranger chose."""

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pytest

from gatepost.channels.contract import HookRequest
from gatepost.channels.mastodon.adapter import MastodonChannel
from gatepost.channels.mastodon.wire import MastodonAccount, read_status
from gatepost.channels.webhook import wire
from gatepost.core.errors import GatepostError
from gatepost.testing.platforms.mastodon import MastodonPlatform
from gatepost.testing.platforms.wiring import make_channel

SECRET = "0123456789abcdef0123"


def test_a_copied_signed_post_is_known_whatever_header_is_added_to_it() -> None:
    """`is_proved` looks at the scheme of Authorization, `_find_identity` at whether there is one. With any other scheme
    the signature proves the copy, and its identity is fresh: it is received as often as it is sent."""
    body = b'{"text": "pay 100 to Eve"}'
    headers = {
        "content-type": "application/json",
        wire.SIGNATURE: wire.sign_post(SECRET, "/office", "", body),
        "authorization": "Basic eDp4",
    }
    copy = HookRequest(method="POST", path="/office", headers=headers, body=body)
    if wire.is_proved(copy, SECRET):
        assert wire.read_post(copy, "fresh-1").platform_id == wire.read_post(copy, "fresh-2").platform_id


class _Internal(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"an internal secret")

    def log_message(self, *args: Any) -> None: ...


@pytest.fixture
def internal() -> Iterator[str]:
    """Something that listens on this machine alone."""
    server = HTTPServer(("127.0.0.1", 0), _Internal)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_address[1]}/latest/meta-data/"
    server.shutdown()
    thread.join()
    server.server_close()


async def test_a_file_of_a_post_is_not_fetched_from_inside_the_gateways_own_network(internal: str) -> None:
    """Servers that speak Mastodon's API without a proxy of their own (Pleroma, Akkoma) pass on the address that the
    author's server wrote."""
    with MastodonPlatform() as platform:
        channel, _ = make_channel(platform)
        assert isinstance(channel, MastodonChannel)
        status = json.loads(
            json.dumps(
                {
                    "id": "1",
                    "account": {"id": "9", "acct": "eve@evil.example"},
                    "content": "look",
                    "visibility": "direct",
                    "media_attachments": [{"type": "image", "url": internal}],
                }
            )
        )
        read = read_status(status, "1", MastodonAccount("7", "porter"), channel._open)
        got = b""
        try:
            for each in read.attachments if read else ():
                assert each.open is not None
                async for chunk in each.open():
                    got += chunk
        except GatepostError:
            got = b""
        finally:
            await channel.close()
    assert got == b""
