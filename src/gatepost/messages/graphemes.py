"""Places where a text may be cut without tearing a sign that people read as one. Such are a letter with its accents, an
emoji of several parts, a flag, a syllable of Hangul, CR and LF.

It follows the extended grapheme clusters of Unicode (UAX 29). It is stricter in two places: nothing is cut after a zero
width joiner, nor between a virama and a letter. A cluster longer than `LONGEST_CLUSTER` is cut all the same.
"""

import unicodedata

LONGEST_CLUSTER = 64  # code points; people write none of that length, and the way back must have a bound

_JOINER = "\u200d"
_VIRAMA = 9  # the combining class
_HANGUL_BASE, _HANGUL_END, _TRAILING = 0xAC00, 0xD7A3, 28
_PREPENDED = frozenset("\u0600\u0601\u0602\u0603\u0604\u0605\u06dd\u070f\u0890\u0891\u08e2\U000110bd\U000110cd")


def find_boundary(text: str, at: int, start: int) -> int:
    """The last boundary at or before `at`, but behind `start`, which is one itself; `at` if there is none near."""
    if at >= len(text):
        return len(text)
    for place in range(at, max(start, at - LONGEST_CLUSTER), -1):
        if is_boundary(text, place, start):
            return place
    return at


def is_boundary(text: str, at: int, start: int = 0) -> bool:
    """Return True if a cut before the code point at `at` tears nothing. `start`: a boundary before it."""
    if at <= start or at >= len(text):
        return True
    before, after = text[at - 1], text[at]
    if before < "\x80" and after < "\x80":
        return not (before == "\r" and after == "\n")
    if before in "\r\n" or after in "\r\n":
        return True
    if _extends(after) or before == _JOINER or before in _PREPENDED:
        return False
    if _is_regional(before) and _is_regional(after):
        return _count_regional(text, at, start) % 2 == 0
    if unicodedata.combining(before) == _VIRAMA and after.isalpha():
        return False
    return not _joins_hangul(ord(before), ord(after))


def _extends(sign: str) -> bool:
    """Return True if it belongs to what stands before it: marks, joiners, variation selectors, skin tones, tags."""
    code = ord(sign)
    if code < 0x300:
        return False
    return (
        unicodedata.category(sign)[0] == "M"
        or code in (0x200C, 0x200D, 0xFF9E, 0xFF9F)
        or 0x1F3FB <= code <= 0x1F3FF
        or 0xE0020 <= code <= 0xE007F
    )


def _is_regional(sign: str) -> bool:
    return "\U0001f1e6" <= sign <= "\U0001f1ff"


def _count_regional(text: str, at: int, start: int) -> int:
    """Flags are pairs: how many letters of flags stand right before a place."""
    place = at
    while place > start and _is_regional(text[place - 1]):
        place -= 1
    return at - place


def _joins_hangul(before: int, after: int) -> bool:
    """Jamo of one syllable: leading, vowel, trailing."""
    first, second = _hangul_type(before), _hangul_type(after)
    return second in _JOINS.get(first, "")


_JOINS = {"L": "LVAB", "V": "VT", "A": "VT", "T": "T", "B": "T"}  # A: a syllable without a trailing jamo, B: with one


def _hangul_type(code: int) -> str:
    if 0x1100 <= code <= 0x115F or 0xA960 <= code <= 0xA97C:
        return "L"
    if 0x1160 <= code <= 0x11A7 or 0xD7B0 <= code <= 0xD7C6:
        return "V"
    if 0x11A8 <= code <= 0x11FF or 0xD7CB <= code <= 0xD7FB:
        return "T"
    if _HANGUL_BASE <= code <= _HANGUL_END:
        return "B" if (code - _HANGUL_BASE) % _TRAILING else "A"
    return "-"
