"""Secrets, sealed with a key that is not in the store, and the record of their uses, which holds no value."""

from gatepost.store.port import Db

TABLES = (
    """CREATE TABLE secrets (
        scope {text} NOT NULL,                    -- '' the gateway | folder:acme/eng | user:telegram:user/9
        name {text} NOT NULL,
        folder {text} REFERENCES groups (folder) ON DELETE CASCADE,
        user_id {text} REFERENCES users (id) ON DELETE CASCADE,
        key_id {text} NOT NULL,                   -- which key of the ring
        nonce {blob} NOT NULL,
        sealed {blob} NOT NULL,                   -- AES-GCM; scope, name and key_id are sealed in with the value
        created_at {int} NOT NULL,
        updated_at {int} NOT NULL,
        used_at {int},
        PRIMARY KEY (scope, name)
    ) {strict}""",
    """CREATE TABLE secret_uses (
        id {id},
        at {int} NOT NULL,
        name {text} NOT NULL,
        scope {text},                             -- whose it was; NULL: nobody above the caller has one
        folder {text} NOT NULL,                   -- for which group
        user_id {text} NOT NULL DEFAULT '',
        purpose {text} NOT NULL DEFAULT '',
        outcome {text} NOT NULL                   -- used | missing | unreadable
    ) {strict}""",
)


def apply(db: Db) -> None:
    for table in TABLES:
        db.define(table)
