"""Patterns whose time grows with the text's length alone, whoever wrote them: regular expressions by RE2, bounded in
every direction, and globs that are translated for it.

For patterns that others than the operator may write. Python's `re` goes back and tries again, so a bad pattern and a
well-chosen text take for ever; it must not be used for those.

Over the `/` segments of an address or a folder, the signs `*`, `?` and `[…]` of a glob stay within a segment. A segment
`**` covers any number of segments, also none. Over plain text (`plain`) there are no segments.
"""

import re
from functools import lru_cache
from typing import Protocol

import re2

LONGEST = 8192  # characters of an expression
MOST_MEMORY = 128 * 1024  # of one program and the states that it remembers
MOST_STEPS = 2000  # instructions of a program: matching costs up to so many steps a byte
MOST_KEPT = 1024  # compiled programs, which bounds their memory altogether


_UNREAD = re.compile(r"(?<!\\)\{(?:,\d|\d+,\d{5}|\d{5})\d*\}?")  # RE2 would take these for plain characters
GLOB_SIGNS = "*?["
_LAST = 0x10FFFF
_SLASH = ord("/")
GLOB_SET = re.compile(r"\[([!^]?)(\]?[^\]]*)\]")


class BadPattern(ValueError):
    """An expression that cannot be used; its text says why."""


class _Re2Program(Protocol):
    @property
    def programsize(self) -> int: ...

    def search(self, text: bytes) -> object | None: ...

    def fullmatch(self, text: bytes) -> object | None: ...


class LinearRegex:
    """A compiled expression. `.` is any character but a newline, `\\d`, `\\w`, `\\s` and `\\b` know ASCII alone."""

    __slots__ = ("_program", "steps")

    def __init__(self, program: _Re2Program) -> None:
        self._program, self.steps = program, program.programsize

    def occurs_in(self, text: str) -> bool:
        return self._program.search(text.encode("utf-8", "replace")) is not None

    def fits(self, text: str) -> bool:
        """Return True if it covers the whole text."""
        return self._program.fullmatch(text.encode("utf-8", "replace")) is not None


@lru_cache(maxsize=MOST_KEPT)
def compile_linear_regex(expression: str) -> LinearRegex:
    """Compile, or raise `BadPattern`. Ask anew for every use instead of keeping it: what is kept is bounded here."""
    if len(expression) > LONGEST:
        raise BadPattern(f"it has {len(expression)} characters; at most {LONGEST} are possible")
    if (unread := _UNREAD.search(expression)) is not None:
        raise BadPattern(f"{unread.group()[:40]} is not a repetition; write {{0,9}} with numbers of at most 1000")
    options = re2.Options()
    options.max_mem, options.log_errors, options.never_capture = MOST_MEMORY, False, True
    try:
        program: _Re2Program = re2.compile(expression.encode("utf-8", "replace"), options)
    except re2.error as error:
        raise BadPattern(_reason(error)) from None
    if program.programsize > MOST_STEPS:
        raise BadPattern("it is too large; use smaller numbers in {} and smaller sets")
    return LinearRegex(program)


def _reason(error: Exception) -> str:
    """Return what RE2 says, in words that name the way out."""
    said = error.args[0] if error.args else ""
    text = said.decode("utf-8", "replace") if isinstance(said, bytes) else str(said)
    kind, _, where = text.partition(": ")
    if kind == "invalid perl operator" or (kind == "invalid escape sequence" and where[1:2].isdigit()):
        return f"{where[:40]} is not supported: look-around and references to groups would need to go back"
    if kind == "invalid repetition size":
        return f"{where[:40]} repeats too often; at most 1000 are possible, those inside each other multiplied"
    if kind.startswith("pattern too large"):
        return "it is too large; use smaller numbers in {} and smaller sets"
    return f"{kind}: {where[:40]}" if where else text[:80]


def is_glob(text: str) -> bool:
    return any(sign in text for sign in GLOB_SIGNS)


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
        found = GLOB_SET.match(text, at) if char == "[" else None
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
    return f"[{_ranges(kept)}]" if kept else rf"[^\x{{0}}-\x{{{_LAST:x}}}]"


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
