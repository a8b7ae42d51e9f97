"""A real gateway below a service manager: it says when it is ready, that it lives, and that it stops."""

import socket
from pathlib import Path

from gatepost_testing.daemon import DaemonProcess
from gatepost_testing.waiting import PATIENCE_S


def read_until(receiver: socket.socket, line: str) -> list[str]:
    heard = list[str]()
    while line not in heard:
        heard += receiver.recv(4096).decode().splitlines()
    return heard


def test_a_manager_hears_that_it_is_ready_lives_and_stops(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as receiver:
        receiver.bind(str(tmp_path / "notify"))
        receiver.settimeout(PATIENCE_S)
        daemon = DaemonProcess(tmp_path / "home", sessions_provider="demo")
        daemon.env |= {"NOTIFY_SOCKET": str(tmp_path / "notify"), "WATCHDOG_USEC": "300000"}
        with daemon:
            assert any(each.startswith("STATUS=at 127.0.0.1:") for each in read_until(receiver, "READY=1"))
            read_until(receiver, "WATCHDOG=1")
            assert daemon.gatepost("down").returncode == 0
            read_until(receiver, "STOPPING=1")
