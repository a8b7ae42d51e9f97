"""Errands: pieces of work that one agent gave to another. Requests show what a call would change."""

from gatepost.store.port import Db


def apply(db: Db) -> None:
    db.define(
        """CREATE TABLE errands (
            id {text} PRIMARY KEY,
            call_key {text} NOT NULL UNIQUE,        -- of the call that gave it out: made again, it is one errand
            parent {text} NOT NULL,                 -- the errand in whose work it was given out; '': none
            caller_folder {text} NOT NULL,
            caller_session {text} NOT NULL,
            caller_turn {text} NOT NULL,            -- '': between two turns
            rights {text} NOT NULL,                 -- of that turn
            instance {text} NOT NULL,               -- where that turn speaks, and its result returns
            address {text} NOT NULL,
            thread {text} NOT NULL,
            folder {text} NOT NULL,                 -- who does it
            session_id {text} NOT NULL,             -- in which conversation …
            room {text} NOT NULL,                   -- … and room, whose threads are errands
            message_id {int} NOT NULL REFERENCES messages (id) ON DELETE CASCADE,  -- that asks for it
            state {text} NOT NULL,                  -- open | stopping | done | failed | cancelled
            reason {text} NOT NULL DEFAULT '',
            result_id {int},                        -- the message by which its result returned
            created_at {int} NOT NULL,
            ended_at {int}                          -- NULL: it is not over
        ) {strict}"""
    )
    db.define("CREATE INDEX errands_open ON errands (id) WHERE ended_at IS NULL")
    db.define("CREATE INDEX errands_open_caller ON errands (caller_session) WHERE ended_at IS NULL")
    db.define("CREATE INDEX errands_open_folder ON errands (folder) WHERE ended_at IS NULL")
    db.define("CREATE INDEX errands_open_room ON errands (room) WHERE ended_at IS NULL")
    db.define("CREATE INDEX errands_open_parent ON errands (parent) WHERE ended_at IS NULL")
    db.define("CREATE INDEX errands_message ON errands (message_id)")
    db.define("ALTER TABLE requests ADD COLUMN preview {text} NOT NULL DEFAULT ''")
