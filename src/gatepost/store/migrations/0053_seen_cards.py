"""A card by which somebody decides goes out before what its agent has queued in the same room (`urgent`), and it knows
whether it showed everything (`whole`). Nobody knows that of earlier cards."""

from gatepost.store.port import Db


def apply(db: Db) -> None:
    db.define("ALTER TABLE outbox ADD COLUMN urgent {int} NOT NULL DEFAULT 0")
    db.define("ALTER TABLE request_cards ADD COLUMN whole {int} NOT NULL DEFAULT 0")
    db.define("DROP INDEX outbox_open")
    db.define(
        "CREATE INDEX outbox_open ON outbox (instance, address, urgent DESC, id) WHERE state IN ('pending', 'sending')"
    )
