"""Webhook links: what the agent is told about what comes by one, and how its senders prove themselves."""

from gatepost.store.port import Db


def apply(db: Db) -> None:
    db.define("ALTER TABLE tokens ADD COLUMN instructions {text} NOT NULL DEFAULT ''")  # of whoever made the link
    db.define("ALTER TABLE tokens ADD COLUMN signature {text} NOT NULL DEFAULT 'none'")  # none, github, slack, stripe
    db.define("ALTER TABLE tokens ADD COLUMN signing_key {text} NOT NULL DEFAULT ''")  # the name of its secret
    db.define(
        """CREATE TABLE link_signatures (
            token_id {text} NOT NULL REFERENCES tokens (id) ON DELETE CASCADE,
            hash {text} NOT NULL,                   -- of a signature that was accepted: it counts once
            seen_at {int} NOT NULL,
            PRIMARY KEY (token_id, hash)
        ) {strict}"""
    )
    db.define("CREATE INDEX link_signatures_age ON link_signatures (token_id, seen_at)")
