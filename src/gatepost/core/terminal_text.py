"""Text of other people on an operator's screen: what a terminal would obey, or would not show, is shown as a sign.

A message can hold a sequence that clears the screen, or characters that turn the order of what is read around.
Joiners stay: letters and emoji are made of them. Signs that have a glyph of their own stay, too.
"""

import re

from gatepost.core.late_pattern import late_pattern

# C0 but tab and newline, DEL and C1, then what is invisible: soft hyphen, marks of direction, separators of lines,
# fillers of no width, interlinear and musical format characters, tags; and halves of surrogate pairs.
_UNSEEN = (
    "\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ud800-\udfff\ufeff"
    "\ufff9-\ufffb\U00013430-\U0001343f\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e007f"
)
_SEEN = late_pattern(f"[{_UNSEEN}]")
_DELETE = 0x7F


def make_visible(text: str) -> str:
    """The same text, harmless: `␛` for escape, `\\u202e` for a turn of direction. Newlines and tabs stay."""
    if text.isprintable():
        return text
    return _SEEN.sub(_sign, text.replace("\r\n", "\n"))


def one_line(text: str) -> str:
    """For a cell or a line of a list: a newline is `⏎`, blanks are one each."""
    return " ".join(make_visible(text).strip().replace("\n", "⏎").split())


def make_json_visible(text: str) -> str:
    """JSON that a terminal can bear: nothing of the kind stands outside a string, where `\\u…` means the same."""
    return text if text.isascii() and text.isprintable() else _SEEN.sub(_escape, text)


def _sign(found: re.Match[str]) -> str:
    code = ord(found[0])
    if code < 0x20:
        return chr(0x2400 + code)
    if code == _DELETE:
        return "␡"
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def _escape(found: re.Match[str]) -> str:
    code = ord(found[0])
    if code < 0x10000:
        return f"\\u{code:04x}"
    return f"\\u{0xD7C0 + (code >> 10):04x}\\u{0xDC00 + (code & 0x3FF):04x}"
