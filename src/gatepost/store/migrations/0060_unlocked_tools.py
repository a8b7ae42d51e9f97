"""Sessions know which tools their agents found."""

from gatepost.store.port import Db


def apply(db: Db) -> None:
    db.define("ALTER TABLE sessions ADD COLUMN unlocked {text} NOT NULL DEFAULT ''")
