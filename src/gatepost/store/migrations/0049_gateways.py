"""Gateways that share this store: who they are, how long each is known to live, and what each of them does for all.

A store with one gateway has no rows here, and its sessions no owner.
"""

from gatepost.store.port import Db


def apply(db: Db) -> None:
    db.define(
        """CREATE TABLE gateways (
            name {text} NOT NULL PRIMARY KEY,
            epoch {int} NOT NULL,                   -- rises with each life of it: what an earlier one writes is refused
            state {text} NOT NULL,                  -- running | draining | gone
            until {int} NOT NULL,                   -- by the clock of the database: after that it is judged dead
            home {text} NOT NULL,                   -- which home it runs on
            host {text} NOT NULL,
            version {text} NOT NULL,
            schema_number {int} NOT NULL,
            listen {text} NOT NULL,
            capacity {int} NOT NULL,                -- sandboxes that may be awake there at once
            config_digest {text} NOT NULL,
            plugin_digest {text} NOT NULL,
            key_ids {text} NOT NULL,
            started_at {int} NOT NULL
        ) {strict}"""
    )
    db.define(
        """CREATE TABLE duties (
            name {text} NOT NULL PRIMARY KEY,       -- what one gateway at a time does: schedule, channel/NAME
            gateway {text} NOT NULL,                -- that does it; '': nobody
            since {int} NOT NULL
        ) {strict}"""
    )
    db.define("CREATE INDEX sessions_owned ON sessions (owner) WHERE owner <> ''")
    db.define("ALTER TABLE reservations ADD COLUMN gateway {text} NOT NULL DEFAULT ''")
    db.define(
        """CREATE TABLE commands (
            id {text} NOT NULL PRIMARY KEY,
            gateway {text} NOT NULL,                -- that is to do it
            asker {text} NOT NULL,                  -- the gateway that waits for the answer
            kind {text} NOT NULL,                   -- stop | end | renew | obey
            session_id {text} NOT NULL,             -- '': of no session
            arguments {text} NOT NULL,              -- JSON
            state {text} NOT NULL,                  -- waiting | running | done | lost
            answer {text} NOT NULL,                 -- JSON
            created_at {int} NOT NULL,
            done_at {int}
        ) {strict}"""
    )
    db.define("CREATE INDEX commands_by_gateway ON commands (gateway, state)")
    db.define("CREATE INDEX commands_by_asker ON commands (asker, state)")
    db.define(
        """CREATE TABLE group_places (
            world {text} NOT NULL PRIMARY KEY,      -- a group at the top, with all below it
            gateway {text} NOT NULL,                -- that has its folders, where they are not shared
            since {int} NOT NULL,
            moving {int} NOT NULL DEFAULT 0         -- 1: nothing of it is woken, because its files are on their way
        ) {strict}"""
    )
    db.define(
        """CREATE TABLE shared_folders (
            name {text} NOT NULL PRIMARY KEY,
            mark {text} NOT NULL,                   -- lies in the folder: who does not see it there sees another folder
            gateway {text} NOT NULL,                -- that put it there
            since {int} NOT NULL
        ) {strict}"""
    )
    db.define(
        """CREATE TABLE passed_files (
            name {text} NOT NULL,                   -- where it lies on the gateway that has it
            number {int} NOT NULL,                  -- of this piece
            data {blob} NOT NULL,
            message_id {int},                       -- that it came with; NULL: it is sent, or not known yet
            at {int} NOT NULL,
            PRIMARY KEY (name, number)
        ) {strict}"""
    )
    db.define("CREATE INDEX passed_files_message ON passed_files (message_id) WHERE message_id IS NOT NULL")
    db.define(
        """CREATE TABLE group_moves (
            id {text} NOT NULL PRIMARY KEY,
            world {text} NOT NULL,
            source {text} NOT NULL,                 -- the gateway that has its files
            target {text} NOT NULL,                 -- the one that is to have them
            state {text} NOT NULL,                  -- wanted | packed | arrived | done | failed
            sessions {text} NOT NULL,               -- JSON: the ids of those that go with it
            files {int} NOT NULL,
            bytes {int} NOT NULL,
            digest {text} NOT NULL,                 -- of every name, mode and content, by the source
            note {text} NOT NULL,                   -- why it failed, or what somebody should know
            created_at {int} NOT NULL,
            ended_at {int}
        ) {strict}"""
    )
    db.define("CREATE UNIQUE INDEX group_moves_open ON group_moves (world) WHERE ended_at IS NULL")
    db.define("ALTER TABLE audit ADD COLUMN gateway {text} NOT NULL DEFAULT ''")
    db.define("ALTER TABLE audit ADD COLUMN number {int}")
    db.define("CREATE UNIQUE INDEX audit_chains ON audit (gateway, number) WHERE gateway <> ''")
    db.define(
        """CREATE TABLE audit_anchors (
            gateway {text} NOT NULL PRIMARY KEY,    -- whose chain begins later
            seq {int} NOT NULL,                     -- of the last row that was removed, of whichever chain
            number {int} NOT NULL,                  -- of the last row that was removed of this one
            hash {text} NOT NULL,
            at {int} NOT NULL                       -- when it was removed
        ) {strict}"""
    )
    db.run("INSERT INTO audit_anchors (gateway, seq, number, hash, at) SELECT '', seq, seq, hash, at FROM audit_anchor")
    db.define("DROP TABLE audit_anchor")
