"""The indexes of open inbox rows say the same by comparisons. For a list of more than two values SQLite fills a table,
for each of these indexes, in every statement that writes an inbox row: measured, that was half of its time."""

from gatepost.store.port import Db

ENDS = ("answered", "silent", "observed", "refused", "cancelled", "failed")


def apply(db: Db) -> None:
    is_open = " AND ".join(f"state <> '{each}'" for each in ENDS)
    for name in ("inbox_open", "inbox_open_session", "inbox_open_tasks"):
        db.define(f"DROP INDEX {name}")
    db.define(f"CREATE INDEX inbox_open ON inbox (next_at) WHERE {is_open}")
    db.define(f"CREATE INDEX inbox_open_session ON inbox (session_id, seq) WHERE {is_open}")
    db.define(f"CREATE INDEX inbox_open_tasks ON inbox (session_id, seq) WHERE mode = 'task' AND {is_open}")
