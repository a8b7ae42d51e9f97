"""PostgreSQL does by itself what SQLite's files need from us: autovacuum uses freed space again.

The planner's samples of keys are replaced by the next ANALYZE, which autovacuum runs.
"""

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gatepost.store.postgres.postgres_db import PostgresDb


class PostgresUpkeep:
    def __init__(self, db: "PostgresDb") -> None:
        self._db = db

    def find_damage(self, table: str = "") -> str:
        return ""

    def can_shrink(self) -> bool:
        return True

    def release_pages(self, pages: int) -> int:
        return 0

    def remove_statistics(self) -> None:
        """Nothing of one person can be taken out of them; the next ANALYZE writes them anew."""

    def get_size(self) -> int:
        row = self._db.row("SELECT pg_database_size(current_database())")
        return int(row[0]) if row else 0

    def get_last_id(self, table: str) -> int:
        row = self._db.row("SELECT pg_sequence_last_value(pg_get_serial_sequence(?, 'id')::regclass)", (table,))
        return int(row[0] or 0) if row else 0

    def copy_to(self, path: Path) -> None:
        """A database has no file here."""
