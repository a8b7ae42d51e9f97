"""Skills that a person agreed to: their contents, by digest, and for whom each holds.

What agents had in their folders until now was listed without anybody's word. Each group that is there gets a mark: its
skills are adopted once, at the next start, before any agent of it runs.
"""

from gatepost.store.port import Db


def apply(db: Db) -> None:
    db.define(
        """CREATE TABLE skill_contents (
            digest {text} NOT NULL PRIMARY KEY,
            description {text} NOT NULL,
            facts {text} NOT NULL,                -- JSON: what its files say of it
            size {int} NOT NULL,
            files {int} NOT NULL,
            source {text} NOT NULL,               -- path | git | zip | draft | agent | person | before | replay
            origin {text} NOT NULL,               -- where it was read from
            revision {text} NOT NULL,             -- of a git repository: the commit
            pack {blob} NOT NULL,                 -- its files, compressed
            added_at {int} NOT NULL
        ) {strict}"""
    )
    db.define(
        """CREATE TABLE skills (
            id {id},
            folder {text} NOT NULL,               -- '': every agent
            below {int} NOT NULL,                 -- 1: the groups below it have it, too
            session_id {text} NOT NULL,           -- of a replay, which alone has it; else ''
            name {text} NOT NULL,
            digest {text} NOT NULL REFERENCES skill_contents (digest),
            source {text} NOT NULL,
            origin {text} NOT NULL,
            revision {text} NOT NULL,
            agreed_by {text} NOT NULL,
            agreed_at {int} NOT NULL
        ) {strict}"""
    )
    db.define("CREATE UNIQUE INDEX skills_name ON skills (folder, session_id, name)")
    db.define("CREATE INDEX skills_digest ON skills (digest)")
    db.define("CREATE INDEX skills_session ON skills (session_id)")
    db.define("CREATE TABLE skill_adoptions (folder {text} NOT NULL PRIMARY KEY) {strict}")
    db.define("INSERT INTO skill_adoptions (folder) SELECT folder FROM groups")
