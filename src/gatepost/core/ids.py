"""Identifiers: a prefix that tells the kind, then time-ordered base-32, so that ids sort by age and read aloud well."""

import os
import secrets
import time

ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"


_PAIRS = [high + low for high in ALPHABET for low in ALPHABET]  # two characters at a time


def _base32(value: int, width: int) -> str:
    out = ""
    while len(out) < width:
        out = _PAIRS[value & 1023] + out
        value >>= 10
    return out[-width:]


def new(prefix: str) -> str:
    """`s-01j8…`: 9 characters of milliseconds, 9 of randomness (45 bits each)."""
    moment = time.time_ns() // 1_000_000
    noise = int.from_bytes(os.urandom(6), "big")
    return f"{prefix}-{_base32(moment, 9)}{_base32(noise, 9)}"


def token(size: int = 32) -> str:
    """A secret that may stand in a URL."""
    return secrets.token_urlsafe(size)
