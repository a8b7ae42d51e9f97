"""A request keeps how a call failed that was allowed, so that whoever allowed it at the terminal can look it up."""

from gatepost.store.port import Db


def apply(db: Db) -> None:
    db.define("ALTER TABLE requests ADD COLUMN failure {text} NOT NULL DEFAULT ''")
