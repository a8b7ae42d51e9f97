"""Trusted reverse proxies: the person whom one has signed in, and the address that a request really comes from.

A proxy names both in headers. Everybody can send these: they count from trusted peers alone, and nobody is trusted
unless it is set. Only what the trusted proxies themselves added to an address header is believed.
"""

import ipaddress
import re
from functools import lru_cache

from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.types import Scope

from gatepost.core.errors import SetupError
from gatepost.core.home import Home
from gatepost.core.settings import Config, setting, start_check
from gatepost.serve.http import CONNECTIONS
from gatepost.serve.peers import parse_address, peer_of

PROXY_USER_HEADER = setting(
    "web.proxy_user_header",
    "",
    help="The header in which a reverse proxy names the person whom it has signed in, such as Remote-User (empty:"
    " none). It counts from web.trusted_proxies alone.",
)
PROXY_ADDRESS_HEADER = setting(
    "web.proxy_address_header",
    "",
    help="The header to which a reverse proxy adds the address of a visitor, such as X-Forwarded-For (empty: none). It"
    " counts from web.trusted_proxies alone.",
)
TRUSTED_PROXIES = setting(
    "web.trusted_proxies",
    (),
    help="Peers whose web.proxy_user_header and web.proxy_address_header are believed: addresses, networks, or `unix`"
    " for the socket file that the web page listens on.",
)
PROXY_PLATFORM = "proxy"  # of the identities that a proxy names
UNIX = "unix"
MOST_PROXIES = 16  # addresses at the end of the header that are looked at
_HEADER = re.compile(r"[A-Za-z][A-Za-z0-9-]{0,63}\Z")
_NAME = re.compile(r"[\w.@+-]{1,100}\Z")

Network = ipaddress.IPv4Network | ipaddress.IPv6Network


class ClientAddresses:
    """The addresses of visitors. Every limit on strangers asks here, so that all of them count the same visitor.

    `is_proxied`: the operator says that all peers are one reverse proxy.
    """

    def __init__(self, trusted: tuple[str, ...] = (), header: str = "", *, is_proxied: bool = False) -> None:
        self._trusted, self._header, self._is_proxied = trusted, header, is_proxied

    def get(self, scope: Scope) -> str:
        """The nearest address that is known; '' for a socket file."""
        client = scope.get("client")
        return self._find_named(scope) or (str(client[0]) if client is not None else "")

    def find_own(self, scope: Scope) -> str:
        """Return whose budget a request uses up: an address, of IPv6 the network. '' for what may be a proxy of
        everybody."""
        if named := self._find_named(scope):
            return peer_of(named)
        client = scope.get("client")
        if client is None or self.comes_by_proxy(scope):
            return ""
        address = parse_address(str(client[0]))
        return peer_of(str(client[0])) if address is not None and address.is_global else ""

    def comes_by_proxy(self, scope: Scope) -> bool:
        """Return True if the operator has said that this peer asks for somebody else."""
        client = scope.get("client")
        return self._is_proxied or self._is_proxy(str(client[0]) if client is not None else None)

    def _find_named(self, scope: Scope) -> str:
        """Return the address that the last trusted proxy names. Addresses before it come from others and prove
        nothing."""
        client = scope.get("client")
        if not self._header or not self._is_proxy(str(client[0]) if client is not None else None):
            return ""
        given = ",".join(Headers(scope=scope).getlist(self._header)).rsplit(",", MOST_PROXIES)
        for each in reversed(given[-MOST_PROXIES:]):
            address = parse_address(each.strip())
            if address is None:
                return ""
            if not self._is_proxy(str(address)):
                return str(address)
        return ""

    def _is_proxy(self, address: str | None) -> bool:
        return is_trusted(address, self._trusted)


def make_client_addresses(config: Config) -> ClientAddresses:
    """Raise SetupError for a header that is none."""
    header = config[PROXY_ADDRESS_HEADER]
    if header and not _HEADER.match(header):
        raise SetupError(f"web.proxy_address_header: {header!r} is no name of a header, like X-Forwarded-For")
    return ClientAddresses(config[TRUSTED_PROXIES], header, is_proxied=config[CONNECTIONS] == 0)


def get_proxy_identity(name: str) -> str:
    return f"{PROXY_PLATFORM}:{name}"


def names_users(config: Config) -> bool:
    """Return True if a proxy may say who somebody is."""
    return bool(config[PROXY_USER_HEADER] and config[TRUSTED_PROXIES])


def find_proxy_user(request: Request, config: Config) -> str:
    """'' if the peer is not trusted, names nobody, or names somebody in a way that is not clear."""
    if not names_users(config) or not is_trusted(
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


def check_proxy_settings(config: Config) -> None:
    """Raise SetupError for what cannot be meant."""
    header = config[PROXY_USER_HEADER]
    if header and not _HEADER.match(header):
        raise SetupError(f"web.proxy_user_header: {header!r} is no name of a header, like Remote-User")
    if any(each.prefixlen == 0 for each in parse_trusted(config[TRUSTED_PROXIES])):
        raise SetupError("web.trusted_proxies: it trusts everybody; name the address of the proxy")


@start_check
def check_proxy(home: Home, config: Config) -> None:
    check_proxy_settings(config)
