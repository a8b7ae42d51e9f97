"""Addresses at which the gateway is reached: the web address (`listen`) and the control socket, in the forms that
people write them.

Only reads and names addresses; binding them is `serve/http.py`'s.
"""

import re
from pathlib import Path
from typing import Literal

from msgspec import Struct

from gatepost.core import settings
from gatepost.core.errors import SetupError
from gatepost.core.home import Home, expand_user
from gatepost.core.process import home_lock
from gatepost.core.settings import Config, setting

LISTEN = setting(
    "listen",
    "127.0.0.1:8420",
    help="The web address: host:port, :port, port, [::1]:port, unix:PATH or a path. Port 0 takes a free one.",
)
CONTROL_SOCKET = setting(
    "control_socket",
    "",
    help="Where control.sock lies; empty: run/control.sock in the home.",
    variable="GATEPOST_CONTROL_SOCK",
)

LOOPBACK = "127.0.0.1"
_HOST = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?\Z")
_EXAMPLES = "write it like 127.0.0.1:8420, :8420, 8420, [::1]:8420, unix:/run/gatepost.sock or /run/gatepost.sock"


class ListenAddress(Struct, frozen=True):
    """A TCP address or a socket path, never both."""

    kind: Literal["tcp", "unix"]
    host: str = ""
    port: int = 0
    path: Path = Path()

    def __str__(self) -> str:
        if self.kind == "unix":
            return f"unix:{self.path}"
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def url(self) -> str:
        """Return what to open: an address for a browser, or the socket for whoever stands before it."""
        return str(self) if self.kind == "unix" else f"http://{self}"

    @property
    def browser_url(self) -> str:
        """Return what may stand in a link; '' for a socket, a port that is not chosen yet, and all addresses at
        once."""
        return self.url if self.kind == "tcp" and self.port and self.host not in ("0.0.0.0", "::") else ""


def render_open_help(address: str) -> str:
    """A one-time address as a person can use it: before a socket something must stand that browsers can open."""
    if not address.startswith("unix:"):
        return address
    path, _, rest = address.removeprefix("unix:").partition("/#")
    return "\n  ".join(
        (
            f"unix:{path}",
            rest.replace("=", " ", 1),
            "No browser opens a socket. Put a reverse proxy before it, or one of these:",
            f"  socat TCP-LISTEN:8420,bind=127.0.0.1,fork UNIX-CONNECT:{path}",
            f"  ssh -L 8420:{path} THIS_MACHINE",
            f"and open http://127.0.0.1:8420/#{rest}",
        )
    )


def parse(text: str, name: str = "listen") -> ListenAddress:
    """Read an address; nonsense is refused with examples. `name`: of its setting."""
    text = text.strip()
    for prefix in ("unix://", "unix:"):
        if text.startswith(prefix):
            return _unix(text.removeprefix(prefix), text, name)
    if text.startswith(("/", "~", ".")):
        return _unix(text, text, name)
    if text.isdigit():
        return ListenAddress("tcp", LOOPBACK, _port(text, text, name))
    if text.startswith("["):
        host, closed, port = text[1:].partition("]:")
        if not closed or not re.fullmatch(r"[0-9A-Fa-f:.]+(%[A-Za-z0-9]+)?", host):
            raise SetupError(f"{name} = {text!r} is not an address; {_EXAMPLES}")
        return ListenAddress("tcp", host, _port(port, text, name))
    host, colon, port = text.rpartition(":")
    if not colon or (host and not _HOST.match(host)):
        raise SetupError(f"{name} = {text!r} is not an address; {_EXAMPLES}")
    return ListenAddress("tcp", host or LOOPBACK, _port(port, text, name))


def _unix(path: str, text: str, name: str) -> ListenAddress:
    if not path or path.endswith("/"):
        raise SetupError(f"{name} = {text!r} names no socket file; {_EXAMPLES}")
    return ListenAddress("unix", path=expand_user(path).absolute())


def _port(digits: str, text: str, name: str) -> int:
    if not (digits.isascii() and digits.isdigit()) or int(digits) > 65535:
        raise SetupError(f"{name} = {text!r}: {digits!r} is not a port between 0 and 65535; {_EXAMPLES}")
    return int(digits)


def control_path(home: Home, config: Config) -> Path:
    """The control socket of this home."""
    return _socket(config[CONTROL_SOCKET]) if config[CONTROL_SOCKET] else home.control


def find_control_path(home: Home) -> Path:
    """Return the control socket's path for a command, which has not loaded every plug-in and so cannot judge the rest
    of the file.

    If the setting is empty, a running daemon may still listen elsewhere; it writes its path into the lock's
    information.
    """
    config = settings.load_declared(home.path, CONTROL_SOCKET)
    holder = home_lock.read_holder(home) if not config[CONTROL_SOCKET] else None
    return _socket(holder.control) if holder is not None and holder.control else control_path(home, config)


def _socket(text: str) -> Path:
    return expand_user(text.removeprefix("unix://").removeprefix("unix:")).absolute()
