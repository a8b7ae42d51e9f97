"""Secrets struck out of what a server said, wherever in it they stand and however they are usually written.

Pure. It works on values that were read from JSON, so no escape hides anything. A server that means to give a secret
away can: encrypted, or in pieces. This is against accidents, such as an error that quotes a header.
"""

import base64
import json
import re
from collections.abc import Iterable
from html.entities import codepoint2name
from typing import Any

STRUCK = "[secret]"
_SHORTEST_FORM = 6  # an encoded form below that would be found in anything
_SHORTEST_LINE = 16  # of a value that has several: a key in PEM


class SecretScrubber:
    def __init__(self, values: Iterable[str]) -> None:
        given = [value for value in values if value]
        found = {form for value in given for form in _forms(value)}
        self._forms = sorted(found, key=len, reverse=True)  # a longer one may hold a shorter one
        self._quoted = [_quoted(value) for value in given]

    def text(self, text: str) -> str:
        for form in self._forms:
            text = text.replace(form, STRUCK)
        if "%" in text or "&" in text or "\\u" in text:
            for pattern in self._quoted:
                text = pattern.sub(STRUCK, text)
        return text

    def value(self, value: Any) -> Any:
        """The same value without them: texts, names of fields, and numbers that are one."""
        if not self._forms:
            return value
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, dict):
            return {self.text(str(name)): self.value(each) for name, each in value.items()}
        if isinstance(value, list):
            return [self.value(each) for each in value]
        if isinstance(value, int | float) and not isinstance(value, bool) and str(value) in self._forms:
            return STRUCK
        return value


def _forms(value: str) -> set[str]:
    lines = {line.strip() for line in value.splitlines() if len(line.strip()) >= _SHORTEST_LINE}
    return {value, value.strip() or value, *lines, *(form for form in _encoded(value) if len(form) >= _SHORTEST_FORM)}


def _encoded(value: str) -> set[str]:
    raw, quoted = value.encode(), json.dumps(value)[1:-1]
    whole = {base64.b64encode(raw).decode(), base64.urlsafe_b64encode(raw).decode()}
    whole |= {each.rstrip("=") for each in whole}
    plain = {
        raw.hex(),
        raw.hex().upper(),
        quoted,
        quoted.replace("/", "\\/"),
        json.dumps(value, ensure_ascii=False)[1:-1],
    }
    return plain | whole | {form for shift in range(3) for form in _in_base64(raw, shift)}


def _quoted(value: str) -> re.Pattern[str]:
    """As in a URL, a page or JSON, whichever of its signs are written as `%2F`, `%2f`, `&lt;`, `&#60;` or `\\u003c`
    there, and however often that was done one after the other: `%252F`, `&amp;lt;`."""
    signs = []
    for sign in value:
        in_address = "".join(f"%(?:25)*{byte:02x}" for byte in sign.encode())
        name = codepoint2name.get(ord(sign), "") or ("apos" if sign == "'" else "")
        in_page = f"&(?:amp;)*(?:#0*{ord(sign)}|#x0*{ord(sign):x}{'|' + name if name else ''});"
        pairs = sign.encode("utf-16-be", "surrogatepass").hex()
        in_json = "".join(rf"\\{{1,4}}u{pairs[at : at + 4]}" for at in range(0, len(pairs), 4))
        others = f"(?i:{in_address}|{in_page}|{in_json})"
        signs.append(f"(?:{re.escape(sign)}|{others}{'|[+]' if sign == ' ' else ''})")
    return re.compile("".join(signs))


def _in_base64(raw: bytes, shift: int) -> tuple[str, str]:
    """As it stands in the base64 of something longer, `shift` bytes into a group of three: only whole signs of it."""
    first = (0, 2, 3)[shift]
    last = (shift + len(raw)) * 8 // 6
    padded = bytes(shift) + raw
    return base64.b64encode(padded).decode()[first:last], base64.urlsafe_b64encode(padded).decode()[first:last]
