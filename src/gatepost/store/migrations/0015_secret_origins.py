"""A model's key belongs to the endpoint that it was given for and is sent to no other, so a place may hold several of
one name, one for each endpoint."""

from gatepost.store.port import Db

KEPT = "scope, name, folder, user_id, key_id, nonce, sealed, created_at, updated_at, used_at"


def apply(db: Db) -> None:
    db.define("ALTER TABLE secrets RENAME TO secrets_before")
    db.define(
        """CREATE TABLE secrets (
            scope {text} NOT NULL,                    -- '' the gateway | folder:acme/eng | user:telegram:user/9
            name {text} NOT NULL,
            origin {text} NOT NULL DEFAULT '',        -- of a model's key: https://api.openai.com:443
            folder {text} REFERENCES groups (folder) ON DELETE CASCADE,
            user_id {text} REFERENCES users (id) ON DELETE CASCADE,
            key_id {text} NOT NULL,                   -- which key of the ring
            nonce {blob} NOT NULL,
            sealed {blob} NOT NULL,                   -- AES-GCM; scope, name and key_id are sealed in with the value
            created_at {int} NOT NULL,
            updated_at {int} NOT NULL,
            used_at {int},
            PRIMARY KEY (scope, name, origin)
        ) {strict}"""
    )
    # '' for what was set before: taken for the gateway's own endpoint, and written down at the next start.
    db.define(f"INSERT INTO secrets ({KEPT}) SELECT {KEPT} FROM secrets_before")
    db.define("DROP TABLE secrets_before")
