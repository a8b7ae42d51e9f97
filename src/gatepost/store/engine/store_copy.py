"""Copies a whole store from one engine to the other: every table, every id, every sequence; all of it or nothing.

Rows are streamed, so memory does not grow with the store. The copy is read again and compared, by the number of rows
and a hash that does not depend on their order. The index for searches is made anew.
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from hashlib import blake2b
from typing import Protocol

import msgspec
from msgspec import Struct

from gatepost.core.errors import SetupError
from gatepost.store import search
from gatepost.store.engine.full_text import LOOKED_AT, IndexedText
from gatepost.store.port import Db, Row

SEARCH = frozenset({"search", "unsearched"})  # each engine has its own
OF_THE_PLACE = frozenset({"incarnations"})  # what a store knows of its own file: the copy is meant to take its place
BATCH = 500
HASH_BYTES = 16


class CopiedTable(Struct, frozen=True):
    name: str
    rows: int
    hash: str


class CopySource(Protocol):
    """One snapshot of a store."""

    def list_tables(self) -> dict[str, tuple[str, ...]]:
        """Each table's columns by its name, without those of the search."""
        ...

    def read_rows(self, table: str, columns: tuple[str, ...]) -> Iterator[Row]: ...

    def read_sequences(self) -> dict[str, int]:
        """The last id that was given out, by table."""
        ...


class CopyTarget(CopySource, Protocol):
    """An empty store in one transaction: it is committed when its block is left without an error."""

    @property
    def db(self) -> Db: ...

    def write_rows(self, table: str, columns: tuple[str, ...], rows: Iterable[Row]) -> None: ...

    def write_sequences(self, last: dict[str, int]) -> None: ...

    def check_references(self) -> None:
        """Every row names rows that are there."""
        ...


def copy_tables(
    source: AbstractContextManager[CopySource],
    target: AbstractContextManager[CopyTarget],
    report: Callable[[CopiedTable], None],
) -> None:
    with source as old, target as new:
        tables = _compare_tables(old.list_tables(), new.list_tables())
        wanted = sorted(each for each in tables.items() if each[0] not in OF_THE_PLACE)
        copied = [_copy_table(old, new, name, columns) for name, columns in wanted]
        new.write_sequences(old.read_sequences())
        new.check_references()
        for each in copied:
            found = _measure(each.name, new.read_rows(each.name, tables[each.name]))
            if found != each:
                raise SetupError(
                    f"table {each.name} has {found.rows} rows ({found.hash}) after the copy and had {each.rows}"
                    f" ({each.hash}); nothing was kept"
                )
            report(each)
        _add_to_search(new.db)


def _compare_tables(old: dict[str, tuple[str, ...]], new: dict[str, tuple[str, ...]]) -> dict[str, tuple[str, ...]]:
    """Both are of the same version, so a difference is a fault of ours."""
    for name in sorted(old.keys() | new.keys()):
        if set(old.get(name, ())) != set(new.get(name, ())):
            raise SetupError(f"table {name} has not the same columns on both sides; nothing was copied")
    return old


def _copy_table(old: CopySource, new: CopyTarget, name: str, columns: tuple[str, ...]) -> CopiedTable:
    measure = TableMeasure(name)
    new.write_rows(name, columns, measure.watch(old.read_rows(name, columns)))
    return measure.get_result()


class TableMeasure:
    """Counts and hashes rows as they pass."""

    def __init__(self, name: str) -> None:
        self._name, self._rows, self._sum = name, 0, 0
        self._encode = msgspec.msgpack.Encoder().encode

    def watch(self, rows: Iterable[Row]) -> Iterator[Row]:
        for row in rows:
            clean = tuple(map(replace_nul, row))
            self._rows += 1
            digest = blake2b(self._encode(clean), digest_size=HASH_BYTES).digest()
            self._sum = (self._sum + int.from_bytes(digest)) % (1 << 8 * HASH_BYTES)
            yield clean

    def get_result(self) -> CopiedTable:
        return CopiedTable(self._name, self._rows, f"{self._sum:0{2 * HASH_BYTES}x}")


def replace_nul(value: object) -> object:
    """PostgreSQL has no such character in a text (`postgres/values.py` does the same)."""
    return value.replace("\0", "\ufffd") if isinstance(value, str) and "\0" in value else value


def _measure(name: str, rows: Iterable[Row]) -> CopiedTable:
    measure = TableMeasure(name)
    for _ in measure.watch(rows):
        pass
    return measure.get_result()


def _add_to_search(db: Db) -> None:
    last = 0
    while rows := db.rows(
        f"SELECT id, instance, address, sender, substr(text, 1, {LOOKED_AT}) FROM messages WHERE id > ?"
        f" ORDER BY id LIMIT {BATCH}",
        (last,),
    ):
        search.add(db, [IndexedText(*row) for row in rows])
        db.flush()
        last = rows[-1][0]
