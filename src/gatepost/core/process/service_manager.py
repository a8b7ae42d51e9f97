"""Words to a service manager about this process, by the protocol of systemd's notify socket: that it is ready, that it
lives, that it stops. Without such a manager nothing is said."""

import asyncio
import os
import socket
from collections.abc import Mapping

from gatepost.core import log

SOCKET, PERIOD, PROCESS = "NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID"
BEATS = 3  # in the time after which the manager ends who is silent

_log = log.get("service")


class ServiceManager:
    def __init__(self, address: str = "", period_s: float = 0.0) -> None:
        self._address, self._period_s = address, period_s

    def notify(self, *lines: str) -> None:
        """Never fails: what a manager does not hear is its own affair, and it says so."""
        if not self._address:
            return
        address = f"\0{self._address[1:]}" if self._address.startswith("@") else self._address
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as sender:
                sender.setblocking(False)
                sender.sendto("\n".join(lines).encode(), address)
        except OSError as error:
            _log.warning("the service manager was not told", said=lines[0], error=str(error))

    async def beat(self) -> None:
        """Say that the event loop lives, until cancelled. A process that does not get this far is started anew."""
        while self._address and self._period_s:
            self.notify("WATCHDOG=1")
            await asyncio.sleep(self._period_s / BEATS)


def make_service_manager(environ: "os._Environ[str] | dict[str, str]", pid: int) -> ServiceManager:
    """Return the manager that started this process. Its variables are taken away: programs that we start are not its
    service."""
    given = {name: environ.pop(name, "") for name in (SOCKET, PERIOD, PROCESS)}
    return ServiceManager(given[SOCKET], _read_period(given, pid))


def _read_period(given: Mapping[str, str], pid: int) -> float:
    """Return the seconds after which silence is death; 0 if nobody listens, or it is another process that is meant."""
    if given[PROCESS] not in ("", str(pid)) or not given[PERIOD].isascii() or not given[PERIOD].isdigit():
        return 0.0
    return int(given[PERIOD]) / 1_000_000
