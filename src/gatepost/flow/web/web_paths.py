"""Paths and host names of the pages of groups, as an agent, a person or a browser writes them: pure.

One function reads a path for everybody. So what a route was set for and what a browser asks for are never two readings
of the same text. It decodes once; what would mean something else when it is decoded again is refused.
"""

import ipaddress
import re
from collections.abc import Iterable
from enum import StrEnum
from urllib.parse import quote, unquote_to_bytes, urlsplit

from msgspec import Struct

from gatepost.core.errors import Invalid

LONGEST_PATH = 1000  # characters, as it is written
MOST_SEGMENTS = 24
LONGEST_HOST = 253
_ENCODED = re.compile(r"%[0-9A-Fa-f]{2}")
_HALF_ENCODED = re.compile(r"%(?![0-9A-Fa-f]{2})")
_ENCODED_SLASH = re.compile(r"%(?:2f|5c)", re.IGNORECASE)
_LABEL = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?\Z")
_NUMBER = re.compile(r"(?:[0-9]+|0x[0-9a-f]*)\Z")
_SHAPE = "write it like /pub/FOLDER/page or /priv/FOLDER/page"


class SiteKind(StrEnum):
    """The two parts of the address space, as paths begin."""

    PUBLIC = "pub"
    PRIVATE = "priv"

    @property
    def folder(self) -> str:
        """Return where a group keeps its files for it."""
        return "public_html" if self is SiteKind.PUBLIC else "private_html"


class SitePath(Struct, frozen=True):
    """`segments`: the group's folder and the rest, which only the list of groups can part. `slash`: at the end."""

    kind: SiteKind
    segments: tuple[str, ...]
    slash: bool = False

    @property
    def text(self) -> str:
        """As rows have it."""
        return "/".join(("", self.kind, *self.segments))

    @property
    def place(self) -> str:
        """Like a folder of a group, for who is judged by where it lies in the tree."""
        return "/".join(self.segments)

    def list_prefixes(self) -> list[str]:
        """The path and all above it, segment by segment."""
        return ["/".join(("", self.kind, *self.segments[:end])) for end in range(len(self.segments), 0, -1)]

    def list_folders(self) -> list[str]:
        """Every group that it could belong to."""
        return ["/".join(self.segments[:end]) for end in range(len(self.segments), 0, -1)]

    def is_below(self, other: "SitePath") -> bool:
        """Also if it is the same."""
        return self.kind is other.kind and self.segments[: len(other.segments)] == other.segments


def parse_site_path(text: str, field: str = "path") -> SitePath:
    kind, *segments = parse_segments(text, field) or [""]
    if kind not in tuple(SiteKind) or not segments:
        raise Invalid(field, f"{text[:80]!r} is no page of a group; {_SHAPE}")
    return SitePath(SiteKind(kind), tuple(segments), text.endswith("/"))


def parse_segments(text: str, field: str = "path") -> list[str]:
    """The parts of a path. Empty ones and `.` mean nothing; whatever could mean two things is refused."""
    if not text.startswith("/"):
        raise Invalid(field, f"{text[:80]!r} does not begin with a slash; {_SHAPE}")
    if len(text) > LONGEST_PATH:
        raise Invalid(field, f"is longer than {LONGEST_PATH} characters")
    if any(sign in text for sign in "?#\\") or _HALF_ENCODED.search(text) or _ENCODED_SLASH.search(text):
        raise Invalid(field, f"{text[:80]!r} has a sign that no path has: a question mark, a backslash, half a code")
    try:
        decoded = unquote_to_bytes(text).decode()
    except UnicodeError:
        raise Invalid(field, f"{text[:80]!r} is no UTF-8") from None
    if not decoded.isprintable() or _ENCODED.search(decoded):
        raise Invalid(field, f"{text[:80]!r} is encoded twice, or has a sign that cannot be printed")
    segments = [each for each in decoded.split("/") if each not in ("", ".")]
    if len(segments) > MOST_SEGMENTS:
        raise Invalid(field, f"has more than {MOST_SEGMENTS} parts")
    if not all(each.strip(". ") for each in segments):
        raise Invalid(field, f"{text[:80]!r} leads upwards, or has a part of dots alone")
    return segments


def render_url(*parts: str, slash: bool = False) -> str:
    """A path for a browser. It begins with one slash, whatever the parts hold, so it leads to no other host."""
    return "/" + "/".join(quote(part, safe="") for part in parts) + ("/" if slash and parts else "")


def parse_hostname(text: str, own: Iterable[str]) -> str:
    """A host name as browsers send it. `own`: names of the gateway itself, which are refused with all around them: a
    page there could set cookies for ours."""
    name = text.strip().lower().removesuffix(".")
    labels = name.split(".")
    if len(name) > LONGEST_HOST or len(labels) < 2 or not all(map(_LABEL.match, labels)):
        why = "letters a-z, digits and inner hyphens, in parts with dots between, without a port; others as xn--…"
        raise Invalid("hostname", f"{text[:80]!r} is no host name: {why}")
    if _NUMBER.match(labels[-1]) or _is_address(name):
        raise Invalid("hostname", f"{text[:80]!r} is an address in numbers; name a host")
    if labels[-1] == "localhost":
        raise Invalid("hostname", f"{text[:80]!r} is this machine itself")
    for each in map(normalize_host, own):
        if each and (name == each or name.endswith(f".{each}") or each.endswith(f".{name}")):
            raise Invalid("hostname", f"{text[:80]!r} is a name of the gateway itself, or lies below or above one")
    return name


def normalize_host(text: str) -> str:
    """The host of an address or a Host header in the one form that is compared; '' if it is none."""
    if len(text) > LONGEST_PATH:
        return ""
    try:
        host = urlsplit(text if "://" in text else f"//{text}").hostname or ""
        return host.removesuffix(".") if host.isascii() else host.encode("idna").decode().lower().removesuffix(".")
    except ValueError:  # also what cannot be encoded
        return ""


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True
