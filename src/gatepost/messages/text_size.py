"""How long a text is, in what a platform counts, and where it may be cut. Pure, and linear in what is cut off."""

from enum import StrEnum

from gatepost.messages.graphemes import find_boundary


class TextUnit(StrEnum):
    CHARACTERS = "characters"  # code points
    UTF16 = "utf16"  # an emoji counts twice
    BYTES = "bytes"  # of UTF-8
    ESCAPED = "escaped"  # the same, with `&`, `<` and `>` as entities


WIDEST = {TextUnit.CHARACTERS: 1, TextUnit.UTF16: 2, TextUnit.BYTES: 4, TextUnit.ESCAPED: 5}  # of one code point
_ENTITIES = {ord("&"): 5, ord("<"): 4, ord(">"): 4}
ELLIPSIS = "…"


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


def fits(text: str, limit: int, unit: TextUnit) -> bool:
    """Whether it is within a limit; 0: there is none. A short text costs one `len`."""
    return limit <= 0 or len(text) * WIDEST[unit] <= limit or measure(text, unit) <= limit


def find_end(text: str, start: int, room: int, unit: TextUnit) -> int:
    """The last place up to which `text` from `start` on fits into `room`. It may lie inside a grapheme."""
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
