"""The first words of a TLS client, read without understanding the rest: which host does it mean? Pure.

A tunnel is allowed for a name; whoever says another name inside it wants to be somebody else's guest on the same
address. What cannot be read in one way alone is refused.
"""

from collections.abc import Iterator
from dataclasses import dataclass

LARGEST = 64 * 1024  # bytes of a ClientHello, with its records' heads
ALERT = b"\x15\x03\x01\x00\x02\x02\x70"  # fatal: unrecognized name
_HANDSHAKE, _CLIENT_HELLO, _SERVER_NAME, _HOST_NAME = 22, 1, 0, 0
_ENCRYPTED_HELLO = frozenset({0xFE0D, 0xFFCE})  # ECH, and the encrypted name that came before it


class Malformed(ValueError):
    """It began like TLS and is none, or says something twice."""


@dataclass(frozen=True, slots=True)
class Hello:
    name: str  # '' if it names no host


class _Bytes:
    def __init__(self, data: bytes) -> None:
        self._data, self._at = data, 0

    def __bool__(self) -> bool:
        return self._at < len(self._data)

    def take(self, size: int) -> bytes:
        if self._at + size > len(self._data):
            raise Malformed("it ends before its end")
        self._at += size
        return self._data[self._at - size : self._at]

    def number(self, size: int) -> int:
        return int.from_bytes(self.take(size))

    def rest(self) -> bytes:
        return self.take(len(self._data) - self._at)

    def vector(self, size: int) -> "_Bytes":
        """Bytes with their length before them, a number of `size` bytes."""
        return _Bytes(self.take(self.number(size)))


def begins_tls(data: bytes) -> bool:
    """By the first bytes; what is none yet may still become one."""
    return data[:1] == b"\x16" and data[1:2] in (b"", b"\x03")


def read_hello(data: bytes) -> Hello | None:
    """None: more must come. Raises Malformed."""
    if len(data) > LARGEST:
        raise Malformed(f"a greeting of more than {LARGEST} bytes")
    said = b"".join(_fragments(data))
    if len(said) < 4:
        return None
    if said[0] != _CLIENT_HELLO:
        raise Malformed("no client's greeting")
    size = int.from_bytes(said[1:4])
    if size > LARGEST:
        raise Malformed(f"a greeting of more than {LARGEST} bytes")
    return Hello(_name(_Bytes(said[4 : 4 + size]))) if len(said) >= 4 + size else None


def _fragments(data: bytes) -> Iterator[bytes]:
    """The whole and begun handshake records' contents; the greeting may be cut into several."""
    at = 0
    while at + 5 <= len(data):
        kind, size = data[at], int.from_bytes(data[at + 3 : at + 5])
        if kind != _HANDSHAKE or data[at + 1] != 3 or not 0 < size <= 2**14:
            if at:
                return  # what follows the greeting may be anything
            raise Malformed("no TLS record")
        yield data[at + 5 : at + 5 + size]
        at += 5 + size


def _name(hello: _Bytes) -> str:
    hello.take(2 + 32)  # version, random
    for size in (1, 2, 1):  # session, ciphers, compressions
        hello.vector(size)
    found: list[bytes] = []
    extensions = hello.vector(2) if hello else _Bytes(b"")
    while extensions:
        kind, content = extensions.number(2), extensions.vector(2)
        if kind in _ENCRYPTED_HELLO:
            # The name outside is then a cover for another one, and nobody but the host can tell (GREASE looks alike).
            raise Malformed("it carries an encrypted greeting (ECH), which may name another host; switch that off")
        if kind == _SERVER_NAME:
            found += _host_names(content)
    if hello:
        raise Malformed("more than a greeting")
    if len(found) > 1:
        raise Malformed("more than one name")
    try:
        return found[0].decode("ascii").lower().removesuffix(".") if found else ""
    except UnicodeDecodeError:
        raise Malformed("a name that is none") from None


def _host_names(content: _Bytes) -> list[bytes]:
    names, found = content.vector(2), []
    while names:
        if names.number(1) != _HOST_NAME:
            raise Malformed("a name of another kind")
        found.append(names.vector(2).rest())
    if content or not found or not found[0]:
        raise Malformed("a name that is none")
    return found
