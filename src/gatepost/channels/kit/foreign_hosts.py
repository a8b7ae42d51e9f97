"""Files whose address a stranger chose: fetched from the public web alone.

Fetched without a look, such an address would let strangers reach what only this machine can reach. A name is looked up
once, and what was checked is what is connected to: a second look-up could give another answer.
"""

import asyncio
import socket
from urllib.parse import SplitResult, urlunsplit

from msgspec import Struct

from gatepost.core.errors import Invalid, Refused, Unavailable
from gatepost.egress.rules import check_address

PORTS = {"http": 80, "https": 443}
LOOK_UP_S = 10.0


class PinnedRequest(Struct, frozen=True):
    """A request to one address, under the name that was asked for."""

    url: str
    host: str  # for the header
    name: str  # that the certificate must have


def split_host(parts: SplitResult) -> tuple[str, int]:
    """The host as resolvers and certificates write it, and the port."""
    try:
        host, port = (parts.hostname or "").encode("idna").decode(), parts.port or PORTS[parts.scheme]
    except (ValueError, KeyError):
        raise Invalid("file", "its address is not one of the web") from None
    if not host:
        raise Invalid("file", "its address names no host")
    return host, port


async def find_public_address(platform: str, host: str, port: int) -> str:
    """The first address of a host. Refused if one of them is of this machine or a private network."""
    loop = asyncio.get_running_loop()
    try:
        async with asyncio.timeout(LOOK_UP_S):
            found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError, TimeoutError):
        raise Unavailable(platform, f"the host of a file is not found ({host[:100]})") from None
    addresses = [str(each[4][0]) for each in found]
    if not addresses or any(check_address(each, local=False) for each in addresses):
        why = "it is not on the public web; a stranger may have chosen the address"
        raise Refused("this bot", "read a file", host[:100], why)
    return addresses[0]


def pin_request(parts: SplitResult, host: str, port: int, address: str) -> PinnedRequest:
    """`parts`: of the address asked for. A name and password in it are left out."""
    numeric = f"[{address}]" if ":" in address else address
    shown = f"[{host}]" if ":" in host else host
    url = urlunsplit((parts.scheme, f"{numeric}:{port}", parts.path or "/", parts.query, ""))
    return PinnedRequest(url, shown if port == PORTS[parts.scheme] else f"{shown}:{port}", host)
