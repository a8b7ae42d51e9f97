"""One row that names the state of the rules, so that what was read of them can be kept until they change."""

from gatepost.store.port import Db


def apply(db: Db) -> None:
    db.define(
        "CREATE TABLE rule_state (only {int} NOT NULL PRIMARY KEY CHECK (only = 1), name {text} NOT NULL) {strict}"
    )
    db.run("INSERT INTO rule_state (only, name) VALUES (1, ?)", ("first",))
