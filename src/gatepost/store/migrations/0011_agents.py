"""Agents as a service: what a session needs to be one, what it did (its timeline), and what its provider asks."""

from gatepost.store.port import Db

COLUMNS = (
    "agent {int} NOT NULL DEFAULT 0",
    "model {text} NOT NULL DEFAULT ''",
    "permission_mode {text} NOT NULL DEFAULT ''",
    "cwd {text} NOT NULL DEFAULT ''",
    "labels {text} NOT NULL DEFAULT '{{}}'",
    "parent {text} NOT NULL DEFAULT ''",
    "notify {int} NOT NULL DEFAULT 0",
    "archived_at {int}",
)


def apply(db: Db) -> None:
    for column in COLUMNS:
        db.define(f"ALTER TABLE sessions ADD COLUMN {column}")
    db.define("CREATE INDEX sessions_agents ON sessions (active_at) WHERE agent = 1")
    db.define(
        """CREATE TABLE timeline (
            session_id {text} NOT NULL REFERENCES sessions (id) ON DELETE CASCADE,
            seq {int} NOT NULL,
            at {int} NOT NULL,
            turn_id {text} NOT NULL DEFAULT '',
            kind {text} NOT NULL,
            data {text} NOT NULL,
            PRIMARY KEY (session_id, seq)
        ) {strict}"""
    )
    db.define(
        """CREATE TABLE permissions (
            id {text} NOT NULL PRIMARY KEY,
            session_id {text} NOT NULL REFERENCES sessions (id) ON DELETE CASCADE,
            turn_id {text} NOT NULL,
            request {text} NOT NULL,
            kind {text} NOT NULL,
            tool {text} NOT NULL,
            input {text} NOT NULL,
            state {text} NOT NULL,
            reason {text} NOT NULL DEFAULT '',
            asked_at {int} NOT NULL,
            answered_at {int},
            answered_by {text} NOT NULL DEFAULT '',
            UNIQUE (session_id, turn_id, request)
        ) {strict}"""
    )
    db.define("CREATE INDEX permissions_pending ON permissions (asked_at) WHERE state = 'pending'")
