"""What a conversation keeps besides its messages: a note that people pinned, and the summary that it began with.

A table of its own: the row of a session is read with each message, and these are long. The index is for what a
conversation has cost lately."""

from gatepost.store.port import Db


def apply(db: Db) -> None:
    db.define(
        """CREATE TABLE session_notes (
            session_id {text} NOT NULL PRIMARY KEY REFERENCES sessions (id) ON DELETE CASCADE,
            pinned {text} NOT NULL DEFAULT '',          -- shown to the agent with each turn
            pinned_by {text} NOT NULL DEFAULT '',       -- an identity
            summary {text} NOT NULL DEFAULT ''          -- of what was said before; shown to a new conversation
        ) {strict}"""
    )
    db.define("CREATE INDEX costs_session ON costs (session_id, at, micro)")
