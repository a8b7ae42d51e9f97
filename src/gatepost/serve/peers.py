"""A stranger in the eyes of the limits on strangers: an address, and of IPv6 the network, whose holder has all of
it."""

import ipaddress

IpAddress = ipaddress.IPv4Address | ipaddress.IPv6Address


def parse_address(text: str) -> IpAddress | None:
    """Without its zone. One of IPv4 that is written as IPv6 is the same host."""
    try:
        found = ipaddress.ip_address(text.partition("%")[0])
    except ValueError:
        return None
    return getattr(found, "ipv4_mapped", None) or found


def peer_of(address: str) -> str:
    found = parse_address(address)
    if found is None:
        return address
    if found.version == 6 and not found.is_loopback:
        return str(ipaddress.ip_network((found, 64), strict=False))
    return str(found)
