"""One markdown source, rendered for each platform: `render(text, DISCORD)`.

Pure, and linear in the text. Marks that a platform does not have degrade visibly: a table becomes aligned code or
`name: value` lines, a heading is bold, an image is its link. A link leads to http, https or mailto, or is words.
"""

import re
from collections.abc import Callable, Iterator
from html import escape
from itertools import groupby

from msgspec import Struct

from gatepost.messages.markdown.blocks import BlockKind, MarkdownReader, TextBlock, clean_text
from gatepost.messages.markdown.dialects import (
    DISCORD,
    GITHUB,
    MAIL_HTML,
    MASTODON,
    MATRIX_HTML,
    MATTERMOST,
    PLAIN,
    REDDIT,
    SIGNAL,
    SLACK,
    SPACER,
    TELEGRAM_HTML,
    WHATSAPP,
    WORDS,
    ZULIP,
    Dialect,
    TableStyle,
)
from gatepost.messages.markdown.emitter import measure_width, render_code, render_inline

__all__ = [
    "DISCORD",
    "GITHUB",
    "MAIL_HTML",
    "MASTODON",
    "MATRIX_HTML",
    "MATTERMOST",
    "PLAIN",
    "REDDIT",
    "SIGNAL",
    "SLACK",
    "TELEGRAM_HTML",
    "WHATSAPP",
    "ZULIP",
    "Dialect",
    "StyleRange",
    "render",
    "render_styles",
    "render_within",
    "strip_markdown",
]

_BOX = re.compile(r"\[([ xX])\](?: +|\Z)")
_INDENTED = frozenset({BlockKind.PARAGRAPH, BlockKind.CODE})
_TEXTLESS = frozenset({BlockKind.RULE, BlockKind.TABLE})
_CALL = re.compile(r"(?<!\w)@")
LONGEST = 20_000  # characters; a longer text keeps its marks as words
WIDEST_TABLE = 72  # columns of signs; a wider one would break on a phone
LONGEST_NAME = 40  # of a column, where it is repeated for each value


class StyleRange(Struct, frozen=True):
    """Counted in units of UTF-16, as Signal does."""

    start: int
    length: int
    style: str


def render(text: str, dialect: Dialect) -> str:
    """The text as this platform shows it."""
    return render_counted(text, dialect)[0]


def strip_markdown(text: str) -> str:
    """The words alone: code stays as it is written, links keep their address."""
    return render(text, WORDS)


def render_within(text: str, dialect: Dialect, limit: int) -> str:
    """Render in at most `limit` characters, if the text has no more.

    If escapes would make it longer, its marks stay as written, for a platform that reads markdown itself. It still
    calls nobody.
    """
    out = render(text, dialect)
    return out if len(out) <= limit else _CALL.sub("\uff20", clean_text(text))


def render_counted(text: str, dialect: Dialect) -> tuple[str, int]:
    """The same, with the steps that it took."""
    text, reader = clean_text(text), MarkdownReader()
    out = ""
    if len(text) <= LONGEST:
        blocks = [each for each in reader.read_blocks(text) if each.kind in _TEXTLESS or each.text.strip()]
        out = (_render_html if dialect.html else _render_lines)(blocks, dialect, reader)
    if not out.strip():
        out = "\n".join(dialect.escape_start(dialect.escape(line)) for line in text.split("\n"))
        out = out.replace("\n", "<br>\n") if dialect.html else out
    if dialect.pings is not None:
        out = dialect.pings.sub(lambda found: found[0] + SPACER, out)
    return out, reader.visits


# Lines: every platform but those of HTML.


def _render_lines(blocks: list[TextBlock], dialect: Dialect, reader: MarkdownReader) -> str:
    parts: list[str] = []
    for depth, group in groupby(blocks, key=lambda block: block.quote):
        same = list(group)
        body = _join_blocks(same, dialect, reader)
        if depth and dialect.quote_tags is not None:
            body = f"{dialect.quote_tags[0]}{body}{dialect.quote_tags[1]}"
        elif depth:
            prefix = dialect.quote * depth
            body = "\n".join(prefix + line for line in body.split("\n"))
        if parts:
            parts.append("\n\n" if same[0].gap or dialect.markdown else "\n")
        parts.append(body)
    return "".join(parts)


def _join_blocks(blocks: list[TextBlock], dialect: Dialect, reader: MarkdownReader) -> str:
    parts: list[str] = []
    for block in blocks:
        if parts:
            parts.append("\n\n" if block.gap else "\n")
        parts.append(_render_block(block, dialect, reader))
    return "".join(parts)


def _render_block(block: TextBlock, dialect: Dialect, reader: MarkdownReader) -> str:
    match block.kind:
        case BlockKind.RULE:
            return dialect.rule
        case BlockKind.CODE:
            return render_code(block.text, block.info, dialect)
        case BlockKind.TABLE:
            return _render_table(block, dialect, reader)
        case BlockKind.HEADING if dialect.headings:
            words = render_inline(block.text, dialect, reader, starts=False)
            return f"{'#' * min(block.level, dialect.headings)} {words}"
        case BlockKind.HEADING:
            words = render_inline(block.text, dialect, reader, bold=True)
            return f"{dialect.bold[0]}{words}{dialect.bold[1]}"
        case BlockKind.ITEM:
            marker = f"{block.number}. " if block.number else dialect.bullet
            indent = dialect.indent * block.level
            words = render_inline(block.text, dialect, reader, starts=False)
            return f"{indent}{marker}" + words.replace("\n", f"\n{indent}{' ' * len(marker)}")
        case BlockKind.PARAGRAPH:
            indent = dialect.indent * block.level
            return indent + render_inline(block.text, dialect, reader).replace("\n", f"\n{indent}")


def _render_table(block: TextBlock, dialect: Dialect, reader: MarkdownReader) -> str:
    if dialect.table is TableStyle.PIPES:
        rows = [[_render_cell(cell, dialect, reader) for cell in row] for row in block.rows]
        ruled = [rows[0], ["---"] * len(rows[0]), *rows[1:]]
        return "\n".join(f"| {' | '.join(_fill(row, len(rows[0])))} |" for row in ruled)
    plain = [[render_inline(cell, PLAIN, reader) for cell in row] for row in block.rows]
    if dialect.table is TableStyle.CODE:
        widths = [max(measure_width(row[at]) if at < len(row) else 0 for row in plain) for at in range(len(plain[0]))]
        if sum(widths) + 2 * len(widths) <= WIDEST_TABLE:
            return render_code("\n".join(_align(plain, widths)), "", dialect)
    return "\n".join(_list_values(block.rows, plain[0], dialect, reader))


def _render_cell(cell: str, dialect: Dialect, reader: MarkdownReader) -> str:
    """In a cell a `|` is escaped, also in code, and also where nothing else can be."""
    words = render_inline(cell, dialect, reader, starts=False)
    return words.replace("\\|", "|").replace("|", "\\|")


def _fill(row: list[str], size: int) -> list[str]:
    return row + [""] * (size - len(row))


def _align(rows: list[list[str]], widths: list[int]) -> Iterator[str]:
    for number, row in enumerate(rows):
        cells = zip(_fill(row, len(widths)), widths, strict=True)
        yield "  ".join(cell + " " * (width - measure_width(cell)) for cell, width in cells).rstrip()
        if number == 0:
            yield "  ".join("─" * width for width in widths)


def _list_values(rows: list[list[str]], names: list[str], dialect: Dialect, reader: MarkdownReader) -> Iterator[str]:
    for row in rows[1:] or rows:
        for name, cell in zip(names, row, strict=False):
            words = render_inline(cell, dialect, reader, starts=False)
            label = dialect.escape(name[:LONGEST_NAME])
            if words:
                yield f"{dialect.bullet}{label}: {words}" if label and rows[1:] else f"{dialect.bullet}{words}"


# HTML, where blocks are elements.


def _render_html(blocks: list[TextBlock], dialect: Dialect, reader: MarkdownReader) -> str:
    parts: list[str] = []
    for depth, group in groupby(blocks, key=lambda block: block.quote):
        parts.append("<blockquote>" * depth)
        for listed, same in groupby(group, key=_make_list_judge()):
            if listed:
                parts += _render_list(list(same), dialect, reader)
            else:
                parts += [_render_element(block, dialect, reader) for block in same]
        parts.append("</blockquote>" * depth)
    return "".join(parts)


def _make_list_judge() -> Callable[[TextBlock], bool]:
    """Items are of a list, and so is what stands indented behind one."""
    is_listed = False

    def judge(block: TextBlock) -> bool:
        nonlocal is_listed
        is_listed = block.kind is BlockKind.ITEM or (is_listed and block.level > 0 and block.kind in _INDENTED)
        return is_listed

    return judge


def _render_element(block: TextBlock, dialect: Dialect, reader: MarkdownReader) -> str:
    match block.kind:
        case BlockKind.RULE:
            return "<hr>"
        case BlockKind.CODE:
            return render_code(block.text, block.info, dialect)
        case BlockKind.TABLE:
            return "".join(_render_rows(block, dialect, reader))
        case BlockKind.HEADING:
            return f"<h{block.level}>{render_inline(block.text, dialect, reader)}</h{block.level}>"
        case BlockKind.PARAGRAPH | BlockKind.ITEM:
            return f"<p>{render_inline(block.text, dialect, reader)}</p>"


def _render_rows(block: TextBlock, dialect: Dialect, reader: MarkdownReader) -> Iterator[str]:
    sides = block.sides if dialect.sides else []
    yield "<table>"
    for number, row in enumerate(block.rows):
        name = "td" if number else "th"
        cells = [render_inline(cell, dialect, reader) for cell in _fill(row, len(block.rows[0]))]
        classes = [f' class="{side}"' if side else "" for side in _fill(sides, len(cells))]
        shown = [f"<{name}{side}>{cell}</{name}>" for side, cell in zip(classes, cells, strict=True)]
        yield f"<tr>{''.join(shown)}</tr>"
    yield "</table>"


def _render_list(blocks: list[TextBlock], dialect: Dialect, reader: MarkdownReader) -> Iterator[str]:
    """Items are flat, with their level; the elements are nested. A list stays open within its item."""
    open_lists: list[str] = []
    for block in blocks:
        if block.kind is not BlockKind.ITEM:
            while len(open_lists) > block.level:
                yield f"</li></{open_lists.pop()}>"
            yield _render_element(block, dialect, reader)
            continue
        tag, level = "ol" if block.number else "ul", block.level
        while len(open_lists) > level + 1:
            yield f"</li></{open_lists.pop()}>"
        if len(open_lists) == level + 1:
            yield "</li>"
            if open_lists[-1] != tag:
                yield f"</{open_lists.pop()}>"
        while len(open_lists) < level + 1:
            inner = len(open_lists) == level
            start = f' start="{int(block.number)}"' if inner and block.number not in ("", "1") else ""
            yield f"<{tag}{start}>" + ("" if inner else "<li>")
            open_lists.append(tag)
        yield _render_item(block, dialect, reader)
    while open_lists:
        yield f"</li></{open_lists.pop()}>"


def _render_item(block: TextBlock, dialect: Dialect, reader: MarkdownReader) -> str:
    """It is left open: what follows may stand in it."""
    box = _BOX.match(block.text) if dialect.boxes is not None else None
    if dialect.boxes is None or box is None:
        return f"<li>{render_inline(block.text, dialect, reader)}"
    words = render_inline(block.text[box.end() :], dialect, reader)
    return f'<li class="task">{dialect.boxes[box[1] != " "]}{words}'


# Signal's marks are ranges beside the text.

_STYLES = ("BOLD", "ITALIC", "STRIKETHROUGH", "MONOSPACE")
_EDGES = [chr(0xE000 + number) for number in range(2 * len(_STYLES))]  # signs of private use, in place of marks
_NO_EDGES = str.maketrans(dict.fromkeys(_EDGES, "\ufffd"))
_MARKED = Dialect(
    name="signal ranges",
    bold=(_EDGES[0], _EDGES[1]),
    italic=(_EDGES[2], _EDGES[3]),
    strike=(_EDGES[4], _EDGES[5]),
    code=(_EDGES[6], _EDGES[7]),
    fence=(_EDGES[6], _EDGES[7]),
    table=TableStyle.CODE,
    marks_cross_lines=True,
)


def render_styles(text: str) -> tuple[str, list[StyleRange]]:
    """The plain words, and what of them is bold, italic, struck or code."""
    words: list[str] = []
    ranges: list[StyleRange] = []
    starts: dict[int, int] = {}
    at = 0
    for sign in render(text.translate(_NO_EDGES), _MARKED):
        number = ord(sign) - 0xE000
        if not 0 <= number < len(_EDGES):
            words.append(sign)
            at += 1 + (ord(sign) > 0xFFFF)
        elif number % 2 == 0:
            starts[number] = at
        elif (length := at - starts.pop(number - 1)) > 0:
            ranges.append(StyleRange(at - length, length, _STYLES[number // 2]))
    return "".join(words), ranges


def render_plain_html(text: str) -> str:
    """Safe HTML that shows every character of a text and gives no meaning to any of them."""
    return f"<pre>{escape(text)}</pre>"
