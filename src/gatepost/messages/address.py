"""Addresses: `platform:rest`, where `rest` belongs to the channel and is matched by its `/` segments.

A room is named by (instance, address): two bots of one platform see the same chat as two rooms.
"""

import re
from dataclasses import dataclass

from gatepost.core.errors import Invalid

_PLATFORM = re.compile(r"[a-z][a-z0-9_-]{0,31}\Z")
LONGEST = 512  # bytes: a key of the store, of which PostgreSQL takes 2,704 together
LIKE_ROOM = "telegram:group/-100123"
LIKE_USER = "telegram:user/9"


@dataclass(frozen=True, slots=True, order=True)
class Address:
    platform: str
    rest: str

    def __str__(self) -> str:
        return f"{self.platform}:{self.rest}"

    @property
    def segments(self) -> tuple[str, ...]:
        return tuple(self.rest.split("/"))


def parse(text: str, field: str = "address", like: str = LIKE_ROOM) -> Address:
    """Read an address; a bad one is refused with what is wrong about it. `like`: an example of what is meant."""
    platform, colon, rest = text.partition(":")
    if not colon:
        raise Invalid(field, f"{text!r} is not an address; it should look like {like}")
    if not _PLATFORM.match(platform):
        raise Invalid(field, f"{platform!r} is not a platform name")
    if not rest or is_longer(text, LONGEST) or any(ord(char) < 33 or char == "\x7f" for char in rest):
        raise Invalid(field, f"{text[:80]!r} has an empty, overlong or unprintable room part")
    return Address(platform, rest)


def is_longer(text: str, most: int) -> bool:
    """Return True if a text has more than so many bytes of UTF-8."""
    return len(text) > most or (not text.isascii() and len(text.encode("utf-8", "surrogatepass")) > most)


def safe_segment(text: str) -> str:
    """A sender as one path segment, so that `{sender}` in a route target cannot add a level or leave the tree."""
    cleaned = re.sub(r"[^A-Za-z0-9_.-]+", "-", text).strip("-.")
    return cleaned[:64] or "someone"
