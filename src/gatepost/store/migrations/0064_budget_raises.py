"""A budget is raised for the period that runs, by whoever agreed to that."""

from gatepost.store.port import Db


def apply(db: Db) -> None:
    # Millionths of a USD that may be spent in this period beyond the budget.
    db.define("ALTER TABLE spending ADD COLUMN raised {int} NOT NULL DEFAULT 0")
