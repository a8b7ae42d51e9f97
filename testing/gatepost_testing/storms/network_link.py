"""A machine's network of its own: a namespace that one link joins to this machine, and that can be cut like a cable.

with NetworkLink() as link:
    subprocess.Popen([*link.enter, "program"])  # it reaches this machine at `link.host`, and nothing else
    link.cut()

Names have the number of this process, so what a killed run left can be told from what is in use.
"""

import ipaddress
import itertools
import os
import shutil
import subprocess
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from types import TracebackType

from gatepost.core.errors import SetupError

FOLDER = Path("/run/netns")  # where `ip` keeps names of namespaces
PROGRAMS = ("ip", "nsenter")
# Set aside for tests of networks: no machine on the internet has such an address.
NETWORKS = ipaddress.IPv4Network("198.18.0.0/15")

_numbers = itertools.count()


def find_link_hindrance() -> str:
    """Why no link can be made here; '': it can."""
    if missing := [each for each in PROGRAMS if shutil.which(each) is None]:
        return f"there is no program {missing[0]}: apt-get install iproute2 util-linux"
    try:
        with NetworkLink():
            return ""
    except SetupError as error:
        return f"network namespaces are not allowed here: {error}"


class NetworkLink:
    def __init__(self) -> None:
        number = next(_numbers)
        self.name = f"gp{os.getpid()}-{number}"
        self._outer, self._inner = f"{self.name}o", f"{self.name}i"
        self._network = next(_list_free(os.getpid() + number))
        self.host, self.address = map(str, self._network.hosts())  # of this machine, and of who is behind the link

    @property
    def enter(self) -> list[str]:
        """Return what a command begins with that runs behind the link. Unlike `ip netns exec` it leaves mounts as they
        are."""
        return ["nsenter", f"--net={FOLDER / self.name}"]

    def __enter__(self) -> "NetworkLink":
        try:
            self._open()
        except SetupError:
            self._close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._close()

    def cut(self) -> None:
        """Nothing passes, and nobody is told: what is sent waits until its own time is over."""
        _run_ip("link", "set", self._outer, "down")

    def join(self) -> None:
        _run_ip("link", "set", self._outer, "up")

    def _open(self) -> None:
        _run_ip("netns", "add", self.name)
        _run_ip("link", "add", self._outer, "type", "veth", "peer", "name", self._inner, "netns", self.name)
        _run_ip("address", "add", f"{self.host}/30", "dev", self._outer)
        _run_ip("-n", self.name, "address", "add", f"{self.address}/30", "dev", self._inner)
        for each in ("lo", self._inner):
            _run_ip("-n", self.name, "link", "set", each, "up")
        self.join()

    def _close(self) -> None:
        """Each for itself: who is still behind the link keeps the namespace, but not its name."""
        for command in (("link", "delete", self._outer), ("netns", "delete", self.name)):
            with suppress(SetupError):
                _run_ip(*command)


def _list_free(first: int) -> Iterator[ipaddress.IPv4Network]:
    """Networks of which no link of this machine has an address, from that number on."""
    taken = _list_addresses(_run_ip("-o", "-4", "address").splitlines())
    for step in range(0, NETWORKS.num_addresses, 4):
        network = ipaddress.IPv4Network((NETWORKS[(4 * first + step) % NETWORKS.num_addresses], 30))
        if not any(each in network for each in taken):
            yield network


def _list_addresses(lines: Iterable[str]) -> list[ipaddress.IPv4Address]:
    """`2: eth0    inet 192.0.2.2/24 …`"""
    words = (line.split() for line in lines)
    return [ipaddress.IPv4Interface(each[each.index("inet") + 1]).ip for each in words if "inet" in each]


def _run_ip(*args: str) -> str:
    done = subprocess.run(["ip", *args], stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SetupError(f"ip {' '.join(args)}: {done.stderr.strip()}")
    return done.stdout
