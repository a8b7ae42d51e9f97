"""Turns that sleep until somebody decides, and a cap of what waits in one group: indexes for both. Whether a person may
put other arguments in place of those that are asked for is a request's own fact."""

from gatepost.store.port import Db


def apply(db: Db) -> None:
    db.define("ALTER TABLE requests ADD COLUMN editable {int} NOT NULL DEFAULT 0")
    db.run("UPDATE requests SET editable = 1 WHERE kind = 'call'")
    db.define("CREATE INDEX requests_open_session ON requests (session_id, turn_id) WHERE notified_at IS NULL")
    db.define("CREATE INDEX requests_pending_folder ON requests (folder) WHERE state = 'pending'")
