"""Passwords of the web page, and the browsers in which a person has signed in before."""

from gatepost.store.port import Db


def apply(db: Db) -> None:
    db.define(
        """CREATE TABLE passwords (
            user_id {text} NOT NULL PRIMARY KEY REFERENCES users (id) ON DELETE CASCADE,  -- an identity of the page
            hash {text} NOT NULL,                   -- argon2id, with its salt and its cost
            changed_at {int} NOT NULL
        ) {strict}"""
    )
    db.define(
        """CREATE TABLE known_browsers (
            hash {text} NOT NULL PRIMARY KEY,       -- of a cookie that signs nobody in
            user_id {text} NOT NULL REFERENCES users (id) ON DELETE CASCADE,
            created_at {int} NOT NULL
        ) {strict}"""
    )
    db.define("CREATE INDEX known_browsers_user ON known_browsers (user_id, created_at)")
