"""Full text on PostgreSQL: a `tsvector` of each message, written with it, and a GIN index over them."""

from collections.abc import Sequence

from gatepost.store.engine.full_text import LOOKED_AT, IndexedText, TextCondition
from gatepost.store.engine.query_tree import parse_query
from gatepost.store.port import Db
from gatepost.store.postgres.tsquery import render_exact, render_for_index, render_marks
from gatepost.store.postgres.words import make_vector

_MATCHES = "f.words @@ CAST(? AS tsquery)"


class PostgresFullText:
    source = "search f JOIN messages m ON m.id = f.message_id"
    key = "f.message_id"
    sees_new = False

    def prepare(self, db: Db) -> None:
        """Plan by how frequent the words are that are looked for: what is best for one is a hundred times too slow for
        another."""
        db.row("SELECT set_config('plan_cache_mode', 'force_custom_plan', true)")

    def match(self, query: str, marks: Sequence[Sequence[str]]) -> TextCondition:
        given = render_marks(marks)
        if not query:
            return TextCondition(_MATCHES, (" & ".join(given),))
        tree = parse_query(query)
        wanted, exact = render_for_index(tree), render_exact(tree)
        if not exact:
            return TextCondition("FALSE", ())
        found = " & ".join([wanted, *given])
        if wanted == exact:
            return TextCondition(_MATCHES, (found,))
        # As a function it is asked only of rows that the index found.
        return TextCondition(f"{_MATCHES} AND ts_match_vq(f.words, CAST(? AS tsquery))", (found, exact))

    def add(self, db: Db, texts: Sequence[IndexedText]) -> None:
        for each in texts:
            if each.text:
                db.append("INSERT INTO search (message_id, words) VALUES", (each.message_id, make_vector(each)))

    def renew(self, db: Db, message_id: int) -> None:
        db.flush()  # it may be among those that are new
        db.run("DELETE FROM search WHERE message_id = ?", (message_id,))
        row = db.row(
            f"SELECT id, instance, address, sender, substr(text, 1, {LOOKED_AT}) FROM messages WHERE id = ?",
            (message_id,),
        )
        if row is not None:
            self.add(db, [IndexedText(*row)])

    def index(self, db: Db, most: int) -> int:
        """Nothing ever waits."""
        return 0

    def is_behind(self, db: Db) -> bool:
        return False

    def list_unindexed(self, db: Db, most: int) -> list[tuple[int, str]]:
        return []

    def merge(self, db: Db, pages: int) -> bool:
        """The server's own vacuum does it."""
        return False
