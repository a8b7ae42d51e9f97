"""Earlier versions of what agents are told: the texts of AGENTS.md that people wrote or that were found changed."""

from gatepost.store.port import Db


def apply(db: Db) -> None:
    db.define(
        """CREATE TABLE instructions (
            id {id},
            folder {text} NOT NULL REFERENCES groups (folder) ON DELETE CASCADE,
            digest {text} NOT NULL,
            text {text} NOT NULL,
            source {text} NOT NULL,               -- written | put_back | found
            written_by {text} NOT NULL,           -- a person, operator, agent:FOLDER; '': whoever uses the machine
            written_at {int} NOT NULL
        ) {strict}"""
    )
    db.define("CREATE INDEX instructions_folder ON instructions (folder, id)")
