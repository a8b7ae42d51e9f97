"""Strangers at the doors of a real daemon: what they hold open neither ends it nor fills it, and the owner gets in."""

import contextlib
import os
import resource
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx2
import pytest

from gatepost.core.process.descriptor_limit import ENOUGH
from gatepost.core.process.listen_address import parse
from gatepost.serve.connections import PER_PEER
from gatepost_testing.daemon import READY, DaemonProcess
from gatepost_testing.waiting import PATIENCE_S

UNFINISHED = b"GET / HTTP/1.1\r\nhost: localhost\r\n"
MEGABYTE = 1_000_000


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[DaemonProcess]:
    with DaemonProcess(tmp_path / "home") as running:
        yield running


def where(daemon: DaemonProcess) -> tuple[str, int]:
    listen = parse(daemon.json("status")["listen"])
    return listen.host, listen.port


def descriptors(daemon: DaemonProcess) -> int:
    return len(os.listdir(f"/proc/{daemon.pid}/fd"))


def memory(daemon: DaemonProcess) -> int:
    return int(Path(f"/proc/{daemon.pid}/statm").read_text().split()[1]) * resource.getpagesize()


def is_well(daemon: DaemonProcess, at: tuple[str, int]) -> bool:
    return httpx2.get(f"http://{at[0]}:{at[1]}/health", timeout=PATIENCE_S).json() == {"status": "ok"}


@contextlib.contextmanager
def crowd(at: tuple[str, int], size: int) -> Iterator[None]:
    """So many who have begun a request and say nothing more."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(hard, size + 500)), hard))
    try:
        with contextlib.ExitStack() as stack:
            for _ in range(size):
                sock = stack.enter_context(socket.create_connection(at, timeout=PATIENCE_S))
                with contextlib.suppress(OSError):  # it was closed already
                    sock.sendall(UNFINISHED)
            yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="descriptors are counted in /proc")
def test_stranger_05_unfinished_requests_do_not_use_up_the_descriptors(daemon: DaemonProcess) -> None:
    at, before = where(daemon), descriptors(daemon)
    with crowd(at, 1_100):
        assert is_well(daemon, at)
        assert descriptors(daemon) <= before + 200
    assert daemon.gatepost("chat", "-m", "hello", "--wait").returncode == 0


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(resource, "prlimit"), reason="the limit of another process can be read on Linux")
def test_stranger_05_a_daemon_takes_as_many_descriptors_as_it_may_have(tmp_path: Path) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    env, errors = DaemonProcess(tmp_path / "home").env, tmp_path / "stderr"
    resource.setrlimit(resource.RLIMIT_NOFILE, (256, hard))  # which it inherits
    try:
        with errors.open("wb") as stderr:
            daemon = subprocess.Popen(
                [sys.executable, "-m", "gatepost", "up"], env=env, stdout=subprocess.PIPE, stderr=stderr, text=True
            )
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    with daemon, contextlib.ExitStack() as stack:
        stack.callback(daemon.terminate)
        assert daemon.stdout is not None
        assert any(line.startswith(READY) for line in daemon.stdout), errors.read_text()
        now = resource.prlimit(daemon.pid, resource.RLIMIT_NOFILE)[0]
    assert now == (ENOUGH if hard == resource.RLIM_INFINITY else min(hard, ENOUGH))


@pytest.mark.skipif(not hasattr(resource, "prlimit"), reason="the limit of another process can be set on Linux")
def test_stranger_05_a_daemon_without_descriptors_goes_on_when_there_are_some_again(daemon: DaemonProcess) -> None:
    at = where(daemon)
    few = descriptors(daemon) + 20
    resource.prlimit(daemon.pid, resource.RLIMIT_NOFILE, (few, few))
    with crowd(at, 60):  # the rest waits in the kernel's queue
        pass
    assert is_well(daemon, at)
    assert daemon.gatepost("status").returncode == 0


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="memory is read in /proc")
def test_stranger_05_headers_without_an_end_do_not_grow_the_daemon(daemon: DaemonProcess) -> None:
    at, before = where(daemon), memory(daemon)
    with socket.create_connection(at, timeout=PATIENCE_S) as sock:
        with contextlib.suppress(ConnectionError):
            sock.sendall(UNFINISHED)
            for number in range(100):
                sock.sendall(b"x-%d: %b\r\n" % (number, b"a" * MEGABYTE))
        assert is_well(daemon, at)
        assert memory(daemon) - before < 20 * MEGABYTE


def slow_body(at: tuple[str, int]) -> bytes:
    """A sign-in whose token never comes. Nobody is known before it has."""
    name = f"{at[0]}:{at[1]}"
    ours = f"host: {name}\r\norigin: http://{name}\r\nx-gatepost: 1\r\n"
    head = f"POST /login HTTP/1.1\r\n{ours}content-length: 4000\r\n\r\n"
    return head.encode() + b"x"


def never_read(at: tuple[str, int]) -> bytes:
    """So many answers that they do not fit in the sockets' buffers; nobody reads them."""
    return f"GET /static/chat.js HTTP/1.1\r\nhost: {at[0]}:{at[1]}\r\n\r\n".encode() * 400


@pytest.mark.slow
@pytest.mark.parametrize("request_of", [slow_body, never_read])
def test_stranger_new_slow_bodies_and_slow_readers_lock_nobody_out(
    daemon: DaemonProcess, request_of: Callable[[tuple[str, int]], bytes]
) -> None:
    """All from one address, which is the owner's, too: behind a reverse proxy, or on the machine itself."""
    at = where(daemon)
    with contextlib.ExitStack() as stack:
        for _ in range(PER_PEER):
            sock = stack.enter_context(socket.socket())
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            sock.settimeout(PATIENCE_S)
            sock.connect(at)
            sock.sendall(request_of(at))
        assert all(is_well(daemon, at) for _ in range(5))
