"""Egress: which hosts a group's sandboxes may reach, and what they tried. `folder` NULL is the whole instance."""

from gatepost.store.port import Db

TABLES = (
    """CREATE TABLE egress_rules (
        id {id},
        folder {text} REFERENCES groups (folder) ON DELETE CASCADE,
        host {text} NOT NULL,                     -- a name covers its sub-domains; '*.name' these alone; '*' every host
        port {int} NOT NULL DEFAULT 0,            -- 0: allowed for 80 and 443, denied for every port
        allow {int} NOT NULL,                     -- 0 | 1; a denial wins
        local {int} NOT NULL DEFAULT 0,           -- 1: the host may have an address of this machine or network
        created_by {text} NOT NULL,
        created_at {int} NOT NULL
    ) {strict}""",
    "CREATE UNIQUE INDEX egress_rules_once ON egress_rules (COALESCE(folder, ''), host, port)",
    """CREATE TABLE egress_log (
        id {id},
        at {int} NOT NULL,                        -- the first time
        last_at {int} NOT NULL,
        times {int} NOT NULL DEFAULT 1,
        folder {text} NOT NULL,
        session_id {text} NOT NULL,
        target {text} NOT NULL,                   -- host:port, or a model endpoint
        verdict {text} NOT NULL,                  -- allowed | denied | failed
        reason {text} NOT NULL
    ) {strict}""",
    "CREATE UNIQUE INDEX egress_log_once ON egress_log (session_id, target, verdict, reason)",
    "CREATE INDEX egress_log_folder ON egress_log (folder, id)",
)


def apply(db: Db) -> None:
    for table in TABLES:
        db.define(table)
