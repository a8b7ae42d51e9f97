"""MEMORY.md: the memory of an agent that everybody may know, as a file in its folder."""

from gatepost.store.port import Db


def apply(db: Db) -> None:
    db.define(
        """CREATE TABLE memory_views (
            folder {text} PRIMARY KEY REFERENCES groups (folder) ON DELETE CASCADE,
            lines {text} NOT NULL,                -- JSON: a digest of each line that was last written, by its entry
            written_at {int} NOT NULL
        ) {strict}"""
    )
