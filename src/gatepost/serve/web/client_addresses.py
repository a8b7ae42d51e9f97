"""The address that a request really comes from. Every limit on strangers asks here, so that all of them count the same
visitor.

Behind a reverse proxy the peer is the proxy. It may name the visitor's address in a header, which counts from trusted
peers alone. A visitor can send the same header: only what the trusted proxies themselves added is believed.
"""

import re

from starlette.datastructures import Headers
from starlette.types import Scope

from gatepost.core.errors import SetupError
from gatepost.core.settings import Config, setting
from gatepost.serve.http import CONNECTIONS
from gatepost.serve.peers import parse_address, peer_of
from gatepost.serve.web.signin.proxy_users import TRUSTED_PROXIES, is_trusted

PROXY_ADDRESS_HEADER = setting(
    "web.proxy_address_header",
    "",
    help="The header to which a reverse proxy adds the address of a visitor, such as X-Forwarded-For (empty: none). It"
    " counts from web.trusted_proxies alone.",
)
MOST_PROXIES = 16  # addresses at the end of the header that are looked at
_HEADER = re.compile(r"[A-Za-z][A-Za-z0-9-]{0,63}\Z")


class ClientAddresses:
    """`is_proxied`: the operator says that all peers are one reverse proxy."""

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
