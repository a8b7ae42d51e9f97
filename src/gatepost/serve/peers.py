"""Who a stranger is to the limits on strangers: an address, and of IPv6 the network, whose holder has all of it."""

import ipaddress

from starlette.types import Scope


def peer_of(address: str) -> str:
    try:
        found = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if found.version == 6 and not found.is_loopback:
        return str(ipaddress.ip_network((found, 64), strict=False))
    return str(found)


def find_public_peer(scope: Scope, *, has_proxy: bool) -> str:
    """'' for what may be a proxy of everybody. `has_proxy`: the operator says that all peers are one."""
    client = scope.get("client")
    if client is None or has_proxy:
        return ""
    try:
        is_public = ipaddress.ip_address(str(client[0]).partition("%")[0]).is_global
    except ValueError:
        is_public = False
    return peer_of(str(client[0])) if is_public else ""
