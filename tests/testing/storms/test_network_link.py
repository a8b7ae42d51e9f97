"""A link that can be cut: what is behind it reaches this machine, or nobody."""

import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from gatepost_testing.storms.network_link import FOLDER, NetworkLink, find_link_hindrance

CONNECT = "import socket, sys; socket.create_connection((sys.argv[1], int(sys.argv[2])), timeout=float(sys.argv[3]))"
SOON_S, LONG_S = "0.5", "20"  # for what cannot come, and for what must


@pytest.fixture
def link() -> Iterator[NetworkLink]:
    if hindrance := find_link_hindrance():
        pytest.skip(hindrance)
    with NetworkLink() as made:
        yield made


def connect(link: NetworkLink, port: int, wait: str) -> bool:
    command = [*link.enter, sys.executable, "-c", CONNECT, link.host, str(port), wait]
    return subprocess.run(command, stderr=subprocess.DEVNULL, check=False).returncode == 0


@pytest.mark.slow
def test_nothing_passes_a_link_that_is_cut_until_it_is_joined(link: NetworkLink) -> None:
    with socket.create_server((link.host, 0)) as server:
        port = server.getsockname()[1]
        assert connect(link, port, LONG_S)
        link.cut()
        assert not connect(link, port, SOON_S)
        with socket.create_connection(server.getsockname()):  # this machine reaches itself
            link.join()
        assert connect(link, port, LONG_S)


def test_nothing_is_left_of_it(link: NetworkLink) -> None:
    with NetworkLink() as other:
        assert (FOLDER / other.name).exists()
        assert other.host != link.host
    assert not (FOLDER / other.name).exists()
    assert not any(each.name.startswith(other.name) for each in Path("/sys/class/net").iterdir())
