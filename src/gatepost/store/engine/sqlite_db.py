"""A connection to an SQLite file as `Db`, with its full text, and how one is opened."""

import os
from collections.abc import Callable, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import apsw

from gatepost.core.errors import SetupError
from gatepost.store.engine import rule_cache
from gatepost.store.engine.full_text import LOOKED_AT, IndexedText, TextCondition, list_marks, separate_characters
from gatepost.store.engine.table import render_marks
from gatepost.store.engine.upkeep import SqliteUpkeep
from gatepost.store.port import Db, LockKind, Row

TYPES = {
    "id": "INTEGER PRIMARY KEY AUTOINCREMENT",
    "int": "INTEGER",
    "text": "TEXT",
    "real": "REAL",
    "blob": "BLOB",
    "strict": "STRICT",
}
MOST_APPENDED = 50  # rows in one statement
BUSY_MS = 5000  # the command line may write while the daemon runs
AT_ONCE = 8 * LOOKED_AT  # characters that are indexed in one transaction: everybody's writes wait for it


class SqliteFullText:
    """Full text on SQLite: FTS5. Triggers note what was written, changed and deleted.

    Many messages are indexed at a time, since writing the index with each one would cost more than the message.
    """

    source = "search f JOIN messages m ON m.id = f.rowid"
    key = "f.rowid"
    sees_new = True  # by a trigger

    def prepare(self, db: Db) -> None:
        pass

    def match(self, query: str, marks: Sequence[Sequence[str]]) -> TextCondition:
        parts = [f"text : ({query})"] if query else []
        parts += [f"marks : ({' OR '.join(words)})" for words in marks]
        return TextCondition("f.search MATCH ?", (" AND ".join(parts),))

    def add(self, db: Db, texts: Sequence[IndexedText]) -> None:
        pass

    def renew(self, db: Db, message_id: int) -> None:
        pass

    def index(self, db: Db, most: int) -> int:
        """Index what waits, oldest first, as far as one transaction should."""
        rows = db.rows(
            f"SELECT u.message_id, m.instance, m.address, m.sender, substr(m.text, 1, {LOOKED_AT}) FROM unsearched u"
            " JOIN messages m ON m.id = u.message_id ORDER BY u.message_id LIMIT ?",
            (most,),
        )
        done, chars = 0, 0
        for each in (IndexedText(*row) for row in rows):
            db.run(
                "INSERT INTO search (rowid, text, marks) VALUES (?, ?, ?)",
                (each.message_id, separate_characters(each.text), " ".join(list_marks(each))),
            )
            done, chars = done + 1, chars + len(each.text)
            if chars >= AT_ONCE:
                break
        if done:
            db.run("DELETE FROM unsearched WHERE message_id <= ?", (rows[done - 1][0],))
        return done

    def is_behind(self, db: Db) -> bool:
        return db.row("SELECT 1 FROM unsearched LIMIT 1") is not None

    def list_unindexed(self, db: Db, most: int) -> list[tuple[int, str]]:
        rows = db.rows(
            f"SELECT u.message_id, substr(m.text, 1, {LOOKED_AT}) FROM unsearched u"
            " JOIN messages m ON m.id = u.message_id ORDER BY u.message_id DESC LIMIT ?",
            (most,),
        )
        return [(int(row[0]), str(row[1])) for row in rows]

    def merge(self, db: Db, pages: int) -> bool:
        before = _count_changes(db)
        db.run("INSERT INTO search (search, rank) VALUES ('merge', ?)", (pages,))
        return _count_changes(db) - before >= 2


def _count_changes(db: Db) -> int:
    row = db.row("SELECT total_changes()")
    return int(row[0]) if row else 0


class SqliteDb:
    """A connection as `Db`."""

    full_text = SqliteFullText()
    gateway = ""  # one by itself

    def __init__(self, connection: apsw.Connection, *, of_writer: bool = False) -> None:
        """`of_writer`: the store has all its tables, so a change of rules renames their state; and somebody calls
        `flush` before each commit, so rows are appended together."""
        self.connection, self._of_writer = connection, of_writer
        self._appended: dict[str, list[Sequence[Any]]] = {}

    def lock(self, kind: LockKind, *key: str) -> None:
        """There is one writer."""

    def share(self, kind: LockKind) -> None:
        """There is one writer."""

    def rows(self, sql: str, params: Sequence[Any] = ()) -> list[Row]:
        if self._of_writer and (changed := rule_cache.find_changed_state(sql)) is not None:
            rule_cache.rename_state(self, changed)
        return self.connection.execute(sql, params).fetchall()

    def row(self, sql: str, params: Sequence[Any] = ()) -> Row | None:
        found = self.rows(sql, params)
        return found[0] if found else None

    def run(self, sql: str, params: Sequence[Any] = ()) -> int:
        self.rows(sql, params)
        return self.connection.changes()

    def execute_later(self, sql: str, params: Sequence[Any] = ()) -> None:
        self.rows(sql, params)

    def query_later(self, sql: str, params: Sequence[Any] = ()) -> Callable[[], list[Row]]:
        return self.rows(sql, params).copy  # the answer is there already

    def append(self, insert: str, row: Sequence[Any]) -> None:
        rows = self._appended.setdefault(insert, [])
        rows.append(row)
        if not self._of_writer or len(rows) >= MOST_APPENDED:  # much of it is written within the time of its unit
            self.flush()

    def flush(self) -> None:
        while self._appended:
            insert, rows = self._appended.popitem()
            self.rows(f"{insert} {render_marks(len(rows), len(rows[0]))}", tuple(chain.from_iterable(rows)))

    def discard(self) -> None:
        """Forget what was appended: its transaction was undone."""
        self._appended.clear()

    def define(self, ddl: str) -> None:
        self.connection.execute(ddl.format_map(TYPES))

    def definition(self, name: str) -> str:
        row = self.row("SELECT sql FROM sqlite_schema WHERE name = ?", (name,))
        return str(row[0] or "") if row else ""

    @property
    def upkeep(self) -> SqliteUpkeep:
        return SqliteUpkeep(self.connection)


def connect(path: Path, *, readonly: bool = False) -> apsw.Connection:
    flags = apsw.SQLITE_OPEN_READONLY if readonly else apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_CREATE
    try:
        made = not readonly and not path.exists()
        if made:
            # The owner's alone from its first moment; journals take the mode of the file. Never opened by us once it
            # is there: closing such a handle would drop the locks that SQLite holds in this process.
            os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
        connection = apsw.Connection(str(path), flags=flags | apsw.SQLITE_OPEN_NOMUTEX, statementcachesize=400)
        connection.set_busy_timeout(BUSY_MS)
        # Without it SQLite compiles a statement anew where the bound values might have led to another plan: measured,
        # the look at a room's next message cost 43 µs instead of 7.
        connection.config(apsw.SQLITE_DBCONFIG_ENABLE_QPSG, 1)
        connection.execute("PRAGMA foreign_keys=ON")
        connection.execute("PRAGMA temp_store=MEMORY")
        if not readonly:
            # What is deleted is overwritten where its page is written anyway: it costs nothing that can be measured,
            # and whoever is to be forgotten is not left between the rows of others.
            connection.execute("PRAGMA secure_delete=FAST")
            if made:  # possible only while the file is empty: freed space can then be given back in small steps
                connection.execute("PRAGMA auto_vacuum=INCREMENTAL")
            connection.execute("PRAGMA journal_mode=WAL")
            connection.execute("PRAGMA journal_size_limit=67108864")
    except (apsw.Error, OSError) as error:
        raise SetupError(
            f"the store {path} cannot be opened: {error}; restore a backup or move the file aside"
        ) from None
    return connection
