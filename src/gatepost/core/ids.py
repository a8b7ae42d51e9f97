"""Identifiers: a prefix that tells the kind, then time-ordered base-32, so that ids sort by age and read aloud well."""

import os
import secrets
import time

ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"
_PAIRS = [high + low for high in ALPHABET for low in ALPHABET]  # two characters at a time
_NOISE = (ALPHABET * 8).encode()  # a character for each byte, all as often


def _write_moment() -> str:
    """Return nine characters of milliseconds, then two of their parts, each about a microsecond: two ids that one
    process makes one after the other sort so. Written out, because ids are made with every message."""
    pairs, (value, part) = _PAIRS, divmod(time.time_ns(), 1_000_000)
    rest, low = value >> 20, f"{pairs[value >> 10 & 1023]}{pairs[value & 1023]}"
    return f"{ALPHABET[rest >> 20 & 31]}{pairs[rest >> 10 & 1023]}{pairs[rest & 1023]}{low}{pairs[part // 1000]}"


def new(prefix: str) -> str:
    """`s-01j8…`: 11 characters of the moment, 9 of randomness (45 bits)."""
    return f"{prefix}-{_write_moment()}{os.urandom(9).translate(_NOISE).decode()}"


def new_many(prefix: str, count: int) -> list[str]:
    """Several at once, of the same moment."""
    begin, noise = f"{prefix}-{_write_moment()}", os.urandom(9 * count).translate(_NOISE).decode()
    return [f"{begin}{noise[at : at + 9]}" for at in range(0, len(noise), 9)]


def token(size: int = 32) -> str:
    """A secret that may stand in a URL."""
    return secrets.token_urlsafe(size)
