"""The site that passkeys are for, and the values that its page exchanges with the ceremonies. Without the library."""

import ipaddress
from urllib.parse import urlsplit

from msgspec import Struct

LOCALHOST = "localhost"
ONLY_THERE = (
    "Browsers use passkeys on pages with https, and on http://localhost. Open the page by such an address: a number in"
    " its place, like 127.0.0.1, will not do."
)


class RelyingParty(Struct, frozen=True):
    """The site that passkeys are for. `host`: without a port; `page_url`: its origin, as browsers say it."""

    host: str
    page_url: str

    @property
    def place(self) -> str:
        """The host with its port: a passkey works on the port where it was added, and on no other.

        Browsers let the pages of all ports use a host's passkeys, and a program may name any port when it asks us.
        """
        return self.page_url.partition("://")[2]


class PasskeyOwner(Struct, frozen=True):
    """The person who adds a passkey. `handle`: what the authenticator knows them by."""

    handle: bytes
    user: str
    called: str


class ProvenCredential(Struct, frozen=True):
    """A new authenticator."""

    id: bytes
    data: bytes
    sign_count: int


class PasskeyRefusal(Exception):
    """A browser's answer proves nothing; the words say why."""


def find_relying_party(origin: str) -> RelyingParty | None:
    """`origin`: of a request that is ours. None: browsers have no passkeys there."""
    try:
        parts = urlsplit(origin)
        host = parts.hostname or ""
    except ValueError:
        return None
    safe = parts.scheme == "https" or (parts.scheme == "http" and host == LOCALHOST)
    return RelyingParty(host, origin) if safe and host and not _is_number(host) else None


def _is_number(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True
