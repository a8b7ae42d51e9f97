"""How long a text is, in what a platform counts."""

from enum import StrEnum


class TextUnit(StrEnum):
    CHARACTERS = "characters"  # code points
    UTF16 = "utf16"  # an emoji counts twice
    BYTES = "bytes"  # of UTF-8


def measure(text: str, unit: TextUnit) -> int:
    match unit:
        case TextUnit.CHARACTERS:
            return len(text)
        case TextUnit.UTF16:
            return len(text) + sum(1 for sign in text if ord(sign) > 0xFFFF)
        case TextUnit.BYTES:
            return len(text.encode())
