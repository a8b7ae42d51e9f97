"""How long a text is, in what a platform counts, and where it may be cut. Pure, and linear in what is cut off."""

import re
from collections.abc import Iterator
from enum import StrEnum

from gatepost.messages.graphemes import find_boundary


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
_ENTITIES = {ord("&"): 5, ord("<"): 4, ord(">"): 4}
ELLIPSIS = "…"
# X counts by twitter-text 3.1 (docs.x.com, "Counting characters"). Whatever looks like a host counts
# as the longer of the two, since not every ending is one; so this is never less than what X finds.
LINK = 23
_LIGHT = ((0, 4351), (8192, 8205), (8208, 8223), (8242, 8247))
_ENDINGS = (
    "com|org|net|edu|gov|io|dev|app|ai|co|uk|de|fr|eu|us|info|me|tv|ru|cn|jp|in|br|ca|au|nl|se|no|es|it|ch|at|be|pl"
)
_PIECE = re.compile(
    rf"(?P<link>https?://[A-Za-z0-9.-]+\.(?:{_ENDINGS})(?![A-Za-z0-9.-])(?:[/?#][A-Za-z0-9/?#=&%_~.+:;!$'*-]*)?)"
    r"|(?P<run>[A-Za-z0-9.-]+)|.",
    re.DOTALL,
)
_HOST = re.compile(r"[A-Za-z0-9]\.[A-Za-z]{2}")


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
