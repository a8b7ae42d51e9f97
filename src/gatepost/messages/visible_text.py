"""Words of agents and strangers where somebody decides by them: on one line, with everything that is there to be seen.
A sign that hides, turns or joins others is shown by its number, and a long text is cut with a digest of the whole."""

import difflib
import hashlib
import unicodedata

from gatepost.core.late_pattern import late_pattern
from gatepost.messages.text import clean

LINE_BREAK = "⏎"
MOST_MARKS = 3  # above and below one letter
DIGEST = 16  # hex digits
MOST_COMPARED = 1000  # lines of each side of a change
MOST_SHOWN, LONGEST_SHOWN = 40, 160  # lines of a change that a card shows, and characters of each

_BREAK = late_pattern("\r\n|[\n\r\v\f\x85\u2028\u2029]")
# Printable by their category, and yet nothing is to be seen of them.
_BLANK = frozenset(
    (0x034F, 0x115F, 0x1160, 0x17B4, 0x17B5, 0x2800, 0x3164, 0xFFA0, *range(0x180B, 0x1810), *range(0xE0100, 0xE01F0))
)
_HINTS = dict.fromkeys((0x00AD, 0x200B, 0x2060, 0xFEFF))
_NUMBERED = "⟨U+"
_VARIANTS = range(0xFE00, 0xFE10)  # of the sign before, such as a coloured heart


def show_hidden(text: str) -> str:
    """On one line. Takes time by the length of the text."""
    if text.isascii() and text.isprintable():
        return " ".join(text.split())
    return " ".join(_show_line(_BREAK.sub(f" {LINE_BREAK} ", clean(text))).split())


def _show(sign: str, before: str, marks: int) -> str:
    code = ord(sign)
    if code < 0x300 and sign.isprintable():
        return sign
    if sign.isspace():
        return " "
    variant = code in _VARIANTS and (not before or unicodedata.category(before) != "So")
    if variant or code in _BLANK or marks > MOST_MARKS or not sign.isprintable():
        return f"{_NUMBERED}{code:04X}⟩"
    return sign


def shorten_visibly(text: str, longest: int) -> str:
    """Return what is shown of a text, and by which digest the whole is known if that is more."""
    shown = show_hidden(text[:longest])
    if len(text) <= longest and len(shown) <= longest:
        return shown
    digest = hashlib.sha256(clean(text).encode()).hexdigest()[:DIGEST]
    return f"{shown[:longest]}… ({len(text)} characters, sha256 {digest})"


def show_hidden_in_lines(text: str) -> str:
    """The same for a text that keeps its lines and how far they are indented."""
    lines = _BREAK.sub("\n", clean(text)).split("\n")
    return "\n".join(" " * (len(line) - len(line.lstrip(" "))) + show_hidden(line) for line in lines)


def show_hidden_signs(text: str) -> str:
    """The same for a text that stays as it is laid out. Signs that only say where a word may be broken are left out."""
    lines = _BREAK.sub("\n", clean(text)).translate(_HINTS).split("\n")
    return "\n".join(line if line.isascii() and line.isprintable() else _show_line(line) for line in lines)


def _show_line(line: str) -> str:
    shown: list[str] = []
    before, marks = "", 0
    for sign in line:
        marks = marks + 1 if unicodedata.combining(sign) else 0
        shown.append(sign if sign == "\t" else _show(sign, before, marks))
        before = sign
    return "".join(shown)


def hides_something(text: str) -> bool:
    """Return True if a text has a character that is shown by its number."""
    return show_hidden(text).count(_NUMBERED) > text.count(_NUMBERED)


def render_changes(before: str, after: str, most: int = MOST_SHOWN) -> list[str]:
    """Lines that begin with `+`, `-` or `·`, so that none of them ends the block that they stand in. A sign that hides
    is shown by its number."""
    old, new = before.splitlines(), after.splitlines()
    found = difflib.unified_diff(old[:MOST_COMPARED], new[:MOST_COMPARED], n=2, lineterm="")
    marks = {"+": "+", "-": "-", " ": "·", "@": "·"}
    lines = [
        f"{marks[line[0]]} {show_hidden_in_lines(line[1:LONGEST_SHOWN])}".rstrip()
        + ("…" if len(line) > LONGEST_SHOWN else "")
        for line in list(found)[2:]
        if not line.startswith("@@")
    ]
    shown = lines[:most]
    if len(lines) > most:
        shown.append(f"· … {len(lines) - most} more lines")
    if max(len(old), len(new)) > MOST_COMPARED:
        shown.append(f"· … only the first {MOST_COMPARED} lines of each are compared")
    return shown
