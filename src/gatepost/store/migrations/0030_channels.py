"""Channels that `gatepost channel add` made, and how far each channel has received."""

from gatepost.store.port import Db


def apply(db: Db) -> None:
    db.define(
        """CREATE TABLE channel_instances (
            instance {text} NOT NULL PRIMARY KEY,
            kind {text} NOT NULL,
            settings {text} NOT NULL,  -- JSON, by the last names of the settings; secrets are in `secrets`
            is_on {int} NOT NULL,
            created_at {int} NOT NULL,
            created_by {text} NOT NULL
        ) {strict}"""
    )
    db.define(
        """CREATE TABLE channel_cursors (
            instance {text} NOT NULL,
            name {text} NOT NULL,  -- '' for a channel that reads one stream
            received {text} NOT NULL,  -- all up to here is durable
            acknowledged {text} NOT NULL,  -- and the platform was told so up to here
            updated_at {int} NOT NULL,
            PRIMARY KEY (instance, name)
        ) {strict}"""
    )
