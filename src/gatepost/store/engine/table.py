"""A table by its struct: the fields are the columns that are read, in order, and their types say how a value is parsed.

A column is named in its migration and in its struct, and nowhere else. A table may have columns that its struct leaves
out. Statements are built once for each text that follows the table's name: that text must not hold values.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from functools import cached_property, lru_cache
from itertools import chain
from typing import Any, Generic, TypeVar, get_origin

from msgspec import Struct
from msgspec.structs import astuple, fields

from gatepost.core.record_fields import split_notes
from gatepost.store.port import Db, Row

S = TypeVar("S", bound=Struct)
Rows = list[Row]

MOST_ROWS = 50  # in one statement: it has a bounded number of parameters


class Table(Generic[S]):
    """`columns`: a list for SELECT and RETURNING. `parse`: the struct of a row of these columns."""

    def __init__(self, name: str, struct: type[S]) -> None:
        self.name, self.names = name, struct.__struct_fields__
        self.columns = ", ".join(self.names)
        self._struct = struct
        self._selects: dict[str, str] = {}
        self._inserts: dict[tuple[str | type, ...], str] = {}
        self._many: dict[tuple[str | int | tuple[str, ...], ...], str] = {}

    @cached_property
    def parse(self) -> Callable[[Row], S]:
        """Made when the first row is read: a start would make those of all tables."""
        return make_row_parser(self._struct)

    def columns_of(self, alias: str) -> str:
        """The same for a table that a statement gives another name."""
        return ", ".join(f"{alias}.{name}" for name in self.names)

    def get(self, db: Db, rest: str, *params: Any) -> S | None:
        """The first row; `rest` follows the table's name in the SELECT."""
        row = db.row(self._selects.get(rest) or self._select(rest), params)
        return self.parse(row) if row is not None else None

    def list(self, db: Db, rest: str, *params: Any) -> list[S]:
        rows = db.rows(self._selects.get(rest) or self._select(rest), params)
        return [self.parse(row) for row in rows]

    def insert(self, db: Db, rest: str = "", new: Struct | None = None, /, **values: Any) -> Row | None:
        """The fields of `new` and these values. `rest` follows them: ON CONFLICT, RETURNING. The row that it returns,
        None if it returns none."""
        sql = self._inserts.get((rest, type(new), *values)) or self._insert(rest, new, tuple(values))
        return db.row(sql, (*(astuple(new) if new is not None else ()), *values.values()))

    def insert_rows(self, db: Db, rest: str, names: tuple[str, ...], rows: Sequence[Row], /, **same: Any) -> Rows:
        """Insert rows of these columns, in their order, in as few statements as possible. `same` holds values that all
        rows share, which are given to the store once. Rows that `rest` returns come in any order."""
        found: Rows = []
        for at in range(0, len(rows), MOST_ROWS):
            some = rows[at : at + MOST_ROWS]
            sql = self._many.get((rest, names, len(some), *same)) or self._insert_many(rest, names, len(some), (*same,))
            found += db.rows(sql, (*same.values(), *chain.from_iterable(some)))
        return found

    def add_rows(self, db: Db, rest: str, names: tuple[str, ...], rows: Sequence[Row], /, **same: Any) -> int:
        """The same where nothing is returned; how many there are now. A list of what is returned costs SQLite a table
        of its own."""
        added = 0
        for at in range(0, len(rows), MOST_ROWS):
            some = rows[at : at + MOST_ROWS]
            sql = self._many.get((rest, names, len(some), *same)) or self._insert_many(rest, names, len(some), (*same,))
            added += db.run(sql, (*same.values(), *chain.from_iterable(some)))
        return added

    def put(self, db: Db, conflict: str = "", new: Struct | None = None, /, **values: Any) -> S:
        """Insert, and return the row as it stands then."""
        row = self.insert(db, f"{conflict} RETURNING {self.columns}", new, **values)
        assert row is not None
        return self.parse(row)

    def _select(self, rest: str) -> str:
        sql = self._selects[rest] = f"SELECT {self.columns} FROM {self.name} {rest}"
        return sql

    def _insert(self, rest: str, new: Struct | None, others: tuple[str, ...]) -> str:
        names = (*(new.__struct_fields__ if new is not None else ()), *others)
        marks = ", ".join("?" * len(names))
        sql = f"INSERT INTO {self.name} ({', '.join(names)}) VALUES ({marks}) {rest}"
        self._inserts[rest, type(new), *others] = sql
        return sql

    def _insert_many(self, rest: str, names: tuple[str, ...], count: int, same: tuple[str, ...]) -> str:
        values = f"VALUES {render_marks(count, len(names))}"
        if same:
            own = ", ".join(f"v.column{at + 1}" for at in range(len(names)))
            # Without WHERE, SQLite takes the ON of what follows for that of a join.
            values = f"SELECT {', '.join('?' * len(same))}, {own} FROM ({values}) AS v WHERE true"
        sql = f"INSERT INTO {self.name} ({', '.join((*same, *names))}) {values} {rest}"
        self._many[rest, names, count, *same] = sql
        return sql


def value_marks(rows: Sequence[Sequence[Any]]) -> str:
    """Return what follows VALUES for so many rows. A statement that reads from them calls their columns `column1`,
    `column2` and so on: SQLite and PostgreSQL both do."""
    return render_marks(len(rows), len(rows[0]))


@lru_cache(maxsize=1024)
def render_marks(rows: int, columns: int) -> str:
    """The same for so many rows of so many columns."""
    return ", ".join([f"({', '.join('?' * columns)})"] * rows)


def make_row_parser(struct: type[S]) -> Callable[[Row], S]:
    """For rows that have a value for each field, in order."""
    names, kinds = struct.__struct_fields__, fields(struct)
    parsers = [(at, found) for at, each in enumerate(kinds) if (found := _find_parser(each.type))]
    if len(struct.__match_args__) < len(names):
        return _make_named_parser(struct, [(names[at], convert) for at, convert in parsers])
    if not parsers:
        return lambda row: struct(*row)

    def parse(row: Row) -> S:
        values = [*row]
        for at, convert in parsers:
            values[at] = convert(values[at])
        return struct(*values)

    return parse


def _make_named_parser(struct: type[S], parsers: Sequence[tuple[str, Callable[[Any], Any]]]) -> Callable[[Row], S]:
    """For a struct that takes its fields by name."""
    names = struct.__struct_fields__

    def parse(row: Row) -> S:
        values = dict(zip(names, row, strict=True))
        for name, convert in parsers:
            values[name] = convert(values[name])
        return struct(**values)

    return parse


def _find_parser(kind: Any) -> Callable[[Any], Any] | None:
    """None: SQLite gives the value as it is."""
    bare, _ = split_notes(kind)
    base = get_origin(bare) or bare
    if not isinstance(base, type):
        return None
    if issubclass(base, Enum):
        return {each.value: each for each in base}.__getitem__
    if issubclass(base, bool):
        return bool
    if issubclass(base, tuple):
        return lambda text: tuple(json.loads(text))
    return json.loads if issubclass(base, Mapping) else None
