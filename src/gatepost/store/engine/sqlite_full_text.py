"""Full text on SQLite: FTS5. Triggers note what was written, changed and deleted. Many messages are indexed at a time,
since writing the index with each one would cost more than the message."""

from collections.abc import Sequence

from gatepost.store.engine.full_text import LOOKED_AT, IndexedText, TextCondition, list_marks, separate_characters
from gatepost.store.port import Db

AT_ONCE = 8 * LOOKED_AT  # characters that are indexed in one transaction: everybody's writes wait for it


class SqliteFullText:
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
