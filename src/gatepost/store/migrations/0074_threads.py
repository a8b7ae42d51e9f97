"""Threads of rooms have names for everybody, and each person puts them on top or away for themselves."""

from gatepost.store.port import Db


def apply(db: Db) -> None:
    db.define(
        """CREATE TABLE threads (
            instance {text} NOT NULL,
            address {text} NOT NULL,
            thread {text} NOT NULL,
            name {text} NOT NULL,
            named_by {text} NOT NULL,
            named_at {int} NOT NULL,
            PRIMARY KEY (instance, address, thread)
        ) {strict}"""
    )
    db.define(
        """CREATE TABLE thread_marks (
            person {text} NOT NULL,
            instance {text} NOT NULL,
            address {text} NOT NULL,
            thread {text} NOT NULL,
            mark {text} NOT NULL,                 -- pinned | archived
            marked_at {int} NOT NULL,
            PRIMARY KEY (person, instance, address, thread)
        ) {strict}"""
    )
