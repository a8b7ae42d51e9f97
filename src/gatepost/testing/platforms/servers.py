"""What the drivers of real servers have in common: free ports, and waiting until the server answers."""

import socket
import subprocess
from collections.abc import Iterable
from pathlib import Path

from gatepost.testing.waiting import block_until


def find_ports(count: int) -> list[int]:
    """Ports of loopback that nobody uses."""
    probes = [socket.socket() for _ in range(count)]
    for probe in probes:
        probe.bind(("127.0.0.1", 0))
    ports = [int(probe.getsockname()[1]) for probe in probes]
    for probe in probes:
        probe.close()
    return ports


def wait_until_up(name: str, process: subprocess.Popen[bytes], ports: Iterable[int], log: Path) -> None:
    """Raises AssertionError with the end of its log if it ends before all of its ports answer."""

    def answers() -> bool:
        if process.poll() is not None:
            raise AssertionError(f"{name} ended: {log.read_text()[-1000:] if log.exists() else ''}")
        return all(_is_open(port) for port in ports)

    block_until(answers, name)


def _is_open(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0
