"""Full text over the ledger: the words of a message, which we split ourselves, and marks of its room and its sender.

They are written with the message, so nothing ever waits to be indexed: there is no table `unsearched`."""

from gatepost.store.port import Db


def apply(db: Db) -> None:
    db.define(
        "CREATE TABLE search (message_id {int} PRIMARY KEY REFERENCES messages (id) ON DELETE CASCADE,"
        " words TSVECTOR NOT NULL)"
    )
    db.define("CREATE INDEX search_words ON search USING GIN (words) WITH (fastupdate = off)")
    db.define("CREATE INDEX messages_said ON messages (instance, address, at, id)")
    db.define("CREATE INDEX inbox_failed ON inbox (folder) WHERE state = 'failed'")
