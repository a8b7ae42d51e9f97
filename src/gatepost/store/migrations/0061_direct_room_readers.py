"""A direct room keeps everybody who was ever seen there: `direct_rooms` has each person's latest room alone."""

from gatepost.store.port import Db


def apply(db: Db) -> None:
    db.define(
        """CREATE TABLE direct_room_readers (
            instance {text} NOT NULL,
            address {text} NOT NULL,
            identity {text} NOT NULL,
            PRIMARY KEY (instance, address, identity)
        ) {strict}"""
    )
    db.define(
        "INSERT INTO direct_room_readers (instance, address, identity)"
        " SELECT instance, address, user_id FROM direct_rooms UNION"
        " SELECT r.instance, r.address, m.sender FROM rooms r JOIN messages m"
        " ON m.instance = r.instance AND m.address = r.address AND m.direction = 'in' AND m.kind = 'chat'"
        " WHERE r.direct = 1 AND m.sender <> ''"
    )
