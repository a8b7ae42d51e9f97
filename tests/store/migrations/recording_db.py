"""A connection to an SQLite file that keeps what steps execute on it."""

import hashlib
import json
from collections.abc import Sequence
from typing import Any

import apsw

from gatepost.store.engine.sqlite_db import SqliteDb, SqliteFullText
from gatepost.store.port import Db, Row


class _NotedIndex(SqliteFullText):
    """The index is written by code that may change. A step only says when."""

    def index(self, db: Db, most: int) -> int:
        assert isinstance(db, RecordingDb)
        db.executed.append(("index", str(most), []))
        return 0


class RecordingDb(SqliteDb):
    full_text = _NotedIndex()

    def __init__(self, connection: apsw.Connection) -> None:
        super().__init__(connection)
        self.executed: list[tuple[str, str, list[Any]]] = []

    def rows(self, sql: str, params: Sequence[Any] = ()) -> list[Row]:
        self.executed.append(("rows", sql, list(params)))
        return super().rows(sql, params)

    def define(self, ddl: str) -> None:
        self.executed.append(("define", ddl, []))
        super().define(ddl)

    def definition(self, name: str) -> str:
        found = self.connection.execute("SELECT sql FROM sqlite_schema WHERE name = ?", (name,)).fetchall()
        return str(found[0][0] or "") if found else ""

    def pop_digest(self) -> str:
        """Return a digest of everything that was executed since the last call."""
        text = json.dumps(self.executed, ensure_ascii=False)
        self.executed.clear()
        return hashlib.sha256(text.encode()).hexdigest()[:16]
