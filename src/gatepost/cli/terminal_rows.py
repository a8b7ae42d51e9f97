"""Rows of a terminal: how wide a text is on the screen, and its last rows. Pure."""

import unicodedata

from gatepost.core.terminal_text import make_visible

_NO_WIDTH = ("Mn", "Me", "Cf")


def get_width(text: str) -> int:
    return len(text) if text.isascii() else sum(map(_get_sign_width, text))


def _get_sign_width(sign: str) -> int:
    if unicodedata.category(sign) in _NO_WIDTH:
        return 0
    return 2 if unicodedata.east_asian_width(sign) in ("W", "F") else 1


def count_rows_above(typed: str, columns: int) -> int:
    """How many rows lie between the first of a typed line and the one that the cursor is in, at its end."""
    return get_width(make_visible(typed)) // columns


def list_last_rows(text: str, columns: int, most: int) -> list[str]:
    """The last rows of a text, none of them as wide as the screen: so each is one row there."""
    rows: list[str] = []
    for line in reversed(make_visible(text).expandtabs(4).rstrip().split("\n")):
        rows[:0] = _wrap(line, columns - 1)
        if len(rows) >= most:
            return rows[-most:]
    return rows if text.strip() else []


def _wrap(line: str, room: int) -> list[str]:
    """At blanks, where there are any."""
    rows, row, width = [], "", 0
    for word in _split_words(line, room):
        wide = get_width(word)
        if width + get_width(word.rstrip()) > room:
            rows.append(row.rstrip())
            row, width = "", 0
        row, width = row + word, width + wide
    return [*rows, row.rstrip()]


def _split_words(line: str, room: int) -> list[str]:
    """Words with the blanks behind them; what is wider than a row is cut."""
    found: list[str] = []
    word, width = "", 0
    for sign in line:
        wide = _get_sign_width(sign)
        if (sign != " " and word.endswith(" ")) or (sign != " " and width + wide > room):
            found.append(word)
            word, width = "", 0
        word, width = word + sign, width + wide
    return [*found, word]
