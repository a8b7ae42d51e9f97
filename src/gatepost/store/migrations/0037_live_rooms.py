"""The conversations of a room are found by those that live. Isolated runs of a task leave a closed one each, and the
index over all of them is read through once for each that is over."""

from gatepost.store.port import Db


def apply(db: Db) -> None:
    db.define(
        "CREATE INDEX sessions_live_room ON sessions (address, folder, instance)"
        " WHERE closed_at IS NULL AND mode <> 'isolated'"
    )
