"""Files that people send stay with the conversation, and may come after their message. A message says what people see
of it now, the topic that it belongs to, and whose words it passes on."""

from gatepost.store.port import Db


def apply(db: Db) -> None:
    db.define(
        """CREATE TABLE session_files (
            session_id {text} NOT NULL REFERENCES sessions (id) ON DELETE CASCADE,
            row_id {int} NOT NULL,                -- of the inbox: what its folder is called
            message_id {int} NOT NULL REFERENCES messages (id) ON DELETE CASCADE,
            files {text} NOT NULL,                -- JSON: names, and where they lie below the media folder
            bytes {int} NOT NULL,
            dropped_for {int},                    -- the later row whose files needed its space
            PRIMARY KEY (session_id, row_id)
        ) {strict}"""
    )
    db.define("CREATE INDEX session_files_message ON session_files (message_id)")
    db.define(
        """CREATE TABLE awaited_files (
            message_id {int} NOT NULL PRIMARY KEY REFERENCES messages (id) ON DELETE CASCADE,
            names {text} NOT NULL,                -- JSON
            until {int} NOT NULL                  -- when nobody fetches them any more
        ) {strict}"""
    )
    db.define("ALTER TABLE messages ADD COLUMN topic {text} NOT NULL DEFAULT ''")  # a #topic, which is no thread
    db.define("ALTER TABLE turns ADD COLUMN topic {text} NOT NULL DEFAULT ''")  # of the messages that it answers
    # '': as it was written | edited | deleted | shown: an edit or a deletion, which its message shows
    db.define("ALTER TABLE messages ADD COLUMN revision {text} NOT NULL DEFAULT ''")
    db.define("ALTER TABLE messages ADD COLUMN forward_from {text}")  # NULL: the sender's own words
