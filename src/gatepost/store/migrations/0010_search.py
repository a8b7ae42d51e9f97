"""Full text over the ledger; a room's messages by when they were said; what failed.

What waits to be indexed is noted by triggers, so that whoever writes a message, changes or deletes it need not know; it
is indexed many at a time (`store/search.py`). The index holds no text of its own.
"""

from gatepost.store import search
from gatepost.store.port import Db


def apply(db: Db) -> None:
    db.define("CREATE TABLE unsearched (message_id {int} PRIMARY KEY) {strict}")
    db.define(
        "CREATE VIRTUAL TABLE search USING fts5"
        " (text, marks, content='', contentless_delete=1, tokenize='unicode61 remove_diacritics 2')"
    )
    db.define("INSERT INTO unsearched SELECT id FROM messages WHERE text <> ''")
    while search.index(db, 10_000):
        pass
    db.define(
        "CREATE TRIGGER search_added AFTER INSERT ON messages WHEN NEW.text <> '' BEGIN"
        " INSERT INTO unsearched VALUES (NEW.id); END"
    )
    db.define(
        "CREATE TRIGGER search_changed AFTER UPDATE OF text, instance, address, sender ON messages BEGIN"
        " DELETE FROM search WHERE rowid = OLD.id; INSERT OR IGNORE INTO unsearched VALUES (NEW.id); END"
    )
    db.define(
        "CREATE TRIGGER search_removed AFTER DELETE ON messages BEGIN"
        " DELETE FROM search WHERE rowid = OLD.id; DELETE FROM unsearched WHERE message_id = OLD.id; END"
    )
    db.define("CREATE INDEX messages_said ON messages (instance, address, at, id)")
    db.define("CREATE INDEX inbox_failed ON inbox (folder) WHERE state = 'failed'")
