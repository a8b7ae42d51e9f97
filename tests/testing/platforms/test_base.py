"""What all emulators share."""

import socket
import ssl
from pathlib import Path

import pytest
from websockets.client import ClientProtocol
from websockets.protocol import State
from websockets.uri import parse_uri

from gatepost_testing.certificates import ThrowawayAuthority
from gatepost_testing.platforms.base import NotOffered, PlatformFault
from gatepost_testing.platforms.mattermost import MattermostPlatform
from gatepost_testing.platforms.toy import ToyPlatform


def test_a_fault_that_nobody_claims_does_not_hold_up_the_others() -> None:
    platform = ToyPlatform()
    platform.fault(PlatformFault.FORGOTTEN, PlatformFault.BUSY, PlatformFault.RATE_LIMIT)
    sending = (PlatformFault.RATE_LIMIT, PlatformFault.BUSY)
    assert platform.claim_fault(*sending) is PlatformFault.BUSY
    assert platform.claim_fault(*sending) is PlatformFault.RATE_LIMIT
    assert platform.claim_fault(*sending) is None
    assert platform.list_unused() == [PlatformFault.FORGOTTEN]
    platform.heal()
    assert platform.list_unused() == []


def test_one_fault_that_is_asked_for_twice_happens_twice() -> None:
    platform = ToyPlatform()
    platform.fault(PlatformFault.BUSY, PlatformFault.BUSY)
    assert [platform.claim_fault(PlatformFault.BUSY) for _ in range(3)] == [PlatformFault.BUSY] * 2 + [None]


def test_whom_a_platform_without_a_rule_wakes_is_not_known() -> None:
    with pytest.raises(NotOffered):
        ToyPlatform().list_woken()


def test_a_platform_stops_while_a_websocket_is_being_closed(tmp_path: Path) -> None:
    authority = ThrowawayAuthority(tmp_path)
    platform = MattermostPlatform()
    platform.host, platform.certificate = "localhost", authority.sign("localhost")
    trust = ssl.create_default_context(cafile=str(authority.ca_file))
    client = ClientProtocol(parse_uri("wss://localhost/api/v4/websocket"))
    platform.start()
    try:
        tls = trust.wrap_socket(socket.create_connection(("localhost", platform.port)), server_hostname="localhost")
        client.send_request(client.connect())
        tls.sendall(b"".join(client.data_to_send()))
        while client.state is State.CONNECTING:
            client.receive_data(tls.recv(4096))
        client.send_close(1000)
        tls.sendall(b"".join(client.data_to_send()))
        while client.close_rcvd is None:
            client.receive_data(tls.recv(4096))
    finally:
        platform.stop()  # the client has not hung up, and TLS waits for its last word
    tls.close()
