"""People choose the language of the gateway's own texts."""

from gatepost.store.port import Db


def apply(db: Db) -> None:
    db.define("ALTER TABLE users ADD COLUMN language {text} NOT NULL DEFAULT ''")
