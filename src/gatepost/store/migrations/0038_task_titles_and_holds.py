"""Titles of tasks, and the holds that people have agreed to for the texts of a task."""

from gatepost.store.port import Db


def apply(db: Db) -> None:
    db.define("ALTER TABLE tasks ADD COLUMN title {text} NOT NULL DEFAULT ''")  # for people; '': none
    db.define(
        """CREATE TABLE task_holds (
            task_id {text} NOT NULL REFERENCES tasks (id) ON DELETE CASCADE,
            folder {text} NOT NULL,                     -- whose rule it is
            rule {text} NOT NULL,                       -- that holds `send`, and that somebody agreed to
            PRIMARY KEY (task_id, folder, rule)
        ) {strict}"""
    )
