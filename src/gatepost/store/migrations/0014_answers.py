"""An answer holds for what was asked and for nothing else: requests are told apart by what they say, not only by a name
that a provider may give twice. What was answered before cannot be compared, so it is asked again."""

from gatepost.store.port import Db

KEPT = (
    "id, session_id, turn_id, request, kind, tool, input, answer, follow_up, next_mode, state, reason, asked_at,"
    " answered_at, answered_by"
)


def apply(db: Db) -> None:
    db.define("ALTER TABLE permissions RENAME TO permissions_before")
    db.define("DROP INDEX permissions_pending")
    db.define(
        """CREATE TABLE permissions (
            id {text} NOT NULL PRIMARY KEY,
            session_id {text} NOT NULL REFERENCES sessions (id) ON DELETE CASCADE,
            turn_id {text} NOT NULL,
            request {text} NOT NULL,                -- as the provider named it
            digest {text} NOT NULL DEFAULT '',      -- of everything that was asked
            kind {text} NOT NULL,
            tool {text} NOT NULL,
            input {text} NOT NULL,
            cut {int} NOT NULL DEFAULT 0,           -- 1: `input` is an excerpt, the provider holds the whole
            answer {text} NOT NULL DEFAULT '{{}}',
            follow_up {text} NOT NULL DEFAULT '',
            next_mode {text} NOT NULL DEFAULT '',
            state {text} NOT NULL,
            reason {text} NOT NULL DEFAULT '',
            asked_at {int} NOT NULL,
            answered_at {int},
            answered_by {text} NOT NULL DEFAULT '',
            UNIQUE (session_id, turn_id, request, digest)
        ) {strict}"""
    )
    db.define(f"INSERT INTO permissions ({KEPT}) SELECT {KEPT} FROM permissions_before")
    db.define("DROP TABLE permissions_before")
    db.define("CREATE INDEX permissions_pending ON permissions (asked_at) WHERE state = 'pending'")
