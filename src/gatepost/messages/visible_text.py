"""Words of agents and strangers where somebody decides by them: on one line, with everything that is there to be seen.
A sign that hides, turns or joins others is shown by its number, and a long text is cut with a digest of the whole."""

import hashlib
import re
import unicodedata

from gatepost.messages.text import clean

LINE_BREAK = "⏎"
MOST_MARKS = 3  # above and below one letter
DIGEST = 16  # hex digits

_BREAK = re.compile("\r\n|[\n\r\v\f\x85\u2028\u2029]")
# Printable by their category, and yet nothing is to be seen of them.
_BLANK = frozenset(
    (0x034F, 0x115F, 0x1160, 0x17B4, 0x17B5, 0x2800, 0x3164, 0xFFA0, *range(0x180B, 0x1810), *range(0xE0100, 0xE01F0))
)
_VARIANTS = range(0xFE00, 0xFE10)  # of the sign before, such as a coloured heart


def show_hidden(text: str) -> str:
    """On one line. Takes time by the length of the text."""
    if text.isascii() and text.isprintable():
        return " ".join(text.split())
    shown: list[str] = []
    before, marks = "", 0
    for sign in _BREAK.sub(f" {LINE_BREAK} ", clean(text)):
        marks = marks + 1 if unicodedata.combining(sign) else 0
        shown.append(_show(sign, before, marks))
        before = sign
    return " ".join("".join(shown).split())


def _show(sign: str, before: str, marks: int) -> str:
    code = ord(sign)
    if code < 0x300 and sign.isprintable():
        return sign
    if sign.isspace():
        return " "
    variant = code in _VARIANTS and (not before or unicodedata.category(before) != "So")
    if variant or code in _BLANK or marks > MOST_MARKS or not sign.isprintable():
        return f"⟨U+{code:04X}⟩"
    return sign


def shorten_visibly(text: str, longest: int) -> str:
    """What is shown of a text, and by which digest the whole is known if that is more."""
    shown = show_hidden(text[:longest])
    if len(text) <= longest and len(shown) <= longest:
        return shown
    digest = hashlib.sha256(clean(text).encode()).hexdigest()[:DIGEST]
    return f"{shown[:longest]}… ({len(text)} characters, sha256 {digest})"
