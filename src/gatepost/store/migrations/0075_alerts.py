"""What is not well is told to somebody: one row while it lasts, and what was said about it."""

from gatepost.store.port import Db


def apply(db: Db) -> None:
    db.define(
        """CREATE TABLE alerts (
            id {text} PRIMARY KEY,
            condition {text} NOT NULL,
            subject {text} NOT NULL,              -- a channel, a group …; '': there is one alone
            gateway {text} NOT NULL,              -- whose machine it is about; '': the store's
            detail {text} NOT NULL,               -- a number or a day, as it was last seen
            since {int} NOT NULL,
            cleared_at {int},                     -- since when it is not seen any more
            told_at {int},
            told_key {text} NOT NULL,             -- of the message; several may share one
            told_instance {text} NOT NULL,
            tries {int} NOT NULL,                 -- messages that were made to tell of it
            next_at {int},                        -- before then nobody is told: it could not be delivered
            muted_until {int},
            over_at {int},
            over_key {text} NOT NULL
        ) {strict}"""
    )
    db.define("CREATE UNIQUE INDEX alerts_open ON alerts (condition, subject, gateway) WHERE over_at IS NULL")
    db.define("CREATE INDEX alerts_over ON alerts (over_at) WHERE over_at IS NOT NULL")
