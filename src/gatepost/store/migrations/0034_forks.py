"""Forks: sessions that began with a copy of another one's conversation, and the transcript for whoever has no copy. A
session also says when its conversation was last begun anew."""

from gatepost.store.port import Db


def apply(db: Db) -> None:
    db.define(
        """CREATE TABLE forks (
            child_id {text} NOT NULL PRIMARY KEY REFERENCES sessions (id) ON DELETE CASCADE,
            parent_id {text} NOT NULL,        -- a session, which may be gone
            folder {text} NOT NULL,
            provider {text} NOT NULL,
            conversation {text} NOT NULL,     -- the parent's, which the child goes on with; '': none was copied
            how {text} NOT NULL,              -- copied | transcript
            bytes {int} NOT NULL,             -- of the copied state
            created_at {int} NOT NULL
        ) {strict}"""
    )
    db.define("CREATE INDEX forks_parent ON forks (parent_id)")
    db.define("CREATE INDEX forks_folder ON forks (folder, created_at)")
    db.define("ALTER TABLE sessions ADD COLUMN reset_at {int}")
    # Words of the parent, shown to a conversation that begins without them.
    db.define("ALTER TABLE session_notes ADD COLUMN transcript {text} NOT NULL DEFAULT ''")
