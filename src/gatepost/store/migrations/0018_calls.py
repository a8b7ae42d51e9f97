"""Calls of tools by what they ask for: a turn that is continued gives the same call the same key again."""

from gatepost.store.port import Db


def apply(db: Db) -> None:
    db.define(
        """CREATE TABLE calls (
            turn_id {text} NOT NULL REFERENCES turns (id) ON DELETE CASCADE,
            digest {text} NOT NULL,                 -- of the tool's name and its arguments
            number {int} NOT NULL,                  -- 1 for the first such call of the turn
            settled {int} NOT NULL DEFAULT 0,       -- 1: the agent went on after its answer, and does not repeat it
            PRIMARY KEY (turn_id, digest, number)
        ) {strict}"""
    )
