"""Messages that no person wrote where they are: on whose behalf, from which rooms, and how many steps lie behind them.
Files that agents gave away, by turn and group: what counts against their budgets."""

from gatepost.store.port import Db


def apply(db: Db) -> None:
    db.define(
        """CREATE TABLE origins (
            message_id {int} NOT NULL REFERENCES messages (id) ON DELETE CASCADE,
            ordinal {int} NOT NULL,                     -- 0: who pays
            person {text} NOT NULL,                 -- '': nobody
            instance {text} NOT NULL,
            address {text} NOT NULL,
            thread {text} NOT NULL,
            depth {int} NOT NULL,                       -- the same in all rows of a message
            PRIMARY KEY (message_id, ordinal)
        ) {strict}"""
    )
    db.define(
        """CREATE TABLE given_files (
            key {text} NOT NULL PRIMARY KEY,        -- of the effect that they belong to
            folder {text} NOT NULL,
            session_id {text} NOT NULL,
            turn_id {text} NOT NULL,                -- '': outside of a turn
            bytes {int} NOT NULL,                       -- as they are on the host: holes count
            at {int} NOT NULL
        ) {strict}"""
    )
    db.define("CREATE INDEX given_files_group ON given_files (folder, at)")
    db.define("CREATE INDEX given_files_turn ON given_files (session_id, turn_id)")
