"""Indexes for what would otherwise read more with every message, and the anchor of a shortened audit chain.

A conversation's outgoing rows are found by number, and for the removal of a session or a message, without reading the
outbox; a session's pending permissions without reading its answered ones. The search index is tidied by whoever removes
messages, a little at a time.
"""

from gatepost.store.port import Db


def apply(db: Db) -> None:
    db.define("DROP INDEX outbox_session")
    db.define("CREATE INDEX outbox_session ON outbox (session_id, seq) WHERE session_id IS NOT NULL")
    db.define("CREATE INDEX outbox_target ON outbox (target_id) WHERE target_id IS NOT NULL")
    db.define("CREATE INDEX permissions_pending_session ON permissions (session_id) WHERE state = 'pending'")
    # By itself the index merges a whole segment as soon as a tenth of it is deleted: 140 ms at 100,000 messages.
    db.define("INSERT INTO search (search, rank) VALUES ('deletemerge', 0)")
    db.define("CREATE INDEX destinations_room ON destinations (folder, instance, address)")
    db.define(
        """CREATE TABLE audit_anchor (
            only {int} NOT NULL PRIMARY KEY CHECK (only = 1),
            seq {int} NOT NULL,                     -- of the last row that was removed
            hash {text} NOT NULL,
            at {int} NOT NULL                       -- when it was removed
        ) {strict}"""
    )
