"""How long a text is, in what a platform counts, and where it may be cut. Pure, and linear in what is cut off.

A cut never tears a sign that people read as one: a letter with its accents, an emoji of several parts, a flag, a
syllable of Hangul, CR and LF. These are the extended grapheme clusters of Unicode (UAX 29). Two rules are stricter:
nothing is cut after a zero width joiner, nor between a virama and a letter. A cluster longer than `LONGEST_CLUSTER` is
cut all the same.
"""

import re
import unicodedata
from collections.abc import Iterator
from enum import StrEnum

from gatepost.core.late_pattern import late_pattern

LONGEST_CLUSTER = 64  # code points; people write none of that length, and the way back must have a bound

_JOINER = "\u200d"
_VIRAMA = 9  # the combining class
_HANGUL_BASE, _HANGUL_END, _TRAILING = 0xAC00, 0xD7A3, 28
_PREPENDED = frozenset("\u0600\u0601\u0602\u0603\u0604\u0605\u06dd\u070f\u0890\u0891\u08e2\U000110bd\U000110cd")
_JOINS = {"L": "LVAB", "V": "VT", "A": "VT", "T": "T", "B": "T"}  # A: a syllable without a trailing jamo, B: with one
_ENTITIES = {ord("&"): 5, ord("<"): 4, ord(">"): 4}
ELLIPSIS = "…"
# X counts by twitter-text 3.1 (docs.x.com, "Counting characters"). Whatever looks like a host counts
# as the longer of the two, since not every ending is one; so this is never less than what X finds.
LINK = 23
_LIGHT = ((0, 4351), (8192, 8205), (8208, 8223), (8242, 8247))
_ENDINGS = (
    "com|org|net|edu|gov|io|dev|app|ai|co|uk|de|fr|eu|us|info|me|tv|ru|cn|jp|in|br|ca|au|nl|se|no|es|it|ch|at|be|pl"
)
_PIECE = late_pattern(
    rf"(?P<link>https?://[A-Za-z0-9.-]+\.(?:{_ENDINGS})(?![A-Za-z0-9.-])(?:[/?#][A-Za-z0-9/?#=&%_~.+:;!$'*-]*)?)"
    r"|(?P<run>[A-Za-z0-9.-]+)|.",
    re.DOTALL,
)
_HOST = late_pattern(r"[A-Za-z0-9]\.[A-Za-z]{2}")


class TextUnit(StrEnum):
    CHARACTERS = "characters"  # code points
    UTF16 = "utf16"  # an emoji counts twice
    BYTES = "bytes"  # of UTF-8
    ESCAPED = "escaped"  # the same, with `&`, `<` and `>` as entities
    WEIGHTED = "weighted"  # as X counts: most signs beyond Latin are two, a link is 23, and so is `main.py`


WIDEST = {  # of one code point
    TextUnit.CHARACTERS: 1,
    TextUnit.UTF16: 2,
    TextUnit.BYTES: 4,
    TextUnit.ESCAPED: 5,
    TextUnit.WEIGHTED: 6,  # `a.bc` is 23
}


def measure(text: str, unit: TextUnit) -> int:
    match unit:
        case TextUnit.CHARACTERS:
            return len(text)
        case TextUnit.UTF16:
            return len(text.encode("utf-16-le", "surrogatepass")) // 2
        case TextUnit.BYTES:
            return len(text.encode("utf-8", "surrogatepass"))
        case TextUnit.ESCAPED:
            more = 4 * text.count("&") + 3 * (text.count("<") + text.count(">"))
            return len(text.encode("utf-8", "surrogatepass")) + more
        case TextUnit.WEIGHTED:
            return sum(weight for _, weight in _weigh(text, 0))


def fits(text: str, limit: int, unit: TextUnit) -> bool:
    """Return True if it is within a limit; 0: there is none. A short text costs one `len`."""
    return limit <= 0 or len(text) * WIDEST[unit] <= limit or measure(text, unit) <= limit


def find_end(text: str, start: int, room: int, unit: TextUnit) -> int:
    """The last place up to which `text` from `start` on fits into `room`. It may lie inside a grapheme."""
    if unit is TextUnit.WEIGHTED:
        return _find_weighted_end(text, start, room)
    end = min(start + max(room, 0), len(text))
    if unit is TextUnit.CHARACTERS or (end - start) * WIDEST[unit] <= room:
        return end
    chunk = text[start:end]
    if chunk.isascii() and unit is not TextUnit.ESCAPED:
        return end
    left = room
    for place, sign in enumerate(chunk, start):
        left -= _width(ord(sign), unit)
        if left < 0:
            return place
    return end


def _weigh(text: str, start: int) -> Iterator[tuple[re.Match[str], int]]:
    """The pieces of a text that are counted as one, with their weight. Linear: no piece is looked at twice."""
    for piece in _PIECE.finditer(text, start):
        size = piece.end() - piece.start()
        if piece["link"] is not None:
            yield piece, LINK
        elif piece["run"] is not None:
            yield piece, max(size, LINK) if _HOST.search(piece[0]) else size
        else:
            # `@` and `$` count twice: the channel puts a sign of no width behind them.
            light = any(first <= ord(piece[0]) <= last for first, last in _LIGHT)
            yield piece, 1 if light and piece[0] not in "@$" else 2


def _find_weighted_end(text: str, start: int, room: int) -> int:
    left = room
    for piece, weight in _weigh(text, start):
        if weight > left:
            return piece.start() + _find_part(piece[0], left)
        left -= weight
    return len(text)


def _find_part(piece: str, room: int) -> int:
    """Return how much fits of a piece that does not fit whole. A part of a link may be no link, or a longer one."""
    end = 0
    while end < min(len(piece), room) and measure(piece[: end + 1], TextUnit.WEIGHTED) <= room:
        end += 1
    return end


def _width(code: int, unit: TextUnit) -> int:
    if unit is TextUnit.UTF16:
        return 2 if code > 0xFFFF else 1
    if unit is TextUnit.ESCAPED and code in _ENTITIES:
        return _ENTITIES[code]
    return 1 if code < 0x80 else 2 if code < 0x800 else 3 if code < 0x10000 else 4


def shorten(text: str, limit: int, unit: TextUnit) -> str:
    """The text, cut at a whole grapheme and marked as cut, if it is longer than a limit; 0: there is none."""
    if fits(text, limit, unit):
        return text
    room = limit - measure(ELLIPSIS, unit)
    if room < 0:  # no room to say that it is cut
        return text[: find_boundary(text, find_end(text, 0, limit, unit), 0)]
    return text[: find_boundary(text, find_end(text, 0, room, unit), 0)] + ELLIPSIS


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
