"""A docstring, taken apart: what is said of the function, and of each parameter (Google, NumPy and Sphinx style)."""

import re
from dataclasses import dataclass, field

_SECTION = re.compile(r"(args|arguments|parameters|params|returns?|yields?|raises|examples?|notes?)\s*:?\s*", re.I)
_PARAMETERS = ("arg", "param")
_GOOGLE = re.compile(r"\*{0,2}(\w+)\s*(?:\([^)]*\))?\s*:\s*(.*)")
_NUMPY = re.compile(r"(\w+)\s*(?::.*)?")
_SPHINX = re.compile(r":param\s+(?:[^:]*\s)?(\w+)\s*:\s*(.*)")


@dataclass(frozen=True, slots=True)
class ParsedDocstring:
    text: str
    parameters: dict[str, str] = field(default_factory=dict)


def parse_docstring(text: str) -> ParsedDocstring:
    """Parse `text` as inspect.getdoc gives it. Sections on results and errors stay in the text: a model may want
    them."""
    kept: list[str] = []
    found: dict[str, list[str]] = {}
    lines = text.splitlines()
    at = 0
    while at < len(lines):
        line = lines[at]
        if sphinx := _SPHINX.match(line.strip()):
            at = _read_indented(lines, at + 1, found.setdefault(sphinx[1], [sphinx[2]]))
        elif _is_section_start(lines, at):
            at = _section(lines, at + 1, found)
        else:
            kept.append(line)
            at += 1
    joined = {name: " ".join(part for part in parts if part) for name, parts in found.items()}
    return ParsedDocstring("\n".join(kept).strip(), joined)


def _is_section_start(lines: list[str], at: int) -> bool:
    line = lines[at]
    if not _SECTION.fullmatch(line) or not line.lower().startswith(_PARAMETERS):
        return False
    return line.rstrip().endswith(":") or (at + 1 < len(lines) and _is_underline(lines[at + 1]))


def _is_underline(line: str) -> bool:
    return bool(re.fullmatch(r"-{3,}\s*", line))


def _section(lines: list[str], at: int, found: dict[str, list[str]]) -> int:
    """The parameters from here on; the first line behind them."""
    numpy = at < len(lines) and _is_underline(lines[at])
    at += numpy
    depth = -1
    while at < len(lines):
        line = lines[at]
        indent = len(line) - len(line.lstrip())
        if not line.strip():
            at += 1
            continue
        if _SECTION.fullmatch(line) or (indent == 0 and not numpy):
            break
        depth = indent if depth < 0 else depth
        entry = (_NUMPY if numpy else _GOOGLE).fullmatch(line.strip()) if indent == depth else None
        if entry is None:
            break
        at = _read_indented(lines, at + 1, found.setdefault(entry[1], [] if numpy else [entry[2]]), depth)
    return at


def _read_indented(lines: list[str], at: int, parts: list[str], depth: int = 0) -> int:
    """Lines that stand deeper belong to what was begun."""
    while at < len(lines) and lines[at].strip() and len(lines[at]) - len(lines[at].lstrip()) > depth:
        parts.append(lines[at].strip())
        at += 1
    return at
