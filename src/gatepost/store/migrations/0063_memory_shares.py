"""Facts of a conversation are kept once, what was forgotten can be undone, and nobody fills an agent's memory alone."""

from gatepost.store.port import Db


def apply(db: Db) -> None:
    # The conversation, the readers and the words of a fact that a conversation was summed up to; '': anything else.
    db.define("ALTER TABLE memories ADD COLUMN fact_key {text} NOT NULL DEFAULT ''")
    # How far whoever ended it was to be trusted; '': the operator, or nobody.
    db.define("ALTER TABLE memories ADD COLUMN ended_trust {text} NOT NULL DEFAULT ''")
    db.define("CREATE UNIQUE INDEX memories_fact ON memories (folder, fact_key) WHERE fact_key <> ''")
    db.define(
        "CREATE INDEX memories_live_reader ON memories (folder, scope, person, instance, address, id)"
        " WHERE ended_at IS NULL"
    )
    db.define("CREATE INDEX memories_live_speaker ON memories (folder, speaker, id) WHERE ended_at IS NULL")
    db.define(
        "CREATE INDEX memories_live_expiring ON memories (folder, expires_at, id)"
        " WHERE ended_at IS NULL AND expires_at IS NOT NULL"
    )
    db.define("CREATE INDEX memories_ended_lately ON memories (ended_at) WHERE ended_trust <> ''")
