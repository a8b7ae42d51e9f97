"""Forks that people asked for in a chat, as long as they have no answer. Sessions of errands are found by last use."""

from gatepost.store.port import Db


def apply(db: Db) -> None:
    db.define(
        """CREATE TABLE wanted_forks (
            message_id {int} NOT NULL PRIMARY KEY REFERENCES messages (id) ON DELETE CASCADE,  -- that asks for it
            parent_id {text} NOT NULL,        -- a session, which may be gone
            topic {text} NOT NULL,
            tries {int} NOT NULL DEFAULT 0    -- how often a gateway has begun with it
        ) {strict}"""
    )
    db.define("CREATE INDEX errands_parent ON errands (parent, id) WHERE parent <> ''")
    db.define(
        "CREATE INDEX sessions_open_errands ON sessions (active_at, address)"
        " WHERE instance = 'errands' AND closed_at IS NULL"
    )
