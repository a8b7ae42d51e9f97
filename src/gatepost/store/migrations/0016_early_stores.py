"""Stores that were made before the last edits of migration 0001 lack what those edits added; they get it here.

Migration 0001 was edited four times after it was first used, so the number of a store's schema did not say what it had.
A store that has everything is left as it is.
"""

import re

from gatepost.store.port import Db

INBOX = """CREATE TABLE inbox (
        id {id},
        message_id {int} NOT NULL REFERENCES messages (id) ON DELETE CASCADE,
        session_id {text} REFERENCES sessions (id) ON DELETE SET NULL,  -- NULL: it reached none, or its group is gone
        folder {text} NOT NULL DEFAULT '',
        seq {int} NOT NULL DEFAULT 0,
        mode {text} NOT NULL DEFAULT 'trigger',   -- trigger | observe
        rights {text} NOT NULL DEFAULT 'guest',   -- owner | admin | member | guest
        turn_id {text} REFERENCES turns (id) ON DELETE SET NULL,
        given {int} NOT NULL DEFAULT 0,           -- 1: the provider has it
        state {text} NOT NULL,
        reason {text} NOT NULL DEFAULT '',
        tries {int} NOT NULL DEFAULT 0,
        next_at {int},                            -- NULL only in an end state
        owner {text} NOT NULL DEFAULT '',
        lease_until {int} NOT NULL DEFAULT 0,
        epoch {int} NOT NULL DEFAULT 0,
        created_at {int} NOT NULL,
        updated_at {int} NOT NULL
    ) {strict}"""
COLUMNS = (
    "id, message_id, session_id, folder, seq, mode, rights, turn_id, given, state, reason, tries, next_at, owner,"
    " lease_until, epoch, created_at, updated_at"
)
OBSERVED = "CREATE INDEX inbox_observed ON inbox (session_id, seq) WHERE mode = 'observe' AND given = 0"


def apply(db: Db) -> None:
    sessions, turns = db.definition("sessions"), db.definition("turns")
    for column in ("window_messages", "window_chars"):
        if sessions and column not in sessions:
            db.define(f"ALTER TABLE sessions ADD COLUMN {column} {{int}}")
    if turns and "spared" not in turns:
        db.define("ALTER TABLE turns ADD COLUMN spared {int} NOT NULL DEFAULT 0")
    if turns and "UNIQUE" not in db.definition("turns_open"):
        _one_open_turn(db)
    if re.search(r"session_id TEXT REFERENCES sessions \(id\) ON DELETE CASCADE", db.definition("inbox")):
        _keep_rows_of_removed_groups(db)
    if turns and not db.definition("inbox_observed"):
        db.define(OBSERVED)


def _one_open_turn(db: Db) -> None:
    """Of several open turns the newest is the one that a runner has."""
    db.run(
        "UPDATE turns SET state = 'failed', error = 'a newer turn was open', ended_at = next_at WHERE ended_at IS NULL"
        " AND EXISTS (SELECT 1 FROM turns o WHERE o.session_id = turns.session_id AND o.ended_at IS NULL"
        " AND (o.started_at > turns.started_at OR (o.started_at = turns.started_at AND o.id > turns.id)))"
    )
    db.define("DROP INDEX IF EXISTS turns_open")
    db.define("CREATE UNIQUE INDEX turns_open ON turns (session_id) WHERE ended_at IS NULL")


def _keep_rows_of_removed_groups(db: Db) -> None:
    """A reference's action cannot be changed in place. Nothing refers to the inbox, so it can be replaced."""
    around = db.rows(
        "SELECT sql FROM sqlite_schema WHERE tbl_name = 'inbox' AND type IN ('index', 'trigger') AND sql IS NOT NULL"
        " ORDER BY type, name"
    )
    db.define("ALTER TABLE inbox RENAME TO inbox_before")
    for (name,) in db.rows("SELECT name FROM sqlite_schema WHERE tbl_name = 'inbox_before' AND type = 'index'"):
        if not name.startswith("sqlite_"):
            db.define(f"DROP INDEX {name}")
    db.define(INBOX)
    db.run(f"INSERT INTO inbox ({COLUMNS}) SELECT {COLUMNS} FROM inbox_before")
    db.define("DROP TABLE inbox_before")
    for (sql,) in around:
        db.run(sql)
