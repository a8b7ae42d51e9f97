"""The network itself, without the way out that there is."""

from .attempt import FILTER, MOUNTS, NETWORK, at

ATTEMPTS = (
    at("DNS by the system's resolver", NETWORK, "return socket.getaddrinfo(f'{mark}.example.com', 80)"),
    at(
        "DNS by UDP and TCP to port 53",
        NETWORK,
        """
servers = ("8.8.8.8", "1.1.1.1", "127.0.0.53", "169.254.169.253", "10.0.0.2", "192.168.0.1")
query = bytes.fromhex("123401000001000000000000") + bytes([len(mark)]) + mark.encode() + bytes([0, 0, 1, 0, 1])
return any_of(
    *(lambda each=each: reach(socket.AF_INET, (each, 53), socket.SOCK_DGRAM, query) for each in servers),
    *(lambda each=each: reach(socket.AF_INET, (each, 53)) for each in servers),
)
""",
    ),
    at(
        "sockets of resolvers and buses",
        MOUNTS,
        """
paths = ("/run/systemd/resolve/io.systemd.Resolve", "/var/run/nscd/socket", "/run/dbus/system_bus_socket",
         "/run/docker.sock", "/run/podman/podman.sock", "/tmp/.X11-unix/X0")
return any_of(*(lambda each=each: reach(socket.AF_UNIX, each) for each in paths))
""",
    ),
    at(
        "IPv6",
        NETWORK,
        """
return any_of(
    lambda: reach(socket.AF_INET6, ("2001:4860:4860::8888", 53), socket.SOCK_DGRAM),
    lambda: reach(socket.AF_INET6, ("2606:4700:4700::1111", 443)),
    lambda: reach(socket.AF_INET6, ("::1", given["denied"])),
    lambda: reach(socket.AF_INET6, ("::ffff:127.0.0.1", given["denied"])),
    lambda: reach(socket.AF_INET6, ("fe80::1", 80, 0, 1)),
)
""",
    ),
    at(
        "the host's loopback",
        NETWORK,
        """
return any_of(*(lambda port=given[name]: reach(socket.AF_INET, ("127.0.0.1", port), data=mark.encode())
                for name in ("denied", "allowed", "vendor")))
""",
    ),
    at("the host's abstract sockets", NETWORK, "return reach(socket.AF_UNIX, '\\0' + given['abstract'])"),
    at("vsock", FILTER, "return reach(40, (2, 1024))"),
    at(
        "netlink",
        FILTER,
        """
wide = ctypes.c_long((1 << 32) | socket.AF_NETLINK)
fd = _libc.syscall(ctypes.c_long((198, 41)[_column]), wide, ctypes.c_long(3), ctypes.c_long(0))
return f"fd {fd}" if fd >= 0 else socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0)
""",
    ),
    at(
        "packet and raw sockets",
        FILTER,
        """
return any_of(
    lambda: socket.socket(socket.AF_PACKET, socket.SOCK_RAW),
    lambda: socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP),
    lambda: socket.socket(socket.AF_INET6, socket.SOCK_RAW, socket.IPPROTO_ICMPV6),
)
""",
    ),
    at(
        "every other family of sockets",
        FILTER,
        """
others = [each for each in range(46) if each not in (socket.AF_UNIX, socket.AF_INET, socket.AF_INET6)]
kinds = (socket.SOCK_STREAM, socket.SOCK_DGRAM, socket.SOCK_RAW, socket.SOCK_SEQPACKET)
return any_of(*(lambda each=each, kind=kind: socket.socket(each, kind) for each in others for kind in kinds))
""",
    ),
)
