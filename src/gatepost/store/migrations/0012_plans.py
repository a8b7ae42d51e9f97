"""What an approved plan brings about, and what exactly a request was answered with."""

from gatepost.store.port import Db

COLUMNS = (
    "answer {text} NOT NULL DEFAULT '{{}}'",
    "follow_up {text} NOT NULL DEFAULT ''",
    "next_mode {text} NOT NULL DEFAULT ''",
)


def apply(db: Db) -> None:
    for column in COLUMNS:
        db.define(f"ALTER TABLE permissions ADD COLUMN {column}")
