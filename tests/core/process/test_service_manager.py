"""What a service manager hears, on a real socket of its protocol."""

import asyncio
import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from gatepost.core.process.service_manager import ServiceManager, make_service_manager
from gatepost_testing.waiting import PATIENCE_S


@pytest.fixture
def heard(tmp_path: Path) -> Iterator[socket.socket]:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as receiver:
        receiver.bind(str(tmp_path / "notify"))
        receiver.settimeout(PATIENCE_S)
        yield receiver


def read(receiver: socket.socket) -> list[str]:
    return receiver.recv(4096).decode().splitlines()


def test_it_is_told_once_and_programs_that_we_start_do_not_speak_for_us(heard: socket.socket) -> None:
    environ = {"NOTIFY_SOCKET": heard.getsockname(), "WATCHDOG_USEC": "9000000", "PATH": "/bin"}
    manager = make_service_manager(environ, os.getpid())
    manager.notify("READY=1", "STATUS=at 127.0.0.1:1")
    assert read(heard) == ["READY=1", "STATUS=at 127.0.0.1:1"] and environ == {"PATH": "/bin"}


async def test_it_beats_until_it_is_cancelled(heard: socket.socket) -> None:
    beat = asyncio.create_task(ServiceManager(heard.getsockname(), 0.03).beat())
    assert [await asyncio.to_thread(read, heard) for _ in range(3)] == [["WATCHDOG=1"]] * 3
    beat.cancel()
    with pytest.raises(asyncio.CancelledError):
        await beat


@pytest.mark.parametrize(
    ("period", "process"), [("", ""), ("0", ""), ("x", ""), ("٣", ""), ("5000000", "1"), ("5000000", "x")]
)
async def test_nothing_beats_where_nobody_listens(heard: socket.socket, period: str, process: str) -> None:
    environ = {"NOTIFY_SOCKET": heard.getsockname(), "WATCHDOG_USEC": period, "WATCHDOG_PID": process}
    await make_service_manager(environ, os.getpid()).beat()
    heard.setblocking(False)
    with pytest.raises(BlockingIOError):
        heard.recv(1)


async def test_without_a_manager_or_with_one_that_is_gone_nothing_fails(tmp_path: Path) -> None:
    await make_service_manager({}, 1).beat()
    ServiceManager().notify("READY=1")
    ServiceManager(str(tmp_path / "gone")).notify("READY=1")
