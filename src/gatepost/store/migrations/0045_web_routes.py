"""Pages of groups: who sees which path, and which host names lead to a group's pages."""

from gatepost.store.port import Db


def apply(db: Db) -> None:
    db.define(
        """CREATE TABLE web_routes (
            path {text} NOT NULL PRIMARY KEY,       -- /pub/FOLDER/… or /priv/FOLDER/…, without a slash at its end
            folder {text} NOT NULL REFERENCES groups (folder) ON DELETE CASCADE,  -- in whose part the path lies
            access {text} NOT NULL,                 -- public, auth, deny, redirect
            redirect_to {text} NOT NULL DEFAULT '',
            owner {text} NOT NULL DEFAULT '',       -- the group whose agent made it; '': a person
            created_by {text} NOT NULL,
            created_at {int} NOT NULL
        ) {strict}"""
    )
    db.define("CREATE INDEX web_routes_by_folder ON web_routes (folder)")
    db.define(
        """CREATE TABLE web_hosts (
            hostname {text} NOT NULL PRIMARY KEY,
            folder {text} NOT NULL REFERENCES groups (folder) ON DELETE CASCADE,
            owner {text} NOT NULL DEFAULT '',       -- the group whose agent bound it; '': a person
            created_by {text} NOT NULL,
            created_at {int} NOT NULL
        ) {strict}"""
    )
    db.define("CREATE INDEX web_hosts_by_folder ON web_hosts (folder)")
