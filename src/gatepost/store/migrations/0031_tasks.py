"""Scheduled tasks, on whose behalf each was made, and their firings: one row for each time that came, once."""

from gatepost.store.port import Db


def apply(db: Db) -> None:
    db.define(
        """CREATE TABLE tasks (
            id {text} NOT NULL PRIMARY KEY,
            folder {text} NOT NULL REFERENCES groups (folder) ON DELETE CASCADE,
            instance {text} NOT NULL,                   -- the room where it runs and speaks
            address {text} NOT NULL,
            thread {text} NOT NULL,
            prompt {text} NOT NULL,                     -- wakes the agent; '': there is a text
            text {text} NOT NULL,                       -- is delivered as it is, and wakes nobody
            script {text} NOT NULL,                     -- runs in the sandbox before the prompt; '': none
            kind {text} NOT NULL,                       -- cron | every | once
            schedule {text} NOT NULL,                   -- as it was written
            every {int} NOT NULL,                       -- microseconds between two times; 0: of another kind
            zone {text} NOT NULL,
            context {text} NOT NULL,                    -- group | isolated
            missed {text} NOT NULL,                     -- skip | once | all
            state {text} NOT NULL,                      -- active | paused | completed | cancelled
            reason {text} NOT NULL,                     -- why it is not active
            next_at {int},                              -- NULL: it does not fire
            max_runs {int},
            expires_at {int},
            runs {int} NOT NULL,                        -- firings so far, skipped ones not counted
            failures {int} NOT NULL,                    -- in a row
            created_by {text} NOT NULL,                 -- a person, agent:FOLDER, or gatepost
            depth {int} NOT NULL,                       -- steps from agent to agent behind it
            created_at {int} NOT NULL,
            updated_at {int} NOT NULL
        ) {strict}"""
    )
    db.define("CREATE INDEX tasks_due ON tasks (state, next_at)")
    db.define("CREATE INDEX tasks_folder ON tasks (folder, state)")
    db.define(
        """CREATE TABLE task_origins (
            task_id {text} NOT NULL REFERENCES tasks (id) ON DELETE CASCADE,
            ordinal {int} NOT NULL,                     -- 0: who pays
            person {text} NOT NULL,                     -- '': nobody
            instance {text} NOT NULL,
            address {text} NOT NULL,
            thread {text} NOT NULL,
            PRIMARY KEY (task_id, ordinal)
        ) {strict}"""
    )
    db.define(
        """CREATE TABLE firings (
            id {id},
            task_id {text} NOT NULL REFERENCES tasks (id) ON DELETE CASCADE,
            due_at {int} NOT NULL,
            fired_at {int} NOT NULL,
            state {text} NOT NULL,  -- queued | sent | answered | silent | failed | skipped | cancelled
            reason {text} NOT NULL,
            times {int} NOT NULL,                       -- how many due times this row stands for: 1, or more if skipped
            message_id {int},                           -- what it put into the ledger; NULL: nothing
            session_id {text} NOT NULL,                 -- that works on it; '': none
            turn_id {text} NOT NULL,                    -- '': none yet
            ended_at {int}
        ) {strict}"""
    )
    db.define("CREATE UNIQUE INDEX firings_once ON firings (task_id, due_at)")
    db.define("CREATE UNIQUE INDEX firings_message ON firings (message_id)")
    db.define("CREATE INDEX firings_open ON firings (task_id) WHERE state = 'queued'")
    db.define(
        "CREATE INDEX inbox_open_tasks ON inbox (session_id, seq) WHERE mode = 'task'"
        " AND state NOT IN ('answered', 'silent', 'observed', 'refused', 'cancelled', 'failed')"
    )
    db.define("CREATE INDEX firings_age ON firings (fired_at)")
