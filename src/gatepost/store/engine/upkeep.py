"""Needs of a store's files besides rows: SQLite's own. `Db.upkeep` has it, or that of another engine."""

from pathlib import Path
from typing import Protocol

import apsw

STATISTICS = ("sqlite_stat4", "sqlite_stat1")


class Upkeep(Protocol):
    """The upkeep of one connection."""

    def find_damage(self, table: str = "") -> str:
        """Return what is wrong with the pages that keep the rows, though each may still be read; '' if nothing."""
        ...

    def can_shrink(self) -> bool:
        """Return True if freed space is given back to the disk."""
        ...

    def release_pages(self, pages: int) -> int:
        """Give so many free pages back to the disk; how many are left."""
        ...

    def remove_statistics(self) -> None:
        """The query planner keeps samples of keys, which name rooms and people. It takes new ones by itself."""
        ...

    def get_size(self) -> int:
        """Bytes on the disk."""
        ...

    def get_last_id(self, table: str) -> int:
        """The last id that a table has given out, also if its row is gone."""
        ...

    def copy_to(self, path: Path) -> None:
        """Copy the store as it is open, whatever has become of its file. `path`: a new file."""
        ...


class SqliteUpkeep:
    def __init__(self, connection: apsw.Connection) -> None:
        self._connection = connection

    def find_damage(self, table: str = "") -> str:
        pragma = f"integrity_check({table})" if table else "quick_check(1)"
        try:
            found = self._connection.execute(f"PRAGMA {pragma}").fetchall()
        except apsw.CorruptError as error:
            return str(error)
        return "" if not found or found[0][0] == "ok" else str(found[0][0])

    def can_shrink(self) -> bool:
        """A file that was made by an older gatepost uses its free pages again and stays as large as it is."""
        return bool(self._connection.pragma("auto_vacuum") == 2)

    def release_pages(self, pages: int) -> int:
        if not self.can_shrink():
            return 0
        self._connection.execute(f"PRAGMA incremental_vacuum({int(pages)})").fetchall()
        return int(self._connection.pragma("freelist_count"))

    def remove_statistics(self) -> None:
        for table in STATISTICS:
            if self._connection.execute("SELECT 1 FROM sqlite_schema WHERE name = ?", (table,)).fetchall():
                self._connection.execute(f"DELETE FROM {table}")

    def get_size(self) -> int:
        """With the log beside the file."""
        path = Path(self._connection.filename)
        both = (path, path.with_name(f"{path.name}-wal"))
        return sum(each.stat().st_size for each in both if each.exists())

    def get_last_id(self, table: str) -> int:
        row = self._connection.execute("SELECT seq FROM sqlite_sequence WHERE name = ?", (table,)).get
        return int(row or 0)

    def copy_to(self, path: Path) -> None:
        writing = apsw.Connection(str(path))
        try:
            with writing.backup("main", self._connection, "main") as backup:
                while not backup.done:
                    backup.step(-1)
            writing.execute("PRAGMA journal_mode=DELETE")
        finally:
            writing.close()
