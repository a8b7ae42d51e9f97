"""Whether a turn ran in a room around a card is asked with each bare answer there."""

from gatepost.store.port import Db


def apply(db: Db) -> None:
    db.define("CREATE INDEX turns_room ON turns (instance, address, ended_at)")
