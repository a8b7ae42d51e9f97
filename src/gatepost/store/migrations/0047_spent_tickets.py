"""Tickets of sign-ins that were used: each is good once, at whichever gateway its browser comes back."""

from gatepost.store.port import Db


def apply(db: Db) -> None:
    db.define(
        """CREATE TABLE spent_tickets (
            id {text} NOT NULL PRIMARY KEY,
            expires_at {int} NOT NULL  -- it is good for nothing from then on, and forgotten
        ) {strict}"""
    )
    db.define("CREATE INDEX spent_tickets_expiry ON spent_tickets (expires_at)")
