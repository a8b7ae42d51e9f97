"""A transaction that counts its work: statements, rows and characters that were read. For tests of growth."""

from collections.abc import Callable, Sequence
from typing import Any

from gatepost.store.engine.upkeep import Upkeep
from gatepost.store.port import Db, LockKind, Row


class CountingDb:
    """Passes everything on to `db`."""

    def __init__(self, db: Db) -> None:
        self._db = db
        self.statements = self.read_rows = self.read_chars = 0
        self.full_text, self.gateway = db.full_text, db.gateway

    def rows(self, sql: str, params: Sequence[Any] = ()) -> list[Row]:
        return self._count(self._db.rows(sql, params))

    def row(self, sql: str, params: Sequence[Any] = ()) -> Row | None:
        found = self._db.row(sql, params)
        self._count([] if found is None else [found])
        return found

    def run(self, sql: str, params: Sequence[Any] = ()) -> int:
        self.statements += 1
        return self._db.run(sql, params)

    def execute_later(self, sql: str, params: Sequence[Any] = ()) -> None:
        self.statements += 1
        self._db.execute_later(sql, params)

    def query_later(self, sql: str, params: Sequence[Any] = ()) -> Callable[[], list[Row]]:
        found = self.rows(sql, params)
        return lambda: found

    def lock(self, kind: LockKind, *key: str) -> None:
        self._db.lock(kind, *key)

    def share(self, kind: LockKind) -> None:
        self._db.share(kind)

    def append(self, insert: str, row: Sequence[Any]) -> None:
        self._db.append(insert, row)  # written with others: no statement of its own

    def flush(self) -> None:
        self._db.flush()

    def define(self, ddl: str) -> None:
        self._db.define(ddl)

    def definition(self, name: str) -> str:
        return self._db.definition(name)

    @property
    def upkeep(self) -> Upkeep:
        return self._db.upkeep

    def _count(self, rows: list[Row]) -> list[Row]:
        self.statements += 1
        self.read_rows += len(rows)
        self.read_chars += sum(len(value) for row in rows for value in row if isinstance(value, str))
        return rows
