"""Whom a reverse proxy that has checked a visitor says that it is: a header, which counts from trusted peers alone.

Everybody can send the header. From whoever is not trusted it is ignored, and nobody is trusted unless it is set.
"""

import ipaddress
import re
from functools import lru_cache

from starlette.requests import Request

from gatepost.core.errors import SetupError
from gatepost.core.home import Home
from gatepost.core.settings import Config, setting, start_check
from gatepost.serve.peers import parse_address

PROXY_USER_HEADER = setting(
    "web.proxy_user_header",
    "",
    help="The header in which a reverse proxy names the person whom it has signed in, such as Remote-User (empty:"
    " none). It counts from web.trusted_proxies alone.",
)
TRUSTED_PROXIES = setting(
    "web.trusted_proxies",
    (),
    help="Peers whose web.proxy_user_header and web.proxy_address_header are believed: addresses, networks, or `unix`"
    " for the socket file that the web page listens on.",
)
PLATFORM = "proxy"  # of the identities that a proxy names
UNIX = "unix"
_HEADER = re.compile(r"[A-Za-z][A-Za-z0-9-]{0,63}\Z")
_NAME = re.compile(r"[\w.@+-]{1,100}\Z")

Network = ipaddress.IPv4Network | ipaddress.IPv6Network


def get_identity(name: str) -> str:
    return f"{PLATFORM}:{name}"


def is_wanted(config: Config) -> bool:
    return bool(config[PROXY_USER_HEADER] and config[TRUSTED_PROXIES])


def find_name(request: Request, config: Config) -> str:
    """'' if the peer is not trusted, names nobody, or names somebody in a way that is not clear."""
    if not is_wanted(config) or not is_trusted(
        request.client.host if request.client else None, config[TRUSTED_PROXIES]
    ):
        return ""
    given = request.headers.getlist(config[PROXY_USER_HEADER])
    return given[0] if len(given) == 1 and _NAME.match(given[0]) else ""  # two of them: one is the visitor's own


def is_trusted(address: str | None, trusted: tuple[str, ...]) -> bool:
    """None: it comes by the socket file."""
    if address is None:
        return UNIX in trusted
    peer = parse_address(address)
    return peer is not None and any(peer in each for each in parse_trusted(trusted))


@lru_cache(maxsize=8)
def parse_trusted(trusted: tuple[str, ...]) -> tuple[Network, ...]:
    """Raise SetupError for one that is no address: it would let nobody in, or the wrong one."""
    found = []
    for each in trusted:
        if each == UNIX:
            continue
        try:
            found.append(ipaddress.ip_network(each))
        except ValueError:
            raise SetupError(
                f"web.trusted_proxies: {each!r} is no address or network, like 10.0.0.2 or 10.0.0.0/30, nor `unix`"
            ) from None
    return tuple(found)


def check_settings(config: Config) -> None:
    """Raise SetupError for what cannot be meant."""
    header = config[PROXY_USER_HEADER]
    if header and not _HEADER.match(header):
        raise SetupError(f"web.proxy_user_header: {header!r} is no name of a header, like Remote-User")
    if any(each.prefixlen == 0 for each in parse_trusted(config[TRUSTED_PROXIES])):
        raise SetupError("web.trusted_proxies: it trusts everybody; name the address of the proxy")


@start_check
def check_proxy(home: Home, config: Config) -> None:
    check_settings(config)
