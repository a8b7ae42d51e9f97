"""Who a stranger is to the limits on strangers: an address, and of IPv6 the network, whose holder has all of it."""

import ipaddress


def peer_of(address: str) -> str:
    try:
        found = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if found.version == 6 and not found.is_loopback:
        return str(ipaddress.ip_network((found, 64), strict=False))
    return str(found)
