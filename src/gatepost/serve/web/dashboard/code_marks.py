"""Backticks in our own texts, as parts that a template shows as code. Nothing here makes HTML."""

import re

from msgspec import Struct

_CODE = re.compile(r"`([^`\n]+)(?:`|(?<=…)\Z)")  # a text that was cut may end before the second mark


class ProsePart(Struct, frozen=True):
    text: str
    is_code: bool = False


def split_code(text: str) -> list[ProsePart]:
    """The text without its marks, in order. A mark without a second one stays."""
    parts, at = [], 0
    for found in _CODE.finditer(text):
        parts += [ProsePart(text[at : found.start()]), ProsePart(found[1], is_code=True)]
        at = found.end()
    parts.append(ProsePart(text[at:]))
    return [each for each in parts if each.text]
