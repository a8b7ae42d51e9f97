"""The words of one block in a dialect: its marks, its escapes, its links. Edges come nested, so marks do, too."""

import unicodedata

from gatepost.messages.markdown.blocks import MarkdownReader
from gatepost.messages.markdown.dialects import SPACER, Dialect, Edges
from gatepost.messages.markdown.spans import Edge, SpanKind, TextSpan

_WIDE = frozenset("WF")


def render_inline(
    text: str, dialect: Dialect, reader: MarkdownReader, *, bold: bool = False, starts: bool = True
) -> str:
    """`bold`: it stands in something bold already. `starts`: its first word begins a line."""
    writer = _InlineWriter(dialect, bold, starts)
    for span in reader.read_spans(text):
        writer.write(span)
    return writer.get_text()


def render_code(code: str, language: str, dialect: Dialect) -> str:
    """A block of code, whose own backticks do not end it."""
    opening, closing = dialect.language if language and dialect.language else dialect.fence
    opening = opening.replace("{}", language)
    coloured = dialect.colour(code, language) if dialect.colour is not None and language else None
    body = dialect.escape_code(code) if coloured is None else coloured
    if opening.startswith("`"):
        if dialect.growing_code:
            more = "`" * max(0, _longest_run(code) - 2)
            opening, closing = more + opening, closing + more
        else:
            body = body.replace("```", f"``{SPACER}`")
            body = body + SPACER if body.endswith("`") and not closing.startswith("\n") else body
    return f"{opening}{body}{closing}"


def measure_width(text: str) -> int:
    """In columns of a fixed font."""
    if text.isascii():
        return len(text)
    return sum(1 + (unicodedata.east_asian_width(sign) in _WIDE) for sign in text if not unicodedata.combining(sign))


def _longest_run(code: str) -> int:
    longest = size = 0
    for sign in code:
        size = size + 1 if sign == "`" else 0
        longest = max(longest, size)
    return longest


class _InlineWriter:
    def __init__(self, dialect: Dialect, bold: bool, starts: bool) -> None:
        self._dialect = dialect
        self._parts: list[str] = []
        self._marks: dict[SpanKind, Edges] = {
            SpanKind.BOLD: dialect.bold,
            SpanKind.ITALIC: dialect.italic,
            SpanKind.STRIKE: dialect.strike,
        }
        self._depth = {SpanKind.BOLD: int(bold), SpanKind.ITALIC: 0, SpanKind.STRIKE: 0}
        self._open: list[SpanKind] = []
        self._in_link = False
        self._starts = starts  # the next text begins a line
        self._closed = False  # a mark was just closed

    def get_text(self) -> str:
        return "".join(self._parts)

    def write(self, span: TextSpan) -> None:
        match span.kind:
            case SpanKind.TEXT:
                self._write_text(span.text)
            case SpanKind.CODE:
                self._write_code(span.text)
            case SpanKind.BARE:
                address = self._dialect.escape_code(span.text)
                self._put(self._dialect.bare.replace("{}", address))
            case SpanKind.LINK:
                edge = self._dialect.link[span.edge is Edge.CLOSE]
                self._in_link = span.edge is Edge.OPEN
                if edge:
                    self._put(edge.replace("{}", self._dialect.escape_code(span.text)))
            case _:
                self._write_mark(span)

    def _write_mark(self, span: TextSpan) -> None:
        if (self._in_link and not self._dialect.marks_in_links) or not self._marks[span.kind][0]:
            return
        opens = span.edge is Edge.OPEN
        self._depth[span.kind] += 1 if opens else -1
        if self._depth[span.kind] != (1 if opens else 0):
            return  # it stands within the same
        if opens:
            self._open_mark(span.kind)
            self._open.append(span.kind)
        else:
            self._open.remove(span.kind)
            self._close_mark(span.kind)

    def _open_mark(self, kind: SpanKind) -> None:
        if self._dialect.words_apart and self._parts and self._parts[-1][-1].isalnum():
            self._parts.append(SPACER)
        self._put(self._marks[kind][0])

    def _close_mark(self, kind: SpanKind) -> None:
        self._put(self._marks[kind][1])
        self._closed = True

    def _put(self, text: str) -> None:
        if self._closed and self._dialect.words_apart and text[:1].isalnum():
            self._parts.append(SPACER)
        self._parts.append(text)
        self._starts = self._closed = False

    def _write_text(self, text: str) -> None:
        if self._in_link and not self._dialect.marks_cross_lines:
            text = text.replace("\n", " ")
        for number, line in enumerate(text.split("\n")):
            if number:
                self._break_line()
            body = line
            if number and self._open and not self._dialect.marks_cross_lines:
                body = line.lstrip()
                self._parts.append(line[: len(line) - len(body)])
                self._reopen()
            if body:
                words = self._dialect.escape(body)
                self._put(self._dialect.escape_start(words) if self._starts else words)

    def _break_line(self) -> None:
        if not self._dialect.marks_cross_lines:
            for kind in reversed(self._open):
                self._parts.append(self._marks[kind][1])
        self._parts.append("<br>\n" if self._dialect.html else "\n")
        self._starts, self._closed = True, False

    def _reopen(self) -> None:
        for kind in self._open:
            self._put(self._marks[kind][0])

    def _write_code(self, code: str) -> None:
        dialect = self._dialect
        opening, closing = dialect.code
        if self._in_link and not dialect.marks_in_links:
            opening = closing = ""
        if opening.startswith("`") and "`" in code:
            if not dialect.growing_code:
                self._put(dialect.escape(code))
                return
            run = "`" * (_longest_run(code) + 1)
            opening, closing = f"{run} ", f" {run}"
        if dialect.words_apart and self._parts and self._parts[-1][-1:].isalnum():
            self._parts.append(SPACER)
        self._put(f"{opening}{dialect.escape_code(code)}{closing}")
        self._closed = bool(closing)
