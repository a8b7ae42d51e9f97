"""What did not surely go out is found without a look at all that did."""

from gatepost.store.port import Db


def apply(db: Db) -> None:
    db.define("CREATE INDEX outbox_unclear ON outbox (updated_at) WHERE state IN ('uncertain', 'failed')")
