"""Groups that watch others: what reaches the source is context for the observer; and a way to a conversation's rows."""

from gatepost.store.port import Db


def apply(db: Db) -> None:
    db.define(
        """CREATE TABLE watchers (
            observer {text} NOT NULL REFERENCES groups (folder) ON DELETE CASCADE,
            source {text} NOT NULL REFERENCES groups (folder) ON DELETE CASCADE,
            added_by {text} NOT NULL,
            added_at {int} NOT NULL,
            PRIMARY KEY (source, observer),
            CHECK (observer <> source)
        ) {strict}"""
    )
    db.run("UPDATE groups SET open = 0")  # nobody has opened any: until now nothing could be seen by it
    db.define("CREATE INDEX outbox_session ON outbox (session_id, seq) WHERE seq > 0")
    db.define("CREATE INDEX turns_session ON turns (session_id, started_at)")
