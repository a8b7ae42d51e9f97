"""Globs, translated for `core/linear_regex.py`: no glob takes more than time by the value's length, whoever wrote it.

Over the `/` segments of an address or a folder `*`, `?` and `[…]` stay within a segment, and a segment `**` covers any
number of segments, also none. Over plain text (`plain`) there are no segments.
"""

import re

from gatepost.core.linear_regex import BadPattern

SIGNS = "*?["
LAST = 0x10FFFF
_SLASH = ord("/")
SET = re.compile(r"\[([!^]?)(\]?[^\]]*)\]")


def is_glob(text: str) -> bool:
    return any(sign in text for sign in SIGNS)


def glob_to_regex(glob: str, *, plain: bool = False, across: bool = False) -> str:
    """The expression that fits what the glob fits. `across`: stars that stand together cover segments also where they
    are a part of one. Raises `BadPattern` for a set of characters that cannot be read."""
    if plain:
        return "(?s:" + _segment(glob, plain=True, across=True) + ")"
    segments = _without_repeats(glob.split("/"))
    out = ""
    for index, segment in enumerate(segments):
        last = index == len(segments) - 1
        if segment != "**":
            out += _segment(segment, plain=False, across=across) + ("" if last else "/")
        elif len(segments) == 1:
            out += ".*"
        elif last:
            out = out.removesuffix("/") + "(?:/.*)?"
        else:
            out += "(?:.*/)?"
    return f"(?s:{out})"


def _without_repeats(segments: list[str]) -> list[str]:
    """`**/**` is `**`, as is a segment of more than two stars."""
    found: list[str] = []
    for segment in segments:
        meant = "**" if len(segment) > 1 and not segment.strip("*") else segment
        if meant != "**" or found[-1:] != ["**"]:
            found.append(meant)
    return found


def _segment(text: str, *, plain: bool, across: bool) -> str:
    one = "." if plain else "[^/]"
    out, at = "", 0
    while at < len(text):
        char = text[at]
        found = SET.match(text, at) if char == "[" else None
        if char == "*":
            run = len(text) - at - len(text[at:].lstrip("*"))
            out += ".*" if plain or (across and run > 1) else "[^/]*"
            at += run
        elif found is not None:
            out += _set(found, plain)
            at = found.end()
        else:
            out += one if char == "?" else _literal(char)
            at += 1
    return out


def _literal(char: str) -> str:
    return char if char.isalnum() or char in "_:/-@ " else rf"\x{{{ord(char):x}}}"


def _set(found: re.Match[str], plain: bool) -> str:
    """A set without the slash: that separates segments and is in none."""
    negated, inner = found.groups()
    if not inner:
        raise BadPattern(f"{found.group()!r} names no character")
    ranges, at = list[tuple[int, int]](), 0
    while at < len(inner):
        low, wide = ord(inner[at]), inner[at + 1 : at + 2] == "-" and at + 2 < len(inner)
        high = ord(inner[at + 2]) if wide else low
        if high < low:
            raise BadPattern(f"{found.group()!r} is not a set of characters: {inner[at : at + 3]} runs backwards")
        ranges.append((low, high))
        at += 3 if wide else 1
    if negated:
        ranges += [] if plain else [(_SLASH, _SLASH)]
        return f"[^{_ranges(ranges)}]"
    kept = ranges if plain else [part for low, high in ranges for part in _off_slash(low, high)]
    return f"[{_ranges(kept)}]" if kept else rf"[^\x{{0}}-\x{{{LAST:x}}}]"


def _off_slash(low: int, high: int) -> list[tuple[int, int]]:
    if not low <= _SLASH <= high:
        return [(low, high)]
    return [(a, b) for a, b in ((low, _SLASH - 1), (_SLASH + 1, high)) if a <= b]


def _ranges(ranges: list[tuple[int, int]]) -> str:
    return "".join(rf"\x{{{low:x}}}-\x{{{high:x}}}" for low, high in ranges)


def matches_wildcard(pattern: str, text: str) -> bool:
    """Return True if the text fits a pattern in which `*` is anything, and nothing else has a meaning."""
    first, *rest = pattern.split("*")
    if not rest:
        return text == pattern
    *middle, last = rest
    if len(text) < len(first) + len(last) or not text.startswith(first) or not text.endswith(last):
        return False
    at, end = len(first), len(text) - len(last)
    for piece in middle:  # what comes first is as good as any later: a star follows it
        found = text.find(piece, at, end)
        if found < 0:
            return False
        at = found + len(piece)
    return True
