"""How commands print: lines and tables that fit a terminal and are whole everywhere else, JSON that stays the same,
times and durations for people.

Everything that people read goes through `print_line` or `print_table`, which let no control character of anybody's
text through; colours are added afterwards and are ours alone.
"""

import json
import shutil
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime, tzinfo
from textwrap import wrap
from typing import Any

from msgspec import Struct

from gatepost.core.money import render_usd
from gatepost.core.record_fields import FieldView, ShownAs, join_lines, list_views
from gatepost.core.records import asdict, is_record
from gatepost.core.terminal_text import make_json_visible, make_visible, one_line

WIDTH, NARROWEST = 100, 60
LEAST = 8  # what is left of a column
READABLE = 32  # of a text in a column: with less room it stands below its row …
MOST_LINES, INDENT = 3, "    "  # … in so many lines
_COLORS = {"ok": "32", "warn": "33", "fail": "31", "dim": "2", "bold": "1"}


class Colored(Struct, frozen=True):
    """A piece of a line that is coloured on a terminal."""

    text: str
    color: str


Show = Callable[[Any], object]
Zone = tuple[tzinfo | None, str]  # and its name; None: the local one of whoever looks
Piece = str | Colored
Line = tuple[Piece, ...]


def print_line(*pieces: Piece, error: bool = False, flush: bool = False) -> None:
    """One line, or several where a text has them."""
    print("".join(map(_render_piece, pieces)), file=sys.stderr if error else sys.stdout, flush=flush)


def _render_piece(piece: Piece) -> str:
    if isinstance(piece, str):
        return make_visible(piece)
    text = make_visible(piece.text)
    return f"\x1b[{_COLORS[piece.color]}m{text}\x1b[0m" if sys.stdout.isatty() else text


class ProgressPrinter:
    """Progress for people; on stderr where the answer itself is for a program."""

    def __init__(self, as_json: bool) -> None:
        self.is_quiet = as_json

    def __call__(self, text: str) -> None:
        print_line(text, error=self.is_quiet, flush=True)

    def step(self, subject: str, text: str) -> None:
        self(f"{subject:<9} {text}")


def print_above(lines: Sequence[Line], below: str, over: int = 0) -> None:
    """Print above the line that is being typed, and draw that line (`below`) anew. `over`: in place of so many rows
    above the cursor's."""
    up = f"\x1b[{over}A" if over else ""
    above = "".join("".join(map(_render_piece, line)) + "\n" for line in lines)
    print(f"\r{up}\x1b[J{above}{make_visible(below)}", end="", flush=True)


def colored(text: str, color: str) -> Colored:
    return Colored(text, color)


def print_json(value: Any) -> None:
    """One document, indented; what is no JSON is told by its text."""
    print(make_json_visible(json.dumps(value, indent=2, ensure_ascii=False, default=_json_default)))


def print_json_line(value: Any) -> None:
    """One document on one line, at once: whoever follows reads it from a pipe."""
    print(make_json_visible(json.dumps(value, ensure_ascii=False, default=_json_default)), flush=True)


def _json_default(value: Any) -> Any:
    return asdict(value) if is_record(value) else str(value)


def print_table(
    head: Sequence[str],
    rows: Sequence[Sequence[object]],
    *,
    empty: str = "nothing",
    gives: Sequence[str] = (),
    keeps: Sequence[str] = (),
    text: str = "",
) -> None:
    """Aligned columns, cut to what a terminal has room for: first those that `gives` names, then the widest, and never
    those that `keeps` names. `text`: a column that gives first, too, and stands below the rows where it could not be
    read. A head of nothing is no line."""
    first, kept = [head.index(name) for name in (*gives, text) if name], [head.index(name) for name in keeps]
    if not rows:
        print_line(empty)
        return
    cells = [[str(head[at]) for at in range(len(head))], *[[_cell(cell) for cell in row] for row in rows]]
    widths = [max(len(row[at]) for row in cells) for at in range(len(head))]
    most, below = get_line_width(), None
    if most is not None:
        if text and _is_cramped(widths, most, head.index(text)):
            below = head.index(text)
            widths[below] = 0
            first = [at for at in first if at != below]
        _shrink(widths, most - 2 * (len(head) - 1 - (below is not None)), first, kept)
    for number, row in enumerate(cells[0 if any(head) else 1 :], 0 if any(head) else 1):
        shown = [cut(cell, widths[at]).ljust(widths[at]) for at, cell in enumerate(row) if at != below]
        line = "  ".join(shown).rstrip()
        print_line(colored(line, "dim") if number == 0 else line)
        if below is not None and most is not None and number:
            for part in wrap(row[below], most - len(INDENT), max_lines=MOST_LINES, placeholder=" …"):
                print_line(INDENT, part)


def _is_cramped(widths: Sequence[int], most: int, at: int) -> bool:
    """Return True if the others leave a column too little to be read."""
    left = most - sum(widths) - 2 * (len(widths) - 1) + widths[at]
    return left < min(widths[at], READABLE)


def print_records(
    record: type[Struct],
    found: Sequence[Struct],
    own: Mapping[str, Show] = {},
    *,
    empty: str = "nothing",
    gives: Sequence[str] = (),
    zone: Zone | None = None,
    without: Sequence[str] = (),
    text: str = "",
) -> None:
    """A table with a column for each field that the record says how to show. `own`: the texts of some fields, each made
    from a row. `zone`: of its moments, with the name that their heads have. `without`: fields that are no column here.
    `gives`, `text`: as `print_table` has them."""
    views = {name: view for name, view in list_views(record).items() if not view.details and name not in without}
    rows = [[_show(name, view, each, own, zone) for name, view in views.items()] for each in found]
    heads = [_make_head(name, view, None if name in own else zone) for name, view in views.items()]
    ids = [head for head, view in zip(heads, views.values(), strict=True) if view.kind is ShownAs.ID]
    print_table(heads, rows, empty=empty, gives=gives, keeps=ids, text=text)


def _make_head(name: str, view: FieldView, zone: Zone | None) -> str:
    return f"{view.head or name} ({zone[1]})" if zone and view.kind is ShownAs.MOMENT else view.head or name


def print_details(
    record: type[Struct],
    found: Struct,
    own: Mapping[str, Show] = {},
    *,
    width: int,
    sparse: bool = False,
    zone: Zone | None = None,
) -> None:
    """Print each field that the record says how to show, also those that tables leave out. `sparse`: not those that
    hold nothing."""
    for name, view in list_views(record).items():
        said = _show(name, view, found, own, zone)
        if sparse and (said is False or said in (None, "", [], ())):
            continue
        if view.kind is ShownAs.LONG and said:
            print_line(f"{view.head or name:<{width}} ", join_lines(said).rstrip().replace("\n", f"\n{'':<{width}} "))
            continue
        for label, each in _list_lines(view.head or name, said):
            print_line(f"{one_line(label):<{width}} {_cell(each)}")


def _list_lines(label: str, said: object) -> Iterable[tuple[str, object]]:
    """Return the lines of a value: one for each entry of a table or list."""
    if isinstance(said, Mapping):
        return [(f"{label}.{name}", each) for name, each in said.items()]
    return [(label, each) for each in said] if isinstance(said, list | tuple) else [(label, said)]


def _show(name: str, view: FieldView, row: Struct, own: Mapping[str, Show], zone: Zone | None) -> object:
    if name in own:
        return own[name](row)
    said: object = view.get_text(getattr(row, name))
    if view.kind is ShownAs.MOMENT and not (view.empty and said == view.empty):
        there = zone[0] if zone else None
        if isinstance(said, str):
            return format_iso(said, there)
        return format_time(said, there) if said and isinstance(said, int) else None
    if view.kind is ShownAs.MONEY and isinstance(said, int):
        return render_usd(said) if said else None
    return said


def get_line_width() -> int | None:
    """How long a line may be; None: whoever reads it is no terminal, and gets all of it."""
    return max(NARROWEST, shutil.get_terminal_size((WIDTH, 24)).columns) if sys.stdout.isatty() else None


def fit_line(text: str, less: int = 0) -> str:
    """One line, cut where a terminal ends."""
    most = get_line_width()
    return text if most is None else cut(text, most - less)


def _shrink(widths: list[int], room: int, first: Sequence[int], kept: Sequence[int]) -> None:
    """Take from those columns, then from the widest of the others, until the line fits."""
    for at in first:
        widths[at] = max(min(widths[at], LEAST), widths[at] - max(sum(widths) - room, 0))
    others = [at for at in range(len(widths)) if at not in kept]
    while sum(widths) > room and (widest := max(others, key=widths.__getitem__, default=None)) is not None:
        if widths[widest] <= LEAST:
            return
        widths[widest] -= 1


def _cell(value: object) -> str:
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    said = ", ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)
    return one_line(said) or "-"


def cut(text: str, width: int) -> str:
    return text if len(text) <= width else text[: max(width - 1, 0)] + "…"


def format_time(at: int | None, zone: tzinfo | None = None) -> str:
    """Return a moment in a zone; None: the local one of whoever looks. 0 is no moment, as in rows."""
    return "-" if not at else datetime.fromtimestamp(at / 1_000_000, zone).strftime("%Y-%m-%d %H:%M:%S")


def format_iso(at: str | None, zone: tzinfo | None = None) -> str:
    """The same of a moment in RFC 3339."""
    return "-" if not at else datetime.fromisoformat(at).astimezone(zone).strftime("%Y-%m-%d %H:%M:%S")


def format_duration(seconds: float) -> str:
    """A duration as people say it."""
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms" if seconds else "0 s"
    for size, unit in ((86400, "d"), (3600, "h"), (60, "min")):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.0f} s"
