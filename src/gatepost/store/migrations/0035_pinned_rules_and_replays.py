"""Pinned rules: what the gateway tells an agent again after each compaction, for a group or for one of its rooms.
Replays: sessions that are given the messages of another one again, and which of its turns each of theirs repeats."""

from gatepost.store.port import Db


def apply(db: Db) -> None:
    db.define(
        """CREATE TABLE pinned_rules (
            id {id},
            folder {text} NOT NULL REFERENCES groups (folder) ON DELETE CASCADE,
            address {text} NOT NULL DEFAULT '',   -- a room; '': in all rooms of the group
            text {text} NOT NULL,
            added_by {text} NOT NULL,
            added_at {int} NOT NULL
        ) {strict}"""
    )
    db.define("CREATE INDEX pinned_rules_folder ON pinned_rules (folder, id)")
    db.define(
        """CREATE TABLE replays (
            session_id {text} NOT NULL PRIMARY KEY REFERENCES sessions (id) ON DELETE CASCADE,
            source_id {text} NOT NULL,            -- a session, which may be gone
            folder {text} NOT NULL,
            changes {text} NOT NULL,              -- JSON: by its name, what is not as it was
            created_by {text} NOT NULL,
            created_at {int} NOT NULL
        ) {strict}"""
    )
    db.define("CREATE INDEX replays_folder ON replays (folder, created_at)")
    db.define("CREATE INDEX replays_source ON replays (source_id)")
    db.define(
        """CREATE TABLE replay_turns (
            session_id {text} NOT NULL REFERENCES replays (session_id) ON DELETE CASCADE,
            number {int} NOT NULL,                -- and the thread of its messages
            source_turn {text} NOT NULL,
            PRIMARY KEY (session_id, number)
        ) {strict}"""
    )
