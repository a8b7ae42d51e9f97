"""Where the gateway is root, each world has a host uid of its own. A row stays when its groups go: the number is not
given to anybody else, because files of it may be left."""

from gatepost.store.port import Db


def apply(db: Db) -> None:
    db.define(
        """CREATE TABLE uids (
            world {text} NOT NULL PRIMARY KEY,      -- the first part of a group's folder
            uid {int} NOT NULL UNIQUE,
            assigned_at {int} NOT NULL
        ) {strict}"""
    )
