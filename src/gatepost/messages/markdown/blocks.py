"""Markdown as agents write it, read into a flat list of blocks.

Agents and strangers write the input, so every step is linear in its length. No regular expression here can backtrack.
`MarkdownReader.visits` counts the steps, so that a test can show the bound without a clock.
"""

from enum import StrEnum

from msgspec import Struct

from gatepost.core.late_pattern import late_pattern
from gatepost.messages.markdown.spans import SpanKind, SpanReader, TextSpan, has_marks

DEEPEST = 8  # quotes in quotes, lists in lists
MOST_COLUMNS = 32
MOST_ROWS = 300  # of a table; more, and more blocks or marks than these, are words
MOST_BLOCKS = 1000
MOST_MARKS = 2000
LONGEST_FENCE = 8
DEEPEST_INDENT = 3

_UNSENDABLE = late_pattern(r"[\x00-\x08\x0b-\x1f\x7f\ud800-\udfff\ufffe\uffff]")  # XML has none of them
_RULE = late_pattern(r"([-*_])(?:[ \t]*\1){2,}")
_ITEM = late_pattern(r"([-*+]|[0-9]{1,9}[.)])[ \t]+(?=\S)")
_DELIMITER_ROW = frozenset("|-: \t")


class BlockKind(StrEnum):
    PARAGRAPH = "paragraph"
    HEADING = "heading"
    CODE = "code"
    ITEM = "item"  # of a list
    TABLE = "table"
    RULE = "rule"


class TextBlock(Struct, kw_only=True):
    """`gap`: a blank line stands before it. `level`: of a heading, or how deep an item or what follows it stands."""

    kind: BlockKind
    text: str = ""
    level: int = 0
    quote: int = 0
    number: str = ""  # of an item of a numbered list
    info: str = ""  # the language of code
    rows: list[list[str]] = []  # of a table; the first are its names
    sides: list[str] = []  # of its columns: "right", "center" or ""
    gap: bool = False
    lines: list[str] = []  # while it is read


def clean_text(text: str) -> str:
    """Without what no platform takes."""
    return _UNSENDABLE.sub("\ufffd", text.replace("\r\n", "\n").replace("\r", "\n"))


class MarkdownReader:
    """One text. Not to be used twice: it counts."""

    def __init__(self) -> None:
        self.visits = 0
        self._marks = 0  # that were read so far
        self._blocks: list[TextBlock] = []
        self._open: TextBlock | None = None  # what the next line may go on with
        self._gap = False
        self._indents: list[int] = []  # of the items that are open

    def read_blocks(self, text: str) -> list[TextBlock]:
        lines = text.split("\n")
        self.visits += len(text)
        at = 0
        while at < len(lines) and len(self._blocks) < MOST_BLOCKS:
            at = self._read_line(lines, at)
        if rest := "\n".join(lines[at:]).strip():
            self._add(TextBlock(kind=BlockKind.PARAGRAPH, text=rest))
        for block in self._blocks:
            block.text = "\n".join([block.text, *block.lines]) if block.lines else block.text
        return self._blocks

    def _read_line(self, lines: list[str], at: int) -> int:
        """Return where to go on."""
        depth, line = _strip_quote(lines[at])
        if not line.strip():
            self._gap, self._open = True, None
            return at + 1
        if (edge := read_fence(line.lstrip(" ") if self._indents else line)) is not None:
            return self._read_code(lines, at, depth, edge.mark, edge.info)
        if _RULE.fullmatch(line.strip()):
            self._add(TextBlock(kind=BlockKind.RULE, quote=depth))
        elif (heading := read_heading(line)) is not None:
            level = min(6, len(line.lstrip()) - len(line.lstrip().lstrip("#")))
            self._add(TextBlock(kind=BlockKind.HEADING, text=heading, level=level, quote=depth))
        elif at + 1 < len(lines) and _is_table(line, *_strip_quote(lines[at + 1]), depth):
            return self._read_table(lines, at, depth)
        else:
            self._read_words(line, depth)
        return at + 1

    def _add(self, block: TextBlock) -> None:
        block.gap, self._gap = self._gap and bool(self._blocks), False
        self._blocks.append(block)
        self._open = block if block.kind in (BlockKind.PARAGRAPH, BlockKind.ITEM) else None
        if block.kind in (BlockKind.RULE, BlockKind.HEADING):
            self._indents = []

    def _read_words(self, line: str, depth: int) -> None:
        body = line.lstrip(" \t")
        indent = len(line.expandtabs(4)) - len(body.expandtabs(4))
        item = _ITEM.match(body)
        if item is not None:
            while self._indents and indent < self._indents[-1]:
                self._indents.pop()
            level = min(len(self._indents), DEEPEST)
            if len(self._indents) < DEEPEST:
                self._indents.append(indent + 2)
            number = item[1] if item[1][0].isdigit() else ""
            self._add(
                TextBlock(kind=BlockKind.ITEM, text=body[item.end() :], level=level, quote=depth, number=number[:-1])
            )
        elif self._open is not None and self._open.quote == depth:
            # The lines of a paragraph are told apart as in a chat: a line break is meant.
            self._open.lines.append(body if self._open.kind is BlockKind.ITEM else line.rstrip())
        else:
            if indent < 2:
                self._indents = []
            level = min(len(self._indents), DEEPEST)
            self._add(
                TextBlock(kind=BlockKind.PARAGRAPH, text=body if level else line.rstrip(), level=level, quote=depth)
            )

    def _read_code(self, lines: list[str], at: int, depth: int, mark: str, info: str) -> int:
        indent = len(lines[at]) - len(lines[at].lstrip(" ")) if not depth else 0
        kept: list[str] = []
        at += 1
        while at < len(lines):
            inner, line = _strip_quote(lines[at], depth)
            if inner < depth:
                break  # the quote ended, and the code with it
            edge = read_fence(line.lstrip(" ") if indent else line)
            at += 1
            if edge is not None and edge.closes(mark):
                break
            kept.append(line[indent:] if not line[:indent].strip() else line)
        if info.strip() and not "".join(kept).strip():  # words, whatever they were meant to be
            self._add(TextBlock(kind=BlockKind.PARAGRAPH, text=info.strip(), quote=depth))
            return at
        language = info.split()[0][:32].lower() if info.split() else ""
        self._add(
            TextBlock(
                kind=BlockKind.CODE,
                text="\n".join(kept),
                info="".join(sign for sign in language if sign.isalnum() or sign in "+#-_."),
                quote=depth,
                level=min(len(self._indents), DEEPEST) if indent else 0,
            )
        )
        return at

    def _read_table(self, lines: list[str], at: int, depth: int) -> int:
        rows = [_split_row(_strip_quote(lines[at])[1])]
        sides = [_read_side(cell) for cell in _split_row(_strip_quote(lines[at + 1])[1])]
        at += 2
        while at < len(lines):
            inner, line = _strip_quote(lines[at])
            if inner != depth or "|" not in line or len(rows) >= MOST_ROWS:
                break
            cells, most = _split_row(line), len(rows[0])
            rows.append([*cells[: most - 1], " | ".join(cells[most - 1 :])] if len(cells) > most else cells)
            at += 1
        self._add(TextBlock(kind=BlockKind.TABLE, rows=rows, sides=sides, quote=depth))
        return at

    def read_spans(self, text: str) -> list[TextSpan]:
        if self._marks >= MOST_MARKS or not has_marks(text):
            self.visits += len(text)
            return [TextSpan(kind=SpanKind.TEXT, text=text)] if text else []
        reader = SpanReader(text, MOST_MARKS - self._marks)
        spans = reader.read()
        self.visits += reader.visits
        self._marks += reader.marks
        return spans


def _strip_quote(line: str, most: int = DEEPEST) -> tuple[int, str]:
    depth = 0
    while depth < most:
        body = line.lstrip(" ")
        if not body.startswith(">") or len(line) - len(body) > 3:
            break
        line = body[2:] if body[1:2] == " " else body[1:]
        depth += 1
    return depth, line


def _is_table(line: str, depth: int, below: str, wanted: int) -> bool:
    body = below.strip()
    if depth != wanted or "|" not in line or "|" not in body or "-" not in body or not _DELIMITER_ROW.issuperset(body):
        return False
    return 1 <= len(_split_row(line)) == len(_split_row(body)) <= MOST_COLUMNS


def _read_side(cell: str) -> str:
    if not cell.endswith(":"):
        return ""
    return "center" if cell.startswith(":") else "right"


def _split_row(line: str) -> list[str]:
    """The cells of a row. A `|` after a backslash is a word; one in code is not told apart."""
    body = line.strip().removeprefix("|")
    if body.endswith("|") and not body.endswith("\\|"):
        body = body[:-1]
    cells = body.replace("\\|", "\x00").split("|", MOST_COLUMNS)
    return [cell.strip().replace("\x00", "\\|") for cell in cells]


class CodeFence(Struct, frozen=True):
    """A line that opens or closes a code block."""

    mark: str
    info: str

    def closes(self, mark: str) -> bool:
        return self.mark.startswith(mark) and not self.info


def read_fence(line: str) -> CodeFence | None:
    body = line.lstrip(" ")
    if len(line) - len(body) > DEEPEST_INDENT or body[:3] not in ("```", "~~~"):
        return None
    mark = body[: min(LONGEST_FENCE, len(body) - len(body.lstrip(body[0])))]
    info = body[len(mark) :]
    return None if "`" in info else CodeFence(mark, info.lstrip())


def read_heading(line: str) -> str | None:
    """The text of a heading; None if the line is none."""
    body = line.lstrip(" ")
    rest = body.lstrip("#")
    if len(line) - len(body) > DEEPEST_INDENT or not 1 <= len(body) - len(rest) <= 6 or not rest[:1].isspace():
        return None
    return rest.strip().rstrip("#").rstrip()
