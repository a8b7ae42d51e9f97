"""Tables from an operation's answer: each field says how a value of a row is shown."""

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import islice
from typing import Any, overload

from msgspec import Struct

from gatepost.core.clock import iso
from gatepost.core.record_fields import FieldView, ShownAs, join_lines, list_views
from gatepost.core.records import replace
from gatepost.serve.web.dashboard.contract import render_path
from gatepost.serve.web.dashboard.view import (
    Action,
    Badge,
    Cell,
    Code,
    Column,
    EmptyState,
    Fact,
    Facts,
    Link,
    LongText,
    Moment,
    Money,
    Row,
    TableBlock,
    Tone,
)


def get_tone(state: str) -> Tone:
    return TONES.get(state, Tone.QUIET)


LONGEST = 160  # characters of a text in a cell
MOST_FIELDS = 40  # that are looked at for one
HASH = re.compile("[0-9a-f]{64}")
Answer = Any  # a record; each column names a field of it
_WORDS = {
    Tone.GOOD: "up active answered sent delivered allowed allow live healthy done ready yes granted kept ok",
    Tone.WARN: "paused queued working held retry pending sending running initializing interrupted starting waiting"
    " quiet backing-off asks warning warn",
    Tone.BAD: "failed uncertain refused error denied deny deaf ended dead broken revoked no blocked critical fail",
}
# The colour of a state, wherever it is shown. A word that is in no line is quiet.
TONES = {word: tone for tone, words in _WORDS.items() for word in words.split()}


class TableField(Struct, frozen=True):
    """`name` is that of the column in files."""

    name: str
    label: str
    show: Callable[[Answer], Cell]
    right: bool = False
    in_files: bool = False


def shorten(text: str, longest: int = LONGEST) -> str:
    line = " ".join(text[: longest * 4].split())
    return line if len(line) <= longest else f"{line[: longest - 1]}…"


def render_fields(fields: Mapping[str, Any]) -> str:
    """Names with what they hold, as one line."""
    return shorten(" · ".join(islice(_list_fields(fields), MOST_FIELDS)))


def _list_fields(fields: Mapping[str, Any], above: str = "") -> Iterator[str]:
    """Hashes by their beginnings: they are compared, not read."""
    for name, value in fields.items():
        if isinstance(value, dict):
            yield from _list_fields(value, f"{above}{name}.")
        elif value is not None and (value != "" or above):  # within a change, what is empty was set so
            said = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
            yield f"{above}{name} {f'{said[:8]}…' if HASH.fullmatch(said) else said or '(empty)'}"


def _show_text(value: Any) -> Cell:
    if isinstance(value, Mapping):
        value = ", ".join(f"{name} {each}" for name, each in islice(value.items(), MOST_FIELDS))
    elif isinstance(value, tuple | list):
        value = ", ".join(map(str, islice(value, MOST_FIELDS)))
    return None if value in (None, "") else shorten(str(value))


def _show_number(value: Any) -> Cell:
    found: Cell = value
    return found


def make_moment(at: int | str | None) -> Moment:
    """0 is no moment: what has not been, or never ends."""
    return Moment(iso(at or None) if isinstance(at, int) else at)


def _show_code(value: Any) -> Cell:
    return Code(shorten(str(value))) if value else None


def _show_badge(value: Any) -> Cell:
    return Badge(value, get_tone(value)) if value else None


def _show_money(value: int | None) -> Cell:
    return Money(value) if value is not None else None


_CELLS: dict[ShownAs, Callable[[Any], Cell]] = {
    ShownAs.TEXT: _show_text,
    ShownAs.CODE: _show_code,
    ShownAs.NUMBER: _show_number,
    ShownAs.MOMENT: make_moment,
    ShownAs.MONEY: _show_money,
    ShownAs.BADGE: _show_badge,
}


def _of_value(name: str, label: str, show: Callable[[Any], Cell], **more: bool) -> TableField:
    return TableField(name, label, lambda row: show(getattr(row, name)), **more)


def text(name: str, label: str) -> TableField:
    return _of_value(name, label, _show_text)


def number(name: str, label: str) -> TableField:
    return _of_value(name, label, _show_number, right=True)


def moment(name: str, label: str) -> TableField:
    return _of_value(name, label, make_moment)


def code(name: str, label: str) -> TableField:
    return _of_value(name, label, _show_code)


def money(name: str, label: str) -> TableField:
    return _of_value(name, label, Money, right=True)


def badge(name: str, label: str) -> TableField:
    return _of_value(name, label, _show_badge)


def flag(name: str, label: str, shown: str) -> TableField:
    """A word where it holds, nothing where not."""
    return _of_value(name, label, lambda value: Badge(shown) if value else None)


def link(name: str, label: str, path: str, *, by: str = "", shown: Callable[[Answer], str] | None = None) -> TableField:
    """To the page at `path`, whose one hole is filled with the value, or with that of the field `by`."""
    hole, key = path.partition("{")[2].partition("}")[0], by or name

    def show(row: Answer) -> Cell:
        if not (value := getattr(row, key)):
            return None
        return Link(shorten(shown(row) if shown else str(getattr(row, name))), render_path(path, **{hole: str(value)}))

    return TableField(name, label, show)


def in_files(name: str) -> TableField:
    """A value that a file has and a page has not: an id behind a link."""
    return _of_value(name, name, lambda value: value, in_files=True)


def made(name: str, label: str, show: Callable[[Answer], Cell]) -> TableField:
    return TableField(name, label, show)


class LazyColumns(Sequence[TableField]):
    """Columns that are made when a page is first looked at, so that no start waits for those of all pages."""

    def __init__(self, make: Callable[[], Sequence[TableField]]) -> None:
        self._make = make

    @cached_property
    def _columns(self) -> Sequence[TableField]:
        return self._make()

    def __len__(self) -> int:
        return len(self._columns)

    @overload
    def __getitem__(self, at: int) -> TableField: ...
    @overload
    def __getitem__(self, at: slice) -> Sequence[TableField]: ...
    def __getitem__(self, at: int | slice) -> TableField | Sequence[TableField]:
        return LazyColumns(lambda: self._columns[at]) if isinstance(at, slice) else self._columns[at]


def make_columns(
    record: type[Struct], own: Mapping[str, TableField] = {}, *, details: bool = False, without: Sequence[str] = ()
) -> LazyColumns:
    """Return a column for each field that a record says how to show. `details`: also those that lists leave out. `own`:
    columns of the page's own, by the field that they stand for. `without`: fields that have no column here.
    `make_texts` has the long texts."""

    def make() -> tuple[TableField, ...]:
        found = list_views(record).items()
        views = [(name, view) for name, view in found if name not in without and view.kind is not ShownAs.LONG]
        named = dict(zip(record.__struct_fields__, record.__struct_encode_fields__, strict=True))
        return tuple(
            own.get(name) or replace(_make_column(name, view), name=named[name])
            for name, view in views
            if details or not view.details
        )

    return LazyColumns(make)


def make_texts(record: type[Struct], found: Answer) -> list[LongText]:
    """Return a block for each long text of a record that is not empty."""
    views = ((name, view) for name, view in list_views(record).items() if view.kind is ShownAs.LONG)
    texts = ((view.title, view.get_text(getattr(found, name))) for name, view in views)
    return [LongText(title=title, text=join_lines(text)) for title, text in texts if text]


def _make_column(name: str, view: FieldView) -> TableField:
    if view.kind is ShownAs.ID:
        return in_files(name)
    if view.kind is ShownAs.FLAG:
        return flag(name, view.title, view.word)

    def show(value: Any) -> Cell:
        said = view.get_text(value)
        return view.empty if view.empty and said == view.empty else _CELLS[view.kind](said)

    return _of_value(name, view.title, show, right=view.kind in (ShownAs.NUMBER, ShownAs.MONEY))


class LazyRows(Sequence[Row]):
    """Rows that are made when they are looked at. A page shows some of them, and no one else waits for the rest."""

    def __init__(self, found: Sequence[Answer], make: Callable[[Answer], Row]) -> None:
        self._found, self._make = found, make

    def __len__(self) -> int:
        return len(self._found)

    @overload
    def __getitem__(self, at: int) -> Row: ...
    @overload
    def __getitem__(self, at: slice) -> "LazyRows": ...
    def __getitem__(self, at: int | slice) -> "Row | LazyRows":
        return LazyRows(self._found[at], self._make) if isinstance(at, slice) else self._make(self._found[at])


def make_table(
    found: Sequence[Answer],
    fields: Sequence[TableField],
    empty: EmptyState,
    *,
    actions: Callable[[Answer], tuple[Action, ...]] = lambda row: (),
    key: Callable[[Answer], str] = lambda row: "",
    depth: Callable[[Answer], int] = lambda row: 0,
    title: str = "",
    more: str = "",
    moves: str = "",
) -> TableBlock:
    def make_row(row: Answer) -> Row:
        cells = tuple(each.show(row) for each in fields)
        return Row(cells=cells, actions=actions(row), key=key(row), depth=depth(row))

    return TableBlock(
        columns=tuple(Column(each.name, each.label, each.right, each.in_files) for each in fields),
        rows=LazyRows(found, make_row),
        empty=empty,
        title=title,
        more=more,
        moves=moves,
    )


def make_facts(answer: Answer, fields: Sequence[TableField], title: str = "") -> Facts:
    return Facts(items=[Fact(each.label, each.show(answer)) for each in fields], title=title)
