"""Memories have vectors, by which they are found if an endpoint for embeddings is set."""

from gatepost.store.port import Db


def apply(db: Db) -> None:
    db.define(
        """CREATE TABLE memory_vectors (
            memory_id {int} PRIMARY KEY REFERENCES memories (id) ON DELETE CASCADE,
            folder {text} NOT NULL,
            reader {text} NOT NULL,               -- as in memory_words
            model {text} NOT NULL,                -- that made it; of another one it is made anew
            dimensions {int} NOT NULL,            -- 0: the model makes none of this text
            signs {text} NOT NULL,                -- a bit for each dimension, in hexadecimal digits
            vector {blob} NOT NULL                -- of length 1, 4 bytes for each dimension
        ) {strict}"""
    )
    # With all that a search looks at first.
    db.define(
        "CREATE INDEX memory_vectors_reader ON memory_vectors (folder, reader, model, dimensions, signs, memory_id)"
    )
