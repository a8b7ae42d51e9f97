"""Pinned rules: what the gateway tells an agent again after each compaction, for a group or for one of its rooms."""

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
