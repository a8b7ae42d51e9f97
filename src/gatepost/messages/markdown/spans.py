"""The text of a block of markdown as a flat list of spans.

Spans are edges, not a tree: what opens and closes is nested by construction, whatever the input, and nothing recurses.
A link has an address on the web or is none. Steps are linear, and counted.
"""

import re
from collections.abc import Iterator
from enum import StrEnum
from urllib.parse import quote

from msgspec import Struct

from gatepost.core.late_pattern import late_pattern

LONGEST_ADDRESS = 2048

_SPECIAL = late_pattern(r"[\\`*_~\[\]<]|!\[|https?://")
_ADDRESS_END = late_pattern(r"[\s<>\"`\[\]\\]")  # a backslash is of no address, but may escape what follows
_TRAILING = ".,;:!?'*_~"  # the sentence's, not the address's
_SPACE = late_pattern(r"\s")
_ESCAPE = late_pattern(r"\\([!-/:-@\[-`{-~])")
_ESCAPED = late_pattern(r"(?:\\[!-/:-@\[-`{-~]|[^\\`*_~\[\]<!h]|!(?!\[)|h(?!ttps?://))+")
_SCHEMES = ("http://", "https://", "mailto:")


class SpanKind(StrEnum):
    TEXT = "text"
    CODE = "code"
    BARE = "bare"  # an address that stands for itself
    BOLD = "bold"
    ITALIC = "italic"
    STRIKE = "strike"
    LINK = "link"


class Edge(StrEnum):
    OPEN = "open"
    CLOSE = "close"


class TextSpan(Struct, kw_only=True):
    """`text`: the words, or the address of a link. `edge` is of those kinds that hold others."""

    kind: SpanKind
    text: str = ""
    edge: Edge | None = None


class _Run(Struct):
    """A run of `*`, `_` or `~`: what of it opens, closes, and is left as it is written."""

    sign: str
    count: int
    size: int
    opens: bool
    closes: bool
    opened: list[SpanKind]
    closed: list[SpanKind]


def has_marks(text: str) -> bool:
    return _SPECIAL.search(text) is not None


def is_web(address: str) -> bool:
    return address[:8].lower().startswith(_SCHEMES) and len(address) <= LONGEST_ADDRESS


def clean_address(address: str) -> str:
    """The same place, with no sign that ends a link or a line, or that calls people, on any platform."""
    return quote(address, safe="%/:?#@!$&'+,;=~-._").replace("@everyone", "%40everyone").replace("@here", "%40here")


class SpanReader:
    """One block's text. Every search goes forward and is remembered, or is paid for by what it removes."""

    def __init__(self, text: str, most_marks: int) -> None:
        self._text, self._most_marks = text, most_marks
        self.visits = self.marks = 0
        self._nodes: list[TextSpan | _Run] = []
        self._runs: list[_Run] = []
        self._brackets: list[tuple[int, int, int]] = []  # (node, runs before it, place in the text behind it)
        self._next: dict[str, int] = {}
        self._code = dict(self._find_code())

    def read(self) -> list[TextSpan]:
        text, at = self._text, 0
        while self.marks < self._most_marks and (found := _SPECIAL.search(text, at)) is not None:
            self.marks += 1
            self.visits += found.start() - at + 1
            self._add_text(text[at : found.start()])
            at = self._read_special(found[0], found.start())
        self.visits += len(text) - at
        self._add_text(text[at:])
        self._match_runs(0)
        return list(_merge(self._render_nodes()))

    def _add_text(self, text: str) -> None:
        if text:
            self._nodes.append(TextSpan(kind=SpanKind.TEXT, text=text))

    def _read_special(self, sign: str, at: int) -> int:
        """Return where to go on."""
        text = self._text
        match sign:
            case "\\":
                escaped = _ESCAPED.match(text, at)  # with the words around: a text may be all escapes
                self._add_text(_ESCAPE.sub(r"\1", escaped[0]) if escaped is not None else sign)
                return escaped.end() if escaped is not None else at + 1
            case "`":
                return self._read_code(at)
            case "*" | "_" | "~":
                return self._read_run(sign, at)
            case "[" | "![":
                self._brackets.append((len(self._nodes), len(self._runs), at + len(sign)))
                self._add_text(sign)
                return at + len(sign)
            case "]":
                return self._read_link(at)
            case "<":
                return self._read_pointed(at)
            case _:
                return self._read_bare(at)

    def _find_code(self) -> Iterator[tuple[int, tuple[int, int]]]:
        """(start, (end, size of the mark)) of each span of code. A run of backticks is closed by the next as long."""
        runs = [(found.start(), found.end() - found.start()) for found in re.finditer(r"`+", self._text)]
        self.visits += len(self._text)
        latest: dict[int, int] = {}
        for start, size in reversed(runs):
            if size in latest:
                yield start, (latest[size] + size, size)
            latest[size] = start

    def _read_code(self, at: int) -> int:
        found = self._code.get(at)
        if found is None:
            end = at + 1
            while self._text[end : end + 1] == "`":
                end += 1
            self.visits += end - at
            self._add_text(self._text[at:end])
            return end
        end, size = found
        code = self._text[at + size : end - size].replace("\n", " ")
        if code[0] == code[-1] == " " and code.strip():
            code = code[1:-1]
        self._nodes.append(TextSpan(kind=SpanKind.CODE, text=code))
        return end

    def _read_run(self, sign: str, at: int) -> int:
        text, end = self._text, at
        while text[end : end + 1] == sign:
            end += 1
        self.visits += end - at
        if sign == "~" and end - at != 2:
            self._add_text(text[at:end])
            return end
        before, after = text[at - 1 : at] if at else "", text[end : end + 1]
        left = bool(after.strip()) and (not _is_mark(after) or not before.strip() or _is_mark(before))
        right = bool(before.strip()) and (not _is_mark(before) or not after.strip() or _is_mark(after))
        opens, closes = left, right
        if sign == "_":
            opens, closes = left and (not right or _is_mark(before)), right and (not left or _is_mark(after))
        run = _Run(sign, end - at, end - at, opens, closes, [], [])
        self._nodes.append(run)
        self._runs.append(run)
        return end

    def _match_runs(self, start: int) -> None:
        """Pair what opens with what closes, from this run on. Those runs are then done with: each is matched once."""
        runs, waiting = self._runs[start:], list[_Run]()
        del self._runs[start:]
        floors: dict[tuple[str, bool, int], int] = {}  # below it, nothing waits that such a run could close
        for run in runs:
            self.visits += 1
            if run.closes:
                self._close_runs(run, waiting, floors)
            if run.opens and run.count:
                waiting.append(run)

    def _close_runs(self, run: _Run, waiting: list[_Run], floors: dict[tuple[str, bool, int], int]) -> None:
        key = (run.sign, run.opens, run.size % 3)
        while run.count:
            floor, place = floors.get(key, 0), len(waiting) - 1
            while place >= floor and not _fits(waiting[place], run):
                place -= 1
                self.visits += 1
            if place < floor:
                floors[key] = len(waiting)
                return
            opener = waiting[place]
            size = 2 if min(opener.count, run.count) >= 2 else 1
            kind = SpanKind.STRIKE if run.sign == "~" else SpanKind.BOLD if size == 2 else SpanKind.ITALIC
            opener.count, run.count = opener.count - size, run.count - size
            opener.opened.append(kind)
            run.closed.append(kind)
            self.visits += 1
            height = place + bool(opener.count)
            del waiting[height:]
            for each, known in floors.items():
                floors[each] = min(known, height)

    def _read_link(self, at: int) -> int:
        """At a `]`: if it ends the words of a link, the nodes since its bracket come between two edges."""
        text = self._text
        if not self._brackets:
            self._add_text("]")
            return at + 1
        node, before, start = self._brackets.pop()
        end, address = self._find_target(at + 1) if text[at + 1 : at + 2] == "(" else (-1, "")
        if end < 0:
            self._add_text("]")
            return at + 1
        # No link within a link; but an image may be in one, so the next bracket lives on.
        self._brackets = self._brackets[-1:] if text[start - 2 : start] == "![" else []
        self._match_runs(before)
        inner = self._nodes[node + 1 :]
        self.visits += len(inner)
        del self._nodes[node:]
        self._add_link(inner, text[start:at], address)
        return end

    def _add_link(self, inner: list[TextSpan | _Run], words: str, address: str) -> None:
        if not is_web(address):
            self._nodes += inner
            self._add_text(f" ({address})" if address and address != words else "")
            return
        clean = clean_address(address)
        if not words.strip() or words == address:
            self._nodes.append(TextSpan(kind=SpanKind.BARE, text=clean))
            return
        self._nodes.append(TextSpan(kind=SpanKind.LINK, text=clean, edge=Edge.OPEN))
        for each in inner:
            if isinstance(each, TextSpan) and each.kind is SpanKind.BARE:
                self._add_text(each.text)
            elif isinstance(each, _Run) or each.kind is not SpanKind.LINK:
                self._nodes.append(each)
        self._nodes.append(TextSpan(kind=SpanKind.LINK, text=clean, edge=Edge.CLOSE))

    def _find_target(self, at: int) -> tuple[int, str]:
        """(where the link ends, its address) for the parenthesis at `at`; -1 if it is no link. A bracket before the end
        makes it none: so what one `]` goes over, no other does."""
        text = self._text
        start = at + 1 + (text[at + 1 : at + 2] == "<")
        close = self._find(")", start)
        if close < 0 or close - start > LONGEST_ADDRESS or 0 <= min(self._find("[", start), close) < close:
            return -1, ""
        if 0 <= min(self._find("]", start), close) < close:
            return -1, ""
        self.visits += close - start
        address, _, title = text[start:close].partition(" ")
        if "(" in address and not title and text[close + 1 : close + 2] == ")":
            address, close = f"{address})", close + 1  # one pair within it, as in the names of some articles
        if _SPACE.search(address) or title.strip()[:1] not in ("", '"', "'"):
            return -1, ""
        return close + 1, address.removesuffix(">")

    def _find(self, sign: str, at: int) -> int:
        """The next place of a sign. Places asked for only grow, so each stretch is gone over once."""
        known = self._next.get(sign, -2)
        if known == -1 or known >= at:
            return known
        self._next[sign] = found = self._text.find(sign, at)
        self.visits += (found if found >= 0 else len(self._text)) - at + 1
        return found

    def _read_pointed(self, at: int) -> int:
        """`<https://…>`, or a plain `<`."""
        if is_web(self._text[at + 1 : at + 9]):
            end = self._find(">", at + 1)
            space = _SPACE.search(self._text, at + 1, max(end, at + 1)) if 0 < end - at <= LONGEST_ADDRESS else None
            if 0 < end - at <= LONGEST_ADDRESS and space is None:
                self.visits += end - at
                self._nodes.append(TextSpan(kind=SpanKind.BARE, text=clean_address(self._text[at + 1 : end])))
                return end + 1
        self._add_text("<")
        return at + 1

    def _read_bare(self, at: int) -> int:
        text = self._text
        if at and text[at - 1].isalnum():
            self._add_text(text[at : at + 4])
            return at + 4
        found = _ADDRESS_END.search(text, at, at + LONGEST_ADDRESS)
        address = text[at : found.start() if found else at + LONGEST_ADDRESS].rstrip(_TRAILING)
        self.visits += len(address)
        open_ones = address.count("(") - address.count(")")
        while address.endswith(")") and open_ones < 0:
            address, open_ones = address[:-1].rstrip(_TRAILING), open_ones + 1
        if len(address) <= len("https://"):
            self._add_text(text[at : at + 4])
            return at + 4
        self._nodes.append(TextSpan(kind=SpanKind.BARE, text=clean_address(address)))
        return at + len(address)

    def _render_nodes(self) -> Iterator[TextSpan]:
        for node in self._nodes:
            if isinstance(node, TextSpan):
                yield node
                continue
            for kind in node.closed:
                yield TextSpan(kind=kind, edge=Edge.CLOSE)
            if node.count:
                yield TextSpan(kind=SpanKind.TEXT, text=node.sign * node.count)
            for kind in reversed(node.opened):
                yield TextSpan(kind=kind, edge=Edge.OPEN)


def _fits(opener: _Run, closer: _Run) -> bool:
    if opener.sign != closer.sign:
        return False
    both = opener.closes or closer.opens
    return not (both and (opener.size + closer.size) % 3 == 0 and (opener.size % 3 or closer.size % 3))


def _is_mark(sign: str) -> bool:
    """Punctuation and symbols, at whose edge emphasis begins and ends by other rules."""
    return not sign.isalnum() and bool(sign.strip())


def _merge(spans: Iterator[TextSpan]) -> Iterator[TextSpan]:
    """Neighbouring words as one: what is escaped is judged by what stands beside it."""
    words: list[str] = []
    for span in spans:
        if span.kind is SpanKind.TEXT:
            words.append(span.text)
            continue
        if words:
            yield TextSpan(kind=SpanKind.TEXT, text="".join(words))
            words.clear()
        yield span
    if words:
        yield TextSpan(kind=SpanKind.TEXT, text="".join(words))
