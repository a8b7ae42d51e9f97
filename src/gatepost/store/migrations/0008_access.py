"""Who may what: rules on groups, rows of the access list, and who is a member of which role."""

from gatepost.store.port import Db


def apply(db: Db) -> None:
    db.define(
        """CREATE TABLE grants (
            id {id},
            folder {text} NOT NULL REFERENCES groups (folder) ON DELETE CASCADE,
            rule {text} NOT NULL,
            added_by {text} NOT NULL,
            added_at {int} NOT NULL
        ) {strict}"""
    )
    db.define("CREATE INDEX grants_folder ON grants (folder, id)")
    db.define(
        """CREATE TABLE acl (
            id {id},
            principal {text} NOT NULL,
            action {text} NOT NULL,
            scope {text} NOT NULL,
            effect {text} NOT NULL CHECK (effect IN ('allow', 'deny')),
            params {text} NOT NULL DEFAULT '',
            predicate {text} NOT NULL DEFAULT '',
            grant_option {int} NOT NULL DEFAULT 0,
            granted_by {text} NOT NULL,
            granted_at {int} NOT NULL,
            UNIQUE (principal, action, scope, params, predicate, effect)
        ) {strict}"""
    )
    db.define(
        """CREATE TABLE memberships (
            child {text} NOT NULL,
            parent {text} NOT NULL,
            added_by {text} NOT NULL,
            added_at {int} NOT NULL,
            PRIMARY KEY (child, parent),
            CHECK (child <> parent)
        ) {strict}"""
    )
    db.define("CREATE INDEX sessions_address ON sessions (address)")  # whose room is it?
