"""Pages that may show a chat link in a frame, and the visitors who came by one. Messages that people pinned."""

from gatepost.store.port import Db


def apply(db: Db) -> None:
    db.define("ALTER TABLE tokens ADD COLUMN origins {text} NOT NULL DEFAULT ''")  # of a chat link: between blanks
    db.define(
        """CREATE TABLE link_visitors (
            id {text} NOT NULL PRIMARY KEY,
            hash {text} NOT NULL UNIQUE,
            token_id {text} NOT NULL REFERENCES tokens (id) ON DELETE CASCADE,
            identity {text} NOT NULL,  -- as which she writes
            address {text} NOT NULL,  -- her own room, below the link's
            created_at {int} NOT NULL,
            seen_at {int} NOT NULL  -- when she wrote last
        ) {strict}"""
    )
    db.define("CREATE INDEX link_visitors_seen ON link_visitors (token_id, seen_at)")
    db.define("CREATE INDEX link_visitors_identity ON link_visitors (identity)")
    db.define(
        """CREATE TABLE room_pins (
            message_id {int} NOT NULL PRIMARY KEY REFERENCES messages (id) ON DELETE CASCADE,
            instance {text} NOT NULL,
            address {text} NOT NULL,
            pinned_by {text} NOT NULL,
            pinned_at {int} NOT NULL
        ) {strict}"""
    )
    db.define("CREATE INDEX room_pins_room ON room_pins (instance, address, pinned_at)")
