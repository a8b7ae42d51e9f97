"""A reader of gettext's PO files, which translators' programs write. Headers, comments and plural forms have no meaning
here: where a number changes a text, English has two texts already."""

import re
from collections.abc import Iterator

from gatepost.core.errors import SetupError
from gatepost.core.late_pattern import late_pattern

_QUOTED = late_pattern(r'"((?:[^"\\]|\\.)*)"\s*\Z')
_ESCAPED = late_pattern(r"\\(.)")
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r"}


def read_po(text: str, name: str) -> dict[str, str]:
    """Return the translations by their English texts. A text that has none, or one that is marked as unsure, is left
    out. `name`: of the file, for errors."""
    found = dict[str, str]()
    for entry in re.split(r"\n\s*\n", text.replace("\r\n", "\n")):
        if "#, " in entry and re.search(r"^#,.*\bfuzzy\b", entry, re.MULTILINE):
            continue
        parts = dict(_read_parts(entry, name))
        if parts.get("msgid") and parts.get("msgstr"):
            found[parts["msgid"]] = parts["msgstr"]
    return found


def _read_parts(entry: str, name: str) -> Iterator[tuple[str, str]]:
    """Yield each keyword of an entry with its text, which may go on over several lines."""
    keyword, words = "", list[str]()
    for line in entry.splitlines():
        if not line.strip() or line.startswith("#"):
            continue
        start, _, _ = line.partition('"')
        quoted = _QUOTED.search(line)
        if quoted is None:
            raise SetupError(f"{name}: this line is neither a keyword with a text nor a text in quotes: {line[:80]}")
        if start.strip():
            if keyword:
                yield keyword, "".join(words)
            keyword, words = start.strip(), []
        words.append(_ESCAPED.sub(lambda found: _ESCAPES.get(found[1], found[1]), quoted[1]))
    if keyword:
        yield keyword, "".join(words)
