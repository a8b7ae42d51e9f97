"""Indexes for what would otherwise read more with every message, and the anchor of a shortened audit chain."""

from gatepost.store.port import Db


def apply(db: Db) -> None:
    db.define("DROP INDEX outbox_session")
    db.define("CREATE INDEX outbox_session ON outbox (session_id, seq) WHERE session_id IS NOT NULL")
    db.define("CREATE INDEX outbox_target ON outbox (target_id) WHERE target_id IS NOT NULL")
    db.define("CREATE INDEX permissions_pending_session ON permissions (session_id) WHERE state = 'pending'")
    db.define("CREATE INDEX destinations_room ON destinations (folder, instance, address)")
    db.define(
        """CREATE TABLE audit_anchor (
            only {int} NOT NULL PRIMARY KEY CHECK (only = 1),
            seq {int} NOT NULL,                     -- of the last row that was removed
            hash {text} NOT NULL,
            at {int} NOT NULL                       -- when it was removed
        ) {strict}"""
    )
