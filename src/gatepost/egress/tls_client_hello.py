"""The first words of a TLS client, read without understanding the rest: which host does it mean? Pure.

A tunnel is allowed for a name. A client that says another name inside it tries to reach another host at the same
address. A greeting that can be read in more than one way is refused.
"""

from msgspec import Struct

LARGEST = 64 * 1024  # bytes of a ClientHello, with its records' heads
MOST_RECORDS = 1024  # that a greeting may be cut into
MOST_EXTENSIONS = 128  # of a greeting; clients send about twenty
ALERT = b"\x15\x03\x01\x00\x02\x02\x70"  # fatal: unrecognized name
_RECORD_HEAD = 5  # bytes
_HANDSHAKE, _CLIENT_HELLO, _SERVER_NAME, _HOST_NAME = 22, 1, 0, 0
_ENCRYPTED_HELLO = frozenset({0xFE0D, 0xFFCE})  # ECH, and the encrypted name that came before it


class MalformedClientHello(ValueError):
    """It began like TLS and is none, or says something twice."""


class ClientHello(Struct, frozen=True):
    name: str  # '' if it names no host


class _ByteReader:
    def __init__(self, data: bytes) -> None:
        self._data, self._at = data, 0

    def __bool__(self) -> bool:
        return self._at < len(self._data)

    def read(self, size: int) -> bytes:
        if self._at + size > len(self._data):
            raise MalformedClientHello("it ends before its end")
        self._at += size
        return self._data[self._at - size : self._at]

    def number(self, size: int) -> int:
        return int.from_bytes(self.read(size))

    def rest(self) -> bytes:
        return self.read(len(self._data) - self._at)

    def vector(self, size: int) -> "_ByteReader":
        """Bytes with their length before them, a number of `size` bytes."""
        return _ByteReader(self.read(self.number(size)))


def begins_tls(data: bytes) -> bool:
    """By the first bytes; what is none yet may still become one."""
    return data[:1] == b"\x16" and data[1:2] in (b"", b"\x03")


def parse_client_hello(data: bytes) -> ClientHello | None:
    """None: more must come. Raises Malformed."""
    return HelloReader().feed(data)


class HelloReader:
    """A greeting that comes in pieces: every byte is looked at once. The greeting may be cut into several records."""

    def __init__(self) -> None:
        self._fed = self._records = 0
        self._head = b""  # of the next record, as far as it is there
        self._left = 0  # bytes of the present record
        self._said = bytearray()  # what the records hold

    def feed(self, data: bytes) -> ClientHello | None:
        """None: more must come. Raises Malformed. Any bytes may follow the greeting."""
        self._fed += len(data)
        if self._fed > LARGEST:
            raise MalformedClientHello(f"a greeting of more than {LARGEST} bytes")
        at = 0
        while at < len(data):
            if not self._left:
                begun = len(self._head)
                self._head += data[at : at + _RECORD_HEAD - begun]
                at += len(self._head) - begun
                if len(self._head) < _RECORD_HEAD:
                    return None
                self._begin_record()
            piece = data[at : at + self._left]
            at += len(piece)
            self._left -= len(piece)
            self._said += piece
            if self._is_whole():
                return ClientHello(_name(_ByteReader(bytes(self._said[4 : 4 + self._size]))))
        return None

    def _begin_record(self) -> None:
        head, self._head = self._head, b""
        self._left = int.from_bytes(head[3:5])
        if head[0] != _HANDSHAKE or head[1] != 3 or not 0 < self._left <= 2**14:
            raise MalformedClientHello("it ends before its end" if self._records else "no TLS record")
        self._records += 1
        if self._records > MOST_RECORDS:
            raise MalformedClientHello(f"a greeting in more than {MOST_RECORDS} records")

    @property
    def _size(self) -> int:
        return int.from_bytes(self._said[1:4])

    def _is_whole(self) -> bool:
        if self._said and self._said[0] != _CLIENT_HELLO:
            raise MalformedClientHello("no client's greeting")
        if len(self._said) < 4:
            return False
        if self._size > LARGEST:
            raise MalformedClientHello(f"a greeting of more than {LARGEST} bytes")
        return len(self._said) >= 4 + self._size


def _name(hello: _ByteReader) -> str:
    hello.read(2 + 32)  # version, random
    for size in (1, 2, 1):  # session, ciphers, compressions
        hello.vector(size)
    found: list[bytes] = []
    extensions, number = hello.vector(2) if hello else _ByteReader(b""), 0
    while extensions:
        number += 1
        if number > MOST_EXTENSIONS:
            raise MalformedClientHello(f"more than {MOST_EXTENSIONS} extensions")
        kind, content = extensions.number(2), extensions.vector(2)
        if kind in _ENCRYPTED_HELLO:
            # The name outside is then a cover for another one, and nobody but the host can tell (GREASE looks alike).
            raise MalformedClientHello(
                "it carries an encrypted greeting (ECH), which may name another host; switch that off"
            )
        if kind == _SERVER_NAME:
            found.append(_host_name(content))
    if hello:
        raise MalformedClientHello("more than a greeting")
    if len(found) > 1:
        raise MalformedClientHello("more than one name")
    try:
        return found[0].decode("ascii").lower().removesuffix(".") if found else ""
    except UnicodeDecodeError:
        raise MalformedClientHello("a name that is none") from None


def _host_name(content: _ByteReader) -> bytes:
    names = content.vector(2)
    if names and names.number(1) != _HOST_NAME:
        raise MalformedClientHello("a name of another kind")
    name = names.vector(2).rest() if names else b""
    if names:
        raise MalformedClientHello("more than one name")
    if content or not name:
        raise MalformedClientHello("a name that is none")
    return name
