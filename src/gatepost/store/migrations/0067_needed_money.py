"""A budget that has no room for a call keeps how much that call could have cost."""

from gatepost.store.port import Db


def apply(db: Db) -> None:
    # Millionths of a USD, of the last call that did not fit.
    db.define("ALTER TABLE spending ADD COLUMN needed {int} NOT NULL DEFAULT 0")
