"""Watchers: which groups see, as context, what reaches another."""

from gatepost.store.port import Db, inline_read


@inline_read
def list_observers(db: Db, source: str) -> list[str]:
    return [row[0] for row in db.rows("SELECT observer FROM watchers WHERE source = ? ORDER BY observer", (source,))]


def add(db: Db, observer: str, source: str, by: str, now: int) -> bool:
    """False if it did already."""
    return bool(
        db.run(
            "INSERT INTO watchers (observer, source, added_by, added_at) VALUES (?, ?, ?, ?)"
            " ON CONFLICT (source, observer) DO NOTHING",
            (observer, source, by, now),
        )
    )


def remove(db: Db, observer: str, source: str) -> bool:
    return bool(db.run("DELETE FROM watchers WHERE observer = ? AND source = ?", (observer, source)))
