"""Money: what was spent (costs), what may be spent (budgets), what may yet be spent by calls in flight (reservations).

`spending` adds both up by scope and period, so that a reservation is judged by looking at a few rows. Nothing here
refers to a group or a session by key: what was spent stays spent when they are gone.
"""

from gatepost.store.port import Db

TABLES = (
    """CREATE TABLE costs (
        id {id},
        key {text} NOT NULL UNIQUE,               -- reservation/<id>, or the call of a tool: booked once
        at {int} NOT NULL,                        -- when it was let through: the day and month that it counts in
        booked_at {int} NOT NULL,
        folder {text} NOT NULL,
        user_id {text} NOT NULL,                  -- '': nobody's
        session_id {text} NOT NULL,
        turn_id {text} NOT NULL,
        model {text} NOT NULL,
        source {text} NOT NULL,                   -- proxy | external
        measured {int} NOT NULL,                  -- 0: booked in full, because the usage was never learnt
        input {int} NOT NULL,
        output {int} NOT NULL,
        cache_read {int} NOT NULL,
        cache_write {int} NOT NULL,
        micro {int} NOT NULL CHECK (micro >= 0)   -- millionths of a USD
    ) {strict}""",
    "CREATE INDEX costs_at ON costs (at)",
    """CREATE TABLE budgets (
        kind {text} NOT NULL,                     -- group | user | instance
        name {text} NOT NULL,                     -- a folder, a user, '' for the instance
        period {text} NOT NULL,                   -- day | month, UTC
        micro {int} NOT NULL CHECK (micro >= 0),
        set_by {text} NOT NULL,
        set_at {int} NOT NULL,
        PRIMARY KEY (kind, name, period)
    ) {strict}""",
    """CREATE TABLE spending (
        kind {text} NOT NULL,
        name {text} NOT NULL,
        period {text} NOT NULL,
        starts_at {int} NOT NULL,
        spent {int} NOT NULL DEFAULT 0,
        reserved {int} NOT NULL DEFAULT 0 CHECK (reserved >= 0),
        told_near {int} NOT NULL DEFAULT 0,       -- 1: the note at 80 % was given
        told_stop {int} NOT NULL DEFAULT 0,       -- 1: the message at the end was given
        PRIMARY KEY (kind, name, period, starts_at)
    ) {strict}""",
    """CREATE TABLE reservations (
        id {id},
        at {int} NOT NULL,
        folder {text} NOT NULL,
        user_id {text} NOT NULL,
        session_id {text} NOT NULL,
        turn_id {text} NOT NULL,
        model {text} NOT NULL,
        worst {int} NOT NULL CHECK (worst >= 0)   -- millionths of a USD
    ) {strict}""",
)


def apply(db: Db) -> None:
    for table in TABLES:
        db.define(table)
