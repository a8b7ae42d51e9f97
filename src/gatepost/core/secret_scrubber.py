"""Secrets struck out of what a server said, wherever in it they stand and however they are usually written.

Pure. A server that means to give a secret away can: encrypted, or in pieces. This is against accidents, such as an
error that quotes a header, or a page that shows a request.
"""

import base64
import json
import re
from collections.abc import Callable, Iterable
from functools import lru_cache
from html.entities import codepoint2name
from typing import Any, Protocol

import re2
from msgspec import Struct

SHORTEST_SECRET = 8  # characters: a shorter one is found in ordinary words, and would be struck out of them
STRUCK = "[secret]"
LEAST_WAITING = 256  # bytes of a stream that are held back until more comes
_SHORTEST_FORM = 6  # an encoded form below that would be found in anything
_SHORTEST_LINE = 16  # of a value that has several: a key in PEM
_LONGEST_SIGN = 24  # bytes of one sign of a secret, however it is written
_LONGEST_WRAPPED = 128  # characters of a secret that is looked for in base64 that stands in lines
_LONGEST_ESCAPED = 512  # characters of a secret whose escaped forms are looked for: a header holds no more


def render_too_short(name: str) -> str:
    """Why a secret cannot be used, and the way out."""
    return (
        f"{name} has fewer than {SHORTEST_SECRET} characters. Secrets are removed from what hosts and models answer,"
        " and one so short stands in ordinary words, too; give the whole key (gatepost secret set), or none to an"
        " endpoint that needs none"
    )


class _FoundMatch(Protocol):
    def span(self) -> tuple[int, int]: ...


class _Re2Pattern(Protocol):
    def search(self, text: bytes, pos: int) -> _FoundMatch | None: ...


class _WrittenSecret(Struct, frozen=True):
    """The ways in which a secret may be written."""

    forms: tuple[str, ...]  # as they are
    pattern: _Re2Pattern | None  # with any of its signs escaped; None: it is too long for that


class SecretScrubber:
    """Works on texts, and on values that were read from JSON."""

    def __init__(self, values: Iterable[str]) -> None:
        self._written = [_list_written(value) for value in values if value]
        found = {form for each in self._written for form in each.forms}
        self._forms = sorted(found, key=len, reverse=True)  # a longer one may hold a shorter one
        self._raw = [form.encode() for form in self._forms]

    def text(self, text: str) -> str:
        for form in self._forms:
            text = text.replace(form, STRUCK)
        if not self._written:
            return text
        raw = text.encode("utf-8", "surrogatepass")
        return self._strike_escaped(raw, lambda _: STRUCK.encode()).decode("utf-8", "surrogatepass")

    def data(self, data: bytes) -> bytes:
        """The same for bytes, with as many stars in the place of each, so that lengths stay true."""
        for form in self._raw:
            data = data.replace(form, b"*" * len(form))
        return self._strike_escaped(data, lambda size: b"*" * size) if self._written else data

    def _strike_escaped(self, data: bytes, replace: Callable[[int], bytes]) -> bytes:
        """`replace` makes what stands in the place of so many bytes."""
        for each in self._written:
            kept, at = list[bytes](), 0
            while each.pattern is not None and (found := each.pattern.search(data, at)) is not None:
                begin, end = found.span()
                kept += data[at:begin], replace(end - begin)
                at = end
            data = b"".join((*kept, data[at:])) if kept else data
        return data

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


class SecretStreamScrubber:
    """Bytes on their way in, with every secret in them struck out.

    How many bytes wait for what follows does not depend on what they are. If only the beginning of a secret waited, an
    agent whose words a host repeats could guess the secret sign by sign from where the pieces end.
    """

    def __init__(self, values: Iterable[str]) -> None:
        given = [value for value in values if value]
        self._scrub = SecretScrubber(given)
        longest = max((len(value) for value in given), default=0) * _LONGEST_SIGN
        self._waits = _power_of_two(max(LEAST_WAITING, longest)) if given else 0
        self._kept = b""

    def feed(self, data: bytes) -> bytes:
        """Return the bytes that may be passed on. The last bytes wait: a secret may begin in them."""
        data = self._scrub.data(self._kept + data)
        end = max(len(data) - self._waits, 0)
        self._kept = data[end:]
        return data[:end]

    def rest(self) -> bytes:
        rest, self._kept = self._kept, b""
        return rest


def _power_of_two(size: int) -> int:
    """Rounded up, so that the length of a secret is not told either."""
    return 1 << (size - 1).bit_length()


@lru_cache(maxsize=256)  # to compile a pattern takes a millisecond, and a key is used again and again
def _list_written(value: str) -> _WrittenSecret:
    lines = {line.strip() for line in value.splitlines() if len(line.strip()) >= _SHORTEST_LINE}
    encoded = (form for form in _encode(value) if len(form) >= _SHORTEST_FORM)
    pattern = _compile_pattern(value) if len(value) <= _LONGEST_ESCAPED else None
    return _WrittenSecret(tuple({value, value.strip() or value, *lines, *encoded}), pattern)


def _compile_pattern(value: str) -> _Re2Pattern:
    """By RE2: Python's own takes forty times as long for a pattern that begins with an alternative."""
    options = re2.Options()
    options.encoding, options.log_errors = re2.Options.Encoding.LATIN1, False
    encoded = [form for form in sorted(_encode_base64(value.encode())) if len(form) >= _SHORTEST_FORM]
    encoded = encoded if len(value) <= _LONGEST_WRAPPED else []
    forms = (_render_pattern(value), *map(_render_wrapped, encoded))
    found: _Re2Pattern = re2.compile("|".join(forms).encode(), options)
    return found


def _render_wrapped(form: str) -> str:
    """Base64 in lines, as mails and some APIs have it, with their ends as they are or escaped."""
    return r"(?:\s|\\{1,2}[rn]){0,4}".join(map(re.escape, form))


def _encode(value: str) -> set[str]:
    raw, quoted = value.encode(), json.dumps(value)[1:-1]
    plain = {
        raw.hex(),
        raw.hex().upper(),
        quoted,
        quoted.replace("/", "\\/"),
        json.dumps(value, ensure_ascii=False)[1:-1],
    }
    whole = {base64.b64encode(raw).decode(), base64.urlsafe_b64encode(raw).decode()}
    return plain | whole | _encode_base64(raw)


def _encode_base64(raw: bytes) -> set[str]:
    """As it stands in base64, by itself or in something longer: without what fills up the end."""
    whole = {base64.b64encode(raw).decode().rstrip("="), base64.urlsafe_b64encode(raw).decode().rstrip("=")}
    return whole | {form for shift in range(3) for form in _encode_inside(raw, shift)}


def _render_pattern(value: str) -> str:
    """Return a pattern that finds a value in plain text, a URL, a page or JSON. Any of its characters may be escaped
    there: `%2F`, `%2f`, `&lt;`, `&#60;`, `\\/` or `\\u003c`. Up to three layers of escaping are found: `%25252F`,
    `&amp;amp;lt;`."""
    signs = []
    for sign in value:
        in_address = "".join(f"%(?:25){{0,2}}{byte:02x}" for byte in sign.encode())
        name = codepoint2name.get(ord(sign), "") or ("apos" if sign == "'" else "")
        in_page = f"&(?:amp;){{0,2}}(?:#0{{0,5}}{ord(sign)}|#x0{{0,5}}{ord(sign):x}{'|' + name if name else ''});"
        pairs = sign.encode("utf-16-be", "surrogatepass").hex()
        in_json = "".join(rf"\\{{1,4}}u{pairs[at : at + 4]}" for at in range(0, len(pairs), 4))
        others = f"(?i:{in_address}|{in_page}|{in_json})"
        escaped = r"\\{0,4}" if sign in "\"\\/'" else ""
        signs.append(f"(?:{escaped}{re.escape(sign)}|{others}{'|[+]' if sign == ' ' else ''})")
    return "".join(signs)


def _encode_inside(raw: bytes, shift: int) -> tuple[str, str]:
    """As it stands in the base64 of something longer, `shift` bytes into a group of three: only whole signs of it."""
    first = (0, 2, 3)[shift]
    last = (shift + len(raw)) * 8 // 6
    padded = bytes(shift) + raw
    return base64.b64encode(padded).decode()[first:last], base64.urlsafe_b64encode(padded).decode()[first:last]
