"""Strangers at the doors of a real daemon: what they hold open neither ends it nor fills it, and the owner gets in."""

import contextlib
import os
import resource
import socket
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest

from gatepost.core.listen import parse
from gatepost.testing.daemon import Daemon

UNFINISHED = b"GET / HTTP/1.1\r\nhost: localhost\r\n"
MEGABYTE = 1_000_000


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[Daemon]:
    with Daemon(tmp_path / "home") as running:
        yield running


def where(daemon: Daemon) -> tuple[str, int]:
    listen = parse(daemon.json("status")["listen"])
    return listen.host, listen.port


def descriptors(daemon: Daemon) -> int:
    return len(os.listdir(f"/proc/{daemon.pid}/fd"))


def memory(daemon: Daemon) -> int:
    return int(Path(f"/proc/{daemon.pid}/statm").read_text().split()[1]) * resource.getpagesize()


def is_well(daemon: Daemon, at: tuple[str, int]) -> bool:
    return httpx2.get(f"http://{at[0]}:{at[1]}/health", timeout=30).json() == {"status": "ok"}


@contextlib.contextmanager
def crowd(at: tuple[str, int], size: int) -> Iterator[None]:
    """So many who have begun a request and say nothing more."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(hard, size + 500)), hard))
    try:
        with contextlib.ExitStack() as stack:
            for _ in range(size):
                sock = stack.enter_context(socket.create_connection(at, timeout=30))
                with contextlib.suppress(OSError):  # it was closed already
                    sock.sendall(UNFINISHED)
            yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="descriptors are counted in /proc")
def test_stranger_05_unfinished_requests_do_not_use_up_the_descriptors(daemon: Daemon) -> None:
    at, before = where(daemon), descriptors(daemon)
    with crowd(at, 1_100):
        assert is_well(daemon, at)
        assert descriptors(daemon) <= before + 200
    assert daemon.gatepost("chat", "-m", "hello", "--wait").returncode == 0


@pytest.mark.skipif(not hasattr(resource, "prlimit"), reason="the limit of another process can be set on Linux")
def test_stranger_05_a_daemon_without_descriptors_goes_on_when_there_are_some_again(daemon: Daemon) -> None:
    at = where(daemon)
    few = descriptors(daemon) + 20
    resource.prlimit(daemon.pid, resource.RLIMIT_NOFILE, (few, few))
    with crowd(at, 60):  # the rest waits in the kernel's queue
        pass
    assert is_well(daemon, at)
    assert daemon.gatepost("status").returncode == 0


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="memory is read in /proc")
def test_stranger_05_headers_without_an_end_do_not_grow_the_daemon(daemon: Daemon) -> None:
    at, before = where(daemon), memory(daemon)
    with socket.create_connection(at, timeout=30) as sock:
        with contextlib.suppress(ConnectionError):
            sock.sendall(UNFINISHED)
            for number in range(100):
                sock.sendall(b"x-%d: %b\r\n" % (number, b"a" * MEGABYTE))
        assert is_well(daemon, at)
        assert memory(daemon) - before < 20 * MEGABYTE
