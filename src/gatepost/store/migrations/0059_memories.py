"""Agents remember: entries with their source and scope, and an index of their words."""

from gatepost.store.port import Db


def apply(db: Db) -> None:
    db.define(
        """CREATE TABLE memories (
            id {id},
            folder {text} NOT NULL REFERENCES groups (folder) ON DELETE CASCADE,
            text {text} NOT NULL,
            about {text} NOT NULL,                -- the person or thing, as the agent calls it
            scope {text} NOT NULL,                -- person | room | agent | family
            person {text} NOT NULL,               -- whom alone it may be told, with scope person
            instance {text} NOT NULL,             -- of the room in which alone it may be told, with scope room
            address {text} NOT NULL,
            message_id {int} REFERENCES messages (id) ON DELETE SET NULL,  -- its source
            speaker {text} NOT NULL,              -- who said it; '': nobody, or the operator
            trust {text} NOT NULL,                -- operator | member | stranger | read | concluded
            turn_id {text} NOT NULL,              -- in which it was remembered; '': in none
            created_at {int} NOT NULL,
            expires_at {int},                        -- NULL: for good
            ended_at {int},                       -- NULL: it is in force
            ended_by {text} NOT NULL,
            replaces {int}                        -- the entry that it took the place of
        ) {strict}"""
    )
    db.define("CREATE INDEX memories_folder ON memories (folder, ended_at, id)")
    db.define("CREATE INDEX memories_message ON memories (message_id)")
    db.define("CREATE INDEX memories_replaces ON memories (replaces)")
    db.define(
        """CREATE TABLE memory_words (
            folder {text} NOT NULL,
            word {text} NOT NULL,                 -- its beginning, folded
            reader {text} NOT NULL,               -- who may be told: what scope, person and room of the entry say
            memory_id {int} NOT NULL REFERENCES memories (id) ON DELETE CASCADE,
            PRIMARY KEY (folder, word, reader, memory_id)
        ) {strict}"""
    )
    db.define("CREATE INDEX memory_words_memory ON memory_words (memory_id)")
