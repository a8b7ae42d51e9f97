"""Indexes for turns that sleep until somebody decides, and for the number of requests that wait in one group."""

from gatepost.store.port import Db


def apply(db: Db) -> None:
    db.define("CREATE INDEX requests_open_session ON requests (session_id, turn_id) WHERE notified_at IS NULL")
    db.define("CREATE INDEX requests_pending_folder ON requests (folder) WHERE state = 'pending'")
